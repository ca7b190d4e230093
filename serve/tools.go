package serve

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/grammar"
	"github.com/vkc-go/vkc/internal/strictjson"
	"github.com/vkc-go/vkc/serve/reply"
)

// tools are the functions that an answer may call, from a request's tools and tool_choice.
type tools struct {
	forTemplate []any // as the template shows them
	callable    reply.Tools
	required    bool // the answer is a call
	strict      int  // the index of the first function that is strict, or -1
	single      bool // the answer ends after one call
}

// maxTools bounds the functions of a request, as the protocol does.
const maxTools = 128

// toolName matches the names of functions that the protocol allows.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// function is a tool in a request.
type function struct {
	Type     string
	Function struct {
		Name       string
		Parameters json.RawMessage
		Strict     bool
	}
}

// readTools reads tools, tool_choice and parallel_tool_calls. It returns nil if the model may not call tools.
func readTools(list, choice json.RawMessage, parallel *bool) (*tools, error) {
	wrong := func(param, format string, args ...any) (*tools, error) {
		return nil, refuse(http.StatusBadRequest, param, format, args...)
	}
	var functions []function
	if len(list) > 0 && json.Unmarshal(list, &functions) != nil || len(functions) > maxTools {
		return wrong("tools", "tools: want a list of at most %d functions", maxTools)
	}
	callable, err := callableOf(functions)
	if err != nil {
		return nil, err
	}
	t := &tools{callable: callable, single: parallel != nil && !*parallel}
	// A choice is a word or an object that names a function. Naming one means that a call of it alone is required.
	word, chosen := "", function{}
	switch {
	case len(choice) == 0 || string(choice) == "null":
		word = "auto"
	case json.Unmarshal(choice, &word) == nil:
	case json.Unmarshal(choice, &chosen) == nil:
		if i := toolNamed(t.callable, chosen.Function.Name); i >= 0 {
			t.callable, word = t.callable[i:i+1], "required"
		}
	}
	switch {
	case word == "none" || len(functions) == 0 && word == "auto":
		return nil, nil
	case word != "auto" && word != "required" || len(functions) == 0:
		return wrong("tool_choice", "tool_choice is %.80s: want none, auto, required or one of tools", choice)
	}
	t.required = word == "required"
	t.strict = slices.IndexFunc(functions, func(f function) bool { return f.Function.Strict })
	// The template gets all tools, as the client wrote them.
	v, err := chat.ParseJSON(list)
	if err != nil {
		return wrong("tools", "tools: %v", err)
	}
	t.forTemplate, _ = v.([]any)
	return t, nil
}

// callableOf returns the functions of a request as tools. It returns an error for a tool of another kind, and for a
// name that is invalid or occurs twice.
func callableOf(functions []function) (list reply.Tools, err error) {
	for i, f := range functions {
		name, params := f.Function.Name, f.Function.Parameters
		switch {
		case f.Type != "function":
			return nil, refuse(http.StatusBadRequest, "tools", "tools[%d] is of type %q: want function", i, f.Type)
		case !toolName.MatchString(name) || toolNamed(list, name) >= 0:
			return nil, refuse(http.StatusBadRequest, "tools",
				"tools[%d] has the name %.80q: want 1 to 64 letters, digits, _ and -, each name once", i, name)
		}
		if len(params) == 0 || string(params) == "null" {
			params = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}
		list = append(list, reply.Tool{Name: name, Parameters: params, Strict: f.Function.Strict})
	}
	return list, nil
}

// toolNamed returns the index of the tool with a name, or -1.
func toolNamed(list reply.Tools, name string) int {
	return slices.IndexFunc(list, func(t reply.Tool) bool { return t.Name == name })
}

// call is a call of a function.
type call struct {
	id, name  string
	arguments string // JSON
}

// MarshalJSON writes a call as the protocol has them.
func (c call) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"id": c.id, "type": "function",
		"function": map[string]any{"name": c.name, "arguments": c.arguments}})
}

// callID returns an id of a call: nine letters and digits, because the chat templates of Mistral's models take no
// other.
func callID() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	id := make([]byte, 9)
	for i := range id {
		id[i] = letters[rand.IntN(len(letters))]
	}
	return string(id)
}

