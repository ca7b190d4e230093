package llm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
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
	HeadDim     int // elements of a head of the queries and keys
	ValueDim    int // elements of a head of the values; 0 means HeadDim
	FeedForward int // hidden width of the feed-forward layers

	// PerLayer, if set, has the sizes of each layer, in place of Heads, KVHeads and FeedForward. Those are then the
	// sizes of the first layer.
	PerLayer []LayerSizes

	Vocab   int
	Context int // positions the model was trained for
	NormEps float64

	// AttentionScale multiplies the attention scores; 0 means 1/sqrt(HeadDim). AttentionSoftcap and LogitSoftcap
	// replace scores and logits by cap*tanh(x/cap) (Gemma Team 2024); 0 changes nothing.
	AttentionScale, AttentionSoftcap, LogitSoftcap float64

	// EmbeddingScale multiplies the embedded tokens, and LogitScale the logits. ResidualScale multiplies the results of
	// attention and of feed-forward layers before they are added to the residual stream. 0 means 1.
	EmbeddingScale, ResidualScale, LogitScale float64

	// TemperatureScale makes attention sharper in long texts: a query at position p is multiplied by
	// 1 + TemperatureScale*log(1+floor(p/TemperatureLength)). 0 changes nothing.
	// With TemperatureAfter, p counts the token itself too, and only layers without rotary embeddings are concerned.
	TemperatureScale  float64
	TemperatureLength int
	TemperatureAfter  bool

	// PlainHeadNorms means that layers with rotary embeddings normalize each head of queries and keys, without weights.
	PlainHeadNorms bool

	// ClampQKV limits the elements of queries, keys and values to -ClampQKV … ClampQKV. 0 means no limit.
	ClampQKV float64

	// MaxALiBi is the slope exponent of attention with linear biases (ALiBi; Press et al. 2021, arXiv:2108.12409), 8 in
	// the paper: a score is reduced by the distance of key and query, times a slope of each head. 0 means no bias.
	MaxALiBi float64

	// ParallelResidual means that attention and the feed-forward layer read the same residual stream, in architectures
	// of both kinds.
	ParallelResidual bool

	// Latent is the width of the compressed keys and values of multi-head latent attention (MLA; DeepSeek-AI 2024,
	// arXiv:2405.04434); 0 means that attention is not latent. Each position has one latent vector. Each head makes its
	// key and value of it. The keys of all heads also share RopeDims rotated elements. KVHeads is 1. QueryLatent is the
	// width of the compressed queries; 0 means that queries are not compressed.
	Latent, QueryLatent int

	// LocalHeadDim and LocalRopeDims replace HeadDim and RopeDims in layers with a window; 0 means that all layers have
	// the same.
	LocalHeadDim, LocalRopeDims int

	// SharedKV is the number of last layers that have no keys and values of their own. Each of these attends to the
	// keys and values of one of the layers before them: the last of its own kind, with or without a window.
	SharedKV int

	// Streams is the number of parts of the residual stream (AltUp), and 0 if there is one. PerLayerWidth is the width
	// of the embeddings that each layer has for itself. Sparsity says for each layer how many standard deviations above
	// their mean the gates of the feed-forward layer begin to count; -Inf means that all do, and so does nil.
	Streams, PerLayerWidth int
	Sparsity               []float64

	// Window is the number of positions that a token attends to, including itself; 0 means all. In an encoder a token
	// attends to Window/2 positions on each side. The last layer of every WindowPeriod layers has no window or, with
	// FullFirst, the first of them has none. A WindowPeriod of 0 means that all layers have a window. WindowLayers, if
	// set, says for each layer whether it has one.
	Window, WindowPeriod int
	FullFirst            bool
	WindowLayers         []bool

	// Chunked means that a token attends to the last multiple of Window positions and those after it.
	Chunked bool

	RopeBase float64
	RopeDims int // rotated elements of a head; even, at most HeadDim

	// LocalRopeBase replaces RopeBase in layers with a window, and these layers then ignore RopeFactors and
	// RopeMagnitude. 0 means that they use all like other layers.
	LocalRopeBase float64

	// Every NoRopePeriod-th layer has no rotary embeddings; 0 means that all have. With RopeInWindows only layers with
	// a window have them.
	NoRopePeriod  int
	RopeInWindows bool

	// RopeFactors divide the angles of the RopeDims/2 pairs: Llama 3 has different factors, and position scaling equal
	// ones. nil changes nothing. LongRopeFactors, if set, replace them in graphs of more than LongRopeFrom positions.
	RopeFactors, LongRopeFactors []float64
	LongRopeFrom                 int

	// RopeMagnitude multiplies the rotated elements of queries and keys; 0 means 1.
	RopeMagnitude float64

	// Sections says how many rotary pairs of a picture's tokens turn by time, row and column; nil means that all turn
	// by the number of the token, as in text. Later tokens then continue after the picture's larger side. Deepstack is
	// the number of first layers to which a picture adds elements of their own. See Images.
	Sections  []int
	Deepstack int

	// Pictures means that texts may have pictures. Graphs that continue texts of a model with Sections then have one
	// more input, "rope_offset" i32[]: the rotary position of a token, less its position. DecodeBatch has one for each
	// text, i32[B], and Mixed one for each token.
	Pictures bool

	// Experts is the number of experts in each feed-forward layer of a mixture, such as Mixtral; 0 for no mixture. Each
	// expert has FeedForward hidden elements.
	Experts     int
	ExpertsUsed int // per token

	// The first DenseLayers layers have no experts. Of the others, only the last layer of every ExpertPeriod layers has
	// experts; an ExpertPeriod of 0 means that all have. Layers without experts have DenseFeedForward hidden elements.
	DenseLayers, ExpertPeriod, DenseFeedForward int

	SharedFeedForward int     // hidden elements of the expert that every token uses; 0 for none
	SigmoidExperts    bool    // see nn.Routing.Sigmoid
	KeepShares        bool    // the opposite of nn.Routing.Normalize
	ExpertScale       float64 // see nn.Routing.Scale
	SparseMixer       float64 // see nn.Routing.SparseMixer
	ScaleInputs       bool    // see nn.Routing.ScaleInputs

	ExpertGroups, ExpertGroupsUsed int // see nn.Routing.Groups; 0 for no groups

	Recurrent Recurrent // sizes of recurrent layers

	layer int // the number of the layer, in the configuration of one layer

	// DraftLayers is the number of layers in the file that predict further tokens. Graphs do not use them.
	DraftLayers int

	// Pooling says how Embedding turns the tokens' outputs into one vector. It is "" for models without embeddings.
	Pooling Pooling

	// Adapters change the results of matmuls with some of the weights. With AdapterInputs their scales are an input of
	// the graph, "adapters" f32[adapters], in place of constants. DecodeBatch has a row of scales for each text, f32[B,
	// adapters].
	Adapters      []Adapter
	AdapterInputs bool

	sharesKeys bool // in the configuration of one layer: it has the keys and values of another

	// Types has the dtype and shape of each weight, by name. If output.weight is missing, the token embedding also
	// serves as the output.
	Types map[string]ir.Type
}

