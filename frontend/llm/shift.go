package llm

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Shift returns the graph that forgets tokens in the middle of a text, so that it can go on in a context that is full
// (context shift of llama.cpp; that the first tokens have to stay: Xiao et al. 2023, arXiv:2309.17453). Inputs are
// "keep" and "drop" i32[], how many of the first tokens stay and how many after them go; the symbol N, passed by name,
// is how many there are after those. Keys and values of these move to where the dropped ones were, and keys turn back
// by as many positions. There are no outputs: what changes are the states of Steps with the same options, of which
// Texts adds the input "text" here too.
//
// What moved still knows of what was dropped, by which it was computed. Blocks are decoded, and made anew of the keys
// that have turned. It is an error where keys do not turn with their position, or layers keep a window only.
func Shift(cfg Config, maxContext int, options ...Option) (*ir.Graph, error) {
	if err := cfg.CheckContext(maxContext); err != nil {
		return nil, err
	}
	arch, err := findArchitecture(cfg.Architecture)
	how := newDecoding(options)
	switch {
	case err != nil:
		return nil, err
	case arch.rope == unturned:
		return nil, fmt.Errorf("llm: positions of architecture %q are learned: keys cannot move to others", arch.name)
	case how.pages > 0:
		return nil, errors.New("llm: texts that share pages cannot forget tokens: leave out Pages")
	case how.atOnce > 0:
		return nil, errors.New("llm: layers that keep a window only have lost what is to stay: leave out KeepWindow")
	}
	return frontend.Build(graphName(cfg, "shift"), func(b *frontend.Builder) {
		m := newModel(b, cfg, int64(maxContext))
		first, drop := b.Input("keep", ir.I32), b.Input("drop", ir.I32)
		if text := how.textInput(b); how.texts > 1 {
			first = first.Add(text.MulScalar(float64(maxContext)))
		}
		moved := b.Sym("N", maxContext)
		back := drop.Neg().Reshape(1).Broadcast(moved)
		for i := range m.Layers {
			l := layer{model: m, index: i, positions: back}
			move := func(name string, change func(frontend.Tensor) frontend.Tensor) {
				cache := how.state(b, name, l, false, maxContext)
				x := change(how.read(cache).DynamicSlice(1, first.Add(drop), moved))
				b.Update(cache, cache.DynamicUpdateSlice(1, how.keep(x), first))
			}
			move("cache_k", l.turn)
			move("cache_v", func(x frontend.Tensor) frontend.Tensor { return x })
		}
	})
}
