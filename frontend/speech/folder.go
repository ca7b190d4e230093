package speech

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// Folder has the contents of the files that describe a model in a Hugging Face folder. All but Config may be nil.
type Folder struct {
	Config       []byte // config.json
	Preprocessor []byte // preprocessor_config.json
	Generation   []byte // generation_config.json
}

// IsFolder reports whether config.json describes a model of speech.
func IsFolder(config []byte) bool {
	_, ok := classOf(config)
	return ok
}

// classOf returns the architecture that config.json names in "architectures", and whether vkc supports one of them.
func classOf(config []byte) (a architecture, supported bool) {
	var c struct{ Architectures []string }
	if json.Unmarshal(config, &c) != nil {
		return architecture{}, false
	}
	for _, a := range architectures {
		if slices.Contains(c.Architectures, a.class) {
			return a, true
		}
	}
	return architecture{}, false
}

// ignoredTensors lists tensors that folders may have besides the weights: the output matrix, which is the table of
// tokens.
var ignoredTensors = []string{"proj_out.weight"}

// Translate returns the folder's model in GGUF's spelling. tensors has the types of its tensors.
func (f Folder) Translate(tensors map[string]ir.Type) (*llm.Folder, error) {
	arch, ok := classOf(f.Config)
	if !ok {
		return nil, fmt.Errorf("config.json does not describe a speech model: want the class %s in architectures",
			arch.class)
	}
	config, err := object("config.json", f.Config)
	if err != nil {
		return nil, err
	}
	if err := wanted("config.json", config, arch.wants); err != nil {
		return nil, err
	}
	out := &llm.Folder{Architecture: arch.name}
	set := func(key string, value any) {
		out.Metadata = append(out.Metadata, gguf.KV{Key: arch.name + "." + key, Value: value})
	}
	out.Metadata = append(out.Metadata, gguf.KV{Key: "general.architecture", Value: arch.name})
	// Folders of this class do not store the epsilon.
	set(normKey, float32(arch.norm))
	var c Config
	for _, line := range lines(arch.keys) {
		i := slices.IndexFunc(sizeKeys, func(k sizeKey) bool { return k.key == line[0] })
		n := 0
		if err := json.Unmarshal(config[line[1]], &n); err != nil || n < 1 || n > sizeKeys[i].bound {
			return nil, fmt.Errorf("config.json: %s is %q: want 1 to %d", line[1], config[line[1]], sizeKeys[i].bound)
		}
		*sizeKeys[i].size(&c) = n
		set(line[0], uint32(n))
	}
	if err := f.translateGeneration(config, set); err != nil {
		return nil, err
	}
	if err := f.checkPreprocessor(c); err != nil {
		return nil, err
	}
	out.Weights, out.Ignored, err = arch.translateWeights(c, tensors)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// translateGeneration sets the metadata of generation_config.json: the tokens that are never chosen, and the heads that
// align text with sound. Older folders have the tokens in config.json.
func (f Folder) translateGeneration(config map[string]json.RawMessage, set func(key string, value any)) error {
	generation, err := object("generation_config.json", f.Generation)
	if err != nil {
		return err
	}
	for _, key := range []string{suppressedKey, suppressedFirstKey} {
		raw := generation[key]
		if len(raw) == 0 {
			raw = config[key]
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		list := []uint32{}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("%s is %.60s: want a list of tokens", key, raw)
		}
		set(key, list)
	}
	if raw := generation[alignmentKey]; len(raw) > 0 && string(raw) != "null" {
		var pairs [][2]uint32
		if err := json.Unmarshal(raw, &pairs); err != nil {
			return fmt.Errorf("generation_config.json: %s is %.60s: want pairs of a layer and a head",
				alignmentKey, raw)
		}
		list := []uint32{}
		for _, pair := range pairs {
			list = append(list, pair[:]...)
		}
		set(alignmentKey, list)
	}
	return nil
}

// translateWeights finds the tensor of each weight. ignored lists the tensors that the model does not need.
func (a architecture) translateWeights(c Config, tensors map[string]ir.Type) (weights []llm.Origin, ignored []string,
	err error) {
	foreign := a.foreign(c, inFolder)
	used := map[string]bool{}
	for _, w := range a.weights(c) {
		from := foreign[w.name]
		if _, ok := tensors[from]; !ok {
			return nil, nil, fmt.Errorf("the folder has no tensor %q", from)
		}
		used[from] = true
		weights = append(weights, llm.Origin{Name: w.name, From: []string{from}})
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		switch {
		case used[name]:
		case slices.Contains(ignoredTensors, name):
			ignored = append(ignored, name)
		default:
			return nil, nil, fmt.Errorf("architecture %q has no weight for tensor %q", a.name, name)
		}
	}
	return weights, ignored, nil
}

// checkPreprocessor returns an error if preprocessor_config.json describes another spectrogram than LogMel computes. A
// setting that the file lacks is not checked.
func (f Folder) checkPreprocessor(c Config) error {
	const name = "preprocessor_config.json"
	settings, err := object(name, f.Preprocessor)
	if err != nil {
		return err
	}
	want := fmt.Sprintf(`
		feature_size  %d
		sampling_rate %d
		hop_length    %d
		n_fft         %d
		dither        0.0
		padding_value 0.0
		n_samples     %d`, c.Mels, Rate, hop, fft, c.Window())
	return wanted(name, settings, want)
}

// object parses a JSON object; none is empty.
func object(name string, data []byte) (values map[string]json.RawMessage, err error) {
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return values, nil
}

// wanted returns an error if a value differs from the table, which has a key and a JSON value in each line. A key that
// is missing or null is not checked.
func wanted(file string, values map[string]json.RawMessage, table string) error {
	for _, line := range lines(table) {
		key, want := line[0], strings.Join(line[1:], " ")
		var have, must any
		raw, ok := values[key]
		if !ok || json.Unmarshal(raw, &have) != nil || have == nil {
			continue
		}
		if err := json.Unmarshal([]byte(want), &must); err != nil || have != must {
			return fmt.Errorf("%s: %s is %s, which is not supported: want %s", file, key, raw, want)
		}
	}
	return nil
}