// LayerSizes are the sizes in which the layers of a model may differ; see Config.
type LayerSizes struct{ Heads, KVHeads, FeedForward int }

// at returns the configuration of one layer: Heads, KVHeads, HeadDim, RopeDims, FeedForward and Experts are the layer's
// own. KVHeads is 0 in a recurrent layer.
func (c Config) at(layer int) Config {
	c.layer = layer
	if layer < len(c.PerLayer) {
		s := c.PerLayer[layer]
		c.Heads, c.KVHeads, c.FeedForward = s.Heads, s.KVHeads, s.FeedForward
	}
	if p := c.Recurrent.Period; p > 0 && (layer+1)%p != 0 {
		c.KVHeads = 0 // only each p-th layer attends
	}
	c.sharesKeys = c.keysOf(layer) != layer
	if c.LocalHeadDim > 0 && c.windowed(layer) {
		c.HeadDim, c.RopeDims = c.LocalHeadDim, c.LocalRopeDims
	}
	// The first layers, or all except each ExpertPeriod-th, have no experts.
	if layer < c.DenseLayers || c.ExpertPeriod > 0 && (layer+1)%c.ExpertPeriod != 0 {
		c.Experts, c.FeedForward = 0, c.DenseFeedForward
	}
	return c
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

// readConfig reads the description of a model from its file, for FromGGUF, which completes its errors.
func readConfig(f *gguf.File) (Config, error) {
	name, err := f.String("general.architecture")
	if err != nil {
		return Config{}, err
	}
	a, err := findArchitecture(name)
	if err != nil {
		return Config{}, err
	}
	if kind, err := f.String("general.type"); err == nil && kind == "adapter" {
		return Config{}, errors.New("the file is an adapter: name the model, and the adapter with --lora")
	}
	r := newMetadata(f, a)
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
		Context:      r.size("context_length"),
		Types:        map[string]ir.Type{},
	}
	c.NormEps = r.normEps(a)
	if r.err != nil { // sizes are read relative to these
		return c
	}
	if name, err := r.f.String("general.name"); err == nil {
		c.Name = name
	}
	r.layerSizes(&c, a)
	if n := r.intOr("attention.sliding_window", 0); n > 0 && n < int64(c.Context) {
		c.Window = int(n)
	}
	for _, t := range r.f.Tensors() {
		c.Types[t.Name] = ir.Type{DType: t.DType, Shape: ir.ShapeOf(t.Dims...)}
	}
	// The last layers predict further tokens, as a draft. They are not part of the model.
	if n := r.intOr("nextn_predict_layers", 0); n > 0 && n < int64(c.Layers) {
		c.DraftLayers = int(n)
		c.Layers -= c.DraftLayers
	}
	if table, ok := c.Types[tokenTable+".weight"]; ok && len(table.Shape) == 2 { // the table has a row for each token
		c.Vocab = table.Shape[0].Static()
	}
	if a.read != nil {
		a.read(r, &c)
	}
	r.windows(&c)
	r.pooling(&c)
	r.refuse(a)
	return c
}

