package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// said collects the output of a running command.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestServe asks a server of each kind of model, and ends it.
func TestServe(t *testing.T) {
	for _, device := range []string{"cpu", "cpu,cpu"} {
		testServe(t, gollama, device, "/v1/completions",
			`{"prompt": "func main() {\n", "max_tokens": 2, "temperature": 0}`, `"completion_tokens":2`)
	}
	testServe(t, gollama, "cpu,cpu", "/v1/completions", `{"prompt": "func", "max_tokens": 2, "temperature": 0}`,
		`"completion_tokens":2`, "--split", "layers")
	testServe(t, gollama, "cpu", "/v1/completions", `{"prompt": "func", "max_tokens": 2, "temperature": 0}`,
		`"completion_tokens":2`, "--draft-tokens", "3")
	testServe(t, embedder(t), "cpu", "/v1/embeddings", `{"input": ["func main() {\n", "x"]}`, `"index":1`)
}

// startServe starts a server of a model in this process. It returns the address, a function that stops it, and its exit
// code.
func startServe(t *testing.T, model, device string, stderr *said, more ...string) (url string, end func(),
	code chan int) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	code = make(chan int, 1)
	go func() {
		code <- execute(ctx, append([]string{"serve", "-m", model, "--device", device,
			"--listen", "127.0.0.1:0", "--name", "gollama"}, more...), io.Discard, stderr)
	}()
	address := regexp.MustCompile(`gollama at (http://\S+)`)
	for !address.MatchString(stderr.String()) {
		select {
		case c := <-code:
			t.Fatalf("exit code %d: %s", c, stderr)
		case <-time.After(time.Millisecond): // clock: looks again, as long as it takes
		}
	}
	return address.FindStringSubmatch(stderr.String())[1], end, code
}

// TestServeCuts ends a server that does not wait for an answer under way: the client gets an error, and the command
// fails.
func TestServeCuts(t *testing.T) {
	var stderr said
	url, end, code := startServe(t, gollama, "cpu", &stderr, "--drain", "0s")
	// Far more than is computed before the server ends.
	res, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(
		`{"prompt": "func main() {\n", "n": 16, "stream": true, "logit_bias": {"2": -100}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	events := bufio.NewReader(res.Body)
	if _, err := events.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	end()
	rest, err := io.ReadAll(events)
	if err != nil || !strings.Contains(string(rest), "the server stopped before the answer was complete") {
		t.Errorf("%v: %.300s", err, rest)
	}
	if c := <-code; c != exitFailure || !strings.Contains(stderr.String(), "after --drain 0s, this number of "+
		"unfinished answers was cut off: 1") {
		t.Errorf("exit code %d: %s", c, &stderr)
	}
}

func testServe(t *testing.T, model, device, path, request, want string, more ...string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr said
	url, end, code := startServe(t, model, device, &stderr, append(more, "--ctx", "32", "--key-file", key)...)
	url += path
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), want) {
		t.Errorf("%d %s %v", res.StatusCode, body, err)
	}
	end()
	if c := <-code; c != exitOK || !strings.Contains(stderr.String(), "ending") {
		t.Errorf("exit code %d: %s", c, &stderr)
	}
}

func TestServeFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line := []string{"serve", "-m", gollama, "--device", "cpu", "--ctx", "32"}
	fails(t, exitUsage, []string{"serve"}, "-m MODEL.gguf is missing")
	fails(t, exitUsage, append(line, "--listen", "8080"), "--listen", "want HOST:PORT")
	fails(t, exitUsage, append(line, "--listen", "0.0.0.0:0"), "--key-file FILE, or --without-key")
	fails(t, exitUsage, append(line, "--listen", ":0"), "--key-file FILE, or --without-key")
	fails(t, exitUsage, append(line, "--queue", "0"), "--queue")
	fails(t, exitUsage, append(line, "--split", "rows"), "--split rows", "want one of layers, tensor, auto, none")
	fails(t, exitUsage, []string{"serve", "-m", embedder(t), "--device", "cpu,cpu"}, "--split layers")
	fails(t, exitUsage, []string{"serve", "-m", embedder(t), "--device", "cpu", "--tune", "1s"}, "--tune 1s")
	fails(t, exitUsage, append(line, "--draft-tokens", "3", "--parallel", "2"), "give one of the two")
	fails(t, exitFailure, append(line, "--key-file", empty), "want a key of 1 to 4096")
	fails(t, exitUsage, append(line, "--cors-origin", "app.example"), "--cors-origin app.example", "a scheme")
	fails(t, exitUsage, append(line, "--allow-host", "host:80"), "--allow-host host:80", "without a port")
	fails(t, exitUsage, append(line, "--slot-save-path", empty), "--slot-save-path", "a directory")
	fails(t, exitUsage, append(line, "--models-max", "-1"), "--models-max -1")
	fails(t, exitUsage, append(line, "--models-idle", "-1s"), "--models-idle -1s")
	fails(t, exitUsage, append(line, "-m", gollama), "another model has the name")
	fails(t, exitUsage, append(line, "-m", embedder(t), "--name", "x"), "are for one model, and -m names 2")
	fails(t, exitFailure, []string{"serve", "-m", filepath.Dir(empty)}, "the folder has no models")
}

// TestServeFolder serves a folder of models: each is loaded when it is asked for, and listed.
func TestServeFolder(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"code.gguf": gollama, "vectors.gguf": embedder(t)} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stderr said
	ctx, end := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"serve", "-m", dir, "--device", "cpu", "--ctx", "32", "--models-max", "1",
			"--listen", "127.0.0.1:0"}, io.Discard, &stderr)
	}()
	address := regexp.MustCompile(`2 models at (http://\S+)`)
	for !address.MatchString(stderr.String()) {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	url := address.FindStringSubmatch(stderr.String())[1]
	for _, c := range []struct{ path, body, want string }{
		{"/v1/completions", `{"model": "code", "prompt": "func", "max_tokens": 2}`, `"completion_tokens":2`},
		{"/v1/embeddings", `{"model": "vectors", "input": "x"}`, `"embedding"`},
		{"/v1/completions", `{"model": "code", "prompt": "func", "max_tokens": 1}`, `"model":"code"`},
		{"/v1/completions", `{"model": "vectors", "prompt": "func"}`, "is an embedding model"},
	} {
		res, err := http.Post(url+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %s %v, want %s", c.body, body, err, c.want)
		}
	}
	end()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d: %s", c, &stderr)
	}
}
