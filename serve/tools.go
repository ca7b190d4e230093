package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/grammar"
)

// tools are the functions that an answer may call, from a request's tools and tool_choice.
type tools struct {
	forTemplate []any // as the template shows them
	names       []string
	params      map[string]json.RawMessage
	required    bool // tool_choice demands a call
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

// readTools reads tools and tool_choice. It returns nil if the model may not call tools.
func readTools(list, choice json.RawMessage) (*tools, error) {
	wrong := func(param, format string, args ...any) (*tools, error) {
		return nil, refuse(http.StatusBadRequest, param, format, args...)
	}
	var functions []function
	if len(list) > 0 && json.Unmarshal(list, &functions) != nil || len(functions) > maxTools {
		return wrong("tools", "tools: want a list of at most %d functions", maxTools)
	}
	t := &tools{params: map[string]json.RawMessage{}}
	for i, f := range functions {
		switch {
		case f.Type != "function":
			return wrong("tools", "tools[%d] is of type %q: want function", i, f.Type)
		case !toolName.MatchString(f.Function.Name) || t.params[f.Function.Name] != nil:
			return wrong("tools", "tools[%d] has the name %.80q: want 1 to 64 letters, digits, _ and -, each name once",
				i, f.Function.Name)
		}
		params := f.Function.Parameters
		if len(params) == 0 || string(params) == "null" {
			params = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
		}
		t.names = append(t.names, f.Function.Name)
		t.params[f.Function.Name] = params
	}
	named := function{}
	word := ""
	switch {
	case len(choice) == 0 || string(choice) == "null":
		word = "auto"
	case json.Unmarshal(choice, &word) == nil:
	case json.Unmarshal(choice, &named) == nil && t.params[named.Function.Name] != nil:
		t.names, word = []string{named.Function.Name}, "required"
	}
	switch {
	case word == "none" || len(functions) == 0 && word == "auto":
		return nil, nil
	case word != "auto" && word != "required" || len(functions) == 0:
		return wrong("tool_choice", "tool_choice is %.80s: want none, auto, required or one of tools", choice)
	}
	t.required = word == "required"
	strict := func(f function) bool { return f.Function.Strict }
	if i := slices.IndexFunc(functions, strict); i >= 0 && !t.required {
		return wrong("tools", "tools[%d] is strict, which holds where tool_choice is required or names a tool: "+
			"leave strict out, or say so", i)
	}
	v, err := chat.ParseJSON(list)
	if err != nil {
		return wrong("tools", "tools: %v", err)
	}
	t.forTemplate, _ = v.([]any)
	return t, nil
}

// callForm is the text format in which a kind of model writes function calls.
type callForm struct {
	mark          string // text in the chat templates that identifies such models
	before, after string // the text around a call's JSON
	arguments     string // the JSON key of the arguments
}

// callForms has the formats of Hermes and Qwen, of Mistral, and of Llama 3, which has no mark.
var callForms = []callForm{
	{"<tool_call>", "<tool_call>\n", "\n</tool_call>", "arguments"},
	{"[TOOL_CALLS]", "[", "]", "arguments"}, // the mark is a token without text
	{"", "", "", "parameters"},
}

// grammar is the grammar of an answer that must be a call.
func (t *tools) grammar(template string) (*grammar.Grammar, error) {
	form := callForms[slices.IndexFunc(callForms, func(f callForm) bool { return strings.Contains(template, f.mark) })]
	var functions []grammar.Function
	for _, name := range t.names {
		functions = append(functions, grammar.Function{Name: name, Parameters: t.params[name]})
	}
	return grammar.ParseCalls(form.before, functions, form.arguments, form.after)
}

// call is a call of a function.
type call struct {
	name      string
	arguments string // JSON
}

// MarshalJSON writes a call as the protocol has them.
func (c call) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"id": newID("call"), "type": "function",
		"function": map[string]any{"name": c.name, "arguments": c.arguments}})
}

// callMarks are the texts that begin a call in an answer.
var callMarks = []string{"<tool_call>", "[TOOL_CALLS]", "<|python_tag|>"}

// callReader separates the text of an answer, which arrives in pieces, into prose and calls.
type callReader struct {
	tools    *tools // nil without tools
	marks    stopper
	callText strings.Builder // text that may be calls
	inCall   bool
	sawProse bool // some prose was returned
}

func newCallReader(t *tools) *callReader {
	return &callReader{tools: t, marks: stopper{stopWords: callMarks}}
}

// next takes more text and returns the part that is certainly prose.
func (c *callReader) next(text string) (prose string) {
	if c.tools == nil {
		return text
	}
	if c.inCall {
		c.callText.WriteString(text)
		return ""
	}
	begin := strings.TrimLeft(c.marks.heldBack+text, " \t\r\n")
	if !c.sawProse && (begin == "" || begin[0] == '{' || begin[0] == '[') { // a call without a mark, as Llama 3 writes it
		c.marks.heldBack += text
		if begin != "" {
			c.startCall(c.marks.rest())
		}
		return ""
	}
	whole := c.marks.heldBack + text
	prose, found := c.marks.next(text)
	if found {
		c.startCall(whole[len(prose):])
	}
	c.sawProse = c.sawProse || prose != ""
	return prose
}

