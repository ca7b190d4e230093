// Package lora reads and writes low-rank adapters of language models (LoRA, Hu et al. 2021, arXiv:2106.09685): GGUF
// files, as llama.cpp has them, and folders of Hugging Face's PEFT.
//
//	a, err := lora.Open("adapter.gguf", cfg)
//	cfg.Adapters = append(cfg.Adapters, a.Graph("lora.0.", 1))
//
// An adapter has two small matrices for some matrices W [out, in] of a model: A [rank, in] and B [out, rank]. The
// adapted model uses W + Scale*Factor*B*A. Package llm adds the matmuls with A and B to its graphs, and [Merge] adds
// the matrices to the weights.
//
// A GGUF file has general.type "adapter", adapter.type "lora", adapter.lora.alpha, and tensors NAME.lora_a and
// NAME.lora_b for a weight NAME of the model. The factor is alpha/rank. Files are untrusted: names, shapes and sizes
// are checked against the model.
package lora

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// Adapter is an open adapter. Its methods may be called from several goroutines, except Close.
type Adapter struct {
	path     string
	matrices map[string]llm.AdaptedMatrix // by the names of the model's weights
	tensors  map[string]tensor            // by the names of weights with llm.AdapterA or llm.AdapterB
	close    func() error
}

// tensor is A or B of a matrix.
type tensor struct {
	source ir.WeightSource
	name   string // in the source
	rows   []int  // of the tensor in the source; nil means all

	columns []int // of the tensor; nil means all

	transposed bool
	parts      []tensor // matrices that become the elements of a new first axis, in place of one tensor
}

// Open opens an adapter of a model: a GGUF file or a PEFT folder. Close releases it.
func Open(path string, cfg llm.Config) (*Adapter, error) {
	open := openGGUF
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		open = openFolder
	}
	a, err := open(path, cfg)
	if err != nil {
		return nil, fmt.Errorf("lora: %s: %w", path, err)
	}
	return a, nil
}

// Metadata keys of adapters.
const (
	typeKey  = "general.type"
	archKey  = "general.architecture"
	kindKey  = "adapter.type"
	alphaKey = "adapter.lora.alpha"
)

// knownKeys lists the keys about adapters that files may have. Some only describe the adapter.
var knownKeys = []string{kindKey, alphaKey, "adapter.lora.task_name", "adapter.lora.prompt_prefix"}

// openGGUF opens an adapter in a GGUF file.
func openGGUF(path string, cfg llm.Config) (*Adapter, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	a, err := fromGGUF(f, cfg)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	a.path, a.close = path, f.Close
	return a, nil
}

// fromGGUF reads an adapter of a model with configuration cfg from an open file. It refuses adapters of other
// architectures and of other kinds.
func fromGGUF(f *gguf.File, cfg llm.Config) (*Adapter, error) {
	for _, want := range []struct{ key, value string }{
		{typeKey, "adapter"}, {kindKey, "lora"}, {archKey, cmp.Or(cfg.Architecture, "llama")},
	} {
		have, err := f.String(want.key)
		if err == nil && have != want.value {
			err = fmt.Errorf("metadata %q is %q: want %q, as in an adapter of this model", want.key, have, want.value)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, kv := range f.Metadata() {
		if strings.HasPrefix(kv.Key, "adapter.") && !slices.Contains(knownKeys, kv.Key) {
			return nil, fmt.Errorf("metadata %q: such adapters are not supported", kv.Key)
		}
	}
	alpha, err := f.Float(alphaKey)
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		return nil, err
	}
	if !(math.Abs(alpha) <= maxFactor) { // also NaN
		return nil, fmt.Errorf("metadata %q is %v: want a number", alphaKey, alpha)
	}
	a := newAdapter()
	pairs := map[string]*pair{}
	for _, t := range f.Tensors() {
		name, part := cutPart(t.Name)
		if part == "" {
			return nil, fmt.Errorf("tensor %q: want names that end in %s or %s", t.Name, llm.AdapterA, llm.AdapterB)
		}
		p := pairs[name]
		if p == nil {
			p = &pair{weight: name}
			pairs[name] = p
		}
		*p.half(part) = half{t.Name, ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)},
			tensor{source: f, name: t.Name}}
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		p := pairs[name]
		p.factor = 1
		if rank := p.rank(); alpha != 0 && rank > 0 {
			p.factor = alpha / float64(rank)
		}
		if err := a.add(*p, cfg); err != nil {
			return nil, err
		}
	}
	return a, a.check()
}

// cutPart splits the name of a tensor into the weight's name and llm.AdapterA or llm.AdapterB.
func cutPart(name string) (weight, part string) {
	for _, part := range []string{llm.AdapterA, llm.AdapterB} {
		if weight, ok := strings.CutSuffix(name, part); ok {
			return weight, part
		}
	}
	return name, ""
}

