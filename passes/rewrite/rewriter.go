package rewrite

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// nodes adds nodes to a new graph. Its first error ends the rewrite, so that decompositions can be written like
// formulas (see package bailout).
type nodes struct {
	g   *ir.Graph
	pos string // source position of new nodes
}

// rewriter replaces a node of a graph by nodes of a new graph.
type rewriter struct {
	nodes
	pricer kernel.Pricer           // cost model of the device, or nil
	mapped func(*ir.Node) *ir.Node // returns the new graph's node for an old node
}

// rewrite is [ir.Rewrite] with a rewriter for each node. f returns nil to keep a node, with the new arguments.
func rewrite(g *ir.Graph, pricer kernel.Pricer,
	f func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node) (*ir.Graph, error) {
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (out *ir.Node, err error) {
		defer bailout.Caught(&err)
		r := &rewriter{nodes: nodes{g: rw.New, pos: n.Pos()}, pricer: pricer, mapped: rw.Mapped}
		out = f(r, n, args)
		if out == nil {
			return rw.Copy(n, args)
		}
		return out, nil
	})
}

// numel returns the number of elements of a shape.
func (r *nodes) numel(s ir.Shape) ir.Dim { return bailout.Must(s.Numel()) }

// add adds a node.
func (r *nodes) add(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	return bailout.Must(r.g.Add(op, args, attrs, r.pos))
}

// attr returns an attribute.
func attr(name string, value any) ir.Attr { return ir.Attr{Name: name, Value: value} }

// onAxis adds an op with the given attribute axis.
func (r *nodes) onAxis(op ir.Op, axis int, args ...*ir.Node) *ir.Node {
	return r.add(op, args, attr("axis", axis))
}

// concat joins tensors along an axis. A single tensor stays unchanged.
func (r *nodes) concat(axis int, list ...*ir.Node) *ir.Node {
	if len(list) == 1 {
		return list[0]
	}
	return r.onAxis(ir.OpConcat, axis, list...)
}

// foldAlong returns a reduction of x along some axes, which keep extent 1.
func (r *nodes) foldAlong(op ir.Op, x *ir.Node, axes ...int64) *ir.Node {
	return r.unary(op, x, attr("axes", axes), attr("keepdims", true))
}

func (r *nodes) where(cond, a, b *ir.Node) *ir.Node {
	return r.add(ir.OpWhere, []*ir.Node{cond, a, b})
}

// slice returns the elements of x from starts up to, but excluding, limits.
func (r *nodes) slice(x *ir.Node, starts []int64, limits ir.Shape) *ir.Node {
	return r.unary(ir.OpSlice, x, attr("starts", starts), attr("limits", limits))
}

func (r *nodes) transpose(x *ir.Node, perm []int64) *ir.Node {
	return r.unary(ir.OpTranspose, x, attr("perm", perm))
}

// fill returns a tensor of one number.
func (r *nodes) fill(t ir.DType, v float64, s ir.Shape) *ir.Node {
	return r.unary(ir.OpBroadcast, r.scalar(t, v), attr("shape", s))
}

func (r *nodes) unary(op ir.Op, x *ir.Node, attrs ...ir.Attr) *ir.Node {
	return r.add(op, []*ir.Node{x}, attrs...)
}

// reshape returns x in another shape with the same number of elements.
func (r *nodes) reshape(x *ir.Node, s ir.Shape) *ir.Node {
	if x.Shape().Equal(s) {
		return x
	}
	return r.unary(ir.OpReshape, x, attr("shape", s))
}

// scalar adds a constant without axes.
func (r *nodes) scalar(t ir.DType, v float64) *ir.Node {
	return r.add(ir.OpConst, nil, attr("data", bailout.Must(ir.FromFloats(t, []float64{v}))))
}

// iota adds a tensor in which each element is its i32 coordinate along an axis.
func (r *nodes) iota(s ir.Shape, axis int) *ir.Node {
	return r.add(ir.OpIota, nil, attr("dtype", ir.I32), attr("shape", s), attr("axis", axis))
}

// dimValue adds an extent as an i32 value.
func (r *nodes) dimValue(d ir.Dim) *ir.Node {
	if d.IsStatic() {
		return r.scalar(ir.I32, float64(d.Add))
	}
	return r.add(ir.OpDimValue, nil, attr("dim", ir.Shape{d}))
}

// castTo returns x in another dtype.
func (r *nodes) castTo(x *ir.Node, t ir.DType) *ir.Node {
	if x.DType() == t {
		return x
	}
	return r.unary(ir.OpCast, x, attr("dtype", t))
}

// copied returns a copy of n: a reshape to the same shape, which fusion stores in a buffer of its own.
func (r *nodes) copied(n *ir.Node) *ir.Node {
	r.pos = n.Pos()
	return r.unary(ir.OpReshape, n, attr("shape", n.Shape()))
}

func (r *nodes) binary(op ir.Op, a, b *ir.Node, attrs ...ir.Attr) *ir.Node {
	return r.add(op, []*ir.Node{a, b}, attrs...)
}

// swapAxes returns x with axes a and b exchanged.
func (r *nodes) swapAxes(x *ir.Node, a, b int) *ir.Node {
	if a == b {
		return x
	}
	perm := make([]int64, x.Rank())
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[a], perm[b] = int64(b), int64(a)
	return r.transpose(x, perm)
}

// broadcast returns x repeated along axes of extent 1, in the given shape.
func (r *nodes) broadcast(x *ir.Node, s ir.Shape) *ir.Node {
	if x.Shape().Equal(s) {
		return x
	}
	return r.unary(ir.OpBroadcast, x, attr("shape", s))
}
