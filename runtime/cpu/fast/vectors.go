package fast

import (
	"slices"

	"github.com/vkc-go/vkc/internal/disabled"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// assembly has the assembly functions of one width of vectors. They check no bounds. Different widths add in different
// orders, so their sums differ in the last bits.
type assembly struct {
	name     string // as $VKC_DISABLE names it
	lanes    int    // number of float32 elements in a vector
	dots1x4  func(out, a *float32, lda int, b *float32, ldb, n int)
	tile     func(out, a *float32, lda int, b *float32, ldb, n int) // for 4 rows of a and tileCols rows of b
	tileCols int
	weigh4   func(out, weights, rows *float32, ld, n int) // weighted sum of n rows, for four vectors of columns
	weigh1   func(out, weights, rows *float32, ld, n int) // the same for one vector
	dots     byFormat[dotsOf]                             // of b; see multiplyStored
	decoders byFormat[decoder]
	byteDots byFormat[byteDotsOf] // of b; see multiplyBytes
	panels   byFormat[*panelForm] // instead of byteDots; see multiplyBytes
	pairs    []intDots            // see intForm
	quads    []intDots            // nil if there is no instruction for them
	// The mathematical functions among the primitives, by name.
	functions map[string]func(out, x, y, z *float32, n int)
	// The same for 64 bits. Their vectors have half as many elements.
	doubles    map[string]func(out, x, y, z *float64, n int)
	sort       func(x *int64, n int) // for n a power of 2, at least 16
	exchange   exchanges             // see columnSort; nil functions if there is none
	keys       keyFunctions          // the same
	reductions [reducerKinds]reduction[float32]
	// The same for 64 bits.
	wideReductions [reducerKinds]reduction[float64]
	moments        momentsFunction // may be nil
	rowFolds       rowFolds[float32]
	// The same for 64 bits.
	wideRowFolds rowFolds[float64]
	// Applies a number of steps, see fusedStep, to n elements; may be nil.
	fused func(steps *int, count, n int)
	// The functions of narrower vectors on the same processor, or nil.
	narrower *assembly
}

// byFormat has assembly for some formats of a matrix, by [ir.DType].
type byFormat[T any] []T

// of returns the assembly for a format, or the zero value if there is none.
func (l byFormat[T]) of(format ir.DType) (assembly T) {
	if int(format) < len(l) {
		assembly = l[format]
	}
	return assembly
}

// dotsOf computes the dot products of a row of a with four rows of b, which are in the format of their file.
type dotsOf = func(out, a *float32, lda int, b *byte, ldb, n int)

// byteDotsOf computes the dot products of a row of int8 with four rows of n blocks.
type byteDotsOf = func(out *float32, a *int8, scales, sums *float32, b *byte, ldb, n int)

// decoder converts n blocks to float32, or n elements of a format without blocks, where n is a multiple of lanes.
type decoder = func(dst *float32, src *byte, n int)

// vector is the assembly that this package uses, or nil if there is none. Only tests change it.
var vector = widest(assemblies())

// widest returns the last assembly of list that $VKC_DISABLE does not name, or nil.
func widest(list []*assembly) *assembly {
	for _, a := range slices.Backward(list) {
		if !disabled.Has(a.name) {
			return a
		}
	}
	return nil
}

// multiply sets out to the dot products of each of `rows` rows of a with each of cols rows of b. A row of a or b has k
// elements. out has a row per row of a; its rows are stride elements apart. A result's bits depend only on its two
// rows, not on the other rows of the call.
func multiply(out []float32, stride int, a, b []float32, rows, cols, k int) {
	if vector == nil || k == 0 || rows == 0 || cols == 0 {
		multiplyPlain(out, stride, a, b, rows, cols, k)
		return
	}
	_, _, _ = a[:rows*k], b[:cols*k], out[:(rows-1)*stride+cols] // the assembly checks no bounds
	for i := multiplyTiles(out, stride, a, b, rows, cols, k); i < rows; i++ {
		row, last := out[i*stride:][:cols], cols-4
		for j := 0; j <= last; j += 4 {
			vector.dots1x4(&row[j], &a[i*k], k, &b[j*k], k, k)
		}
		switch {
		case cols%4 == 0:
		case last > 0: // the last four columns, some of them again
			vector.dots1x4(&row[last], &a[i*k], k, &b[last*k], k, k)
		default: // one row of b, four times
			var four [4]float32
			for j := range cols {
				vector.dots1x4(&four[0], &a[i*k], k, &b[j*k], 0, k)
				row[j] = four[0]
			}
		}
	}
}

// multiplyTiles computes the dot products of multiply for as many rows of a as fill tiles, and returns their number.
func multiplyTiles(out []float32, stride int, a, b []float32, rows, cols, k int) (i int) {
	const high = 4 // rows of a in a tile
	if rows < high {
		return 0
	}
	wide := vector.tileCols
	var tile [high * 8]float32
	put := func(row, col, n int) {
		for r := range high {
			copy(out[(row+r)*stride+col:][:n], tile[r*n:])
		}
	}
	for ; i+high <= rows; i += high {
		j := 0
		for ; j+wide <= cols; j += wide {
			vector.tile(&tile[0], &a[i*k], k, &b[j*k], k, k)
			put(i, j, wide)
		}
		for ; j < cols; j++ { // four rows of a with one row of b, which is passed as the function's first matrix
			vector.dots1x4(&tile[0], &b[j*k], k, &a[i*k], k, k)
			put(i, j, 1)
		}
	}
	return i
}

// weigh sets out to the sum of rows, each multiplied by its weight. A row has len(out) elements, and the rows follow
// one another.
func weigh(out, weights, rows []float32) {
	e, n := len(out), len(weights)
	if vector == nil || n == 0 {
		weighPlain(out, weights, rows, 0)
		return
	}
	_ = rows[:n*e] // the assembly checks no bounds
	at, lanes := 0, vector.lanes
	for ; at+4*lanes <= e; at += 4 * lanes {
		vector.weigh4(&out[at], &weights[0], &rows[at], e, n)
	}
	for ; at+lanes <= e; at += lanes {
		vector.weigh1(&out[at], &weights[0], &rows[at], e, n)
	}
	if at < e {
		weighPlain(out, weights, rows, at)
	}
}

// multiplyStored multiplies rows of a by rows of b, as multiply does, but b is in a block format, from element first
// on. It decodes b in registers and not to memory. The results have the same bits as multiply's for decoded rows. For
// unsupported formats it does nothing and returns false.
func multiplyStored(out []float32, stride int, a []float32, b *interp.Stored, first, rows, cols, k int) bool {
	elems, size := b.DType.BlockElems(), b.DType.BlockBytes()
	if vector == nil || vector.dots.of(b.DType) == nil || k == 0 || k%max(vector.lanes, elems) != 0 {
		return false
	}
	dots := vector.dots.of(b.DType)
	src, row := b.Bytes[first/elems*size:(first+cols*k)/elems*size], k/elems*size
	_, _ = a[:rows*k], out[:(rows-1)*stride+cols]
	for i := range rows {
		j := 0
		for ; j+4 <= cols; j += 4 {
			dots(&out[i*stride+j], &a[i*k], k, &src[j*row], row, k)
		}
		for ; j < cols; j++ { // one row, four times
			var tile [4]float32
			dots(&tile[0], &a[i*k], k, &src[j*row], 0, k)
			out[i*stride+j] = tile[0]
		}
	}
	return true
}

// decode sets dst to the elements of s from index first on, like [interp.Stored.Decode], but with assembly.
func decode(dst []float32, s *interp.Stored, first int) error {
	elems, size := s.DType.BlockElems(), s.DType.BlockBytes()
	src := s.Bytes[first/elems*size : (first+len(dst))/elems*size]
	whole := 0
	if vector != nil && vector.decoders.of(s.DType) != nil {
		step := 1 // blocks at a time
		if elems == 1 {
			step = vector.lanes
		}
		if blocks := len(dst) / elems / step * step; blocks > 0 {
			vector.decoders.of(s.DType)(&dst[0], &src[0], blocks)
			whole = blocks * elems
		}
	}
	if whole == len(dst) {
		return nil
	}
	return s.Decode(dst[whole:], first+whole)
}
