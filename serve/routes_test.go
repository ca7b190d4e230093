package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// get1 reads one value of a JSON object by its path, such as a/b.
func get1(t testing.TB, body, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for name := range strings.SplitSeq(path, "/") {
		switch at := v.(type) {
		case map[string]any:
			if name != "" {
				v = at[name]
			}
		case []any:
			var i int
			if fmt.Sscan(name, &i); i >= len(at) {
				return nil
			}
			v = at[i]
		}
	}
	return v
}

// TestOpenAPI: the description has exactly the routes of the guide, each answers at its path, and none is missing.
func TestOpenAPI(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{})
	status, body := get(t, s.URL+"/openapi.json")
	var file struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary string
			Request *struct {
				Content map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			} `json:"requestBody"`
		}
	}
	if err := json.Unmarshal([]byte(body), &file); err != nil || status != 200 || file.OpenAPI != "3.1.0" {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	guide, err := os.ReadFile("../docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for path, methods := range file.Paths {
		paths = append(paths, path)
		for method, o := range methods {
			if o.Summary == "" || (method == "post") != (o.Request != nil) {
				t.Errorf("%s %s: %+v", method, path, o)
			}
			url := s.URL + strings.NewReplacer("{name}", "model", "{id}", "0").Replace(path)
			status := 0
			if method == "post" {
				status, body = post(t, url, "{}")
				kind := "application/json"
				if strings.Contains(path, "/audio/") {
					kind = "multipart/form-data"
				}
				if p := o.Request.Content[kind].Schema.Properties; len(p) == 0 {
					t.Errorf("%s: a body without fields", path)
				}
			} else {
				status, body = get(t, url)
			}
			if status == 405 || status == 404 || status >= 500 && status != 501 {
				t.Errorf("%s %s: %d %s", method, path, status, body)
			}
		}
	}
	var rows []string
	row := regexp.MustCompile("(?m)^\\|((?: *`/[^`]*`,?)+) *\\|")
	for _, row := range row.FindAllStringSubmatch(string(guide), -1) {
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			rows = append(rows, name[1])
		}
	}
	rows = slices.DeleteFunc(rows, func(path string) bool { return path == "/health" || path == "/ready" })
	slices.Sort(rows)
	if slices.Sort(paths); !slices.Equal(paths, rows) {
		t.Errorf("the description has %v\nthe guide %v", paths, rows)
	}
	p := file.Paths["/completion"]["post"].Request.Content["application/json"].Schema.Properties
	if p["n_predict"] == nil || p["input_prefix"] == nil {
		t.Errorf("fields of /completion: %v", p)
	}
}

