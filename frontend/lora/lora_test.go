package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// The tiny model of these tests: Llama, with a smaller number of key heads.
const layers, width, heads, kvHeads, ffn, vocab = 2, 32, 4, 2, 48, 20

const headDim = width / heads

func random(t testing.TB, seed uint64, scale float64, dims ...int) *ir.Data {
	t.Helper()
	n := 1
	for _, d := range dims {
		n *= d
	}
	r, values := rand.New(rand.NewPCG(seed, 1)), make([]float64, n)
	for i := range values {
		values[i] = scale * r.NormFloat64()
	}
	d, err := ir.FromFloats(ir.F32, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// weights are the weights of the tiny model.
func weights(t testing.TB) map[string]*ir.Data {
	all := map[string]*ir.Data{"token_embd.weight": random(t, 1, 1, vocab, width),
		"output_norm.weight": random(t, 2, 1, width), "output.weight": random(t, 3, 0.2, vocab, width)}
	for i := range layers {
		for j, w := range []struct {
			name string
			dims []int
		}{{"attn_q", []int{width, width}}, {"attn_k", []int{kvHeads * headDim, width}},
			{"attn_v", []int{kvHeads * headDim, width}}, {"attn_output", []int{width, width}},
			{"ffn_gate", []int{ffn, width}}, {"ffn_up", []int{ffn, width}}, {"ffn_down", []int{width, ffn}},
			{"attn_norm", []int{width}}, {"ffn_norm", []int{width}}} {
			scale := 0.2
			if len(w.dims) == 1 {
				scale = 1
			}
			all[fmt.Sprintf("blk.%d.%s.weight", i, w.name)] = random(t, uint64(10+10*i+j), scale, w.dims...)
		}
	}
	return all
}

// model writes the tiny model, and opens it.
func model(t testing.TB, weights map[string]*ir.Data, more ...any) (*gguf.File, llm.Config) {
	t.Helper()
	var w gguf.Writer
	for i := 0; i < len(more); i += 2 { // keys, each with a value
		if err := w.Set(more[i].(string), more[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]any{"general.architecture": "llama", "llama.block_count": uint32(layers),
		"llama.embedding_length": uint32(width), "llama.attention.head_count": uint32(heads),
		"llama.attention.head_count_kv": uint32(kvHeads), "llama.feed_forward_length": uint32(ffn),
		"llama.context_length": uint32(16), "llama.attention.layer_norm_rms_epsilon": float32(1e-5)} {
		if err := w.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	for name, d := range weights {
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	return opened(t, &w)
}

func opened(t testing.TB, w *gguf.Writer) (*gguf.File, llm.Config) {
	t.Helper()
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, cfg
}

// logits runs the graph that build makes, on the reference.
func logits(t *testing.T, weights ir.WeightSource, build func(b *frontend.Builder) frontend.Tensor,
	inputs map[string]*ir.Data) []float64 {
	t.Helper()
	g, err := frontend.Build("logits", func(b *frontend.Builder) { b.Output("logits", build(b)) })
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(t.Context(), inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := out["logits"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	return values
}

var tokens = []int32{3, 17, 8, 1, 0}

func tokenInput(t *testing.T) map[string]*ir.Data {
	t.Helper()
	values := make([]int64, len(tokens))
	for i, id := range tokens {
		values[i] = int64(id)
	}
	d, err := ir.FromInts(ir.I32, values, len(tokens))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*ir.Data{"tokens": d}
}

// forward builds the logits after every token.
func forward(cfg llm.Config) func(b *frontend.Builder) frontend.Tensor {
	return func(b *frontend.Builder) frontend.Tensor {
		return llm.Forward(b, cfg, b.Input("tokens", ir.I32, len(tokens)), llm.EveryToken).Reshape(-1)
	}
}

func compare(t *testing.T, what string, got, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= within*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// pairs are A and B of some weights. B is in the order of GGUF's rows.
func pairs(t testing.TB, seed uint64, rank int) (a, b map[string]*ir.Data) {
	a, b = map[string]*ir.Data{}, map[string]*ir.Data{}
	base := weights(t)
	for i, name := range []string{"blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.1.ffn_down.weight",
		"output.weight"} {
		a[name] = random(t, seed+uint64(i), 0.3, rank, base[name].Dims[1])
		b[name] = random(t, seed+50+uint64(i), 0.3, base[name].Dims[0], rank)
	}
	return a, b
}

// added returns the weights plus factor times B A, in plain loops.
func added(t *testing.T, base, a, b map[string]*ir.Data, factor float64) map[string]*ir.Data {
	t.Helper()
	all := map[string]*ir.Data{}
	for name, d := range base {
		all[name] = d
	}
	for name := range a {
		x, _ := all[name].Floats()
		down, _ := a[name].Floats()
		up, _ := b[name].Floats()
		rank, columns := a[name].Dims[0], a[name].Dims[1]
		for i := range x {
			for r := range rank {
				x[i] += factor * up[i/columns*rank+r] * down[r*columns+i%columns]
			}
		}
		d, err := ir.FromFloats(ir.F32, x, all[name].Dims...)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = d
	}
	return all
}

// TestAdapters compares a model with two adapters with a model that has the products added to its weights: with
// constant scales, with scales as inputs, and merged.
func TestAdapters(t *testing.T) {
	base := weights(t)
	f, cfg := model(t, base)
	a1, b1 := pairs(t, 100, 3)
	a2, b2 := pairs(t, 200, 8)
	delete(a2, "output.weight")
	dir := t.TempDir()
	var files []File
	for i, p := range []struct {
		alpha float64
		a, b  map[string]*ir.Data
		scale float64
	}{{6, a1, b1, 0.5}, {0, a2, b2, -1.5}} {
		path := filepath.Join(dir, fmt.Sprint(i, ".gguf"))
		if err := Write(path, "llama", p.alpha, p.a, p.b); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{path, p.scale})
	}
	list, err := OpenSet(files, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	src := list.Source(f)
	cfg.Adapters = list.Graph()
	delete(b2, "output.weight")
	sum := added(t, added(t, base, a1, b1, 0.5*6/3), a2, b2, -1.5) // an alpha of 0 stands for a factor of 1
	fs, cs := model(t, sum)
	want := logits(t, fs, forward(cs), tokenInput(t))
	without := cfg
	without.Adapters = nil
	plain := logits(t, f, forward(without), tokenInput(t))
	if d := math.Abs(plain[0] - want[0]); d < 1e-2 {
		t.Errorf("the adapters change a logit by %v only", d)
	}
	compare(t, "constant scales", logits(t, src, forward(cfg), tokenInput(t)), want, 1e-5)

	dynamic := cfg
	dynamic.AdapterInputs = true
	in := tokenInput(t)
	in[llm.AdapterInput], _ = ir.FromFloats(ir.F32, []float64{0.5, -1.5}, 2)
	compare(t, "scales as inputs", logits(t, src, forward(dynamic), in), want, 1e-5)
	in[llm.AdapterInput], _ = ir.FromFloats(ir.F32, []float64{0, 0}, 2)
	compare(t, "scales of 0", logits(t, src, forward(dynamic), in), plain, 0)

	var w gguf.Writer
	merged, err := Merge(t.Context(), &w, f, list)
	if err != nil || merged != (Merged{4, 0}) {
		t.Errorf("%+v, %v", merged, err)
	}
	fm, cm := opened(t, &w)
	compare(t, "merged", logits(t, fm, forward(cm), tokenInput(t)), want, 1e-5)
	const other = "blk.0.ffn_up.weight"
	if d, err := fm.Weight(other); err != nil || !bytes.Equal(d.Bytes, base[other].Bytes) {
		t.Errorf("a weight without an adapter has changed (%v)", err)
	}

	turned := turnedColumns(t, base, "blk.1.ffn_down")
	ft, ct := model(t, turned)
	ct.Adapters = list.Graph()
	compare(t, "columns in another order", logits(t, list.Source(ft), forward(ct), tokenInput(t)), want, 1e-5)
	w = gguf.Writer{}
	if _, err := Merge(t.Context(), &w, ft, list); err != nil {
		t.Fatal(err)
	}
	fm, cm = opened(t, &w)
	compare(t, "columns in another order, merged", logits(t, fm, forward(cm), tokenInput(t)), want, 1e-5)
}

// turnedColumns returns the weights with the columns of a matrix from the last to the first. Each matrix of a stack
// begins at another column.
func turnedColumns(t *testing.T, base map[string]*ir.Data, name string) map[string]*ir.Data {
	t.Helper()
	all := maps.Clone(base)
	d := all[name+".weight"]
	in := values(t, d)
	n := len(d.Dims)
	columns, each := d.Dims[n-1], d.Dims[n-1]*d.Dims[n-2]
	out, order := make([]float64, len(in)), make([]int64, 0, columns)
	for i := range in {
		column := (2*columns - 1 - i%columns + i/each) % columns
		out[i] = in[i-i%columns+column]
		if i%each < columns {
			order = append(order, int64(column))
		}
	}
	var err error
	if all[name+".weight"], err = ir.FromFloats(ir.F32, out, d.Dims...); err != nil {
		t.Fatal(err)
	}
	dims := append(slices.Clone(d.Dims[:n-2]), columns)
	if all[name+".order"], err = ir.FromInts(ir.I32, order, dims...); err != nil {
		t.Fatal(err)
	}
	return all
}

// experts turns the feed-forward layers of the tiny model into mixtures.
func experts(t testing.TB, n int) map[string]*ir.Data {
	all := weights(t)
	for i := range layers {
		blk := fmt.Sprintf("blk.%d.", i)
		all[blk+"ffn_gate_inp.weight"] = random(t, uint64(60+i), 0.5, n, width)
		for j, name := range []string{"ffn_gate", "ffn_up", "ffn_down"} {
			d := all[blk+name+".weight"]
			delete(all, blk+name+".weight")
			all[blk+name+"_exps.weight"] = random(t, uint64(70+10*i+j), 0.2, n, d.Dims[0], d.Dims[1])
		}
	}
	return all
}

// TestStacks is TestAdapters for adapters of experts and of the token embedding, from GGUF and from a PEFT folder.
func TestStacks(t *testing.T) {
	const n, rank, alpha, scale = 3, 4, 6.0, 0.5
	const up, down, embd = "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight", "token_embd.weight"
	base := experts(t, n)
	f, cfg := model(t, base, "llama.expert_count", uint32(n), "llama.expert_used_count", uint32(2))
	a := map[string]*ir.Data{up: random(t, 1, 0.3, n, rank, width), down: random(t, 2, 0.3, n, rank, ffn),
		embd: random(t, 3, 0.3, vocab, rank)}
	b := map[string]*ir.Data{up: random(t, 4, 0.3, n, ffn, rank), down: random(t, 5, 0.3, n, width, rank),
		embd: random(t, 6, 0.3, width, rank)}
	sum := maps.Clone(base)
	for name, d := range base {
		if a[name] == nil {
			continue
		}
		x, left, right := values(t, d), values(t, b[name]), values(t, a[name])
		columns, rows := d.Dims[len(d.Dims)-1], d.Dims[len(d.Dims)-2]
		for i := range x {
			row, column := i/columns, i%columns
			for r := range rank {
				if name == embd {
					x[i] += scale * alpha / rank * right[row*rank+r] * left[column*rank+r]
				} else {
					x[i] += scale * alpha / rank * left[row*rank+r] * right[(row/rows*rank+r)*columns+column]
				}
			}
		}
		sum[name], _ = ir.FromFloats(ir.F32, x, d.Dims...)
	}
	fs, cs := model(t, sum, "llama.expert_count", uint32(n), "llama.expert_used_count", uint32(2))
	want := logits(t, fs, forward(cs), tokenInput(t))
	plain := logits(t, f, forward(cfg), tokenInput(t))
	if math.Abs(plain[0]-want[0]) < 1e-2 {
		t.Errorf("the adapters change a logit from %v to %v", plain[0], want[0])
	}
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := Write(path, "llama", alpha, a, b); err != nil {
		t.Fatal(err)
	}
	tensors := map[string]*ir.Data{"model.embed_tokens.lora_embedding_A": turned(t, a[embd]),
		"model.embed_tokens.lora_embedding_B": b[embd]}
	for name, module := range map[string]string{up: "model.layers.0.block_sparse_moe.experts.%d.w3",
		down: "model.layers.1.block_sparse_moe.experts.%d.w2"} {
		for e := range n {
			for part, all := range map[string]*ir.Data{".lora_A.weight": a[name], ".lora_B.weight": b[name]} {
				size := len(all.Bytes) / n
				tensors[fmt.Sprintf(module, e)+part] = &ir.Data{DType: ir.F32, Dims: all.Dims[1:],
					Bytes: all.Bytes[e*size:][:size]}
			}
		}
	}
	named := map[string]*ir.Data{}
	for name, d := range tensors {
		named[peftPrefix+name] = d
	}
	peft := folder(t, map[string]any{"peft_type": "LORA", "r": rank, "lora_alpha": alpha,
		"target_modules": []string{"w2", "w3", "embed_tokens"}}, named)
	turnedFile, _ := model(t, turnedColumns(t, base, "blk.1.ffn_down_exps"), "llama.expert_count", uint32(n),
		"llama.expert_used_count", uint32(2))
	for from, f := range map[string]*gguf.File{path: turnedFile, peft: f} {
		cfg, err := llm.FromGGUF(f)
		if err != nil {
			t.Fatal(err)
		}
		list, err := OpenSet([]File{{from, scale}}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Close()
		own := cfg
		own.Adapters = list.Graph()
		compare(t, "constant scales", logits(t, list.Source(f), forward(own), tokenInput(t)), want, 1e-5)
		own.AdapterInputs = true
		in := tokenInput(t)
		in[llm.AdapterInput], _ = ir.FromFloats(ir.F32, []float64{scale}, 1)
		compare(t, "scales as inputs", logits(t, list.Source(f), forward(own), in), want, 1e-5)
		var w gguf.Writer
		if merged, err := Merge(t.Context(), &w, f, list); err != nil || merged != (Merged{3, 0}) {
			t.Errorf("%+v, %v", merged, err)
		}
		fm, cm := opened(t, &w)
		compare(t, "merged", logits(t, fm, forward(cm), tokenInput(t)), want, 1e-5)
	}
	delete(base, "output.weight")
	tied, ct := model(t, base, "llama.expert_count", uint32(n), "llama.expert_used_count", uint32(2))
	list, err := OpenSet([]File{{path, scale}}, ct)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	var w gguf.Writer
	if _, err := Merge(t.Context(), &w, tied, list); err == nil || !strings.Contains(err.Error(), "also the output") {
		t.Errorf("a tied embedding: %v", err)
	}
}

// TestColumns: A has the columns of a weight that GGUF files have in another order than folders.
func TestColumns(t *testing.T) {
	const rank, in, out = 2, 4, 3
	a, b := random(t, 1, 1, rank, in), random(t, 2, 1, out, rank)
	f := folder(t, map[string]any{}, map[string]*ir.Data{"a": a, "b": b})
	file, err := safetensors.Open(filepath.Join(f, tensorsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	half := func(name string, d *ir.Data) half {
		return half{name, ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)}, tensor{source: file, name: name}}
	}
	order := []int{3, 0, 2, 1}
	p, err := pairOf(llm.Origin{Name: "w.weight", From: []string{"m.weight"}, RowAxis: 1,
		Rows: func(int) []int { return order }}, map[string]*pair{"m": {a: half("a", a), b: half("b", b), factor: 1}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.a.read()
	if err != nil {
		t.Fatal(err)
	}
	have, want := values(t, got), values(t, a)
	for i, v := range have {
		if v != want[i-i%in+order[i%in]] {
			t.Errorf("A has %v, want the columns %v of %v", have, order, want)
		}
	}
	if d, err := p.b.read(); err != nil || !bytes.Equal(d.Bytes, b.Bytes) {
		t.Errorf("B has changed (%v)", err)
	}
}

func values(t testing.TB, d *ir.Data) []float64 {
	t.Helper()
	v, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// turned returns a matrix with its axes exchanged.
func turned(t testing.TB, d *ir.Data) *ir.Data {
	t.Helper()
	x, rows, columns := values(t, d), d.Dims[0], d.Dims[1]
	y := make([]float64, len(x))
	for i, v := range x {
		y[i%columns*rows+i/columns] = v
	}
	out, err := ir.FromFloats(ir.F32, y, columns, rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRowsOfScales: in a batch each row has scales of its own.
func TestRowsOfScales(t *testing.T) {
	f, cfg := model(t, weights(t))
	a, b := pairs(t, 100, 2)
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := Write(path, "llama", 4, a, b); err != nil {
		t.Fatal(err)
	}
	set, err := OpenSet([]File{{path, 1}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	src := set.Source(f)
	cfg.Adapters, cfg.AdapterInputs = set.Graph(), true
	ints := func(values ...int64) *ir.Data {
		d, err := ir.FromInts(ir.I32, values, len(values))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	g, err := llm.Batch(cfg, 3, 16)
	if err != nil {
		t.Fatal(err)
	}
	p, err := interp.New(g, interp.Options{Weights: src})
	if err != nil {
		t.Fatal(err)
	}
	scales := []float64{0, 1, -0.5}
	rows, _ := ir.FromFloats(ir.F32, scales, 3, 1)
	out, err := p.Run(t.Context(), map[string]*ir.Data{"tokens": ints(7, 7, 7), "texts": ints(0, 1, 2),
		"positions": ints(0, 0, 0), llm.AdapterInput: rows}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := out["logits"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range scales {
		fs, cs := model(t, added(t, weights(t), a, b, s*4/2))
		want := logits(t, fs, func(b *frontend.Builder) frontend.Tensor {
			return llm.Forward(b, cs, b.Const([]int32{7}), llm.EveryToken).Reshape(-1)
		}, nil)
		compare(t, fmt.Sprint("row ", i), got[i*vocab:][:vocab], want, 1e-5)
	}
}

// folder writes a PEFT folder.
func folder(t testing.TB, config map[string]any, tensors map[string]*ir.Data) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, configFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	var list []safetensors.Named
	for name, d := range tensors {
		list = append(list, safetensors.Named{Name: name, Data: d})
	}
	if err := safetensors.WriteFile(filepath.Join(dir, tensorsFile), nil, list); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFolder opens the same adapter as a GGUF file and as a folder. A folder has the rows of queries and keys in
// another order.
func TestFolder(t *testing.T) {
	f, cfg := model(t, weights(t))
	const rank = 4
	names := map[string]string{"blk.0.attn_q.weight": "model.layers.0.self_attn.q_proj",
		"blk.1.attn_k.weight":   "model.layers.1.self_attn.k_proj",
		"blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj", "output.weight": "lm_head"}
	a, b := pairs(t, 300, rank)
	tensors := map[string]*ir.Data{}
	for name, module := range names {
		up := b[name]
		if strings.Contains(name, "attn_") { // rows i and i+headDim/2 of a folder are neighbours in GGUF
			values, _ := up.Floats()
			moved := make([]float64, len(values))
			for row := range up.Dims[0] {
				head, i := row/headDim, row%headDim
				at := head*headDim + i/2 + i%2*headDim/2
				copy(moved[at*rank:][:rank], values[row*rank:][:rank])
			}
			up, _ = ir.FromFloats(ir.F32, moved, up.Dims...)
		}
		tensors[peftPrefix+module+".lora_A.weight"], tensors[peftPrefix+module+".lora_B.weight"] = a[name], up
	}
	targets := []string{"q_proj", "k_proj", "down_proj", "lm_head"}
	for _, tt := range []struct {
		name   string
		config map[string]any
		factor func(weight string) float64
	}{
		{"alpha", map[string]any{"lora_alpha": 8, "bias": "none", "use_dora": false, "init_lora_weights": true},
			func(string) float64 { return 2 }},
		{"rslora", map[string]any{"lora_alpha": 8, "use_rslora": true}, func(string) float64 { return 4 }},
		{"patterns", map[string]any{"lora_alpha": 8, "r": 99, "rank_pattern": map[string]int{".*": rank},
			"alpha_pattern": map[string]any{"layers.1.mlp.down_proj": 2, `layers\.\d+\.self_attn\..*`: 1}},
			func(weight string) float64 {
				return map[string]float64{"output.weight": 2, "blk.1.ffn_down.weight": 0.5}[weight] +
					map[bool]float64{true: 0.25}[strings.Contains(weight, "attn")]
			}},
		{"expression", map[string]any{"lora_alpha": 8, "target_modules": `.*\.(q|k|down)_proj|lm_head`},
			func(string) float64 { return 2 }},
		{"all", map[string]any{"lora_alpha": 8, "target_modules": "all-linear", "exclude_modules": []string{"v_proj"},
			"layers_pattern": ""}, func(string) float64 { return 2 }},
	} {
		config := map[string]any{"peft_type": "LORA", "r": rank, "target_modules": targets}
		for key, v := range tt.config {
			config[key] = v
		}
		set, err := OpenSet([]File{{folder(t, config, tensors), 1}}, cfg)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		with := cfg
		with.Adapters = set.Graph()
		sum := weights(t)
		for name := range names {
			sum = added(t, sum, map[string]*ir.Data{name: a[name]}, b, tt.factor(name))
		}
		fs, cs := model(t, sum)
		compare(t, tt.name, logits(t, set.Source(f), forward(with), tokenInput(t)),
			logits(t, fs, forward(cs), tokenInput(t)), 1e-5)
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefuses lists adapters that do not fit, or that are more than A and B.
func TestRefuses(t *testing.T) {
	_, cfg := model(t, weights(t))
	const q = "blk.0.attn_q.weight"
	good := func() map[string]*ir.Data {
		return map[string]*ir.Data{q + ".lora_a": random(t, 1, 1, 2, width), q + ".lora_b": random(t, 2, 1, width, 2)}
	}
	ints, _ := ir.NewData(ir.I32, 2, width)
	for want, tt := range map[string]struct {
		meta    map[string]any
		tensors map[string]*ir.Data // nil removes
	}{
		`metadata "general.type" is "model"`:                         {map[string]any{"general.type": "model"}, nil},
		`metadata "adapter.type" is "dora"`:                          {map[string]any{"adapter.type": "dora"}, nil},
		`metadata "general.architecture" is "qwen2": want "llama"`:   {map[string]any{"general.architecture": "qwen2"}, nil},
		`metadata "adapter.lora.alpha" is +Inf`:                      {map[string]any{"adapter.lora.alpha": float32(math.Inf(1))}, nil},
		`metadata "adapter.lora.alpha" is a string`:                  {map[string]any{"adapter.lora.alpha": "8"}, nil},
		`metadata "adapter.alora.invocation_tokens": such`:           {map[string]any{"adapter.alora.invocation_tokens": []int32{1}}, nil},
		`only one of A and B for "blk.0.attn_q.weight"`:              {nil, map[string]*ir.Data{q + ".lora_b": nil}},
		"the adapter has no matrices":                                {nil, map[string]*ir.Data{q + ".lora_a": nil, q + ".lora_b": nil}},
		`tensor "more": want names that end in .lora_a`:              {nil, map[string]*ir.Data{"more": ints}},
		`"blk.9.attn_q.weight", which is not a weight of this model`: {nil, map[string]*ir.Data{"blk.9.attn_q.weight.lora_a": ints}},
		`"output_norm.weight", which is not a matrix`: {nil, map[string]*ir.Data{"output_norm.weight.lora_a": ints,
			"output_norm.weight.lora_b": ints}},
		`tensor "token_embd.weight.lora_b" is [32,3]: want [32,2]`: {nil, map[string]*ir.Data{
			"token_embd.weight.lora_a": random(t, 1, 1, vocab, 2), "token_embd.weight.lora_b": random(t, 1, 1, width, 3)}},
		`tensor "blk.0.attn_q.weight.lora_a" is [2,31]: want [2,32]`: {nil, map[string]*ir.Data{q + ".lora_a": random(t, 1, 1, 2, 31)}},
		`tensor "blk.0.attn_q.weight.lora_b" is [32,3]: want [32,2]`: {nil, map[string]*ir.Data{q + ".lora_b": random(t, 1, 1, 32, 3)}},
		`a rank of at least 1`:                       {nil, map[string]*ir.Data{q + ".lora_a": random(t, 1, 1, 0, width), q + ".lora_b": random(t, 1, 1, width, 0)}},
		`tensor "blk.0.attn_q.weight.lora_a" is i32`: {nil, map[string]*ir.Data{q + ".lora_a": ints}},
		`is [64]: want [0,32], for the weight`:       {nil, map[string]*ir.Data{q + ".lora_a": random(t, 1, 1, 64)}},
	} {
		meta := map[string]any{"general.type": "adapter", "adapter.type": "lora", "general.architecture": "llama",
			"adapter.lora.task_name": "a description"}
		for key, v := range tt.meta {
			meta[key] = v
		}
		tensors := good()
		for name, d := range tt.tensors {
			if tensors[name] = d; d == nil {
				delete(tensors, name)
			}
		}
		var w gguf.Writer
		for key, v := range meta {
			if err := w.Set(key, v); err != nil {
				t.Fatal(err)
			}
		}
		for name, d := range tensors {
			if err := w.Add(name, d); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(t.TempDir(), "a.gguf")
		if err := w.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, cfg); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const module = peftPrefix + "model.layers.0.self_attn.q_proj"
	for want, config := range map[string]map[string]any{
		"peft_type is \"IA3\"":                  {"peft_type": "IA3"},
		"r is 0":                                {"r": 0},
		"use_dora":                              {"use_dora": true},
		"bias: adapters that change biases":     {"bias": "all"},
		`modules_to_save is ["lm_head"]`:        {"modules_to_save": []string{"lm_head"}},
		`init_lora_weights is "pissa_niter_16"`: {"init_lora_weights": "pissa_niter_16"},
		"layer_replication":                     {"layer_replication": [][]int{{0, 1}}},
		"alora_invocation_tokens":               {"alora_invocation_tokens": []int{1}},
		"target_parameters":                     {"target_parameters": []string{"x"}},
		"trainable_token_indices":               {"trainable_token_indices": []int{1}},
		"does not name this module":             {"target_modules": []string{"k_proj"}},
		"q_proj.lora_B.weight\": adapter_config.json does not name this": {"layers_to_transform": []int{1}},
		"has rank 2: want 4":           {"r": 4},
		"error parsing regexp":         {"target_modules": "["},
		"of module":                    {"alpha_pattern": map[string]float64{"q_proj": 1e300}},
		"adapter_config.json: invalid": nil,
	} {
		whole := map[string]any{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": []string{"q_proj"}}
		for key, v := range config {
			whole[key] = v
		}
		tensors := map[string]*ir.Data{module + ".lora_B.weight": random(t, 2, 1, width, 2)}
		if !strings.Contains(want, "lora_B") {
			tensors[module+".lora_A.weight"] = random(t, 1, 1, 2, width)
		}
		dir := folder(t, whole, tensors)
		if config == nil {
			if err := os.WriteFile(filepath.Join(dir, configFile), []byte("no"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(dir, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Open(folder(t, map[string]any{"peft_type": "LORA", "r": 2}, map[string]*ir.Data{
		peftPrefix + "model.layers.0.conv.lora_A.weight": random(t, 1, 1, 2, width),
		peftPrefix + "model.layers.0.conv.lora_B.weight": random(t, 1, 1, width, 2)}), cfg); err == nil ||
		!strings.Contains(err.Error(), `has no weight for tensor "model.layers.0.conv.weight"`) {
		t.Errorf("an unknown module: %v", err)
	}
	if _, err := Open(t.TempDir(), cfg); err == nil ||
		!strings.Contains(err.Error(), "there is no adapter_config.json") {
		t.Errorf("an empty folder: %v", err)
	}
}

// FuzzGGUF: no adapter file makes reading or building a graph panic.
func FuzzGGUF(f *testing.F) {
	_, cfg := model(f, weights(f))
	a, b := pairs(f, 100, 2)
	path := filepath.Join(f.TempDir(), "a.gguf")
	if err := Write(path, "llama", 4, a, b); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.NewReader(data)
		if err != nil {
			return
		}
		adapter, err := fromGGUF(file, cfg)
		if err != nil {
			return
		}
		with := cfg
		with.Adapters = []llm.Adapter{adapter.Graph("lora.0.", 1)}
		if _, err := llm.Prefill(with, 4); err != nil {
			t.Errorf("an adapter that opens has no graph: %v", err)
		}
	})
}

// FuzzPEFT: no configuration or tensors of a folder make reading panic.
func FuzzPEFT(f *testing.F) {
	_, cfg := model(f, weights(f))
	config := `{"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],"layers_to_transform":0,
		"alpha_pattern":{"q":2},"layers_pattern":"layers"}`
	module := peftPrefix + "model.layers.0.self_attn.q_proj"
	dir := folder(f, nil, map[string]*ir.Data{module + ".lora_A.weight": random(f, 1, 1, 2, width),
		module + ".lora_B.weight": random(f, 2, 1, width, 2)})
	seed, err := os.ReadFile(filepath.Join(dir, tensorsFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(config), seed)
	f.Fuzz(func(t *testing.T, config, data []byte) {
		file, err := safetensors.NewReader(data)
		if err != nil {
			return
		}
		if a, err := fromPEFT(config, file, cfg); err == nil {
			for name := range a.tensors {
				if _, err := a.Weight(name); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
