package llm

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/internal/texttable"
	"github.com/vkc-go/vkc/ir"
)

// folderWeights is the table of names of the weights that most architectures share, in the form of folder.weights.
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
	"*.attention.bias", "*.attention.masked_bias", "*embeddings.position_ids", "*pooler.dense.*", "cls.*",
	"*vision_tower.*", "*vision_model.*", "*visual.*", "*multi_modal_projector.*", "*connector.*", "*audio_tower.*",
	"mtp.*", "*embed_vision.*", "*embed_audio.*"}

// weights translates the names of a folder's tensors to the names of weights. Tensors that belong to no weight keep
// their names, and FromGGUF refuses them. ignored lists the tensors that the model does not need.
func (c *folderConfig) weights(a architecture, config Config, tensors map[string]ir.Type) (all []Origin,
	ignored []string, err error) {
	f := &folderWeightNames{spec: a.folder, table: texttable.ByFirst(folderWeights), tensors: tensors,
		used: map[string]bool{}}
	maps.Copy(f.table, texttable.ByFirst(a.folder.weights))
	f.findBase()
	f.add = func(o Origin) { all = append(all, o) }
	f.made = func(o Origin, p weightSpec, s sizes, kept bool) { all = append(all, c.converted(a, o, p, s, kept)) }
	tied := c.flag("tie_word_embeddings", false)
	for _, p := range a.modelWeights(config) {
		if p.name != output || !tied {
			f.find("", "", p, config.sizes(c.padding))
		}
	}
	layer := cmp.Or(a.folder.layers, "model.layers.N.")
	for i := range config.Layers {
		number := strconv.Itoa(i)
		own := config.at(i)
		for _, p := range a.allLayerWeights(own) {
			f.find("blk."+number+".", strings.ReplaceAll(layer, "N", number), p, own.sizes(c.padding))
		}
	}
	var drafts []string // the prefixes of layers that predict further tokens
	for i := range config.DraftLayers {
		drafts = append(drafts, f.rebasedLayer(strings.ReplaceAll(layer, "N", strconv.Itoa(config.Layers+i))))
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if f.used[name] {
			continue
		}
		inDraft := slices.ContainsFunc(drafts, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		isIgnored := slices.ContainsFunc(ignoredTensors, func(p string) bool { return matches(p, name) })
		isTiedOutput := tied && strings.HasSuffix(name, "lm_head.weight") // a copy of the token embedding
		if inDraft || isIgnored || isTiedOutput {
			ignored = append(ignored, name)
		} else {
			all = append(all, Origin{Name: name, From: []string{name}})
		}
	}
	for _, o := range c.more {
		if !slices.ContainsFunc(all, func(have Origin) bool { return have.Name == o.Name }) {
			all = append(all, o)
		}
	}
	return all, ignored, nil
}

// converted returns the origin o of weight p with the changes that its elements need, because GGUF files have them in
// another form than folders. kept says that the architecture's table of weights keeps the elements.
func (c *folderConfig) converted(a architecture, o Origin, p weightSpec, s sizes, kept bool) Origin {
	if len(p.shape) == 3 && o.RowAxis == 0 {
		o.RowAxis = 1 // the rows of each expert
	}
	// Folders pair element i of a head with i+ropeDims/2, and some architectures in GGUF pair neighbours.
	hasPairs := slices.Contains([]string{"attn_q", "attn_k", "attn_q_norm", "attn_k_norm"}, p.name)
	pairsDiffer := a.rope == neighbours && !a.folder.interleaved && s.ropeDims <= s.headDim && s.headDim > 0
	if hasPairs && pairsDiffer {
		o.Rows = after(o.Rows, s.neighbours)
	}
	if a.folder.lessOne && !kept && strings.HasSuffix(o.Name, "norm.weight") {
		o.Change = func(_ int, v float64) float64 { return v + 1 }
	}
	if times, ok := c.times[p.name]; ok {
		o.Change = func(row int, v float64) float64 { return v * times(row) }
	}
	return o
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
		if i == len(parts)-2 { // the last part, which must end the name
			return strings.HasSuffix(name, part)
		}
		_, after, ok := strings.Cut(name, part)
		if !ok {
			return false
		}
		name = after
	}
	return name == "" // a pattern without a star is the whole name
}

