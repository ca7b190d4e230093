package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// opsCases returns the cases of reductions, norms, scans, recurrences, scatters, convolutions and mixtures of experts.
func opsCases(scale Scale) []Case {
	var list []Case
	rows, cols := scale.of(32768, 64), scale.of(4096, 256)
	list = append(list, rowCases(rows, cols)...)
	few := scale.of(4096, 32)
	for _, c := range rowCases(few, cols) {
		if strings.HasPrefix(c.Name, "softmax") || strings.HasPrefix(c.Name, "rms_norm") {
			list = append(list, c)
		}
	}
	list = append(list, longRowsCases(scale.of(16<<20, 1<<17))...)
	list = append(list, sumAllCase(rows, cols))
	list = append(list, outerCases(scale)...)
	list = append(list, oddRowsCase(rows, cols-1))
	list = append(list, scanCases(scale)...)
	list = append(list, recurrentCases(scale)...)
	list = append(list, scatterCases(scale)...)
	list = append(list, convCase(scale, ir.F16, ir.PrecisionFull), convCase(scale, ir.F32, ir.PrecisionHalf),
		byteConvCase(scale))
	for _, t := range []ir.DType{ir.F16, ir.Q4_K} {
		for _, tokens := range []int{scale.of(512, 40), 1} {
			list = append(list, expertsCase(scale, t, tokens))
		}
	}
	return list
}

// rowsOf returns a case of an op f along the rows of a matrix [m,n].
func rowsOf(what string, m, n int, f func(frontend.Tensor) frontend.Tensor) Case {
	c := grid(what, ir.F32, m, n, "", f)
	c.Samples = []Sample{{"m": Some(max(min(m, 1<<16/n), 1))}}
	return c
}

// rowCases returns the cases of reductions and norms over the rows of an f32 matrix [m,n].
func rowCases(m, n int) []Case {
	reduced := func(what string, f func(frontend.Tensor) frontend.Tensor) Case {
		c := rowsOf(what, m, n, f)
		c.Axes["y"] = "m"
		return c
	}
	same := func(what string, f func(frontend.Tensor) frontend.Tensor) Case {
		c := rowsOf(what, m, n, f)
		c.Axes["y"] = "m n"
		return c
	}
	vector := func(x frontend.Tensor, name string) frontend.Tensor {
		return x.Builder().Weight(name, ir.F32, x.Dim(1))
	}
	return []Case{
		reduced("sum", func(x frontend.Tensor) frontend.Tensor { return x.Sum(1) }),
		reduced("argmax", func(x frontend.Tensor) frontend.Tensor { return x.Argmax(1) }),
		same("softmax", func(x frontend.Tensor) frontend.Tensor { return x.Softmax(1) }),
		same("rms_norm", func(x frontend.Tensor) frontend.Tensor { return x.RMSNorm(vector(x, "w"), 1e-5) }),
		same("layer_norm", func(x frontend.Tensor) frontend.Tensor {
			return x.LayerNorm(vector(x, "w"), vector(x, "bias"), 1e-5)
		}),
	}
}

// longRowsCases have fewer rows than any device has cores.
func longRowsCases(n int) []Case {
	sum := rowsOf("sum", 8, n, func(x frontend.Tensor) frontend.Tensor { return x.Sum(1) })
	sum.Axes["y"] = "m"
	softmax := rowsOf("softmax", 1, n, func(x frontend.Tensor) frontend.Tensor { return x.Softmax(1) })
	softmax.Axes["y"] = "m n"
	argmax := rowsOf("argmax", 1, n, func(x frontend.Tensor) frontend.Tensor { return x.Argmax(1) })
	argmax.Axes["y"] = "m"
	return []Case{sum, softmax, argmax}
}

// oddRowsCase returns a case of rows that start at any element offset, without alignment.
func oddRowsCase(m, n int) Case {
	c := rowsOf("softmax", m, n, func(x frontend.Tensor) frontend.Tensor { return x.Softmax(1) })
	c.Axes["y"] = "m n"
	return c
}