// layerSizes reads the numbers of heads, experts and hidden elements. In a model without attention, which has no keys
// for them, the numbers of heads and hidden elements are 1.
func (r *metadata) layerSizes(c *Config, a architecture) {
	heads, kvHeads, hidden := []int{1}, []int{1}, []int{1}
	if !a.noAttention {
		heads = r.sizes("attention.head_count", nil)
		kvHeads = r.sizes("attention.head_count_kv", heads)
	}
	r.attention(c, a, heads)
	hiddenKey := "feed_forward_length"
	if r.intOr("expert_count", 0) > 0 {
		c.Experts, c.ExpertsUsed = r.size("expert_count"), r.size("expert_used_count")
		if _, ok := r.f.Lookup(r.prefix + "expert_feed_forward_length"); ok {
			hiddenKey = "expert_feed_forward_length"
		}
	}
	if !a.noAttention {
		hidden = r.sizes(hiddenKey, nil)
	}
	c.setSizes(heads, kvHeads, hidden)
}

// normEps reads the epsilon of the norms. Usually it is under the key of the architecture's kind of norm. Some files
// have it only under the key of the other kind.
func (r *metadata) normEps(a architecture) float64 {
	own, other := "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
	if a.norm == layerNorm {
		own, other = other, own
	}
	_, hasOwn := r.f.Lookup(r.prefix + own)
	_, hasOther := r.f.Lookup(r.prefix + other)
	if !hasOwn && hasOther {
		return r.float(other)
	}
	return r.float(own)
}

// attention reads the sizes of heads, and the factors of scores and rotary positions. heads has the number of query
// heads: one for all layers, or one for each.
func (r *metadata) attention(c *Config, a architecture, heads []int) {
	c.Heads = heads[0]
	if len(heads) > 1 {
		c.HeadDim = r.size("attention.key_length") // there is no common number of heads to divide Width by
	} else {
		c.HeadDim = r.sizeOr("attention.key_length", c.Width/max(c.Heads, 1))
	}
	if v := r.sizeOr("attention.value_length", c.HeadDim); v != c.HeadDim {
		c.ValueDim = v
	}
	c.AttentionScale = r.floatOr("attention.scale", 0)
	c.AttentionSoftcap = r.floatOr("attn_logit_softcapping", 0)
	c.LogitSoftcap = r.floatOr("final_logit_softcapping", 0)
	if a.rope != notRotary {
		c.RopeDims = r.sizeOr("rope.dimension_count", c.HeadDim)
		c.RopeBase = r.floatOr("rope.freq_base", 10000)
		r.sections(c)
	}
}

