package rewrite

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// rewriter adds nodes to a new graph. Its first error ends the rewrite, so that decompositions can be written like
// formulas (see package bailout).
type rewriter struct {
	g      *ir.Graph
	pos    string                  // source position of new nodes
	pricer kernel.Pricer           // cost model of the device, or nil
	mapped func(*ir.Node) *ir.Node // returns the new graph's node for an old node
}

// rewrite is [ir.Rewrite] with a rewriter for each node. f returns nil to keep a node, with the new arguments.
func rewrite(g *ir.Graph, pricer kernel.Pricer,
	f func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node) (*ir.Graph, error) {
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (out *ir.Node, err error) {
		defer bailout.Caught(&err)
		if out = f(&rewriter{rw.New, n.Pos(), pricer, rw.Mapped}, n, args); out != nil {
			return out, nil
		}
		return rw.Copy(n, args)
	})
}

// numel returns the number of elements of a shape.
func (r *rewriter) numel(s ir.Shape) ir.Dim {
	n, err := s.Numel()
	bailout.Check(err)
	return n
}

// add adds a node.
func (r *rewriter) add(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	n, err := r.g.Add(op, args, attrs, r.pos)
	bailout.Check(err)
	return n
}

func (r *rewriter) unary(op ir.Op, x *ir.Node, attrs ...ir.Attr) *ir.Node {
	return r.add(op, []*ir.Node{x}, attrs...)
}

func (r *rewriter) reshape(x *ir.Node, s ir.Shape) *ir.Node {
	if x.Shape().Equal(s) {
		return x
	}
	return r.unary(ir.OpReshape, x, ir.Attr{Name: "shape", Value: s})
}

// scalar adds a constant without axes.
func (r *rewriter) scalar(t ir.DType, v float64) *ir.Node {
	d, err := ir.FromFloats(t, []float64{v})
	bailout.Check(err)
	return r.add(ir.OpConst, nil, ir.Attr{Name: "data", Value: d})
}

// iota adds a tensor in which each element is its i32 coordinate along an axis.
func (r *rewriter) iota(s ir.Shape, axis int) *ir.Node {
	return r.add(ir.OpIota, nil, ir.Attr{Name: "dtype", Value: ir.I32}, ir.Attr{Name: "shape", Value: s},
		ir.Attr{Name: "axis", Value: axis})
}

// dimValue adds an extent as an i32 value.
func (r *rewriter) dimValue(d ir.Dim) *ir.Node {
	if d.IsStatic() {
		return r.scalar(ir.I32, float64(d.Add))
	}
	return r.add(ir.OpDimValue, nil, ir.Attr{Name: "dim", Value: ir.Shape{d}})
}

func (r *rewriter) castTo(x *ir.Node, t ir.DType) *ir.Node {
	if x.DType() == t {
		return x
	}
	return r.unary(ir.OpCast, x, ir.Attr{Name: "dtype", Value: t})
}

// copied returns a copy of n: a reshape to the same shape, which fusion stores in a buffer of its own.
func (r *rewriter) copied(n *ir.Node) *ir.Node {
	r.pos = n.Pos()
	return r.unary(ir.OpReshape, n, ir.Attr{Name: "shape", Value: n.Shape()})
}

func (r *rewriter) binary(op ir.Op, a, b *ir.Node) *ir.Node { return r.add(op, []*ir.Node{a, b}) }

// swapAxes returns x with axes a and b exchanged.
func (r *rewriter) swapAxes(x *ir.Node, a, b int) *ir.Node {
	if a == b {
		return x
	}
	perm := make([]int, x.Rank())
	for i := range perm {
		perm[i] = i
	}
	perm[a], perm[b] = b, a
	return r.unary(ir.OpTranspose, x, ir.Attr{Name: "perm", Value: perm})
}

func (r *rewriter) broadcast(x *ir.Node, s ir.Shape) *ir.Node {
	if x.Shape().Equal(s) {
		return x
	}
	return r.unary(ir.OpBroadcast, x, ir.Attr{Name: "shape", Value: s})
}
