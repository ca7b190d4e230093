package passes

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestFoldsInTurnKeepAttributes: a reduction that is made group by group is the same
// reduction each time. variance stands for any op with attributes of its own.
func TestFoldsInTurnKeepAttributes(t *testing.T) {
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
	if !out.Type().Equal(ir.Type{DType: ir.F16, Shape: ir.Shape{ir.D(1), ir.D(1)}}) || out.Op() != ir.OpCast {
		t.Errorf("the result is %s %s, want a cast to f16[1,1]", out.Op(), out.Type())
	}
	steps := 0
	for m := out.Arg(0); m.Op() == ir.OpVariance; m = m.Arg(0) {
		steps++
		if m.Attrs().Int("correction") != 1 || !m.Attrs().Bool("keepdims") || len(m.Attrs().Ints("axes")) != 1 ||
			m.DType() != ir.F32 {
			t.Errorf("step %d is %s of %s", steps, m.Attrs(), m.DType())
		}
	}
	if steps != 2 {
		t.Errorf("%d steps, want one for each symbol", steps)
	}
}