// outerCases returns cases that reduce the outer axis of a matrix, so that the elements of a sum are a row apart in
// memory. One matrix has few columns, the others have many.
func outerCases(scale Scale) []Case {
	column := func(what string, m, n int, out string, f func(frontend.Tensor) frontend.Tensor) Case {
		c := grid(what, ir.F32, m, n, "", f)
		c.Axes["y"], c.Samples = out, []Sample{{"n": Some(2)}}
		return c
	}
	sum := func(x frontend.Tensor) frontend.Tensor { return x.Sum(0) }
	// The columns of a matrix are like the channels of the points of an image.
	norm := func(x frontend.Tensor) frontend.Tensor {
		vector := func(name string) frontend.Tensor { return x.Builder().Weight(name, ir.F32, x.Dim(0)) }
		return x.Transpose(1, 0).LayerNorm(vector("w"), vector("bias"), 1e-5).Transpose(1, 0)
	}
	side := scale.of(8192, 1024)
	return []Case{
		column("layer_norm_axis0", scale.of(512, 64), scale.of(1<<17, 1<<10), ". n", norm),
		column("sum_axis0", scale.of(1<<20, 1<<12), 16, "n", sum),
		column("sum_axis0", side, side, "n", sum),
		column("softmax_axis0", side/2, side/2, ". n", func(x frontend.Tensor) frontend.Tensor { return x.Softmax(0) }),
	}
}

// sumAllCase returns a case with a single result, the sum of a matrix. The reference computes the whole sum.
func sumAllCase(m, n int) Case {
	c := grid("sum_all", ir.F32, m, n, "", func(x frontend.Tensor) frontend.Tensor { return x.Sum() })
	c.Fills = map[string]Fill{"x": {0, 1}} // so that large terms do not cancel
	return c
}

// scanCases returns the cases of prefix sums and sorts along rows and along columns.
func scanCases(scale Scale) []Case {
	rows := 16
	long, wide := scale.of(1<<20, 1<<12), scale.of(200000, 2000)
	along := func(what string, n int, f func(frontend.Tensor) frontend.Tensor) Case {
		c := grid(what, ir.F32, rows, n, "", f)
		c.Axes["y"], c.Samples = "m .", []Sample{{"m": Some(2)}}
		return c
	}
	tall := grid("cumsum_axis0", ir.F32, scale.of(1<<20, 1<<12), rows, "", func(x frontend.Tensor) frontend.Tensor {
		return x.CumSum(0)
	})
	tall.Axes["y"], tall.Samples = ". n", []Sample{{"n": Some(2)}}
	short := rowsOf("cumsum", scale.of(32768, 64), scale.of(4096, 256), func(x frontend.Tensor) frontend.Tensor {
		return x.CumSum(1)
	})
	short.Axes["y"] = "m ."
	return []Case{
		short,
		tall,
		along("cumsum", long, func(x frontend.Tensor) frontend.Tensor { return x.CumSum(1) }),
		along("argsort", wide, func(x frontend.Tensor) frontend.Tensor { return x.Argsort(1) }),
		along("topk40", wide, func(x frontend.Tensor) frontend.Tensor { return x.TopKIndices(1, 40) }),
	}
}

// scatterCases returns the cases of scatters: a histogram, sums of single floats, and the gradient of an embedding.
func scatterCases(scale Scale) []Case {
	updates, bins, places := scale.of(1<<24, 1<<17), 256, scale.of(1<<20, 1<<12)
	words, tokens, width := scale.of(50257, 1000), scale.of(8192, 2100), scale.of(768, 40)
	into := func(name string, t ir.DType, places, updates, width int) Case {
		indexed := 4 * float64(updates)
		moved := float64(t.BlockBytes()) * float64(width) * float64(updates+places)
		return Case{
			Name: fmt.Sprintf("%s/%s/%dx%d_of_%d", name, t, places, width, updates),
			Build: func(b *frontend.Builder, _ Sizes) {
				ids, x := b.Input("ids", ir.I32, updates), b.Input("x", t, updates, width)
				b.Output("y", b.Full(t, 0, places, width).IndexAdd(0, ids, x))
			},
			Fills: map[string]Fill{"ids": {0, float64(places)}}, Moved: moved + indexed, Precision: NoFlops,
		}
	}
	return []Case{
		into("histogram", ir.I32, bins, updates, 1),
		into("scatter_add", ir.F32, bins, updates, 1),
		into("scatter_add", ir.F32, places, updates, 1),
		into("scatter_add", ir.F32, words, tokens, width),
	}
}

