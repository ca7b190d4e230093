package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/gguf"
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
	// expert: the experts' tensors are joined. If a weight has several lines, the first that the folder has counts.
	weights string

	// keys has a line for each value that differs from folderKeys: GGUF's key, and keys of config.json. The first that
	// config.json has counts.
	keys string

	// wants has a line for each key of config.json that must have one of some values, if it is there. A model with
	// another value would need another graph.
	wants string

	// defaults has a line for each key of config.json that folders may leave out, with its value in JSON.
	defaults string

	// lessOne means that a norm multiplies by 1 plus its weight. GGUF files have the sum.
	lessOne bool

	// interleaved means that the folder has the elements of heads in the order neighbours too. Otherwise folders have
	// the order halves, whatever GGUF files have.
	interleaved bool

	// read sets values that no line of keys can say. It is nil if there are none.
	read func(c *folderConfig)
}

// folderKeys lists GGUF's keys, without the architecture, and the keys of config.json that mean the same. A key with a
// star is a float.
const folderKeys = `
block_count                       num_hidden_layers n_layer num_layers n_layers
embedding_length                  hidden_size n_embd d_model
context_length                    max_position_embeddings n_positions max_seq_len seq_length
feed_forward_length               intermediate_size n_inner ffn_hidden_size
attention.head_count              num_attention_heads n_head n_heads
attention.head_count_kv           num_key_value_heads num_kv_heads n_head_kv
attention.key_length              head_dim
attention.layer_norm_rms_epsilon* rms_norm_eps layer_norm_rms_epsilon
attention.layer_norm_epsilon*     layer_norm_eps layer_norm_epsilon norm_epsilon
attn_logit_softcapping*           attn_logit_softcapping
final_logit_softcapping*          final_logit_softcapping
attention.scale*                  attention_multiplier
attention.clamp_kqv*              clip_qkv
embedding_scale*                  embedding_multiplier
residual_scale*                   residual_multiplier
logit_scale*                      logit_scale logits_scaling
expert_count                      num_local_experts num_experts n_routed_experts moe_num_experts
expert_used_count                 num_experts_per_tok moe_topk moe_k
expert_feed_forward_length        moe_intermediate_size
expert_shared_feed_forward_length shared_expert_intermediate_size shared_intermediate_size
expert_shared_count               n_shared_experts moe_num_shared_experts num_shared_expert num_shared_experts
expert_weights_scale*             routed_scaling_factor
expert_group_count                n_group
expert_group_used_count           topk_group
leading_dense_block_count         first_k_dense_replace moe_layer_start_index
interleave_moe_layer_step         moe_layer_interval
nextn_predict_layers              num_nextn_predict_layers
rope.freq_base*                   rope_theta rotary_emb_base
rope.freq_base_swa*               rope_local_base_freq
`

// folderWeights lists the weights that most architectures share, as folder.weights does.
const folderWeights = `
token_embd    model.embed_tokens
output_norm   model.norm
output        lm_head
attn_norm     input_layernorm
attn_q        self_attn.q_proj
attn_k        self_attn.k_proj
attn_v        self_attn.v_proj
attn_qkv      self_attn.qkv_proj
attn_output   self_attn.o_proj
attn_output   self_attn.dense
attn_q_norm   self_attn.q_norm
attn_k_norm   self_attn.k_norm
ffn_norm      post_attention_layernorm
ffn_gate      mlp.gate_proj
ffn_up        mlp.up_proj
ffn_down      mlp.down_proj
ffn_gate_inp  mlp.gate
ffn_gate_exps mlp.experts.E.gate_proj
ffn_up_exps   mlp.experts.E.up_proj
ffn_down_exps mlp.experts.E.down_proj
exp_probs_b   mlp.gate.e_score_correction
ffn_gate_shexp mlp.shared_experts.gate_proj
ffn_up_shexp   mlp.shared_experts.up_proj
ffn_down_shexp mlp.shared_experts.down_proj
`

// folderWants lists conditions of all architectures, as folder.wants does.
const folderWants = `
use_alibi     false
alibi         false
mlp_only_layers []
scoring_func sigmoid
decoder_sparse_step 1
`

