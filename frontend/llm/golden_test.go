package llm_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// goldenDir has tiny models with random weights, and the results of a separate program: see the README there.
const goldenDir = "../../golden/llm"

// goldenModel is one of them. Its weights are not stored: each follows from its name.
type goldenModel struct {
	Meta    map[string]any
	Weights map[string]struct {
		Dims          []int
		Offset, Scale float64
		Values        []float64 // in place of numbers that follow from the name
		DType         ir.DType  // f32, unless it is mxfp4
	}
	Tokens []int32
	Logits [][]float64               // after each token
	Pooled map[llm.Pooling][]float64 // the vector of the text, or its ratings as a pair, for models without logits
}

func readGolden(t *testing.T, path string) goldenModel {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m goldenModel
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return m
}

// file makes the model's GGUF file and reads it.
func (m goldenModel) file(t *testing.T) *gguf.File {
	t.Helper()
	var w gguf.Writer
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		if err := w.Set(key, metaValue(t, m.Meta[key])); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Weights)) {
		made := m.Weights[name]
		d, err := ir.NewData(cmp.Or(made.DType, ir.F32), made.Dims...)
		if err != nil {
			t.Fatal(err)
		}
		if d.DType == ir.MXFP4 {
			for i := range d.Bytes {
				if d.Bytes[i] = byte(hashed(name, i)); i%d.DType.BlockBytes() == 0 { // the exponent of a block's scale
					d.Bytes[i] = 122 + d.Bytes[i]%3
				}
			}
		} else {
			values := make([]float64, d.Elems())
			for i := range values {
				values[i] = made.Offset + made.Scale*(float64(hashed(name, i)>>40)/(1<<23)-1)
			}
			copy(values, made.Values)
			ir.EncodeFloats(d.Bytes, ir.F32, values)
		}
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if _, err := w.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// metaValue is a value of the metadata as GGUF files of models have it.
func metaValue(t *testing.T, v any) any {
	t.Helper()
	if list, ok := v.([]any); ok {
		if _, isBool := list[0].(bool); isBool {
			return arrayOf[bool](t, list)
		}
		if _, isInt := metaValue(t, list[0]).(uint32); isInt {
			return arrayOf[uint32](t, list)
		}
		return arrayOf[float32](t, list)
	}
	if v == nil { // JSON has no infinity
		return float32(math.Inf(-1))
	}
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return uint32(i)
	}
	f, err := n.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return float32(f)
}

func arrayOf[T any](t *testing.T, list []any) (all []T) {
	t.Helper()
	for _, v := range list {
		all = append(all, metaValue(t, v).(T))
	}
	return all
}

// hashed is random number i of a name: splitmix64 (Steele et al. 2014) from the name's hash.
func hashed(name string, i int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	z := h.Sum64() + uint64(i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// TestGolden compares the logits of every architecture with those of a program that shares no code with this one, in
// one pass and token by token.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, path := range paths {
		m := readGolden(t, path)
		tested[m.Meta["general.architecture"].(string)] = true
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) { m.test(t) })
	}
	for _, name := range llm.Architectures() {
		if !tested[name] {
			t.Errorf("architecture %q has no golden model: add it to %s/make.py, which writes %[1]s.json",
				name, goldenDir)
		}
	}
}