// convCase returns a case of a 3x3 convolution of dtype t, which may compute in the given precision. Its check uses two
// images and two output channels.
func convCase(scale Scale, t ir.DType, precision string) Case {
	images, channels, side := scale.of(8, 2), scale.of(256, 16), scale.of(56, 12)
	name := fmt.Sprintf("conv2d/%s/%dx%dx%dx%d", t, images, channels, side, side)
	if precision != ir.PrecisionFull {
		name += "/" + precision
	}
	return Case{
		Name: name, Allow: precision, Sizes: Sizes{"i": images, "c": channels, "o": channels, "s": side},
		Build: func(b *frontend.Builder, s Sizes) {
			x := b.Input("x", t, s["i"], s["c"], s["s"], s["s"])
			b.Output("y", x.Conv(b.Weight("w", t, s["o"], s["c"], 3, 3), frontend.Padding(1)))
		},
		Axes:    map[string]string{"x": "i c s s", "w": "o c . .", "y": "i o s s"},
		Samples: []Sample{{"i": Some(2), "o": Some(2)}},
		Flops:   matmulFlops(images*side*side, channels, channels*9), Precision: MatrixF16, Cached: true,
	}
}

// byteConvCase returns a case of a 3x3 convolution of i8 inputs, padded by a zero point. Its sums are scaled and
// rounded to i8.
func byteConvCase(scale Scale) Case {
	c := convCase(scale, ir.I8, ir.PrecisionFull)
	c.Precision, c.Fills = MatrixI8, map[string]Fill{"x": anyByte, "w": anyByte}
	c.Build = func(b *frontend.Builder, s Sizes) {
		x, w := b.Input("x", ir.I8, s["i"], s["c"], s["s"], s["s"]), b.Weight("w", ir.I8, s["o"], s["c"], 3, 3)
		sums := x.Conv(w, frontend.Padding(1), frontend.PaddingValue(3)).Cast(ir.F32)
		scales := b.Weight("scales", ir.F32, s["o"], 1, 1)
		b.Output("y", sums.Mul(scales).MulScalar(1./4096).Round().Cast(ir.I8))
	}
	c.Axes["scales"] = "o . ."
	return c
}

// expertsCase returns a case of a mixture of experts: each token is multiplied by the matrices of dtype t of a few
// experts, which inputs select.
func expertsCase(scale Scale, t ir.DType, tokens int) Case {
	experts, used := scale.of(128, 8), scale.of(8, 2)
	rows, width := scale.of(768, 24), scale.of(2048, 256)
	return Case{
		Name:  fmt.Sprintf("experts/%s/%dof%dx%dx%d/t%d", t, used, experts, rows, width, tokens),
		Sizes: Sizes{"t": tokens, "o": rows},
		Build: func(b *frontend.Builder, s Sizes) {
			x, w := b.Input("x", ir.F16, s["t"], 1, width), b.Weight("w", t, experts, s["o"], width)
			b.Output("y", x.MatMulID(w, b.Input("ids", ir.I32, s["t"], used)))
		},
		Axes:    map[string]string{"x": "t . .", "ids": "t .", "w": ". o .", "y": "t . o"},
		Samples: []Sample{{"t": Some(8), "o": Some(48)}}, Fills: map[string]Fill{"ids": {0, float64(experts)}},
		Flops: matmulFlops(tokens*used, rows, width), Precision: MatrixF16,
		Moved: picked(experts, tokens*used)*float64(rows*width)*float64(t.BlockBytes())/float64(t.BlockElems()) + // w
			2*float64(tokens*width+tokens*used*rows) + 4*float64(tokens*used), // x and y in f16, and ids in i32
	}
}

// picked returns the expected number of distinct experts among n after a number of random picks. A device reads only
// the matrices of experts that some token uses.
func picked(n, picks int) float64 {
	return float64(n) * (1 - math.Pow(1-1/float64(n), float64(picks)))
}
