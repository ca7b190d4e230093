package main

import (
	"os"
	"strings"
	"testing"
)

// TestBackendsAreFresh fails if the table of compiling ops in docs/OPS.md is not up to date.
func TestBackendsAreFresh(t *testing.T) {
	have, err := os.ReadFile("../../docs/OPS.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := backends()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(have), want) {
		t.Errorf("docs/OPS.md is stale from \"Where ops run\" on: run go generate ./ir; want\n%.2000s", want)
	}
}

func TestLacking(t *testing.T) {
	for reason, want := range map[string]string{
		"gpu cannot run this graph: it lacks feature float64: a value is f64; use f32 (for neg)":          "float64",
		"it lacks feature storage8: b (for x); feature int64: c (for y); feature int64: d (for z)":        "storage8, int64",
		"it lacks maxStorageBuffers 4: the kernel binds 9 buffers; keep some values as outputs (for add)": "maxStorageBuffers",
		"has no lowering": "has no lowering",
	} {
		if have := lacking(reason); have != want {
			t.Errorf("%q lacks %q, want %q", reason, have, want)
		}
	}
}