// hasWindow reports whether layers have a window. KeepWindow makes another graph of these models alone.
func (m goldenModel) hasWindow(t *testing.T) bool {
	t.Helper()
	cfg, err := llm.FromGGUF(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Window > 0
}

func (m goldenModel) test(t *testing.T) {
	f := m.file(t)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	if m.Pooled != nil {
		m.testPooled(t, f, cfg)
		return
	}
	g, err := frontend.Build("logits", func(b *frontend.Builder) {
		tokens := b.Input("tokens", ir.I32, len(m.Tokens))
		b.Output("logits", llm.Forward(b, cfg, tokens, llm.EveryToken).Reshape(-1))
	})
	whole := run(t, program(t, f, g, err), m.Tokens, nil)
	for i, want := range m.Logits {
		compare(t, fmt.Sprintf("one pass, token %d", i), whole[i*len(want):][:len(want)], want, 1e-4)
	}
	g, err = llm.Step(cfg, cfg.Context)
	step := program(t, f, g, err)
	for i, id := range m.Tokens {
		got := run(t, step, []int32{id}, map[string]int64{"S": int64(i + 1)})
		compare(t, fmt.Sprintf("step %d", i), got, m.Logits[i], 1e-3)
	}
	m.testScores(t, f, cfg)
	g, err = llm.Steps(cfg, len(m.Tokens), cfg.Context)
	m.testParts(t, program(t, f, g, err), 5, len(m.Tokens))
	for _, most := range []int{1, 3} {
		g, err = llm.Steps(cfg, most, cfg.Context, llm.KeepWindow(most))
		kept := program(t, f, g, err)
		var ends []int
		for end := most; end < len(m.Tokens); end += most {
			ends = append(ends, end)
		}
		m.testParts(t, kept, append(ends, len(m.Tokens))...)
	}
}

// TestKeepWindow: layers with a window keep so many positions and the tokens of a run, the others all.
func TestKeepWindow(t *testing.T) {
	m := readGolden(t, filepath.Join(goldenDir, "gemma3.json")) // five of six layers have a window of 6
	cfg, err := llm.FromGGUF(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	kept := func(options ...llm.Option) (bytes int64) {
		g, err := llm.Steps(cfg, 2, cfg.Context, options...)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range g.Leaves(ir.OpState) {
			n, err := s.Type().MaxBytes()
			if err != nil {
				t.Fatal(err)
			}
			bytes += n
		}
		return bytes
	}
	const position = 2 * 4 * 16 // bytes of a key and a value in a layer
	if all, some := kept(), kept(llm.KeepWindow(2)); all != 7*32*position || some != (32+6*8)*position {
		t.Errorf("%d bytes, %d with windows only", all, some)
	}
	if _, err := llm.Steps(cfg, 3, cfg.Context, llm.KeepWindow(2)); err == nil ||
		!strings.Contains(err.Error(), "3 tokens at once: layers have room for only 2") {
		t.Errorf("error %v", err)
	}
	for _, tt := range []struct{ past, known, want int }{
		{8, 1, 1}, {9, 7, 7}, {9, 6, 0}, {9, 9, 9}, {32, 30, 30}, {32, 29, 0},
	} {
		if got := cfg.Reach(tt.past, tt.known, 2); got != tt.want {
			t.Errorf("of %d tokens, %d are known as far as %d, want %d", tt.past, tt.known, got, tt.want)
		}
	}
}

// TestActivations: the recorded inputs of the first matrices are the normalized embedding. In a mixture of experts,
// each token contributes to exactly the experts that it uses.
func TestActivations(t *testing.T) {
	m := readGolden(t, filepath.Join(goldenDir, "mixtral.json"))
	f := m.file(t)
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := llm.Activations(cfg, len(m.Tokens))
	out, err := program(t, f, g, err).Run(t.Context(), map[string]*ir.Data{"tokens": data(t, m.Tokens)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	floats := func(d *ir.Data, err error) []float64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.Floats()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	squares := func(name string) []float64 { return floats(out["blk.0."+name+".weight"+llm.SquaresSuffix], nil) }
	counts := func(name string) []float64 { return floats(out["blk.0."+name+".weight"+llm.CountsSuffix], nil) }
	table, scale := floats(f.Weight("token_embd.weight")), floats(f.Weight("blk.0.attn_norm.weight"))
	want := make([]float64, cfg.Width)
	for _, id := range m.Tokens {
		x := table[int(id)*cfg.Width:][:cfg.Width]
		for i := range x {
			h := x[i] * scale[i] / math.Sqrt(dot(x, x)/float64(len(x))+cfg.NormEps)
			want[i] += h * h
		}
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v"} {
		compare(t, name, squares(name), want, 1e-5)
		compare(t, name, counts(name), []float64{float64(len(m.Tokens))}, 0)
	}
	if len(out) != 2*2*8 {
		t.Errorf("%d outputs", len(out))
	}
	for _, name := range []string{"ffn_gate_exps", "ffn_down_exps"} {
		total, all := 0.0, counts(name)
		for e, n := range all {
			part := squares(name)[e*len(squares(name))/len(all):][:len(squares(name))/len(all)]
			if total += n; (n == 0) != (dot(part, part) == 0) {
				t.Errorf("%s: expert %d has %v tokens and squares %v", name, e, n, part)
			}
		}
		if len(all) != 4 || total != float64(2*len(m.Tokens)) {
			t.Errorf("%s: counts %v", name, all)
		}
	}
	// Both experts of a token get the same input as the router.
	router, met := squares("ffn_gate_inp"), make([]float64, cfg.Width)
	for i, v := range squares("ffn_gate_exps") {
		met[i%cfg.Width] += v / 2
	}
	compare(t, "experts", met, router, 1e-5)
}

// testParts reads the text in parts, and compares the logits after each.
func (m goldenModel) testParts(t *testing.T, p *interp.Program, ends ...int) {
	t.Helper()
	begin := 0
	for _, end := range ends {
		got := run(t, p, m.Tokens[begin:end], map[string]int64{"S": int64(end)})
		compare(t, fmt.Sprintf("steps up to %d", end), got, m.Logits[end-1], 1e-3)
		begin = end
	}
}

// testPooled compares the vector of the text for each pooling.
func (m goldenModel) testPooled(t *testing.T, f *gguf.File, cfg llm.Config) {
	t.Helper()
	for _, cfg.Pooling = range slices.Sorted(maps.Keys(m.Pooled)) {
		graph, output, in := llm.Embedding, "embedding", map[string]*ir.Data{"tokens": data(t, m.Tokens)}
		if cfg.Pooling == llm.PoolRank {
			graph, output = llm.Ranking, "scores"
			if cfg.RanksSegments() {
				in["first"] = scalar(t, 6)
			}
		}
		g, err := graph(cfg, cfg.Context)
		out, err := program(t, f, g, err).Run(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := out[output].Floats()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, string(cfg.Pooling), got, m.Pooled[cfg.Pooling], 1e-4)
	}
	if _, err := llm.Step(cfg, cfg.Context); err == nil || !strings.Contains(err.Error(), "predicts no token") {
		t.Errorf("a step of %s: %v", cfg.Architecture, err)
	}
}

// testScores reads the text in parts, and compares the log probability of each next token and of the two most likely
// ones.
func (m goldenModel) testScores(t *testing.T, f *gguf.File, cfg llm.Config) {
	t.Helper()
	const most, likeliest = 6, 2
	g, err := llm.Scores(cfg, most, cfg.Context, likeliest)
	p := program(t, f, g, err)
	var got, want []float64
	for begin := 0; begin < len(m.Tokens)-1; begin += most {
		end := min(begin+most, len(m.Tokens)-1)
		out, err := p.Run(t.Context(), map[string]*ir.Data{"tokens": data(t, m.Tokens[begin:end]),
			"next": data(t, m.Tokens[begin+1:end+1])}, map[string]int64{"S": int64(end)})
		if err != nil {
			t.Fatal(err)
		}
		scores, err := out["scores"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		best, err := out["likeliest"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, scores...)
		for i := range end - begin {
			logits := m.Logits[begin+i]
			sum := 0.0
			for _, logit := range logits {
				sum += math.Exp(logit)
			}
			asked := []float64{logits[m.Tokens[begin+i+1]]}
			for _, id := range best[i*likeliest:][:likeliest] {
				asked = append(asked, logits[int(id)])
			}
			if order := slices.Sorted(slices.Values(logits)); asked[1] < order[len(order)-1]-1e-3 ||
				asked[2] < order[len(order)-2]-1e-3 || best[i*likeliest] == best[i*likeliest+1] {
				t.Errorf("likeliest after %d: %v", begin+i, best[i*likeliest:][:likeliest])
			}
			for _, logit := range asked {
				want = append(want, logit-math.Log(sum))
			}
		}
	}
	compare(t, "scores", got, want, 1e-3)
	for _, n := range []int{-1, cfg.Vocab + 1} {
		_, err := llm.Scores(cfg, most, cfg.Context, n)
		if err == nil || !strings.Contains(err.Error(), "want 0 to all") {
			t.Errorf("the likeliest %d: %v", n, err)
		}
	}
}

// TestPageListsArchitectures keeps the list that users read true.
func TestPageListsArchitectures(t *testing.T) {
	text, err := os.ReadFile("../../docs/FEATURES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range llm.Architectures() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/FEATURES.md does not name architecture `%s`", name)
		}
	}
}