// setSizes sets the sizes of the layers: each list has one number for all layers, or one for each.
func (c *Config) setSizes(heads, kvHeads, feedForward []int) {
	c.Heads, c.KVHeads, c.FeedForward = heads[0], kvHeads[0], feedForward[0]
	if max(len(heads), len(kvHeads), len(feedForward)) == 1 {
		return
	}
	at := func(list []int, i int) int { return list[min(i, len(list)-1)] }
	c.PerLayer = make([]LayerSizes, c.Layers) // one of the lists is as long, so the file has these numbers
	for i := range c.PerLayer {
		c.PerLayer[i] = LayerSizes{at(heads, i), at(kvHeads, i), at(feedForward, i)}
	}
}

// windows reads which layers have a window. The file has a list with a bool for each layer, or a period: the last layer
// of each period has no window.
func (r *metadata) windows(c *Config) {
	const key = "attention.sliding_window_pattern"
	list := r.each(key)
	switch {
	case len(list) == 0 || c.Window == 0:
	case list[0].Kind() != reflect.Bool:
		c.WindowPeriod = r.size(key)
	default:
		c.WindowLayers = make([]bool, c.Layers)
		for i := range c.WindowLayers { // one value stands for an array of Layers equal ones
			c.WindowLayers[i] = list[min(i, len(list)-1)].Bool()
		}
	}
}

// mixture reads how a mixture of experts routes tokens, and which layers and shared experts it has. SigmoidExperts and
// KeepShares keep the caller's values if the file has no keys for them.
func (r *metadata) mixture(c *Config) {
	c.DenseLayers = int(min(r.intOr("leading_dense_block_count", 0), math.MaxInt32))
	c.ExpertPeriod = int(min(r.intOr("interleave_moe_layer_step", 0), math.MaxInt32))
	if c.DenseLayers > 0 || c.ExpertPeriod > 1 {
		c.DenseFeedForward = r.size("feed_forward_length")
	}
	c.SharedFeedForward = int(r.intOr("expert_shared_count", 0)) * c.FeedForward
	if n := r.intOr("expert_shared_feed_forward_length", 0); n > 0 {
		c.SharedFeedForward = int(n)
	}
	if n := r.intOr("expert_group_count", 0); n > 1 {
		c.ExpertGroups, c.ExpertGroupsUsed = int(min(n, math.MaxInt32)), r.size("expert_group_used_count")
	}
	c.ExpertScale = r.floatOr("expert_weights_scale", 0)
	c.KeepShares = !r.flag("expert_weights_norm", !c.KeepShares)
	switch kind := r.intOr("expert_gating_func", 0); kind {
	case 0: // the file does not say
	case 1, 2:
		c.SigmoidExperts = kind == 2
	default:
		r.fail("expert_gating_func", "is %d: want 1 (softmax) or 2 (sigmoid)", kind)
	}
}

// unsupportedKeys lists keys of features that only some architectures have, with the values that turn the feature off.
// It does not matter for an architecture that has the feature and reads its key: see refuse.
var unsupportedKeys = map[string][]float64{
	"attention.clamp_kqv":      {0},
	"attention.max_alibi_bias": {0},
	"embedding_scale":          {0, 1},
	// Values for a softmax over all experts, or over the used ones. Both are equivalent, as the weights are normalized.
	"expert_gating_func":               {0, 1, 3},
	"expert_group_count":               {0, 1},
	"expert_shared_count":              {0},
	"expert_weights_scale":             {0, 1},
	"leading_dense_block_count":        {0},
	"logit_scale":                      {0, 1},
	"residual_scale":                   {0, 1},
	"rope.scaling.yarn_attn_factor":    {1},
	"rope.scaling.yarn_ext_factor":     {-1, 1}, // -1 is not set
	"rope.scaling.yarn_log_multiplier": {0},
	"router_logit_softcapping":         {0},
}