// said collects the parts of an answer: its text, its reasoning and its calls.
type said struct {
	content, reasoning strings.Builder
	calls              []call
}

// add adds a part to the answer's text, reasoning or calls. A call gets an id when it begins.
func (s *said) add(p reply.Part) {
	switch p.Kind {
	case reply.Content:
		s.content.WriteString(p.Text)
	case reply.Reasoning:
		s.reasoning.WriteString(p.Text)
	case reply.CallStart:
		s.calls = append(s.calls, call{id: callID(), name: p.Text})
	case reply.Arguments:
		s.calls[len(s.calls)-1].arguments += p.Text
	}
}

// speller returns a function that turns a fixed text of the model's syntax for calls into text for a grammar. It
// replaces the names of special tokens by the grammar's symbols for these. It leaves out tokens that end an answer,
// because the end of the grammar's text ends the answer anyway.
func (s *Server) speller() func(string) string {
	tok := s.model.Tokenizer()
	var names []string
	for id := range int32(tok.Len()) {
		switch name := tok.Token(id); {
		case name == "" || !tok.IsSpecial(id):
		case tok.IsEnd(id): // the end of the grammar's text ends the answer anyway
			names = append(names, name, "")
		default:
			names = append(names, name, grammar.Token(name))
		}
	}
	return strings.NewReplacer(names...).Replace
}

// grammars caches the grammars of recent requests, so that equal ones share masks. Refused sources are cached too, so
// that they are not parsed again.
type grammars struct {
	mu     sync.Mutex
	recent []source // the most recently used one is last
}

// source is the source of a grammar with its parsed form or error.
type source struct {
	key     [sha256.Size]byte
	grammar *grammar.Grammar
	err     error
}

// maxGrammars is the number of cached grammars.
const maxGrammars = 16

// of returns the grammar of a source. It calls parse if the source is not cached.
func (g *grammars) of(text string, parse func() (*grammar.Grammar, error)) (*grammar.Grammar, error) {
	made := source{key: sha256.Sum256([]byte(text))}
	if !g.find(&made) {
		made.grammar, made.err = parse()
		if !g.find(&made) { // nor cached by a concurrent request
			g.mu.Lock()
			defer g.mu.Unlock()
			g.recent = append(g.recent, made)
			g.recent = slices.Clone(g.recent[max(0, len(g.recent)-maxGrammars):])
		}
	}
	return made.grammar, made.err
}

// find completes a source from the cache, if it is there.
func (g *grammars) find(s *source) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.recent, func(k source) bool { return k.key == s.key })
	if i < 0 {
		return false
	}
	*s = g.recent[i]
	g.recent = append(slices.Delete(g.recent, i, i+1), *s)
	return true
}

// schemaAliases reads the ways of llama.cpp and vLLM to ask for a JSON Schema.
func (q *request) schemaAliases() {
	list := []json.RawMessage{q.Schema, q.GuidedSchema}
	var structured struct {
		JSON json.RawMessage `json:"json"`
	}
	if json.Unmarshal(q.Structured, &structured) == nil {
		list = append(list, structured.JSON)
	}
	for _, schema := range list {
		if len(q.ResponseFormat) == 0 && len(schema) > 0 && schema[0] == '{' {
			q.ResponseFormat = encode(map[string]any{"type": "json_schema",
				"json_schema": map[string]any{"schema": schema}})
		}
	}
}

// grammarSource is a text from which a grammar is parsed.
type grammarSource struct {
	key   string // identifies the grammar among the ones that the server keeps; "" if there is none
	param string // parameter of the request that it comes from
	parse func() (*grammar.Grammar, error)
}

