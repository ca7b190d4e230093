package fast

import (
	"golang.org/x/sys/cpu"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// vectors reports whether this processor can run the assembly.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C

// multiply computes the dot products of all rows of a with all rows of b. A row has k elements. The results go to out,
// which has the given stride between rows. A result's bits depend only on its two rows, not on the other rows of the
// call.
func multiply(out []float32, stride int, a, b []float32, rows, cols, k int) {
	if !vectors || k < lanes || rows == 0 || cols == 0 {
		multiplyPlain(out, stride, a, b, rows, cols, k)
		return
	}
	_, _, _ = a[:rows*k], b[:cols*k], out[:(rows-1)*stride+cols] // the assembly checks no bounds
	whole := k / lanes * lanes
	var tile [12]float32
	put := func(i, j, rows, cols int) {
		for r := range rows {
			to := out[(i+r)*stride+j:][:cols]
			for c := range to {
				to[c] = tile[r*cols+c]
				for e := whole; e < k; e++ {
					to[c] += float32(a[(i+r)*k+e] * b[(j+c)*k+e])
				}
			}
		}
	}
	i := 0
	for ; i+4 <= rows; i += 4 {
		j := 0
		for ; j+3 <= cols; j += 3 {
			dots4x3(&tile[0], &a[i*k], k, &b[j*k], k, whole)
			put(i, j, 4, 3)
		}
		for ; j < cols; j++ { // four rows of a with one row of b, which is passed as the function's first matrix
			dots1x4(&tile[0], &b[j*k], k, &a[i*k], k, whole)
			put(i, j, 4, 1)
		}
	}
	for ; i < rows; i++ {
		j := 0
		for ; j+4 <= cols; j += 4 {
			dots1x4(&tile[0], &a[i*k], k, &b[j*k], k, whole)
			put(i, j, 1, 4)
		}
		for ; j < cols; j++ { // one row, four times
			dots1x4(&tile[0], &a[i*k], k, &b[j*k], 0, whole)
			put(i, j, 1, 1)
		}
	}
}

// weigh sets out to a weighted sum of rows. A row has len(out) elements.
func weigh(out, weights, rows []float32) {
	e, n := len(out), len(weights)
	if !vectors || n == 0 {
		weighPlain(out, weights, rows, 0)
		return
	}
	_ = rows[:n*e] // the assembly checks no bounds
	at := 0
	for ; at+4*lanes <= e; at += 4 * lanes {
		weigh4(&out[at], &weights[0], &rows[at], e, n)
	}
	for ; at+lanes <= e; at += lanes {
		weigh1(&out[at], &weights[0], &rows[at], e, n)
	}
	if at < e {
		weighPlain(out, weights, rows, at)
	}
}

// storedDots has the assembly for [multiplyStored], by the format of b.
var storedDots = map[ir.DType]func(out, a *float32, lda int, b *byte, ldb, n int){
	ir.F16: dots1x4F16, ir.BF16: dots1x4BF16, ir.Q8_0: dots1x4Q8_0, ir.Q4_0: dots1x4Q4_0, ir.Q4_K: dots1x4Q4_K,
	ir.Q6_K: dots1x4Q6_K,
}

// decoders has functions that decode n blocks, by block format.
var decoders = map[ir.DType]func(dst *float32, src *byte, n int){
	ir.Q8_0: decodeQ8_0, ir.Q4_0: decodeQ4_0, ir.Q4_K: decodeQ4_K, ir.Q6_K: decodeQ6_K,
}

// byteDots has the assembly for [multiplyBytes], by the block format of b.
var byteDots = map[ir.DType]func(out *float32, a *int8, scales, sums *float32, b *byte, ldb, n int){
	ir.Q8_0: byteDotsQ8_0, ir.Q4_0: byteDotsQ4_0, ir.Q4_K: byteDotsQ4_K, ir.Q6_K: byteDotsQ6_K,
}

// reductions has the assembly of reducers, by their names.
var reductions = map[string]reduction{
	"sum":        {sumList, sumEach},
	"sumSquares": {sumSquaresList, sumSquaresEach},
	"least":      {leastList, leastEach},
	"greatest":   {greatestList, greatestEach},
}

func init() {
	if !vectors {
		clear(reductions)
		clear(storedDots)
		clear(decoders)
		clear(byteDots)
	}
}

// multiplyStored is multiply for rows of b in the format of their file, from element first on. It decodes them in
// registers and not to memory. The results have the same bits as multiply's for decoded rows. It returns false, and
// computes nothing, for unsupported formats.
func multiplyStored(out []float32, stride int, a []float32, b *interp.Stored, first, rows, cols, k int) bool {
	dots, elems, size := storedDots[b.DType], b.DType.BlockElems(), b.DType.BlockBytes()
	if dots == nil || k == 0 || k%max(lanes, elems) != 0 {
		return false
	}
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

// decode is [interp.Stored.Decode].
func decode(dst []float32, s *interp.Stored, first int) error {
	elems, size := s.DType.BlockElems(), s.DType.BlockBytes()
	src := s.Bytes[first/elems*size : (first+len(dst))/elems*size]
	whole := 0
	switch step := max(lanes, elems); {
	case !vectors || len(dst) < step:
	case s.DType == ir.F16:
		whole = len(dst) / lanes * lanes
		widenF16(&dst[0], &src[0], whole)
	case s.DType == ir.BF16:
		whole = len(dst) / lanes * lanes
		widenBF16(&dst[0], &src[0], whole)
	case decoders[s.DType] != nil:
		whole = len(dst)
		decoders[s.DType](&dst[0], &src[0], whole/elems)
	}
	if whole == len(dst) {
		return nil
	}
	return s.Decode(dst[whole:], first+whole)
}

// exps replaces each x by exp(x-shift).
func exps(x []float32, shift float32) {
	whole := len(x) / lanes * lanes
	if !vectors || whole == 0 {
		expsPlain(x, shift)
		return
	}
	expVectors(&x[0], shift, whole)
	expsPlain(x[whole:], shift)
}

// fill sets all elements of a list to x.
func fill(list []float32, x float32) {
	whole := 0
	if vectors && len(list) >= lanes {
		whole = len(list) / lanes * lanes
		repeatVectors(&list[0], x, whole)
	}
	fillPlain(list[whole:], x)
}

// assembled returns the assembly of primitives, by name.
func assembled() map[string]func(out, x, y, z *float32, n int) {
	if !vectors {
		return nil
	}
	return map[string]func(out, x, y, z *float32, n int){
		"+": addVectors, "-": subVectors, "*": mulVectors, "/": divVectors,
		"<": lessVectors, "<=": atMostVectors, ">": moreVectors, ">=": atLeastVectors,
		"==": equalVectors, "!=": differVectors, "?:": chooseVectors,
		"nan_min": minVectors, "nan_max": maxVectors, "neg": negVectors, "abs": absVectors,
		"sqrt": sqrtVectors, "floor": floorVectors, "ceil": ceilVectors, "roundEven": roundVectors,
		"trunc": truncVectors, "exp": expOfVectors, roundings[ir.F16]: toF16Vectors, roundings[ir.BF16]: toBF16Vectors,
	}
}
