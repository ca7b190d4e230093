package bench

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// memoryCases returns the cases that are bound by memory traffic: elementwise ops, gated layers, and ops that only move
// data.
func memoryCases(scale Scale) []Case {
	list := elementwiseCases(scale.of(64<<20, 1<<16))
	// Sizes from a core's cache upwards; the elementwise cases above exceed every cache.
	for _, n := range []int{1 << 10, 1 << 15, 1 << 20} {
		list = append(list, addCase(scale.of(n, n/32)))
	}
	list = append(list, gatedCases(scale)...)
	return append(list, movingCases(scale)...)
}

// flat returns a case of an elementwise function f of vectors. inputs has one letter per input, each an f32 vector of n
// elements. what names the case.
func flat(what string, n int, inputs string, f func(in []frontend.Tensor) frontend.Tensor) Case {
	c := Case{
		Name: name(what, n), Sizes: Sizes{"n": n}, Axes: map[string]string{"y": "n"},
		Samples: []Sample{{"n": Some(4096)}}, Precision: NoFlops,
		Build: func(b *frontend.Builder, s Sizes) {
			var in []frontend.Tensor
			for _, letter := range inputs {
				in = append(in, b.Input(string(letter), ir.F32, s["n"]))
			}
			b.Output("y", f(in))
		},
	}
	for _, letter := range inputs {
		c.Axes[string(letter)] = "n"
	}
	return c
}

func addCase(n int) Case {
	return flat("add/f32", n, "ab", func(in []frontend.Tensor) frontend.Tensor { return in[0].Add(in[1]) })
}

// elementwiseCases read one to three vectors of n elements and write one.
func elementwiseCases(n int) []Case {
	return []Case{
		addCase(n),
		flat("gelu/f32", n, "x", func(in []frontend.Tensor) frontend.Tensor { return in[0].Gelu() }),
		flat("cast/f32_f16", n, "x", func(in []frontend.Tensor) frontend.Tensor { return in[0].Cast(ir.F16) }),
		flat("chain/f32", n, "abc", func(in []frontend.Tensor) frontend.Tensor {
			return in[0].Mul(in[1]).Add(in[2]).Gelu().MulScalar(0.5).Add(in[0])
		}),
	}
}

// transferCases copy a vector from the caller's memory to the device, add a number, and copy the result back.
func transferCases(scale Scale) []Case {
	var list []Case
	for _, n := range []int{1 << 4, 1 << 14, 1 << 18, 1 << 24} {
		tiny := max(n/256, 1)
		c := flat("transfer/f32", scale.of(n, tiny), "x", func(in []frontend.Tensor) frontend.Tensor {
			return in[0].AddScalar(1)
		})
		c.Wall = true // inputs and outputs are in the caller's memory, and the copies count
		list = append(list, c)
	}
	return list
}

// gatedCases returns the cases of two groups of elementwise ops in feed-forward layers: SwiGLU, and a bias, GELU and a
// residual.
func gatedCases(scale Scale) []Case {
	rows, width := scale.of(512, 16), scale.of(34816, 256)
	swiglu := Case{
		Name: fmt.Sprintf("swiglu/f32/%dx%d", rows, width), Sizes: Sizes{"m": rows, "n": width},
		Build: func(b *frontend.Builder, s Sizes) {
			x := b.Input("x", ir.F32, s["m"], s["n"])
			half := s["n"] / 2
			b.Output("y", x.Slice(1, 0, half).Silu().Mul(x.Slice(1, half, s["n"])))
		},
		Axes: map[string]string{"x": "m n", "y": "m ."}, Samples: []Sample{{"m": Some(4)}}, Precision: NoFlops,
	}
	rows, width = scale.of(16384, 32), scale.of(4096, 64)
	bias := Case{
		Name: fmt.Sprintf("bias_gelu_residual/f32/%dx%d", rows, width), Sizes: Sizes{"m": rows, "n": width},
		Build: func(b *frontend.Builder, s Sizes) {
			x, r := b.Input("x", ir.F32, s["m"], s["n"]), b.Input("r", ir.F32, s["m"], s["n"])
			b.Output("y", x.Add(b.Weight("bias", ir.F32, s["n"])).Gelu().Add(r))
		},
		Axes: map[string]string{"x": "m n", "r": "m n", "bias": "n", "y": "m n"}, Samples: []Sample{{"m": Some(4)}}, Precision: NoFlops,
	}
	return []Case{swiglu, bias}
}

