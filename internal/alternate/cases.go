package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// pair is a case of ggml and the equivalent cases of vkc bench.
type pair struct {
	name  string   // of the case of ggml
	by    string   // the name of its result in tables
	cases []string // of vkc bench
	line  string   // of the case file, without the name
}

// Numbers of ggml 0.27's enum of ops.
const (
	opRMSNorm   = 25
	opMulMat    = 29
	opSoftMax   = 46
	opFlashAttn = 74
)

const (
	halfSums = "ggml, f16 sums"
	fullSums = "ggml, f32 sums"
)

// precF32 is ggml's GGML_PREC_F32: a matmul or attention with f32 accumulation.
const precF32 = 10

// common are the formats that most models use. plain are formats that ggml's tool quantizes quickly. others represent
// the formats with codebooks, which ggml's tool takes longer to quantize than all the rest.
var (
	common = []ir.DType{ir.Q4_0, ir.Q8_0, ir.Q4_K}
	plain  = []ir.DType{ir.Q4_1, ir.Q5_0, ir.Q5_1, ir.Q2_K, ir.Q3_K, ir.Q5_K, ir.Q6_K, ir.IQ4_NL, ir.IQ4_XS, ir.MXFP4}
	others = []ir.DType{ir.IQ2_XS, ir.IQ3_S}
)

// allPairs returns all cases to compare: matmuls, products with one vector (matvec), softmax, RMS norms and attentions,
// with extents that language models have.
func allPairs() []pair {
	var list []pair
	for _, n := range []int{1024, 2048, 4096, 8192} {
		list = append(list, matmuls(ir.F16, n, n, n)...)
	}
	list = append(list, matmuls(ir.F16, 512, 4096, 14336)...)
	list = append(list, matmuls(ir.BF16, 4096, 4096, 4096)...)
	for _, t := range common {
		list = append(list, matmuls(t, 512, 4096, 14336)...)
		list = append(list, matmuls(t, 4096, 4096, 4096)...)
	}
	for _, t := range plain {
		list = append(list, matmuls(t, 512, 4096, 14336)[0])
	}
	for _, t := range append([]ir.DType{ir.F16}, common...) {
		list = append(list, matvec(t, 14336, 14336))
	}
	for _, t := range slices.Concat([]ir.DType{ir.F32, ir.F16, ir.BF16}, common, plain, others) {
		list = append(list, matvec(t, 4096, 14336))
	}
	list = append(list,
		pair{"softmax", "ggml", []string{"softmax/f32/32768x4096"},
			line(opSoftMax, []int{4096, 32768}, []int32{bits(1), 0}, source(ir.F32, 4096, 32768))},
		pair{"rms_norm", "ggml, without the weight", []string{"rms_norm/f32/32768x4096"},
			line(opRMSNorm, []int{4096, 32768}, []int32{bits(1e-5)}, source(ir.F32, 4096, 32768))})
	for _, d := range []int{128, 64} {
		list = append(list, attention(32, 32, 4096, 4096, d, false)...)
	}
	list = append(list, attention(32, 32, 4096, 4096, 128, true)...)
	list = append(list, attention(32, 32, 1, 8192, 128, false)...)
	return append(list, attention(32, 8, 1, 8192, 128, false)...)
}

// matmuls returns two cases of an f32[m,k] matrix times weights [n,k] of dtype t: with accumulation in f16 and in f32.
func matmuls(t ir.DType, m, n, k int) []pair {
	name := fmt.Sprintf("matmul/%s/%dx%dx%d", t, m, n, k)
	half := pair{"half_sums/" + name, halfSums, []string{name, name + "/half_sums"}, matmulLine(t, m, n, k, 0)}
	full := pair{name, fullSums, []string{name}, matmulLine(t, m, n, k, precF32)}
	return []pair{half, full}
}

