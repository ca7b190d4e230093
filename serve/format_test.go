package serve_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// talker is the model of the example with a template of conversations.
func talker(t testing.TB) string {
	t.Helper()
	const template = "{% if tools %}{{ tools[0].function.name }}{% endif %}{% for m in messages %}" +
		"{{ m.content }}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}\n{% endfor %}"
	path := filepath.Join(t.TempDir(), "talker.gguf")
	if err := gguf.Edit(gollama, path, gguf.KV{Key: "tokenizer.chat_template", Value: template}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestResponses: the newer path gives the same answers, whole and by events that are numbered.
func TestResponses(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo"})
	const input = `{"model": "echo", "max_output_tokens": 4, "store": false, "instructions": "x", "input": [{"role": "user",
		"content": [{"type": "input_text", "text": "func main"}]}]`
	type reply struct {
		Status string
		Output []struct {
			Type, Role string
			Content    []struct{ Type, Text string }
		}
		Usage struct {
			Output int `json:"output_tokens"`
		}
	}
	check := func(r reply) {
		t.Helper()
		if r.Status != "incomplete" || len(r.Output) != 1 || r.Output[0].Content[0].Text != "func mainfunc main" ||
			r.Usage.Output != 4 {
			t.Errorf("%+v", r)
		}
	}
	status, body := post(t, s.URL+"/v1/responses", input+"}")
	var whole reply
	if err := json.Unmarshal([]byte(body), &whole); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	check(whole)
	_, body = post(t, s.URL+"/v1/responses", input+`, "stream": true}`)
	text, n := "", 0
	for line := range strings.Lines(body) {
		var e struct {
			Type, Delta string
			Sequence    int `json:"sequence_number"`
			Response    reply
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Sequence != n {
			t.Errorf("event %d: %v: %s", n, err, data)
		}
		n++
		text += e.Delta
		if e.Type == "response.incomplete" {
			check(e.Response)
			text += "."
		}
	}
	if text != "func mainfunc main." {
		t.Errorf("%q: %s", text, body)
	}
	status, body = post(t, s.URL+"/v1/responses", input+`, "previous_response_id": "x"}`)
	if a := parse(t, body); status != 400 || a.Error.Param != "previous_response_id" {
		t.Errorf("%d %s", status, body)
	}
}

// TestFormats: a model's answers are JSON by a schema, calls of tools, and have the odds of tokens.
func TestFormats(t *testing.T) {
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{})
	const talk = `{"messages": [{"role": "user", "content": "func main"}, {"role": "assistant", "content": null, "tool_calls":
		[{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
		{"role": "tool", "tool_call_id": "1", "content": "x"}], "temperature": 1.2, "seed": 3, `
	const schema = `"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "object",
		"properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"], "additionalProperties": false}}}`
	const tools = `"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
		"properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": false}}}]`
	const odds = `"max_tokens": 2, "logprobs": true, "top_logprobs": 2`
	type call struct {
		Function struct{ Name, Arguments string }
	}
	type reply struct {
		Choices []struct {
			Message, Delta struct {
				Content string
				Calls   []call `json:"tool_calls"`
			}
			Logprobs *struct {
				Content []struct {
					Token   string
					Logprob float64
					Bytes   []int
					Top     []struct{ Logprob float64 } `json:"top_logprobs"`
				}
			}
			Finish string `json:"finish_reason"`
		}
	}
	check := func(ask, text, finish string, calls []call, told int) {
		t.Helper()
		var v struct{ N int }
		switch ask {
		case schema:
			if err := json.Unmarshal([]byte(text), &v); err != nil || v.N < 1 || v.N > 9 || finish != "stop" {
				t.Errorf("%q by %s: %v", text, finish, err)
			}
		case tools:
			if len(calls) != 1 || calls[0].Function.Name != "f" || finish != "tool_calls" ||
				!strings.HasPrefix(calls[0].Function.Arguments, `{"on":`) || text != "" {
				t.Errorf("%q by %s, called %v", text, finish, calls)
			}
		case odds:
			if told != 2 {
				t.Errorf("the odds of %d tokens", told)
			}
		}
	}
	for _, ask := range []string{schema, tools, odds} {
		status, body := post(t, s.URL+"/v1/chat/completions", talk+ask+"}")
		var a reply
		if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		c := a.Choices[0]
		told := 0
		if c.Logprobs != nil {
			told = len(c.Logprobs.Content)
			for _, o := range c.Logprobs.Content {
				if o.Logprob > 0 || len(o.Bytes) == 0 || len(o.Top) != 2 || o.Top[0].Logprob < o.Top[1].Logprob ||
					math.Exp(o.Top[0].Logprob) < math.Exp(o.Logprob) {
					t.Errorf("%+v", o)
				}
			}
		}
		check(ask, c.Message.Content, c.Finish, c.Message.Calls, told)
		_, body = post(t, s.URL+"/v1/chat/completions", talk+ask+`, "stream": true}`)
		text, finish, calls := "", "", []call(nil)
		told = 0
		for line := range strings.Lines(body) {
			var part reply
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || json.Unmarshal([]byte(data), &part) != nil {
				continue
			}
			for _, c := range part.Choices {
				text, finish = text+c.Delta.Content, finish+c.Finish
				for _, d := range c.Delta.Calls { // a delta of the last call has no name
					if d.Function.Name != "" {
						calls = append(calls, call{})
					}
					last := &calls[len(calls)-1].Function
					last.Name, last.Arguments = last.Name+d.Function.Name, last.Arguments+d.Function.Arguments
				}
				if c.Logprobs != nil {
					told += len(c.Logprobs.Content)
				}
			}
		}
		check(ask, text, finish, calls, told)
	}
}

// TestChoices: each of several answers to one prompt equals a separate answer with the same seed, as a whole and as a
// stream. logit_bias determines the allowed tokens.
func TestChoices(t *testing.T) {
	m, err := generate.Open(t.Context(), gollama, generate.Options{Device: "cpu", Context: 48, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{})
	type reply struct {
		Choices []struct {
			Index    int
			Text     string
			Finish   *string `json:"finish_reason"`
			Logprobs *struct {
				Tokens  []string
				Odds    []float64            `json:"token_logprobs"`
				Top     []map[string]float64 `json:"top_logprobs"`
				Offsets []int                `json:"text_offset"`
			}
		}
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	complete := func(more string) (a reply) {
		t.Helper()
		status, body := post(t, s.URL+"/v1/completions", `{"prompt": "func main() {\n", "max_tokens": 5, `+more+`}`)
		if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return a
	}
	var alone []string
	for seed := range 3 {
		alone = append(alone, complete(fmt.Sprintf(`"temperature": 1.5, "seed": %d`, 7+seed)).Choices[0].Text)
	}
	if alone[0] == alone[1] && alone[1] == alone[2] {
		t.Errorf("three seeds give %q", alone[0])
	}
	all := complete(`"temperature": 1.5, "seed": 7, "n": 3`)
	for i, c := range all.Choices {
		if c.Index != i || c.Text != alone[i] {
			t.Errorf("choice %d is %d, %q; alone %q", i, c.Index, c.Text, alone[i])
		}
	}
	if len(all.Choices) != 3 || all.Usage.Prompt != 6 || all.Usage.Completion != 15 {
		t.Errorf("%d choices, %+v", len(all.Choices), all.Usage)
	}
	// best_of returns the most probable of these answers, and no others.
	mean := func(i int) (sum float64) {
		c := complete(fmt.Sprintf(`"temperature": 1.5, "logprobs": 0, "seed": %d`, 7+i)).Choices[0]
		for _, p := range c.Logprobs.Odds {
			sum += p / float64(len(c.Logprobs.Odds))
		}
		return sum
	}
	order, means := []int{0, 1, 2}, []float64{mean(0), mean(1), mean(2)}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(means[y], means[x]) })
	best := complete(`"temperature": 1.5, "seed": 7, "n": 2, "best_of": 3`)
	for i, c := range best.Choices {
		if c.Index != i || c.Text != alone[order[i]] || c.Logprobs != nil {
			t.Errorf("best %d of 3 is %d, %q, %v; want %q, of means %v", i, c.Index, c.Text, c.Logprobs,
				alone[order[i]], means)
		}
	}
	if len(best.Choices) != 2 || best.Usage.Completion != 15 {
		t.Errorf("%d choices of 3, %+v", len(best.Choices), best.Usage)
	}
	// Several prompts: each gets its own answer, in order.
	one := complete(`"temperature": 1.5, "seed": 7, "echo": true`).Choices[0].Text
	status, several := post(t, s.URL+"/v1/completions", `{"prompt": ["func main() {\n", [339], "func main() {\n"],
		"max_tokens": 5, "temperature": 1.5, "seed": 7, "n": 2, "echo": true}`)
	var those reply
	if err := json.Unmarshal([]byte(several), &those); err != nil || status != 200 || len(those.Choices) != 6 {
		t.Fatalf("three prompts: %d %s", status, several)
	}
	for i, want := range []string{"func main() {\n" + alone[0], "func main() {\n" + alone[1], "func", "func",
		"func main() {\n" + alone[0], "func main() {\n" + alone[1]} {
		c := those.Choices[i]
		if c.Index != i || !strings.HasPrefix(c.Text, want) || want != "func" && c.Text != want {
			t.Errorf("choice %d of three prompts is %d, %q, want %q", i, c.Index, c.Text, want)
		}
	}
	if those.Choices[0].Text != one || those.Usage.Prompt != 13 || those.Usage.Completion != 30 {
		t.Errorf("%q, alone %q; %+v", those.Choices[0].Text, one, those.Usage)
	}
	_, body := post(t, s.URL+"/v1/completions",
		`{"prompt": "func main() {\n", "max_tokens": 5, "temperature": 1.5, "seed": 7, "n": 3, "stream": true, "echo": true}`)
	texts, ends := make([]string, 3), 0
	for line := range strings.Lines(body) {
		var part reply
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			if err := json.Unmarshal([]byte("{"+data), &part); err != nil {
				t.Fatal(err)
			}
			for _, c := range part.Choices {
				texts[c.Index] += c.Text
				if c.Finish != nil {
					ends++
				}
			}
		}
	}
	for i, text := range texts {
		if want := "func main() {\n" + alone[i]; text != want || ends != 3 {
			t.Errorf("choice %d streamed is %q, want %q; %d ends", i, text, want, ends)
		}
	}
	// Logprobs: the tokens form the text, at the given offsets.
	plain := complete(`"temperature": 0, "logprobs": 2`).Choices[0]
	if plain.Logprobs == nil || len(plain.Logprobs.Tokens) != 5 ||
		strings.Join(plain.Logprobs.Tokens, "") != plain.Text {
		t.Fatalf("%q: %+v", plain.Text, plain.Logprobs)
	}
	for i, token := range plain.Logprobs.Tokens {
		at, top := plain.Logprobs.Offsets[i], plain.Logprobs.Top[i]
		if !strings.HasPrefix(string([]rune(plain.Text)[at:]), token) || len(top) != 2 ||
			top[token] != plain.Logprobs.Odds[i] {
			t.Errorf("token %d %q at %d of %q: %v, %v", i, token, at, plain.Text, plain.Logprobs.Odds[i], top)
		}
	}
	// A token that is forbidden does not come, and one that is forced does.
	first := m.Tokenizer().Encode(plain.Logprobs.Tokens[0], tokenizer.Options{})
	if len(first) != 1 {
		t.Fatalf("%q is %d tokens", plain.Logprobs.Tokens[0], len(first))
	}
	other := complete(fmt.Sprintf(`"temperature": 0, "logprobs": 1, "logit_bias": {"%d": -100}`, first[0])).Choices[0]
	if slices.Contains(other.Logprobs.Tokens, plain.Logprobs.Tokens[0]) ||
		other.Logprobs.Odds[0] >= plain.Logprobs.Odds[0] {
		t.Errorf("%q has the token that is forbidden, or its odds are not the model's: %+v", other.Text, other.Logprobs)
	}
	forced := complete(`"temperature": 1, "logit_bias": {"339": 100}`).Choices[0]
	if want := strings.Repeat(m.Tokenizer().Decode([]int32{339}), 5); forced.Text != want {
		t.Errorf("%q, want %q", forced.Text, want)
	}
	status, text := post(t, s.URL+"/v1/completions", `{"prompt": "x", "logit_bias": {"99999": 1}}`)
	if status != 400 {
		t.Errorf("a token that the model has not: %d %s", status, text)
	}
}

// TestScoredPrompts: a completion that echoes its prompt tells how probable the prompt's tokens are, which tools that
// measure models sum up. They ask for one token more than they use, or for none.
func TestScoredPrompts(t *testing.T) {
	m, err := generate.Open(t.Context(), gollama, generate.Options{Device: "cpu", Context: 48, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{})
	type odds struct {
		Tokens  []string
		Odds    []*float64           `json:"token_logprobs"`
		Top     []map[string]float64 `json:"top_logprobs"`
		Offsets []int                `json:"text_offset"`
	}
	type reply struct {
		Choices []struct {
			Text     string
			Finish   *string `json:"finish_reason"`
			Logprobs *odds
		}
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	complete := func(prompt, more string) (a reply) {
		t.Helper()
		status, body := post(t, s.URL+"/v1/completions", `{"prompt": `+prompt+`, "temperature": 0, "echo": true, `+more+`}`)
		if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return a
	}
	const text = "func main() {\n\tx := \"\u00e9\"\n"
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	ids := m.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
	want, err := m.Score(t.Context(), ids, 2)
	if err != nil {
		t.Fatal(err)
	}
	more := complete(string(quoted), `"logprobs": 2, "max_tokens": 3`).Choices[0]
	none := complete(string(quoted), `"logprobs": 2, "max_tokens": 0`)
	only := none.Choices[0]
	if only.Text != text || *only.Finish != "length" || none.Usage.Prompt != len(ids) || none.Usage.Completion != 0 ||
		!strings.HasPrefix(more.Text, text) || more.Text == text {
		t.Errorf("%q by %s, %+v; with more %q", only.Text, *only.Finish, none.Usage, more.Text)
	}
	if n := len(more.Logprobs.Tokens); len(only.Logprobs.Tokens) != len(ids) || n < len(ids)+1 || n > len(ids)+3 {
		t.Fatalf("%d tokens of %d, and %d with three more", len(only.Logprobs.Tokens), len(ids), n)
	}
	for i, l := range want {
		for _, g := range []*odds{only.Logprobs, more.Logprobs} {
			if i == 0 {
				if g.Odds[0] != nil || g.Top[0] != nil || g.Offsets[0] != 0 {
					t.Errorf("the first token has odds: %v, %v, at %d", *g.Odds[0], g.Top[0], g.Offsets[0])
				}
				continue
			}
			if *g.Odds[i] != l.Odds.Logprob || len(g.Top[i]) != 2 ||
				!strings.HasPrefix(string([]rune(text)[g.Offsets[i]:]), l.Text) {
				t.Errorf("token %d %q at %d: %v, %v, want %v", i, g.Tokens[i], g.Offsets[i], *g.Odds[i], g.Top[i],
					l.Odds.Logprob)
			}
			likeliest := l.Odds.Likeliest[0]
			if best := slices.Max(slices.Collect(maps.Values(g.Top[i]))); best != likeliest.Logprob ||
				(best == *g.Odds[i]) != (likeliest.ID == l.ID) {
				t.Errorf("the likeliest in place of %d has %v, want %v", i, best, likeliest.Logprob)
			}
		}
	}
	// The sum over the end of a text equals the sum for the same text as an answer.
	again := complete(string(quoted), `"logprobs": 0, "max_tokens": 3`).Choices[0]
	for i := len(ids); i < len(more.Logprobs.Tokens); i++ {
		if *again.Logprobs.Odds[i] != *more.Logprobs.Odds[i] || again.Text != more.Text {
			t.Errorf("token %d of %q: %v, and %v of %q", i, again.Text, *again.Logprobs.Odds[i], *more.Logprobs.Odds[i],
				more.Text)
		}
	}
	// Lists of tokens, several prompts and answers, as a stream.
	list, err := json.Marshal([][]int32{ids, {339}})
	if err != nil {
		t.Fatal(err)
	}
	those := complete(string(list), `"logprobs": 2, "max_tokens": 1, "n": 2`)
	for i, c := range those.Choices {
		prompt := [][]int32{ids, {339}}[i/2]
		if n := len(c.Logprobs.Odds); n != len(prompt)+1 || c.Logprobs.Odds[0] != nil ||
			i < 2 && *c.Logprobs.Odds[len(ids)-1] != want[len(ids)-1].Odds.Logprob {
			t.Errorf("choice %d: %+v", i, c)
		}
	}
	if len(those.Choices) != 4 || those.Usage.Prompt != len(ids)+1 {
		t.Errorf("%d choices, %+v", len(those.Choices), those.Usage)
	}
	_, body := post(t, s.URL+"/v1/completions", `{"prompt": `+string(quoted)+
		`, "temperature": 0, "echo": true, "logprobs": 2, "max_tokens": 3, "stream": true}`)
	streamed, told, offsets := "", 0, []int(nil)
	for line := range strings.Lines(body) {
		var part reply
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			if err := json.Unmarshal([]byte("{"+data), &part); err != nil {
				t.Fatal(err)
			}
			for _, c := range part.Choices {
				streamed += c.Text
				if c.Logprobs != nil {
					told, offsets = told+len(c.Logprobs.Odds), append(offsets, c.Logprobs.Offsets...)
				}
			}
		}
	}
	if streamed != more.Text || told != len(more.Logprobs.Odds) || !slices.Equal(offsets, more.Logprobs.Offsets) {
		t.Errorf("streamed %q with %d odds at %v, want %q with %d at %v", streamed, told, offsets, more.Text,
			len(more.Logprobs.Odds), more.Logprobs.Offsets)
	}
	// A sum takes the last token for one that was added, and the end token is one as well.
	eos, _ := m.Tokenizer().EOS()
	ended := complete(string(quoted), fmt.Sprintf(`"logprobs": 0, "max_tokens": 1, "logit_bias": {"%d": 100}`, eos)).Choices[0]
	if n := len(ended.Logprobs.Tokens); ended.Text != text || *ended.Finish != "stop" || n != len(ids)+1 ||
		ended.Logprobs.Tokens[n-1] != m.Tokenizer().Token(eos) {
		t.Errorf("%q by %s: %q", ended.Text, *ended.Finish, ended.Logprobs.Tokens)
	}
}

// TestCachedTokens: usage tells how many tokens of a prompt were not computed again, on every path, whole and streamed.
func TestCachedTokens(t *testing.T) {
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{})
	type details struct {
		Cached *int `json:"cached_tokens"`
	}
	type usage struct {
		Prompt  int     `json:"prompt_tokens"`
		Input   int     `json:"input_tokens"`
		Details details `json:"prompt_tokens_details"`
		Inputs  details `json:"input_tokens_details"`
	}
	// ask returns the number of tokens in the prompt, and of those reported as cached.
	ask := func(path, body string) (prompt, cached int) {
		t.Helper()
		status, text := post(t, s.URL+path, body)
		var last struct {
			Usage    *usage
			Response struct{ Usage *usage }
		}
		for line := range strings.Lines(text) {
			if data, ok := strings.CutPrefix(line, "data: {"); ok {
				line = "{" + data
			}
			if strings.HasPrefix(line, "{") {
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
			}
		}
		u := cmp.Or(last.Usage, last.Response.Usage)
		if status != 200 || u == nil || cmp.Or(u.Details.Cached, u.Inputs.Cached) == nil {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return u.Prompt + u.Input, *cmp.Or(u.Details.Cached, u.Inputs.Cached)
	}
	paths := map[string]string{
		"/v1/completions":      `"max_tokens": 2, "prompt": "func main() {\n\tfmt.Print(%d)"`,
		"/v1/chat/completions": `"max_tokens": 2, "messages": [{"role": "user", "content": "package main // %d"}]`,
		"/v1/responses":        `"max_output_tokens": 2, "input": "import ( // %d"`,
	}
	for path, body := range paths {
		for i, stream := range []string{"", `, "stream": true`} {
			if stream != "" && path != "/v1/responses" {
				stream += `, "stream_options": {"include_usage": true}`
			}
			whole := "{" + fmt.Sprintf(body, i) + stream + "}"
			ask("/v1/completions", `{"prompt": "zzz", "max_tokens": 1}`) // which no other begins with
			if prompt, cached := ask(path, whole); cached > 1 {          // the one that begins all texts
				t.Errorf("%s: %d of %d tokens are known of a new prompt", whole, cached, prompt)
			}
			if prompt, cached := ask(path, whole); cached != prompt-1 { // except the last one, to get its logits
				t.Errorf("%s: %d of %d tokens are known of a prompt that was read before", whole, cached, prompt)
			}
		}
	}
	ask("/v1/completions", `{"prompt": "zzz", "max_tokens": 1}`)
	one, _ := ask("/v1/completions", `{"prompt": "func main() {", "max_tokens": 1}`)
	if _, cached := ask("/v1/completions", `{"prompt": "func main() {\n\treturn\n}", "max_tokens": 1}`); cached < one-1 {
		t.Errorf("%d tokens are known of a prompt that begins with %d", cached, one)
	}
}

// TestCheckedSchema: what a grammar does not hold of a schema is tested at the answer's end, and said at its start.
func TestCheckedSchema(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{})
	strict := start(t, newEcho(t), serve.Options{StrictSchema: true})
	for _, c := range []struct {
		say    string
		status int
	}{{"12", 422}, {"14", 200}} {
		body := `{"prompt": "` + c.say + ` ", "stop": " ", "json_schema": {"type": "integer", "multipleOf": 7}, "x-y": 1}`
		r, err := http.NewRequest(http.MethodPost, s.URL+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		warnings := strings.Join(res.Header.Values("Warnings"), "; ")
		if res.StatusCode != c.status || !strings.Contains(warnings, "#: multipleOf") ||
			!strings.Contains(warnings, "x-y") {
			t.Errorf("%s: %d, warnings %q", c.say, res.StatusCode, warnings)
		}
		status, body := post(t, strict.URL+"/v1/completions", body)
		if status != 400 || !strings.Contains(body, "multipleOf") {
			t.Errorf("strict: %d %s", status, body)
		}
	}
	_, body := post(t, s.URL+"/v1/completions",
		`{"prompt": "12 ", "stop": " ", "json_schema": {"type": "integer", "multipleOf": 7}, "stream": true}`)
	if _, _, last, done := streamed(t, body); done || last.Error == nil || !strings.Contains(body, "schema_violated") {
		t.Errorf("a stream: %s", body)
	}
}
