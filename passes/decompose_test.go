package passes

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestFoldsInTurn: each step of a fold whose axes have two symbols is made group by group, and what the op's
// attributes say is left for the end. Variance stands for any op with several steps and attributes of its own.
func TestFoldsInTurn(t *testing.T) {
	g := ir.NewGraph("")
	s, u := ir.Symbol("S", 8), ir.Symbol("T", 8)
	x, err := g.Add(ir.OpInput, nil, []ir.Attr{
		{Name: "name", Value: "x"}, {Name: "dtype", Value: ir.F16}, {Name: "shape", Value: ir.Shape{s, u}},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := g.Add(ir.OpVariance, []*ir.Node{x}, []ir.Attr{{Name: "correction", Value: int64(1)}}, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rewriter{g: g}
	out := r.foldInTurn(n, x, linearAxes(n))
	if r.err != nil {
		t.Fatal(r.err)
	}
	if !out.Type().Equal(ir.Type{DType: ir.F16, Shape: ir.Shape{}}) {
		t.Errorf("the result is %s, want f16[]", out.Type())
	}
	sums, corrected := 0, false
	for _, m := range g.Nodes() {
		switch {
		case m.Op() == ir.OpSum:
			sums++
			if !m.Attrs().Bool("keepdims") || len(m.Attrs().Ints("axes")) != 1 || m.DType() != ir.F32 {
				t.Errorf("%s is %s of %s", m, m.Attrs(), m.DType())
			}
		case m.Op() == ir.OpConst && m.DType() == ir.F32:
			v, err := m.Attrs().Data("data").Floats()
			corrected = corrected || err == nil && v[0] == 1
		}
	}
	if sums != 4 || !corrected {
		t.Errorf("%d sums, correction seen: %v; want one for each of two steps and two symbols", sums, corrected)
	}
}