// TestPlainCompletion: llama.cpp's form of completions, with its fields, its defaults and its streams.
func TestPlainCompletion(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo"})
	for _, c := range []struct{ body, path, want string }{
		{`{"prompt": "func main", "n_predict": 4}`, "content", "func mainfunc main"},
		{`{"prompt": "func main", "n_predict": 4}`, "stop_type", "limit"},
		{`{"prompt": "func main", "n_predict": 4}`, "tokens_predicted", "4"},
		{`{"prompt": "func main", "n_predict": 4}`, "tokens", "[]"},
		{`{"prompt": "func main", "n_predict": 2, "return_tokens": true}`, "tokens/0", "339"},
		{`{"prompt": "func main", "stop": ["inf"]}`, "stopping_word", "inf"},
		{`{"prompt": "func main", "stop": ["inf"]}`, "content", "func ma"},
		{`{"prompt": ["func", "main"], "n_predict": 1}`, "1/content", "main"},
		{`{"prompt": ["func", "main"], "n_predict": 1}`, "1/index", "1"},
		{`{"prompt": [339, " main"], "n_predict": 2}`, "content", "func main"},
		{`{"prompt": [[339], [339, 339]], "n_predict": 1}`, "1/tokens_evaluated", "2"},
		{`{"prompt": "func main", "n_predict": 0}`, "content", ""},
		{`{"prompt": "x", "n_predict": 1}`, "generation_settings/temperature", "0.8"},
		{`{"prompt": "x", "n_predict": 1, "temperature": 0}`, "generation_settings/temperature", "0"},
		{`{"prompt": "x", "n_predict": 1, "top_k": null}`, "generation_settings/top_k", "40"},
		{`{"prompt": "x", "n_predict": 1, "seed": 5}`, "generation_settings/seed", "5"},
		{`{"prompt": "x", "n_predict": 1, "seed": 5, "response_fields": ["content", "generation_settings/seed", "no/such"]}`,
			"", "map[content:x seed:5]"},
		{`{"prompt": "x", "n_predict": -1, "stream": false}`, "truncated", "true"},
	} {
		status, body := post(t, s.URL+"/completion", c.body)
		if status != 200 {
			t.Fatalf("%s: %d %s", c.body, status, body)
		}
		if got := fmt.Sprint(get1(t, body, c.path)); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.body, c.path, got, c.want)
		}
	}
	_, body := post(t, s.URL+"/completion", `{"prompt": "func main", "n_predict": 4, "stream": true, "return_tokens": true}`)
	text, last := "", ""
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			text, last = text+fmt.Sprint(get1(t, data, "content")), data
		}
	}
	if text != "func mainfunc main" || get1(t, last, "stop") != true || get1(t, last, "stop_type") != "limit" {
		t.Errorf("streamed %q, at last %s", text, last)
	}
	for _, c := range []struct{ body, say string }{
		{`{}`, "prompt is"}, {`{"prompt": []}`, "0 texts"}, {`{"prompt": {"x": 1}}`, "want a text"},
		{`{"prompt": "x", "messages": []}`, "messages"}, {`{"prompt": [99999999]}`, "99999999"},
		{`{"prompt": "x", "n_probs": 21}`, "n_probs is 21"}, {`{"prompt": "x", "grammar": "root ::= x"}`, "no rule"},
	} {
		if status, body := post(t, s.URL+"/completion", c.body); status != 400 || !strings.Contains(body, c.say) {
			t.Errorf("%s: %d %s, want 400, %s", c.body, status, body, c.say)
		}
	}
}

// middle is a model with tokens for fill-in-the-middle. It keeps its last prompt.
type middle struct {
	*echo
	prompt []int32
}

func (m *middle) Generate(ctx context.Context, prompt []int32, s generate.Sampling) iter.Seq2[generate.Token, error] {
	m.prompt = slices.Clone(prompt)
	return func(yield func(generate.Token, error) bool) {
		for _, id := range []int32{339, 10, 339} { // the second is the mark of a file, which ends the answer
			if !yield(generate.Token{ID: id, Text: m.tok.Decode([]int32{id})}, nil) {
				return
			}
		}
	}
}

// TestInfill: the parts of the prompt, what is left out where it is too long, and the end of the answer.
func TestInfill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "middle.gguf")
	var marks []gguf.KV
	for i, name := range []string{"pre", "suf", "mid", "rep", "sep"} {
		marks = append(marks, gguf.KV{Key: "tokenizer.ggml.fim_" + name + "_token_id", Value: uint32(6 + i)})
	}
	if err := gguf.Edit(gollama, path, marks...); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{echo: newEcho(t)}
	m.tok = tok
	s := start(t, m, serve.Options{})
	text := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{}) }
	join := func(parts ...[]int32) []int32 { return slices.Concat(parts...) }
	var begin []int32
	if whole := tok.Encode("x", tokenizer.Options{Whole: true}); len(whole) > len(text("x")) {
		begin = whole[:1]
	}
	long := strings.Repeat(" x", 60)
	for _, c := range []struct {
		body string
		want []int32
	}{
		{`{"input_prefix": "func ", "input_suffix": "}", "prompt": "main"}`,
			join(begin, []int32{6}, text("func main"), []int32{7}, text("}"), []int32{8})},
		{`{"input_prefix": "func", "input_suffix": "", "input_extra": [{"filename": "a.go", "text": "var"}]}`,
			join(begin, []int32{9}, text("repository\n"), []int32{10}, text("a.go\nvar\n"), []int32{10}, text("file\n"),
				[]int32{6}, text("func"), []int32{7, 8})},
		{`{"input_prefix": "` + long + `", "input_suffix": "` + long + `", "n_predict": 20}`, nil},
	} {
		status, body := post(t, s.URL+"/infill", c.body)
		if status != 200 || get1(t, body, "content") != "func" || get1(t, body, "stop_type") != "eos" {
			t.Errorf("%.60s: %d %s", c.body, status, body)
		}
		if c.want != nil && !slices.Equal(m.prompt, c.want) {
			t.Errorf("%.60s: the prompt is %v, want %v", c.body, m.prompt, c.want)
		}
		if c.want == nil && (len(m.prompt)+20 > 64 || len(m.prompt) < 40 || m.prompt[len(m.prompt)-1] != 8) {
			t.Errorf("a long one: %v", m.prompt)
		}
	}
	plain := start(t, newEcho(t), serve.Options{})
	if status, body := post(t, plain.URL+"/infill", `{"input_prefix": "x"}`); status != 400 ||
		!strings.Contains(body, "fill-in-the-middle") {
		t.Errorf("a model without marks: %d %s", status, body)
	}
}

