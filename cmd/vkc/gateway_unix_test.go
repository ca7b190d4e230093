//go:build linux || darwin

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// replica is a process of vkc serve, as a gateway sees it.
type replica struct {
	cmd    *exec.Cmd
	url    *url.URL
	stderr said
	ended  chan struct{} // closed when the process has ended
	err    error         // of its end
	queue  int           // requests on their way
	gone   bool          // it takes no more
	served int
}

// gateway gives each request to the replica with the fewest on their way, and again to another one where that one
// is gone or about to end. It is the transport of an [httputil.ReverseProxy].
type gateway struct {
	mu       sync.Mutex
	replicas []*replica
}

// pick returns the replica with the shortest queue; nil if none takes requests.
func (g *gateway) pick() (best *replica) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.replicas {
		if !r.gone && (best == nil || r.queue < best.queue) {
			best = r
		}
	}
	if best != nil {
		best.queue++
	}
	return best
}

func (g *gateway) done(r *replica, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.queue--
	if ok {
		r.served++
	} else {
		r.gone = true
	}
}

// RoundTrip implements http.RoundTripper. An answer is passed on when the whole of it is there, so that no part of one
// that ends early is.
func (g *gateway) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	for {
		r := g.pick()
		if r == nil {
			return nil, errors.New("no replica takes requests")
		}
		again := q.Clone(q.Context())
		again.URL.Scheme, again.URL.Host, again.Host = r.url.Scheme, r.url.Host, r.url.Host
		again.Body = io.NopCloser(bytes.NewReader(body))
		res, err := http.DefaultTransport.RoundTrip(again)
		var answer []byte
		if err == nil {
			answer, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		if ok := err == nil && res.StatusCode != http.StatusServiceUnavailable; !ok {
			g.done(r, false)
			continue
		}
		g.done(r, true)
		res.Body = io.NopCloser(bytes.NewReader(answer))
		return res, nil
	}
}

// all reports whether something holds of all these replicas.
func (g *gateway) all(replicas []*replica, holds func(*replica) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(replicas, func(r *replica) bool { return !holds(r) })
}

// startReplica starts vkc serve in a process of its own. However long its answers take, it ends after them.
func startReplica(t *testing.T, exe string) *replica {
	t.Helper()
	r := &replica{ended: make(chan struct{}), cmd: exec.Command(exe, "serve", "-m", gollama, "--device", "cpu", "--ctx",
		"32", "--listen", "127.0.0.1:0", "--parallel", "2", "--name", "gollama", "--drain", "10h", "--timeout", "10h")}
	r.cmd.Stderr = &r.stderr
	r.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.ended
	})
	return r
}

// says waits until the output of a replica matches, and returns the match.
func (r *replica) says(t *testing.T, what string) []string {
	t.Helper()
	for over := false; ; {
		if found := regexp.MustCompile(what).FindStringSubmatch(r.stderr.String()); found != nil {
			return found
		}
		if over {
			t.Fatalf("it has ended (%v) and not said %q: %s", r.err, what, &r.stderr)
		}
		select {
		case <-r.ended:
			over = true
		case <-time.After(time.Millisecond): // clock: looks again, as long as it takes
		}
	}
}

// await returns when a replica listens.
func (r *replica) await(t *testing.T) {
	t.Helper()
	var err error
	if r.url, err = url.Parse(r.says(t, `gollama at (http://\S+)`)[1]); err != nil {
		t.Fatal(err)
	}
}

