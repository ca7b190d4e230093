package llm

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
)

// Config describes a model of the Llama architecture. FromGGUF reads one; the
// names in Types are those of GGUF files.
type Config struct {
	Name        string
	Layers      int
	Width       int // of the residual stream
	Heads       int // of the queries
	KVHeads     int // of keys and values; divides Heads
	HeadDim     int
	FeedForward int // hidden width of the feed-forward layers
	Vocab       int
	Context     int // positions the model was trained for
	NormEps     float64
	RopeBase    float64
	RopeDims    int // elements of a head that turn; even, at most HeadDim

	// Types has the dtype and shape of each weight, by name. Without
	// output.weight the token embedding serves for the output too.
	Types map[string]ir.Type
}

// arch is the value of general.architecture that FromGGUF reads, and what its
// keys begin with.
const arch = "llama"

// FromGGUF reads the description of a model and checks that the file has every
// weight it needs, in the right shape.
func FromGGUF(f *gguf.File) (Config, error) {
	c, err := readConfig(f)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return Config{}, fmt.Errorf("llm: %w", err)
	}
	return c, nil
}

func readConfig(f *gguf.File) (Config, error) {
	if err := refuseUnsupported(f); err != nil {
		return Config{}, err
	}
	r := &metadata{f: f}
	c := Config{
		Layers:      r.size("block_count"),
		Width:       r.size("embedding_length"),
		Heads:       r.size("attention.head_count"),
		FeedForward: r.size("feed_forward_length"),
		Context:     r.size("context_length"),
		NormEps:     r.float("attention.layer_norm_rms_epsilon"),
		Types:       map[string]ir.Type{},
	}
	if r.err != nil {
		return Config{}, r.err
	}
	if name, err := f.String("general.name"); err == nil {
		c.Name = name
	}
	c.KVHeads = r.sizeOr("attention.head_count_kv", c.Heads)
	c.HeadDim = r.sizeOr("attention.key_length", c.Width/c.Heads)
	if v := r.sizeOr("attention.value_length", c.HeadDim); v != c.HeadDim && r.err == nil {
		r.err = fmt.Errorf("values of %d elements beside keys of %d are not supported", v, c.HeadDim)
	}
	c.RopeDims = r.sizeOr("rope.dimension_count", c.HeadDim)
	c.RopeBase = r.floatOr("rope.freq_base", 10000)
	for _, t := range f.Tensors() {
		c.Types[t.Name] = ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)}
	}
	if table, ok := c.Types[tokenTable+".weight"]; ok && len(table.Shape) == 2 {
		c.Vocab = table.Shape[0].Static()
	}
	return c, r.err
}

// refuseUnsupported finds what would make the graph of this package compute
// something else than the model.
func refuseUnsupported(f *gguf.File) error {
	name, err := f.String("general.architecture")
	switch {
	case err != nil:
		return err
	case name != arch:
		return fmt.Errorf("architecture %q is not supported: want %q", name, arch)
	case f.HasWeight("rope_freqs.weight"):
		return errors.New("scaled rotary frequencies (rope_freqs.weight) are not supported")
	}
	if n, err := f.Int(arch + ".expert_count"); err == nil && n > 0 {
		return fmt.Errorf("mixtures of experts are not supported, and the model has %d experts", n)
	}
	if kind, err := f.String(arch + ".rope.scaling.type"); err == nil && kind != "none" {
		return fmt.Errorf("scaling of rotary positions (%q) is not supported", kind)
	}
	return nil
}

// check verifies the numbers against each other and the weights against them.
func (c Config) check() error {
	switch {
	case c.HeadDim < 1:
		return fmt.Errorf("%d heads share a width of %d: each has no element", c.Heads, c.Width)
	case c.Vocab < 1:
		return fmt.Errorf("the token embedding %q is missing, no matrix, or empty", tokenTable+".weight")
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d query heads are not a multiple of %d key heads", c.Heads, c.KVHeads)
	case c.RopeDims%2 != 0 || c.RopeDims > c.HeadDim:
		return fmt.Errorf("%d elements of a head of %d cannot turn: want an even number, at most all", c.RopeDims, c.HeadDim)
	case !(c.NormEps >= 0 && c.NormEps < 1):
		return fmt.Errorf("the epsilon of the norms is %v: want 0 to 1", c.NormEps)
	case !(c.RopeBase > 0) || math.IsInf(c.RopeBase, 1):
		return fmt.Errorf("the base of the rotary embedding is %v: want a positive number", c.RopeBase)
	}
	for name, want := range c.parts() {
		if err := c.checkWeight(name+".weight", want, name != output); err != nil {
			return err
		}
		if len(want) != 2 {
			continue
		}
		if err := c.checkWeight(name+".bias", want[:1], false); err != nil {
			return err
		}
	}
	return nil
}