// TestTokenizeForms: vLLM's and llama.cpp's forms have their own defaults.
func TestTokenizeForms(t *testing.T) {
	e := newEcho(t)
	s := start(t, e, serve.Options{})
	eos, _ := e.tok.EOS()
	mark := e.tok.Token(eos)
	for _, c := range []struct {
		body string
		want int
	}{
		{`{"prompt": "func main"}`, 3}, {`{"content": "func main"}`, 2}, {`{"content": "func main", "add_special": true}`, 3},
		{`{"prompt": "func main", "add_special_tokens": false}`, 2}, {`{"content": "` + mark + `"}`, 1},
		{`{"content": "func main", "with_pieces": true}`, 2},
	} {
		_, body := post(t, s.URL+"/tokenize", c.body)
		list, _ := get1(t, body, "tokens").([]any)
		if len(list) != c.want {
			t.Errorf("%s: %s, want %d tokens", c.body, body, c.want)
		}
		if strings.Contains(c.body, "pieces") && get1(t, body, "tokens/0/piece") != "func" {
			t.Errorf("%s: %s", c.body, body)
		}
	}
	_, body := post(t, s.URL+"/tokenize", `{"content": "`+mark+`", "parse_special": false}`)
	if list, _ := get1(t, body, "tokens").([]any); len(list) < 2 {
		t.Errorf("a user's text names a special token: %s", body)
	}
	if _, body := post(t, s.URL+"/apply-template", `{"messages": [{"role": "user", "content": "hi"}]}`); body != `{"prompt":"<s>hi"}`+"\n" {
		t.Errorf("%s", body)
	}
	if _, body := get(t, s.URL+"/props"); get1(t, body, "total_slots") != 1.0 ||
		get1(t, body, "default_generation_settings/n_ctx") != 64.0 || get1(t, body, "eos_token") != mark ||
		get1(t, body, "default_generation_settings/params/temperature") != 0.8 {
		t.Errorf("%s", body)
	}
}

// slotModel has two slots in memory.
type slotModel struct {
	*echo
	held [2]string
}

func (m *slotModel) Slots() (list []generate.SlotInfo) {
	for _, text := range m.held {
		list = append(list, generate.SlotInfo{Tokens: len(text)})
	}
	return list
}

func (m *slotModel) SaveSlot(_ context.Context, index int, w io.Writer) (int, error) {
	return io.WriteString(w, m.held[index])
}

func (m *slotModel) RestoreSlot(_ context.Context, index int, r io.Reader) (int, error) {
	data, err := io.ReadAll(r)
	m.held[index] = string(data)
	return len(data), err
}

func (m *slotModel) EraseSlot(_ context.Context, index int) (int, error) {
	n := len(m.held[index])
	m.held[index] = ""
	return n, nil
}

