package llm_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/quant"
)

// tiny describes a model small enough to run in a test; edits make variants.
type tiny struct {
	dtype   ir.DType       // of the matrices
	untied  bool           // has output.weight
	meta    map[string]any // replaces metadata; nil removes
	tensors map[string]*ir.Data

	headDim int      // 16 unless set
	factor  float64  // scale of positions
	freqs   bool     // whether there are factors for the rotary angles
	experts int      // number of experts; each token uses two
	cache   ir.DType // of keys and values, f32 unless set
	within  float64  // how far logits may be off; 1e-4 unless set
}

func (m tiny) name() string {
	return fmt.Sprintf("%s untied=%v factor=%v freqs=%v experts=%d cache=%v", m.dtype, m.untied, m.factor, m.freqs,
		m.experts, m.cache)
}

func (m tiny) options() []llm.Option {
	if m.cache == ir.Invalid {
		return nil
	}
	return []llm.Option{llm.Cache(m.cache)}
}

const (
	layers, width, heads, kvHeads, ffn, vocab = 2, 64, 4, 2, 96, 40
	headDim                                   = width / heads
	maxContext                                = 16
)

// file writes the model with random weights, the same each time, and reads it.
func (m tiny) file(t testing.TB) *gguf.File {
	t.Helper()
	f, err := gguf.NewReader(m.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (m tiny) bytes(t testing.TB) []byte {
	t.Helper()
	meta := map[string]any{
		"general.architecture":                   "llama",
		"general.name":                           "tiny",
		"llama.block_count":                      uint32(layers),
		"llama.embedding_length":                 uint32(width),
		"llama.attention.head_count":             uint32(heads),
		"llama.attention.head_count_kv":          uint32(kvHeads),
		"llama.feed_forward_length":              uint32(ffn),
		"llama.context_length":                   uint32(maxContext),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5),
		"llama.rope.freq_base":                   float32(500),
	}
	if m.headDim > 0 {
		meta["llama.attention.key_length"] = uint32(m.headDim)
		meta["llama.attention.value_length"] = uint32(m.headDim)
	}
	if m.factor > 0 {
		meta["llama.rope.scaling.type"], meta["llama.rope.scaling.factor"] = "linear", float32(m.factor)
	}
	if m.experts > 0 {
		meta["llama.expert_count"], meta["llama.expert_used_count"] = uint32(m.experts), uint32(2)
	}
	for k, v := range m.meta {
		meta[k] = v
	}
	var w gguf.Writer
	for _, k := range slices.Sorted(keys(meta)) {
		if meta[k] == nil {
			continue
		}
		if err := w.Set(k, meta[k]); err != nil {
			t.Fatal(err)
		}
	}
	weights := m.weights(t)
	for _, name := range slices.Sorted(keys(weights)) {
		if weights[name] == nil {
			continue
		}
		if err := w.Add(name, weights[name]); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if _, err := w.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (m tiny) weights(t testing.TB) map[string]*ir.Data {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	all := map[string]*ir.Data{
		"token_embd.weight":  randomData(t, r, m.dtype, vocab, width),
		"output_norm.weight": randomData(t, r, ir.F32, width),
	}
	headDim := cmp.Or(m.headDim, headDim)
	if m.freqs {
		factors := make([]float64, headDim/2)
		for i := range factors {
			factors[i] = 1 + 0.5*float64(i)
		}
		d, err := ir.FromFloats(ir.F32, factors, len(factors))
		if err != nil {
			t.Fatal(err)
		}
		all["rope_freqs.weight"] = d
	}
	if m.untied {
		all["output.weight"] = randomData(t, r, m.dtype, vocab, width)
	}
	for i := range layers {
		blk := fmt.Sprintf("blk.%d.", i)
		all[blk+"attn_norm.weight"] = randomData(t, r, ir.F32, width)
		all[blk+"attn_q.weight"] = randomData(t, r, m.dtype, heads*headDim, width)
		all[blk+"attn_k.weight"] = randomData(t, r, m.dtype, kvHeads*headDim, width)
		all[blk+"attn_v.weight"] = randomData(t, r, m.dtype, kvHeads*headDim, width)
		all[blk+"attn_output.weight"] = randomData(t, r, m.dtype, width, heads*headDim)
		all[blk+"ffn_norm.weight"] = randomData(t, r, ir.F32, width)
		if m.experts > 0 {
			all[blk+"ffn_gate_inp.weight"] = randomData(t, r, ir.F32, m.experts, width)
			all[blk+"ffn_gate_exps.weight"] = randomData(t, r, m.dtype, m.experts, ffn, width)
			all[blk+"ffn_up_exps.weight"] = randomData(t, r, m.dtype, m.experts, ffn, width)
			all[blk+"ffn_down_exps.weight"] = randomData(t, r, m.dtype, m.experts, width, ffn)
			continue
		}
		all[blk+"ffn_gate.weight"] = randomData(t, r, m.dtype, ffn, width)
		all[blk+"ffn_up.weight"] = randomData(t, r, m.dtype, ffn, width)
		all[blk+"ffn_down.weight"] = randomData(t, r, m.dtype, width, ffn)
	}
	for name, d := range m.tensors {
		all[name] = d
	}
	return all
}

func randomData(t testing.TB, r *rand.Rand, dtype ir.DType, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, d.Elems())
	for i := range values {
		values[i] = float32(r.NormFloat64() * 0.3)
	}
	if dtype.IsBlock() {
		if err := quant.Quantize(d.Bytes, dtype, values, nil); err != nil {
			t.Fatal(err)
		}
		return d
	}
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	ir.EncodeFloats(d.Bytes, dtype, wide)
	return d
}

// run computes the logits of a graph for tokens.
func run(t *testing.T, p *interp.Program, tokens []int32, symbols map[string]int64) []float64 {
	t.Helper()
	out, err := p.Run(context.Background(), map[string]*ir.Data{"tokens": data(t, tokens)}, symbols)
	if err != nil {
		t.Fatal(err)
	}
	logits, err := out["logits"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// data is a tensor of tokens.
func data(t *testing.T, tokens []int32) *ir.Data {
	t.Helper()
	ids := make([]int64, len(tokens))
	for i, id := range tokens {
		ids[i] = int64(id)
	}
	d, err := ir.FromInts(ir.I32, ids, len(ids))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func program(t *testing.T, f *gguf.File, g *ir.Graph, err error) *interp.Program {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var prompt = []int32{0, 7, 39, 7, 12, 3}

// TestAgainstPlainGo compares both graphs, in every way to store a model, with a
// forward pass written without this module's ops.
func TestAgainstPlainGo(t *testing.T) {
	for _, m := range []tiny{
		{dtype: ir.F32}, {dtype: ir.F16}, {dtype: ir.BF16}, {dtype: ir.Q8_0}, {dtype: ir.Q8_0, untied: true},
		{dtype: ir.F32, factor: 4}, {dtype: ir.F32, freqs: true}, {dtype: ir.F32, factor: 2, freqs: true},
		{dtype: ir.Q8_0, experts: 3}, {dtype: ir.F32, cache: ir.F16, within: 0.02}, {dtype: ir.F32, cache: ir.Q8_0, headDim: 32, within: 0.1},
	} {
		t.Run(m.name(), func(t *testing.T) {
			f := m.file(t)
			cfg, err := llm.FromGGUF(f)
			if err != nil {
				t.Fatal(err)
			}
			g, err := llm.Prefill(cfg, maxContext)
			prefill := program(t, f, g, err)
			g, err = llm.Step(cfg, maxContext, m.options()...)
			step := program(t, f, g, err)
			want := plainForward(t, m, prompt)
			for i, id := range prompt {
				compare(t, fmt.Sprintf("prefill of %d", i+1), run(t, prefill, prompt[:i+1], nil), want[i], 1e-4)
				got := run(t, step, []int32{id}, map[string]int64{"S": int64(i + 1)})
				compare(t, fmt.Sprintf("step %d", i+1), got, want[i], cmp.Or(m.within, 1e-4))
			}
		})
	}
}

func compare(t *testing.T, what string, got, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= within*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: logit %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestConfig checks the configuration read from the metadata, including defaults.
func TestConfig(t *testing.T) {
	cfg, err := llm.FromGGUF(tiny{dtype: ir.F16}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(cfg.Types); n != 2+9*layers {
		t.Errorf("%d weights", n)
	}
	cfg.Types = nil
	want := llm.Config{Architecture: "llama", Name: "tiny", Layers: layers, Width: width, Heads: heads,
		KVHeads: kvHeads, HeadDim: headDim, FeedForward: ffn, Vocab: vocab, Context: maxContext, NormEps: 1e-5,
		RopeBase: 500, RopeDims: headDim}
	if fmt.Sprint(cfg) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", cfg, want)
	}
	if cfg, err := llm.FromGGUF(smallest(t).file(t)); err != nil || cfg.Layers != 1 || cfg.HeadDim != 2 {
		t.Errorf("the smallest model is %+v, %v", cfg, err)
	}
	f := tiny{dtype: ir.F32, meta: map[string]any{"llama.rope.freq_base": nil}}.file(t)
	if cfg, err := llm.FromGGUF(f); err != nil || cfg.RopeBase != 10000 {
		t.Errorf("the default base is %v, %v", cfg.RopeBase, err)
	}
}

// TestUniformLayers: arrays of equal numbers are one number, and a pattern of windows is read for each layer.
func TestUniformLayers(t *testing.T) {
	plain, err := llm.FromGGUF(tiny{dtype: ir.F32}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	m := tiny{dtype: ir.F32, meta: map[string]any{
		"llama.attention.head_count": []uint32{heads, heads}, "llama.attention.head_count_kv": []int32{kvHeads, kvHeads},
		"llama.feed_forward_length": []uint64{ffn, ffn}, "llama.rope.freq_base": []float32{500, 500},
		"llama.embedding_length": []uint16{width, width}}}
	cfg, err := llm.FromGGUF(m.file(t))
	if err != nil || fmt.Sprint(cfg) != fmt.Sprint(plain) {
		t.Errorf("got %+v, %v\nwant %+v", cfg, err, plain)
	}
	for _, c := range []struct {
		pattern any
		want    string
	}{{nil, "[] 0"}, {uint32(2), "[] 2"}, {[]bool{true, false}, "[true false] 0"},
		{[]bool{true, true}, "[true true] 0"}} {
		cfg := windowed(t, c.pattern)
		if got := fmt.Sprint(cfg.WindowLayers, cfg.WindowPeriod); got != c.want || cfg.Window != 4 {
			t.Errorf("%v: %s, want %s", c.pattern, got, c.want)
		}
	}
	// The second layer has no window, as with a period of 2.
	g, err := llm.Steps(windowed(t, []bool{true, false}), 2, maxContext, llm.KeepWindow(2))
	period, err2 := llm.Steps(windowed(t, uint32(2)), 2, maxContext, llm.KeepWindow(2))
	if err != nil || err2 != nil || g.HashString() != period.HashString() {
		t.Errorf("%v, %v, or another graph", err, err2)
	}
}

// windowed is a model with a pattern of windows.
func windowed(t *testing.T, pattern any) llm.Config {
	t.Helper()
	m := tiny{dtype: ir.F32, meta: map[string]any{"llama.attention.sliding_window": uint32(4),
		"llama.attention.sliding_window_pattern": pattern}}
	cfg, err := llm.FromGGUF(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestConfigRefuses(t *testing.T) {
	vector, _ := ir.NewData(ir.F32, 8)
	short, _ := ir.NewData(ir.F32, 7)
	ints, _ := ir.NewData(ir.I32, width)
	empty, _ := ir.NewData(ir.F32, 0, width)
	blocks, _ := ir.NewData(ir.Q8_0, width)
	tests := []struct {
		name string
		m    tiny
		want string
	}{
		{"no architecture", tiny{meta: map[string]any{"general.architecture": nil}}, "general.architecture"},
		{"architecture", tiny{meta: map[string]any{"general.architecture": "jamba"}}, `architecture "jamba", which is recurrent or a hybrid, is not supported: want one of `},
		{"unknown architecture", tiny{meta: map[string]any{"general.architecture": "clip"}}, `architecture "clip" is not supported: want one of `},
		{"missing key", tiny{meta: map[string]any{"llama.block_count": nil}}, "llama.block_count"},
		{"zero", tiny{meta: map[string]any{"llama.attention.head_count": uint32(0)}}, `metadata "llama.attention.head_count" is 0`},
		{"wrong type", tiny{meta: map[string]any{"llama.embedding_length": "wide"}}, "llama.embedding_length"},
		{"absurd layers", tiny{meta: map[string]any{"llama.block_count": uint32(math.MaxInt32)}}, `there is no weight "blk.2.attn_norm.weight"`},
		{"head groups", tiny{meta: map[string]any{"llama.attention.head_count_kv": uint32(3)}}, "4 query heads are not a multiple of 3 key heads"},
		{"heads per layer", tiny{meta: map[string]any{"llama.attention.head_count_kv": []int32{2, 4}}}, `weight "blk.1.attn_k.weight" is [32,64]: want [64,64]`},
		{"hidden units per layer", tiny{meta: map[string]any{"llama.feed_forward_length": []uint16{96, 64}}}, `weight "blk.1.ffn_gate.weight" is [96,64]: want [64,64]`},
		{"query heads per layer", tiny{meta: map[string]any{"llama.attention.head_count": []int32{4, 2}}}, `"llama.attention.key_length"`},
		{"head groups per layer", tiny{meta: map[string]any{"llama.attention.head_count_kv": []int32{2, 3}}}, "4 query heads are not a multiple of 3 key heads"},
		{"a layer without heads", tiny{meta: map[string]any{"llama.attention.head_count_kv": []int32{2, 0}}}, `"llama.attention.head_count_kv" is 0: want 1 to`},
		{"more layers than there are", tiny{meta: map[string]any{"llama.attention.head_count_kv": []int32{2, 2, 2}}}, `"llama.attention.head_count_kv" is an array of 3: want one number, or one for each of 2 layers`},
		{"no layers", tiny{meta: map[string]any{"llama.attention.head_count_kv": []int32{}}}, "is an array of 0"},
		{"heads of strings", tiny{meta: map[string]any{"llama.attention.head_count_kv": []string{"a", "b"}}}, `"llama.attention.head_count_kv" is a string: want an integer`},
		{"nested heads", tiny{meta: map[string]any{"llama.attention.head_count_kv": []any{[]int32{1}, []int32{1}}}}, `"llama.attention.head_count_kv" is a`},
		{"heads of 2^64-1", tiny{meta: map[string]any{"llama.attention.head_count_kv": uint64(math.MaxUint64)}}, `want 1 to 2147483647`},
		{"width per layer", tiny{meta: map[string]any{"llama.embedding_length": []int32{64, 32}}}, `"llama.embedding_length" differs from layer to layer, which is not supported`},
		{"bases per layer", tiny{meta: map[string]any{"llama.rope.freq_base": []float32{500, 1e4}}}, `"llama.rope.freq_base" differs from layer to layer`},
		{"windows per layer", tiny{meta: map[string]any{"llama.attention.sliding_window": []int32{4, 8}}}, `"llama.attention.sliding_window" differs from layer to layer`},
		{"window of a float", tiny{meta: map[string]any{"llama.attention.sliding_window": float32(4)}}, `"llama.attention.sliding_window" is a float32: want an integer`},
		{"window pattern", tiny{meta: map[string]any{"llama.attention.sliding_window": uint32(4), "llama.attention.sliding_window_pattern": "all"}}, `"llama.attention.sliding_window_pattern" is a string`},
		{"causal", tiny{meta: map[string]any{"llama.attention.causal": "no"}}, `"llama.attention.causal" is a string: want a bool`},
		{"too many heads", tiny{meta: map[string]any{"llama.attention.head_count": uint32(1000), "llama.attention.head_count_kv": nil}}, "1000 heads in a width of 64"},
		{"odd rope", tiny{meta: map[string]any{"llama.rope.dimension_count": uint32(7)}}, "cannot rotate 7 elements of a head of 16"},
		{"value length", tiny{meta: map[string]any{"llama.attention.value_length": uint32(8)}}, "values of 8 elements with keys of 16"},
		{"eps", tiny{meta: map[string]any{"llama.attention.layer_norm_rms_epsilon": float32(math.NaN())}}, "the epsilon of the norms is NaN"},
		{"base", tiny{meta: map[string]any{"llama.rope.freq_base": float32(math.Inf(1))}}, "the base of the rotary embedding is +Inf"},
		{"experts", tiny{meta: map[string]any{"llama.expert_count": uint32(8)}}, "llama.expert_used_count"},
		{"more experts than there are", tiny{meta: map[string]any{"llama.expert_count": uint32(2), "llama.expert_used_count": uint32(3)}}, "3 of 2 experts"},
		{"no experts", tiny{meta: map[string]any{"llama.expert_count": uint32(2), "llama.expert_used_count": uint32(1)}}, `there is no weight "blk.0.ffn_gate_inp.weight", want [2,64]`},
		{"bias of experts", tiny{experts: 2, tensors: map[string]*ir.Data{"blk.0.ffn_up_exps.bias": vector}}, `weight "blk.0.ffn_up_exps.bias": vkc does not know this weight in a model of 2 layers of architecture "llama"`},
		{"weight of nothing", tiny{tensors: map[string]*ir.Data{"blk.0.attn_q_norm.weight": vector}}, `weight "blk.0.attn_q_norm.weight": vkc does not know`},
		{"layer of nothing", tiny{tensors: map[string]*ir.Data{"blk.2.attn_norm.weight": vector}}, `weight "blk.2.attn_norm.weight": vkc does not know`},
		{"rope scaling", tiny{meta: map[string]any{"llama.rope.scaling.type": "dynamic"}}, `"dynamic"`},
		{"yarn", tiny{meta: map[string]any{"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": float32(2), "llama.rope.scaling.yarn_log_multiplier": float32(0.1)}}, `"llama.rope.scaling.yarn_log_multiplier" is 0.1`},
		{"router", tiny{meta: map[string]any{"llama.expert_gating_func": uint32(2)}}, `"llama.expert_gating_func" is 2, which is not supported`},
		{"groups of experts", tiny{meta: map[string]any{"llama.expert_group_count": uint32(2)}}, `"llama.expert_group_count" is 2, which is not supported`},
		{"not causal", tiny{meta: map[string]any{"llama.attention.causal": false}}, `"llama.attention.causal" is false`},
		{"negative scale", tiny{meta: map[string]any{"llama.rope.scaling.factor": float32(-2)}}, `"llama.rope.scaling.factor" is -2`},
		{"magnitude", tiny{meta: map[string]any{"llama.rope.scaling.attn_factor": float32(-2)}}, "the factor of rotated elements is -2"},
		{"softcap", tiny{meta: map[string]any{"llama.final_logit_softcapping": float32(-2)}}, "the softcap of the logits is -2"},
		{"rope scale", tiny{meta: map[string]any{"llama.rope.scaling.type": "linear"}}, `"llama.rope.scaling.factor"`},
		{"rope factors", tiny{tensors: map[string]*ir.Data{"rope_freqs.weight": short}}, `weight "rope_freqs.weight" is f32[7]: want f32[8]`},
		{"rope factor 0", tiny{tensors: map[string]*ir.Data{"rope_freqs.weight": vector}}, "factor 0 of the rotary angles is 0"},
		{"missing weight", tiny{tensors: map[string]*ir.Data{"blk.1.ffn_up.weight": nil}}, `there is no weight "blk.1.ffn_up.weight", want [96,64]`},
		{"weight shape", tiny{tensors: map[string]*ir.Data{"blk.1.ffn_norm.weight": vector}}, `weight "blk.1.ffn_norm.weight" is [8]: want [64]`},
		{"weight type", tiny{tensors: map[string]*ir.Data{"output_norm.weight": ints}}, `weight "output_norm.weight" is i32: want a float type`},
		{"no vocabulary", tiny{tensors: map[string]*ir.Data{"token_embd.weight": empty}}, `the token embedding "token_embd.weight" is missing`},
		{"norm of blocks", tiny{tensors: map[string]*ir.Data{"output_norm.weight": blocks}}, `weight "output_norm.weight" is q8_0: want a float type`},
		{"output shape", tiny{tensors: map[string]*ir.Data{"output.weight": vector}}, `weight "output.weight" is [8]: want [40,64]`},
		{"bias shape", tiny{tensors: map[string]*ir.Data{"blk.0.attn_q.bias": vector}}, `weight "blk.0.attn_q.bias" is [8]: want [64]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.dtype = ir.F32
			if _, err := llm.FromGGUF(tt.m.file(t)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestContextIsBounded(t *testing.T) {
	cfg, err := llm.FromGGUF(tiny{dtype: ir.F32}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 0, maxContext + 1} {
		_, err1 := llm.Prefill(cfg, n)
		_, err2 := llm.Step(cfg, n)
		for _, err := range []error{err1, err2} {
			if err == nil || !strings.Contains(err.Error(), "want 1 to 16, the context of the model") {
				t.Errorf("%d positions: got %v", n, err)
			}
		}
	}
}

// TestWrongConfigIsAnError checks that a Config made by hand ends in an error.
func TestWrongConfigIsAnError(t *testing.T) {
	good, err := llm.FromGGUF(tiny{dtype: ir.F32}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range []func(*llm.Config){
		func(c *llm.Config) { c.Types = nil },
		func(c *llm.Config) { c.HeadDim = 0 },
		func(c *llm.Config) { c.KVHeads = 0 },
		func(c *llm.Config) { c.PerLayer = []llm.LayerSizes{{Heads: heads, KVHeads: 1, FeedForward: ffn}} },
		func(c *llm.Config) { c.Heads = -4 },
		func(c *llm.Config) { c.Layers = layers + 1 },
		func(c *llm.Config) { c.NormEps = math.NaN() },
	} {
		c := good
		edit(&c)
		if g, err := llm.Prefill(c, 4); err == nil {
			t.Errorf("%+v gave a graph:\n%s", c, g)
		}
	}
}

// smallest is a model with one layer and vectors of two elements, so that the fuzzer spends its time on the metadata
// and not on weights.
func smallest(t testing.TB) tiny {
	t.Helper()
	m := tiny{dtype: ir.F32, tensors: map[string]*ir.Data{}, meta: map[string]any{
		"llama.block_count":             uint32(1),
		"llama.embedding_length":        uint32(2),
		"llama.attention.head_count":    uint32(1),
		"llama.attention.head_count_kv": uint32(1),
		"llama.feed_forward_length":     uint32(2),
	}}
	for name, d := range (tiny{dtype: ir.F32}).weights(t) {
		dims := []int{2, 2}[:len(d.Dims)]
		small, err := ir.NewData(ir.F32, dims...)
		if err != nil {
			t.Fatal(err)
		}
		m.tensors[name] = small
		if strings.HasPrefix(name, "blk.1.") {
			m.tensors[name] = nil
		}
	}
	return m
}

// FuzzFromGGUF checks that no file makes FromGGUF or Prefill panic, and that a
// model FromGGUF accepts has a graph.
func FuzzFromGGUF(f *testing.F) {
	m := smallest(f)
	f.Add(m.bytes(f))
	m.meta["llama.attention.key_length"] = uint32(2)
	m.meta["llama.rope.dimension_count"] = uint32(2)
	m.tensors["output.weight"] = m.tensors["token_embd.weight"]
	f.Add(m.bytes(f))
	m.meta["llama.attention.head_count_kv"] = []int32{1}
	m.meta["llama.attention.sliding_window"] = uint32(2)
	m.meta["llama.attention.sliding_window_pattern"] = []bool{true}
	f.Add(m.bytes(f))
	m.meta["llama.block_count"] = uint32(math.MaxInt32)
	f.Add(m.bytes(f))
	for _, m := range []tiny{{dtype: ir.F32, factor: 2, freqs: true}, {dtype: ir.F32, experts: 2}} {
		f.Add(m.bytes(f))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.NewReader(data)
		if err != nil {
			return
		}
		cfg, err := llm.FromGGUF(file)
		if err != nil {
			return
		}
		if _, err := llm.Prefill(cfg, 1); err != nil {
			t.Errorf("FromGGUF accepts what Prefill refuses: %v", err)
		}
	})
}
