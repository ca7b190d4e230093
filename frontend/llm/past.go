package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Past returns the graph that exporters of language models write: the keys and values of earlier tokens are inputs, and
// the keys and values of all tokens are outputs. It has input "input_ids" i64[1, T] and output "logits" f32[1, T,
// vocabulary], for the symbol T named sequence_length. Layer N has inputs "past_key_values.N.key" and
// "past_key_values.N.value" f32[1, KVHeads, P, HeadDim], for the symbol P named past_sequence_length, and outputs
// "present.N.key" and "present.N.value" of P+T positions. The first run has P = 0. T and P are at most maxContext.
// Models with recurrent layers are refused.
func Past(cfg Config, maxContext int) (*ir.Graph, error) {
	if err := cfg.checkLogits(maxContext); err != nil {
		return nil, err
	}
	if cfg.IsRecurrent() {
		return nil, fmt.Errorf("llm: architecture %q has recurrent states, and only keys and values can be inputs",
			cfg.Architecture)
	}
	return frontend.Build(graphName(cfg, "past"), func(b *frontend.Builder) {
		length, before := b.Sym("sequence_length", maxContext), b.Sym("past_sequence_length", maxContext)
		tokens := b.Input("input_ids", ir.I64, ir.D(1), length).Reshape(length)
		m := newModel(b, cfg, int64(maxContext))
		m.adapt(b)
		positions := b.Iota(ir.I32, 0, length).Add(b.DimValue(before))
		type result struct {
			name  string
			value frontend.Tensor
		}
		var present []result // outputs come after "logits", but are known before
		attend := func(l layer, q, k, v frontend.Tensor, options []frontend.AttentionOption) frontend.Tensor {
			heads, width := l.cached()
			keys, values := l.extended(k, v, func(name string, x frontend.Tensor) frontend.Tensor {
				suffix := fmt.Sprintf(".%d.%s", l.index, map[string]string{"cache_k": "key", "cache_v": "value"}[name])
				past := b.Input("past_key_values"+suffix, ir.F32, ir.D(1), ir.D(heads), before, ir.D(width))
				all := past.Concat(2, x.Unsqueeze(0))
				present = append(present, result{"present" + suffix, all})
				return all.Squeeze(0)
			})
			return l.attendText(q, keys, values, options)
		}
		logits := m.forward(tokens, positions, history{attend: attend, perText: int64(maxContext)}, EveryToken)
		b.Output("logits", logits.Unsqueeze(0))
		for _, r := range present {
			b.Output(r.name, r.value)
		}
	})
}
