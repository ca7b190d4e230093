package generate

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
)

// maxAdapters bounds Options.Adapters.
const maxAdapters = 64

// checkAdapters reports adapters that are invalid for every model.
func (o Options) checkAdapters() error {
	if len(o.Adapters) > maxAdapters {
		return wrongOption("Adapters", "%d adapters: want at most %d", len(o.Adapters), maxAdapters)
	}
	for _, a := range o.Adapters {
		// The negated comparison also refuses NaN.
		if a.Path == "" || !(math.Abs(a.Scale) <= maxScale) {
			return wrongOption("Adapters", "adapter %q has the scale %v: want a file, and a scale of at most "+
				"%v", a.Path, a.Scale, float64(maxScale))
		}
	}
	return nil
}

// maxScale bounds the scale of an adapter.
const maxScale = 1e4

// openAdapters opens the adapters of the options, and makes the model's graphs use them.
func (m *Model) openAdapters(path string, o Options) (err error) {
	files := o.Adapters
	// Without AdapterScales the scales are constants, and an adapter with scale 0 has no effect.
	if !o.AdapterScales {
		files = slices.DeleteFunc(slices.Clone(files), func(a lora.File) bool { return a.Scale == 0 })
	}
	if m.bundle != nil && len(files) > 0 {
		return wrongOption("Adapters", "%s is a bundle, which takes no adapters: give the model's file, or a bundle "+
			"of a model with merged adapters", path)
	}
	if m.adapters, err = lora.OpenSet(files, m.config); err != nil {
		return err
	}
	m.config.Adapters, m.config.AdapterInputs = m.adapters.Graph(), o.AdapterScales && len(files) > 0
	m.weights = m.adapters.Source(m.file)
	return nil
}

// AdapterFiles returns the adapters of the model, with the scales of answers that have no others.
func (m *Model) AdapterFiles() []lora.File {
	list := make([]lora.File, len(m.adapters))
	for i, a := range m.adapters {
		list[i] = lora.File{Path: a.Path(), Scale: a.Scale}
	}
	return list
}

// adapterScales returns the scale of each LoRA adapter for an answer with these sampling options. It returns nil if the
// scales are constants in the graphs, because the model was opened without Options.AdapterScales.
func (m *Model) adapterScales(s Sampling) ([]float32, error) {
	if !m.config.AdapterInputs {
		if s.AdapterScales != nil {
			return nil, fmt.Errorf("generate: AdapterScales has %d numbers: want none, because the model was opened "+
				"without Options.AdapterScales", len(s.AdapterScales))
		}
		return nil, nil
	}
	if s.AdapterScales != nil && len(s.AdapterScales) != len(m.adapters) {
		return nil, fmt.Errorf("generate: AdapterScales has %d numbers: want one for each of %d adapters",
			len(s.AdapterScales), len(m.adapters))
	}
	scales := make([]float32, len(m.adapters))
	for i, a := range m.adapters {
		scale := a.Scale
		if s.AdapterScales != nil {
			scale = s.AdapterScales[i]
		}
		if !(math.Abs(scale) <= maxScale) {
			return nil, fmt.Errorf("generate: the scale of adapter %d is %v: want at most %v", i, scale,
				float64(maxScale))
		}
		scales[i] = float32(scale)
	}
	return scales, nil
}

// addScales puts the scales of adapters into in, if the graphs have an input for them. The input's shape is rows
// followed by the number of adapters. A batch passes its number of sequences as rows; other programs pass none.
func (m *Model) addScales(in vkc.Tensors, scales []float32, rows ...int) error {
	if !m.config.AdapterInputs {
		return nil
	}
	t, err := vkc.Of(scales, append(rows, len(m.adapters))...)
	in[llm.AdapterInput] = t
	return err
}
