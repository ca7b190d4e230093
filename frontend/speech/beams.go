package speech

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Beams returns the graph of a step of the decoder for several texts of equal length: each gets one more token. Its
// inputs are "tokens" i32[beams] and "from" i32[beams], and its output is "logits" f32[beams, Vocab]. tokens[i]
// continues the text number from[i], or for from[i] = beams the text that Step has read. The result is the new text i.
// The symbol S, up to Context, is the length of the new texts. Their keys and values are in states "beamsB_k.N" and
// "beamsB_v.N", for B beams and layer N.
func Beams(c Config, beams int, list ...Option) (*ir.Graph, error) {
	return frontend.Build(c.graphName("beams"), func(b *frontend.Builder) {
		m, o := newModel(b, c), optionsOf(b, list)
		tokens, from := b.Input("tokens", ir.I32, beams), b.Input("from", ir.I32, beams)
		length := b.Sym("S", c.Context)
		start := b.DimValue(length).SubScalar(1)
		positions := start.Reshape(1).Broadcast(beams)
		attend := func(i int, l nn.Weights, y frontend.Tensor) frontend.Tensor {
			apart := func(name string) frontend.Tensor { // [beams, Heads, 1, D]
				return m.heads(y, l.Sub(name), m.Heads).SwapAxes(0, 1).Unsqueeze(2)
			}
			extended := func(part string) frontend.Tensor {
				state := m.beamState(b, part, i, beams, o.cache)
				read := m.state(b, "cache_"+part, i, o.cache, c.Context).Unsqueeze(0)
				own := apart("attn_" + part).Cast(o.cache)
				// Each beam takes the keys of the text that it continues, and appends its own.
				all := state.Concat(0, read).IndexSelect(0, from).DynamicUpdateSlice(2, own, start)
				b.Update(state, all)
				return all.Cast(ir.F32).Slice(2, 0, length)
			}
			return apart("attn_q").Attention(extended("k"), extended("v")).Squeeze(2).SwapAxes(0, 1)
		}
		x := m.decoder(b, m.embed(tokens, positions), o.cache, attend, nil)
		x = nn.LayerNorm(x, m.w.Sub("dec.output_norm"), m.NormEps)
		b.Output("logits", nn.Unembed(x, m.w.Sub("token_embd")))
	})
}

// beamState returns the state with the keys or values of all beams in a layer. Its name has the number of beams,
// because executables that share states have one type for each name.
func (m model) beamState(b *frontend.Builder, part string, layer, beams int, t ir.DType) frontend.Tensor {
	return b.State(fmt.Sprintf("beams%d_%s.%d", beams, part, layer), t, beams, m.Heads, m.Context, m.Width/m.Heads)
}
