package quantize

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Recipe is a mixture of formats, as llama.cpp defines it: most matrices have the format Base, and the most sensitive
// ones have more bits. A tensor's layer and its role, which its name in a GGUF file gives, decide its format.
type Recipe struct {
	Name     string
	FileType uint32 // value of general.file_type
	Base     ir.DType
	output   ir.DType // of the output matrix, or of the embedding that it shares
	tiny     bool     // about 2 bits
	clauses  []clause // the first that applies to a tensor gives its type
}

// clause gives the tensors of a role a type, if a condition holds.
type clause struct {
	role role
	when func(*site) bool // nil always holds
	to   ir.DType
}

// role is the use of a matrix in a model.
type role uint8

const (
	other role = iota
	embedding
	output
	query
	key
	value // also of queries, keys and values in one matrix
	attended
	gate
	up
	down
)

// roles has the roles of matrices by name, in the order in which they are tried. name is the whole name of a tensor or,
// if whole is not set, a part of it.
var roles = []struct {
	name  string
	whole bool
	role  role
}{
	{"output.weight", true, output},
	{"token_embd.weight", true, embedding}, {"per_layer_token_embd.weight", true, embedding},
	{"attn_qkv.weight", false, value}, {"attn_kv_b.weight", false, value}, {"attn_v.weight", false, value},
	{"attn_k.weight", false, key}, {"attn_q.weight", false, query}, {"attn_output.weight", false, attended},
	{"ffn_up", false, up}, {"ffn_gate", false, gate}, {"ffn_down", false, down},
}

// roleOf returns the role of a matrix, by its name in a GGUF file.
func roleOf(name string) role {
	for _, r := range roles {
		if r.whole && name == r.name || !r.whole && strings.Contains(name, r.name) {
			return r.role
		}
	}
	return other
}

// site is a matrix and its model, for the conditions of clauses.
type site struct {
	*facts
	role     role
	index    int  // position among the tensors of the role
	layer    int  // the same as index, but in mixtures of experts the number of the layer
	layers   int  // the number of layers, or for role value of tensors with that role
	stacked  bool // the tensor has several matrices
	weighted bool // there is an importance matrix
}

// facts are the properties of a model on which recipes depend.
type facts struct {
	architecture string
	layers       int
	grouping     int // query heads for each head of keys and values
	experts      int
	tied         bool // the embedding is the output matrix too
}

// The conditions of clauses: early picks the first 1/part of the layers, and first the first n layers.

func early(part int) func(*site) bool { return func(s *site) bool { return s.layer < s.layers/part } }
func first(n int) func(*site) bool    { return func(s *site) bool { return s.layer < n } }

// moreBits picks the first and last eighth of the layers, and every third one between.
func moreBits(s *site) bool {
	return early(8)(s) || s.layer >= 7*s.layers/8 || (s.layer-s.layers/8)%3 == 2
}

func middle(s *site) bool     { return !early(8)(s) && s.layer < 7*s.layers/8 }
func grouped(s *site) bool    { return s.grouping >= 4 }
func eight(s *site) bool      { return s.experts == 8 }
func mixture(s *site) bool    { return s.experts >= 4 }
func unweighted(s *site) bool { return !s.weighted }
func weighted(s *site) bool   { return s.weighted }
func stacked(s *site) bool    { return s.stacked }
func falcon(s *site) bool     { return s.architecture == "falcon" }

// large picks models with the shape of a Llama of 70 billion weights, in which eight heads share keys and values.
func large(s *site) bool { return s.facts.layers == 80 && s.grouping > 1 }

func both(a, b func(*site) bool) func(*site) bool { return func(s *site) bool { return a(s) && b(s) } }
func not(a func(*site) bool) func(*site) bool     { return func(s *site) bool { return !a(s) } }

// The clauses that several recipes share.
var (
	// With eight experts the matrices of attention are a small part of the model.
	eightExperts = []clause{{value, eight, ir.Q8_0}, {key, eight, ir.Q8_0}}
	eightOutputs = clause{attended, both(eight, not(falcon)), ir.Q5_K}
)

// recipe returns a row for 3 bits and more.
func recipe(name string, fileType uint32, base ir.DType, clauses ...clause) Recipe {
	return Recipe{Name: name, FileType: fileType, Base: base, output: ir.Q6_K,
		clauses: slices.Concat(eightExperts, clauses)}
}

// tiny returns a row for about 2 bits. more is the format of the matrices that lose the most: the embedding, the values
// and the first layers' down projections. The clauses are llama.cpp's.
func tiny(name string, fileType uint32, base, more ir.DType, clauses ...clause) Recipe {
	r := Recipe{Name: name, FileType: fileType, Base: base, output: ir.Q5_K, tiny: true}
	r.clauses = slices.Concat([]clause{
		{embedding, nil, more},
		{value, grouped, ir.Q4_K}, {value, mixture, ir.Q4_K}, {value, nil, more},
		{key, eight, ir.Q4_K},
		{down, func(s *site) bool { return s.index < s.layers/8 }, more},
		{attended, eight, ir.Q5_K},
	}, clauses)
	return r
}