// ignoredTensors lists patterns of tensors that a folder may have and that a text model does not need: buffers that
// follow from the configuration, heads for training, and the towers of pictures and sound. A star is any text.
var ignoredTensors = []string{"*rotary_emb.inv_freq", "*.attn.bias", "*.attn.masked_bias",
	"*.attention.bias", "*.attention.masked_bias", "*embeddings.position_ids",
	"*pooler.dense.*", "cls.*", "*vision_tower.*", "*vision_model.*", "*visual.*", "*multi_modal_projector.*",
	"*audio_tower.*", "*embed_vision.*", "*embed_audio.*"}

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
	Plus       float64           // added to each element
	Squeezed   bool              // the first axis of the tensor, of extent 1, is left out
	OneRow     bool              // Rows has one row, and axis RowAxis is left out

	Values []float32 // of a weight that config.json defines
}

// sizes are the numbers that changes depend on.
type sizes struct{ heads, kvHeads, headDim, ropeDims, padding int }

// changes are what a line of folder.weights may say about rows, by name. Each returns which of n rows of the folder's
// tensor the weight has.
var changes = map[string]func(s sizes, n int) []int{
	"after-padding": func(s sizes, n int) []int { return every(s.padding, 1, max(n-s.padding, 0)) },

	"first-half":  func(_ sizes, n int) []int { return every(0, 1, n/2) },
	"second-half": func(_ sizes, n int) []int { return every(n/2, 1, n-n/2) },
	"even-rows":   func(_ sizes, n int) []int { return every(0, 2, (n+1)/2) },
	"odd-rows":    func(_ sizes, n int) []int { return every(1, 2, n/2) },
	"grouped":     func(s sizes, n int) []int { return slices.Concat(s.groups(0, n), s.groups(1, n), s.groups(2, n)) },
	"queries":     func(s sizes, n int) []int { return s.groups(0, n) },
	"keys":        func(s sizes, n int) []int { return s.groups(1, n) },
	"values":      func(s sizes, n int) []int { return s.groups(2, n) },

	"fused-queries": func(s sizes, n int) []int { return s.fused(0, s.heads, n) },
	"fused-keys":    func(s sizes, n int) []int { return s.fused(s.heads, s.kvHeads, n) },
	"fused-values":  func(s sizes, n int) []int { return s.fused(s.heads+s.kvHeads, s.kvHeads, n) },
}

// transposed is the change that exchanges the axes of a matrix.
const transposed = "transposed"

// every returns n indices from first on, each larger by step.
func every(first, step, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i*step
	}
	return list
}

// groups is for the queries, keys and values of all heads in one matrix, which has for each group of heads its queries,
// its key and its value. It returns the rows of all queries (part 0), keys (1) or values (2).
func (s sizes) groups(part, n int) (rows []int) {
	perGroup := s.heads / s.kvHeads
	if n/(perGroup+2)/s.kvHeads != s.headDim { // the check of shapes will find that
		return every(0, 1, n)
	}
	first, count := 0, perGroup
	if part > 0 {
		first, count = perGroup+part-1, 1
	}
	for group := range s.kvHeads {
		rows = append(rows, every((group*(perGroup+2)+first)*s.headDim, 1, count*s.headDim)...)
	}
	return rows
}

// fused is for the queries, keys and values of all heads in one matrix, first the queries of all heads, then the keys,
// and then the values. It returns the rows of some heads.
func (s sizes) fused(first, heads, n int) []int {
	if n/(s.heads+2*s.kvHeads) != s.headDim { // the check of shapes will find that
		return every(0, 1, n)
	}
	return every(first*s.headDim, 1, heads*s.headDim)
}

// neighbours is for the rows of queries or keys: it moves the two elements of each rotary pair next to each other, from
// the order halves.
func (s sizes) neighbours(n int) []int {
	rows := every(0, 1, n)
	half := s.ropeDims / 2
	for head := 0; head+s.headDim <= n; head += s.headDim {
		for i := range half {
			rows[head+2*i], rows[head+2*i+1] = head+i, head+half+i
		}
	}
	return rows
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
	if n := c.size("block_count", 0); n > len(tensors) {
		return nil, fmt.Errorf("config.json: %d layers, and the folder has %d tensors: want one for each at least", n,
			len(tensors))
	}
	f.Weights, f.Ignored, err = c.weights(a, tensors)
	return f, err
}