// refuse records an error if the metadata ask for a feature that the graph would not compute. Such a feature has a key
// in unsupportedKeys, with the values that turn the feature off. An architecture that reads the key supports the
// feature.
func (r *metadata) refuse(a architecture) {
	for _, key := range slices.Sorted(maps.Keys(unsupportedKeys)) {
		if r.known[key] {
			continue
		}
		value, ok := r.one(key)
		if !ok {
			continue
		}
		var v float64
		if n, whole := integer(value); whole {
			v = float64(n)
		} else {
			v = r.float(key)
		}
		if r.err == nil && !slices.Contains(unsupportedKeys[key], v) {
			r.err = fmt.Errorf("metadata %q is %v, which is not supported", r.prefix+key, v)
		}
	}
	// Only encoders attend to later tokens.
	causal, err := r.f.Bool(r.prefix + "attention.causal")
	if err == nil && causal == a.encoder {
		err = fmt.Errorf("metadata %q is %v, which is not supported in architecture %q", r.prefix+"attention.causal",
			causal, a.name)
	}
	if !errors.Is(err, gguf.ErrNoKey) {
		r.err = errors.Join(r.err, err)
	}
}

// metadata reads the keys of an architecture, which begin with prefix, and collects errors.
type metadata struct {
	f      *gguf.File
	prefix string
	known  map[string]bool // the keys that were read, without the prefix
	// mayBeZero lists keys of sizes that may be 0.
	mayBeZero []string
	err       error
}

// newMetadata returns the reader of a file's keys.
func newMetadata(f *gguf.File, a architecture) *metadata {
	r := &metadata{f: f, prefix: a.name + ".", known: map[string]bool{}}
	if a.hybrid {
		r.mayBeZero = []string{"attention.head_count", "attention.head_count_kv", "feed_forward_length"}
	}
	return r
}

// each returns the values of a key: one, or one for each layer if the layers differ. An array of equal values, one for
// each layer, is one value. The result is nil if the key is missing or its value is an error.
func (r *metadata) each(key string) []reflect.Value {
	r.known[key] = true
	v, ok := r.f.Lookup(r.prefix + key)
	if !ok {
		return nil
	}
	all := reflect.ValueOf(v)
	if all.Kind() != reflect.Slice {
		return []reflect.Value{all}
	}
	// Without a number of layers, layers is 0 and every array is an error.
	if layers, _ := r.f.Int(r.prefix + "block_count"); int64(all.Len()) != layers || all.Len() == 0 {
		r.fail(key, "is an array of %d: want one number, or one for each of %d layers", all.Len(), layers)
		return nil
	}
	list, equal := make([]reflect.Value, all.Len()), true
	for i := range list {
		list[i] = all.Index(i)
		equal = equal && list[i].Comparable() && list[i].Equal(list[0])
	}
	if equal {
		return list[:1]
	}
	return list
}

const layersDiffer = "differs from layer to layer, which is not supported"

// one returns the value of a key in which layers may not differ. ok is false if the key is missing or an error.
func (r *metadata) one(key string) (v reflect.Value, ok bool) {
	list := r.each(key)
	if len(list) > 1 {
		r.fail(key, layersDiffer)
	}
	if len(list) != 1 {
		return reflect.Value{}, false
	}
	return list[0], true
}

// fail records an error about the value of a key.
func (r *metadata) fail(key, format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf("metadata %q "+format, append([]any{r.prefix + key}, args...)...))
}

// integer converts an integer of any width.
func integer(v reflect.Value) (n int64, ok bool) {
	switch {
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(min(v.Uint(), math.MaxInt64)), true
	}
	return 0, false
}

