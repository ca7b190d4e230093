package bench

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// modelCases returns the cases of kernel launches and of whole language models.
func modelCases(scale Scale) []Case {
	launches := scale.of(1000, 50)
	list := []Case{dependentCase(launches), independentCase(launches)}
	for _, t := range []ir.DType{ir.F16, ir.Q8_0} {
		for _, tokens := range []int{512, 1} {
			list = append(list, forwardCase(gollama(t), t, scale.of(tokens, min(tokens, 16))))
		}
	}
	return append(list, llamaCases(scale)...)
}

// dependentCase returns a case of n tiny kernels in a chain. Each kernel depends on all elements of the result of the
// kernel before.
func dependentCase(n int) Case {
	return Case{
		Name: name("launch", "dependent", n), Sizes: Sizes{}, Precision: NoFlops, Cached: true, Launches: n,
		Build: func(b *frontend.Builder, _ Sizes) {
			x := b.Input("x", ir.F32, 16, 16)
			for i := range n {
				x = x.Softmax(i % 2) // the other axis than before, so that the two cannot be fused
			}
			b.Output("y", x)
		},
	}
}

// independentCase returns a case of a number of tiny kernels that do not depend on each other.
func independentCase(n int) Case {
	return Case{
		Name: name("launch", "independent", n), Sizes: Sizes{}, Precision: NoFlops, Cached: true, Launches: n,
		Build: func(b *frontend.Builder, _ Sizes) {
			for i := range n {
				b.Output(fmt.Sprint("y", i), b.Input(fmt.Sprint("x", i), ir.F32, 16, 16).Softmax(1))
			}
		},
	}
}

// gollama returns the shape of the model in examples/gollama: 7.3 M parameters.
func gollama(t ir.DType) llm.Config {
	return llamaConfig("gollama", t,
		llm.Config{Layers: 8, Width: 256, Heads: 4, KVHeads: 2, HeadDim: 64, FeedForward: 768, Vocab: 4096})
}

// llamaConfig returns the description c of a model completed with a name, common parameters, and the types of its
// weights: matrices of dtype t and f32 norms.
func llamaConfig(name string, t ir.DType, c llm.Config) llm.Config {
	c.Name, c.Context, c.NormEps, c.RopeBase, c.RopeDims = name, 4096, 1e-5, 10000, c.HeadDim
	c.Types = map[string]ir.Type{}
	add := func(name string, t ir.DType, dims ...int) {
		c.Types[name+".weight"] = ir.Type{DType: t, Shape: ir.ShapeOf(dims...)}
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	add("token_embd", t, c.Vocab, c.Width)
	add("output_norm", ir.F32, c.Width)
	for i := range c.Layers {
		layer := fmt.Sprintf("blk.%d.", i)
		add(layer+"attn_norm", ir.F32, c.Width)
		add(layer+"attn_q", t, q, c.Width)
		add(layer+"attn_k", t, kv, c.Width)
		add(layer+"attn_v", t, kv, c.Width)
		add(layer+"attn_output", t, c.Width, q)
		add(layer+"ffn_norm", ir.F32, c.Width)
		add(layer+"ffn_gate", t, c.FeedForward, c.Width)
		add(layer+"ffn_up", t, c.FeedForward, c.Width)
		add(layer+"ffn_down", t, c.Width, c.FeedForward)
	}
	return c
}

// forwardCase returns a case of a forward pass over a text of that many tokens, for the logits of the next token.
func forwardCase(cfg llm.Config, t ir.DType, tokens int) Case {
	params := 0.0
	for _, t := range cfg.Types {
		params += float64(t.Shape.MaxElems())
	}
	scale := 1 / float64(cfg.Width) // keeps the magnitude of activations constant in random layers
	fills := map[string]Fill{"tokens": {0, float64(cfg.Vocab)}}
	for name := range cfg.Types {
		if cfg.Types[name].DType.IsFloat() {
			fills[name] = Fill{-8 * scale, 8 * scale}
		}
	}
	return Case{
		Name: fmt.Sprintf("forward/%s_%s/%d", cfg.Name, t, tokens), Sizes: Sizes{}, Fills: fills,
		Build: func(b *frontend.Builder, _ Sizes) {
			b.Output("logits", llm.Forward(b, cfg, b.Input("tokens", ir.I32, tokens), llm.LastToken))
		},
		Flops: 2 * params * float64(tokens), Precision: MatrixF16, Cached: true,
	}
}
