package llm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/internal/texttable"
	"github.com/vkc-go/vkc/ir"
)

// folder says how Hugging Face's folders spell an architecture: the values and tensors that have other names there than
// in GGUF files. The tables folderKeys and folderWeights have the names that most architectures share.
type folder struct {
	// classes lists the values of "architectures" in config.json, separated by spaces. An architecture without classes
	// has no folders.
	classes string

	// layers is the prefix of a layer's tensors, with N for the layer's number; "" means model.layers.N.
	layers string

	// weights has a line for each weight that differs from folderWeights: GGUF's name without ".weight", the folder's,
	// and changes from the table changes. A layer's names are relative to the layer. E stands for the number of an
	// expert: the experts' tensors are stacked. So are the tensors of a name with {a,b,c}. If a weight has several
	// lines, the first that the folder has counts.
	weights string

	// keys has a line for each value that differs from folderKeys: GGUF's key, and keys of config.json. The first that
	// config.json has counts. A line without keys of config.json removes the line of folderKeys.
	keys string

	// wants has a line for each key of config.json that must have one of some values, if it is there. A model with
	// another value would need another graph.
	wants string

	// defaults has a line for each key of config.json that folders may leave out, with its value in JSON.
	defaults string

	// lessOne says that folders store the weights of norms less 1. GGUF files have the whole weights.
	lessOne bool

	// interleaved means that the folder has the elements of heads in the order neighbours too. Otherwise folders have
	// the order halves, whatever GGUF files have.
	interleaved bool

	// mixers lists kinds of layers in "layer_types" of config.json that do not attend.
	mixers string

	// factors means that the folder has factors of weights in config.json, and GGUF files have them in the weights.
	factors bool

	// read sets values that no line of keys can say. It is nil if there are none.
	read func(c *folderConfig)
}

// Folder is the translation of a Hugging Face folder to GGUF's spelling.
type Folder struct {
	Architecture string
	Metadata     []gguf.KV // with general.architecture
	Weights      []Origin
	Ignored      []string // tensors of the folder that no weight is made of

	windows []bool // for each layer, whether it has a window; nil if config.json does not say
}

// Origin says how a weight is made.
type Origin struct {
	Name string   // in GGUF
	From []string // tensors of the folder, joined along their first axis; none if Values has the elements

	Stacked    bool              // the tensors of From become the elements of a new first axis
	Transposed bool              // the last two axes of the tensor are exchanged, before Rows
	Rows       func(n int) []int // which of n rows the weight has; nil means all
	RowAxis    int               // the axis that Rows means
	Dims       []int             // of the weight, if its elements come to be in another shape; nil means the tensor's

	// Change changes an element of a row of the weight, the first axis. The result is rounded to the weight's type. nil
	// changes nothing.
	Change func(row int, v float64) float64

	Values []float32 // of a weight that config.json defines
}

// FromFolder translates a Hugging Face folder. config is the folder's config.json, and tensors has the types of its
// tensors. A setting that no graph of this package computes is an error.
func FromFolder(config []byte, tensors map[string]ir.Type) (*Folder, error) {
	c, a, err := readFolderConfig(config)
	if err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if err := c.translate(a); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	f := &Folder{Architecture: a.name, windows: c.windows()}
	if c.err != nil {
		return nil, fmt.Errorf("config.json: %w", c.err)
	}
	f.Metadata = append(f.Metadata, gguf.KV{Key: "general.architecture", Value: a.name})
	for _, key := range slices.Sorted(maps.Keys(c.set)) {
		f.Metadata = append(f.Metadata, gguf.KV{Key: a.name + "." + key, Value: c.set[key]})
	}
	// The number comes from a file, and each layer makes rows of a table.
	if n := c.size("block_count", 0); n > len(tensors) {
		return nil, fmt.Errorf("config.json: %d layers, and the folder has %d tensors: want one for each at least", n,
			len(tensors))
	}
	translated, err := f.config(a)
	if err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	f.Weights, f.Ignored, err = c.weights(a, translated, tensors)
	return f, err
}

// config reads the configuration as FromGGUF does, but without types of weights.
func (f *Folder) config(a architecture) (Config, error) {
	file, err := gguf.Of(f.Metadata, noWeights{}, nil)
	if err != nil {
		return Config{}, err
	}
	r := newMetadata(file, a)
	c := r.config(a)
	return c, r.err
}

// noWeights implements gguf.Named for a file of metadata.
type noWeights struct{}

func (noWeights) WeightNames() []string { return nil }

func (noWeights) WeightType(name string) (ir.DType, []int, error) {
	return ir.Invalid, nil, fmt.Errorf("there is no weight %q", name)
}

func (noWeights) Weight(name string) (*ir.Data, error) {
	return nil, fmt.Errorf("there is no weight %q", name)
}

// Origins translates the names of tensors of a Hugging Face folder of the model, such as an adapter's tensors. The
// result has an Origin for each weight that is made of some of them. It is an error if a tensor belongs to no weight.
func (c Config) Origins(tensors map[string]ir.Type) ([]Origin, error) {
	a, err := findArchitecture(c.Architecture)
	if err != nil {
		return nil, err
	}
	if a.folder.factors {
		return nil, fmt.Errorf("tensors of folders of architecture %q lack the factors that the weights of the model "+
			"have: want an adapter as GGUF", a.name)
	}
	f := &folderConfig{}
	c.Types, c.DraftLayers = nil, 0 // as for a folder, whose types come from the tensors
	with := maps.Clone(tensors)
	for _, table := range []string{folderWeights, a.folder.weights} { // the token embedding tells the prefix of names
		for _, line := range texttable.ByFirst(table)[tokenTable] {
			with[line[0]+".weight"] = ir.Type{}
		}
	}
	all, _, err := f.weights(a, c, with)
	var list []Origin
	for _, o := range all {
		_, own := tensors[o.From[0]]
		switch {
		case own && o.Name == o.From[0]: // a tensor that the tables of names do not have
			return nil, fmt.Errorf("architecture %q has no weight for tensor %q", a.name, o.Name)
		case own:
			list = append(list, o)
		}
	}
	return list, err
}

// Check compares the configuration that FromGGUF has read from the translation with further settings in the folder.
func (f *Folder) Check(c Config) error {
	for i, want := range f.windows {
		if i < c.Layers && c.windowed(i) != want && c.Window > 0 {
			return fmt.Errorf("config.json: layer_types says that layer %d has a window: %v; layers of architecture "+
				"%q have the opposite there", i, want, f.Architecture)
		}
	}
	return nil
}

// FolderClasses returns the values of "architectures" in config.json that FromFolder reads, sorted.
func FolderClasses() []string {
	var list []string
	for _, a := range architectures {
		list = append(list, strings.Fields(a.folder.classes)...)
	}
	slices.Sort(list)
	return list
}