// recipes is the table of mixtures.
var recipes = []Recipe{
	recipe("Q4_0", 2, ir.Q4_0, clause{down, both(weighted, early(8)), ir.Q4_1}),
	recipe("Q4_1", 3, ir.Q4_1),
	recipe("Q5_0", 8, ir.Q5_0, clause{down, both(weighted, early(8)), ir.Q5_1}),
	recipe("Q5_1", 9, ir.Q5_1),
	withOutput(ir.Q8_0, recipe("Q8_0", 7, ir.Q8_0)),
	recipe("Q2_K", 10, ir.Q2_K,
		clause{value, grouped, ir.Q4_K}, clause{value, nil, ir.Q3_K},
		clause{down, nil, ir.Q3_K},
		eightOutputs, clause{attended, not(falcon), ir.Q3_K}),
	recipe("Q2_K_S", 21, ir.Q2_K, clause{value, grouped, ir.Q4_K}, clause{down, early(8), ir.Q4_K}),
	recipe("Q3_K_S", 11, ir.Q3_K, eightOutputs),
	recipe("Q3_K_M", 12, ir.Q3_K,
		clause{value, first(2), ir.Q5_K}, clause{value, nil, ir.Q4_K},
		clause{down, early(16), ir.Q5_K}, clause{down, both(falcon, not(moreBits)), ir.Q3_K},
		clause{down, nil, ir.Q4_K},
		eightOutputs, clause{attended, not(falcon), ir.Q4_K}),
	recipe("Q3_K_L", 13, ir.Q3_K,
		clause{value, nil, ir.Q5_K},
		clause{down, falcon, ir.Q4_K}, clause{down, nil, ir.Q5_K},
		clause{attended, falcon, ir.Q4_K}, clause{attended, not(eight), ir.Q5_K}),
	recipe("Q4_K_S", 14, ir.Q4_K,
		clause{value, first(4), ir.Q5_K},
		clause{down, both(early(8), not(falcon)), ir.Q5_K},
		eightOutputs),
	recipe("Q4_K_M", 15, ir.Q4_K,
		clause{value, moreBits, ir.Q6_K},
		clause{down, both(falcon, early(16)), ir.Q6_K}, clause{down, both(falcon, moreBits), ir.Q5_K},
		clause{down, both(moreBits, not(falcon)), ir.Q6_K},
		eightOutputs),
	recipe("Q5_K_S", 16, ir.Q5_K),
	recipe("Q5_K_M", 17, ir.Q5_K, clause{value, moreBits, ir.Q6_K}, clause{down, moreBits, ir.Q6_K}),
	recipe("Q6_K", 18, ir.Q6_K),
	tiny("IQ1_S", 24, ir.IQ1_S, ir.Q2_K, clause{attended, nil, ir.IQ2_XXS}),
	tiny("IQ1_M", 31, ir.IQ1_M, ir.Q2_K, clause{attended, nil, ir.IQ2_XXS}),
	tiny("IQ2_XXS", 19, ir.IQ2_XXS, ir.Q2_K),
	tiny("IQ2_XS", 20, ir.IQ2_XS, ir.Q2_K),
	tiny("IQ2_S", 28, ir.IQ2_XS, ir.IQ3_S, clause{attended, nil, ir.IQ3_S}),
	tiny("IQ2_M", 29, ir.IQ2_S, ir.IQ3_S, clause{attended, nil, ir.IQ3_S}),
	withOutput(ir.Q5_K, recipe("IQ3_XXS", 23, ir.IQ3_XXS,
		clause{embedding, nil, ir.IQ3_S},
		clause{value, grouped, ir.Q4_K}, clause{value, unweighted, ir.IQ3_S},
		clause{query, nil, ir.IQ2_S}, clause{key, nil, ir.IQ2_S},
		clause{down, both(unweighted, early(8)), ir.Q4_K}, clause{down, unweighted, ir.Q3_K},
		eightOutputs, clause{attended, not(falcon), ir.IQ3_S})),
	recipe("IQ3_XS", 22, ir.IQ3_S,
		clause{value, grouped, ir.Q4_K},
		clause{query, nil, ir.IQ3_XXS}, clause{key, nil, ir.IQ3_XXS},
		clause{gate, middle, ir.IQ3_XXS}, clause{up, middle, ir.IQ3_XXS},
		eightOutputs),
	recipe("IQ3_S", 26, ir.IQ3_S, clause{value, grouped, ir.Q4_K}, eightOutputs),
	recipe("IQ3_M", 27, ir.IQ3_S,
		clause{value, nil, ir.Q4_K},
		clause{down, early(8), ir.Q4_K}, clause{down, both(eight, moreBits), ir.Q4_K},
		eightOutputs, clause{attended, not(falcon), ir.Q4_K}),
	recipe("IQ4_NL", 25, ir.IQ4_NL,
		clause{value, grouped, ir.Q5_K}, clause{down, both(unweighted, early(8)), ir.Q5_K}, eightOutputs),
	recipe("IQ4_XS", 30, ir.IQ4_XS,
		clause{value, grouped, ir.Q5_K}, clause{down, both(unweighted, early(8)), ir.Q5_K}, eightOutputs),
	recipe("TQ1_0", 36, ir.TQ1_0, clause{embedding, nil, ir.Q4_K}),
	recipe("TQ2_0", 37, ir.TQ2_0, clause{embedding, nil, ir.Q4_K}),
	{Name: "MXFP4_MOE", FileType: 38, Base: ir.Q8_0, output: ir.Q8_0, clauses: []clause{
		{gate, stacked, ir.MXFP4}, {up, stacked, ir.MXFP4}, {down, stacked, ir.MXFP4}}},
}

