package quant

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// codec is one row of the format table. Its functions work on one block; the ir.DType defines the block geometry.
// Callers pass slices of exactly one block, so the functions convert them to array pointers and index without checks.
type codec struct {
	// dequantize writes the elements y of block b. Any bytes are a valid block.
	dequantize func(y []float32, b []byte)

	// quantize writes block b for the elements x, with magnitudes of at most limit. The weights w, one per element, are
	// nil unless weighted is set. A nil quantize means that only decoding is implemented.
	quantize func(b []byte, x, w []float32)

	limit    float32 // largest magnitude with a finite scale in the format
	weighted bool    // quantize uses importance weights

	codebook func() *ir.Data // nil if the format needs no codebook
}

// maxHalf is the largest finite float16, the bound on a block's stored scale.
const maxHalf = 65504

// maxIQ4 bounds the magnitude of inputs of the iq4 formats. The scale must fit float16. It comes from a least-squares
// fit, so the exact bound is not simple. The outer levels are beyond 64, which leaves a margin.
const maxIQ4 = 64 * maxHalf

// codecs is the format table, with the fields in the order of codec: dequantize, quantize, limit, weighted, codebook.
var codecs = [...]codec{
	ir.Q4_0: {dequantizeQ4_0, quantizeQ4_0, 8 * maxHalf, true, nil},
	ir.Q4_1: {dequantizeQ4_1, quantizeQ4_1, maxHalf, true, nil},
	ir.Q5_0: {dequantizeQ5_0, quantizeQ5_0, 16 * maxHalf, true, nil},
	ir.Q5_1: {dequantizeQ5_1, quantizeQ5_1, maxHalf, true, nil},
	ir.Q8_0: {dequantizeQ8_0, quantizeQ8_0, 127 * maxHalf, false, nil},
	ir.Q8_1: {dequantizeQ8_1, quantizeQ8_1, maxHalf / 32, false, nil}, // s is a sum of 32

	ir.Q2_K: {dequantizeQ2_K, quantizeQ2_K, 2 * maxHalf, true, nil},
	ir.Q3_K: {dequantizeQ3_K, quantizeQ3_K, 32 * maxHalf, true, nil},
	ir.Q4_K: {dequantizeQ4_K, quantizeQ4_K, 8 * maxHalf, true, nil},
	ir.Q5_K: {dequantizeQ5_K, quantizeQ5_K, 8 * maxHalf, true, nil},
	ir.Q6_K: {dequantizeQ6_K, quantizeQ6_K, 1024 * maxHalf, true, nil},
	ir.Q8_K: {dequantizeQ8_K, quantizeQ8_K, math.MaxFloat32 / 2, false, nil},

	ir.IQ1_S:   {dequantizeIQ1_S, quantizeIQ1_S, 8 * maxHalf, true, ternaryBook},
	ir.IQ1_M:   {dequantizeIQ1_M, quantizeIQ1_M, 8 * maxHalf, true, ternaryBook},
	ir.IQ2_XXS: {dequantizeIQ2_XXS, quantizeIQ2_XXS, 64 * maxHalf, true, wordsOf8(gridIQ2XXS[:])},
	ir.IQ2_XS:  {dequantizeIQ2_XS, quantizeIQ2_XS, 64 * maxHalf, true, wordsOf8(gridIQ2XS[:])},
	ir.IQ2_S:   {dequantizeIQ2_S, quantizeIQ2_S, 64 * maxHalf, true, wordsOf8(gridIQ2S[:])},
	ir.IQ3_XXS: {dequantizeIQ3_XXS, quantizeIQ3_XXS, 256 * maxHalf, true, wordsOf4(gridIQ3XXS[:])},
	ir.IQ3_S:   {dequantizeIQ3_S, quantizeIQ3_S, 256 * maxHalf, true, wordsOf4(gridIQ3S[:])},
	ir.IQ4_NL:  {dequantizeIQ4_NL, quantizeIQ4_NL, maxIQ4, true, levelsOf(&valuesIQ4NL)},
	ir.IQ4_XS:  {dequantizeIQ4_XS, quantizeIQ4_XS, maxIQ4, true, levelsOf(&valuesIQ4NL)},

	ir.TQ1_0: {dequantizeTQ1_0, quantizeTQ1_0, maxHalf, false, nil},
	ir.TQ2_0: {dequantizeTQ2_0, quantizeTQ2_0, maxHalf, false, nil},
	ir.MXFP4: {dequantizeMXFP4, quantizeMXFP4, 0x1p127, false, levelsOf(&valuesMXFP4)},
	ir.NVFP4: {dequantizeNVFP4, quantizeNVFP4, 6 * maxUE4M3, false, levelsOf(&valuesMXFP4)},
}

// codecOf returns the row of t. It is empty if t is not a block format.
func codecOf(t ir.DType) codec {
	if int(t) < len(codecs) {
		return codecs[t]
	}
	return codec{}
}

// Supported reports whether Dequantize and Quantize accept t.
func Supported(t ir.DType) (dequantize, quantize bool) {
	c := codecOf(t)
	return c.dequantize != nil, c.quantize != nil
}

// Limit returns the largest magnitude that Quantize accepts for t, or 0 if t cannot be encoded.
func Limit(t ir.DType) float32 { return codecOf(t).limit }

// UsesWeights reports whether Quantize accepts importance weights for t.
func UsesWeights(t ir.DType) bool { return codecOf(t).weighted }

// unsupported makes the error for operation what on t. has selects the rows of the table with that operation.
func unsupported(t ir.DType, what string, has func(codec) bool) error {
	e := &UnsupportedError{Type: t, What: what}
	for _, t := range ir.DTypes() {
		if has(codecOf(t)) {
			e.Have = append(e.Have, t)
		}
	}
	return e
}
