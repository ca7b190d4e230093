package browser

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

// TestJavaScript runs a model in the page of js/, built for JavaScript, and compares the answer with this machine's. The page
// rounds no rows to int8, as processors with AVX-512 VNNI do by default.
func TestJavaScript(t *testing.T) {
	ctx, folder := browser(t), t.TempDir()
	if out, err := exec.Command("../../../scripts/js", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(folder)))
	mux.HandleFunc("/model.gguf", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, gollama) })
	s := httptest.NewServer(mux)
	defer s.Close()
	do(t, ctx, chromedp.Navigate(s.URL+"/?model=model.gguf"), until(`document.title === "done"`))
	status := value[string](t, ctx, `document.getElementById("status").textContent`)
	if !regexp.MustCompile(`^\d+ tokens, \d+ a second$`).MatchString(status) {
		t.Errorf("the page says %q", status)
	}
	t.Log(status)

	m, err := generate.Open(t.Context(), gollama, generate.Options{Device: "cpu", Context: 1024,
		Precision: vkc.Exact})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var want strings.Builder
	prompt := m.Tokenizer().Encode("func main() {", tokenizer.Options{Whole: true})
	for token, err := range m.Generate(t.Context(), prompt, generate.Sampling{MaxTokens: 64}) {
		if err != nil {
			t.Fatal(err)
		}
		want.WriteString(token.Text)
	}
	have := value[string](t, ctx, `document.getElementById("answer").textContent`)
	if !strings.HasPrefix(have, want.String()) {
		t.Errorf("the page answers %q, want %q", have, want.String())
	}
}
