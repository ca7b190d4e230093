package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// OffsetInput is the name of the input that Config.Pictures adds.
const OffsetInput = "rope_offset"

// picture has the inputs of a graph that reads rows of a picture in place of tokens.
type picture struct {
	rows   frontend.Tensor   // [T, Width*(1+Deepstack)]
	places []frontend.Tensor // positions in each direction, each i32[T]; nil in models without Sections
}

// part returns the elements of each row that go into the residual stream before the first layer, if i is 0, or after
// the i-th layer: [T, width].
func (p *picture) part(i, width int) frontend.Tensor {
	return p.rows.Slice(1, i*width, ir.D((i+1)*width))
}

// Images returns the graph of a step, as [Steps] does, in which T given rows take the place of embedded tokens, such as
// the rows that a vision tower makes of a picture. The graph has no output. It changes the states of Steps with the
// same options, so that a text can follow. T is at most maxTokens, and maxContext is the number of positions, as in
// Steps. The inputs are:
//
//   - "embeddings", f32[T, Width*(1+Deepstack)]: the rows. The first Width elements go into the first layer, and Width
//     elements are added after each of the first Deepstack layers.
//   - "places", i32[3, T], in models with Config.Sections: the rotary positions of each row (time, row and column).
//
// If [Config.WholePictures] is true, a run must have all rows of one picture.
func Images(cfg Config, maxTokens, maxContext int, options ...Option) (*ir.Graph, error) {
	if maxTokens < 1 || maxTokens > maxContext {
		return nil, fmt.Errorf("llm: %d rows at once: want 1 to %d, the number of positions", maxTokens, maxContext)
	}
	if err := cfg.checkLogits(maxContext); err != nil {
		return nil, err
	}
	if err := cfg.CheckPictures(); err != nil {
		return nil, err
	}
	return frontend.Build(graphName(cfg, "images"), func(b *frontend.Builder) {
		t := b.Sym("T", maxTokens)
		m, how := newModel(b, cfg, int64(maxContext)), newDecoding(options)
		m.picture = &picture{rows: b.Input("embeddings", ir.F32, t, ir.D(cfg.Width*(1+cfg.Deepstack)))}
		if len(cfg.Sections) > 0 {
			places := b.Input("places", ir.I32, ir.D(3), t)
			for i := range 3 {
				m.picture.places = append(m.picture.places, places.Index(0, i))
			}
		}
		m.Pictures = false // the places are rotary positions
		positions, past := m.continued(b, how, t, b.Sym("S", maxContext), maxContext)
		m.layers(frontend.Tensor{}, positions, past)
	})
}

// CheckPictures returns an error if the model cannot take the rows of a picture in place of embedded tokens.
func (c Config) CheckPictures() error {
	a, err := findArchitecture(c.Architecture)
	switch {
	case err != nil:
		return fmt.Errorf("llm: %w", err)
	case a.encoder || a.perLayer != nil || a.split != nil || c.EmbeddingScale != 0 || a.rope == notRotary:
		return fmt.Errorf("llm: architecture %q reads no pictures", a.name)
	case a.sections == takingTurns && len(c.Sections) == 0:
		return fmt.Errorf("llm: a model of architecture %q has no rope.dimension_sections: it cannot read pictures",
			a.name)
	}
	return nil
}

// WholePictures reports whether a run of Images must have all rows of a picture.
func (c Config) WholePictures() bool {
	a, err := findArchitecture(c.Architecture)
	return err == nil && a.pictureSeesItself
}

// offset returns the rotary positions of tokens at the given positions. In a model with Pictures and Sections it adds
// input "rope_offset" of the given shape to the positions.
func (m model) offset(positions frontend.Tensor, shape ...any) frontend.Tensor {
	if !m.Pictures || len(m.Sections) == 0 {
		return positions
	}
	return positions.Add(positions.Builder().Input(OffsetInput, ir.I32, shape...))
}

// insidePicture returns the options of attention for the tokens of a picture, the last n of length positions. They
// attend to each other and to all earlier tokens or, in a layer with a window, to each other and to the window.
func (l layer) insidePicture(n, length ir.Dim) []frontend.AttentionOption {
	if !l.windowed() {
		return nil
	}
	b := l.positions.Builder()
	first := b.DimValue(length).Sub(b.DimValue(n))
	own := b.Iota(ir.I32, 0, n).Add(first).Reshape(1, -1, 1)
	keys := b.Iota(ir.I32, 2, ir.D(1), ir.D(1), length)
	seen := keys.Ge(first).Or(keys.Ge(l.firstSeen(own)))
	return []frontend.AttentionOption{frontend.Mask(seen)}
}