// Origins translates the names of tensors of a Hugging Face folder of the model, such as those of an adapter. The
// result has an Origin for each weight that is made of some of them. It is an error if a tensor belongs to no weight.
func (c Config) Origins(tensors map[string]ir.Type) ([]Origin, error) {
	a, err := findArchitecture(c.Architecture)
	if err != nil {
		return nil, err
	}
	f := &folderConfig{set: map[string]any{}}
	for key, n := range map[string]int{"attention.head_count": c.Heads, "attention.head_count_kv": c.KVHeads,
		"attention.key_length": c.HeadDim, "rope.dimension_count": c.RopeDims, "block_count": c.Layers,
		"embedding_length": c.Width, "expert_count": c.Experts, "attention.q_lora_rank": c.QueryLatent,
		"embedding_length_per_layer_input": c.PerLayerWidth} {
		f.set[key] = uint32(n)
	}
	with := maps.Clone(tensors)
	for _, table := range []string{folderWeights, a.folder.weights} { // the token embedding tells the prefix of names
		for _, line := range lines(table)[tokenTable] {
			with[line[0]+".weight"] = ir.Type{}
		}
	}
	all, _, err := f.weights(a, with)
	var list []Origin
	for _, o := range all {
		_, own := tensors[o.From[0]]
		switch {
		case own && o.Name == o.From[0]:
			return nil, fmt.Errorf("no weight of architecture %q is made of tensor %q", a.name, o.Name)
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
			return fmt.Errorf("config.json: layer_types says that layer %d has a window: %v; a model of architecture "+
				"%q has the opposite there", i, want, f.Architecture)
		}
	}
	return nil
}

// folderConfig is a config.json, and its translation to GGUF.
type folderConfig struct {
	values map[string]any
	set    map[string]any // values by GGUF's key, without the architecture
	more   []Origin       // weights that follow from the configuration

	padding int // rows before position 0 in a table of positions
	err     error
}

// readFolderConfig parses config.json and finds its architecture. A model of text and pictures has its text model's
// settings in an object.
func readFolderConfig(config []byte) (*folderConfig, architecture, error) {
	c := &folderConfig{set: map[string]any{}}
	d := json.NewDecoder(strings.NewReader(string(config)))
	d.UseNumber()
	if err := d.Decode(&c.values); err != nil {
		return nil, architecture{}, err
	}
	classes := c.strings("architectures")
	for _, inner := range []string{"text_config", "llm_config", "language_config"} {
		if text, ok := c.values[inner].(map[string]any); ok {
			maps.Copy(c.values, text)
		}
	}
	for _, class := range classes {
		for _, a := range architectures {
			if slices.Contains(strings.Fields(a.folder.classes), class) {
				return c, a, c.complete(a.folder.defaults)
			}
		}
	}
	if len(classes) == 0 {
		return nil, architecture{}, errors.New(`"architectures" is missing: want the class of the model`)
	}
	return nil, architecture{}, fmt.Errorf("architecture %q is not supported: want one of %s", classes[0],
		strings.Join(FolderClasses(), ", "))
}

