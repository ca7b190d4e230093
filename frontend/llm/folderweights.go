package llm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

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

// ignoredTensors lists patterns of tensors that a folder may have and that a text model does not need: buffers that
// follow from the configuration, heads for training, and the towers of pictures and sound. A star is any text.
var ignoredTensors = []string{"*rotary_emb.inv_freq", "*.attn.bias", "*.attn.masked_bias",
	"*.attention.bias", "*.attention.masked_bias", "*embeddings.position_ids",
	"*pooler.dense.*", "cls.*", "*vision_tower.*", "*vision_model.*", "*visual.*", "*multi_modal_projector.*",
	"*audio_tower.*", "*embed_vision.*", "*embed_audio.*"}

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
