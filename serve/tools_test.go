package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/grammar"
	"github.com/vkc-go/vkc/serve/reply"
)

// TestTools: choices and limits of tools.
func TestTools(t *testing.T) {
	const list = `[{"type": "function", "function": {"name": "weather"}}, {"type": "function", "function": {"name": "time", "strict": true}}]`
	yes, no := true, false
	for _, c := range []struct {
		choice   string
		parallel *bool
		want     string
	}{
		{"", nil, "weather time"},
		{"null", &yes, "weather time"},
		{`"auto"`, &no, "weather time single"},
		{`"required"`, nil, "weather time must"},
		{`{"type": "function", "function": {"name": "time"}}`, nil, "time must"},
	} {
		got, err := readTools(json.RawMessage(list), json.RawMessage(c.choice), c.parallel)
		if err != nil || got.strict != 1 {
			t.Errorf("%s: %+v, %v", c.choice, got, err)
			continue
		}
		words := []string{}
		for _, f := range got.callable {
			words = append(words, f.Name)
		}
		if got.required {
			words = append(words, "must")
		}
		if got.single {
			words = append(words, "single")
		}
		if strings.Join(words, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.choice, words, c.want)
		}
	}
}

// TestListener: stop words count in the content only, and one call may end an answer.
func TestListener(t *testing.T) {
	form := reply.FormNamed("hermes")
	weather := &tools{callable: reply.Tools{{Name: "weather"}}}
	only := &tools{callable: weather.callable, single: true}
	const call = `<tool_call>{"name": "weather", "arguments": {"a": "stop"}}</tool_call>`
	for _, c := range []struct {
		tools *tools
		text  string
		want  string
		over  bool
	}{
		{weather, "<think>stop</think>yes, st stop no", "yes, st  (stop) 0", true},
		{weather, "st" + call + "on", "ston () 1", false},
		{weather, call + call, " () 2", false},
		{only, call + call, " () 1", true},
	} {
		for _, size := range []int{1, 3, 1000} {
			j := job{form: form, tools: c.tools, stop: []string{"stop"}}
			l, s, over := j.listener(), said{}, false
			for rest := c.text; rest != "" && !over; {
				n := min(size, len(rest))
				var parts []reply.Part
				parts, over = l.next(rest[:n])
				for _, p := range parts {
					s.add(p)
				}
				rest = rest[n:]
			}
			if !over {
				for _, p := range l.end() {
					s.add(p)
				}
			}
			got := fmt.Sprintf("%s (%s) %d", s.content.String(), s.reasoning.String(), len(s.calls))
			if got != c.want || over != c.over && len(c.text) > size {
				t.Errorf("%q by %d: %q %v, want %q %v", c.text, size, got, over, c.want, c.over)
			}
		}
	}
	if id := callID(); len(id) != 9 || id == callID() {
		t.Errorf("id %q", id)
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
