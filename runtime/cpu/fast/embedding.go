package fast

import (
	"errors"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// takesEmbedding reports whether the kernel can compute an embedding: its table must have at least one row, and the
// rows must need no rounding. The table may be quantized.
func takesEmbedding(n *ir.Node) bool {
	table := n.Arg(0)
	dims, err := table.Shape().Eval(nil)
	same := n.DType() == ir.F32 || n.DType() == table.DType() // the result need not be rounded
	return err == nil && dims[0] > 0 && same && (isNarrow(table.DType()) || table.DType().IsBlock())
}

// embedding computes an embedding: it copies or decodes a row of the table for each index.
func embedding(c *interp.Call) error {
	table, ids := c.Args[0], c.Args[1].Ints
	vocab, width := table.Dims[0], table.Dims[1]
	failed := make([]error, len(ids))
	err := c.ParallelRange(len(ids), width, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			// The row of an index out of range is the nearest one.
			at := int(min(max(ids[i], 0), int64(vocab-1))) * width
			row := c.Out[i*width : (i+1)*width]
			if table.Stored != nil {
				failed[i] = decode(row, table.Stored, at)
			} else {
				copy(row, table.Floats[at:])
			}
		}
	})
	return errors.Join(append(failed, err)...)
}
