package e2e

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

var allFormats = flag.Bool("formats", false, "TestQuantizeBits: every format that devices quantize to, not a sample")

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

// TestQuantizeBits: blocks in a state equal the blocks of package quant, bit for bit, for random values of all
// magnitudes, down to those whose weighted squares are denormal. Most of the time is compilation, so without -formats
// there is one format for each method of choosing a scale.
func TestQuantizeBits(t *testing.T) {
	dev := openDevice(t)
	const rows, width = 40, 256
	rng := rand.New(rand.NewPCG(5, 6))
	values := make([]float64, rows*width)
	narrow := make([]float32, len(values))
	for i := range values {
		row := i / width
		narrow[i] = float32(rng.NormFloat64() * []float64{1, 300, 1e-6, 1e-8}[row%4])
		if row%5 == 0 {
			narrow[i] = float32(rng.IntN(9) - 4) // ties
		}
		values[i] = float64(narrow[i])
	}
	x, err := ir.FromFloats(ir.F32, values, rows, width)
	if err != nil {
		t.Fatal(err)
	}
	formats := []ir.DType{ir.Q5_0, ir.Q5_1, ir.Q8_1, ir.Q3_K, ir.Q4_K, ir.Q6_K, ir.IQ3_XXS, ir.IQ4_NL, ir.MXFP4,
		ir.NVFP4}
	if *allFormats {
		formats = ir.QuantizeFormats()
	}
	var graphs []*ir.Graph
	for _, q := range formats {
		graphs = append(graphs, build(t, func(b *frontend.Builder) {
			state := b.State("blocks", q, rows+3, width)
			next := state.DynamicUpdateSlice(0, b.Input("x", ir.F32, rows, width).Quantize(q), b.Scalar(ir.I32, 2))
			b.Update(state, next)
		}))
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	for i, q := range formats {
		exe := load(t, dev, graphs[i], nil)
		if _, err := exe.Run(context.Background(), map[string]*ir.Data{"x": x}); err != nil {
			t.Fatal(err)
		}
		have, err := exe.ReadState("blocks")
		if err != nil {
			t.Fatal(err)
		}
		size := width / q.BlockElems() * q.BlockBytes()
		want := make([]byte, (rows+3)*size)
		if err := quant.Quantize(want[2*size:(rows+2)*size], q, narrow, nil); err != nil {
			t.Fatal(err)
		}
		for i := range rows + 3 {
			if a, b := have.Bytes[i*size:(i+1)*size], want[i*size:(i+1)*size]; !bytes.Equal(a, b) {
				t.Errorf("%s: row %d is %x, want %x", q, i, a, b)
				break
			}
		}
	}
}
