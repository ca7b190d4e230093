package quantize_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/quantize"
	"github.com/vkc-go/vkc/ir"
)

// shaped is a model for recipes: its plan reads no elements.
type shaped struct {
	architecture               string
	layers, heads, kv, experts int
	tied                       bool
	columns                    int // 0 means 256
}

// source makes a model with zeros.
func (m shaped) source(t *testing.T) *quantize.Source {
	t.Helper()
	var w gguf.Writer
	for key, value := range map[string]any{"general.architecture": m.architecture,
		m.architecture + ".block_count": uint32(m.layers), m.architecture + ".attention.head_count": uint32(m.heads),
		m.architecture + ".attention.head_count_kv": []uint32{uint32(m.kv), 1},
		m.architecture + ".expert_count":            uint32(m.experts)} {
		if err := w.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	columns := cmp.Or(m.columns, 256)
	names := []string{"token_embd.weight"}
	if !m.tied {
		names = append(names, "output.weight")
	}
	experts := ""
	dims := []int{2, columns}
	if m.experts > 0 {
		experts = "_exps"
	}
	for i := range m.layers {
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate" + experts,
			"ffn_up" + experts, "ffn_down" + experts} {
			names = append(names, fmt.Sprintf("blk.%d.%s.weight", i, name))
		}
	}
	for _, name := range names {
		shape := dims
		if strings.Contains(name, "_exps") {
			shape = []int{m.experts, 2, columns}
		}
		d, err := ir.NewData(ir.F16, shape...)
		if err == nil {
			err = w.Add(name, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	src, err := quantize.NewSource(f)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

var layered = regexp.MustCompile(`^blk\.(\d+)\.([a-z_]+?)(_exps)?\.weight$`)

// mixed describes a plan: each name, and its types with the layers that have it. The most frequent type of a name has
// no list of layers, and names that all have the base format are left out.
func mixed(p *quantize.Plan, base ir.DType) string {
	layers := map[string]map[string][]string{} // name, type, layers
	for _, t := range p.Tensors {
		name, layer := strings.TrimSuffix(t.Name, ".weight"), "0"
		if m := layered.FindStringSubmatch(t.Name); m != nil {
			name, layer = m[2], m[1]
		}
		if layers[name] == nil {
			layers[name] = map[string][]string{}
		}
		layers[name][t.To.String()] = append(layers[name][t.To.String()], layer)
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		var parts []string
		types := slices.Sorted(maps.Keys(layers[name]))
		slices.SortStableFunc(types, func(a, b string) int { return len(layers[name][b]) - len(layers[name][a]) })
		for i, dt := range types {
			if i > 0 {
				dt += "@" + strings.Join(layers[name][dt], ",")
			}
			parts = append(parts, dt)
		}
		if text := strings.Join(parts, " "); text != base.String() {
			lines = append(lines, name+" "+text)
		}
	}
	return strings.Join(lines, "; ")
}

// The models of TestRecipes.
var (
	plain   = shaped{architecture: "llama", layers: 32, heads: 8, kv: 8}
	shared  = shaped{architecture: "llama", layers: 16, heads: 8, kv: 2, tied: true}
	eight   = shaped{architecture: "llama", layers: 8, heads: 8, kv: 4, experts: 8}
	large   = shaped{architecture: "llama", layers: 80, heads: 8, kv: 1}
	falcons = shaped{architecture: "falcon", layers: 16, heads: 8, kv: 8}
)

// TestRecipes compares the types of matrices with those of llama-quantize, worked out from its rules by hand.
func TestRecipes(t *testing.T) {
	sources := map[*shaped]*quantize.Source{}
	for _, m := range []*shaped{&plain, &shared, &eight, &large, &falcons} {
		sources[m] = m.source(t)
	}
	imatrix := importance(t, "blk.0.attn_q.weight", make([]float32, 256))
	const more = "0,1,2,3,6,9,12,15,18,21,24,27,28,29,30,31"
	for _, tt := range []struct {
		model *shaped
		name  string
		want  string
	}{
		{&plain, "IQ1_M",
			"attn_output iq2_xxs; attn_v q2_K; ffn_down iq1_m q2_K@0,1,2,3; output q5_K; token_embd q2_K"},
		{&plain, "IQ1_S",
			"attn_output iq2_xxs; attn_v q2_K; ffn_down iq1_s q2_K@0,1,2,3; output q5_K; token_embd q2_K"},
		{&plain, "IQ2_M",
			"attn_output iq3_s; attn_v iq3_s; ffn_down iq2_s iq3_s@0,1,2,3; output q5_K; token_embd iq3_s"},
		{&plain, "IQ2_S",
			"attn_output iq3_s; attn_v iq3_s; ffn_down iq2_xs iq3_s@0,1,2,3; output q5_K; token_embd iq3_s"},
		{&plain, "IQ2_XS", "attn_v q2_K; ffn_down iq2_xs q2_K@0,1,2,3; output q5_K; token_embd q2_K"},
		{&plain, "IQ2_XXS", "attn_v q2_K; ffn_down iq2_xxs q2_K@0,1,2,3; output q5_K; token_embd q2_K"},
		{&plain, "IQ3_M", "attn_output q4_K; attn_v q4_K; ffn_down iq3_s q4_K@0,1,2,3; output q6_K"},
		{&plain, "IQ3_S", "output q6_K"},
		{&plain, "IQ3_XS",
			"attn_k iq3_xxs; attn_q iq3_xxs; ffn_gate iq3_xxs iq3_s@0,1,2,3,28,29,30,31; " +
				"ffn_up iq3_xxs iq3_s@0,1,2,3,28,29,30,31; output q6_K"},
		{&plain, "IQ3_XXS",
			"attn_k iq2_s; attn_output iq3_s; attn_q iq2_s; attn_v iq3_s; ffn_down q3_K q4_K@0,1,2,3; output q5_K; " +
				"token_embd iq3_s"},
		{&plain, "IQ4_NL", "ffn_down iq4_nl q5_K@0,1,2,3; output q6_K"},
		{&plain, "IQ4_XS", "ffn_down iq4_xs q5_K@0,1,2,3; output q6_K"},
		{&plain, "MXFP4_MOE", ""},
		{&plain, "Q2_K", "attn_output q3_K; attn_v q3_K; ffn_down q3_K; output q6_K"},
		{&plain, "Q2_K_S", "ffn_down q2_K q4_K@0,1,2,3; output q6_K"},
		{&plain, "Q3_K_L", "attn_output q5_K; attn_v q5_K; ffn_down q5_K; output q6_K"},
		{&plain, "Q3_K_M", "attn_output q4_K; attn_v q4_K q5_K@0,1; ffn_down q4_K q5_K@0,1; output q6_K"},
		{&plain, "Q3_K_S", "output q6_K"},
		{&plain, "Q4_0", "output q6_K"},
		{&plain, "Q4_1", "output q6_K"},
		{&plain, "Q4_K_M", "attn_v q4_K q6_K@" + more + "; ffn_down q4_K q6_K@" + more + "; output q6_K"},
		{&plain, "Q4_K_S", "attn_v q4_K q5_K@0,1,2,3; ffn_down q4_K q5_K@0,1,2,3; output q6_K"},
		{&plain, "Q5_0", "output q6_K"},
		{&plain, "Q5_1", "output q6_K"},
		{&plain, "Q5_K_M", "attn_v q5_K q6_K@" + more + "; ffn_down q5_K q6_K@" + more + "; output q6_K"},
		{&plain, "Q5_K_S", "output q6_K"},
		{&plain, "Q6_K", ""},
		{&plain, "Q8_0", ""},
		{&plain, "TQ1_0", "output q6_K; token_embd q4_K"},
		{&plain, "TQ2_0", "output q6_K; token_embd q4_K"},
		{&plain, "weighted IQ3_XXS", "attn_k iq2_s; attn_output iq3_s; attn_q iq2_s; output q5_K; token_embd iq3_s"},
		{&plain, "weighted IQ4_XS", "output q6_K"},
		{&plain, "weighted Q4_0", "ffn_down q4_0 q4_1@0,1,2,3; output q6_K"},
		{&plain, "weighted Q5_0", "ffn_down q5_0 q5_1@0,1,2,3; output q6_K"},
		{&shared, "Q4_K_M",
			"attn_v q4_K q6_K@0,1,4,7,10,13,14,15; ffn_down q4_K q6_K@0,1,4,7,10,13,14,15; token_embd q6_K"},
		{&shared, "Q3_K_M", "attn_output q4_K; attn_v q4_K q5_K@0,1; ffn_down q4_K q5_K@0; token_embd q6_K"},
		{&shared, "IQ4_XS", "attn_v q5_K; ffn_down iq4_xs q5_K@0,1; token_embd q6_K"},
		{&shared, "IQ2_XXS", "attn_v q4_K; ffn_down iq2_xxs q2_K@0,1; token_embd q5_K"},
		{&eight, "Q4_K_M", "attn_k q8_0; attn_output q5_K; attn_v q8_0; ffn_down q4_K q6_K@0,3,6,7; output q6_K"},
		{&eight, "Q3_K_L", "attn_k q8_0; attn_v q8_0; ffn_down q5_K; output q6_K"},
		{&eight, "IQ3_M", "attn_k q8_0; attn_output q5_K; attn_v q8_0; ffn_down iq3_s q4_K@0,3,6,7; output q6_K"},
		{&eight, "IQ2_M",
			"attn_k q4_K; attn_output q5_K; attn_v q4_K; ffn_down iq2_s iq3_s@0; output q5_K; token_embd iq3_s"},
		{&eight, "MXFP4_MOE", "ffn_down mxfp4; ffn_gate mxfp4; ffn_up mxfp4"},
		{&eight, "Q5_K_M", "attn_k q8_0; attn_v q8_0; ffn_down q5_K q6_K@0,3,6,7; output q6_K"},
		{&large, "Q4_K_S", "attn_v q5_K; ffn_down q4_K q5_K@0,1,2,3,4,5,6,7,8,9; output q6_K"},
		{&large, "Q3_K_S", "attn_v q5_K; output q6_K"},
		{&large, "IQ3_M", "attn_output q4_K; attn_v q5_K; ffn_down iq3_s q4_K@0,1,2,3,4,5,6,7,8,9; output q6_K"},
		{&large, "IQ2_XS", "attn_v q4_K; ffn_down iq2_xs q2_K@0,1,2,3,4,5,6,7,8,9; output q5_K; token_embd q2_K"},
		{&falcons, "Q4_K_M",
			"attn_v q4_K q6_K@0,1,4,7,10,13,14,15; ffn_down q4_K q5_K@1,4,7,10,13,14,15 q6_K@0; output q8_0"},
		{&falcons, "Q3_K_M", "attn_v q4_K q5_K@0,1; ffn_down q3_K q4_K@1,4,7,10,13,14,15 q5_K@0; output q8_0"},
		{&falcons, "Q3_K_L", "attn_output q4_K; attn_v q5_K; ffn_down q4_K; output q8_0"},
		{&falcons, "Q2_K", "attn_v q3_K; ffn_down q3_K; output q8_0"},
		{&falcons, "IQ3_M", "attn_v q4_K; ffn_down iq3_s q4_K@0,1; output q8_0"},
		{&falcons, "Q4_K_S", "attn_v q4_K q5_K@0,1,2,3; output q8_0"},
	} {
		opt := quantize.Options{Recipe: quantize.RecipeNamed(strings.TrimPrefix(tt.name, "weighted "))}
		if opt.Recipe == nil {
			t.Fatalf("no recipe %s", tt.name)
		}
		if strings.HasPrefix(tt.name, "weighted ") {
			opt.Imatrix = imatrix
		}
		plan, err := quantize.New(sources[tt.model], opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := mixed(plan, opt.Recipe.Base); got != tt.want {
			t.Errorf("%s of %s with %d layers:\n%s\nwant\n%s", tt.name, tt.model.architecture, tt.model.layers, got,
				tt.want)
		}
	}
	if r := quantize.RecipeNamed("q4_k"); r == nil || r.Name != "Q4_K_M" || quantize.RecipeNamed("Q4_K_X") != nil {
		t.Errorf("q4_k is %+v", r)
	}
}

// TestRecipeRules: rules and types of the output and the embedding come before the recipe, and the file says its name.
func TestRecipeRules(t *testing.T) {
	narrow := shaped{architecture: "llama", layers: 8, heads: 8, kv: 8, tied: true, columns: 96}
	types := func(m shaped, opt quantize.Options) map[string]string {
		opt.Recipe = quantize.RecipeNamed("Q4_K_M")
		plan, err := quantize.New(m.source(t), opt)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, p := range plan.Tensors {
			all[strings.TrimSuffix(p.Name, ".weight")] = strings.TrimSuffix(fmt.Sprint(p.To, " for ", p.Wanted),
				" for invalid")
		}
		return all
	}
	rule := func(pattern string, to ir.DType) []quantize.SearchRule {
		return []quantize.SearchRule{{Name: regexp.MustCompile(pattern), Type: to}}
	}
	for _, tt := range []struct {
		model shaped
		opt   quantize.Options
		want  map[string]string
	}{
		{eight, quantize.Options{Output: ir.Q8_0, Embedding: ir.Q5_0, Search: rule("attn_[kv]|output", ir.F16),
			Keep: []quantize.Rule{{Pattern: "blk.1.*", Type: ir.Q5_K}}}, map[string]string{"output": "q8_0",
			"token_embd": "q5_0", "blk.0.attn_v": "f16", "blk.1.attn_v": "q5_K", "blk.0.ffn_down_exps": "q6_K",
			"blk.2.ffn_down_exps": "q4_K", "blk.2.attn_output": "f16"}},
		{shared, quantize.Options{Output: ir.Q8_0}, map[string]string{"token_embd": "q8_0"}},
		{shared, quantize.Options{Output: ir.Q8_0, Embedding: ir.Q4_0}, map[string]string{"token_embd": "q4_0"}},
		{narrow, quantize.Options{}, map[string]string{"token_embd": "q8_0", "blk.0.attn_v": "q8_0 for q6_K",
			"blk.1.attn_q": "q5_0 for q4_K"}},
	} {
		got := types(tt.model, tt.opt)
		for name, want := range tt.want {
			if got[name] != want {
				t.Errorf("%+v: %s becomes %s, want %s", tt.opt, name, got[name], want)
			}
		}
	}
	_, f, _ := quantized(t, modelFile(t, named{"blk.0.attn_v.weight", normal(t, ir.F32, 2, 256)}),
		quantize.Options{Recipe: quantize.RecipeNamed("Q4_K_M")})
	if v, err := f.Uint("general.file_type"); err != nil || v != 15 {
		t.Errorf("file type %d, %v", v, err)
	}
	_, err := quantize.New(source(t, modelFile(t, named{"w", normal(t, ir.F32, 4, 64)})),
		quantize.Options{Type: ir.Q8_0, Output: ir.Q6_K})
	wantError(t, err, "no tensor is an output matrix: want output.weight")
}
