package fast

import (
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A matmul in precision int8 rounds the rows of A to int8 if there is a function for the block format of B. Sums of
// integers are faster than decoding the blocks.

// byteRows has rows of floats rounded to int8, with a scale for each group of 32: a float is about scale*byte. See
// [ir.ByteSteps].
type byteRows struct {
	bytes  []int8
	scales []float32 // by group
	sums   []float32 // by group: the sum of its bytes, multiplied by the scale; formats with offsets need it
}

// idleRows holds the *byteRows that are not in use. roundRows reuses their memory.
var idleRows sync.Pool

// scratchWords returns memory for n floats with undefined content, and the function that releases it for reuse.
func scratchWords(n int) (words []float32, free func()) {
	list, ok := idleWords.Get().(*[]float32)
	if !ok || cap(*list) < n {
		list = new(make([]float32, n))
	}
	return (*list)[:n], func() { idleWords.Put(list) }
}

// idleWords holds the memory of scratchWords that is not in use, as *[]float32.
var idleWords sync.Pool

// takesBytes reports whether a matmul is computed in int8. b is its second matrix, of blocks, and k the length of the
// rows, which is the contraction length.
func takesBytes(c *interp.Call, b *interp.Stored, k int) bool {
	return k > 0 && c.Node.Attrs().String_("precision") == ir.PrecisionBytes && vector != nil &&
		vector.byteDots[b.DType] != nil && k%b.DType.BlockElems() == 0
}

// roundRows rounds rows of floats, which follow one another in x, to int8. The length of a row must be a multiple of
// 32. Callers return the result to idleRows after use.
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

// multiplyBytes computes the dot products of rows of a with rows of b, which has cols rows of blocks from element first
// on. a has them from index row on, and a row has k elements. out has a row per row of a, with the given stride between
// rows. A result's bits depend only on its two rows.
func multiplyBytes(out []float32, stride int, a *byteRows, row int, b *interp.Stored, first, rows, cols, k int) {
	elems, size := b.DType.BlockElems(), b.DType.BlockBytes()
	blocks := k / elems
	src := b.Bytes[first/elems*size : (first+cols*k)/elems*size]
	_, _ = a.bytes[:(row+rows)*k], out[:(rows-1)*stride+cols] // the assembly checks no bounds
	dots := vector.byteDots[b.DType]
	for i := range rows {
		bytes, group := &a.bytes[(row+i)*k], (row+i)*k/ir.ByteGroup
		scale, sum := &a.scales[group], &a.sums[group]
		j := 0
		for ; j+4 <= cols; j += 4 {
			dots(&out[i*stride+j], bytes, scale, sum, &src[j*blocks*size], blocks*size, blocks)
		}
		for ; j < cols; j++ { // the function always takes four rows of b, so this passes one row four times
			var tile [4]float32
			dots(&tile[0], bytes, scale, sum, &src[j*blocks*size], 0, blocks)
			out[i*stride+j] = tile[0]
		}
	}
}