// constrain sets the grammar of a job, from response_format, grammar and tools. A schema or grammar constrains the
// answer, and not the reasoning before it.
//
// Unless the server or a function is strict, the grammar may leave out keywords of a schema that it cannot express. The
// answer is then tested against them at its end, and header Warnings lists them.
func (s *Server) constrain(w http.ResponseWriter, q *request, j *job) error {
	source, err := s.answerGrammar(q)
	if err != nil {
		return err
	}
	t := j.tools
	if t != nil {
		if source.key != "" {
			return refuse(http.StatusBadRequest, source.param, "%s together with tools: leave out one of "+
				"them", source.param)
		}
		if source, err = s.toolGrammar(j); err != nil {
			return err
		}
	}
	if source.key == "" {
		return nil
	}
	g, err := s.grammars.of(source.key, source.parse)
	switch {
	case err != nil && t != nil && !t.required && t.strict < 0: // no function is strict: calls come without a grammar
		return nil
	case err != nil:
		return refuse(http.StatusBadRequest, source.param, "%v", err)
	case t != nil && !t.required: // the grammar holds for each call, from the text that opens it on
		j.sampling.GrammarAfter, j.sampling.GrammarAgain = j.form.Open, true
	case j.thinking: // the grammar holds for the answer after the reasoning
		_, end := j.form.ThinkMarks()
		j.sampling.GrammarAfter = []string{end}
	}
	j.sampling.Grammar, j.trusted = g, t != nil && g != nil
	if g != nil && len(g.Unheld()) > 0 {
		j.check = g.Check
		w.Header().Add("Warnings", fmt.Sprintf("the schema can only be checked after the answer: %.900s",
			strings.Join(g.Unheld(), ", ")))
	}
	return nil
}

// answerGrammar returns the source of the grammar that response_format or grammar gives for the answer.
func (s *Server) answerGrammar(q *request) (source grammarSource, err error) {
	format := struct {
		Type   string `json:"type"`
		Schema *struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict"`
		} `json:"json_schema"`
	}{Type: "text"}
	q.schemaAliases()
	if len(q.ResponseFormat) > 0 && string(q.ResponseFormat) != "null" {
		if err := strictjson.Decode(q.ResponseFormat, &format); err != nil {
			return source, refuse(http.StatusBadRequest, "response_format", "response_format: %v", err)
		}
	}
	source.param = "response_format"
	switch {
	case format.Type == "json_object":
		source.key = "json_object"
		source.parse = func() (*grammar.Grammar, error) { return grammar.JSON(true), nil }
	case format.Type == "json_schema" && format.Schema != nil && len(format.Schema.Schema) > 0:
		source.key = "schema " + string(format.Schema.Schema)
		source.parse = func() (*grammar.Grammar, error) { return grammar.ParseSchemaPartly(format.Schema.Schema) }
		if s.o.StrictSchema {
			source.parse = func() (*grammar.Grammar, error) { return grammar.ParseSchema(format.Schema.Schema) }
		}
	case format.Type != "text":
		return source, refuse(http.StatusBadRequest, source.param, "response_format is %.80s: want text, json_object, "+
			"or json_schema with a schema", q.ResponseFormat)
	}
	if q.Grammar == "" {
		return source, nil
	}
	if source.key != "" {
		return source, refuse(http.StatusBadRequest, "grammar", "grammar and response_format: give one of them")
	}
	parse := func() (*grammar.Grammar, error) { return grammar.ParseGBNF(q.Grammar) }
	return grammarSource{"gbnf " + q.Grammar, "grammar", parse}, nil
}

// toolGrammar returns the source of the grammar for calls of a job's tools. If a call is required, it sets j.form to
// the form of an answer that the grammar constrains from its start: see reply.Form.Forced.
func (s *Server) toolGrammar(j *job) (source grammarSource, err error) {
	t := j.tools
	for i := range t.callable {
		t.callable[i].Strict = t.callable[i].Strict || s.o.StrictSchema
	}
	form, opened := j.form, !t.required
	if t.required {
		j.form = form.Forced()
	} else if t.strict >= 0 && form.Forced() != form {
		return source, refuse(http.StatusBadRequest, "tools", "tools[%d] is strict, but there is no grammar for the "+
			"calls of this model (form %s): leave out strict, or set tool_choice to required", t.strict, form.Name)
	}
	parse := func() (*grammar.Grammar, error) { return form.Grammar(t.callable, opened, s.speller()) }
	return grammarSource{fmt.Sprint("tools ", form.Name, opened, t.callable), "tools", parse}, nil
}
