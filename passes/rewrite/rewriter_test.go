package rewrite

import (
	"errors"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestRewriteFails: the error of a node that cannot be added ends a rewrite, which returns it. A panic of another kind
// is not an error.
func TestRewriteFails(t *testing.T) {
	g := ir.NewGraph("fails")
	x, err := g.Add(ir.OpInput, nil, []ir.Attr{{Name: "name", Value: "x"}, {Name: "dtype", Value: ir.F32},
		{Name: "shape", Value: ir.ShapeOf(2, 3)}}, "")
	if err := errors.Join(err, g.Output("y", x)); err != nil {
		t.Fatal(err)
	}
	_, err = rewrite(g, nil, func(r *rewriter, n *ir.Node, _ []*ir.Node) *ir.Node {
		x := r.add(n.Op(), nil, n.Attrs()...)
		r.binary(ir.OpMatMul, x, x)
		t.Error("a matmul of a [2, 3] with itself is no error")
		return x
	})
	if err == nil {
		t.Error("the rewrite returns no error")
	}
	defer func() {
		if thrown := recover(); thrown != "a bug" {
			t.Errorf("recovered %v", thrown)
		}
	}()
	_, err = rewrite(g, nil, func(*rewriter, *ir.Node, []*ir.Node) *ir.Node { panic("a bug") })
	t.Errorf("a panic became the error %v", err)
}
