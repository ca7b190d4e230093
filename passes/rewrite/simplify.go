package rewrite

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// maxFoldElems limits the number of elements of folded constants, because the graph and its bundle store them.
const maxFoldElems = 1 << 16

// FoldConstants replaces elementwise ops on constants by their results, computed by the ops' Go reference.
func FoldConstants(g *ir.Graph) (*ir.Graph, error) {
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		if d := foldNode(n, args); d != nil {
			return r.add(ir.OpConst, nil, attr("data", d))
		}
		return nil
	})
}

// foldNode returns the value of n if it is an elementwise op on small constants, or nil.
func foldNode(n *ir.Node, args []*ir.Node) *ir.Data {
	if n.Op().Class() != ir.ClassElementwise || !n.Shape().IsStatic() || n.Shape().MaxElems() > maxFoldElems {
		return nil
	}
	dims, err := n.Shape().Eval(nil)
	if err != nil {
		return nil
	}
	for _, a := range args {
		// A float64 cannot hold every i64.
		if a.Op() != ir.OpConst || a.DType().IsBlock() || a.DType() == ir.I64 && n.DType().IsFloat() {
			return nil
		}
	}
	info := n.Op().Info()
	if args[len(args)-1].DType().IsFloat() || n.DType().IsFloat() {
		out := folded(n, args, dims, (*ir.Data).Floats, info.Float)
		for i, v := range out {
			if v != v {
				out[i] = math.NaN() // CPUs differ in the sign and payload of a NaN
			}
		}
		return dataOf(out, n.DType(), dims, ir.FromFloats)
	}
	out := folded(n, args, dims, (*ir.Data).Ints, info.Int)
	for i, v := range out {
		if n.DType() == ir.Bool && n.Op() == ir.OpCast && v != 0 {
			out[i] = 1
		}
	}
	return dataOf(out, n.DType(), dims, ir.FromInts)
}

// folded computes elementwise op n on constants and returns its elements. f is the op for one element, and read returns
// the elements of a constant. It returns nil if f is nil or read fails.
func folded[T int64 | float64](n *ir.Node, args []*ir.Node, dims []int, read func(*ir.Data) ([]T, error),
	f func([]T, ir.Attrs) T) []T {
	in := make([][]T, len(args))
	for i, a := range args {
		v, err := read(a.Attrs().Data("data"))
		if err != nil || f == nil {
			return nil
		}
		in[i] = v
	}
	out, x := make([]T, n.Shape().MaxElems()), make([]T, len(args))
	for i := range out {
		for j, a := range args {
			x[j] = in[j][broadcastPos(i, dims, a.Attrs().Data("data").Dims)]
		}
		out[i] = f(x, n.Attrs())
	}
	return out
}

// dataOf makes a tensor of the values that folded returned, or nil if they are nil.
func dataOf[T int64 | float64](values []T, t ir.DType, dims []int,
	from func(ir.DType, []T, ...int) (*ir.Data, error)) *ir.Data {
	d, err := from(t, values, dims...)
	if values == nil || err != nil {
		return nil
	}
	return d
}

// broadcastPos maps row-major position pos in a result of shape dims to the position in an argument of shape `from`.
func broadcastPos(pos int, dims, from []int) int {
	out, stride := 0, 1
	for i := len(dims) - 1; i >= 0; i-- {
		c := pos % dims[i]
		pos /= dims[i]
		if j := i - (len(dims) - len(from)); j >= 0 {
			if from[j] != 1 {
				out += c * stride
			}
			stride *= from[j]
		}
	}
	return out
}

// Simplify removes ops that change nothing, such as x*1, and merges consecutive views. It makes only rewrites that keep
// every bit of the result. So x+0.0 stays, because it turns -0 into 0.
func Simplify(g *ir.Graph) (*ir.Graph, error) {
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		if len(args) > 0 {
			if x := identity(n, args); x != nil {
				return x
			}
		}
		if sumsNothing(n, args) { // a sum over no elements
			return r.zeros(n)
		}
		switch n.Op() {
		case ir.OpReshape:
			for args[0].Op() == ir.OpReshape {
				args[0] = args[0].Arg(0)
			}
			if args[0].Shape().Equal(n.Shape()) {
				return args[0]
			}
		case ir.OpTranspose:
			if args[0].Op() == ir.OpTranspose {
				return r.joinedTransposes(n, args[0])
			}
		}
		return nil
	})
}