// TestSlots saves and restores slots, and refuses names that leave the directory.
func TestSlots(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "slots")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	m := &slotModel{echo: newEcho(t), held: [2]string{"first", ""}}
	s := start(t, m, serve.Options{Slots: dir})
	status, body := post(t, s.URL+"/slots/0?action=save", `{"filename": "a-1.bin"}`)
	if status != 200 || get1(t, body, "n_saved") != 5.0 || get1(t, body, "n_written") != 5.0 {
		t.Errorf("save: %d %s", status, body)
	}
	status, body = post(t, s.URL+"/slots/1?action=restore", `{"filename": "a-1.bin"}`)
	if status != 200 || get1(t, body, "n_restored") != 5.0 || m.held[1] != "first" {
		t.Errorf("restore: %d %s, %v", status, body, m.held)
	}
	if status, body = post(t, s.URL+"/slots/0?action=erase", ""); status != 200 || get1(t, body, "n_erased") != 5.0 {
		t.Errorf("erase: %d %s", status, body)
	}
	if _, body = get(t, s.URL+"/slots"); get1(t, body, "1/n_tokens") != 5.0 || get1(t, body, "0/n_tokens") != 0.0 {
		t.Errorf("slots: %s", body)
	}
	for _, name := range []string{"", ".", "..", "../secret", "a/b", `a\\b`, ".hidden", "link", "x\\u0000", "C:x", "a.",
		"é", strings.Repeat("x", 101), "none"} {
		status, body := post(t, s.URL+"/slots/0?action=restore", `{"filename": "`+name+`"}`)
		if status < 400 || m.held[0] != "" || strings.Contains(body, "secret\"") {
			t.Errorf("restore %q: %d %s, %v", name, status, body, m.held)
		}
		if name != "none" && name != "link" {
			if status, body := post(t, s.URL+"/slots/1?action=save", `{"filename": "`+name+`"}`); status != 400 {
				t.Errorf("save %q: %d %s", name, status, body)
			}
		}
	}
	if status, body := post(t, s.URL+"/slots/1?action=save", `{"filename": "link"}`); status != 200 {
		t.Errorf("a name that was a link: %d %s", status, body)
	}
	if data, err := os.ReadFile(outside); string(data) != "secret" || err != nil {
		t.Errorf("the file outside is %q, %v", data, err)
	}
	for _, path := range []string{"/slots/2?action=save", "/slots/x?action=save", "/slots/0?action=eat", "/slots/0"} {
		if status, body := post(t, s.URL+path, `{"filename": "a"}`); status != 400 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := post(t, start(t, m, serve.Options{}).URL+"/slots/1?action=save", `{"filename": "a"}`); status != 501 {
		t.Errorf("without a directory: %d %s", status, body)
	}
}

// TestOrigins: pages of the given origins may read answers after a preflight request, and no others. Hosts are known.
func TestOrigins(t *testing.T) {
	o := serve.Options{Origins: []string{"https://app.example"}, Hosts: []string{"host.docker.internal"}}
	s, any := start(t, newEcho(t), o), start(t, newEcho(t), serve.Options{Origins: []string{"*"}})
	ask := func(url, method, origin, host string) (int, http.Header) {
		t.Helper()
		r, err := http.NewRequest(method, url+"/v1/completions", strings.NewReader(`{"prompt": "x", "max_tokens": 1}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode, res.Header
	}
	for _, c := range []struct {
		url, method, origin, host string
		status                    int
		allowed                   string
	}{
		{s.URL, "OPTIONS", "https://app.example", "", 204, "https://app.example"},
		{s.URL, "POST", "https://app.example", "", 200, "https://app.example"},
		{s.URL, "OPTIONS", "https://other.example", "", 405, ""},
		{s.URL, "POST", "https://other.example", "", 200, ""}, // and the browser hides it
		{s.URL, "POST", "https://app.example", "evil.example", 403, "https://app.example"},
		{s.URL, "POST", "https://app.example", "host.docker.internal:8080", 200, "https://app.example"},
		{any.URL, "OPTIONS", "null", "", 204, "null"},
	} {
		status, h := ask(c.url, c.method, c.origin, c.host)
		if status != c.status || h.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%+v: %d %v", c, status, h)
		}
		if status == 204 && (h.Get("Access-Control-Allow-Headers") != "authorization,content-type" ||
			!strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST")) {
			t.Errorf("%+v: %v", c, h)
		}
	}
}
