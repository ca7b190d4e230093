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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// replica is a process of vkc serve, as a gateway sees it.
type replica struct {
	cmd    *exec.Cmd
	url    *url.URL
	stderr said
	queue  int  // requests on their way
	gone   bool // it takes no more
	served int
}

// gateway gives each request to the replica with the fewest on their way, and again to another one where that one
// is gone or about to end. It is the transport of an [httputil.ReverseProxy].
type gateway struct {
	mu       sync.Mutex
	replicas []*replica
	retried  int
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
		g.retried++
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

// startReplica starts vkc serve in a process of its own.
func startReplica(t *testing.T, exe string) *replica {
	t.Helper()
	r := &replica{cmd: exec.Command(exe, "serve", "-m", gollama, "--device", "cpu", "--ctx", "32", "--listen",
		"127.0.0.1:0", "--parallel", "2", "--name", "gollama")}
	r.cmd.Stderr = &r.stderr
	r.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	})
	return r
}

// await returns when a replica listens.
func (r *replica) await(t *testing.T) {
	t.Helper()
	address := regexp.MustCompile(`gollama at (http://\S+)`)
	for !address.MatchString(r.stderr.String()) {
		if err := r.cmd.Process.Signal(nil); errors.Is(err, os.ErrProcessDone) {
			t.Fatal(&r.stderr)
		}
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	var err error
	if r.url, err = url.Parse(address.FindStringSubmatch(r.stderr.String())[1]); err != nil {
		t.Fatal(err)
	}
}

// TestReplicasBehindAGateway has clients ask three processes of vkc serve through a reverse proxy. One is killed, and
// another is told to end, while they answer: every request is answered, with the text that one process alone gives.
func TestReplicasBehindAGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc and starts it three times")
	}
	exe := buildPlain(t, t.TempDir())
	g := &gateway{}
	for range 3 {
		g.replicas = append(g.replicas, startReplica(t, exe))
	}
	for _, r := range g.replicas {
		r.await(t)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: g})
	defer front.Close()

	const clients, each = 6, 8
	texts := []string{"func main() {\n", "package ", "// Read "}
	want := make([]string, len(texts))
	for i, text := range texts {
		want[i] = ask(t, g.replicas[2].url.String(), text)
	}
	if want[0] == want[1] {
		t.Fatalf("all texts go on with %q: the test would prove nothing", want[0])
	}
	var over sync.WaitGroup
	answered := make(chan struct{}, clients*each)
	for i := range clients {
		over.Go(func() {
			for j := range each {
				n := (i + j) % len(texts)
				if have := ask(t, front.URL, texts[n]); have != want[n] {
					t.Errorf("%q goes on with %q, want %q", texts[n], have, want[n])
				}
				answered <- struct{}{}
			}
		})
	}
	for range clients * each / 3 {
		<-answered
	}
	if err := g.replicas[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range clients * each / 3 {
		<-answered
	}
	if err := g.replicas[1].cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	over.Wait()
	if err := g.replicas[1].cmd.Wait(); err != nil {
		t.Errorf("the one that was told to end: %v: %s", err, &g.replicas[1].stderr)
	}
	for i, r := range g.replicas {
		if r.served == 0 {
			t.Errorf("replica %d answered nothing", i)
		}
	}
	if g.retried == 0 {
		t.Error("no request met a replica that was gone")
	}
}

// TestReadyWhileItEnds has a process of vkc serve told to end by SIGTERM while the body of a request is on its way:
// it says at /ready and /health that it ends, refuses more, and answers that one.
func TestReadyWhileItEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc and starts it")
	}
	r := startReplica(t, buildPlain(t, t.TempDir()))
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
	for !strings.Contains(r.stderr.String(), "ending") {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
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
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &r.stderr)
	}
}

// statusOf is what a connection of its own gets.
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
