package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// story is an answer with each form of text.
const story = "## A title\n\nA **bold** and *slanted* line, `code`, and [a link](https://example.org/a).\n\n" +
	"1. one\n2. two\n   - inner <b>text</b>\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n" +
	"```go\nfunc main() {\n\tprintln(\"<script>\")\n}\n```\n\n[bad](javascript:alert(1)) and 2 * 3 * 4 snake_case_name\n"

// told starts a server of the page with answers of its own: reasoning, a call, and the parts of an answer.
func told(t *testing.T, parts <-chan string) string {
	t.Helper()
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	page := serve.New(m, serve.Options{Name: "talker"})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			page.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(delta string) {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":%s}]}\n\n", delta)
			http.NewResponseController(w).Flush()
		}
		send(`{"reasoning_content":"so it is"}`)
		for {
			select {
			case part, more := <-parts:
				if !more {
					send(`{"tool_calls":[{"index":0,"id":"abcdefghi","function":{"name":"weather","arguments":"{\"x\":1}"}}]}`)
					fmt.Fprint(w, "data: [DONE]\n\n")
					return
				}
				send(fmt.Sprintf(`{"content":%q}`, part))
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestMarkdown: Markdown becomes elements, and nothing else does. Thinking and calls are folded, code can be copied.
func TestMarkdown(t *testing.T) {
	parts := make(chan string, 100)
	url, ctx := told(t, parts), browser(t)
	do(t, ctx, chromedp.Navigate(url), until(`document.title === "talker"`), chromedp.SendKeys("#text", "hi"), enter,
		until(`document.querySelector("article.assistant .thinking div")?.textContent === "so it is"`))
	for _, word := range strings.SplitAfter(story, " ") {
		parts <- word
	}
	close(parts)
	do(t, ctx, until(idle), until(`document.querySelector("article.assistant details.call0")`))
	for expression, want := range map[string]string{
		`h2`: "A title", `strong`: "bold", `em`: "slanted", `p code`: "code", `ol > li:nth-child(2) li`: "inner <b>text</b>",
		`blockquote p`: "quoted", `td:last-child`: "2", `.code pre`: "func main() {\n\tprintln(\"<script>\")\n}",
		`.code span`: "go", `> p:last-of-type`: "[bad](javascript:alert(1)) and 2 * 3 * 4 snake_case_name",
		`details.call0 summary`: "Calls weather", `details.call0 div`: `{"x":1}`,
	} {
		got := value[string](t, ctx, fmt.Sprintf(`document.querySelector("article.assistant %s")?.textContent ?? "none"`,
			expression))
		if got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	if n := value[int](t, ctx, `document.querySelectorAll("#log b, #log script, #log a:not([href^='https:'])").length`); n != 0 {
		t.Errorf("%d elements come from the text", n)
	}
	open := value[int](t, ctx, `document.querySelectorAll("#log details[open]").length`)
	links := value[string](t, ctx, `[...document.querySelectorAll("#log a")].map(a => a.href).join()`)
	if open != 0 || links != "https://example.org/a" {
		t.Errorf("%d unfolded, links %s", open, links)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`navigator.clipboard.writeText = async t => { window.copied = t; }`),
		chromedp.Click(`.code button`), until(`window.copied?.startsWith("func main")`),
		until(`document.querySelector(".code button").textContent === "Copied"`))

	// The next message is the result of the call.
	wire := value[string](t, ctx, `now.messages.push({role: "tool", content: "sunny"}), wire(now).slice(1).map(m => m.role + (m.tool_call_id ?? m.tool_calls?.[0].function.name)).join()`)
	if wire != "assistantweather,toolabcdefghi" {
		t.Errorf("messages %s", wire)
	}
}

// TestPlace: new text scrolls the page only where its end is in sight, and Escape stops an answer.
func TestPlace(t *testing.T) {
	parts := make(chan string, 100)
	url, ctx := told(t, parts), browser(t)
	do(t, ctx, chromedp.Navigate(url), until(`document.title === "talker"`), chromedp.SendKeys("#text", "hi"), enter)
	for range 60 {
		parts <- "a line\n\n"
	}
	do(t, ctx, until(`document.querySelectorAll("#log p").length === 60`), until(`atEnd()`),
		chromedp.Evaluate[chromedp.Void](`$("log").scrollTop = 10`))
	for range 20 {
		parts <- "another\n\n"
	}
	do(t, ctx, until(`document.querySelectorAll("#log p").length === 80`))
	if top := value[int](t, ctx, `$("log").scrollTop`); top != 10 {
		t.Errorf("the reader's place moved from 10 to %d", top)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))`),
		until(idle))
	if top := value[int](t, ctx, `$("log").scrollTop`); top != 10 {
		t.Errorf("the end of the answer moved the reader's place from 10 to %d", top)
	}
}

// TestAccessible: axe-core finds no violation, in light and dark, on a screen and on a phone, which scrolls in one
// direction only. axe-core is downloaded by npm.
func TestAccessible(t *testing.T) {
	dir := os.Getenv("VKC_AXE")
	if dir == "" {
		if _, err := exec.LookPath("npm"); err != nil {
			t.Skip("there is no npm here")
		}
		dir = t.TempDir()
		install := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--prefix", dir, "axe-core@4.14.1")
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("axe-core: %v: %s", err, out)
		}
	}
	axe, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	parts := make(chan string, 1)
	parts <- story
	close(parts)
	url, ctx := told(t, parts), browser(t)
	do(t, ctx, chromedp.Navigate(url), until(`document.title === "talker"`), chromedp.SendKeys("#text", "hi"), enter,
		until(`document.querySelector("details.call0") && `+idle),
		chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true;
			show("error", "It failed."); $("key-row").hidden = $("models-row").hidden = false;`),
		chromedp.Evaluate[chromedp.Void](string(axe)+"; undefined"))
	for _, c := range []struct {
		width  int64
		scheme string
	}{{1000, "light"}, {1000, "dark"}, {360, "light"}, {360, "dark"}} {
		do(t, ctx, chromedp.EmulateViewport(c.width, 800), chromedp.Func(func(ctx context.Context, on *chromedp.Target) error {
			_, err := cdp.Call(ctx, on, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.scheme}}})
			return err
		}))
		wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run().then(r => r.violations.map(v =>
			v.id + ": " + v.nodes.map(n => n.html.slice(0, 80) + " " + n.failureSummary).join("; ")))`,
			chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range wrong {
			t.Errorf("%d %s: %s", c.width, c.scheme, text)
		}
		if wide := value[int](t, ctx, `document.documentElement.scrollWidth`); wide > int(c.width) {
			t.Errorf("%d %s: the page is %d wide", c.width, c.scheme, wide)
		}
	}
}