// floats reads floats: one for all layers, or one for each. They may be infinite. The result is nil if the key is
// missing.
func (r *metadata) floats(key string) (all []float64) {
	for _, v := range r.each(key) {
		if !v.CanFloat() || math.IsNaN(v.Float()) {
			r.fail(key, "has a %s: want floats", v.Kind())
			return nil
		}
		all = append(all, shortest(v.Float()))
	}
	return all
}

// rows returns the number of rows of a matrix in the file, for sizes that no metadata key gives. It is 1 if the file
// lacks the matrix.
func (c Config) rows(name string) int {
	if t := c.Types[name+".weight"]; len(t.Shape) == 2 {
		return max(t.Shape[0].Static(), 1)
	}
	return 1
}

// keysOf returns the number of the layer that makes the keys and values to which a layer attends. Usually it is the
// layer itself. For one of the last SharedKV layers, it is the last layer before them of the same kind, with or without
// a window.
func (c Config) keysOf(layer int) int {
	first := c.Layers - c.SharedKV
	if layer < first {
		return layer
	}
	for i := first - 1; i >= 0; i-- {
		if c.windowed(i) == c.windowed(layer) {
			return i
		}
	}
	return layer
}

// sizes reads positive integers that can be extents: one for all layers, or one for each. If the file lacks the key, it
// returns missing, or records an error if missing is nil. After an error the result is [1], any valid size, so that the
// caller can go on and look at r.err later.
func (r *metadata) sizes(key string, missing []int) []int {
	_, have := r.f.Lookup(r.prefix + key)
	if !have && missing != nil {
		return missing
	}
	if !have {
		r.err = errors.Join(r.err, fmt.Errorf("%w: %q", gguf.ErrNoKey, r.prefix+key))
	}
	list, least := r.each(key), int64(1)
	if slices.Contains(r.mayBeZero, key) {
		least = 0
	}
	sizes := make([]int, len(list))
	for i, v := range list {
		n, ok := integer(v)
		if !ok {
			r.fail(key, "is a %s: want an integer", v.Kind())
			return []int{1}
		}
		if n < least || n > math.MaxInt32 {
			r.fail(key, "is %d: want %d to %d", n, least, math.MaxInt32)
			return []int{1}
		}
		sizes[i] = int(n)
	}
	if len(sizes) == 0 {
		return []int{1}
	}
	return sizes
}

// size reads a positive integer that can be an extent.
func (r *metadata) size(key string) int { return r.sizeOf(key, nil) }

// sizeOr reads a positive integer that can be an extent. A missing key gives missing.
func (r *metadata) sizeOr(key string, missing int) int { return r.sizeOf(key, []int{missing}) }

func (r *metadata) sizeOf(key string, missing []int) int {
	list := r.sizes(key, missing)
	if len(list) > 1 {
		r.fail(key, layersDiffer)
	}
	return list[0]
}

// intOr reads an integer, with a default for a missing key.
func (r *metadata) intOr(key string, missing int64) int64 {
	v, ok := r.one(key)
	if !ok {
		return missing
	}
	n, ok := integer(v)
	if !ok {
		r.fail(key, "is a %s: want an integer", v.Kind())
	}
	return n
}

// flag reads a bool, with a default for a missing key.
func (r *metadata) flag(key string, missing bool) bool {
	v, ok := r.one(key)
	if ok && v.Kind() != reflect.Bool {
		r.fail(key, "is a %s: want a bool", v.Kind())
	}
	if !ok || v.Kind() != reflect.Bool {
		return missing
	}
	return v.Bool()
}

// float reads a float. It records an error, and returns 0, if the key is missing or has another type.
func (r *metadata) float(key string) float64 {
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		r.err = errors.Join(r.err, fmt.Errorf("%w: %q", gguf.ErrNoKey, r.prefix+key))
	}
	v, ok := r.one(key)
	if ok && !v.CanFloat() {
		r.fail(key, "is a %s: want a float", v.Kind())
	}
	if !ok || !v.CanFloat() {
		return 0
	}
	return shortest(v.Float()) // the decimal number that a float32 stands for
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

// floatOr reads a number, as float does. A missing key gives missing.
func (r *metadata) floatOr(key string, missing float64) float64 {
	r.known[key] = true
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		return missing
	}
	return r.float(key)
}
