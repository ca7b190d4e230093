package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/ir"
)

// TestPairs: every vkc case to compare with ggml must exist, and every ggml case must have a unique name, which
// identifies its output.
func TestPairs(t *testing.T) {
	known := map[string]bool{}
	for _, c := range bench.Cases(bench.Full) {
		known[c.Name] = true
	}
	seen := map[string]bool{}
	for _, p := range allPairs() {
		if seen[p.name] {
			t.Errorf("two cases of ggml are called %s", p.name)
		}
		seen[p.name] = true
		found := false
		for _, c := range p.cases {
			found = found || known[c]
		}
		if !found {
			t.Errorf("%s: vkc bench has none of %v", p.name, p.cases)
		}
	}
}

// TestCaseText compares one line with the output of ggml's own exporter of test cases: op, dtype, extents, parameters,
// and sources with strides.
func TestCaseText(t *testing.T) {
	p := pair{name: "mm", line: matmulLine(ir.Q4_0, 16, 256, 512, precF32)}
	want := "29 0 256 16 1 1 1 10 2 2 512 256 1 1 18 288 73728 73728 0 512 16 1 1 4 2048 32768 32768 mm\n"
	if got := string(caseText([]pair{p})); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	for _, l := range bytes.Split(bytes.TrimSpace(caseText(allPairs())), []byte("\n")) {
		if strings.Contains(string(l), "  ") {
			t.Errorf("an empty word in %q", l)
		}
	}
}

// TestGGMLLine reads a line of ggml's tool as it prints it.
func TestGGMLLine(t *testing.T) {
	m := ggmlLine.FindStringSubmatch("  MUL_MAT(name=matmul/q4_0/1x2x3,type=f32,ne=[256,16,1,1],op_params=[]):    " +
		"8192 runs -   200.48 us/run -      120 kB/run - \x1b[1;34m   0.57 GB/s\x1b[0m")
	if m == nil || m[1] != "matmul/q4_0/1x2x3" || m[2] != "200.48" {
		t.Errorf("read %q", m)
	}
}
