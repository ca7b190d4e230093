package interp

import (
	"errors"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// quantize encodes rows in blocks. A value that the format cannot represent is a FaultError.
func quantize(c *call) (value, error) {
	x := c.args[0].floats()
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	out, err := makeValue(c.node.DType(), c.dims)
	if err != nil {
		return value{}, err
	}
	err = quant.Quantize(out.block.Bytes, out.typ, narrow, &quant.Options{Workers: c.workers})
	// The error names the element, which a device reports too.
	if bad := (*quant.ValueError)(nil); errors.As(err, &bad) {
		at := int64(bad.Index)
		err = &ir.FaultError{Op: c.node.Op().String(), First: at, Last: at,
			Why: quant.Refusal(out.typ)}
	}
	return out, err
}

// scatterBlocks computes scatter_nd for rows of blocks: updates replace whole rows, which it copies as bytes.
func scatterBlocks(c *call, rows coordinateRows) (value, error) {
	t := c.args[0].typ
	raw, undoList := c.args[0].block.Bytes, c.undo
	if undoList == nil { // not in place
		raw, undoList = slices.Clone(raw), new(undo)
	}
	bytes := func(elems int) int { return elems / t.BlockElems() * t.BlockBytes() }
	to := func(i int) (int, bool) {
		at, ok := rows.at(i)
		return bytes(at), ok
	}
	replace := func(_, update byte) byte { return update }
	noRounding := func([]byte) {}
	changeInPlace(undoList, raw, c.args[2].block.Bytes, bytes(rows.run), to, replace, noRounding)
	return value{typ: t, dims: c.dims, block: newBlocks(t, raw)}, nil
}

// updateBlocks computes dynamic_update_slice along an axis, for rows of blocks. It copies the rows as bytes.
func updateBlocks(c *call, axis int) (value, error) {
	base, update := c.args[0], c.args[1]
	out := value{typ: base.typ, dims: c.dims, block: newBlocks(base.typ, base.block.Bytes)}
	if c.undo == nil {
		out.block.Bytes = slices.Clone(base.block.Bytes)
	}
	inner := elems(base.dims[axis+1:]) / base.typ.BlockElems() * base.typ.BlockBytes() // bytes of a row
	for _, run := range c.updateRuns(axis) {
		for i := range elems(base.dims[:axis]) {
			to, from := (i*base.dims[axis]+run.to)*inner, (i*update.dims[axis]+run.from)*inner
			written := out.block.Bytes[to : to+run.n*inner]
			if c.undo != nil {
				before := slices.Clone(written)
				c.undo.add(func() { copy(written, before) })
			}
			copy(written, update.block.Bytes[from:])
		}
	}
	return out, nil
}