// matvec returns the case of a matmul of one f32 row of k elements and weights [n,k] of dtype t.
func matvec(t ir.DType, n, k int) pair {
	name := fmt.Sprintf("matvec/%s/%dx%d/n1", t, n, k)
	p := pair{name, "ggml", []string{name}, matmulLine(t, 1, n, k, 0)}
	if bytes := int64(n*k) / int64(t.BlockElems()) * int64(t.BlockBytes()); bytes < cacheBytes {
		p.by = "ggml, weights in its cache"
	}
	if t.IsBlock() {
		p.cases = append(p.cases, name+"/int8")
	}
	return p
}

// cacheBytes is the level 2 cache of the measured card, an H200: weights that fit stay there between the repeats of
// ggml's tool.
const cacheBytes = 60 << 20

// matmulLine returns ggml's line of a matmul of m rows of k elements by n columns of dtype t.
func matmulLine(t ir.DType, m, n, k int, prec int32) string {
	var params []int32
	if prec != 0 {
		params = []int32{prec}
	}
	return line(opMulMat, []int{n, m}, params, source(t, k, n), source(ir.F32, k, m))
}

// attention returns the cases of an attention of queries [heads,t,d] over s keys of kv heads, in ggml with f16 and with
// f32 sums. A causal one has a mask in ggml, which cannot express it otherwise.
func attention(heads, kv, t, s, d int, causal bool) []pair {
	kind := "full"
	sources := []string{source(ir.F32, d, t, heads), source(ir.F16, d, s, kv), source(ir.F16, d, s, kv)}
	if causal {
		kind = "causal"
		sources = append(sources, source(ir.F16, s, t))
	}
	name := fmt.Sprintf("attention/%s/h%d_kv%d/%dx%d/d%d", kind, heads, kv, t, s, d)
	scale := bits(float32(1 / math.Sqrt(float64(d))))
	of := func(name, by string, prec int32, c string) pair {
		return pair{name, by, []string{c},
			line(opFlashAttn, []int{d, heads, t}, []int32{scale, 0, 0, prec}, sources...)}
	}
	half, full := halfSums, fullSums
	if causal {
		half, full = half+", with a mask", full+", with a mask"
	}
	return []pair{of("half_sums/"+name, half, 0, name), of(name, full, precF32, name)}
}

// line returns a line of ggml's case file: an op's number, the dtype and extents of its result, its parameters, and its
// sources as of function source.
func line(op int, extents []int, params []int32, sources ...string) string {
	words := []any{op, 0} // 0 is ggml's number of f32
	for i := range 4 {
		words = append(words, extent(extents, i)) // ggml has 4 extents, the innermost first
	}
	words = append(words, len(params))
	for _, p := range params {
		words = append(words, p)
	}
	words = append(words, len(sources))
	return strings.TrimSuffix(fmt.Sprintln(words...), "\n") + " " + strings.Join(sources, " ")
}

// source returns a tensor as ggml's case file describes it: the number of its dtype, 4 extents, and 4 strides in bytes.
func source(t ir.DType, extents ...int) string {
	number, ok := t.GGML()
	if !ok {
		panic("alternate: GGUF has no " + t.String())
	}
	words := []any{number}
	for i := range 4 {
		words = append(words, extent(extents, i))
	}
	stride := extents[0] / t.BlockElems() * t.BlockBytes()
	words = append(words, t.BlockBytes())
	for i := 1; i < 4; i++ {
		words = append(words, stride)
		stride *= extent(extents, i)
	}
	return strings.TrimSuffix(fmt.Sprintln(words...), "\n")
}

// extent returns extent i, or 1 for an axis that is not listed.
func extent(extents []int, i int) int {
	if i < len(extents) {
		return extents[i]
	}
	return 1
}

// bits returns a float as ggml stores it among an op's integer parameters.
func bits(x float32) int32 { return int32(math.Float32bits(x)) }

// caseText returns the file of cases for ggml: a line with its name for each pair.
func caseText(pairs []pair) []byte {
	var b strings.Builder
	for _, p := range pairs {
		fmt.Fprintf(&b, "%s %s\n", p.line, p.name)
	}
	return []byte(b.String())
}
