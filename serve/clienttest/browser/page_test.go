// Package browser has a browser use the page of package serve.
package browser

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

var screenshot = flag.String("screenshot", "", "write a picture of the page after the first answers to this file")

const gollama = "../../../examples/gollama/gollama-q8_0.gguf"

// talker is the model of the example with a template of conversations.
func talker(t *testing.T) string {
	t.Helper()
	const template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
	path := filepath.Join(t.TempDir(), "talker.gguf")
	if err := gguf.Edit(gollama, path, gguf.KV{Key: "tokenizer.chat_template", Value: template}); err != nil {
		t.Fatal(err)
	}
	return path
}

// browser starts a headless browser. What its page does wrong, scripts or rules of security, fails the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no chromium here: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1000, 800),
		chromedp.WSURLReadTimeout(2*time.Minute)) // a busy machine
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var wrong []string
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			wrong = append(wrong, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.LineNumber))
		case *log.EventEntryAdded:
			// A missing key is a part of the test, and browsers request an icon.
			if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "401") &&
				!strings.Contains(e.Entry.URL, "favicon") {
				wrong = append(wrong, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	}))
	t.Cleanup(cancel)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, text := range wrong {
			t.Error(text)
		}
	})
	return ctx
}

// do has the browser do things, one after another.
func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// value evaluates an expression in the page.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// until waits for a condition in the page. If it never becomes true, the test runs into its time limit.
func until(condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for {
			holds, err := chromedp.Evaluate[bool]("Boolean("+condition+")")(ctx, t)
			if holds || err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

const idle = `$("stop").hidden`

// enter is the key that sends a message. One that the protocol presses would also write a line, which the page cannot
// prevent there.
var enter = chromedp.Evaluate[chromedp.Void](
	`$("text").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", cancelable: true}))`)

func TestPage(t *testing.T) {
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 192, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := httptest.NewServer(serve.New(m, serve.Options{Name: "talker", Key: "secret", MaxTokens: 40}))
	defer s.Close()
	ctx := browser(t)

	// Without the key the page asks for it, and says why nothing is answered.
	do(t, ctx, chromedp.Navigate(s.URL), until(`!$("key-row").hidden`), chromedp.SendKeys("#text", "func main"), chromedp.Click("#send"),

		until(`document.querySelector("article.error")`))
	told, left := value[string](t, ctx, `document.querySelector("article.error").textContent`),
		value[string](t, ctx, `$("text").value`)
	if !strings.Contains(told, "the key is missing") || left != "func main" {
		t.Errorf("without a key: %q, the message is %q", told, left)
	}

	// With it, a message is answered piece by piece, and is text whatever it says.
	const message = `<img src=x onerror="document.title='taken'">`
	do(t, ctx, chromedp.SendKeys("#key", "secret"+kb.Tab), until(`document.title === "talker"`),
		chromedp.Evaluate[chromedp.Void](`$("text").value = ""`), chromedp.SendKeys("#text", message), enter,
		until(`document.querySelector("article.assistant")?.textContent && `+idle))
	said, title := value[string](t, ctx, `document.querySelector("article.user").textContent`),
		value[string](t, ctx, `document.title`)
	if images := value[int](t, ctx, `document.querySelectorAll("#log img").length`); said != message ||
		title != "talker" || images != 0 {
		t.Errorf("%q, titled %q, with %d images", said, title, images)
	}
	do(t, ctx, chromedp.SendKeys("#text", "func main() {"), enter,
		until(`document.querySelectorAll("article.assistant").length === 2 && `+idle))
	if *screenshot != "" {
		picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*screenshot, picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// The last answer can be made again.
	do(t, ctx, chromedp.Click(`//nav[last()]/button[text()="Regenerate"]`), until("!"+idle), until(idle),
		until(`document.querySelectorAll("article.assistant").length === 2`))

	// Conversations are kept, and begun, and chosen from, and forgotten.
	do(t, ctx, chromedp.Reload(), until(`document.querySelectorAll("article").length === 4`),
		chromedp.Click("#clear"), until(`document.querySelectorAll("article").length === 0`))
	if n := value[int](t, ctx, `document.querySelectorAll("#list option").length`); n != 2 {
		t.Errorf("%d conversations, want 2", n)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`$("list").value = "1"; $("list").dispatchEvent(new Event("change"))`),
		until(`document.querySelectorAll("article").length === 4`), chromedp.Click("#forget"),
		until(`document.querySelectorAll("article").length === 0`), chromedp.Reload(),
		until(`document.querySelectorAll("#list option").length === 1`))
}

// TestStop: an answer that is stopped stays as far as it came.
func TestStop(t *testing.T) {
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "reference", Context: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := httptest.NewServer(serve.New(m, serve.Options{Name: "talker"}))
	defer s.Close()
	ctx := browser(t)
	do(t, ctx, chromedp.Navigate(s.URL), until(`document.title === "talker"`),
		chromedp.SendKeys("#text", "package sort provides primitives"), enter,
		until(`document.querySelector("article.assistant")?.textContent.length > 3`))
	before := value[string](t, ctx, `document.querySelector("article.assistant").textContent`)
	do(t, ctx, chromedp.Click("#stop"), until(idle))
	after := value[string](t, ctx, `document.querySelector("article.assistant").textContent`)
	if !strings.HasPrefix(after, before) {
		t.Errorf("%q was stopped as %q", before, after)
	}
}