// folderWeightNames finds the tensors of weights.
type folderWeightNames struct {
	spec    folder
	table   map[string][][]string
	tensors map[string]ir.Type
	base    [2]string // a prefix of names in the table, and the prefix that the folder has instead
	used    map[string]bool
	add     func(o Origin)                                   // called for each order of columns
	made    func(o Origin, p weightSpec, s sizes, kept bool) // called for each weight; see folderConfig.converted
}

// findBase sets base by the folder's name of the token embedding. For example, the table has model.embed_tokens. A
// folder of a model without an output has embed_tokens, so base is {"model.", ""}. A folder of a model of text and
// pictures may have language_model.model.embed_tokens, so base is {"", "language_model."}.
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

// rebased returns the folder's name for a weight that the architecture's table of names has. A folder may have another
// prefix for the layers, or language_model. before the name.
func (f *folderWeightNames) rebased(name string) string {
	inTable, inFolder := f.base[0], f.base[1]
	if rest, ok := strings.CutPrefix(name, inTable); ok {
		if _, ok := f.tensors[inFolder+rest]; ok {
			return inFolder + rest
		}
	}
	for _, prefix := range []string{"", "language_model."} {
		if _, ok := f.tensors[prefix+name]; ok {
			return prefix + name
		}
	}
	return name
}

// find looks for weight p and its bias in the folder, and calls f.made for each that it finds. prefix is the prefix of
// the layer's names in GGUF, and layer the prefix in the folder. s has the layer's sizes.
func (f *folderWeightNames) find(prefix, layer string, p weightSpec, s sizes) {
	suffixes := []string{".weight", ".bias"}
	if p.bare {
		suffixes = []string{""}
	}
	for _, suffix := range suffixes {
		if suffix == ".bias" && p.bias == nil || suffix == ".weight" && p.onlyBias {
			continue
		}
		// The lines of the table are alternatives: the first one for which the folder has tensors counts. line[0] is
		// the name in the folder, and the rest are names of changes (see change).
		for _, line := range f.table[p.name] {
			o := Origin{Name: prefix + p.name + suffix}
			if f.from(&o, layer+line[0], suffix) {
				kept := f.change(&o, p, s, line[1:])
				f.made(o, p, s, kept)
				f.findMore(o, p, s, kept)
				break
			}
		}
	}
}

// The suffixes of further tensors of a matrix, in place of .weight; see nn.Linear.
const (
	orderSuffix = ".order"
	scaleSuffix = ".weight_scale"
)

// moreOf returns the name of a further tensor of a matrix.
func moreOf(name, suffix string) string { return strings.TrimSuffix(name, ".weight") + suffix }

// findMore adds the order of a matrix's columns and its scales, if the folder has them. The scales have the rows of the
// matrix. For kept see folderConfig.converted.
func (f *folderWeightNames) findMore(of Origin, p weightSpec, s sizes, kept bool) {
	if !strings.HasSuffix(of.Name, ".weight") || !p.linear {
		return
	}
	for _, suffix := range []string{orderSuffix, scaleSuffix} {
		o := of
		o.Name, o.From = moreOf(of.Name, suffix), nil
		for _, name := range of.From {
			if from := moreOf(name, suffix); f.has(from) {
				o.From = append(o.From, from)
			}
		}
		switch {
		case len(o.From) < len(of.From): // some tensor of the weight has none
		case suffix == scaleSuffix:
			if shape := f.tensors[of.From[0]].Shape; o.RowAxis > 0 && !o.Stacked && len(shape) == 2 {
				o.Rows = byGroups(o.Rows, shape[1].Static())
			}
			f.made(o, p, s, kept)
		default:
			f.add(Origin{Name: o.Name, From: o.From, Stacked: o.Stacked})
		}
	}
}

