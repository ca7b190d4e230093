package fast

import (
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A matmul in precision int8 quantizes its rows to int8 if byteDots supports the block format of B: integer sums are
// faster than decoding blocks.

// byteRows holds rows of floats as int8, with a scale for each group of 32: x is about scale*byte. See [ir.ByteSteps].
type byteRows struct {
	bytes        []int8
	scales, sums []float32 // for each group: the scale, and the sum of the bytes times the scale
}

var idleRows sync.Pool // of *byteRows

// takesBytes reports whether a matmul with rows of k floats is computed in int8.
func takesBytes(c *interp.Call, b *interp.Stored, k int) bool {
	return k > 0 && c.Node.Attrs().String_("precision") == ir.PrecisionBytes && byteDots[b.DType] != nil &&
		k%b.DType.BlockElems() == 0
}

// roundRows rounds the floats, rows of a multiple of 32.
func roundRows(c *interp.Call, x []float32) (*byteRows, error) {
	r, ok := idleRows.Get().(*byteRows)
	groups := len(x) / ir.ByteGroup
	if !ok || cap(r.bytes) < len(x) {
		r = &byteRows{bytes: make([]int8, len(x)), scales: make([]float32, groups), sums: make([]float32, groups)}
	}
	r.bytes, r.scales, r.sums = r.bytes[:len(x)], r.scales[:groups], r.sums[:groups]
	err := c.ParallelRange(groups, ir.ByteGroup, func(lo, hi int) {
		roundBytes(&r.bytes[lo*ir.ByteGroup], &r.scales[lo], &r.sums[lo], &x[lo*ir.ByteGroup], hi-lo)
	})
	return r, err
}

// multiplyBytes sets out, with the given row stride, to the dot products of rows of a, beginning at row, and cols rows
// of b. Rows have k elements, and first is the index of b's first element. A result's bits depend only on its two rows.
func multiplyBytes(out []float32, stride int, a *byteRows, row int, b *interp.Stored, first, rows, cols, k int) {
	elems, size := b.DType.BlockElems(), b.DType.BlockBytes()
	blocks := k / elems
	src := b.Bytes[first/elems*size : (first+cols*k)/elems*size]
	_, _ = a.bytes[:(row+rows)*k], out[:(rows-1)*stride+cols] // the assembly checks no bounds
	dots := byteDots[b.DType]
	for i := range rows {
		bytes, group := &a.bytes[(row+i)*k], (row+i)*k/ir.ByteGroup
		scale, sum := &a.scales[group], &a.sums[group]
		j := 0
		for ; j+4 <= cols; j += 4 {
			dots(&out[i*stride+j], bytes, scale, sum, &src[j*blocks*size], blocks*size, blocks)
		}
		for ; j < cols; j++ { // one row, four times
			var tile [4]float32
			dots(&tile[0], bytes, scale, sum, &src[j*blocks*size], 0, blocks)
			out[i*stride+j] = tile[0]
		}
	}
}
