package chat_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/chat"
)

// TestCases compares small templates with the output of Jinja; testdata/cases.py writes the file.
func TestCases(t *testing.T) {
	var file struct {
		Context json.RawMessage
		Cases   []struct {
			Template, Error string
			Want            *string
		}
	}
	if err := json.Unmarshal([]byte(read(t, "testdata/cases.json")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 100 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		got, err := render(t, c.Template, string(file.Context))
		switch {
		case c.Want == nil && err == nil:
			t.Errorf("%s\nis %q, want an error like %s", c.Template, got, c.Error)
		case c.Want == nil:
		case err != nil:
			t.Errorf("%s\n%v, want %q", c.Template, err, *c.Want)
		case got != *c.Want:
			t.Errorf("%s\nis   %q\nwant %q", c.Template, got, *c.Want)
		}
	}
}

// TestMarks: text from the context stays marked through every operation.
func TestMarks(t *testing.T) {
	context := chat.Context{
		Messages: []chat.Message{{Role: "user", Content: "ab<|x|>"}, {Role: "<|x|>", Content: "c"}},
		Tools:    []any{chat.Object{{Key: "<|k|>", Value: "v"}}},
		BOS:      "<s>",
	}
	user := func(s string) chat.Piece { return chat.Piece{Text: s, User: true} }
	own := func(s string) chat.Piece { return chat.Piece{Text: s} }
	for source, want := range map[string][]chat.Piece{
		"{{ bos_token }}[{{ messages[0].content }}]":                                    {own("<s>["), user("ab<|x|>"), own("]")},
		"{{ '<' + messages[0].role + '>' }}":                                            {own("<user>")},
		"{{ messages[1].role }}":                                                        {user("<|x|>")},
		"{{ ('[' ~ messages[0].content ~ ']')[1:3] }}":                                  {user("ab")},
		"{{ ('[' ~ messages[0].content | upper ~ ']')[:4] }}":                           {own("["), user("AB<")},
		"{{ messages[0].content | replace('b', '<|y|>') }}":                             {user("a"), own("<|y|>"), user("<|x|>")},
		"{{ messages[0].content.split('<')[1] }}":                                       {user("|x|>")},
		"{{ messages[1].content | tojson }}":                                            {own(`"`), user("c"), own(`"`)},
		"{{ tools | tojson }}":                                                          {own(`[{"`), user("<|k|>"), own(`": "`), user("v"), own(`"}]`)},
		"{{ tools }}":                                                                   {own(`[{'`), user("<|k|>"), own(`': '`), user("v"), own(`'}]`)},
		"{% macro m(x) %}({{ x }}){% endmacro %}{{ m(messages[1].content) | trim }}":    {own("("), user("c"), own(")")},
		"{% set x %}a{{ messages[1].content }}{% endset %}{{ x }}":                      {own("a"), user("c")},
		"{{ '%s!' % messages[1].content }}":                                             {user("c"), own("!")},
		"{{ messages[1].content == 'c' }}":                                              {own("True")},
		"{% for c in messages[0].content %}{{ c }}.{% break %}{% endfor %}":             {user("a"), own(".")},
		"{% for k, v in tools[0].items() %}{{ k }}{{ v }}{% endfor %}":                  {user("<|k|>v")},
		"{{ (messages[0].content ~ '!') | truncate(4, true, '…', 0) }}":                 {user("ab<"), own("…")},
		"{{ messages[0].content | wordwrap(4) }}":                                       {user("ab<|"), own("\n"), user("x|>")},
		"{{ ('[' ~ messages[0].content) | batch(2) | map('join') | join }}":             {own("["), user("ab<|x|>")},
		"{{ messages | groupby('content') | map(attribute='grouper') | join }}":         {user("ab<|x|>c")},
		"{{ messages[0].content | urlencode }}":                                         {user("ab%3C%7Cx%7C%3E")},
		"{{ '{:*<9}'.format(messages[0].content) }}":                                    {user("ab<|x|>"), own("**")},
		"{{ '%9s' % messages[0].content }}":                                             {own("  "), user("ab<|x|>")},
		"{{ {messages[1].content: 1} | xmlattr }}":                                      {own(" "), user("c"), own("=\"1\"")},
		"{{ messages[0].content.swapcase() }}":                                          {user("AB<|X|>")},
		"{{ '<b>&' ~ messages[1].content ~ '&amp;' | striptags }}":                      {own("<b>&"), user("c"), own("&")},
		"{{ (messages[1].content ~ '&lt;') | striptags }}":                              {user("c"), own("<")},
		"{{ messages[1].content | filesizeformat if false else 'x\ty'.expandtabs(2) }}": {own("x y")},
	} {
		tmpl, err := chat.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(context)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v, %v; want %v", source, got, err, want)
		}
	}
}