// byGroups returns the choice of groups of columns that belongs to a choice of columns. The choice of columns must keep
// the columns of a group together. Both functions return the indices that remain, as in after.
func byGroups(choice func(n int) []int, columns int) func(groups int) []int {
	return func(groups int) (list []int) {
		size := max(columns/max(groups, 1), 1)
		for i, column := range choice(columns) {
			if i%size == 0 {
				list = append(list, column/size)
			}
		}
		return list
	}
}

func (f *folderWeightNames) has(name string) bool {
	_, ok := f.tensors[name]
	return ok
}

// change applies the changes of a line to a weight. kept is true if one of them is "kept".
func (f *folderWeightNames) change(o *Origin, p weightSpec, s sizes, names []string) (kept bool) {
	reshaped := false
	for _, name := range names {
		c := changes[name]
		if c.rows != nil {
			o.Rows = after(o.Rows, func(n int) []int { return c.rows(s, n) })
			o.RowAxis = c.axis
		}
		if c.value != nil {
			o.Change = func(_ int, v float64) float64 { return c.value(v) }
		}
		o.Transposed = o.Transposed || c.transposed && !strings.HasSuffix(o.Name, ".bias")
		reshaped, kept = reshaped || c.reshaped, kept || c.kept
	}
	// Shapes that differ only in axes of extent 1 are equal in memory, so Dims replaces the shape.
	have := slices.Clone(f.tensors[o.From[0]].Shape)
	if o.Stacked {
		have = append(ir.ShapeOf(len(o.From)), have...)
	}
	want := p.of(o.Name)
	if !have.Equal(want) && (reshaped || withoutOnes(have).Equal(withoutOnes(want))) {
		o.Dims = []int{}
		for _, d := range want {
			o.Dims = append(o.Dims, d.Static())
		}
	}
	return kept
}

// withoutOnes returns a shape without axes of extent 1.
func withoutOnes(s ir.Shape) ir.Shape {
	return slices.DeleteFunc(slices.Clone(s), func(d ir.Dim) bool { return d.Is(1) })
}

// from sets the folder's tensors that a weight is made of, and reports whether the folder has any. name is a name of
// the table, which may stand for several tensors, and suffix is .weight or .bias. A tensor may also have no suffix
// .weight; its bias then ends in _bias.
func (f *folderWeightNames) from(o *Origin, name, suffix string) bool {
	short := strings.ReplaceAll(strings.TrimPrefix(suffix, ".weight"), ".", "_") // "" or "_bias"
	for _, end := range []string{suffix, short} {
		var list []string
		names, stacked := several(name + end)
		for one := range names {
			full := f.rebased(one)
			if _, ok := f.tensors[full]; !ok { // the check of shapes will find that one is missing
				break
			}
			list = append(list, full)
		}
		if len(list) == 0 {
			continue
		}
		o.From, o.Stacked = list, stacked
		for _, full := range list {
			f.used[full], f.used[moreOf(full, orderSuffix)], f.used[moreOf(full, scaleSuffix)] = true, true, true
		}
		return true
	}
	return false
}

// several expands a name of a table. A name with .E. becomes one name for each expert, without end, and a list in
// braces one for each of its parts. Any other name stays alone. stacked is true in the first two cases.
func several(name string) (names iter.Seq[string], stacked bool) {
	if before, after, ok := strings.Cut(name, ".E."); ok {
		return func(yield func(string) bool) {
			for e := 0; yield(before + "." + strconv.Itoa(e) + "." + after); e++ {
			}
		}, true
	}
	before, rest, open := strings.Cut(name, "{")
	list, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return slices.Values([]string{name}), false
	}
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(list, ",") {
			if !yield(before + part + after) {
				return
			}
		}
	}, true
}
