package clienttest

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// npmOpenAI is the version of OpenAI's client for JavaScript.
const npmOpenAI = "openai@7.59.0"

// vectors is an embedder with a vector for each number of tokens.
type vectors struct{ *generate.Model }

func (vectors) Embed(_ context.Context, tokens []int32) ([]float32, error) {
	return []float32{float32(len(tokens)), 1}, nil
}

// TestNpmClient has OpenAI's client for JavaScript, which npm downloads, talk with a server: testdata/openai.mjs.
func TestNpmClient(t *testing.T) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here", tool)
		}
	}
	dir := os.Getenv("VKC_NPM")
	if dir == "" {
		dir = t.TempDir()
		install := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--prefix", dir, npmOpenAI)
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", npmOpenAI, err, out)
		}
	}
	script, err := os.ReadFile("testdata/openai.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/openai.mjs", script, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := generate.Open(t.Context(), talker(t), generate.Options{Device: "cpu", Context: 256, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	options := serve.Options{Name: "talker", Key: "secret", StrictModel: true}
	s, e := httptest.NewServer(serve.New(m, options)), httptest.NewServer(serve.NewEmbeddings(vectors{m}, options))
	defer s.Close()
	defer e.Close()
	node := exec.CommandContext(t.Context(), "node", "openai.mjs", s.URL+"/v1", e.URL+"/v1")
	node.Dir = dir
	if out, err := node.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
