package analysis

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// IsLeaf reports whether no kernel computes n: it is a leaf op such as a weight or an input, or packed weights.
func IsLeaf(n *ir.Node) bool { return n.Op().Class() == ir.ClassLeaf || IsPacked(n) }

// IsPacked reports whether n concatenates whole weights along their outermost axis. No kernel computes such a concat:
// Load fills one weight buffer with the weights one after another.
func IsPacked(n *ir.Node) bool {
	if n.Op() != ir.OpConcat || n.Attrs().Int("axis") != 0 {
		return false
	}
	return !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return a.Op() != ir.OpWeight })
}

// IsFixed reports whether a node's buffer is filled when the program is loaded, and keeps its contents in all runs.
func IsFixed(n *ir.Node) bool {
	return n.Op() == ir.OpWeight || n.Op() == ir.OpConst || IsPacked(n)
}

// IsSplat reports whether n is a constant with all elements equal to want.
func IsSplat(n *ir.Node, want float64) bool {
	if n.Op() != ir.OpConst {
		return false
	}
	v, ok := n.Number()
	return ok && v == want
}

// Axis returns the value of an op's attribute axis, counted from 0: an axis of its first argument, or of the op itself
// if it has no arguments.
func Axis(n *ir.Node) int {
	rank := n.Rank()
	if len(n.Args()) > 0 {
		rank = n.Arg(0).Rank()
	}
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), rank)
	if err != nil {
		panic("analysis: " + err.Error()) // the shape rule has checked it
	}
	return axis
}

// FoldedAxes reports for each axis of its argument whether a reduction or row op folds it, that is, combines the
// elements along it. These are the axes in its attributes, or else the innermost axis.
func FoldedAxes(n *ir.Node) []bool {
	axes := []int64{-1}
	switch attrs := n.Attrs(); {
	case attrs.Has("axes"):
		axes = attrs.Ints("axes")
	case attrs.Has("axis"):
		axes = []int64{int64(attrs.Int("axis"))}
	}
	fold, err := ir.ResolveAxes(axes, n.Arg(0).Rank())
	if err != nil {
		panic("analysis: " + err.Error()) // the shape rule has checked it
	}
	return fold
}

// Precision returns a matmul's precision attribute.
func Precision(n *ir.Node) string { return n.Attrs().String_("precision") }

// Descending reports whether an argsort or top-k puts the largest elements first.
func Descending(n *ir.Node) bool {
	if n.Op() == ir.OpTopKIndices {
		return n.Attrs().Bool("largest")
	}
	return n.Attrs().Bool("descending")
}

// CombineOps maps a reduction to the elementwise op that combines two results: for sum it is add.
var CombineOps = map[ir.Op]ir.Op{
	ir.OpSum: ir.OpAdd, ir.OpProd: ir.OpMul, ir.OpReduceMax: ir.OpMax, ir.OpReduceMin: ir.OpMin, ir.OpAny: ir.OpOr,
	ir.OpAll: ir.OpAnd,
}

// ScatterReductions maps the mode of a scatter to the reduction that combines updates with the same destination.
var ScatterReductions = map[string]ir.Op{
	"add": ir.OpSum, "mul": ir.OpProd, "min": ir.OpReduceMin, "max": ir.OpReduceMax,
}

// ScatterMode returns the mode in which a scatter combines updates with the base, such as "add", or "" if updates
// overwrite the base.
func ScatterMode(n *ir.Node) string {
	switch n.Op() {
	case ir.OpScatterAdd, ir.OpScatterNDAdd:
		return n.Attrs().String_("mode")
	case ir.OpIndexAdd:
		return "add"
	}
	return ""
}

// NeverNegative reports whether indices of a dtype cannot be negative, even after a cast to i32: u8 and u16.
func NeverNegative(t ir.DType) bool { return t.Kind() == ir.KindUint && t.BlockBytes() < 4 }

