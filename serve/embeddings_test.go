package serve_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/serve"
)

// counter is an embedder whose vectors contain the number of tokens.
type counter struct{ *echo }

func (c counter) Embed(_ context.Context, tokens []int32) ([]float32, error) {
	if c.failing {
		return nil, errors.New("the device is lost")
	}
	return []float32{3 * float32(len(tokens)), 4 * float32(len(tokens)), 12 * float32(len(tokens))}, nil
}

type embeddings struct {
	Object, Model string
	Data          []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func TestEmbeddings(t *testing.T) {
	e := counter{newEcho(t)}
	server := httptest.NewServer(serve.NewEmbeddings(e, serve.Options{Name: "vectors"}))
	defer server.Close()
	url := server.URL
	ask := func(fields string) (r embeddings) {
		t.Helper()
		status, body := post(t, url+"/v1/embeddings", `{"model": "vectors", `+fields+`}`)
		err := json.Unmarshal([]byte(body), &r)
		if status != 200 || err != nil || r.Object != "list" || r.Model != "vectors" {
			t.Fatalf("%s: status %d, %v\n%s", fields, status, err, body)
		}
		return r
	}
	for input, want := range map[string]struct{ texts, tokens int }{
		`"func"`: {1, 0}, `["func", "main() {\n"]`: {2, 0}, `[1, 2, 3]`: {1, 3}, `[[1, 2], [3], "func"]`: {3, 0},
	} {
		r := ask(`"input": ` + input)
		if len(r.Data) != want.texts || r.Usage.Total != r.Usage.Prompt || r.Usage.Total < want.tokens+1-want.texts {
			t.Errorf("%s: %+v", input, r)
		}
		for i, d := range r.Data {
			var v []float64
			err := json.Unmarshal(d.Embedding, &v)
			if err != nil || d.Index != i || d.Object != "embedding" || len(v) != 3 ||
				math.Abs(v[0]-3./13) > 1e-6 {
				t.Errorf("%s: %+v, %v", input, d, err)
			}
		}
	}
	short := ask(`"input": "func", "dimensions": 2, "encoding_format": "float"`).Data[0].Embedding
	if string(short) != "[0.6,0.8]" {
		t.Errorf("two dimensions are %s", short)
	}
	var text string
	if err := json.Unmarshal(ask(`"input": "func", "encoding_format": "base64"`).Data[0].Embedding, &text); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != 12 || math.Float32frombits(binary.LittleEndian.Uint32(raw[8:])) != float32(12./13) {
		t.Errorf("base64 %q: %v", raw, err)
	}
}

func TestEmbeddingsRefuse(t *testing.T) {
	e := counter{newEcho(t)}
	server := httptest.NewServer(serve.NewEmbeddings(e, serve.Options{}))
	defer server.Close()
	url := server.URL
	many := strings.TrimSuffix(strings.Repeat(`"x",`, 2049), ",")
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/embeddings", `{}`, 400, "input has 0 texts"},
		{"/v1/embeddings", `{"input": []}`, 400, "input has 0 texts"},
		{"/v1/embeddings", `{"input": null}`, 400, "input has 0 texts"},
		{"/v1/embeddings", `{"input": [` + many + `]}`, 400, "input has 2049 texts"},
		{"/v1/embeddings", `{"input": ["x", 3]}`, 400, "input[1] is 3: want a text"},
		{"/v1/embeddings", `{"input": [[1], [99999]]}`, 400, "token 0 of input[1] is 99999: want 0 to "},
		{"/v1/embeddings", `{"input": [[]]}`, 400, "input[0] has 0 tokens"},
		{"/v1/embeddings", `{"input": "` + strings.Repeat("func ", 80) + `"}`, 400, "want 1 to 64"},
		{"/v1/embeddings", `{"input": "x", "model": "other"}`, 404, "no model"},
		{"/v1/embeddings", `{"input": "x", "encoding_format": "int8"}`, 400, "want float or base64"},
		{"/v1/embeddings", `{"input": "x", "dimensions": 4}`, 400, "want 1 to 3"},
		{"/v1/completions", `{"prompt": "x"}`, 400, "use /v1/embeddings"},
		{"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}]}`, 400, "use /v1/embeddings"},
	} {
		if status, body := post(t, url+tt.path, tt.body); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %.60s: status %d, %s; want %d, %q", tt.path, tt.body, status, body, tt.status, tt.want)
		}
	}
	e.failing = true
	if status, body := post(t, url+"/v1/embeddings", `{"input": "x"}`); status != 500 || !strings.Contains(body, "lost") {
		t.Errorf("status %d, %s", status, body)
	}
	text := start(t, newEcho(t), serve.Options{})
	if status, body := post(t, text.URL+"/v1/embeddings", `{"input": "x"}`); status != 400 ||
		!strings.Contains(body, "no embeddings") {
		t.Errorf("status %d, %s", status, body)
	}
}

