package fast_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// TestOps compares every op that has kernels here with the interpreter, over all cases of the op and with memory
// poisoned, and checks that some of them are computed here.
func TestOps(t *testing.T) { testOps(t, false) }

// TestSmokeOps is TestOps with the few cases of each op for a quick run, for the race detector. It runs them with each
// width of vectors.
func TestSmokeOps(t *testing.T) {
	fast.EachWidth(t, func(t *testing.T) { testOps(t, true) })
}

func testOps(t *testing.T, smoke bool) {
	var names []string
	for _, op := range fast.Ops() {
		names = append(names, op.String())
	}
	taken := map[ir.Op]int{}
	load := func(_ context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
		for i, k := range fast.Kernels(g) {
			if k != nil {
				taken[g.Nodes()[i].Op()]++
			}
		}
		return cpu.Load(g, w, cpu.Options{Poison: true})
	}
	filter := regexp.MustCompile(fmt.Sprintf("^(%s)/", strings.Join(names, "|")))
	report, err := optest.Run(t.Context(), load, optest.Options{Filter: filter, Smoke: smoke})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures() {
		t.Errorf("%s: %s", f.Case, f.Reason)
	}
	for _, op := range fast.Ops() {
		if taken[op] < 3 && !smoke && !truths(op) {
			t.Errorf("%s: %d nodes of its cases are computed here, want 3 at least", op, taken[op])
		}
	}
}

// truths reports whether an op gives truths, which are computed here only on the way to floats.
func truths(op ir.Op) bool {
	switch op {
	case ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe, ir.OpIsNaN, ir.OpIsInf:
		return true
	}
	return false
}
