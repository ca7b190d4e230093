package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	var out strings.Builder
	if err := run(t.Context(), "cpu", &out); err != nil {
		t.Fatal(err)
	}
	const want = "y [14]\ngradient [2 4 6]\ny [14 77]\ngradient [2 4 6 8 10 12]\nruns [2]\n"
	if out.String() != want {
		t.Errorf("it printed\n%swant\n%s", out.String(), want)
	}
}