// maxFactor bounds alpha and factors. Larger ones are no adapter.
const maxFactor = 1e6

func newAdapter() *Adapter {
	return &Adapter{matrices: map[string]llm.AdaptedMatrix{}, tensors: map[string]tensor{}}
}

// pair are A and B of a weight, as a file has them.
type pair struct {
	weight string
	a, b   half
	factor float64
}

// half is A or B. Its name is "" if the file does not have it.
type half struct {
	name string
	ir.Type
	tensor
}

// half returns A or B.
func (p *pair) half(part string) *half {
	if part == llm.AdapterA {
		return &p.a
	}
	return &p.b
}

// rank returns the rank, or 0 if A is no matrix or stack of matrices.
func (p *pair) rank() int {
	n := len(p.a.Shape)
	switch {
	case p.a.name == "" || n != 2 && n != 3:
		return 0
	case p.weight == embedding: // A is [tokens, rank]
		return p.a.Shape[1].Static()
	}
	return p.a.Shape[n-2].Static()
}

// embedding is the name of the token embedding. A of its adapter has a row for each token.
const embedding = "token_embd.weight"

// add checks the matrices A and B for a weight against the model's weight, and adds them to the adapter.
func (a *Adapter) add(p pair, cfg llm.Config) error {
	w, ok := cfg.Types[p.weight]
	switch {
	case !ok:
		return fmt.Errorf("the adapter has matrices for %q, which is not a weight of this model", p.weight)
	case p.a.name == "" || p.b.name == "":
		return fmt.Errorf("the adapter has only one of A and B for %q", p.weight)
	case len(w.Shape) != 2 && len(w.Shape) != 3:
		return fmt.Errorf("the adapter has matrices for %q, which is not a matrix", p.weight)
	}
	rank := p.rank()
	n := len(w.Shape)
	stack, out, in := w.Shape[:n-2], w.Shape[n-2], w.Shape[n-1]
	wantA, wantB := slices.Concat(stack, ir.Shape{ir.D(rank), in}), slices.Concat(stack, ir.Shape{out, ir.D(rank)})
	if p.weight == embedding { // A has a row for each token, and B for each element of a token
		wantA, wantB = ir.Shape{out, ir.D(rank)}, ir.Shape{in, ir.D(rank)}
	}
	for _, h := range []struct {
		half
		want ir.Shape
	}{{p.a, wantA}, {p.b, wantB}} {
		if rank < 1 || !h.Shape.Equal(h.want) {
			return fmt.Errorf("tensor %q is %s: want %s, for the weight %q %s and a rank of at least 1", h.name,
				h.Shape, h.want, p.weight, w.Shape)
		}
		if !h.DType.IsFloat() && !h.DType.IsBlock() {
			return fmt.Errorf("tensor %q is %s: want floats, or a block format", h.name, h.DType)
		}
	}
	a.matrices[p.weight] = llm.AdaptedMatrix{A: p.a.Type, B: p.b.Type, Factor: p.factor}
	a.tensors[p.weight+llm.AdapterA], a.tensors[p.weight+llm.AdapterB] = p.a.tensor, p.b.tensor
	return nil
}

// check returns an error for an adapter without matrices.
func (a *Adapter) check() error {
	if len(a.matrices) == 0 {
		return errors.New("the adapter has no matrices")
	}
	return nil
}

// Path returns the path that the adapter was opened with.
func (a *Adapter) Path() string { return a.path }

// Graph returns the adapter for graphs, with a scale. Its weights have names that begin with prefix: see Weight.
func (a *Adapter) Graph(prefix string, scale float64) llm.Adapter {
	return llm.Adapter{Prefix: prefix, Scale: scale, Matrices: maps.Clone(a.matrices)}
}

// Weight returns A or B of a weight of the model: NAME.lora_a or NAME.lora_b. It implements ir.WeightSource.
func (a *Adapter) Weight(name string) (*ir.Data, error) {
	t, ok := a.tensors[name]
	if !ok {
		return nil, fmt.Errorf("lora: %s: there is no tensor %q", a.path, name)
	}
	return t.read()
}

// read returns the tensor, after the changes that its fields describe: a stack of parts, chosen rows, a transpose, or
// chosen columns.
func (t tensor) read() (d *ir.Data, err error) {
	if t.parts != nil {
		return stacked(t.parts)
	}
	d, err = t.source.Weight(t.name)
	if err == nil && t.rows != nil {
		d, err = pick(d, t.rows)
	}
	if err == nil && t.transposed {
		d, err = transposed(d)
	}
	if err == nil && t.columns != nil {
		d, err = pickColumns(d, t.columns)
	}
	return d, err
}

// Close closes the files of the adapter. Tensors returned by Weight must not be used afterwards.
func (a *Adapter) Close() error {
	if a.close == nil {
		return nil
	}
	return a.close()
}