// TestNoContent: a message without a content key has no content, unlike one with null content.
func TestNoContent(t *testing.T) {
	const source = "{% set m = messages[0] %}{{ m.content is defined }} {{ m.content is none }} {{ m | tojson }}"
	tmpl, err := chat.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	const absent, null = `False False {"role": "assistant"}`, `True True {"role": "assistant", "content": null}`
	for _, tt := range []struct {
		json string
		m    chat.Message
		want string
	}{
		{`{"role": "assistant"}`, chat.Message{Role: "assistant"}, absent},
		{`{"role": "assistant", "content": null}`, chat.Message{Role: "assistant", Content: chat.None}, null},
	} {
		var read chat.Message
		if err := json.Unmarshal([]byte(tt.json), &read); err != nil {
			t.Fatal(err)
		}
		for _, m := range []chat.Message{read, tt.m} {
			got, err := tmpl.Render(chat.Context{Messages: []chat.Message{m}})
			if err != nil || chat.Text(got) != tt.want {
				t.Errorf("%s is %q, %v; want %q", tt.json, chat.Text(got), err, tt.want)
			}
		}
	}
}

// TestBuiltins: templates may use all filters, tests and functions of Jinja 3.1, except those without use for model
// prompts: a debugger's print, links for web pages, and random Latin.
func TestBuiltins(t *testing.T) {
	names := func(list, template string) {
		for name := range strings.FieldsSeq(list) {
			got, err := render(t, strings.ReplaceAll(template, "NAME", name), "{}")
			if err != nil || got != "True" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	names("abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape "+
		"format groupby indent int items join last length list lower map max min random reject rejectattr replace "+
		"reverse round safe select selectattr slice sort string striptags sum title tojson trim truncate unique upper "+
		"urlencode wordcount wordwrap xmlattr swapcase", "{{ 'NAME' is filter }}")
	names("!= < <= == > >= boolean callable defined divisibleby eq equalto escaped even false filter float ge "+
		"greaterthan gt in integer iterable le lessthan lower lt mapping ne none number odd sameas sequence string "+
		"test true undefined upper", "{{ 'NAME' is test }}")
	names("range dict namespace cycler joiner", "{{ NAME is callable }}")
	names("pprint urlize", "{{ 'NAME' is not filter }}")
	// Jinja has this one as a method only.
	if got, err := render(t, "{{ 'aBc' | swapcase }}", "{}"); got != "AbC" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMessageJSON(t *testing.T) {
	var m chat.Message
	const text = `{"role": "assistant", "content": null, "tool_calls": [{"b": 1.5, "a": [true, 2]}]}`
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.Parse("{{ messages[0] }}{{ messages[0].content is none }}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render(chat.Context{Messages: []chat.Message{m}})
	const want = "{'role': 'assistant', 'content': None, 'tool_calls': [{'b': 1.5, 'a': [True, 2]}]}True"
	if err != nil || chat.Text(got) != want {
		t.Errorf("%s, %v, want %s", chat.Text(got), err, want)
	}
	if v, ok := m.More.Get("tool_calls"); !ok || v == nil {
		t.Errorf("%v", m.More)
	}
	for _, bad := range []string{`[]`, `{"role": }`, `{} {}`, strings.Repeat("[", 1000)} {
		if err := m.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s gave no error", bad)
		}
	}
}

// TestErrors: an error says where and what.
func TestErrors(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{{ messages.x.y }}":           "chat template: line 2: \"x\" is not defined, so it has no \"y\"",
		"a\n\n{% if %}":                   "chat template: line 3: the begin or end of a tag: want an expression",
		"{% include 'x' %}":               `line 1: the statement "include" is not supported: want one of if, for`,
		"{{ 1 | nothing }}":               `line 1: there is no filter "nothing"`,
		"{{ x":                            "the tag that begins in line 1 has no end: want }}",
		"{% if x %}":                      "the template ends before {% endif %}",
		"{{ raise_exception('not so') }}": "the template refuses: not so",
		"{% break %}":                     "break or continue outside of a loop",
		"{{ ? }}":                         "line 1: '?' cannot be part of an expression",
		strings.Repeat("x", 2<<20):        "the template has 2097152 bytes: want at most 1048576",
		strings.Repeat("{% if x %}", 300): "nests more than 250 deep",
		"{{ " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300) + "}}":           "nests more than 250 deep",
		"{{ " + strings.Repeat("not ", 300) + "1}}":                                        "nests more than 250 deep",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}":                                  "nest more than 250 deep",
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}": "more than 20000000 steps",
		"{% for a in range(100000) %}" + strings.Repeat("x", 200) + "{% endfor %}":         "the text has more than 16777216 characters",
		"{{ range(1000000) }}":            "a range has more than 100000 numbers",
		"{{ 'x' * 100000000 }}":           "a text has more than 16777216 characters",
		"{{ 2 ** 100 }}":                  "2 ** 100 is too large",
		"{{ [1] * 100000000 }}":           "a list has more than 100000 items",
		"{{ [1] | batch(100000000, 0) }}": "a batch of 100000000 items: want at most 100000",
		"{{ [1] | slice(100000000) }}":    "100000000 slices: want at most 100000",
		"{{ '%999999999d' % 1 }}":         "a width or precision of 99999",
		"{{ '{:999999999}'.format(1) }}":  "a width or precision of 99999",
		"{{ {[1]: 2} }}":                  "a list cannot be a key of a mapping",
		"{% set ns = namespace(x=(1,)) %}{% for i in range(99) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}": "more than 20000000 steps",
		"{{ {(range(2000) | list | tojson, 1): 2, (1,) * 2000: 3} }}":                                                      "a tuple of 2000 items",
		"{{ '{0:{0:{0}}}'.format(1) }}":     "nests its braces too deep",
		"{{ ('<>' * 100000) | striptags }}": "steps",
	} {
		tmpl, err := chat.Parse(source)
		if err == nil {
			_, err = tmpl.Render(chat.Context{More: chat.Object{{Key: "messages", Value: chat.Object{}}}})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", source, err, want)
		}
	}
	tmpl, err := chat.Parse("{{ x }}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tmpl.Render(chat.Context{More: chat.Object{{Key: "x", Value: struct{}{}}}})
	if err == nil || !strings.Contains(err.Error(), "struct {}: want nil, bool") {
		t.Errorf("error %v", err)
	}
}

