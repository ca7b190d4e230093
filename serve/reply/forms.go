package reply

import (
	"slices"
	"strings"

	"github.com/vkc-go/vkc/grammar"
)

// Form is how a family of models writes calls and reasoning.
type Form struct {
	Name     string
	Models   string   // families that use it
	Template []string // a chat template with all of these strings is of such a model
	// A call begins with one of the marks Open, and a mark of Close may follow it.
	Open, Close []string
	Section     string // a mark before the first call
	Unmarked    bool   // calls have no mark, as a rule
	// Bare are the characters that begin a call without a mark: "{" and "[".
	Bare   string
	Syntax []syntax // how a call may be written; a grammar of calls allows only the first
	// Think are marks around reasoning. Without any, reasoning is between the tags of defaultThink, at the start only.
	Think []Pair
	Drop  []string // marks that mean nothing to the user
	Inner []string // special tokens inside of calls that no grammar writes
}

// Pair is the marks around reasoning.
type Pair struct{ open, close string }

var defaultThink = []Pair{{"<think>", "</think>"}}

// JSON objects for calls: with the key of Llama 3 for the arguments, and with the key of other models.
var objectPlain, objectNamed = objectSyntax{key: "parameters"}, objectSyntax{key: "arguments"}

// Forms are the forms of calls by template. The first one that fits is a model's. The last one fits every template.
var Forms = []Form{
	{Name: "harmony", Models: "gpt-oss", Template: []string{"<|channel|>", "<|message|>"},
		Open: []string{"<|channel|>commentary to=functions.", "<|start|>assistant<|channel|>commentary to=functions.",
			"<|start|>assistant to=functions.", "<|channel|>analysis to=functions."},
		Close:  []string{"<|call|>", "<|end|>"},
		Syntax: []syntax{namedSyntax{prefixes: []string{""}, between: " <|constrain|>json", sep: "<|message|>"}},
		Think: []Pair{{"<|start|>assistant<|channel|>analysis<|message|>", "<|end|>"},
			{"<|channel|>analysis<|message|>", "<|end|>"}},
		Drop: []string{"<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>",
			"<|start|>assistant<|channel|>commentary<|message|>", "<|channel|>commentary<|message|>", "<|end|>",
			"<|return|>"}},
	{Name: "minimax", Models: "MiniMax M2", Template: []string{"<minimax:tool_call>"},
		Open: []string{"<minimax:tool_call>"}, Close: []string{"</minimax:tool_call>"},
		Syntax: []syntax{
			paramsSyntax{`<invoke name="`, `">`, `<parameter name="`, `">`, "", "</parameter>", "</invoke>"}}},
	{Name: "glm", Models: "GLM 4.5 and later", Template: []string{"<arg_key>"},
		Open: []string{"<tool_call>"}, Close: nil,
		Syntax: []syntax{
			paramsSyntax{"", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"}}},
	{Name: "qwen3-coder", Models: "Qwen3-Coder, Qwen3.5", Template: []string{"<function=", "<parameter="},
		Open: []string{"<tool_call>"}, Close: []string{"</tool_call>"}, Bare: "<",
		Syntax: []syntax{paramsSyntax{"<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>"},
			objectNamed}},
	{Name: "kimi", Models: "Kimi K2", Template: []string{"<|tool_calls_section_begin|>"},
		Section: "<|tool_calls_section_begin|>", Open: []string{"<|tool_call_begin|>"},
		Close: []string{"<|tool_call_end|>", "<|tool_calls_section_end|>"},
		Syntax: []syntax{namedSyntax{prefixes: []string{"functions.", ""}, between: ":0",
			sep: "<|tool_call_argument_begin|>"}}},
	{Name: "deepseek", Models: "DeepSeek V3 and R1", Template: []string{"<｜tool▁calls▁begin｜>", "```json"},
		Section: "<｜tool▁calls▁begin｜>", Open: []string{"<｜tool▁call▁begin｜>"},
		Close: []string{"<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "```"},
		Syntax: []syntax{namedSyntax{prefixes: []string{"function<｜tool▁sep｜>", ""}, sep: "\n```json\n",
			suffix: "\n```"}}},
	{Name: "deepseek-v3.1", Models: "DeepSeek V3.1", Template: []string{"<｜tool▁calls▁begin｜>"},
		Section: "<｜tool▁calls▁begin｜>", Open: []string{"<｜tool▁call▁begin｜>"},
		Close:  []string{"<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
		Syntax: []syntax{namedSyntax{prefixes: []string{""}, sep: "<｜tool▁sep｜>"}}},
	{Name: "functiongemma", Models: "FunctionGemma", Template: []string{"<start_function_call>"},
		Open: []string{"<start_function_call>"}, Close: []string{"<end_function_call>"},
		Syntax: []syntax{gemmaSyntax{}}, Inner: []string{"<escape>"}},
	{Name: "gemma", Models: "Gemma 3", Template: []string{"tool_code"},
		Open: []string{"```tool_code"}, Close: []string{"```"}, Syntax: []syntax{pythonSyntax{}}},
	{Name: "lfm2", Models: "LFM2", Template: []string{"<|tool_call_start|>"},
		Open: []string{"<|tool_call_start|>"}, Close: []string{"<|tool_call_end|>"},
		Syntax: []syntax{pythonSyntax{}, objectNamed}},
	{Name: "granite", Models: "Granite 3", Template: []string{"<|tool_call|>"},
		Open: []string{"<|tool_call|>", "<tool_call>"}, Close: []string{"</tool_call>"},
		Syntax: []syntax{objectSyntax{key: "arguments", before: "[", after: "]"}}},
	{Name: "mistral-args", Models: "Mistral Small 3.2, Magistral, Devstral",
		Template: []string{"[TOOL_CALLS]", "[ARGS]"}, Open: []string{"[TOOL_CALLS]"}, Bare: "[",
		Syntax: []syntax{namedSyntax{prefixes: []string{""}, sep: "[ARGS]"}, objectNamed},
		Think:  []Pair{{"[THINK]", "[/THINK]"}}},
	{Name: "mistral", Models: "Mistral 7B v0.3, Nemo, Small 3.1", Template: []string{"[TOOL_CALLS]"},
		Open: []string{"[TOOL_CALLS]"}, Bare: "[",
		Syntax: []syntax{objectSyntax{key: "arguments", before: "[", after: "]"},
			namedSyntax{prefixes: []string{""}, sep: "[ARGS]"}},
		Think: []Pair{{"[THINK]", "[/THINK]"}}},
	{Name: "hermes", Models: "Qwen 2.5 and 3, Hermes, Granite 4", Template: []string{"<tool_call>"},
		Open: []string{"<tool_call>"}, Close: []string{"</tool_call>"}, Bare: "{",
		Syntax: []syntax{objectSyntax{key: "arguments", before: "\n", after: "\n"},
			paramsSyntax{"<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>"}}},
	{Name: "pythonic", Models: "Llama 3.2 and 4", Template: []string{"[func_name1("}, Bare: "[{", Unmarked: true,
		Open: []string{"<|python_start|>"}, Close: []string{"<|python_end|>"},
		Syntax: []syntax{pythonSyntax{listed: true}, objectPlain}},
	{Name: "llama3", Models: "Llama 3.1, 3.2 and 3.3", Unmarked: true, Bare: "{[",
		Open: []string{"<|python_tag|>"}, Close: []string{";"},
		Syntax: []syntax{objectPlain, pythonSyntax{}}},
}

// FormOf returns the form of the models with a chat template.
func FormOf(template string) *Form {
	for i := range Forms {
		if !slices.ContainsFunc(Forms[i].Template, func(s string) bool { return !strings.Contains(template, s) }) {
			return &Forms[i]
		}
	}
	return &Forms[len(Forms)-1]
}

// FormNamed returns the form with a name, or nil.
func FormNamed(name string) *Form {
	i := slices.IndexFunc(Forms, func(f Form) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &Forms[i]
}

// FormNames lists the names of the forms.
func FormNames() (list []string) {
	for _, f := range Forms {
		list = append(list, f.Name)
	}
	return list
}

// thinking returns the pairs of texts around the reasoning of an answer.
func (f *Form) thinking() []Pair {
	if f.Think != nil {
		return f.Think
	}
	return defaultThink
}

// ThinkMarks returns the marks around the reasoning that a prompt may begin.
func (f *Form) ThinkMarks() (open, close string) {
	p := f.thinking()[0]
	return p.open, p.close
}

// Names reports whether the name of a special token occurs in the marks of the form: in those around reasoning and
// calls, and in the fixed texts of a call's syntax.
func (f *Form) Names(token string) bool {
	has := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, token) })
	}
	for _, p := range f.thinking() {
		if has([]string{p.open, p.close}) {
			return true
		}
	}
	anyTool := Tools{{Name: "f"}} // the fixed texts are the same for all tools
	for _, one := range f.Syntax {
		for _, c := range one.calls(anyTool) {
			if has([]string{c.Before, c.After}) {
				return true
			}
		}
	}
	return has([]string{f.Section}) || has(f.Open) || has(f.Close) || has(f.Drop) || has(f.Inner)
}

