package llm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/texttable"
)

// folderKeys has a line for each key of GGUF, without the architecture's prefix: that key, and the keys of config.json
// that mean the same. A star marks a float.
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

// folderWants lists conditions of all architectures, as folder.wants does.
const folderWants = `
use_alibi     false
alibi         false
mlp_only_layers []
scoring_func sigmoid
decoder_sparse_step 1
`

// folderConfig is a config.json, and its translation to GGUF.
type folderConfig struct {
	values map[string]any
	set    map[string]any // values by GGUF's key, without the architecture
	mixers []string       // see folder.mixers

	// more are weights that no line of a table makes. times has what the rows of a weight are multiplied by, by name.
	more  []Origin
	times map[string]func(row int) float64

	padding int // rows before position 0 in a table of positions
	err     error
}

// readFolderConfig parses config.json and finds its architecture. A model of text and pictures has its text model's
// settings in an object.
func readFolderConfig(config []byte) (c *folderConfig, arch architecture, err error) {
	c = &folderConfig{set: map[string]any{}}
	d := json.NewDecoder(strings.NewReader(string(config)))
	d.UseNumber()
	if err := d.Decode(&c.values); err != nil {
		return nil, architecture{}, err
	}
	classes := c.strings("architectures")
	// The settings of the text model replace those around them, but the class of the whole model counts.
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

// complete sets the keys that the configuration lacks. defaults has a key and its value in JSON in each line.
func (c *folderConfig) complete(defaults string) error {
	for key, list := range texttable.ByFirst(defaults) {
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

// translate sets GGUF's keys (c.set) from the keys of config.json, by the tables of all folders and of architecture a.
func (c *folderConfig) translate(a architecture) error {
	keys := texttable.ByFirst(folderKeys) // the architecture's own lines replace the common ones
	for key, list := range texttable.ByFirst(a.folder.keys) {
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
	c.mixers = strings.Fields(a.folder.mixers)
	c.setWindow()
	c.setRope(a)
	if a.folder.read != nil {
		a.folder.read(c)
	}
	if a.hybrid && a.folder.mixers != "" {
		c.setMixers()
	}
	wants := texttable.ByFirst(folderWants)
	maps.Copy(wants, texttable.ByFirst(a.folder.wants))
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

// numberIn returns the number at a key of an object. A list of equal numbers, one for each layer, is one number. For
// any other value it records an error.
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

// want records an error if the value of a key in config.json is none of `values`. They are spelled as in JSON, but
// strings have no quotes. A missing key or null is not checked.
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
		if !slices.Contains(attending, kind) && !slices.Contains(c.mixers, kind) {
			c.fail("layer_types has %q, which is not supported: want %s", kind,
				strings.Join(slices.Concat(attending, c.mixers), ", "))
		}
		list = append(list, slices.Contains(attending[:2], kind))
	}
	return list
}

// attending are the kinds of layers that attend; the first two have a window.
var attending = []string{"sliding_attention", "chunked_attention", "full_attention", "attention"}

// setMixers sets the number of key heads of each layer. It is 0 for a layer that does not attend.
func (c *folderConfig) setMixers() {
	kinds := c.strings("layer_types")
	if len(kinds) != c.size("block_count", 0) {
		c.fail("layer_types has %d kinds: want one for each of %d layers", len(kinds), c.size("block_count", 0))
		return
	}
	heads := make([]uint32, len(kinds))
	for i, kind := range kinds {
		if !slices.Contains(c.mixers, kind) {
			heads[i] = uint32(c.size("attention.head_count_kv", 0))
		}
	}
	c.set["attention.head_count_kv"] = heads
}

// scanKeys are lines of folder.keys for the sizes of a scan and of its convolution.
const scanKeys = `
ssm.conv_kernel    conv_kernel mamba_d_conv linear_conv_kernel_dim
ssm.state_size     state_size ssm_state_size mamba_d_state linear_key_head_dim
ssm.group_count    n_groups mamba_n_groups linear_num_key_heads
ssm.time_step_rank mamba_n_heads mamba_num_heads linear_num_value_heads num_heads
`

// scanWants are lines of folder.wants for Mamba-2's layers. Only limits that change no step are accepted.
const scanWants = `
time_step_limit   [0.0,"Infinity"] [0,"Infinity"] [0.0,{"__float__":"Infinity"}]
mamba_proj_bias   false
mamba_hidden_act  silu
`

// setInner sets the number of elements of a token that go through a scan: the heads, times the elements of a head. dims
// are keys of config.json; the first one that it has gives the elements of a head.
func (c *folderConfig) setInner(dims ...string) {
	if key := c.first(dims); key != "" {
		c.setSize("ssm.inner_size", float64(c.size("ssm.time_step_rank", 0))*c.number(key))
	}
}