// movingCases returns the cases that compute little and move data: they gather, rotate, transpose, pad and concatenate.
func movingCases(scale Scale) []Case {
	var list []Case
	rows, width, table := scale.of(8192, 64), scale.of(4096, 256), scale.of(32000, 256)
	for _, t := range []ir.DType{ir.F32, ir.F16} {
		list = append(list, rowsCase(t, rows, width, table))
	}
	for _, t := range commonFormats {
		list = append(list, embeddingCase(t, rows, width, table))
	}
	m, n := scale.of(8192, 64), scale.of(8192, 96)
	list = append(list, ropeCase(scale.of(32, 2), scale.of(4096, 16), 128))
	for _, t := range []ir.DType{ir.F32, ir.F16} {
		list = append(list, grid("transpose", t, m, n, "n m", func(x frontend.Tensor) frontend.Tensor { return x.T() }))
	}
	list = append(list,
		grid("pad", ir.F32, m, n, "", func(x frontend.Tensor) frontend.Tensor {
			return x.Pad([]int{1, 3}, []int{2, 5}, 0.5)
		}),
		concatCase(m/2, n))
	return list
}

// rowsCase gathers rows of a table. Only the gathered rows count as traffic.
func rowsCase(t ir.DType, rows, width, table int) Case {
	return Case{
		Name: fmt.Sprintf("gather/%s/%dof%dx%d", t, rows, table, width), Sizes: Sizes{"r": rows, "d": width, "v": table},
		Build: func(b *frontend.Builder, s Sizes) {
			b.Output("y", b.Input("table", t, s["v"], s["d"]).IndexSelect(0, b.Input("ids", ir.I32, s["r"])))
		},
		Axes:    map[string]string{"table": "v d", "ids": "r", "y": "r d"},
		Samples: []Sample{{"d": Some(8)}}, Fills: map[string]Fill{"ids": {0, float64(table)}}, Precision: NoFlops,
		Moved: 2 * float64(rows) * float64(width) * float64(t.BlockBytes()),
	}
}

// embeddingCase returns a case of a gather of rows from a quantized table, as f32.
func embeddingCase(t ir.DType, rows, width, table int) Case {
	row, _ := t.BytesFor(int64(width)) // no error, because width is a multiple of every block
	const f32 = 4                      // bytes
	return Case{
		Name: fmt.Sprintf("embedding/%s/%dof%dx%d", t, rows, table, width), Sizes: Sizes{"r": rows, "d": width, "v": table},
		Build: func(b *frontend.Builder, s Sizes) {
			b.Output("y", b.Weight("table", t, s["v"], s["d"]).Embedding(b.Input("ids", ir.I32, s["r"]), ir.F32))
		},
		Axes:    map[string]string{"table": "v d", "ids": "r", "y": "r d"},
		Samples: []Sample{{"r": Some(32)}}, Fills: map[string]Fill{"ids": {0, float64(table)}}, Precision: NoFlops,
		Moved: float64(rows) * float64(int(row)+f32*width), // read and written
	}
}

func ropeCase(heads, tokens, dim int) Case {
	return Case{
		Name: fmt.Sprintf("rope/f32/%dx%dx%d", heads, tokens, dim), Sizes: Sizes{"h": heads, "t": tokens, "d": dim},
		Build: func(b *frontend.Builder, s Sizes) {
			b.Output("y", b.Input("x", ir.F32, s["h"], s["t"], s["d"]).Rope(b.Input("pos", ir.I32, s["t"])))
		},
		Axes: map[string]string{"x": "h t d", "pos": "t", "y": "h t d"}, Samples: []Sample{{"h": Some(2), "t": Some(16)}},
		// Positions of a long context: an angle in f32 would be wrong there.
		Fills: map[string]Fill{"pos": {0, 1 << 17}}, Precision: NoFlops,
	}
}

// grid returns a case of a function f of one matrix x[m,n]. out has the axis labels of the result, if it is sampled.
func grid(what string, t ir.DType, m, n int, out string, f func(frontend.Tensor) frontend.Tensor) Case {
	c := Case{
		Name: fmt.Sprintf("%s/%s/%dx%d", what, t, m, n), Sizes: Sizes{"m": m, "n": n},
		Build: func(b *frontend.Builder, s Sizes) { b.Output("y", f(b.Input("x", t, s["m"], s["n"]))) },
		Axes:  map[string]string{"x": "m n"}, Precision: NoFlops,
	}
	if out != "" {
		c.Axes["y"], c.Samples = out, []Sample{{"m": Some(64), "n": Some(64)}}
	}
	return c
}

// concatCase joins two matrices along their rows' axis.
func concatCase(m, n int) Case {
	return Case{
		Name: fmt.Sprintf("concat/f32/2x%dx%d", m, n), Sizes: Sizes{"m": m, "n": n},
		Build: func(b *frontend.Builder, s Sizes) {
			b.Output("y", b.Input("a", ir.F32, s["m"], s["n"]).Concat(1, b.Input("b", ir.F32, s["m"], s["n"])))
		},
		Axes: map[string]string{"a": "m n", "b": "m n", "y": "m ."}, Samples: []Sample{{"m": Some(16)}}, Precision: NoFlops,
	}
}
