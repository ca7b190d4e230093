package bench

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// matrixSample compares the elements of 48 random rows in 48 random columns.
var matrixSample = []Sample{{"m": Some(48), "n": Some(48)}}

// matmulCases returns the cases of matmuls: square ones and one layer's shape in each dtype, precision and block
// format. scale.of(full, tiny) is an extent at either scale.
func matmulCases(scale Scale) []Case {
	var list []Case
	for _, t := range []ir.DType{ir.F16, ir.BF16} {
		for _, n := range []int{1024, 2048, 4096, 8192} {
			n = scale.of(n, n/32)
			list = append(list, denseCase(t, n, n, n))
		}
		list = append(list, denseCase(t, scale.of(512, 16), scale.of(4096, 64), scale.of(14336, 224)))
	}
	// Sizes one below and one above a multiple of every tile size.
	for _, n := range []int{4095, 4097} {
		n = scale.of(n, n-3968)
		list = append(list, denseCase(ir.F16, n, n, n))
	}
	n := scale.of(4096, 96)
	list = append(list, plainCase(ir.F16, n, n, n), halfSumsCase(n, n, n))
	for _, n := range []int{256, 512, 1024, 2048, 4096} {
		n = scale.of(n, n/16)
		list = append(list, denseCase(ir.F32, n, n, n))
	}
	for _, n := range []int{1024, 4096} {
		n = scale.of(n, n/32)
		list = append(list, splitCase(n, n, n))
	}
	list = append(list, bytesCase(n, n, n), bytesCase(scale.of(512, 16), scale.of(4096, 64), scale.of(14336, 224)),
		scaledBytesCase(scale.of(512, 16), scale.of(4096, 64), scale.of(14336, 224)))
	for _, t := range formats {
		list = append(list, quantCase(t, scale.of(512, 16), scale.of(4096, 64), scale.of(14336, 512),
			frontend.HalfPrecision))
	}
	for _, t := range commonFormats {
		list = append(list, quantCase(t, scale.of(4096, 64), scale.of(4096, 32), scale.of(4096, 256),
			frontend.HalfPrecision),
			quantCase(t, scale.of(512, 16), scale.of(4096, 64), scale.of(14336, 512), frontend.HalfSums))
	}
	return append(list, fusedMatMulCase(scale.of(512, 16), scale.of(4096, 64), scale.of(4096, 64)))
}

// sizesText returns the text "MxNxK".
func sizesText(m, n, k int) string { return fmt.Sprintf("%dx%dx%d", m, n, k) }

func precisionOf(t ir.DType) Precision {
	if t == ir.F16 || t == ir.BF16 || t.IsBlock() {
		return MatrixF16
	}
	return VectorF32
}

// denseCase returns a case of a matmul of x[m,k] and the transpose of w[n,k], as a linear layer has it.
func denseCase(t ir.DType, m, n, k int) Case {
	return Case{
		Name: name("matmul", t, sizesText(m, n, k)), Sizes: Sizes{"m": m, "n": n, "k": k},
		Build: func(b *frontend.Builder, s Sizes) {
			b.Output("y", b.Input("x", t, s["m"], s["k"]).MatMulT(b.Input("w", t, s["n"], s["k"])))
		},
		Axes: map[string]string{"x": "m k", "w": "n k", "y": "m n"}, Samples: matrixSample, MatMul: true,
		Flops: matmulFlops(m, n, k), Precision: precisionOf(t), Cached: true,
	}
}

// bytesCase returns a case of a matmul of i8 with i32 results.
func bytesCase(m, n, k int) Case {
	c := denseCase(ir.I8, m, n, k)
	c.Precision, c.Fills = MatrixI8, map[string]Fill{"x": anyByte, "w": anyByte}
	return c
}

// scaledBytesCase returns a case of a linear layer of a model quantized to i8. The i32 sums of a matmul of i8 are
// multiplied by a scale of the row and a scale of the column. A bias is added, and the result is f16.
func scaledBytesCase(m, n, k int) Case {
	c := bytesCase(m, n, k)
	c.Name = name("matmul", "i8_scaled_bias", sizesText(m, n, k))
	c.Build = func(b *frontend.Builder, s Sizes) {
		x, w := b.Input("x", ir.I8, s["m"], s["k"]), b.Weight("w", ir.I8, s["n"], s["k"])
		rows, columns, bias := b.Input("rows", ir.F32, s["m"], 1), b.Weight("columns", ir.F32, s["n"]),
			b.Weight("bias", ir.F32, s["n"])
		b.Output("y", x.MatMulT(w).Cast(ir.F32).Mul(rows).Mul(columns).Add(bias).Cast(ir.F16))
	}
	c.Axes["rows"], c.Axes["columns"], c.Axes["bias"], c.MatMul = "m .", "n", "n", false
	c.Fills["rows"], c.Fills["columns"] = Fill{0.001, 0.01}, Fill{0.001, 0.01}
	return c
}

// plainCase returns a case of a matmul of x[m,k] and w[k,n].
func plainCase(t ir.DType, m, n, k int) Case {
	c := denseCase(t, m, n, k)
	c.Name = name("matmul", t, sizesText(m, n, k), "kn")
	c.Build = func(b *frontend.Builder, s Sizes) {
		b.Output("y", b.Input("x", t, s["m"], s["k"]).MatMul(b.Input("w", t, s["k"], s["n"])))
	}
	c.Axes, c.MatMul = map[string]string{"x": "m k", "w": "k n", "y": "m n"}, false
	return c
}