// CallKey returns a key of a node with this op, these arguments and attributes. Nodes that are different results of one
// call (they differ only in attribute output) have the same key.
func CallKey(op ir.Op, args []*ir.Node, attrs ir.Attrs) string {
	key := op.String()
	for _, a := range args {
		key += fmt.Sprintf(" %d", a.ID())
	}
	for _, a := range ir.WithOutput(attrs, 0) {
		key += " " + ir.FormatAttr(a.Value)
	}
	return key
}

// maxHeadDim is the largest head dimension of an attention kernel, which keeps a row of the result in the registers of
// a workgroup.
const maxHeadDim = 512

// AttentionRefusal returns the reason why no attention kernel can compute an attention, or "" if one can. A refused
// attention is decomposed into a matmul, a softmax and another matmul.
func AttentionRefusal(n *ir.Node) string {
	rank := n.Arg(0).Rank()
	keyDim, valueDim := n.Arg(0).Shape()[rank-1], ir.D(1) // the log-sum-exp has no values
	if v := n.Op().Info().Arg("v"); v >= 0 {
		valueDim = n.Arg(v).Shape()[rank-1]
	}
	empty := func(x *ir.Node) bool { return x.Shape().MaxElems() == 0 }
	switch {
	case !valueDim.IsStatic():
		return fmt.Sprintf("the values' extent %s is known only at run time", valueDim)
	case keyDim.Add > maxHeadDim || valueDim.Add > maxHeadDim:
		return fmt.Sprintf("vectors of %s and %s are longer than %d", keyDim, valueDim, maxHeadDim)
	case n.DType() == ir.F64:
		return "the kernel would compute the softmax in f32, which is less precise than f64"
	case empty(n) || slices.ContainsFunc(n.Args(), empty):
		return "a tensor is empty"
	}
	return ""
}

// AttentionScale returns the factor by which an attention multiplies its scores: the attribute, or 1/sqrt(head size).
func AttentionScale(n *ir.Node) float64 {
	if scale := n.Attrs().Float("scale"); scale != 0 {
		return scale
	}
	return 1 / math.Sqrt(float64(n.Arg(0).Shape()[n.Arg(0).Rank()-1].Add))
}

// IsStep reports whether n is an elementwise op of floats with a result that jumps: a rounding such as floor, a result
// that is an integer or a bool, or a float of at most 8 bits, since neighbouring values are then far apart. mod and rem
// jump at the multiples of the divisor.
func IsStep(n *ir.Node) bool {
	if n.Op().Class() != ir.ClassElementwise || !n.Arg(len(n.Args())-1).DType().IsFloat() {
		return false
	}
	switch n.Op() {
	case ir.OpFloor, ir.OpCeil, ir.OpRound, ir.OpTrunc, ir.OpMod, ir.OpRem:
		return true
	}
	return !n.DType().IsFloat() || n.DType().Bits() <= 8
}

// Stepped returns the float nodes that a step (see [IsStep]) reads, directly or through elementwise ops, views,
// indexing ops, and maxima or minima. The step turns the smallest error of such a node into a large one. Other ops,
// such as sums, end the search: their tolerances allow for small errors of their arguments.
func Stepped(g *ir.Graph) map[*ir.Node]bool {
	stepped := map[*ir.Node]bool{}
	for _, n := range slices.Backward(g.Nodes()) {
		if !IsStep(n) && !(stepped[n] && passesOn(n)) {
			continue
		}
		for _, a := range n.Args() {
			if a.DType().IsFloat() {
				stepped[a] = true
			}
		}
	}
	return stepped
}

// passesOn reports whether a small difference of an argument stays about as small in the result of n.
func passesOn(n *ir.Node) bool {
	switch n.Op().Class() {
	case ir.ClassElementwise, ir.ClassView, ir.ClassIndexing:
		return true
	}
	return n.Op() == ir.OpReduceMax || n.Op() == ir.OpReduceMin
}
