package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

// Embedder makes vectors of texts: a [generate.Embedder].
type Embedder interface {
	Tokenizer() *tokenizer.Tokenizer
	Context() int // tokens that a text may have
	Embed(ctx context.Context, tokens []int32) ([]float32, error)
}

// NewEmbeddings returns a server for an embedding model, without text generation. It does not close the model.
func NewEmbeddings(e Embedder, o Options) *Server {
	s := New(textless{e, "this is an embedding model: use /v1/embeddings"}, o)
	s.embedder = e
	return s
}

// textless makes a Model of one that generates no text. It refuses requests for text.
type textless struct {
	vocabulary
	why string // generates no text, and what to do
}

// vocabulary is the part of a Model that models without text have too.
type vocabulary interface {
	Tokenizer() *tokenizer.Tokenizer
	Context() int
}

// Prompt implements Model.
func (m textless) Prompt(chat.Context) ([]int32, error) { return nil, errors.New(m.why) }

// Render implements Model.
func (m textless) Render(c chat.Context) (string, error) {
	_, err := m.Prompt(c)
	return "", err
}

// Parallel implements Model.
func (textless) Parallel() int { return 1 }

// Load implements Model.
func (textless) Load() generate.Load { return generate.Load{} }

// Reused implements Model.
func (textless) Reused() generate.Reused { return generate.Reused{} }

// DeviceBytes implements Model.
func (textless) DeviceBytes() uint64 { return 0 }

// ChatTemplate implements Model.
func (textless) ChatTemplate() string { return "" }

// Generate implements Model.
func (m textless) Generate(context.Context, []int32, generate.Sampling) iter.Seq2[generate.Token, error] {
	_, err := m.Prompt(chat.Context{})
	return func(yield func(generate.Token, error) bool) {
		yield(generate.Token{}, refuse(http.StatusBadRequest, "model", "%v", err))
	}
}

// Score implements Model.
func (m textless) Score(context.Context, []int32, int) ([]generate.Token, error) {
	_, err := m.Prompt(chat.Context{})
	return nil, refuse(http.StatusBadRequest, "model", "%v", err)
}

// maxInputs is the protocol's limit of texts in a request.
const maxInputs = 2048

// embeddingsRequest is the JSON of a request for embeddings.
type embeddingsRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`
}

// embeddings answers POST /v1/embeddings: vectors of length 1, in the order of the texts.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var q embeddingsRequest
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	switch {
	case q.Model != "" && q.Model != s.o.Name:
		return refuse(http.StatusNotFound, "model", "there is no model %q here: want %q", q.Model, s.o.Name)
	case s.embedder == nil:
		return refuse(http.StatusBadRequest, "model", "model %q generates text and makes no embeddings: want an "+
			"embedding model", s.o.Name)
	case s.ranks():
		return refuse(http.StatusBadRequest, "model", "model %q rates documents and makes no embeddings: use "+
			"/v1/rerank", s.o.Name)
	case q.EncodingFormat != "" && q.EncodingFormat != "float" && q.EncodingFormat != "base64":
		return refuse(http.StatusBadRequest, "encoding_format", "encoding_format is %q: want float or base64",
			q.EncodingFormat)
	}
	inputs, err := s.inputsOf(q.Input)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.o.Timeout, refuse(http.StatusGatewayTimeout, "",
		"the embeddings took longer than %v, the server's limit: send fewer texts", s.o.Timeout))
	defer cancel()
	done, err := s.takeEmbeddingSlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	data, total := []any{}, 0
	for i, tokens := range inputs {
		v, err := s.embed(ctx, tokens, q.Dimensions)
		if err != nil {
			return err
		}
		data = append(data, map[string]any{"object": "embedding", "index": i,
			"embedding": encoded(v, q.EncodingFormat)})
		total += len(tokens)
	}
	a := answer{w: w, writeTimeout: s.o.WriteTimeout}
	a.extendDeadline()
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "model": s.o.Name, "data": data,
		"usage": map[string]int{"prompt_tokens": total, "total_tokens": total}})
	return nil
}

// embed returns the vector of a text, cut to its first dimensions unless that is nil, and then scaled to length 1.
func (s *Server) embed(ctx context.Context, tokens []int32, dimensions *int) ([]float32, error) {
	v, err := s.embedder.Embed(ctx, tokens)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if dimensions != nil {
		if n := *dimensions; n < 1 || n > len(v) {
			return nil, refuse(http.StatusBadRequest, "dimensions", "dimensions is %d: want 1 to %d", n, len(v))
		}
		v = v[:*dimensions]
	}
	return generate.Unit(v), nil
}

// encoded returns a vector in the requested format: numbers, or base64 of little-endian f32.
func encoded(v []float32, format string) any {
	if format != "base64" {
		return v
	}
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// inputsOf reads a text, or the tokens of one, or a list of either.
func (s *Server) inputsOf(data json.RawMessage) ([][]int32, error) {
	list := []json.RawMessage{data}
	var many []json.RawMessage
	// A list that begins with a number is the tokens of a single text.
	if json.Unmarshal(data, &many) == nil && (len(many) == 0 || json.Unmarshal(many[0], new(int32)) != nil) {
		list = many
	}
	if len(data) == 0 || len(list) == 0 || len(list) > maxInputs {
		return nil, refuse(http.StatusBadRequest, "input", "input has %d texts: want 1 to %d", len(many), maxInputs)
	}
	all := make([][]int32, len(list))
	for i, one := range list {
		where := fmt.Sprintf("input[%d]", i)
		var text string
		if json.Unmarshal(one, &text) == nil && string(one) != "null" {
			all[i] = s.embedder.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
		} else if json.Unmarshal(one, &all[i]) != nil {
			return nil, refuse(http.StatusBadRequest, where, "%s is %.40s: want a text, or the tokens of one", where,
				one)
		} else if err := s.checkTokens(all[i], where); err != nil {
			return nil, err
		}
		if err := s.checkInput(all[i], where); err != nil {
			return nil, err
		}
	}
	return all, nil
}