// Grammar returns the grammar of a call of one of the tools, or nil if there is none for the form's calls. opened says
// that the answer has a mark of Open already. spell returns how a grammar writes fixed text: see [grammar.Token].
func (f *Form) Grammar(t Tools, opened bool, spell func(string) string) (*grammar.Grammar, error) {
	functions := f.Syntax[0].calls(t)
	open, close := "", ""
	switch {
	case functions == nil && opened:
		return nil, nil
	case functions == nil: // the reader takes objects in every form
		functions = objectPlain.calls(t)
	default:
		open, close = f.Section+first(f.Open), first(f.Close)
	}
	if opened || f.Unmarked {
		open = ""
	}
	if f.Unmarked {
		close = ""
	}
	for i := range functions {
		functions[i].Before, functions[i].After = spell(functions[i].Before), spell(functions[i].After)
	}
	return grammar.ParseCalls(spell(open), functions, spell(close))
}

// Forced returns the form of an answer that Grammar constrains from the start: f, or if calls in f have no grammar, a
// form of objects with the reasoning of f.
func (f *Form) Forced() *Form {
	if f.Syntax[0].calls(nil) != nil {
		return f
	}
	return &Form{Name: f.Name, Bare: "{", Syntax: []syntax{objectPlain}, Think: f.Think, Drop: f.Drop}
}

