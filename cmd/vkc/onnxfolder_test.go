package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/onnx/onnxtest"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// TestONNXFolder generates text with gollama as Transformers.js has models: a folder with the model in onnx/.
func TestONNXFolder(t *testing.T) {
	folder := gollamaFolder(t)
	if err := os.Remove(filepath.Join(folder, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(folder, "onnx", "model_q8.onnx")
	if err := os.Mkdir(filepath.Dir(model), 0o777); err != nil {
		t.Fatal(err)
	}
	ok(t, "graph", gollama, "--past", "--ctx", "256", "--onnx", model)
	line := []string{"generate", "-p", "func main() {\n", "--device", "cpu", "-n", "8", "--ctx", "32", "-m"}
	want := ok(t, append(line, gollama)...).stdout
	for _, path := range []string{folder, model} {
		if got := ok(t, append(line, path)...).stdout; got != want || want == "" {
			t.Errorf("%s gives %q, and the GGUF file %q", path, got, want)
		}
	}
	has(t, ok(t, "inspect", folder).stdout, "model_q8.onnx: ONNX")
	fails(t, exitFailure, []string{"chat", "-m", folder}, "has no chat template")
	testServedFolder(t, folder, strings.TrimSuffix(want, "\n"))
	sampled := append(line, folder, "--temp", "1", "--seed", "7", "--top-k", "5")
	if a, b := ok(t, sampled...).stdout, ok(t, sampled...).stdout; a != b || a == "" {
		t.Errorf("one seed gives %q and %q", a, b)
	}
	fails(t, exitUsage, append(line, folder, "--kv", "f16"), "--kv", "ONNX graph")
	fails(t, exitUsage, append(line, folder, "--tune", "1s"), "--tune", "ONNX graph")
	testTinyFolders(t, folder)
}

// testServedFolder answers requests at once, and scores a text, as with the GGUF file. Its cache is f16, so scores
// differ a little. Then it holds a conversation.
func testServedFolder(t *testing.T, folder, want string) {
	o := generate.Options{Device: "cpu", Context: 32, Parallel: 2, Precision: "exact"}
	d, err := generate.OpenDecoder(t.Context(), folder, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	server := httptest.NewServer(serve.New(d, serve.Options{}))
	defer server.Close()
	var all sync.WaitGroup
	for range 3 { // of which one waits
		all.Go(func() {
			res, err := http.Post(server.URL+"/v1/completions", "application/json",
				strings.NewReader(`{"prompt": "func main() {\n", "max_tokens": 8, "temperature": 0}`))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			var answer struct{ Choices []struct{ Text string } }
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || len(answer.Choices) != 1 ||
				answer.Choices[0].Text != want {
				t.Errorf("served %+v, error %v, want %q", answer, err, want)
			}
		})
	}
	all.Wait()
	testReuse(t, folder, d)
	if load := d.Load(); load != (generate.Load{}) || d.Parallel() != 2 || d.Reused().Tokens == 0 {
		t.Errorf("after all answers the load is %+v, %d tokens of prompts", load, d.Reused().Tokens)
	}
	m, err := generate.Open(t.Context(), gollama, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	text := m.Tokenizer().Encode("func main() {", tokenizer.Options{Whole: true})
	got, err := d.Score(t.Context(), text, 2)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := m.Score(t.Context(), text, 2)
	if err != nil || len(got) != len(scores) {
		t.Fatalf("%d scores, want %d, error %v", len(got), len(scores), err)
	}
	for i := range scores[1:] {
		a, b := got[i+1], scores[i+1]
		if a.ID != b.ID || a.Text != b.Text || math.Abs(a.Odds.Logprob-b.Odds.Logprob) > 1e-2 ||
			a.Odds.Likeliest[1].ID != b.Odds.Likeliest[1].ID {
			t.Errorf("token %d: %+v %+v, want %+v %+v", i+1, a, a.Odds, b, b.Odds)
		}
	}
	talks := filepath.Join(folder, "tokenizer_config.json")
	writeJSON(t, talks, map[string]any{"chat_template": "{% for m in messages %}{{ m.content }} {\n{% endfor %}"})
	defer os.Remove(talks)
	typed(t, "func main()\n/image x.png\n")
	talk := ok(t, "chat", "-m", folder, "--device", "cpu", "--ctx", "32", "-n", "8", "--temp", "0").stdout
	has(t, talk, want)
	has(t, talk, "reads no pictures")
}

// testReuse continues prompts that begin like earlier ones. A decoder that computes whole prompts gives the same
// tokens.
func testReuse(t *testing.T, folder string, d *generate.Decoder) {
	t.Helper()
	whole, err := generate.OpenDecoder(t.Context(), folder, generate.Options{Device: "cpu", Context: 32,
		Precision: "exact", Deterministic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	answer := func(d *generate.Decoder, prompt []int32) (tokens []int32, known int) {
		s := generate.Sampling{MaxTokens: 4, Known: func(n int) { known = n }}
		for token, err := range d.Generate(t.Context(), prompt, s) {
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, token.ID)
		}
		return tokens, known
	}
	text := d.Tokenizer().Encode("func main() {", tokenizer.Options{Whole: true})
	first, _ := answer(d, text)
	other := append(slices.Clone(text[:3]), text[0], text[1])
	for _, c := range []struct {
		prompt []int32
		known  int // of them, at least
	}{{text, len(text) - 1}, {other, 3}, {append(slices.Clone(text), first[:2]...), len(text)}, {other[1:], 0}} {
		before := d.Reused().Known
		got, known := answer(d, c.prompt)
		if known < c.known || known >= len(c.prompt) || d.Reused().Known-before != known {
			t.Errorf("%d tokens of %v were known and %d are counted, want at least %d", known, c.prompt,
				d.Reused().Known-before, c.known)
		}
		if want, known := answer(whole, c.prompt); !slices.Equal(got, want) || known != 0 {
			t.Errorf("%v goes on with %v, want %v without %d known tokens", c.prompt, got, want, known)
		}
	}
}

// TestRunFitsInputs runs a model that cannot be built for all extents, and needs an input's value.
func TestRunFitsInputs(t *testing.T) {
	m := &tinyModel{}
	m.input("x", onnxFloat, "N", "M")
	m.input("s", onnxInt64, "2")
	m.ints("one", []int64{1}, 1)
	m.node("Squeeze", []string{"x", "one"}, []string{"q"})
	m.node("Reshape", []string{"q", "s"}, []string{"y"})
	m.output("y", onnxFloat, "K", "L")
	path := filepath.Join(t.TempDir(), "m.onnx")
	m.write(t, path)
	line := []string{"run", path, "--device", "cpu", "--input", "s=[1,2]", "--input"}
	has(t, ok(t, append(line, "x=[[3],[4]]")...).stdout, "f32[1 2]")
	fails(t, exitFailure, append(line, "x=[[3,4]]"), "is not 1")
}

// tinyModel has the fields of a small graph.
type tinyModel struct{ graph onnxtest.Message }

func (m *tinyModel) node(op string, in, out []string, attrs ...onnxtest.Message) {
	m.graph = m.graph.Bytes(1, tinyNode(op, in, out, attrs...))
}

func tinyNode(op string, in, out []string, attrs ...onnxtest.Message) onnxtest.Message {
	n := onnxtest.Message{}
	for _, name := range in {
		n = n.Text(1, name)
	}
	for _, name := range out {
		n = n.Text(2, name)
	}
	n = n.Text(4, op)
	for _, a := range attrs {
		n = n.Bytes(5, a)
	}
	return n
}

func intAttribute(name string, v int64) onnxtest.Message {
	return onnxtest.Message{}.Text(1, name).Int(3, v).Int(20, 2)
}

// The numbers of ONNX's types.
const (
	onnxFloat = 1
	onnxInt64 = 7
	onnxBool  = 9
)

// port writes an input (field 11) or an output (field 12). Extents are numbers or names.
func tinyPort(name string, elem int64, dims ...string) onnxtest.Message {
	shape := onnxtest.Message{}
	for _, d := range dims {
		if n, err := strconv.ParseInt(d, 10, 64); err == nil {
			shape = shape.Bytes(1, onnxtest.Message{}.Int(1, n))
		} else {
			shape = shape.Bytes(1, onnxtest.Message{}.Text(2, d))
		}
	}
	return onnxtest.Message{}.Text(1, name).Bytes(2,
		onnxtest.Message{}.Bytes(1, onnxtest.Message{}.Int(1, elem).Bytes(2, shape)))
}

func (m *tinyModel) input(name string, elem int64, dims ...string) {
	m.graph = m.graph.Bytes(11, tinyPort(name, elem, dims...))
}
func (m *tinyModel) output(name string, elem int64, dims ...string) {
	m.graph = m.graph.Bytes(12, tinyPort(name, elem, dims...))
}

func (m *tinyModel) ints(name string, dims []int64, values ...int64) {
	t, raw := onnxtest.Message{}, []byte(nil)
	for _, d := range dims {
		t = t.Int(1, d)
	}
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	m.graph = m.graph.Bytes(5, t.Int(2, onnxInt64).Text(8, name).Bytes(9, raw))
}

func (m *tinyModel) write(t *testing.T, path string) {
	t.Helper()
	model := onnxtest.Message{}.Int(1, 8).Bytes(7, m.graph.Text(2, "tiny")).Bytes(8, onnxtest.Message{}.Int(2, 17))
	if err := os.WriteFile(path, model, 0o644); err != nil {
		t.Fatal(err)
	}
}

// tinyDecoder is a language model: after token n comes n, if n ends the first run, and else n+1. It keeps the tokens so
// far in an output, which the next run has in an input.
func tinyDecoder(past, present string, merged bool) *tinyModel {
	m := &tinyModel{}
	m.input("input_ids", onnxInt64, "batch", "sequence")
	m.input(past, onnxFloat, "batch", "1", "past", "1")
	m.output("logits", onnxFloat, "batch", "sequence", "4096")
	m.output(present, onnxFloat, "batch", "1", "all", "1")
	m.ints("shape", []int64{4}, 1, 1, -1, 1)
	m.ints("last", []int64{1}, -1)
	m.ints("one", nil, 1)
	m.ints("zero", nil, 0)
	vocabulary := make([]int64, 4096)
	for i := range vocabulary {
		vocabulary[i] = int64(i)
	}
	m.ints("vocabulary", []int64{4096}, vocabulary...)
	m.node("Cast", []string{"input_ids"}, []string{"float"}, intAttribute("to", onnxFloat))
	m.node("Reshape", []string{"float", "shape"}, []string{"now"})
	join := tinyNode("Concat", []string{past, "now"}, []string{"joined"}, intAttribute("axis", 2))
	step := "one"
	if merged {
		m.input("use_cache_branch", onnxBool, "1")
		branch := func(name string, nodes ...onnxtest.Message) onnxtest.Message {
			g := onnxtest.Message{}.Text(2, name)
			for _, n := range nodes {
				g = g.Bytes(1, n)
			}
			return onnxtest.Message{}.Text(1, name).Bytes(6, g.Bytes(12, tinyPort(name+"_kept", onnxFloat)).
				Bytes(12, tinyPort(name+"_step", onnxInt64))).Int(20, 5)
		}
		m.node("If", []string{"use_cache_branch"}, []string{present, "step"},
			branch("then_branch", join, tinyNode("Identity", []string{"joined"}, []string{"then_branch_kept"}),
				tinyNode("Identity", []string{"one"}, []string{"then_branch_step"})),
			branch("else_branch", tinyNode("Identity", []string{"now"}, []string{"else_branch_kept"}),
				tinyNode("Identity", []string{"zero"}, []string{"else_branch_step"})))
		step = "step"
	} else {
		m.graph = m.graph.Bytes(1, join)
		m.node("Identity", []string{"joined"}, []string{present})
	}
	m.node("Add", []string{"input_ids", step}, []string{"more"})
	m.input("attention_mask", onnxInt64, "batch", "past + 1") // as if a run had one token
	m.ints("inner", []int64{1}, 1)
	m.node("ReduceSum", []string{"attention_mask", "inner"}, []string{"seen"})
	m.node("Mul", []string{"seen", "zero"}, []string{"nothing"})
	m.node("Add", []string{"more", "nothing"}, []string{"next"})
	m.node("Unsqueeze", []string{"next", "last"}, []string{"column"})
	m.node("Equal", []string{"column", "vocabulary"}, []string{"is"})
	m.node("Cast", []string{"is"}, []string{"logits"}, intAttribute("to", onnxFloat))
	return m
}

// testTinyFolders runs folders with small models: a merged decoder, one of onnxruntime-genai, a sentence encoder and a
// classifier. folder has a tokenizer.
func testTinyFolders(t *testing.T, folder string) {
	kvs, err := huggingface.Tokenizer(folder)
	if err != nil || len(kvs) == 0 {
		t.Fatal(err)
	}
	made := func(config map[string]any) string {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "onnx")); err != nil {
			t.Fatal(err)
		}
		writeJSON(t, filepath.Join(dir, "config.json"), config)
		return dir
	}
	config := map[string]any{"vocab_size": 4096, "max_position_embeddings": 64}

	js := made(config)
	tinyDecoder("past_key_values.0.key", "present.0.key", true).write(t, filepath.Join(js, "decoder_model_merged.onnx"))
	ai := made(config)
	if err := os.Remove(filepath.Join(ai, "config.json")); err != nil {
		t.Fatal(err)
	}
	writeJSON(t, filepath.Join(ai, "genai_config.json"), map[string]any{"model": map[string]any{
		"context_length": 64, "vocab_size": 4096, "decoder": map[string]any{"filename": "decoder.onnx",
			"inputs":  map[string]any{"past_key_names": "kept_%d_in"},
			"outputs": map[string]any{"present_key_names": "kept_%d_out"}}}})
	tinyDecoder("kept_0_in", "kept_0_out", false).write(t, filepath.Join(ai, "decoder.onnx"))
	for path, first := range map[string]int32{js: 0, ai: 1} {
		d, err := generate.OpenDecoder(t.Context(), path, generate.Options{Device: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		prompt := d.Tokenizer().Encode("func", tokenizer.Options{Whole: true})
		last := prompt[len(prompt)-1]
		var got []int32
		for token, err := range d.Generate(t.Context(), prompt, generate.Sampling{MaxTokens: 3}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, token.ID)
		}
		if want := []int32{last + first, last + first + 1, last + first + 2}; !slices.Equal(got, want) {
			t.Errorf("%s: tokens %v, want %v", path, got, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}

	encoder := &tinyModel{}
	encoder.input("input_ids", onnxInt64, "batch", "sequence")
	encoder.input("attention_mask", onnxInt64, "batch", "sequence")
	encoder.output("last_hidden_state", onnxFloat, "batch", "sequence", "2")
	encoder.ints("last", []int64{1}, -1)
	encoder.node("Unsqueeze", []string{"input_ids", "last"}, []string{"a"})
	encoder.node("Unsqueeze", []string{"attention_mask", "last"}, []string{"b"})
	encoder.node("Concat", []string{"a", "b"}, []string{"both"}, intAttribute("axis", -1))
	encoder.node("Cast", []string{"both"}, []string{"last_hidden_state"}, intAttribute("to", onnxFloat))
	dir := made(config)
	encoder.write(t, filepath.Join(dir, "model.onnx"))
	line := []string{"embed", "-m", dir, "--device", "cpu", "--normalize=false", "func main"}
	ids := strings.Fields(ok(t, "tokenize", "-m", gollama, "--ids", "func main").stdout)
	sum := 0.0
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		sum += float64(n)
	}
	for _, mode := range []string{"", "cls_token"} {
		want := sum / float64(len(ids))
		if mode != "" {
			want = 0
			if err := os.MkdirAll(filepath.Join(dir, "1_Pooling"), 0o777); err != nil {
				t.Fatal(err)
			}
			writeJSON(t, filepath.Join(dir, "1_Pooling", "config.json"), map[string]any{"pooling_mode_" + mode: true})
		}
		var info struct{ Embedding []float64 }
		if err := json.Unmarshal([]byte(ok(t, line...).stdout), &info); err != nil {
			t.Fatal(err)
		}
		if v := info.Embedding; len(v) != 2 || math.Abs(v[0]-want) > 1e-3 || v[1] != 1 {
			t.Errorf("pooling %q gives %v, want %v and 1", mode, v, want)
		}
	}

	classifier := &tinyModel{}
	classifier.input("input_ids", onnxInt64, "batch", "sequence")
	classifier.output("logits", onnxFloat, "batch", "3")
	classifier.ints("axis", []int64{1}, 1)
	classifier.ints("factors", []int64{1, 3}, 0, 1, -1)
	classifier.ints("zero", nil, 0)
	classifier.node("Mul", []string{"input_ids", "zero"}, []string{"zeros"})
	classifier.ints("one", nil, 1)
	classifier.node("Add", []string{"zeros", "one"}, []string{"ones"})
	classifier.node("ReduceSum", []string{"ones", "axis"}, []string{"count"})
	classifier.node("Mul", []string{"count", "factors"}, []string{"product"})
	classifier.node("Cast", []string{"product"}, []string{"logits"}, intAttribute("to", onnxFloat))
	dir = made(map[string]any{"id2label": map[string]string{"0": "none", "1": "long", "2": "short"}})
	classifier.write(t, filepath.Join(dir, "model.onnx"))
	has(t, ok(t, "run", dir, "--device", "cpu", "--text", "func main() {").stdout,
		"0.9933  long\n0.0067  none\n0.0000  short")
	has(t, ok(t, "run", dir, "--device", "cpu", "--input", "input_ids=[[5,6]]").stdout, "long", "none", "short")
	fails(t, exitUsage, []string{"run", gollama, "--text", "x"}, "--text is for a folder with an ONNX model")
}

func writeJSON(t *testing.T, path string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestONNXAdvice: free extents name the flags that bound them, and 64 bits the flag that halves them.
func TestONNXAdvice(t *testing.T) {
	m := &tinyModel{}
	m.input("x", 11, "N", "4") // float64
	m.output("y", 11, "N", "4")
	m.node("Exp", []string{"x"}, []string{"y"})
	path := filepath.Join(t.TempDir(), "model.onnx")
	m.write(t, path)
	line := []string{"run", path, "--device", "cpu", "--input", "x=[[0,0,0,0]]"}
	free := "N may be up to 512 in a run, by default: --bound N=N sets"
	wide := "1 op in f64 and 0 in i64: --narrow computes 1 of them in f32 and i32, which saves up to 8.0 KiB of memory"
	has(t, ok(t, line...).stderr, free, wide)
	if r := ok(t, append(line, "--bound", "N=8", "--narrow")...); strings.Contains(r.stderr, "--narrow") ||
		strings.Contains(r.stderr, "--bound") || !strings.Contains(r.stdout, "y  f64") {
		t.Errorf("prints %q and %q", r.stdout, r.stderr)
	}
	fails(t, exitUsage, []string{"run", gollama, "--narrow"}, "--narrow are for ONNX models")
}
