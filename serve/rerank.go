package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

// ranker is an embedding model with a head that rates documents for a query (a cross-encoder), such as a
// [generate.Embedder] of such a model.
type ranker interface {
	Ranks() bool // whether the model has such a head
	// Pair returns the tokens of a query together with a document, and Rank rates them.
	Pair(query, document string) []int32
	Rank(ctx context.Context, pair []int32) (score float32, err error)
}

// rerankRequest is the JSON of POST /v1/rerank.
type rerankRequest struct {
	Model     string            `json:"model"`
	Query     string            `json:"query"`
	Documents []json.RawMessage `json:"documents"` // each a text, or an object with a text
	Most      *int              `json:"top_n"`     // how many results; all by default
	WithTexts bool              `json:"return_documents"`
}

// rerank answers POST /v1/rerank: documents in the order of their relevance for a query. A cross-encoder rates each
// document together with the query. Another embedding model rates it by the cosine of both vectors, and the answer
// says so in field method.
func (s *Server) rerank(w http.ResponseWriter, r *http.Request) error {
	var q rerankRequest
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	switch {
	case q.Model != "" && s.o.StrictModel && q.Model != s.o.Name:
		return refuse(http.StatusNotFound, "model", "there is no model %q here: want %q", q.Model, s.o.Name)
	case s.embedder == nil:
		return refuse(http.StatusBadRequest, "model", "model %q generates text and does not rate documents: want an "+
			"embedding model, or a cross-encoder", s.o.Name)
	case q.Query == "":
		return refuse(http.StatusBadRequest, "query", "query is missing or empty: want a text")
	case len(q.Documents) == 0 || len(q.Documents) > maxInputs:
		return refuse(http.StatusBadRequest, "documents", "documents has %d texts: want 1 to %d", len(q.Documents),
			maxInputs)
	case q.Most != nil && *q.Most < 1:
		return refuse(http.StatusBadRequest, "top_n", "top_n is %d: want at least 1", *q.Most)
	}
	texts, err := q.texts()
	if err != nil {
		return err
	}
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	done, err := s.takeEmbeddingSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	method, total, scores, err := s.rate(ctx, q.Query, texts)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	a := answer{w: w, writeTimeout: s.o.WriteTimeout}
	a.extendDeadline()
	writeJSON(w, http.StatusOK, map[string]any{"id": newID("rerank"), "object": "list", "model": s.o.Name,
		"method": method, "results": q.results(texts, scores),
		"usage": map[string]int{"prompt_tokens": total, "total_tokens": total}})
	return nil
}

// texts returns the texts of the documents. A document is a JSON string, or an object with the field text.
func (q *rerankRequest) texts() ([]string, error) {
	texts := make([]string, len(q.Documents))
	for i, d := range q.Documents {
		if string(d) != "null" && json.Unmarshal(d, &texts[i]) == nil {
			continue
		}
		object := struct{ Text *string }{}
		if json.Unmarshal(d, &object) != nil || object.Text == nil {
			return nil, refuse(http.StatusBadRequest, fmt.Sprintf("documents[%d]", i),
				"documents[%d] is %.40s: want a text, or {\"text\": TEXT}", i, d)
		}
		texts[i] = *object.Text
	}
	return texts, nil
}

// results returns the answer's list of documents, the most relevant first.
func (q *rerankRequest) results(texts []string, scores []float32) []any {
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	if q.Most != nil {
		order = order[:min(*q.Most, len(order))]
	}
	results := []any{}
	for _, i := range order {
		one := map[string]any{"index": i, "relevance_score": scores[i]}
		if q.WithTexts {
			one["document"] = map[string]string{"text": texts[i]}
		}
		results = append(results, one)
	}
	return results
}

// ranks reports whether the model is a cross-encoder.
func (s *Server) ranks() bool {
	m, ok := s.embedder.(ranker)
	return ok && m.Ranks()
}

// rate returns the relevance of documents for a query, how it was computed, and the number of tokens.
func (s *Server) rate(ctx context.Context, query string, documents []string) (method string, total int,
	scores []float32, err error) {
	if s.ranks() {
		total, scores, err = s.crossEncoded(ctx, query, documents)
		return "cross-encoder", total, scores, err
	}
	total, scores, err = s.cosines(ctx, query, documents)
	return "cosine of embeddings", total, scores, err
}

// crossEncoded returns the ratings of documents by a cross-encoder, which reads each together with the query. total is
// the number of tokens.
func (s *Server) crossEncoded(ctx context.Context, query string, documents []string) (total int, scores []float32,
	err error) {
	m := s.embedder.(ranker)
	scores = make([]float32, len(documents))
	for i, d := range documents {
		pair := m.Pair(query, d)
		if err := s.checkInput(pair, fmt.Sprintf("documents[%d] with the query", i)); err != nil {
			return 0, nil, err
		}
		total += len(pair)
		if scores[i], err = m.Rank(ctx, pair); err != nil {
			return 0, nil, err
		}
	}
	return total, scores, nil
}

// cosines returns the cosine of the angle between the embeddings of each document and of the query. total is the number
// of tokens.
func (s *Server) cosines(ctx context.Context, query string, documents []string) (total int, scores []float32,
	err error) {
	embed := func(text, where string) ([]float32, error) {
		tokens := s.embedder.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
		if err := s.checkInput(tokens, where); err != nil {
			return nil, err
		}
		total += len(tokens)
		v, err := s.embedder.Embed(ctx, tokens)
		return generate.Unit(v), err
	}
	asked, err := embed(query, "query")
	if err != nil {
		return 0, nil, err
	}
	scores = make([]float32, len(documents))
	for i, d := range documents {
		v, err := embed(d, fmt.Sprintf("documents[%d]", i))
		if err != nil {
			return 0, nil, err
		}
		for k, x := range v {
			scores[i] += float32(x * asked[k]) // both have length 1; the conversion prevents a fused multiply-add
		}
	}
	return total, scores, nil
}

// checkInput returns an error if a text is empty or longer than the model's context. where names it in the request.
func (s *Server) checkInput(tokens []int32, where string) error {
	if n := len(tokens); n == 0 || n > s.embedder.Context() {
		return refuse(http.StatusBadRequest, where, "%s has %d tokens: want 1 to %d", where, n, s.embedder.Context())
	}
	return nil
}
