package serve

import (
	"net/http"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// tokenizeRequest is the JSON of POST /tokenize. prompt is vLLM's name of the text, and content llama.cpp's. Their
// defaults differ.
type tokenizeRequest struct {
	Prompt *string `json:"prompt"`
	// AddSpecialTokens adds the tokens that begin and end a text; by default true with prompt.
	AddSpecialTokens *bool   `json:"add_special_tokens"`
	Content          *string `json:"content"`
	AddSpecial       bool    `json:"add_special"`   // the same with content
	ParseSpecial     *bool   `json:"parse_special"` // names of special tokens are these; by default true with content
	WithPieces       bool    `json:"with_pieces"`   // tokens come with their text
}

// tokenize answers POST /tokenize.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var q tokenizeRequest
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	text, o := q.Prompt, tokenizer.Options{}
	switch {
	case q.Prompt != nil:
		o.Whole = q.AddSpecialTokens == nil || *q.AddSpecialTokens
	case q.Content != nil:
		text, o.Special = q.Content, true
		o.Whole = q.AddSpecial || q.AddSpecialTokens != nil && *q.AddSpecialTokens
	default:
		return refuse(http.StatusBadRequest, "prompt", "prompt is missing: want the text to tokenize")
	}
	if q.ParseSpecial != nil {
		o.Special = *q.ParseSpecial
	}
	tok := s.model.Tokenizer()
	ids := tok.Encode(*text, o)
	var tokens any = append([]int32{}, ids...)
	if q.WithPieces {
		list := []any{}
		for _, id := range ids {
			var piece any = tok.Piece(id)
			if text := tok.Piece(id); !utf8.ValidString(text) { // a part of a character
				piece = byteCodes(text)
			}
			list = append(list, map[string]any{"id": id, "piece": piece})
		}
		tokens = list
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": tokens, "count": len(ids), "max_model_len": s.model.Context()})
	return nil
}

// detokenizeRequest is the JSON of POST /detokenize.
type detokenizeRequest struct {
	Tokens []int32 `json:"tokens"`
}

// detokenize answers POST /detokenize. The answer has the text twice: as "prompt", as in vLLM, and as "content", as in
// llama.cpp.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var q detokenizeRequest
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	if q.Tokens == nil {
		return refuse(http.StatusBadRequest, "tokens", "tokens is missing: want a list of numbers")
	}
	if err := s.checkTokens(q.Tokens, "tokens"); err != nil {
		return err
	}
	text := s.model.Tokenizer().Decode(q.Tokens)
	writeJSON(w, http.StatusOK, map[string]any{"prompt": text, "content": text})
	return nil
}

// applyTemplate answers POST /apply-template: the prompt of a conversation, which takes the fields of
// chat/completions.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readRequest(w, r, "prompt", "echo", "best_of")
	if err != nil {
		return err
	}
	t, err := readTools(q.Tools, q.ToolChoice, q.Parallel)
	if err != nil {
		return err
	}
	c, _, err := s.talk(&q, t)
	if err != nil {
		return err
	}
	text, err := s.model.Render(c)
	if err != nil {
		return refuse(http.StatusBadRequest, "messages", "%v", err)
	}
	writeJSON(w, http.StatusOK, map[string]any{"prompt": text})
	return nil
}

// props answers GET /props: a description of the server and its model, with llama.cpp's fields.
func (s *Server) props(w http.ResponseWriter, _ *http.Request) error {
	tok := s.model.Tokenizer()
	name := func(id int32, ok bool) string {
		if !ok {
			return ""
		}
		return tok.Token(id)
	}
	var q plainRequest
	if err := readDefaults(&q, nil); err != nil {
		return err
	}
	j, err := q.job()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"default_generation_settings": map[string]any{"n_ctx": s.model.Context(), "params": settings(&j, false)},
		"total_slots":                 s.model.Parallel(), "model_alias": s.o.Name, "model_path": s.o.Name,
		"chat_template": s.model.ChatTemplate(), "bos_token": name(tok.BOS()), "eos_token": name(tok.EOS()),
		"modalities": map[string]bool{"vision": images(s.model) != nil, "audio": false}, "build_info": "vkc",
	})
	return nil
}
