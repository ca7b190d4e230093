package llm

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Shift returns the graph of a context shift: it drops tokens in the middle of a text, so that the text can continue in
// a full context (as in llama.cpp; the first tokens must stay: Xiao et al. 2023, arXiv:2309.17453). The inputs "keep"
// and "drop" i32[] are the number of first tokens to keep, and of tokens to drop after them. The symbol N, passed by
// name, is the number of tokens after the dropped ones. Their keys and values move down by drop positions, and their
// keys are rotated back accordingly. The graph has no outputs: it changes the states of Steps with the same options.
// With Texts it also has the input "text".
//
// The moved keys and values were computed while the dropped tokens were there, and still depend on them. A quantized
// cache is dequantized, rotated and quantized again. Shift fails if positions are learned, if keys have a norm
// after their rotation, if layers cache only a window, or if they have recurrent states.
func Shift(cfg Config, maxContext int, options ...Option) (*ir.Graph, error) {
	if err := cfg.CheckContext(maxContext); err != nil {
		return nil, err
	}
	arch, err := findArchitecture(cfg.Architecture)
	how := newDecoding(options)
	switch {
	case err != nil:
		return nil, err
	case cfg.IsRecurrent():
		return nil, fmt.Errorf("llm: the recurrent states of architecture %q cannot forget tokens", arch.name)
	case arch.rope == notRotary && cfg.MaxALiBi == 0:
		return nil, fmt.Errorf("llm: architecture %q has learned positions: keys cannot move to others", arch.name)
	case arch.lateHeadNorms:
		return nil, fmt.Errorf("llm: architecture %q normalizes keys after their rotation: they cannot move to other "+
			"positions", arch.name)
	case how.pages > 0:
		return nil, errors.New("llm: texts that share pages cannot forget tokens: leave out Pages")
	case how.atOnce > 0:
		return nil, errors.New("llm: layers that keep only a window no longer have the first tokens: leave out " +
			"KeepWindow")
	}
	return frontend.Build(graphName(cfg, "shift"), func(b *frontend.Builder) {
		m := newModel(b, cfg, int64(maxContext))
		first, drop := b.Input("keep", ir.I32), b.Input("drop", ir.I32)
		if how.texts > 1 {
			first = first.Add(how.textInput(b).MulScalar(float64(maxContext))) // the text's part of the state
		}
		moved := b.Sym("N", maxContext)
		back := drop.Neg().Reshape(1).Broadcast(moved) // as positions, they rotate keys back by the dropped tokens
		for i := range m.Layers {
			l := m.layer(i, back)
			if m.keysOf(i) != i || l.KVHeads == 0 {
				continue
			}
			move := func(name string, change func(frontend.Tensor) frontend.Tensor) {
				cache := how.state(b, name, l, false, maxContext)
				x := change(how.fromCacheType(cache).DynamicSlice(1, first.Add(drop), moved))
				b.Update(cache, cache.DynamicUpdateSlice(1, how.toCacheType(x), first))
			}
			move("cache_k", l.rotate)
			if l.Latent == 0 { // latent layers have no values apart from keys
				move("cache_v", func(x frontend.Tensor) frontend.Tensor { return x })
			}
		}
	})
}