// complete adds defaults to the configuration.
func (c *folderConfig) complete(defaults string) error {
	for key, list := range lines(defaults) {
		if _, ok := c.values[key]; ok {
			continue
		}
		d := json.NewDecoder(strings.NewReader(list[0][0]))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		c.values[key] = v
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

// lines splits a table of folder into the fields of its lines, by their first field.
func lines(table string) map[string][][]string {
	all := map[string][][]string{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 0 {
			all[f[0]] = append(all[f[0]], f[1:])
		}
	}
	return all
}

// translate fills c.set for an architecture.
func (c *folderConfig) translate(a architecture) error {
	keys := lines(folderKeys)
	for key, list := range lines(a.folder.keys) {
		delete(keys, key)
		delete(keys, key+"*")
		keys[key] = list
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		plain, isFloat := strings.CutSuffix(key, "*")
		if name := c.first(keys[key][0]); name != "" && isFloat {
			c.setFloat(plain, c.number(name))
		} else if name != "" {
			c.setSize(plain, c.number(name))
		}
	}
	if v, ok := c.values["norm_topk_prob"].(bool); ok {
		c.set["expert_weights_norm"] = v
	}
	if n := c.size("nextn_predict_layers", 0); n > 0 { // block_count has all layers of a file
		c.setSize("block_count", float64(c.size("block_count", 0)+n))
	}
	c.setWindow()
	c.setRope(a)
	if a.folder.read != nil {
		a.folder.read(c)
	}
	wants := lines(folderWants)
	maps.Copy(wants, lines(a.folder.wants))
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		c.want(key, wants[key][0])
	}
	return c.err
}

// first returns the first of some keys that config.json has with a value, or "".
func (c *folderConfig) first(keys []string) string {
	for _, key := range keys {
		if c.values[key] != nil {
			return key
		}
	}
	return ""
}

// fail records an error.
func (c *folderConfig) fail(format string, args ...any) {
	c.err = cmp.Or(c.err, fmt.Errorf(format, args...))
}

// number returns the number at a key.
func (c *folderConfig) number(key string) float64 { return c.numberIn(c.values, key) }

// numberIn returns the number at a key of an object. A list of equal numbers, one for each layer, is one number.
func (c *folderConfig) numberIn(in map[string]any, key string) float64 {
	one := in[key]
	if list, ok := one.([]any); ok && len(list) > 0 &&
		!slices.ContainsFunc(list, func(v any) bool { return v != list[0] }) {
		one = list[0]
	}
	n, ok := one.(json.Number)
	v, err := n.Float64()
	if !ok || err != nil || math.IsInf(v, 0) {
		c.fail("%q is %.40s: want a number", key, fmt.Sprint(in[key]))
	}
	return v
}

// strings returns the texts at a key, a list.
func (c *folderConfig) strings(key string) (all []string) {
	list, _ := c.values[key].([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// flag returns the bool at a key, or missing if there is none.
func (c *folderConfig) flag(key string, missing bool) bool {
	if v, ok := c.values[key].(bool); ok {
		return v
	}
	return missing
}

// setSize sets a key of GGUF to an integer.
func (c *folderConfig) setSize(key string, v float64) {
	if v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
		c.fail("the value of %q is %v: want an integer of 0 to %d", key, v, math.MaxInt32)
		return
	}
	c.set[key] = uint32(v)
}

// setFloat sets a key of GGUF to a float.
func (c *folderConfig) setFloat(key string, v float64) { c.set[key] = float32(v) }

// size returns a value of GGUF's that is set by now, or missing.
func (c *folderConfig) size(key string, missing int) int {
	if v, ok := c.set[key].(uint32); ok {
		return int(v)
	}
	return missing
}

// want records an error if config.json has a value at a key that is none of some, in JSON.
func (c *folderConfig) want(key string, values []string) {
	have, ok := c.values[key]
	if !ok || have == nil {
		return
	}
	text, err := json.Marshal(have)
	if s, isString := have.(string); isString {
		text = []byte(s)
	}
	if err != nil || !slices.Contains(values, string(text)) {
		c.fail("%q is %.60s, which is not supported: want %s", key, text, strings.Join(values, " or "))
	}
}

// setWindow sets the window of layers that have one.
func (c *folderConfig) setWindow() {
	if c.values["sliding_window"] == nil || !c.flag("use_sliding_window", true) {
		return
	}
	if types := c.windows(); types == nil || slices.Contains(types, true) {
		c.setSize("attention.sliding_window", c.number("sliding_window"))
	}
}

// windows returns for each layer whether it has a window, or nil if config.json does not say.
func (c *folderConfig) windows() (list []bool) {
	for _, kind := range c.strings("layer_types") {
		switch kind {
		case "sliding_attention", "full_attention":
			list = append(list, kind == "sliding_attention")
		default:
			c.fail("layer_types has %q, which is not supported: want sliding_attention or full_attention", kind)
		}
	}
	return list
}

// setRope translates the scaling of rotary positions.
func (c *folderConfig) setRope(a architecture) {
	if a.rope == notRotary {
		delete(c.set, "rope.freq_base")
		return
	}
	heads := max(c.size("attention.head_count", 1), 1)
	dims := c.size("attention.key_length", c.size("embedding_length", 0)/heads)
	if c.values["head_dim"] != nil && c.size("attention.key_length", 0) > 0 {
		c.set["attention.value_length"] = c.set["attention.key_length"]
	}
	scaling, ok := c.values["rope_parameters"].(map[string]any)
	if full, nested := scaling["full_attention"].(map[string]any); nested {
		if local, ok := scaling["sliding_attention"].(map[string]any); ok && local["rope_theta"] != nil {
			c.setFloat("rope.freq_base_swa", c.numberIn(local, "rope_theta"))
		}
		scaling = full
	}
	if !ok {
		scaling, ok = c.values["rope_scaling"].(map[string]any)
	}
	whole := dims
	if v := c.first([]string{"partial_rotary_factor", "rotary_pct", "rotary_emb_fraction"}); v != "" {
		dims = int(float64(dims) * c.number(v))
	} else if scaling["partial_rotary_factor"] != nil {
		dims = int(float64(dims) * c.numberIn(scaling, "partial_rotary_factor"))
	} else if c.values["rotary_dim"] != nil {
		dims = int(c.number("rotary_dim"))
	}
	c.setSize("rope.dimension_count", float64(dims))
	if !ok {
		return
	}
	if list, ok := scaling["mrope_section"].([]any); ok {
		var pairs []int32
		for i := range min(len(list), 4) {
			n, _ := list[i].(json.Number)
			v, err := n.Int64()
			if err != nil || v < 0 || v > maxHeadDim {
				c.fail("mrope_section has %.40s: want numbers of pairs", fmt.Sprint(list[i]))
			}
			pairs = append(pairs, int32(v))
		}
		c.set["rope.dimension_sections"] = pairs
	}
	if scaling["rope_theta"] != nil {
		c.setFloat("rope.freq_base", c.numberIn(scaling, "rope_theta"))
	}
	kind, _ := cmp.Or(scaling["rope_type"], scaling["type"], any("default")).(string)
	trained := c.size("context_length", 0)
	if name := "original_max_position_embeddings"; scaling[name] != nil {
		trained = int(c.numberIn(scaling, name))
	} else if c.values[name] != nil {
		trained = int(c.number(name))
	}
	switch kind {
	case "default", "mrope", "dynamic": // dynamic changes nothing within the context that the model was trained for
	case "proportional": // other pairs of the head have angles of 0
		factors := make([]float32, min(whole, maxHeadDim)/2)
		for i := range factors {
			if factors[i] = 1; i >= dims/2 {
				factors[i] = 1e30
			}
		}
		c.setSize("rope.dimension_count", float64(whole))
		c.more = append(c.more, Origin{Name: ropeFreqs, Values: factors})
	case "linear":
		c.set["rope.scaling.type"] = "linear"
		c.setFloat("rope.scaling.factor", c.numberIn(scaling, "factor"))
	case "yarn":
		c.setYaRN(a, scaling, trained)
	case "llama3":
		c.setLlama3(scaling, dims, trained)
	case "longrope", "su":
		c.setLongRope(scaling, trained)
	default:
		c.fail("rotary positions scaled by %q are not supported: want default, dynamic, linear, llama3, longrope, "+
			"proportional or yarn", kind)
	}
}

// setYaRN translates YaRN (Peng et al. 2023, arXiv:2309.00071).
func (c *folderConfig) setYaRN(a architecture, scaling map[string]any, trained int) {
	factor := c.numberIn(scaling, "factor")
	c.set["rope.scaling.type"] = "yarn"
	c.setFloat("rope.scaling.factor", factor)
	c.setSize("rope.scaling.original_context_length", float64(trained))
	for key, name := range map[string]string{"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"} {
		if scaling[name] != nil {
			c.setFloat("rope.scaling."+key, c.numberIn(scaling, name))
		}
	}
	own := float64(0.1*math.Log(factor)) + 1
	if a.yarnKeepsMagnitude {
		own = 1
	}
	if scaling["attention_factor"] != nil { // it replaces YaRN's own magnitude, by which the reader multiplies
		c.setFloat("rope.scaling.attn_factor", c.numberIn(scaling, "attention_factor")/own)
	}
	if scaling["mscale"] == nil && scaling["mscale_all_dim"] == nil {
		return
	}
	if a.yarnKeepsMagnitude && scaling["mscale"] != nil && scaling["mscale"] == scaling["mscale_all_dim"] {
		c.setFloat("rope.scaling.yarn_log_multiplier", 0.1*c.numberIn(scaling, "mscale"))
		return
	}
	if scaling["mscale"] == nil || c.numberIn(scaling, "mscale") != 1 || scaling["mscale_all_dim"] == nil {
		c.fail("rotary positions with an mscale other than 1, or without mscale_all_dim, are not supported")
		return
	}
	c.setFloat("rope.scaling.yarn_log_multiplier", c.numberIn(scaling, "mscale_all_dim"))
}

// setLlama3 computes Llama 3's factors of the rotary angles. Angles of short wavelength stay, and angles of long
// wavelength are divided by the factor. Between the two bounds the factor changes smoothly.
func (c *folderConfig) setLlama3(scaling map[string]any, dims, trained int) {
	factor, base := c.numberIn(scaling, "factor"), 10000.0
	low, high := c.numberIn(scaling, "low_freq_factor"), c.numberIn(scaling, "high_freq_factor")
	if v, ok := c.set["rope.freq_base"].(float32); ok {
		base = float64(v)
	}
	if !(low > 0 && high > low && factor > 0) || dims > maxHeadDim {
		c.fail("rope_scaling has the factor %v from %v to %v: want positive numbers, the second below the third",
			factor, low, high)
		return
	}
	factors := make([]float32, dims/2)
	for i := range factors {
		wavelength := 2 * math.Pi * math.Pow(base, float64(2*i)/float64(dims))
		turns := float64(trained) / wavelength
		switch smooth := (turns - low) / (high - low); {
		case turns >= high:
			factors[i] = 1
		case turns <= low:
			factors[i] = float32(factor)
		default:
			factors[i] = float32(1 / (float64((1-smooth)/factor) + smooth))
		}
	}
	c.more = append(c.more, Origin{Name: ropeFreqs, Values: factors})
}

// maxHeadDim bounds the elements of a head that are rotated.
const maxHeadDim = 1 << 16

// setLongRope translates LongRoPE (Ding et al. 2024, arXiv:2402.13753).
func (c *folderConfig) setLongRope(scaling map[string]any, trained int) {
	for key, weight := range map[string]string{"short_factor": ropeShort, "long_factor": ropeLong} {
		list, _ := scaling[key].([]any)
		values := make([]float32, len(list))
		for i, v := range list {
			n, _ := v.(json.Number)
			f, err := n.Float64()
			if err != nil {
				c.fail("%s of rope_scaling has %.40s: want numbers", key, fmt.Sprint(v))
			}
			values[i] = float32(f)
		}
		if len(list) == 0 {
			c.fail("rope_scaling has no %s: want a list of numbers", key)
		}
		c.more = append(c.more, Origin{Name: weight, Values: values})
	}
	slices.SortFunc(c.more, func(a, b Origin) int { return strings.Compare(a.Name, b.Name) })
	c.set["rope.scaling.type"] = "longrope"
	c.setSize("rope.scaling.original_context_length", float64(trained))
	magnitude := 1.0
	if longer := float64(c.size("context_length", 0)) / float64(trained); longer > 1 {
		magnitude = math.Sqrt(1 + math.Log(longer)/math.Log(float64(trained)))
	}
	if scaling["attention_factor"] != nil {
		magnitude = c.numberIn(scaling, "attention_factor")
	}
	if scaling["long_mscale"] != nil {
		if magnitude = c.numberIn(scaling, "long_mscale"); magnitude != c.numberIn(scaling, "short_mscale") {
			c.fail("rope_scaling has a long_mscale that is not the short_mscale, which is not supported")
		}
	}
	c.setFloat("rope.scaling.attn_factor", magnitude)
}

// weights translates the names of tensors. Tensors that belong to no weight keep their names, and FromGGUF refuses
// them. ignored lists the tensors that the model does not need.
func (c *folderConfig) weights(a architecture, tensors map[string]ir.Type) (all []Origin, ignored []string, err error) {
	s := sizes{heads: max(c.size("attention.head_count", 1), 1), ropeDims: c.size("rope.dimension_count", 0),
		padding: c.padding}
	s.kvHeads = max(c.size("attention.head_count_kv", s.heads), 1)
	s.headDim = c.size("attention.key_length", c.size("embedding_length", 0)/s.heads)
	f := &folderWeightNames{spec: a.folder, table: lines(folderWeights), tensors: tensors, used: map[string]bool{}}
	maps.Copy(f.table, lines(a.folder.weights))
	f.findBase()
	made := func(o Origin, p weightSpec) {
		if len(p.shape) == 3 {
			o.RowAxis = 1 // the rows of each expert
		}
		turned := a.rope == neighbours && !a.folder.interleaved && s.ropeDims <= s.headDim && s.headDim > 0
		if part := p.name; turned && (part == "attn_q" || part == "attn_k" || part == "attn_q_norm" ||
			part == "attn_k_norm") {
			o.Rows = after(o.Rows, s.neighbours)
		}
		if t := tensors[o.From[0]]; !o.Stacked && len(t.Shape) > 0 && t.Shape[0].Is(1) {
			o.Squeezed = len(t.Shape) == len(p.of(o.Name))+1
		}
		if a.folder.lessOne && strings.HasSuffix(o.Name, "norm.weight") {
			o.Plus = 1
		}
		all = append(all, o)
	}
	config := Config{Architecture: a.name, Layers: c.size("block_count", 0), Width: c.size("embedding_length", 0),
		Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim, Experts: c.size("expert_count", 0),
		DraftLayers: c.size("nextn_predict_layers", 0), DenseLayers: c.size("leading_dense_block_count", 0),
		ExpertPeriod: c.size("interleave_moe_layer_step", 0), SharedFeedForward: max(
			c.size("expert_shared_feed_forward_length", 0), c.size("expert_shared_count", 0)),
		QueryLatent:   c.size("attention.q_lora_rank", 0),
		PerLayerWidth: c.size("embedding_length_per_layer_input", 0),
		Pooling:       poolings[min(c.size("pooling_type", 0), len(poolings)-1)]}
	config.Layers -= config.DraftLayers
	tied := c.flag("tie_word_embeddings", false)
	for _, p := range a.modelWeights(config) {
		if p.name != output || !tied {
			f.find("", "", p, s, made)
		}
	}
	layer := cmp.Or(a.folder.layers, "model.layers.N.")
	for i := range config.Layers {
		number := strconv.Itoa(i)
		for _, p := range a.allLayerWeights(config.at(i)) {
			f.find("blk."+number+".", strings.ReplaceAll(layer, "N", number), p, s, made)
		}
	}
	var drafts []string
	for i := range config.DraftLayers {
		drafts = append(drafts, f.rebasedLayer(strings.ReplaceAll(layer, "N", strconv.Itoa(config.Layers+i))))
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		switch {
		case f.used[name]:
		case slices.ContainsFunc(drafts, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			ignored = append(ignored, name)
		case slices.ContainsFunc(ignoredTensors, func(p string) bool { return matches(p, name) }),
			tied && strings.HasSuffix(name, "lm_head.weight"):
			ignored = append(ignored, name)
		default:
			all = append(all, Origin{Name: name, From: []string{name}})
		}
	}
	return append(all, c.more...), ignored, nil
}

// after returns which of n rows remain if the second choice applies to the rows that the first one leaves.
func after(first, second func(n int) []int) func(n int) []int {
	if first == nil {
		return second
	}
	return func(n int) []int {
		rows := first(n)
		chosen := make([]int, 0, len(rows))
		for _, i := range second(len(rows)) {
			chosen = append(chosen, rows[i])
		}
		return chosen
	}
}

// of returns the shape of the weight or of its bias.
func (p weightSpec) of(name string) ir.Shape {
	if strings.HasSuffix(name, ".bias") {
		return p.bias
	}
	return p.shape
}

// matches reports whether a name matches a pattern in which a star is any text.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(name, part)
		}
		_, after, ok := strings.Cut(name, part)
		if !ok {
			return false
		}
		name = after
	}
	return name == ""
}

// folderWeightNames finds the tensors of weights.
type folderWeightNames struct {
	spec    folder
	table   map[string][][]string
	tensors map[string]ir.Type
	base    [2]string // a prefix of names in the table, and the prefix that the folder has instead
	used    map[string]bool
}

// findBase finds the prefix of the folder's names. A model without an output has no "model." before its names, and a
// model of text and pictures has more before them. The token embedding tells.
func (f *folderWeightNames) findBase() {
	name := f.table[tokenTable][0][0] + ".weight"
	at := strings.Index(name, ".") + 1
	rest := name[at:]
	if _, ok := f.tensors[name]; ok {
		return
	}
	for _, have := range slices.Sorted(maps.Keys(f.tensors)) {
		if strings.HasSuffix(have, "."+name) { // a prefix before the whole name
			f.base = [2]string{"", strings.TrimSuffix(have, name)}
			return
		}
	}
	for _, have := range slices.Sorted(maps.Keys(f.tensors)) {
		if before, ok := strings.CutSuffix(have, rest); ok && (before == "" || strings.HasSuffix(before, ".")) {
			f.base = [2]string{name[:at], before}
			return
		}
	}
}

// rebasedLayer returns the folder's prefix for the prefix of a layer.
func (f *folderWeightNames) rebasedLayer(prefix string) string {
	if rest, ok := strings.CutPrefix(prefix, f.base[0]); ok {
		return f.base[1] + rest
	}
	return prefix
}

// rebased returns the folder's name for a name of the table.
func (f *folderWeightNames) rebased(name string) string {
	if rest, ok := strings.CutPrefix(name, f.base[0]); ok {
		if _, ok := f.tensors[f.base[1]+rest]; ok {
			return f.base[1] + rest
		}
	}
	for _, prefix := range []string{"", "language_model."} {
		if _, ok := f.tensors[prefix+name]; ok {
			return prefix + name
		}
	}
	return name
}

// find calls made for a weight and its bias, if the folder has them. prefix is the layer's in GGUF, and layer the
// layer's in the folder.
func (f *folderWeightNames) find(prefix, layer string, p weightSpec, s sizes, made func(Origin, weightSpec)) {
	for _, suffix := range []string{".weight", ".bias"} {
		if suffix == ".bias" && p.bias == nil || suffix == ".weight" && p.onlyBias {
			continue
		}
		for _, line := range f.table[p.name] {
			o := Origin{Name: prefix + p.name + suffix}
			if f.from(&o, layer+line[0], suffix) {
				for _, change := range line[1:] {
					if change == transposed {
						o.Transposed = suffix == ".weight"
					} else {
						o.Rows = func(n int) []int { return changes[change](s, n) }
					}
				}
				made(o, p)
				break
			}
		}
	}
}

// from sets the tensors of a weight, and reports whether the folder has them. A tensor has the name of the table with
// the suffix .weight or .bias. A weight may also lack the suffix, and its bias then ends in _bias.
func (f *folderWeightNames) from(o *Origin, name, suffix string) bool {
	for _, end := range []string{suffix, strings.ReplaceAll(strings.TrimPrefix(suffix, ".weight"), ".", "_")} {
		before, after, several := strings.Cut(name+end, ".E.")
		full := f.rebased(name + end)
		if several {
			full = f.rebased(before + ".0." + after)
		}
		if _, ok := f.tensors[full]; !ok {
			continue
		}
		if o.Stacked = several; !several {
			o.From = []string{full}
			f.used[full] = true
			return true
		}
		for e := range len(f.tensors) { // the check of shapes will find that one is missing
			full := f.rebased(before + "." + strconv.Itoa(e) + "." + after)
			if _, ok := f.tensors[full]; !ok {
				break
			}
			o.From = append(o.From, full)
			f.used[full] = true
		}
		return true
	}
	return false
}
