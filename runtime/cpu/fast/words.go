package fast

import (
	"math"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// isWord reports whether kernels get the elements of a dtype as 32-bit words, if [interp.Kernel.Words] is set: integers
// of up to 32 bits, and bools.
func isWord(t ir.DType) bool { return !t.IsFloat() && !t.IsBlock() && t.BlockBytes() <= 4 }

// inWords reports whether kernels get the elements of a dtype as 32 bits each: as float32 or as words.
func inWords(t ir.DType) bool { return isNarrow(t) || isWord(t) }

// bitsOf returns words as floats of the same bits, in the same memory. With it, code that only copies elements can be
// written for floats alone.
func bitsOf(words []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// wordsOf returns the memory of float32 numbers as integers; bitsOf does the opposite.
func wordsOf(bits []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(bits))), len(bits))
}

// unsigned returns words of u32 as such, in the same memory.
func unsigned(words []int32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// elementsOf returns the elements of an argument of floats or words. Words are returned by bitsOf.
func elementsOf(t interp.Tensor) []float32 {
	if t.Words != nil {
		return bitsOf(t.Words)
	}
	return t.Floats
}

// outOf returns the elements of a kernel's result of floats or words, words as bits.
func outOf(c *interp.Call) []float32 {
	if c.Words != nil {
		return bitsOf(c.Words)
	}
	return c.Out
}

// bitsOfLong returns an integer of 64 bits as a float of the same bits, and long is the inverse.
func bitsOfLong(x int64) float64 { return math.Float64frombits(uint64(x)) }
func long(x float64) int64       { return int64(math.Float64bits(x)) }

// bitsOfLongs returns integers of 64 bits as floats of the same bits, in the same memory.
func bitsOfLongs(list []int64) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

// between has the assembly that converts n elements between 32 and 64 bits, where n is a multiple of lanes. Long words
// are floats of the same bits. The functions are nil without assembly.
var between struct {
	doublesOfFloats               func(dst *float64, src *float32, n int)
	longsOfWords, longsOfUnsigned func(dst *float64, src *int32, n int)
	floatsOfDoubles               func(dst *float32, src *float64, n int)
	oddFloatsOfDoubles            func(dst *float32, src *float64, n int)
	wordsOfLongs                  func(dst *int32, src *float64, n int)
}

// converted sets dst to the first elements of src, as f converts them. vectors does the same, or is nil.
func converted[D, S any](dst []D, src []S, vectors func(dst *D, src *S, n int), f func(x S) D) {
	whole := 0
	if vectors != nil && len(dst) >= lanes {
		whole = len(dst) / lanes * lanes
		_ = src[:whole] // the assembly checks no bounds
		vectors(&dst[0], &src[0], whole)
	}
	for i, x := range src[whole:len(dst)] {
		dst[whole+i] = f(x)
	}
}

// doublesOf sets dst to floats of 32 bits.
func doublesOf(dst []float64, src []float32) {
	converted(dst, src, between.doublesOfFloats, func(x float32) float64 { return float64(x) })
}

// longsOf sets dst to words as long words.
func longsOf(dst []float64, src []int32) {
	converted(dst, src, between.longsOfWords, func(x int32) float64 { return bitsOfLong(int64(x)) })
}

// unsignedLongsOf sets dst to words of u32 as long words.
func unsignedLongsOf(dst []float64, src []int32) {
	converted(dst, src, between.longsOfUnsigned, func(x int32) float64 { return bitsOfLong(int64(uint32(x))) })
}

// floatsOf sets dst to the nearest floats of 32 bits.
func floatsOf(dst []float32, src []float64) {
	converted(dst, src, between.floatsOfDoubles, func(x float64) float32 { return float32(x) })
}

// oddFloatsOf rounds src to odd: a number that float32 cannot represent becomes the one of its two neighbours that has
// an odd last bit. If the result is then rounded to fewer bits, that gives the same as rounding the number once (Boldo
// and Melquiond 2008).
func oddFloatsOf(dst []float32, src []float64) {
	converted(dst, src, between.oddFloatsOfDoubles, func(x float64) float32 {
		f := float32(x)
		if wide := float64(f); wide != x && x == x {
			past := math.Float64bits(math.Abs(x)-math.Abs(wide)) >> 63 // 1 if f is farther from 0 than x
			f = math.Float32frombits((math.Float32bits(f) - uint32(past)) | 1)
		}
		return f
	})
}

// fromDoubles sets dst to float64 numbers, rounded to its type.
func fromDoubles[T number](dst []T, src []float64) {
	switch dst := any(dst).(type) {
	case []float32:
		floatsOf(dst[:len(src)], src)
	case []float64:
		copy(dst, src)
	}
}

// lowWordsOf sets dst to the low words of long words.
func lowWordsOf(dst []int32, src []float64) {
	converted(dst, src, between.wordsOfLongs, func(x float64) int32 { return int32(long(x)) })
}

// results is the memory of a kernel's results, which are computed as elements of type T, and rounded to the result's
// dtype when they are stored.
type results[T number] struct {
	list  []T                    // the results, if memory has them as T and they need no rounding
	store func(at int, list []T) // otherwise rounds and stores results from number at on
}

// resultsOf returns how a kernel stores its results: as a list, if the memory has elements of T's size that need no
// rounding (floats, or the bits of integers), and otherwise by a function that rounds or wraps them.
func resultsOf[T number](c *interp.Call) results[T] {
	var r results[T]
	if c.Stored != nil {
		r.store = storer[T](c.Stored)
		return r
	}
	t := c.Node.DType()
	switch r := any(&r).(type) {
	case *results[float32]:
		if c.Out != nil && t != ir.F32 {
			r.store = func(at int, list []float32) { roundTo(t, c.Out[at:][:len(list)], list) }
		} else {
			r.list = outOf(c)
		}
	case *results[float64]:
		switch {
		case c.Doubles != nil:
			r.list = c.Doubles
		case c.Ints != nil:
			r.list = bitsOfLongs(c.Ints)
		case c.Out != nil && t == ir.F32:
			r.store = func(at int, list []float64) { floatsOf(c.Out[at:][:len(list)], list) }
		case c.Out != nil: // a float narrower than 32 bits
			r.store = func(at int, list []float64) {
				out := c.Out[at:][:len(list)]
				oddFloatsOf(out, list) // rounds to odd, so that roundTo rounds the exact number
				roundTo(t, out, out)
			}
		default:
			r.store = func(at int, list []float64) {
				words := c.Words[at:][:len(list)]
				lowWordsOf(words, list) // u32 has the word's bits
				for i := 0; t.Bits() < 32 && i < len(words); i++ {
					words[i] = int32(ir.Wrap(int64(words[i]), t))
				}
			}
		}
	}
	return r
}

// roundTo sets out to the floats of a list rounded to a narrower dtype.
func roundTo(t ir.DType, out, list []float32) { primitives[roundings[t]].apply(out, list, list, list) }

// block returns the list in which a kernel computes n results from number at on: their own memory, or else scratch. The
// kernel then calls put.
func (r *results[T]) block(at, n int, scratch []T) []T {
	if r.list != nil {
		return r.list[at : at+n]
	}
	return scratch[:n]
}

// put rounds and stores results from number at on that were computed in a block.
func (r *results[T]) put(at int, block []T) {
	if r.list == nil {
		r.store(at, block)
	}
}

// roomOf returns a buffer of n elements for a worker, see [interp.Call.Room].
func roomOf[T number](c *interp.Call, worker, n int) []T {
	words := int(unsafe.Sizeof(T(0)) / 4)
	room := c.Room(worker, n*words)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room))), n)
}
