package llm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/ir"
)

// Config describes a model: its numbers, and the types of its weights. FromGGUF reads it from a file.
type Config struct {
	Architecture string // general.architecture; "" is "llama"

	Name        string
	Layers      int
	Width       int // elements of the residual stream, per token
	Heads       int // query heads
	KVHeads     int // key and value heads; divides Heads
	HeadDim     int // elements of a head
	FeedForward int // hidden width of the feed-forward layers
	Vocab       int
	Context     int // positions the model was trained for
	NormEps     float64

	// AttentionScale multiplies the attention scores; 0 means 1/sqrt(HeadDim). AttentionSoftcap and LogitSoftcap
	// replace scores and logits by cap*tanh(x/cap) (Gemma Team 2024); 0 changes nothing.
	AttentionScale, AttentionSoftcap, LogitSoftcap float64

	// Window is the number of positions that a token attends to, including itself; 0 means all. Every WindowPeriod-th
	// layer has no window; 0 means that all layers have it.
	Window, WindowPeriod int

	RopeBase float64
	RopeDims int // rotated elements of a head; even, at most HeadDim

	// LocalRopeBase replaces RopeBase in layers with a window, and these layers then ignore RopeFactors. 0 means that
	// they use both like other layers.
	LocalRopeBase float64

	// RopeFactors divide the angles of the RopeDims/2 pairs: Llama 3 has different factors, and position scaling equal
	// ones. nil changes nothing. LongRopeFactors, if set, replace them in graphs of more than LongRopeFrom positions.
	RopeFactors, LongRopeFactors []float64
	LongRopeFrom                 int

	// RopeMagnitude multiplies the rotated elements of queries and keys; 0 means 1.
	RopeMagnitude float64

	// Experts is the number of experts in each feed-forward layer of a mixture, such as Mixtral; 0 for no mixture. Each
	// expert has FeedForward hidden elements.
	Experts     int
	ExpertsUsed int // per token

	// Pooling says how Embedding turns the tokens' outputs into one vector. It is "" for models without embeddings.
	Pooling Pooling

	// Types has the dtype and shape of each weight, by name. If output.weight is missing, the token embedding also
	// serves as the output.
	Types map[string]ir.Type
}

// FromGGUF reads the description of a model from its file. It checks that the file has every weight that the model
// needs, in the right shape.
func FromGGUF(f *gguf.File) (Config, error) {
	c, err := readConfig(f)
	if err != nil {
		return Config{}, fmt.Errorf("llm: %w", err)
	}
	return c, nil
}

// readConfig is FromGGUF without the prefix of errors.
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
	// The check has compared RopeDims with the weights, so the number of pairs is not absurd.
	if err := r.ropeScaling(a, &c); err != nil {
		return Config{}, err
	}
	return c, c.checkFactors()
}

// config reads the metadata and the types of the weights into a Config.
func (r *metadata) config(a architecture) Config {
	c := Config{
		Architecture: a.name,
		Layers:       r.size("block_count"),
		Width:        r.size("embedding_length"),
		Heads:        r.size("attention.head_count"),
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
		r.err = fmt.Errorf("values of %d elements with keys of %d are not supported", v, c.HeadDim)
	}
	c.AttentionScale = r.floatOr("attention.scale", 0)
	c.AttentionSoftcap = r.floatOr("attn_logit_softcapping", 0)
	c.LogitSoftcap = r.floatOr("final_logit_softcapping", 0)
	if a.rope != notRotary {
		c.RopeDims = r.sizeOr("rope.dimension_count", c.HeadDim)
		c.RopeBase = r.floatOr("rope.freq_base", 10000)
	}
	hidden := "feed_forward_length"
	if n, err := r.f.Int(r.prefix + "expert_count"); err == nil && n > 0 {
		c.Experts, c.ExpertsUsed = r.size("expert_count"), r.size("expert_used_count")
		if _, ok := r.f.Lookup(r.prefix + "expert_feed_forward_length"); ok {
			hidden = "expert_feed_forward_length"
		}
	}
	c.FeedForward = r.size(hidden)
	if n, err := r.f.Int(r.prefix + "attention.sliding_window"); err == nil && n > 0 && n < int64(c.Context) {
		c.Window = int(n)
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
	r.pooling(&c)
	r.refuse(a)
	return c
}

// unsupportedKeys lists keys of features that no architecture of this package supports, with the values that mean
// that the model does not use the feature.
var unsupportedKeys = map[string][]float64{
	"attention.clamp_kqv":      {0},
	"attention.max_alibi_bias": {0},
	"embedding_scale":          {0, 1},
	// Values for a softmax over all experts, or over the used ones. Both are equivalent, as the weights are normalized.
	"expert_gating_func":               {0, 1, 3},
	"expert_weights_scale":             {0, 1},
	"logit_scale":                      {0, 1},
	"residual_scale":                   {0, 1},
	"rope.scaling.yarn_attn_factor":    {1},
	"rope.scaling.yarn_ext_factor":     {-1, 1}, // -1 is not set
	"rope.scaling.yarn_log_multiplier": {0},
	"router_logit_softcapping":         {0},
}

// refuse records an error if the metadata ask for a feature that the graph would not compute.
func (r *metadata) refuse(a architecture) {
	for _, key := range slices.Sorted(maps.Keys(unsupportedKeys)) {
		whole, err := r.f.Int(r.prefix + key)
		v := float64(whole)
		if err != nil {
			v = r.floatOr(key, unsupportedKeys[key][0])
		}
		if r.err == nil && !slices.Contains(unsupportedKeys[key], v) {
			r.err = fmt.Errorf("metadata %q is %v, which is not supported", r.prefix+key, v)
		}
	}
	if causal, err := r.f.Bool(r.prefix + "attention.causal"); err == nil && causal == a.encoder {
		r.err = errors.Join(r.err, fmt.Errorf("metadata %q is %v, which is not supported in architecture %q",
			r.prefix+"attention.causal", causal, a.name))
	}
}

// metadata reads the keys of an architecture, which begin with prefix, and collects errors.
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
		return 1 // any valid size: the caller goes on, and finds the error later
	}
	return int(n)
}

// sizeOr is size with a default for a missing key.
func (r *metadata) sizeOr(key string, missing int) int {
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		return missing
	}
	return r.size(key)
}

// float reads a float.
func (r *metadata) float(key string) float64 {
	v, err := r.f.Float(r.prefix + key)
	r.err = errors.Join(r.err, err)
	return shortest(v)
}

// shortest returns the shortest decimal number with the same float32 value. Files store 1e-5 as float32, which is
// 9.999999747378752e-06 as float64.
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

// floatOr is float with a default for a missing key.
func (r *metadata) floatOr(key string, missing float64) float64 {
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		return missing
	}
	return r.float(key)
}