// begin lists the marks that begin calls.
func (f *Form) begin() []string {
	if f.Section == "" {
		return f.Open
	}
	return append([]string{f.Section}, f.Open...)
}

// first returns the first element, or "" if there is none.
func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// mark is a text that begins something other than content. It is empty if the call itself begins.
type mark struct {
	text  string
	close string // the end of the reasoning that it begins
	first bool   // only white space comes before it
	drop  bool   // it means nothing
}

// marks lists the marks that may come next in an answer: of reasoning, of text to drop, and with tools of calls. start
// says that there was no content yet. Some marks of reasoning are valid only then.
func (f *Form) marks(start, tools bool) (list []mark) {
	for _, p := range f.thinking() {
		if start || f.Think != nil {
			list = append(list, mark{text: p.open, close: p.close, first: f.Think == nil})
		}
	}
	for _, d := range f.Drop {
		list = append(list, mark{text: d, drop: true})
	}
	if tools {
		for _, o := range f.begin() {
			list = append(list, mark{text: o})
		}
	}
	return list
}

// find finds the first mark in a text: of those at the same position, the longest. For start and tools see marks.
func (f *Form) find(text string, start, tools bool) (at int, found *mark) {
	at = len(text)
	for _, m := range f.marks(start, tools) {
		i := strings.Index(text, m.text)
		if i >= 0 && m.allows(text[:i]) && (i < at || i == at && found != nil && len(m.text) > len(found.text)) {
			at, found = i, &m
		}
	}
	if !tools {
		return at, found
	}
	// A character of Bare begins a call without a mark.
	for i := range at {
		if strings.IndexByte(f.Bare, text[i]) >= 0 {
			return i, &mark{}
		}
	}
	return at, found
}

// begins returns the length of the longest suffix of a text that is a proper prefix of a mark. start says that the text
// is the start of the answer, and tools that calls are possible.
func (f *Form) begins(text string, start, tools bool) (n int) {
	for _, m := range f.marks(start, tools) {
		if k := overlap(text, m.text); m.allows(text[:len(text)-k]) {
			n = max(n, k)
		}
	}
	return n
}

// allows reports whether the mark may come after a text.
func (m *mark) allows(before string) bool { return !m.first || strings.TrimSpace(before) == "" }
