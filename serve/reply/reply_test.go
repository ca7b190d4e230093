package reply_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/grammar"
	"github.com/vkc-go/vkc/serve/reply"
)

var tools = reply.Tools{
	{Name: "weather", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},
		"days":{"type":"integer"},"unit":{"type":"string","enum":["C","F"]}},"required":["city"]}`)},
	{Name: "time", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
}

// read reads an answer in pieces of a size, and returns it as text: reasoning in [], calls in {}.
func read(form *reply.Form, o reply.Options, text string, size int) string {
	r := reply.NewReader(form, o)
	var parts []reply.Part
	for rest := text; rest != ""; {
		n := min(size, len(rest))
		parts = append(parts, r.Next(rest[:n])...)
		rest = rest[n:]
	}
	return show(append(parts, r.End()...))
}

func show(parts []reply.Part) string {
	var b strings.Builder
	last := reply.Content
	for _, p := range parts {
		switch {
		case p.Kind == reply.Reasoning && last != reply.Reasoning:
			b.WriteString("[")
		case p.Kind != reply.Reasoning && last == reply.Reasoning:
			b.WriteString("]")
		}
		switch p.Kind {
		case reply.CallStart:
			fmt.Fprintf(&b, " %s:", p.Text)
		default:
			b.WriteString(p.Text)
		}
		last = p.Kind
	}
	if last == reply.Reasoning {
		b.WriteString("]")
	}
	return b.String()
}

// TestForms: calls and reasoning in the form of each family are found, in pieces of any size.
func TestForms(t *testing.T) {
	const city, both = ` weather:{"city":"Bonn"}`, ` weather:{"city":"Bonn","days":2}`
	seen := map[string]bool{}
	for _, c := range []struct{ form, text, want string }{
		{"hermes", "It is warm.", "It is warm."},
		{"hermes", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>", city},
		{"hermes", "\n<tool_call>{\"name\":\"time\"}</tool_call>\n" +
			"<tool_call>{\"name\":\"time\",\"arguments\":null}</tool_call>\n",
			" time:{} time:{}"},
		{"hermes", "Let me see. <tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call> Done.", "Let me see.  time:{}Done."},
		{"hermes", `<tool_call>{"name":"time","arguments":""}</tool_call><tool_call>{"name":"else","arguments":{}}</tool_call>`,
			` time:{}<tool_call>{"name":"else","arguments":{}}</tool_call>`},
		{"hermes", `<tool_call>{"name":"weather","arguments":"{\"city\": \"Bonn\"}"}`, city},
		{"hermes", "<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"a\nb\"}}</tool_call>",
			` weather:{"city":"a\u000ab"}`},
		{"hermes", `<tool_call>{"name": "weather"`, `<tool_call>{"name": "weather"`},
		{"hermes", "if a < b { return \"x\" }", "if a < b { return \"x\" }"},
		{"hermes", `{"answer": 42}`, `{"answer": 42}`},
		{"hermes", `{"name": "time", "arguments": {}}`, " time:{}"},
		{"hermes", "<think>Hm, <tool_call>?</think>\n\nYes", "[Hm, <tool_call>?]Yes"},
		{"hermes", "<think>never ends", "[never ends]"},
		{"hermes", "Yes <think>no</think>", "Yes <think>no</think>"},
		{"qwen3-coder", "<tool_call>\n<function=weather>\n<parameter=city>\nBonn\n</parameter>\n<parameter=days>\n2\n" +
			"</parameter>\n</function>\n</tool_call>", both},
		{"qwen3-coder", "<function=time>\n</function>", " time:{}"},
		{"qwen3-coder", "<tool_call><function=weather><parameter=city>12</parameter></function></tool_call>",
			` weather:{"city":"12"}`},
		{"mistral", `[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Bonn"}, "id": "abcdefghi"}, {"name": "time", "arguments": {}}]`,
			city + " time:{}"},
		{"mistral", `[{"name": "time"}]`, " time:{}"},
		{"mistral", "[1, 2] and [x]", "[1, 2] and [x]"},
		{"mistral-args", `[TOOL_CALLS]weather[ARGS]{"city": "Bonn"}[TOOL_CALLS]time[CALL_ID]123456789[ARGS]{}`, city + " time:{}"},
		{"mistral-args", `[THINK]Hm[/THINK]Yes`, "[Hm]Yes"},
		{"llama3", `<|python_tag|>{"name": "weather", "parameters": {"city": "Bonn"}}; {"name": "time", "parameters": {}}`,
			city + " time:{}"},
		{"llama3", ` {"type": "function", "name": "time", "parameters": {}}`, " time:{}"},
		{"llama3", `Sure: {"name": "time", "parameters": {}} there`, "Sure:  time:{}there"},
		{"llama3", `{"name": "else", "parameters": {}}`, `{"name": "else", "parameters": {}}`},
		{"llama3", `<|python_tag|>weather.call(city="Bonn", days=2)`, both},
		{"pythonic", `[weather(city='Bonn', days=2), time()]`, both + " time:{}"},
		{"pythonic", `[else(x=1)]`, `[else(x=1)]`},
		{"pythonic", `[weather(city="a\/b\u00e9\ud83d\ude00")]`, ` weather:{"city":"a/bé😀"}`},
		{"pythonic", `[weather(city="a\"b", unit=None, days=[1, (True,), {"k": False}])]`,
			` weather:{"city":"a\"b","unit":null,"days":[1,[true],{"k":false}]}`},
		{"lfm2", `<|tool_call_start|>[weather(city="Bonn")]<|tool_call_end|>Let me see.`, city + "Let me see."},
		{"harmony", `<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.weather ` +
			`<|constrain|>json<|message|>{"city":"Bonn"}<|call|>`, "[Need it.]" + city},
		{"harmony", `<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>`,
			"[Easy.]Yes."},
		{"harmony", `<|start|>assistant to=functions.time<|channel|>commentary json<|message|>{}`, " time:{}"},
		{"harmony", `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.time ` +
			`<|message|>{}`, "I look. time:{}"},
		{"glm", "<think>Hm</think>\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bonn</arg_value>\n" +
			"<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>", "[Hm]" + both},
		{"glm", "<tool_call>time</tool_call>", " time:{}"},
		{"kimi", `I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city":"Bonn"}` +
			`<|tool_call_end|><|tool_call_begin|>functions.time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`,
			"I look." + city + " time:{}"},
		{"deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" +
			"{\"city\": \"Bonn\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>time\n" +
			"```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
			city + " time:{}"},
		{"deepseek-v3.1", `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city":"Bonn"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
			city},
		{"minimax", "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Bonn</parameter>\n" +
			"<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>", both},
		{"functiongemma", "<start_function_call>call:weather{city:<escape>Bonn<escape>,days:2}<end_function_call>", both},
		{"gemma", "```tool_code\nweather(city='Bonn')\n```", city},
		{"granite", `<|tool_call|>[{"name": "weather", "arguments": {"city": "Bonn"}}]`, city},
	} {
		form := reply.FormNamed(c.form)
		if form == nil {
			t.Fatalf("no form %q", c.form)
		}
		seen[c.form] = seen[c.form] || strings.Contains(c.want, ":{")
		for _, size := range []int{1, 2, 3, 5, 7, 11, 64, 1000} {
			if got := read(form, reply.Options{Tools: tools}, c.text, size); got != c.want {
				t.Errorf("%s: %q by %d:\n got %q\nwant %q", c.form, c.text, size, got, c.want)
				break
			}
		}
		if got := read(form, reply.Options{Tools: tools}, "Nice.", 2); got != "Nice." {
			t.Errorf("%s: %q", c.form, got)
		}
	}
	for _, name := range reply.FormNames() {
		if !seen[name] {
			t.Errorf("form %s has no call in this test", name)
		}
	}
}

// TestWithoutTools: without tools there are no calls, whatever the text.
func TestWithoutTools(t *testing.T) {
	const text = `<tool_call>{"name": "time", "arguments": {}}</tool_call>`
	for _, name := range reply.FormNames() {
		if got := read(reply.FormNamed(name), reply.Options{}, text, 5); got != text {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestThinking: a prompt may end inside of the reasoning.
func TestThinking(t *testing.T) {
	o := reply.Options{Tools: tools, Thinking: true}
	if got := read(reply.FormNamed("hermes"), o, "Hm.\n</think>\n\nYes", 3); got != "[Hm.\n]Yes" {
		t.Errorf("%q", got)
	}
}

// TestGrammars: every form has a grammar of calls, what it allows is read as a call, and arguments arrive in parts.
func TestGrammars(t *testing.T) {
	plain := func(s string) string { return s }
	for _, name := range reply.FormNames() {
		form := reply.FormNamed(name)
		g, err := form.Grammar(tools, false, plain)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		called := func(form *reply.Form, g *grammar.Grammar, mark string) {
			text, ok := walk(g)
			if !ok {
				t.Errorf("%s: no whole text: %q", name, text)
				return
			}
			got := read(form, reply.Options{Tools: tools}, mark+text, len(mark+text))
			if !strings.HasPrefix(got, " weather:{") && !strings.HasPrefix(got, " time:{") {
				t.Errorf("%s: %q is read as %q", name, mark+text, got)
			}
		}
		called(form.Forced(), g, "")
		opened, err := form.Grammar(tools, true, plain)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, mark := range form.Open {
			if opened != nil {
				called(form, opened, form.Section+mark)
			}
		}
	}
	text := `<tool_call>` + "\n" + `{"name": "weather", "arguments": {"city": "Bonn"}}` + "\n</tool_call>"
	r := reply.NewReader(reply.FormNamed("hermes"), reply.Options{Tools: tools, Trusted: true})
	var deltas []string
	for i := range len(text) {
		for _, p := range r.Next(text[i : i+1]) {
			deltas = append(deltas, p.Text)
		}
	}
	if len(r.End()) != 0 || deltas[0] != "weather" || len(deltas) < 10 || strings.Join(deltas[1:], "") != `{"city": "Bonn"}` {
		t.Errorf("%q", deltas)
	}
}

// walk returns a text of a grammar: at each step the first character of a list that the text may go on with.
func walk(g *grammar.Grammar) (text string, ok bool) {
	letters := []string{}
	for c := rune(' '); c < 127; c++ {
		letters = append(letters, string(c))
	}
	letters = append(letters, "\n", "｜", "▁")
	slices.SortStableFunc(letters, func(a, b string) int { // what ends things comes first
		return strings.Index(`"}]>)</x`, b) - strings.Index(`"}]>)</x`, a)
	})
	for range 500 {
		if _, whole := g.Match(text); whole {
			return text, true
		}
		i := slices.IndexFunc(letters, func(c string) bool { begins, _ := g.Match(text + c); return begins })
		if i < 0 {
			return text, false
		}
		text += letters[i]
	}
	return text, false
}

// TestFormOf: the templates of models select their forms.
func TestFormOf(t *testing.T) {
	for template, want := range map[string]string{
		"": "llama3", "x <tool_call> y": "hermes", "[TOOL_CALLS] [ARGS]": "mistral-args", "<tool_call> <arg_key>": "glm",
		"<tool_call> <function= <parameter=": "qwen3-coder", "<|channel|>analysis<|message|>": "harmony",
		"<｜tool▁calls▁begin｜> ```json": "deepseek", "<｜tool▁calls▁begin｜>": "deepseek-v3.1",
	} {
		if got := reply.FormOf(template).Name; got != want {
			t.Errorf("%q: %s, want %s", template, got, want)
		}
	}
}

// FuzzReader: no text loses a byte of its content without calls, and pieces of any size give the same.
func FuzzReader(f *testing.F) {
	f.Add(`<tool_call>{"name":"time","arguments":{"a":[1,"}"]}}</tool_call>`, 3)
	f.Add("<|channel|>analysis<|message|>x<|end|>", 2)
	f.Add("[weather(city='a', days=[1,{'b': (2,)}])]", 5)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = min(max(size, 1), 1000)
		for _, name := range reply.FormNames() {
			form := reply.FormNamed(name)
			o := reply.Options{Tools: tools}
			if a, b := read(form, o, text, size), read(form, o, text, len(text)+1); a != b {
				t.Errorf("%s: %q by %d: %q, whole: %q", name, text, size, a, b)
			}
		}
	})
}
