package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/grammar"
)

// TestCalls: calls are found in the output of several kinds of models, divided into any pieces.
func TestCalls(t *testing.T) {
	weather := &tools{names: []string{"weather", "time"}}
	for _, c := range []struct{ text, said, calls string }{
		{`It is warm.`, "It is warm.", ""},
		{"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>", "",
			`weather{"city":"Bonn"}`},
		{"Let me see. <tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"weather\"," +
			"\"arguments\":\"{\\\"a\\\": 1}\"}", "Let me see. ", `time{} weather{"a":1}`},
		{`[TOOL_CALLS][{"name": "weather", "arguments": {"a": [1]}}, {"name": "time", "arguments": {}}]`, "",
			`weather{"a":[1]} time{}`},
		{`[TOOL_CALLS]weather[ARGS]{"a": 1}`, "", `weather{"a":1}`},
		{`<|python_tag|>{"name": "weather", "parameters": {"a": 1}}; {"name": "time", "parameters": {}}`, "",
			`weather{"a":1} time{}`},
		{` {"name": "weather", "parameters": {}}`, "", `weather{}`},
		{`{"name": "else", "parameters": {}}`, `{"name": "else", "parameters": {}}`, ""},
		{`{"answer": 42}`, `{"answer": 42}`, ""},
		{`<tool_call>{"name": "weather"`, `<tool_call>{"name": "weather"`, ""},
		{`a < b and a <too`, `a < b and a <too`, ""},
		{"\n", "\n", ""},
	} {
		for step := 1; step < 40; step += 6 {
			r := newCallReader(weather)
			said := ""
			for rest := c.text; rest != ""; {
				n := min(step, len(rest))
				said += r.next(rest[:n])
				rest = rest[n:]
			}
			last, calls := r.end()
			var list []string
			for _, x := range calls {
				list = append(list, x.name+x.arguments)
			}
			if said += last; said != c.said || strings.Join(list, " ") != c.calls {
				t.Errorf("%q by %d: said %q, called %q", c.text, step, said, list)
			}
		}
	}
}

// TestForcedCalls: every text that a grammar of calls allows is parsed as a call.
func TestForcedCalls(t *testing.T) {
	const list = `[{"type": "function", "function": {"name": "weather", "parameters": {"$defs": {"city": {"enum": ["Bonn"]}},
		"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}, "required": ["city"], "additionalProperties": false}}},
		{"type": "function", "function": {"name": "time"}}]`
	for _, c := range []struct{ template, choice, text, call string }{
		{"<tool_call>", `"required"`, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>",
			`weather{"city":"Bonn"}`},
		{"[TOOL_CALLS]", `"required"`, `[{"name": "time", "arguments": {}}]`, "time{}"},
		{"tools", `{"type": "function", "function": {"name": "time"}}`, `{"name": "time", "parameters": {}}`, "time{}"},
	} {
		tools, err := readTools(json.RawMessage(list), json.RawMessage(c.choice))
		if err != nil {
			t.Fatal(err)
		}
		g, err := tools.grammar(c.template)
		if err != nil {
			t.Fatal(err)
		}
		if _, whole := g.Match(c.text); !whole {
			t.Errorf("%s: %q is not allowed", c.template, c.text)
		}
		if begins, _ := g.Match("I"); begins {
			t.Errorf("%s: text is allowed", c.template)
		}
		r := newCallReader(tools)
		said := r.next(c.text)
		last, calls := r.end()
		if said+last != "" || len(calls) != 1 || calls[0].name+calls[0].arguments != c.call {
			t.Errorf("%s: said %q, called %v", c.template, said+last, calls)
		}
	}
}

// TestGrammarsKept: a source is read once, also one that is refused, as long as few others come.
func TestGrammarsKept(t *testing.T) {
	var g grammars
	read := map[string]int{}
	ask := func(text string) (*grammar.Grammar, error) {
		return g.of(text, func() (*grammar.Grammar, error) {
			read[text]++
			return grammar.ParseGBNF(text)
		})
	}
	const good, bad = `root ::= "x"`, `root ::= x`
	first, err := ask(good)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxGrammars { // the last one of the others comes each time
		if again, err := ask(good); again != first || err != nil {
			t.Errorf("%p, then %p, %v", first, again, err)
		}
		if none, err := ask(bad); none != nil || err == nil {
			t.Errorf("%q is not refused", bad)
		}
		ask(fmt.Sprintf(`root ::= "%d"`, len(read)))
	}
	if read[good] != 1 || read[bad] != 1 || len(g.recent) != maxGrammars {
		t.Errorf("read %d and %d times, want once; %d are kept", read[good], read[bad], len(g.recent))
	}
}