// halfSumsCase returns a case of a matmul of f16 that allows f16 accumulation.
func halfSumsCase(m, n, k int) Case {
	c := denseCase(ir.F16, m, n, k)
	c.Name = name("matmul", ir.F16, sizesText(m, n, k), "half_sums")
	c.Build = func(b *frontend.Builder, s Sizes) {
		b.Output("y", b.Input("x", ir.F16, s["m"], s["k"]).MatMulTIn(frontend.HalfSums,
			b.Input("w", ir.F16, s["n"], s["k"])))
	}
	return c
}

// splitCase returns a case of an f32 matmul that allows splitting its operands into bf16.
func splitCase(m, n, k int) Case {
	c := denseCase(ir.F32, m, n, k)
	c.Name, c.Precision = name("matmul", "f32_bf16x3", sizesText(m, n, k)), SplitF32
	c.Build = func(b *frontend.Builder, s Sizes) {
		b.Output("y", b.Input("x", ir.F32, s["m"], s["k"]).MatMulTIn(frontend.BF16x3,
			b.Input("w", ir.F32, s["n"], s["k"])))
	}
	return c
}

// quantCase returns a case of a matmul of f32 activations [m,k] by weights [n,k] of dtype t in precision p. HalfSums
// lets the compiler round both operands to f16, as other programs do.
func quantCase(t ir.DType, m, n, k int, p frontend.Precision) Case {
	c := denseCase(t, m, n, k)
	if p == frontend.HalfSums {
		c.Name += "/half_sums"
	}
	c.Build = func(b *frontend.Builder, s Sizes) {
		w := b.Weight("w", t, s["n"], s["k"])
		if !t.IsBlock() && t != ir.F32 {
			w = w.Cast(ir.F32)
		}
		b.Output("y", b.Input("x", ir.F32, s["m"], s["k"]).MatMulTIn(p, w))
	}
	return c
}

// fusedMatMulCase returns a case of a matmul with bias, GELU and residual, which the compiler should fuse as its
// epilogue.
func fusedMatMulCase(m, n, k int) Case {
	c := denseCase(ir.F16, m, n, k)
	c.Name = name("matmul", "f16_bias_gelu_residual", sizesText(m, n, k))
	c.Build = func(b *frontend.Builder, s Sizes) {
		x, w := b.Input("x", ir.F16, s["m"], s["k"]), b.Weight("w", ir.F16, s["n"], s["k"])
		bias, r := b.Weight("bias", ir.F16, s["n"]), b.Input("r", ir.F16, s["m"], s["n"])
		b.Output("y", x.MatMulT(w).Add(bias).Gelu().Add(r))
	}
	c.Axes["bias"], c.Axes["r"], c.MatMul = "n", "m n", false
	return c
}

// matvecCases returns the cases of one to eight rows times weights of each dtype, with the rows in f32 and in int8.
func matvecCases(scale Scale) []Case {
	k, large, small := scale.of(14336, 512), scale.of(14336, 96), scale.of(4096, 64)
	var list []Case
	all := append([]ir.DType{ir.F32, ir.F16, ir.BF16}, formats...)
	for _, t := range all {
		list = append(list, matvecCase(t, 1, large, k), matvecCase(t, 1, small, k))
	}
	for _, t := range formats {
		list = append(list, byteCase(t, 1, large, k), byteCase(t, 1, small, k))
	}
	list = append(list, bytesRowCase(1, large, k), bytesRowCase(1, small, k))
	for _, t := range append([]ir.DType{ir.F16}, commonFormats...) {
		for rows := 2; rows <= 8; rows++ {
			list = append(list, matvecCase(t, rows, large, k))
			if t.IsBlock() {
				list = append(list, byteCase(t, rows, large, k))
			}
		}
	}
	return list
}

// bytesRowCase returns a case of a few rows of i8 times i8 weights [n,k].
func bytesRowCase(rows, n, k int) Case {
	c := bytesCase(rows, n, k)
	c.Name = fmt.Sprintf("matvec/i8/%dx%d/n%d", n, k, rows)
	c.Build = func(b *frontend.Builder, s Sizes) {
		b.Output("y", b.Input("x", ir.I8, s["m"], s["k"]).MatMulT(b.Weight("w", ir.I8, s["n"], s["k"])))
	}
	c.Samples = []Sample{{"n": Some(64)}}
	c.Cached, c.Precision = false, VectorF32
	return c
}

// matvecCase returns the case of a few rows of f32 times weights of dtype t.
func matvecCase(t ir.DType, rows, n, k int) Case {
	c := quantCase(t, rows, n, k, frontend.FullPrecision)
	c.Name = fmt.Sprintf("matvec/%s/%dx%d/n%d", t, n, k, rows)
	c.Samples = []Sample{{"n": Some(64)}}
	c.Cached, c.Precision = false, VectorF32
	return c
}

// byteCase returns the case of a few rows of f32 times weights of dtype t, with the rows quantized to int8. The
// quantization is a separate kernel, and its launch counts.
func byteCase(t ir.DType, rows, n, k int) Case {
	c := matvecCase(t, rows, n, k)
	c.Name += "/int8"
	c.Build = quantCase(t, rows, n, k, frontend.ByteRows).Build
	return c
}
