package serve_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/serve"
)

// TestRequests sends the requests of docs/REQUESTS.md.
func TestRequests(t *testing.T) {
	doc, err := os.ReadFile("../docs/REQUESTS.md")
	if err != nil {
		t.Fatal(err)
	}
	e := newEcho(t)
	e.places = make(chan struct{}, 8)
	s := start(t, e, serve.Options{})
	row := regexp.MustCompile("^\\| (chat|text|GET|POST) ?(/[^ ]*)? ?(?:`(.*)`)? \\| " +
		"(\\d{3})(?: `(.*)`)? \\| (.+) \\|$")
	rows := 0
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| request") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a row: %s", line)
			continue
		}
		rows++
		method, path, body := m[1], m[2], strings.ReplaceAll(m[3], `\|`, "|")
		switch method {
		case "chat":
			method, path = http.MethodPost, "/v1/chat/completions"
			body = withDefaults(t, body, `{"messages": [{"role": "user", "content": "func main"}], "max_tokens": 2}`)
		case "text":
			method, path = http.MethodPost, "/v1/completions"
			body = withDefaults(t, body, `{"prompt": "func main", "max_tokens": 2}`)
		}
		var status int
		var text string
		if method == http.MethodGet {
			status, text = get(t, s.URL+path)
		} else {
			status, text = post(t, s.URL+path, body)
		}
		if want, _ := strconv.Atoi(m[4]); status != want || !strings.Contains(text, m[5]) {
			t.Errorf("%s\n%d %s", line, status, text)
		}
		if status >= 400 && !json.Valid([]byte(text)) {
			t.Errorf("%s\nthe error is not JSON: %s", line, text)
		}
	}
	if rows < 80 {
		t.Errorf("%d rows, want 80", rows)
	}
}

// withDefaults adds the fields of an object that a row's JSON does not have. Other text of the row stays as it is.
func withDefaults(t *testing.T, body, defaults string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(defaults), &fields); err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSuffix(body, "}")
	for name, v := range fields {
		if !strings.Contains(body, `"`+name+`": `) || name == "max_tokens" && strings.Count(body, `"max_tokens"`) == 0 {
			out += `, "` + name + `": ` + string(v)
		}
	}
	return out + "}"
}
