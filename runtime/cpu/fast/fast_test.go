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

// TestRows compares every row of the table with the interpreter, over all cases of its op, and checks
// that the row accepts some of them.
func TestRows(t *testing.T) {
	var names []string
	for _, op := range fast.Rows() {
		names = append(names, op.String())
	}
	taken := map[ir.Op]int{}
	load := func(_ context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
		for _, n := range g.Nodes() {
			if fast.Kernel(n) != nil {
				taken[n.Op()]++
			}
		}
		return cpu.Load(g, w, cpu.Options{})
	}
	filter := regexp.MustCompile(fmt.Sprintf("^(%s)/", strings.Join(names, "|")))
	report, err := optest.Run(t.Context(), load, optest.Options{Filter: filter})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures() {
		t.Errorf("%s: %s", f.Case, f.Reason)
	}
	for _, op := range fast.Rows() {
		if taken[op] < 3 {
			t.Errorf("%s: %d nodes of its cases are computed here, want 3 at least", op, taken[op])
		}
	}
}
