package interp

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestRulesRun computes every case of ir/testdata/rules.txt that is right, with
// each symbol at 2 and inputs of noise: the results have the extents that the
// shape rule gave, and nothing panics.
func TestRulesRun(t *testing.T) {
	raw, err := os.ReadFile("../testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	var prelude strings.Builder
	ran := map[ir.Op]bool{}
	for _, l := range strings.Split(string(raw), "\n") {
		line, want, ok := strings.Cut(l, " => ")
		switch {
		case strings.HasPrefix(l, "%") || strings.HasPrefix(l, "symbol "):
			prelude.WriteString(l + "\n")
		case ok && !strings.HasPrefix(want, "error: "):
			g, err := ir.Parse("graph \"\" {\n" + prelude.String() + "%case = " + line + "\n}")
			if err != nil {
				t.Fatal(err)
			}
			if runCase(t, g, line) {
				ran[g.Nodes()[len(g.Nodes())-1].Op()] = true
			}
		}
	}
	for _, op := range ir.Ops() {
		if !ran[op] && op.Class() != ir.ClassLeaf {
			t.Errorf("no case of %s ran", op)
		}
	}
}

// runCase runs the last node of a graph, if it is not too large for a test.
func runCase(t *testing.T, g *ir.Graph, line string) bool {
	t.Helper()
	last := g.Nodes()[len(g.Nodes())-1]
	symbols := map[string]int64{}
	for _, s := range g.Symbols() {
		symbols[s] = 2
	}
	vals := make([]value, last.ID()+1)
	for _, n := range append([]*ir.Node{last}, last.Args()...) {
		dims, err := n.Shape().Eval(symbols)
		if err != nil || elems(dims) > 1<<16 || n.DType().IsBlock() && n == last && n.Op() != ir.OpQuantize {
			return false
		}
		if n != last {
			vals[n.ID()] = sample(t, n.DType(), dims)
		}
	}
	if len(last.Args()) == 0 {
		return false
	}
	x := &exec{ctx: context.Background(), workers: 1, env: env{symbols: symbols, bodies: newBodies(Options{})},
		limit: 1 << 30, vals: vals, steps: make([]step, len(vals))}
	for _, n := range append(last.Args(), last) {
		x.steps[n.ID()] = newStep(n, nil)
	}
	if of := last.Args()[0]; last.Op() == ir.OpResult { // its argument has several values
		for _, a := range of.Args() {
			dims, err := a.Shape().Eval(symbols)
			if err != nil {
				t.Fatal(err)
			}
			vals[a.ID()] = sample(t, a.DType(), dims)
		}
		if err := x.define(of); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.define(last); err != nil {
		t.Errorf("%s: %v", line, err)
		return true
	}
	got := vals[last.ID()]
	want, err := last.Shape().Eval(symbols)
	if err != nil {
		t.Fatal(err)
	}
	d, err := got.data()
	if err != nil || got.typ != last.DType() || !slices.Equal(got.dims, want) || d.Check() != nil {
		t.Errorf("%s: gave %s, want %s%v (%v)", line, got, last.DType(), want, err)
	}
	return true
}

// sample returns a tensor with numbers from -3 to 3, and zero blocks.
func sample(t *testing.T, dt ir.DType, dims []int) value {
	t.Helper()
	v, err := makeValue(dt, dims)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range noise(elems(dims), 3) {
		switch {
		case v.f64 != nil:
			v.f64[i] = ir.RoundTo(3*x, dt)
		case v.i64 != nil:
			v.i64[i] = ir.Wrap(int64(3*x), dt)
		}
	}
	return v
}
