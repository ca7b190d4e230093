package fast

import (
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

// wordsOf is the inverse of bitsOf.
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