// startCall begins to collect text that may be calls.
func (c *callReader) startCall(text string) {
	c.inCall, c.marks.heldBack = true, ""
	c.callText.WriteString(text)
}

// end returns the calls at the end of an answer, or the rest of the prose if that text is no call.
func (c *callReader) end() (prose string, calls []call) {
	text := c.callText.String() + c.marks.rest()
	if c.tools == nil {
		return "", nil
	}
	if calls = c.tools.parse(text); calls == nil {
		return text, nil
	}
	return "", calls
}

// parse parses calls of listed functions. It returns nil if the text is anything else.
func (t *tools) parse(text string) (calls []call) {
	rest := strings.TrimSpace(text)
	for rest != "" {
		for _, mark := range callMarks {
			rest = strings.TrimSpace(strings.TrimPrefix(rest, mark))
		}
		name, inner, bracket := strings.Cut(rest, "[ARGS]") // a newer form of Mistral's
		if bracket && slices.Contains(t.names, name) {
			rest = inner
		} else {
			name = ""
		}
		d := json.NewDecoder(strings.NewReader(rest))
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil
		}
		rest = rest[d.InputOffset():]
		list := []json.RawMessage{value}
		if value[0] == '[' && json.Unmarshal(value, &list) != nil {
			return nil
		}
		for _, one := range list {
			c, ok := t.parseOne(name, one)
			if !ok {
				return nil
			}
			calls = append(calls, c)
		}
		rest = strings.TrimLeft(rest, " \t\r\n;")
		rest = strings.TrimSpace(strings.TrimPrefix(rest, "</tool_call>"))
	}
	return calls
}

// parseOne parses a call from JSON that has the name and the arguments, or only the arguments.
func (t *tools) parseOne(name string, value json.RawMessage) (c call, ok bool) {
	fields := struct {
		Name                  string
		Arguments, Parameters json.RawMessage
	}{Name: name, Arguments: value}
	if name == "" {
		fields.Arguments = nil
		if json.Unmarshal(value, &fields) != nil {
			return c, false
		}
	}
	given := fields.Arguments
	if given == nil {
		given = fields.Parameters
	}
	var text string
	if json.Unmarshal(given, &text) == nil {
		given = json.RawMessage(text)
	}
	var compact bytes.Buffer
	isObject := len(given) > 0 && given[0] == '{'
	if !isObject || !slices.Contains(t.names, fields.Name) || json.Compact(&compact, given) != nil {
		return c, false
	}
	return call{fields.Name, compact.String()}, true
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

// constrain returns the grammar that a request's answers must match, from response_format, grammar and tools; nil
// allows anything.
func (s *Server) constrain(q *request, t *tools) (*grammar.Grammar, error) {
	format := struct {
		Type   string `json:"type"`
		Schema *struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
			Strict      *bool           `json:"strict"`
		} `json:"json_schema"`
	}{Type: "text"}
	if len(q.ResponseFormat) > 0 && string(q.ResponseFormat) != "null" {
		d := json.NewDecoder(bytes.NewReader(q.ResponseFormat))
		d.DisallowUnknownFields()
		if err := d.Decode(&format); err != nil {
			return nil, refuse(http.StatusBadRequest, "response_format", "response_format: %v", err)
		}
	}
	source, param, parse := "", "response_format", func() (*grammar.Grammar, error) { return nil, nil }
	switch {
	case format.Type == "json_object":
		source = "json_object"
		parse = func() (*grammar.Grammar, error) { return grammar.JSON(true), nil }
	case format.Type == "json_schema" && format.Schema != nil && len(format.Schema.Schema) > 0:
		source = "schema " + string(format.Schema.Schema)
		parse = func() (*grammar.Grammar, error) { return grammar.ParseSchema(format.Schema.Schema) }
	case format.Type != "text":
		return nil, refuse(http.StatusBadRequest, param, "response_format is %.80s: want text, json_object, or "+
			"json_schema with a schema", q.ResponseFormat)
	}
	if q.Grammar != "" {
		if source != "" {
			return nil, refuse(http.StatusBadRequest, "grammar", "grammar and response_format: want one of them")
		}
		source, param = "gbnf "+q.Grammar, "grammar"
		parse = func() (*grammar.Grammar, error) { return grammar.ParseGBNF(q.Grammar) }
	}
	if t != nil && source != "" {
		return nil, refuse(http.StatusBadRequest, param, "%s together with tools: leave one out", param)
	}
	if t != nil && t.required {
		source, param = "tools "+strings.Join(t.names, " ")+string(q.Tools), "tools"
		parse = func() (*grammar.Grammar, error) { return t.grammar(s.model.ChatTemplate()) }
	}
	if source == "" {
		return nil, nil
	}
	g, err := s.grammars.of(source, parse)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, param, "%v", err)
	}
	return g, nil
}