// sumsNothing reports whether every element of n is a sum of no elements, or of zeros.
func sumsNothing(n *ir.Node, args []*ir.Node) bool {
	switch n.Op() {
	case ir.OpSum:
		return args[0].Shape().MaxElems() == 0 || analysis.IsSplat(args[0], 0)
	case ir.OpMatMul:
		return args[0].Shape().MaxElems() == 0 || args[1].Shape().MaxElems() == 0
	}
	return false
}

// joinedTransposes returns a single transpose in place of n, a transpose of transpose inner.
func (r *rewriter) joinedTransposes(n, inner *ir.Node) *ir.Node {
	outer, first := n.Attrs().Ints("perm"), inner.Attrs().Ints("perm")
	perm := make([]int64, len(outer))
	for i, p := range outer {
		perm[i] = first[p]
	}
	return r.unary(ir.OpTranspose, inner.Arg(0), attr("perm", perm))
}

// identity returns the argument that n equals bit for bit, or nil if there is none.
func identity(n *ir.Node, args []*ir.Node) *ir.Node {
	if x := args[0]; x.Type().Equal(n.Type()) {
		if equalsFirst(n, args) {
			return x
		}
		return nil
	}
	// A multiplication may broadcast the 1 instead.
	if n.Op() == ir.OpMul && analysis.IsSplat(args[0], 1) && args[1].Type().Equal(n.Type()) {
		return args[1]
	}
	return nil
}

// equalsFirst reports whether n equals its first argument, which has its type, bit for bit.
func equalsFirst(n *ir.Node, args []*ir.Node) bool {
	allAre := func(want int64, name string) bool { // the elements of an attribute
		return !slices.ContainsFunc(n.Attrs().Ints(name), func(v int64) bool { return v != want })
	}
	switch n.Op() {
	case ir.OpCast, ir.OpBroadcast:
		return true
	case ir.OpSlice: // the type is the same, so the slice keeps all elements if it keeps their order
		return allAre(0, "starts") && allAre(1, "steps")
	case ir.OpTranspose:
		return slices.IsSorted(n.Attrs().Ints("perm"))
	case ir.OpFlip: // a tensor is flipped along all axes if none is named, but a scalar has none
		return len(n.Attrs().Ints("axes")) == 0 && n.Rank() == 0
	case ir.OpMul, ir.OpDiv:
		return analysis.IsSplat(args[1], 1)
	case ir.OpSub:
		return analysis.IsSplat(args[1], 0) && !isNegZero(args[1])
	case ir.OpAdd:
		return analysis.IsSplat(args[1], 0) && (n.DType().IsInteger() || isNegZero(args[1]))
	case ir.OpAffine: // add must be -0, because -0 + 0 is 0
		return n.Attrs().Float("mul") == 1 && n.Attrs().Float("add") == 0 && 1/n.Attrs().Float("add") < 0
	case ir.OpConcat:
		return len(args) == 1
	case ir.OpDynamicUpdateSlice: // the update has no elements
		return args[1].Shape().MaxElems() == 0
	case ir.OpPad:
		return allAre(0, "low") && allAre(0, "high")
	}
	return false
}

// isNegZero reports whether n is a constant of elements -0.
func isNegZero(n *ir.Node) bool {
	v, ok := n.Number()
	return ok && v == 0 && 1/v < 0
}

// CSE merges nodes with the same op, arguments and attributes (common subexpression elimination).
func CSE(g *ir.Graph) (*ir.Graph, error) {
	seen := map[string]*ir.Node{}
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		var key strings.Builder
		fmt.Fprintf(&key, "%s %s", n.Op(), n.Type())
		for _, a := range args {
			fmt.Fprintf(&key, " %d", a.ID())
		}
		for _, at := range n.Attrs() {
			fmt.Fprintf(&key, " %s=%s", at.Name, ir.FormatAttr(at.Value))
		}
		if seen[key.String()] == nil {
			seen[key.String()] = r.add(n.Op(), args, n.Attrs()...)
		}
		return seen[key.String()]
	})
}

// DCE removes nodes that no output and no update depends on (dead code elimination).
func DCE(g *ir.Graph) (*ir.Graph, error) {
	return rewrite(g, nil, func(*rewriter, *ir.Node, []*ir.Node) *ir.Node { return nil })
}