func withOutput(t ir.DType, r Recipe) Recipe { r.output = t; return r }

// aliases are other names of recipes in llama.cpp.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// Recipes returns the recipes, in the order of their bits.
func Recipes() []*Recipe {
	list := make([]*Recipe, len(recipes))
	for i := range recipes {
		list[i] = &recipes[i]
	}
	return list
}

// RecipeNamed returns the recipe of that name, in capitals or not, or nil.
func RecipeNamed(name string) *Recipe {
	name = strings.ToUpper(name)
	name = cmp.Or(aliases[name], name)
	for i := range recipes {
		if recipes[i].Name == name {
			return &recipes[i]
		}
	}
	return nil
}

// typeOf returns the type of a matrix.
func (r *Recipe) typeOf(s *site, columns int) ir.DType {
	if s.role == output || s.role == embedding && s.tied {
		if falcon(s) || columns%r.Base.BlockElems() != 0 {
			return ir.Q8_0
		}
		return r.output
	}
	to := r.Base
	for _, c := range r.clauses {
		if c.role == s.role && (c.when == nil || c.when(s)) {
			to = c.to
			break
		}
	}
	if s.role == value && large(s) && !r.tiny && (to == ir.Q3_K || to == ir.Q4_K) {
		return ir.Q5_K // the matrix is small in such a model
	}
	return to
}

// factsOf returns the facts of a model on which recipes depend. Without metadata they are those of a plain model.
func factsOf(src *Source) *facts {
	f := &facts{grouping: 1, tied: true}
	keys := map[string]any{}
	for _, kv := range src.metadata {
		keys[kv.Key] = kv.Value
	}
	f.architecture, _ = keys["general.architecture"].(string)
	number := func(key string) int { // an array has a number for each layer: the first counts
		v := reflect.ValueOf(keys[f.architecture+"."+key])
		if v.Kind() == reflect.Slice && v.Len() > 0 {
			v = v.Index(0)
		}
		switch {
		case v.IsValid() && v.CanInt():
			return int(v.Int())
		case v.IsValid() && v.CanUint():
			return int(min(v.Uint(), math.MaxInt32))
		}
		return 0
	}
	f.layers, f.experts = min(number("block_count"), maxLayers), number("expert_count")
	if heads, kv := number("attention.head_count"), number("attention.head_count_kv"); heads > 0 && kv > 0 {
		f.grouping = heads / kv
	}
	for _, t := range src.tensors {
		f.layers = max(f.layers, layerOf(t.name)+1)
		// Without an output matrix, the embedding serves as one.
		f.tied = f.tied && roleOf(t.name) != output
	}
	return f
}

// maxLayers is more than any model has.
const maxLayers = 1 << 20

// layerOf returns the layer in a tensor's name, or -1.
func layerOf(name string) int {
	layer := -1
	if n, err := fmt.Sscanf(name, "blk.%d.", &layer); n != 1 || err != nil || layer < 0 || layer >= maxLayers {
		return -1
	}
	return layer
}

// sites returns the site of each matrix of a model that is quantized, by name. weighted says that there is an
// importance matrix. The index of a matrix counts the matrices of the same role in the order of layers and names. In
// mixtures of experts, a layer may have several matrices of a role, so site.layer is the layer's number there.
func sites(src *Source, weighted bool) map[string]*site {
	f := factsOf(src)
	order := slices.Clone(src.tensors)
	slices.SortStableFunc(order, func(a, b tensorInfo) int {
		return cmp.Or(cmp.Compare(layerOf(a.name), layerOf(b.name)), cmp.Compare(a.name, b.name))
	})
	all, counts := map[string]*site{}, map[role]int{}
	for _, t := range order {
		if unquantized(t.name, t.dims) != "" {
			continue
		}
		s := &site{facts: f, role: roleOf(t.name), layers: f.layers, stacked: len(t.dims) > 2, weighted: weighted}
		s.index, s.layer = counts[s.role], counts[s.role]
		counts[s.role]++
		if n := layerOf(t.name); f.experts > 1 && s.role != value && n >= 0 {
			s.layer = n
		}
		all[t.name] = s
	}
	for _, s := range all {
		if s.role == value {
			s.layers = counts[value] // not every layer has values of its own
		}
	}
	return all
}
