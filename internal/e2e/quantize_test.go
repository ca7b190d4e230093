package e2e

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestQuantizedCache keeps keys and values in blocks. New rows are quantized into the states, and attention decodes the
// blocks that it reads. The same program runs with several lengths: T new rows of S.
func TestQuantizedCache(t *testing.T) {
	dev := openDevice(t)
	const heads, kvHeads, width, context = 4, 2, 64, 24
	for _, q := range []ir.DType{ir.Q8_0, ir.Q4_0, ir.IQ4_NL} {
		for _, grouped := range []bool{false, true} {
			g := build(t, func(b *frontend.Builder) {
				n, past := b.Sym("T", 8), b.Sym("S", context)
				start := b.DimValue(past).Sub(b.DimValue(n)) // S includes the new rows
				query, x := b.Input("q", ir.F32, heads, n, width), b.Input("kv", ir.F32, kvHeads, n, width)
				k, v := b.State("k", q, kvHeads, context, width), b.State("v", ir.Q5_1, kvHeads, context, width)
				newK := k.DynamicUpdateSlice(1, x.Quantize(k.DType()), start)
				newV := v.DynamicUpdateSlice(1, x.MulScalar(2).Quantize(v.DType()), start)
				b.Update(k, newK)
				b.Update(v, newV)
				keys, values := newK.Dequantize(ir.F32).Slice(1, 0, past), newV.Dequantize(ir.F32).Slice(1, 0, past)
				if grouped {
					b.Output("y", query.Attention(keys, values))
					return
				}
				b.Output("y", query.Slice(0, 0, kvHeads).MatMulT(keys).Softmax(-1).MatMul(values))
			})
			var symbols []map[string]int64
			past := int64(0)
			for _, n := range []int64{5, 1, 8, 2, 1} {
				past += n
				symbols = append(symbols, map[string]int64{"T": n, "S": past})
			}
			checkRun(t, dev, g, symbols)
		}
	}
}
