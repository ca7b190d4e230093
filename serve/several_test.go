package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// library has models that count how often they are loaded and unloaded.
type library struct {
	mu     sync.Mutex
	loads  []string
	opened map[string]bool
	most   int // models that are loaded at the same time at most; more have no memory
	hold   chan struct{}
}

type book struct {
	l    *library
	name string
}

func (b book) Close() error {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	delete(b.l.opened, b.name)
	return nil
}

// source is a model that says its name.
func (l *library) source(t *testing.T, name string) serve.Source {
	return serve.Source{Name: name, Open: func(_ context.Context, o serve.Options) (*serve.Server, io.Closer, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case name == "broken":
			return nil, nil, errors.New("the file is damaged")
		case len(l.opened) == l.most:
			return nil, nil, fmt.Errorf("loading: %w", &generate.RoomError{})
		}
		l.loads, l.opened[name] = append(l.loads, name), true
		e := newEcho(t)
		e.places, e.hold = make(chan struct{}, 8), l.hold
		return serve.New(e, o), book{l, name}, nil
	}}
}

func (l *library) has() (names string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range []string{"a", "b", "c"} {
		if l.opened[name] {
			names += name
		}
	}
	return names
}

func startSeveral(t *testing.T, l *library, o serve.Options, limits serve.Limits) (*serve.Several, string) {
	l.opened = map[string]bool{}
	var list []serve.Source
	for _, name := range []string{"a", "b", "c", "broken"} {
		list = append(list, l.source(t, name))
	}
	v := serve.NewSeveral(list, o, limits)
	s := httptest.NewServer(v)
	t.Cleanup(func() {
		s.Close()
		if err := v.Close(); err != nil || l.has() != "" {
			t.Errorf("%v, not closed: %s", err, l.has())
		}
	})
	return v, s.URL
}

func askFor(t *testing.T, url, model string) (int, string) {
	t.Helper()
	return post(t, url+"/v1/completions", `{"model": "`+model+`", "prompt": "x", "max_tokens": 1}`)
}

// TestSeveral: models are loaded when they are asked for, and the one that was idle for the longest time makes room.
func TestSeveral(t *testing.T) {
	for name, l := range map[string]*library{"by number": {most: 9}, "by memory": {most: 2}} {
		t.Run(name, func(t *testing.T) {
			limits := serve.Limits{Models: 2}
			if l.most == 2 {
				limits = serve.Limits{}
			}
			_, url := startSeveral(t, l, serve.Options{}, limits)
			if l.has() != "" {
				t.Errorf("loaded at once: %s", l.has())
			}
			for _, c := range []struct{ model, has string }{{"", "a"}, {"b", "ab"}, {"a", "ab"}, {"c", "ac"},
				{"b", "bc"}} {
				status, body := askFor(t, url, c.model)
				want := c.model
				if want == "" {
					want = "a"
				}
				if status != 200 || get1(t, body, "model") != want || l.has() != c.has {
					t.Errorf("%q: %d %s, loaded %s, want %s", c.model, status, body, l.has(), c.has)
				}
			}
			if got := fmt.Sprint(l.loads); got != "[a b c b]" {
				t.Errorf("loads %s", got)
			}
			_, body := get(t, url+"/v1/models")
			for i, want := range []string{"unloaded", "loaded", "loaded", "unloaded"} {
				if get1(t, body, fmt.Sprintf("data/%d/status/value", i)) != want {
					t.Errorf("model %d: %s", i, body)
				}
			}
			if status, body := get(t, url+"/models/c"); status != 200 || get1(t, body, "max_model_len") != 64.0 {
				t.Errorf("%d %s", status, body)
			}
			if status, body := askFor(t, url, "d"); status != 404 || !strings.Contains(body, `\"broken\"`) {
				t.Errorf("no such model: %d %s", status, body)
			}
			if status, body := askFor(t, url, "broken"); status != 500 || !strings.Contains(body, "damaged") {
				t.Errorf("a damaged model: %d %s", status, body)
			}
			if status, body := get(t, url+"/props?model=c"); status != 200 || get1(t, body, "model_alias") != "c" {
				t.Errorf("%d %s", status, body)
			}
			_, body = get(t, url+"/metrics")
			if n := strings.Count(body, "# TYPE vllm:num_requests_running"); n != 1 ||
				!strings.Contains(body, `vllm:num_requests_running{model_name="b"} 0`) ||
				!strings.Contains(body, `vllm:num_requests_running{model_name="c"} 0`) {
				t.Errorf("%d heads: %s", n, body)
			}
			if status, body := get(t, url+"/"); status != 200 || !strings.Contains(body, "<!doctype html>") {
				t.Errorf("the page: %d %s", status, body)
			}
		})
	}
}

// TestSeveralBusy: a busy model is not unloaded. A request for another one waits until it is idle, or refuses in time.
func TestSeveralBusy(t *testing.T) {
	l := &library{most: 9, hold: make(chan struct{})}
	v, url := startSeveral(t, l, serve.Options{}, serve.Limits{Models: 1})
	var all sync.WaitGroup
	all.Go(func() {
		if status, body := askFor(t, url, "a"); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	})
	for l.has() != "a" {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	for range 3 {
		all.Go(func() {
			if status, body := askFor(t, url, "b"); status != 200 || get1(t, body, "model") != "b" {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	l.hold <- struct{}{} // a ends
	for l.has() != "b" {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	for range 3 {
		l.hold <- struct{}{}
	}
	all.Wait()
	if got := fmt.Sprint(l.loads); got != "[a b]" {
		t.Errorf("loads %s", got)
	}
	v.Drain()
	if status, _ := askFor(t, url, "a"); status != 503 {
		t.Errorf("draining: %d", status)
	}
	if n := v.Cut(); n != 0 {
		t.Errorf("%d answers are cut", n)
	}
}

// TestSeveralIdle: a model without requests is unloaded. Its key is the server's.
func TestSeveralIdle(t *testing.T) {
	l := &library{most: 9}
	_, url := startSeveral(t, l, serve.Options{Key: "secret"}, serve.Limits{Idle: time.Millisecond})
	if status, _ := askFor(t, url, "a"); status != 401 || l.has() != "" {
		t.Errorf("without the key: %d, loaded %s", status, l.has())
	}
	status, body := post(t, url+"/v1/completions", `{"prompt": "x", "max_tokens": 1}`, "Authorization", "Bearer secret")
	if status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for l.has() != "" {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
}
