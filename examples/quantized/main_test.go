package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestRun: more bits cost less error, and the drawing has a mark for each format.
func TestRun(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	svg := filepath.Join(t.TempDir(), "formats.svg")
	costs, err := run(t.Context(), "cpu", svg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	order := []ir.DType{ir.F16, ir.Q8_0, ir.Q6_K, ir.Q4_K, ir.Q3_K, ir.Q2_K}
	for i, f := range order[1:] {
		better := order[i]
		if costs[f].bits >= costs[better].bits || costs[f].err <= costs[better].err || costs[f].err > 0.5 {
			t.Errorf("%s costs %v and %s %v", f, costs[f], better, costs[better])
		}
	}
	drawing, err := os.ReadFile(svg)
	if err != nil || strings.Count(string(drawing), "<circle") != len(formats) {
		t.Errorf("the drawing has %d marks of %d: %v", strings.Count(string(drawing), "<circle"), len(formats), err)
	}
}