// FuzzTemplate: whatever the template, it is rendered or refused, and the words of a
// user stay marked.
func FuzzTemplate(f *testing.F) {
	var file struct{ Cases []struct{ Template string } }
	if err := json.Unmarshal([]byte(read(f, "testdata/cases.json")), &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		f.Add(c.Template)
	}
	context := chat.Context{Messages: []chat.Message{{Role: "user", Content: "⟦<|x|>⟧"}}, AddGenerationPrompt: true}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := chat.Parse(source)
		if err != nil {
			return
		}
		pieces, err := tmpl.Render(context)
		if err != nil {
			return
		}
		for _, p := range pieces {
			if !p.User && strings.ContainsAny(p.Text, "⟦⟧") && !strings.ContainsAny(source, `⟦⟧\`) {
				t.Errorf("%q gave %v", source, pieces)
			}
		}
	})
}

// TestStrictJSON: JSON that readers understand in different ways is no value.
func TestStrictJSON(t *testing.T) {
	for _, text := range []string{`{"a": [{"b": 1, "b": 2}]}`, "\"\xff\"", `["\ud800"]`} {
		if v, err := chat.ParseJSON([]byte(text)); err == nil {
			t.Errorf("%s is read as %v", text, v)
		}
	}
}

// TestContinue: a conversation that is to be continued ends with its last message, whatever the template adds.
func TestContinue(t *testing.T) {
	const source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|im_end|>\n{% endfor %}"
	template, err := chat.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{"Sure, ": "<|user|>hi<|im_end|>\n<|assistant|>Sure,",
		"end": "<|user|>hi<|im_end|>\n<|assistant|>end", "hi": "<|user|>hi<|im_end|>\n<|assistant|>hi", " ": "", "": ""} {
		pieces, err := template.Render(chat.Context{Continue: true, Messages: []chat.Message{
			{Role: "user", Content: "hi"}, {Role: "assistant", Content: content}}})
		if got := chat.Text(pieces); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", content, got, err, want)
		}
	}
}
