package optest

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// blockEdges returns rows that are special cases of block formats: only zeros of either sign, a constant, a row in
// which the element of largest magnitude is negative, positive or both, scales that are denormal as f16 or as f32, and
// ties between levels. Groups of 32 have different scales, and no magnitude exceeds most.
func blockEdges(most float64) []float64 {
	const width = 256
	rows := []func(i int) float64{
		// zeros
		func(int) float64 { return 0 },
		func(int) float64 { return math.Copysign(0, -1) },
		func(i int) float64 { return math.Copysign(0, float64(i%2)-0.5) },
		// constants
		func(int) float64 { return 3.25 },
		func(int) float64 { return -7 },
		// largest magnitude negative, positive, of either sign, and ties
		func(i int) float64 { return float64(i) - 31 },
		func(i int) float64 { return 31 - float64(i) },
		func(i int) float64 { return float64(1-2*(i%2)) * 5 },
		func(i int) float64 { return float64(i-16) / 2 },
		// scales that are denormal as f16, then as f32
		func(i int) float64 { return (float64(i) - 15.5) * 0x1p-20 },
		func(i int) float64 { return (float64(i) - 11.3) * 0x1p-25 },
		func(i int) float64 { return (float64(i) - 11.3) * 0x1p-60 },
		func(i int) float64 { return math.Copysign(0x1p-124*(1+float64(i)/8), float64(i%3)-1) },
		// large numbers, an offset, and a wide range
		func(i int) float64 { return (float64(i) - 11.3) * 3e3 },
		func(i int) float64 { return 1000 + float64(i)/64 },
		func(i int) float64 { return math.Pow(-1.7, float64(i%17)) },
	}
	var list []float64
	for _, f := range rows {
		for i := range width {
			// The factor gives each group of 32 its own scale.
			v := f(i%32) * float64(1+i/32)
			list = append(list, math.Copysign(min(math.Abs(v), most), v))
		}
	}
	return list
}

// quantized quantizes x to format q and decodes the result, because outputs cannot be blocks.
func (b *builder) quantized(q ir.DType, x *ir.Node, to ir.DType) *ir.Node {
	return b.view(ir.OpDequantize, b.view(ir.OpQuantize, x, attr("dtype", q)), attr("dtype", to))
}

// blocks adds the cases of quantize. The device must compute the same bits as the host.
func (s *suite) blocks() {
	for _, q := range ir.QuantizeFormats() {
		edges, per := blockEdges(float64(quant.Limit(q))), q.BlockElems()
		for _, dims := range [][]int{{per}, {0, per}, {1, 2 * per}, {5, 3, per}, {70, per}} {
			for _, l := range []layout{plain, viewed} {
				t := s.add(ir.OpQuantize, fmt.Sprintf("%s/%s/%s", q, shapeName(dims), layoutNames[l]),
					func(b *builder, t ir.DType) *ir.Node {
						return b.quantized(q, b.arg(t, dims, l, small), ir.F32)
					})
				t.types, t.broad = []ir.DType{ir.F32, ir.F16, ir.BF16}, len(dims) == 3
				t.smoke = len(dims) == 3 && l == plain
			}
		}
		s.add(ir.OpQuantize, fmt.Sprintf("%s/edges", q), func(b *builder, t ir.DType) *ir.Node {
			return b.quantized(q, b.given(t, edges, len(edges)/256, 256), ir.F32)
		}).types = []ir.DType{ir.F32}
		s.add(ir.OpQuantize, fmt.Sprintf("%s/and back", q), func(b *builder, t ir.DType) *ir.Node {
			return b.quantized(q, b.input(t, []int{7, 2 * per}, small), t)
		}).types = []ir.DType{ir.F32, ir.F16}
	}
}
