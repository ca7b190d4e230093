package serve

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/lora"
)

// adapted is a model with low-rank adapters, such as a generate.Model.
type adapted interface {
	AdapterFiles() []lora.File
}

// adapters returns the adapters of the model.
func (s *Server) adapters() []lora.File {
	if m, ok := s.model.(adapted); ok {
		return m.AdapterFiles()
	}
	return nil
}

// loraAdapters lists the adapters of the model, as llama.cpp's server does.
func (s *Server) loraAdapters(w http.ResponseWriter, _ *http.Request) error {
	type adapter struct {
		ID    int     `json:"id"`
		Path  string  `json:"path"`
		Scale float64 `json:"scale"` // for requests that give no scales
	}
	list := []adapter{}
	for i, a := range s.adapters() {
		list = append(list, adapter{i, a.Path, a.Scale})
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// adapterNames returns a name for each adapter. A request for this name uses the model with only that adapter. An
// adapter is named after its file or folder, with a number if another adapter or the model has the same name.
func (s *Server) adapterNames() (names []string) {
	for _, a := range s.adapters() {
		name := strings.TrimSuffix(filepath.Base(a.Path), ".gguf")
		if name == s.o.Name || slices.Contains(names, name) {
			name = fmt.Sprintf("%s-%d", name, len(names))
		}
		names = append(names, name)
	}
	return names
}

// setScales sets the scales of adapters in a job. model and list are the request's fields. Adapters that the list lacks
// get the scale 0. Without a list, a model that is the name of an adapter selects only this adapter, and any other
// model leaves the server's scales.
func (s *Server) setScales(j *job, model string, list []loraScale) error {
	if i := slices.Index(s.adapterNames(), model); list == nil && i >= 0 && model != "" {
		list = []loraScale{{i, &s.adapters()[i].Scale}}
	}
	if list == nil {
		return nil
	}
	n := len(s.adapters())
	if n == 0 && len(list) > 0 {
		return wrongLora("lora: the server has no adapters: start it with --lora FILE")
	}
	if j.scored {
		return wrongLora("lora: probabilities of the prompt always use the server's scales: leave out logprobs, or " +
			"the scales")
	}
	if n == 0 { // an empty list is allowed
		return nil
	}
	j.sampling.AdapterScales = make([]float64, n)
	known := map[int]bool{}
	for _, a := range list {
		switch {
		case a.ID < 0 || a.ID >= n:
			return wrongLora("lora has the id %d: want 0 to %d; see /lora-adapters", a.ID, n-1)
		case known[a.ID]:
			return wrongLora("lora has the id %d twice: want one scale per id", a.ID)
		case a.Scale == nil:
			return wrongLora("lora has no scale for id %d: want {\"id\": N, \"scale\": X}", a.ID)
		case !(*a.Scale >= -maxLoraScale && *a.Scale <= maxLoraScale):
			return wrongLora("lora has the scale %v: want %d to %d", *a.Scale, -maxLoraScale, maxLoraScale)
		}
		known[a.ID] = true
		j.sampling.AdapterScales[a.ID] = *a.Scale
	}
	return nil
}

// wrongLora refuses the field lora of a request.
func wrongLora(format string, args ...any) error {
	return refuse(http.StatusBadRequest, "lora", format, args...)
}

// maxLoraScale bounds the scale of an adapter.
const maxLoraScale = 1000
