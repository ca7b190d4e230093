package llm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Config describes a model. FromGGUF reads one; the names in Types are those of
// GGUF files.
type Config struct {
	Architecture string // as general.architecture has it; "" is "llama"

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

	// RopeFactors divide the angle of each of the RopeDims/2 pairs: those of
	// Llama 3, or one for all where positions are scaled. Nil changes nothing.
	RopeFactors []float64

	// Of a mixture of experts, such as Mixtral; 0 where there is one feed-forward
	// layer. Each has FeedForward hidden elements.
	Experts     int
	ExpertsUsed int // by each token

	// Types has the dtype and shape of each weight, by name. Without
	// output.weight the token embedding serves for the output too.
	Types map[string]ir.Type
}

// ropeFreqs is the weight that holds the factors of the rotary angles.
const ropeFreqs = "rope_freqs.weight"

// unread are weights that files may have and no model needs.
var unread = []string{"attn_rot_embd.weight"} // the angles of rotary positions, which follow from their base

// FromGGUF reads the description of a model and checks that the file has every
// weight it needs, in the right shape.
func FromGGUF(f *gguf.File) (Config, error) {
	c, err := readConfig(f)
	if err != nil {
		return Config{}, fmt.Errorf("llm: %w", err)
	}
	return c, nil
}

func readConfig(f *gguf.File) (Config, error) {
	name, err := f.String("general.architecture")
	if err != nil {
		return Config{}, err
	}
	a, err := findArchitecture(name)
	if err != nil {
		return Config{}, err
	}
	r := &metadata{f: f, prefix: name + "."}
	c := r.config(a)
	if r.err != nil {
		return Config{}, r.err
	}
	if err := c.check(a); err != nil {
		return Config{}, err
	}
	// There are as many pairs as weights say: no absurd number.
	if c.RopeFactors, err = r.ropeFactors(c.RopeDims / 2); err != nil {
		return Config{}, err
	}
	return c, c.checkFactors()
}

// config reads what the metadata say, and the types of the weights.
func (r *metadata) config(a architecture) Config {
	c := Config{
		Architecture: a.name,
		Layers:       r.size("block_count"),
		Width:        r.size("embedding_length"),
		Heads:        r.size("attention.head_count"),
		FeedForward:  r.size("feed_forward_length"),
		Context:      r.size("context_length"),
		Types:        map[string]ir.Type{},
	}
	if a.norm == layerNorm {
		c.NormEps = r.float("attention.layer_norm_epsilon")
	} else {
		c.NormEps = r.float("attention.layer_norm_rms_epsilon")
	}
	if r.err != nil {
		return c
	}
	if name, err := r.f.String("general.name"); err == nil {
		c.Name = name
	}
	c.KVHeads = r.sizeOr("attention.head_count_kv", c.Heads)
	c.HeadDim = r.sizeOr("attention.key_length", c.Width/c.Heads)
	if v := r.sizeOr("attention.value_length", c.HeadDim); v != c.HeadDim && r.err == nil {
		r.err = fmt.Errorf("values of %d elements beside keys of %d are not supported", v, c.HeadDim)
	}
	if a.rope != unturned {
		c.RopeDims = r.sizeOr("rope.dimension_count", c.HeadDim)
		c.RopeBase = r.floatOr("rope.freq_base", 10000)
	}
	if n, err := r.f.Int(r.prefix + "expert_count"); err == nil && n > 0 {
		c.Experts, c.ExpertsUsed = r.size("expert_count"), r.size("expert_used_count")
		c.FeedForward = r.sizeOr("expert_feed_forward_length", c.FeedForward)
	}
	for _, t := range r.f.Tensors() {
		c.Types[t.Name] = ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)}
	}
	if table, ok := c.Types[tokenTable+".weight"]; ok && len(table.Shape) == 2 {
		c.Vocab = table.Shape[0].Static()
	}
	if a.read != nil {
		a.read(r, &c)
	}
	return c
}

// ropeFactors returns what the angles of the pairs are divided by, or nil.
func (r *metadata) ropeFactors(pairs int) ([]float64, error) {
	scale := 1.0
	switch kind, err := r.f.String(r.prefix + "rope.scaling.type"); {
	case err != nil || kind == "none":
	case kind != "linear":
		return nil, fmt.Errorf("scaling of rotary positions (%q) is not supported: want linear or none", kind)
	default:
		if scale, err = r.f.Float(r.prefix + "rope.scaling.factor"); err != nil {
			return nil, err
		}
	}
	factors := slices.Repeat([]float64{1}, pairs)
	if r.f.HasWeight(ropeFreqs) {
		d, err := r.f.Weight(ropeFreqs)
		if err != nil {
			return nil, err
		}
		if d.DType != ir.F32 || len(d.Dims) != 1 || d.Dims[0] != len(factors) {
			return nil, fmt.Errorf("weight %q is %s%v: want f32[%d], a factor for each pair of elements that turns",
				ropeFreqs, d.DType, d.Dims, len(factors))
		}
		err = mmap.Guard(func() (err error) { factors, err = d.Floats(); return err })
		if err != nil {
			return nil, err
		}
	} else if scale == 1 {
		return nil, nil
	}
	for i := range factors {
		factors[i] *= scale
	}
	return factors, nil
}