// letters is an embedder whose vectors count the tokens of a text.
type letters struct{ *echo }

func (letters) Embed(_ context.Context, tokens []int32) ([]float32, error) {
	v := make([]float32, 8)
	for _, id := range tokens {
		v[id%8]++
	}
	return v, nil
}

// judge is a cross-encoder that likes long documents.
type judge struct{ letters }

func (judge) Ranks() bool { return true }

func (j judge) Pair(query, document string) []int32 {
	return j.tok.Encode(query+document, tokenizer.Options{})
}

func (judge) Rank(_ context.Context, pair []int32) (float32, error) { return float32(len(pair)), nil }

// TestRerank: documents are sorted by a cross-encoder's head or, plainly said, by the cosine of their vectors.
func TestRerank(t *testing.T) {
	cosine := httptest.NewServer(serve.NewEmbeddings(letters{newEcho(t)}, serve.Options{Name: "vectors"}))
	defer cosine.Close()
	cross := httptest.NewServer(serve.NewEmbeddings(judge{letters{newEcho(t)}}, serve.Options{Name: "judge"}))
	defer cross.Close()
	for _, c := range []struct{ url, body, want string }{
		{cosine.URL, `{"query": "func", "documents": ["return error", "func", {"text": "func func x"}]}`,
			"[1 2 0] cosine of embeddings"},
		{cosine.URL, `{"query": "func", "documents": ["return error", "func"], "top_n": 1, "return_documents": true}`,
			"[1] cosine of embeddings"},
		{cross.URL, `{"query": "x", "documents": ["a", "a b c d", "a b"], "top_n": 9}`, "[1 2 0] cross-encoder"},
	} {
		for _, path := range []string{"/v1/rerank", "/rerank", "/reranking"} {
			status, body := post(t, c.url+path, c.body)
			var order []any
			results, _ := get1(t, body, "results").([]any)
			for i := range results {
				order = append(order, get1(t, body, fmt.Sprintf("results/%d/index", i)))
			}
			if got := fmt.Sprint(order, " ", get1(t, body, "method")); status != 200 || got != c.want {
				t.Errorf("%s: %d %s, want %s", c.body, status, body, c.want)
			}
			text := get1(t, body, "results/0/document/text")
			if wants := strings.Contains(c.body, "return_documents"); wants != (text == "func") {
				t.Errorf("%s: the document is %v", c.body, text)
			}
		}
	}
	for _, c := range []struct{ body, param string }{
		{`{"documents": ["x"]}`, "query"}, {`{"query": "x"}`, "documents"}, {`{"query": "x", "documents": [5]}`, "documents[0]"},
		{`{"query": "x", "documents": [null]}`, "documents[0]"},
		{`{"query": "x", "documents": ["x"], "top_n": 0}`, "top_n"},
		{`{"query": "x", "documents": ["` + strings.Repeat("x = ", 100) + `"]}`, "documents[0]"},
	} {
		status, body := post(t, cosine.URL+"/rerank", c.body)
		if status != 400 || parse(t, body).Error.Param != c.param {
			t.Errorf("%.60s: %d %s, want field %s", c.body, status, body, c.param)
		}
	}
	status, body := post(t, cross.URL+"/v1/embeddings", `{"input": "x"}`)
	if status != 400 || !strings.Contains(body, "rerank") {
		t.Errorf("embeddings of a cross-encoder: %d %s", status, body)
	}
	text := start(t, newEcho(t), serve.Options{})
	if status, body := post(t, text.URL+"/rerank", `{"query": "x", "documents": ["x"]}`); status != 400 {
		t.Errorf("a model of texts: %d %s", status, body)
	}
}
