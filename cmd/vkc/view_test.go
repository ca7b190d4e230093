package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestView: vkc view writes a page to a file, and serves it by a secret address until it is interrupted.
func TestView(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	ok(t, "view", mlpGraph, "-o", file)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(written), `"name":"fuse_elementwise"`) {
		t.Error("the page has no record of the passes")
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	done := make(chan int)
	go func() {
		code := execute(ctx, []string{"view", mlpGraph}, w, io.Discard)
		w.Close()
		done <- code
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(string(line[:n]))
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/[A-Z2-7]{20,}/$`).MatchString(address) {
		t.Fatalf("vkc view prints %q", address)
	}
	other := regexp.MustCompile(`[^/]+/$`).ReplaceAllString(address, "")
	for url, code := range map[string]int{address: http.StatusOK, other: http.StatusNotFound} {
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != code || (code == http.StatusOK) != strings.Contains(string(page), "fuse_elementwise") {
			t.Errorf("%s: %s, %d bytes", url, answer.Status, len(page))
		}
	}
	stop()
	if code := <-done; code != exitOK {
		t.Errorf("interrupted, vkc view ends with %d", code)
	}
}

// TestViewErrors: what vkc view refuses, before it compiles anything.
func TestViewErrors(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(trace, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"view", mlpGraph, "--port", "70000"}, "--port 70000: want 0 to 65535"},
		{[]string{"view", mlpGraph, "--port", "1", "-o", "x.html"}, "give one of them"},
		{[]string{"view", mlpGraph, "--trace", trace}, "no events"},
		{[]string{"view", mlpGraph, "--trace", "no-such.json"}, "no-such.json"},
		{[]string{"view", mlpGraph, "-o", t.TempDir()}, "is a directory"},
		{[]string{"view", mlpGraph, "--target", "toaster", "-o", "x.html"}, "toaster"},
		{[]string{"view"}, "GRAPH or BUNDLE.vkb is missing"},
	} {
		if r := run(t, tt.args...); r.code == exitOK || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%v: code %d, %q, want %q", tt.args, r.code, r.stderr, tt.want)
		}
	}
}