// check verifies the numbers against each other and the weights against them.
func (c Config) check(a architecture) error {
	switch {
	case c.HeadDim < 1:
		return fmt.Errorf("%d heads share a width of %d: each has no element", c.Heads, c.Width)
	case c.Vocab < 1:
		return fmt.Errorf("the token embedding %q is missing, no matrix, or empty", tokenTable+".weight")
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("%d query heads are not a multiple of %d key heads", c.Heads, c.KVHeads)
	case a.rope != unturned && (c.RopeDims%2 != 0 || c.RopeDims > c.HeadDim):
		return fmt.Errorf("%d elements of a head of %d cannot turn: want an even number, at most all",
			c.RopeDims, c.HeadDim)
	case !(c.NormEps >= 0 && c.NormEps < 1):
		return fmt.Errorf("the epsilon of the norms is %v: want 0 to 1", c.NormEps)
	case a.rope != unturned && (!(c.RopeBase > 0) || math.IsInf(c.RopeBase, 1)):
		return fmt.Errorf("the base of the rotary embedding is %v: want a positive number", c.RopeBase)
	case c.Experts < 0 || c.Experts > 0 && (c.ExpertsUsed < 1 || c.ExpertsUsed > c.Experts):
		return fmt.Errorf("each token goes to %d of %d experts: want 1 to all", c.ExpertsUsed, c.Experts)
	}
	return c.checkWeights(a)
}

// checkWeights verifies that the file has the weights of the architecture and no
// others, without which the graph would compute something else than the model.
func (c Config) checkWeights(a architecture) error {
	top, layer := a.top(c), a.layerParts(c)
	for _, p := range top {
		if err := c.checkPart("", p); err != nil {
			return err
		}
	}
	for i := range c.Layers { // their number comes from the file and may be absurd: the first that is missing ends it
		for _, p := range layer {
			if err := c.checkPart(fmt.Sprintf("blk.%d.", i), p); err != nil {
				return err
			}
		}
	}
	return c.checkRest(a, top, layer)
}

func (c Config) checkPart(prefix string, p part) error {
	if err := c.checkWeight(prefix+p.name+".weight", p.shape, !p.optional); err != nil || p.bias == nil {
		return err
	}
	return c.checkWeight(prefix+p.name+".bias", p.bias, false)
}

// checkRest refuses weights that are no part of the architecture.
func (c Config) checkRest(a architecture, top, layer []part) error {
	known := map[string]bool{ropeFreqs: true}
	add := func(prefix string, list []part) {
		for _, p := range list {
			known[prefix+p.name+".weight"] = true
			known[prefix+p.name+".bias"] = p.bias != nil
		}
	}
	add("", top)
	for i := range c.Layers {
		prefix := fmt.Sprintf("blk.%d.", i)
		add(prefix, layer)
		for _, name := range unread {
			known[prefix+name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Types)) {
		if !known[name] {
			return fmt.Errorf("weight %q: a model of %d layers of architecture %q has none of that name, and without "+
				"it the graph would compute something else", name, c.Layers, a.name)
		}
	}
	return nil
}

func (c Config) checkFactors() error {
	for i, f := range c.RopeFactors {
		if !(f > 0) || math.IsInf(f, 1) {
			return fmt.Errorf("factor %d of the rotary angles is %v: want a positive number", i, f)
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
	case have.DType.IsFloat(), have.DType.IsBlock() && len(want) > 1:
		return nil
	case !have.DType.Valid():
		return fmt.Errorf("weight %q has a type that is not supported: convert the model to another", name)
	}
	return fmt.Errorf("weight %q is %s: want a float type, or for a matrix a quantized one", name, have.DType)
}

// metadata reads the architecture's own keys and keeps the first error.
type metadata struct {
	f      *gguf.File
	prefix string
	err    error
}

// size reads a positive integer that can be an extent.
func (r *metadata) size(key string) int {
	n, err := r.f.Int(r.prefix + key)
	if err == nil && (n < 1 || n > math.MaxInt32) {
		err = fmt.Errorf("metadata %q is %d: want 1 to %d", r.prefix+key, n, math.MaxInt32)
	}
	if err != nil {
		r.err = errors.Join(r.err, err)
		return 1 // lets the caller compute on; the error wins in the end
	}
	return int(n)
}

// sizeOr is size with a default for a key that is not there.
func (r *metadata) sizeOr(key string, missing int) int {
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		return missing
	}
	return r.size(key)
}

func (r *metadata) float(key string) float64 {
	v, err := r.f.Float(r.prefix + key)
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
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		return missing
	}
	return r.float(key)
}
