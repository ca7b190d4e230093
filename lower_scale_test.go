package vkc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// scales are graphs of any size, named after the dimension that grows.
var scales = []struct {
	name  string
	sizes []int
	build func(b *frontend.Builder, n int)
}{
	{"chain", []int{10, 100, 1000, 5000, 20000}, func(b *frontend.Builder, n int) {
		x, y := b.Input("x", ir.F32, 64), b.Input("y", ir.F32, 64)
		for i := range n {
			if i%2 == 0 {
				x = x.Add(y)
			} else {
				x = x.Mul(y)
			}
		}
		b.Output("o", x)
	}},
	{"dear chain", []int{10, 100, 1000, 5000, 20000}, func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 64)
		for range n {
			x = x.Sin()
		}
		b.Output("o", x)
	}},
	{"wide, one input", []int{10, 100, 1000, 5000, 20000}, func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 64)
		for i := range n / 2 {
			b.Output(fmt.Sprint("o", i), x.Affine(float64(i), 1).Tanh())
		}
	}},
	{"wide, inputs of their own", []int{10, 100, 1000, 5000, 20000}, func(b *frontend.Builder, n int) {
		for i := range n / 2 {
			b.Output(fmt.Sprint("o", i), b.Input(fmt.Sprint("x", i), ir.F32, 64).Tanh())
		}
	}},
	{"sum", []int{10, 100, 1000, 5000, 20000}, func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 64)
		for i := range n / 2 {
			x = x.Add(b.Input(fmt.Sprint("x", i), ir.F32, 64))
		}
		b.Output("o", x)
	}},
	{"layers", []int{10, 100, 1000, 5000, 20000}, func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 1, 64)
		for i := range n / 4 {
			x = x.Add(x.MatMul(b.Weight(fmt.Sprint("w", i), ir.F32, 64, 64)).Tanh())
		}
		b.Output("o", x)
	}},
	{"Llama layers", []int{2, 8, 32, 128}, llamaStep},
}

// llamaStep is a step of a small Llama of n layers, by one token.
func llamaStep(b *frontend.Builder, n int) {
	cfg := llm.Config{Name: "llama", Layers: n, Width: 256, Heads: 4, KVHeads: 4, HeadDim: 64,
		FeedForward: 512, Vocab: 512,
		Context: 128, NormEps: 1e-5, RopeBase: 1e4, RopeDims: 64, Types: map[string]ir.Type{}}
	weight := func(name string, t ir.DType, dims ...int) {
		cfg.Types[name] = ir.Type{DType: t, Shape: ir.ShapeOf(dims...)}
	}
	weight("token_embd.weight", ir.Q4_0, 512, 256)
	weight("output_norm.weight", ir.F32, 256)
	for i := range n {
		for _, name := range []string{"attn_norm", "ffn_norm"} {
			weight(fmt.Sprintf("blk.%d.%s.weight", i, name), ir.F32, 256)
		}
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			weight(fmt.Sprintf("blk.%d.%s.weight", i, name), ir.Q4_0, 256, 256)
		}
		weight(fmt.Sprintf("blk.%d.ffn_gate.weight", i), ir.Q4_0, 512, 256)
		weight(fmt.Sprintf("blk.%d.ffn_up.weight", i), ir.Q4_0, 512, 256)
		weight(fmt.Sprintf("blk.%d.ffn_down.weight", i), ir.Q4_0, 256, 512)
	}
	b.Output("logits", llm.Decode(b, cfg, b.Input("tokens", ir.I32, 1), b.Sym("S", 128), 128, llm.LastToken,
		llm.Cache(ir.F16)))
}

// BenchmarkLower takes graphs of growing size as far as GLSL.
func BenchmarkLower(b *testing.B) {
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range scales {
		for _, n := range s.sizes {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				g, err := frontend.Build(s.name, func(builder *frontend.Builder) { s.build(builder, n) })
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					low, err := compiler.Lower(context.Background(), g, caps, nil)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(len(low.Kernels)), "kernels")
				}
			})
		}
	}
}