// checkWeight verifies a weight against the shape that the model gives it.
func (c Config) checkWeight(name string, want ir.Shape, required bool) error {
	have, ok := c.Types[name]
	switch {
	case !ok && !required:
		return nil
	case !ok:
		return fmt.Errorf("there is no weight %q, want %s", name, want)
	case !have.Shape.Equal(want):
		return fmt.Errorf("weight %q is %s: want %s", name, have.Shape, want)
	case have.DType.IsFloat(), have.DType.IsBlock() && len(want) == 2:
		return nil
	case !have.DType.Valid():
		return fmt.Errorf("weight %q has a type that is not supported: convert the model to another", name)
	}
	return fmt.Errorf("weight %q is %s: want a float type, or for a matrix a quantized one", name, have.DType)
}

// parts yields the names, without ".weight", and shapes of the weights of the
// model, in a lazy sequence: the number of layers comes from the file and may be
// absurd. All are required but output.
func (c Config) parts() iter.Seq2[string, ir.Shape] {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	layer := []struct {
		name  string
		shape ir.Shape
	}{
		{"attn_norm", ir.ShapeOf(c.Width)},
		{"attn_q", ir.ShapeOf(q, c.Width)},
		{"attn_k", ir.ShapeOf(kv, c.Width)},
		{"attn_v", ir.ShapeOf(kv, c.Width)},
		{"attn_output", ir.ShapeOf(c.Width, q)},
		{"ffn_norm", ir.ShapeOf(c.Width)},
		{"ffn_gate", ir.ShapeOf(c.FeedForward, c.Width)},
		{"ffn_up", ir.ShapeOf(c.FeedForward, c.Width)},
		{"ffn_down", ir.ShapeOf(c.Width, c.FeedForward)},
	}
	return func(yield func(string, ir.Shape) bool) {
		table := ir.ShapeOf(c.Vocab, c.Width)
		if !yield(tokenTable, table) || !yield(output, table) || !yield(outputNorm, ir.ShapeOf(c.Width)) {
			return
		}
		for i := range c.Layers {
			for _, w := range layer {
				if !yield(fmt.Sprintf("blk.%d.%s", i, w.name), w.shape) {
					return
				}
			}
		}
	}
}

// metadata reads the architecture's own keys and keeps the first error.
type metadata struct {
	f   *gguf.File
	err error
}

// size reads a positive integer that can be an extent.
func (r *metadata) size(key string) int {
	n, err := r.f.Int(arch + "." + key)
	if err == nil && (n < 1 || n > math.MaxInt32) {
		err = fmt.Errorf("metadata %q is %d: want 1 to %d", arch+"."+key, n, math.MaxInt32)
	}
	if err != nil {
		r.err = errors.Join(r.err, err)
		return 1 // lets the caller compute on; the error wins in the end
	}
	return int(n)
}

// sizeOr is size with a default for a key that is not there.
func (r *metadata) sizeOr(key string, missing int) int {
	if _, ok := r.f.Lookup(arch + "." + key); !ok {
		return missing
	}
	return r.size(key)
}

func (r *metadata) float(key string) float64 {
	v, err := r.f.Float(arch + "." + key)
	r.err = errors.Join(r.err, err)
	return shortest(v)
}

// shortest returns the number that a float32 was written as: files hold 1e-5 as
// float32, which as float64 is 9.999999747378752e-06, to no one's benefit.
func shortest(v float64) float64 {
	if float64(float32(v)) != v {
		return v
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
	if err != nil {
		return v
	}
	return short
}

func (r *metadata) floatOr(key string, missing float64) float64 {
	if _, ok := r.f.Lookup(arch + "." + key); !ok {
		return missing
	}
	return r.float(key)
}
