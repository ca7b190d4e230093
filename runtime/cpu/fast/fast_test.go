package fast_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

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
// width of vectors. Under the race detector it takes the widest: work is shared alike.
func TestSmokeOps(t *testing.T) {
	if underRace {
		testOps(t, true)
		return
	}
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
		exe, err := cpu.Load(g, w, cpu.Options{Poison: true})
		if smoke && err == nil {
			exe = together{exe}
		}
		return exe, err
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

// together runs a program in several goroutines at once, which must not share working memory: the race detector goes
// over these runs. All results must have the same bits.
type together struct{ runtime.Executable }

func (e together) Run(ctx context.Context, in map[string]*ir.Data, o ...runtime.RunOptions) (*runtime.Result, error) {
	if len(e.States()) > 0 {
		return e.Executable.Run(ctx, in, o...)
	}
	var all [4]*runtime.Result // more than this test's processors, so that one run takes over the memory of another
	var runs errgroup.Group
	for i := range all {
		runs.Go(func() (err error) {
			all[i], err = e.Executable.Run(ctx, in, o...)
			return err
		})
	}
	if err := runs.Wait(); err != nil {
		return nil, err
	}
	for name, first := range all[0].Outputs {
		for _, r := range all[1:] {
			if !bytes.Equal(r.Outputs[name].Bytes, first.Bytes) {
				return nil, fmt.Errorf("output %q of two runs at once differs", name)
			}
		}
	}
	return all[0], nil
}

// truths reports whether an op gives truths, which are computed here only on the way to floats.
func truths(op ir.Op) bool {
	switch op {
	case ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe, ir.OpIsNaN, ir.OpIsInf:
		return true
	}
	return false
}
