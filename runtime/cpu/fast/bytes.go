package fast

import (
	"math"
	"sync"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A matmul in precision int8 rounds the rows of A to int8 if there is a function for the block format of B. Sums of
// integers are faster than decoding the blocks to floats.

// byteRows has rows of floats rounded to int8, with a scale for each group of 32: a float is about scale*byte. See
// [ir.ByteSteps]. Assembly that multiplies panels (see panelForm) reads the field records. Other assembly reads the
// fields scales and sums.
type byteRows struct {
	bytes   []int8
	scales  []float32 // by group
	sums    []float32 // by group: the sum of its bytes, multiplied by the scale; formats with offsets need it
	records []float32 // by group: scale, sum, and as integers -128 times the sum of all bytes and of each half
}

// recordWords is the number of words of a record.
const recordWords = 5

// panelForm has the assembly for a block format that multiplies panelCols rows of blocks at a time. These rows must be
// interleaved: the first block of each row, then the second block of each, and so on. Of these panelCols blocks, the
// first words come first, then the second words, and so on. A panel is panelCols rows, decoded to int8.
type panelForm struct {
	// Interleaves panelCols rows of n blocks, which are ldb bytes apart.
	interleave func(out, b *byte, ldb, n int)
	row        func(out *float32, a *int8, records *float32, b *byte, n, panels int) // multiplies blocks by one row
	pack       func(panel, b *byte, n int)                                           // makes a panel
	tiles      []panelTile
	bytes      int // of a panel, for each 32 elements of a row
}

// panelTile is a function that multiplies `rows` rows by a panel. panelForm lists several, by descending number of
// rows. The last one multiplies a single row.
type panelTile struct {
	rows int
	of   func(out *float32, ldo int, a *int8, lda int, records *float32, ldr int, panel *byte, n int)
}

// HasInt8Dots reports whether the processor has an instruction for dot products of int8 (AVX-512 VNNI). Then matmuls in
// precision int8 are faster than exact ones for any number of rows. Without it they are faster only for few rows.
func HasInt8Dots() bool { return vector != nil && vector.panels != nil }

// panelCols is the number of rows of blocks in a panel.
const panelCols = 16

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

// takesBytes reports whether matmul n is computed in int8. t is the block format of its second matrix, and k the
// contraction length.
func takesBytes(n *ir.Node, t ir.DType, k int) bool {
	return k > 0 && n.Attrs().String_("precision") == ir.PrecisionBytes && vector != nil &&
		(vector.byteDots.of(t) != nil || vector.panels.of(t) != nil) && k%t.BlockElems() == 0
}

// interleavedRows returns the rows of b, interleaved in panels of panelCols rows (see [panelForm]). A row has k
// elements. Rows of zeros complete the last panel.
func interleavedRows(b *interp.Stored, rows, k int) []float32 {
	form, blocks := vector.panels.of(b.DType), k/b.DType.BlockElems()
	rowBytes := blocks * b.DType.BlockBytes()
	panels := ceil.Div(rows, panelCols)
	words := make([]float32, panels*panelCols*rowBytes/4)
	out := as[byte](words)
	for first := 0; first < rows; first += panelCols {
		form.interleaveTo(out[first*rowBytes:], b.Bytes[first*rowBytes:], rowBytes, blocks, min(panelCols, rows-first))
	}
	return words
}

// interleaveTo interleaves the rows of one panel. If there are fewer than panelCols, it adds rows of zeros.
func (p *panelForm) interleaveTo(out, b []byte, rowBytes, blocks, rows int) {
	if rows < panelCols { // the assembly reads all rows
		padded := make([]byte, panelCols*rowBytes)
		copy(padded, b[:rows*rowBytes])
		b = padded
	}
	_, _ = out[:panelCols*rowBytes], b[:panelCols*rowBytes] // the assembly checks no bounds
	p.interleave(&out[0], &b[0], rowBytes, blocks)
}

// roundRows rounds rows of floats to int8. The rows follow one another in x, and their length is a multiple of 32.
// Callers return the result to idleRows after use.
func roundRows(c *interp.Call, x []float32) (*byteRows, error) {
	r, ok := idleRows.Get().(*byteRows)
	if !ok {
		r = &byteRows{}
	}
	r.resize(len(x))
	if groups := len(x) / ir.ByteGroup; c.Serial(groups, ir.ByteGroup) {
		r.round(x, 0, groups)
		return r, nil
	}
	err := c.ParallelRange(len(x)/ir.ByteGroup, ir.ByteGroup, func(lo, hi int) { r.round(x, lo, hi) })
	return r, err
}

// resize makes room for n elements.
func (r *byteRows) resize(n int) {
	groups := n / ir.ByteGroup
	r.bytes = resized(r.bytes, n)
	if vector.panels != nil {
		r.records = resized(r.records, groups*recordWords)
	} else {
		r.scales, r.sums = resized(r.scales, groups), resized(r.sums, groups)
	}
}

// resized returns a list of n elements in the memory of list, if that is large enough.
func resized[E any](list []E, n int) []E {
	if cap(list) < n {
		return make([]E, n)
	}
	return list[:n]
}

// round rounds groups lo to hi-1 of x.
func (r *byteRows) round(x []float32, lo, hi int) {
	bytes, from := &r.bytes[lo*ir.ByteGroup], &x[lo*ir.ByteGroup]
	if vector.panels != nil {
		roundRecords(bytes, &r.records[lo*recordWords], from, hi-lo)
	} else {
		roundBytes(bytes, &r.scales[lo], &r.sums[lo], from, hi-lo)
	}
}

// roundGroup rounds a group of floats to int8, without assembly. It returns the scale, and the sum of the bytes times
// the scale.
func roundGroup(bytes []int8, x []float32) (scale, sum float32) {
	top := float32(0)
	for _, v := range x {
		top = max(top, v, -v) // NaN if one is
	}
	steps, scale := ir.ByteSteps(top)
	if scale != scale { // NaN: the group has an element that is NaN or infinite
		return scale, scale
	}
	total := int32(0)
	for i, v := range x {
		bytes[i] = int8(math.RoundToEven(float64(v * steps)))
		total += int32(bytes[i])
	}
	return scale, scale * float32(total)
}

// multiplyBytes computes the dot products of each of `rows` rows of a, from number row on, with each of cols rows of b,
// from element first on. A row has k elements. out gets a row of results per row of a; its rows are stride elements
// apart. A result's bits depend only on its two rows. room is memory of bytesRoom words. interleaved means that b has
// the form that interleavedRows returns, and that first is the start of a panel.
func multiplyBytes(out []float32, stride int, a *byteRows, row int, b *interp.Stored, interleaved bool,
	first, rows, cols, k int, room []float32) {
	elems, size := b.DType.BlockElems(), b.DType.BlockBytes()
	blocks := k / elems
	_, _ = a.bytes[:(row+rows)*k], out[:(rows-1)*stride+cols] // the assembly checks no bounds
	if interleaved {
		src := b.Bytes[first/elems*size:][:ceil.Multiple(cols, panelCols)*blocks*size]
		vector.panels.of(b.DType).multiply(out, stride, a, row, src, blocks*size, blocks, rows, cols, k, room)
		return
	}
	src := b.Bytes[first/elems*size : (first+cols*k)/elems*size]
	if p := vector.panels.of(b.DType); p != nil { // interleave the rows of one panel after the other
		rowBytes := blocks * size
		words := panelCols * rowBytes / 4
		panel := as[byte](room[:words])
		for j := 0; j < cols; j += panelCols {
			n := min(panelCols, cols-j)
			p.interleaveTo(panel, src[j*rowBytes:], rowBytes, blocks, n)
			p.multiply(out[j:], stride, a, row, panel, rowBytes, blocks, rows, n, k, room[words:])
		}
		return
	}
	dots := vector.byteDots.of(b.DType)
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

// bytesRoom returns the size of the memory that multiplyBytes needs, in words of four bytes. t is the format of b.
// interleaved says that b is stored in panels already, so that no panel is copied.
func bytesRoom(t ir.DType, interleaved bool, rows, k int) int {
	p := vector.panels.of(t)
	if p == nil {
		return 0
	}
	words := rows * panelCols
	if rows > 1 {
		words += k / ir.ByteGroup * p.bytes / 4
	}
	if !interleaved {
		words += panelCols * k / t.BlockElems() * t.BlockBytes() / 4
	}
	return words
}

// multiply implements multiplyBytes for interleaved rows: b has `cols` rows of rowBytes bytes each, padded to whole
// panels.
func (p *panelForm) multiply(out []float32, stride int, a *byteRows, row int, b []byte, rowBytes, blocks, rows, cols,
	k int, room []float32) {
	groups := k / ir.ByteGroup
	tile, panel := room[:rows*panelCols], as[byte](room[rows*panelCols:])
	whole := cols / panelCols
	if rows == 1 {
		bytes, record := &a.bytes[row*k], &a.records[row*groups*recordWords]
		if whole > 0 {
			p.row(&out[0], bytes, record, &b[0], blocks, whole)
		}
		if cols > whole*panelCols { // the assembly computes whole panels
			p.row(&tile[0], bytes, record, &b[whole*panelCols*rowBytes], blocks, 1)
			copy(out[whole*panelCols:cols], tile)
		}
		return
	}
	for j := 0; j < cols; j += panelCols {
		n, to, apart := min(panelCols, cols-j), out[j:], stride
		if n < panelCols { // the assembly computes whole panels, so out has no space for the results
			to, apart = tile, panelCols
		}
		p.pack(&panel[0], &b[j*rowBytes], blocks)
		i := 0
		for _, t := range p.tiles {
			for ; i+t.rows <= rows; i += t.rows {
				t.of(&to[i*apart], apart, &a.bytes[(row+i)*k], k, &a.records[(row+i)*groups*recordWords],
					groups*recordWords, &panel[0], groups)
			}
		}
		if n < panelCols {
			for r := range rows {
				copy(out[r*stride+j:][:n], tile[r*panelCols:])
			}
		}
	}
}
