package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// llama2 returns the configuration of Llama 2 7B with the given number of layers. Its matrices have the block format t,
// except the last one: that is in q6_K, as in most files.
func llama2(t ir.DType, layers int) llm.Config {
	c := llamaConfig("llama7b", t, llm.Config{Layers: layers, Width: 4096, Heads: 32, KVHeads: 32, HeadDim: 128,
		FeedForward: 11008, Vocab: 32000})
	c.Types["output.weight"] = ir.Type{DType: ir.Q6_K, Shape: ir.ShapeOf(c.Vocab, c.Width)}
	return c
}

// llamaCases returns cases of typical uses of a large model: the next token after texts of some lengths, steps for
// several texts at once, and a prompt.
func llamaCases(scale Scale) []Case {
	model := llama2
	if scale == Tiny {
		model = func(t ir.DType, layers int) llm.Config {
			c := gollama(t)
			c.Layers = min(layers, 4)
			return llamaConfig("llama7b", t, c)
		}
	}
	var list []Case
	// Layers have three kinds of kernels: the first follows the embedding, and the last precedes the output.
	const layers, few = 32, 3
	for _, allow := range []string{"", ir.PrecisionBytes} {
		for _, length := range []int{128, 4096} {
			length, context := scale.of(length, length/64), scale.of(4096, 64)
			c := stepCase(model(ir.Q4_0, layers), ir.Q4_0, allow, length, context)
			standIn := stepCase(model(ir.Q4_0, few), ir.Q4_0, allow, length, context)
			c.StandIn = &standIn
			list = append(list, c)
		}
	}
	texts, length := scale.of(16, 4), scale.of(512, 8)
	batch := batchCase(model(ir.Q4_0, layers), ir.Q4_0, ir.PrecisionBytes, texts, length, scale.of(1024, 16))
	fewLayers := batchCase(model(ir.Q4_0, few), ir.Q4_0, ir.PrecisionBytes, texts, length, scale.of(1024, 16))
	batch.StandIn = &fewLayers
	list = append(list, batch)
	tokens := scale.of(512, 16)
	c := promptCase(model(ir.Q4_0, layers), ir.Q4_0, ir.PrecisionHalf, tokens)
	standIn := promptCase(model(ir.Q4_0, 2), ir.Q4_0, ir.PrecisionHalf, tokens)
	c.StandIn = &standIn
	return append(list, c)
}

// stepCase returns a case of a decode step: the logits after the token at position length, with an f16 KV cache of the
// tokens before.
func stepCase(cfg llm.Config, t ir.DType, allow string, length, context int) Case {
	c := Case{
		Name: fmt.Sprintf("step/%s_%s/%d", cfg.Name, t, length), Sizes: Sizes{}, Fills: modelFills(cfg), Allow: allow,
		Build: func(b *frontend.Builder, _ Sizes) {
			b.Output("logits", llm.Decode(b, cfg, b.Input("tokens", ir.I32, 1), b.Sym("S", context), context,
				llm.LastToken, llm.Cache(ir.F16)))
		},
		Symbols: map[string]int64{"S": int64(length)},
		Moved:   weightBytes(cfg) + float64(4*cfg.Layers*cfg.KVHeads*cfg.HeadDim*length), // keys and values of f16
		Flops:   2*params(cfg) + float64(4*cfg.Layers*cfg.Heads*cfg.HeadDim*length), Precision: NoFlops, Cached: true,
	}
	if allow != "" {
		c.Name += "/" + allow
	}
	return c
}

// batchCase returns a case of a decode step for several texts at once, as in a server. Each text has `length` tokens,
// of at most `context`.
func batchCase(cfg llm.Config, t ir.DType, allow string, texts, length, context int) Case {
	fills := modelFills(cfg)
	fills["positions"] = Fill{float64(length - 1), float64(length)} // the last position of each text
	return Case{
		Name: fmt.Sprintf("batch/%s_%s/%dx%d/%s", cfg.Name, t, texts, length, allow), Sizes: Sizes{}, Fills: fills,
		Allow: allow, Symbols: map[string]int64{"B": int64(texts)},
		Build: func(b *frontend.Builder, _ Sizes) {
			rows := b.Sym("B", texts)
			b.Output("logits", llm.DecodeBatch(b, cfg, b.Input("tokens", ir.I32, rows), b.Iota(ir.I32, 0, rows),
				b.Input("positions", ir.I32, rows), frontend.Tensor{}, texts, context, llm.Cache(ir.F16)))
		},
		Moved: weightBytes(cfg) + float64(4*cfg.Layers*cfg.KVHeads*cfg.HeadDim*length*texts),
		Flops: float64(texts) * (2*params(cfg) + float64(4*cfg.Layers*cfg.Heads*cfg.HeadDim*length)), Precision: NoFlops,
		Cached: true,
	}
}

// promptCase returns a case of a forward pass over a text of that many tokens with block weights.
func promptCase(cfg llm.Config, t ir.DType, allow string, tokens int) Case {
	c := forwardCase(cfg, t, tokens)
	c.Name, c.Fills, c.Allow = c.Name+"/"+allow, modelFills(cfg), allow
	return c
}

// modelFills returns the ranges of a model's random weights. They keep the magnitude of activations constant through
// the layers, as in a trained model. With large scores attention would pick single keys.
func modelFills(cfg llm.Config) map[string]Fill {
	fills := map[string]Fill{"tokens": {0, float64(cfg.Vocab)}}
	for name, t := range cfg.Types {
		if strings.HasSuffix(name, "norm.weight") {
			fills[name] = Fill{0.5, 1.5}
			continue
		}
		dims, _ := t.Shape.Eval(nil)
		most := math.Sqrt(3 / float64(dims[len(dims)-1])) // uniform in ±most, so that the squares of a row sum to 1
		fills[name] = Fill{-most, most}
	}
	return fills
}

// multiplied returns the types of the weights that a token is multiplied by: all except the table of embeddings, unless
// the output uses that table too.
func multiplied(cfg llm.Config) (types []ir.Type) {
	_, hasOutput := cfg.Types["output.weight"]
	for name, t := range cfg.Types {
		if name != "token_embd.weight" || !hasOutput {
			types = append(types, t)
		}
	}
	return types
}

// params counts the parameters that a token is multiplied by.
func params(cfg llm.Config) float64 {
	sum := 0.0
	for _, t := range multiplied(cfg) {
		sum += float64(t.Shape.MaxElems())
	}
	return sum
}

// weightBytes returns the bytes of weights that a step reads.
func weightBytes(cfg llm.Config) float64 {
	sum := 0.0
	for _, t := range multiplied(cfg) {
		if n, err := t.MaxBytes(); err == nil {
			sum += float64(n)
		}
	}
	return sum
}