// TestReplicasBehindAGateway sends requests to three processes of vkc serve through a reverse proxy. After all three
// have answered, it kills one. When a request has met the killed one, it stops another one gracefully. Every request
// must be answered, with the text of a single process.
func TestReplicasBehindAGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc and starts it three times")
	}
	exe := buildPlain(t)
	g := &gateway{}
	for range 3 {
		g.replicas = append(g.replicas, startReplica(t, exe))
	}
	for _, r := range g.replicas {
		r.await(t)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: g})
	defer front.Close()

	texts := []string{"func main() {\n", "package ", "// Read "}
	want := make([]string, len(texts))
	for i, text := range texts {
		want[i] = ask(t, g.replicas[2].url.String(), text)
	}
	if want[0] == want[1] {
		t.Fatalf("all texts go on with %q: the test would prove nothing", want[0])
	}
	var clients sync.WaitGroup
	var enough atomic.Bool
	answered := make(chan struct{}) // closed when no client asks any more
	for i := range 6 {
		clients.Go(func() {
			for n := i; !enough.Load(); n++ {
				text, want := texts[n%len(texts)], want[n%len(texts)]
				if have := ask(t, front.URL, text); have != want {
					t.Errorf("%q goes on with %q, want %q", text, have, want)
					return
				}
				answered <- struct{}{}
			}
		})
	}
	go func() {
		clients.Wait()
		close(answered)
	}()
	until := func(holds func(*replica) bool, of ...*replica) {
		t.Helper()
		for !g.all(of, holds) {
			if _, more := <-answered; !more {
				t.FailNow()
			}
		}
	}
	gone := func(r *replica) bool { return r.gone }
	until(func(r *replica) bool { return r.served > 0 }, g.replicas...)
	killed, told := g.replicas[0], g.replicas[1]
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(gone, killed)
	if err := told.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	until(gone, told)
	enough.Store(true)
	for range answered {
	}
	if <-told.ended; told.err != nil {
		t.Errorf("the one that was told to end: %v: %s", told.err, &told.stderr)
	}
}

// TestReadyWhileItEnds has a process of vkc serve told to end by SIGTERM while the body of a request is on its way:
// it says at /ready and /health that it ends, refuses more, and answers that one.
func TestReadyWhileItEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc and starts it")
	}
	r := startReplica(t, buildPlain(t))
	r.await(t)
	base := r.url.String()
	body, rest := io.Pipe()
	begun := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(begun) }})
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Expect", "100-continue") // which comes when the request is read
	status := make(chan int, 1)
	// The clock: the body is sent when the server wants it, and not after a time.
	client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	go func() {
		res, err := client.Do(q)
		if err != nil {
			t.Error(err)
			close(status)
			return
		}
		res.Body.Close()
		status <- res.StatusCode
	}()
	<-begun
	if have := statusOf(t, base+"/ready"); have != http.StatusOK {
		t.Errorf("/ready is %d before the end", have)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.says(t, "ending")
	for _, path := range []string{"/ready", "/health"} {
		if have := statusOf(t, base+path); have != http.StatusServiceUnavailable {
			t.Errorf("%s is %d while the server ends", path, have)
		}
	}
	res, err := http.Post(base+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "x"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || !res.Close {
		t.Errorf("another request: %d, connection closed %v", res.StatusCode, res.Close)
	}
	io.WriteString(rest, `{"prompt": "x", "max_tokens": 2}`)
	rest.Close()
	if have := <-status; have != http.StatusOK {
		t.Errorf("the request under way is answered with %d", have)
	}
	if <-r.ended; r.err != nil {
		t.Errorf("%v: %s", r.err, &r.stderr)
	}
}

// statusOf returns the HTTP status of a request on a new connection.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// ask returns how a server goes on with a text.
func ask(t *testing.T, base, text string) string {
	t.Helper()
	q := fmt.Sprintf(`{"prompt": %q, "max_tokens": 6, "temperature": 0}`, text)
	res, err := http.Post(base+"/v1/completions", "application/json", strings.NewReader(q))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	found := regexp.MustCompile(`"text":("(?:[^"\\]|\\.)*")`).FindSubmatch(answer)
	if err != nil || res.StatusCode != http.StatusOK || found == nil {
		t.Errorf("%s: %d %s %v", base, res.StatusCode, answer, err)
		return ""
	}
	return string(found[1])
}
