package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// epsilon returns the machine epsilon of a float dtype, and 0 for other dtypes.
func epsilon(t ir.DType) float64 {
	if !t.IsFloat() {
		return 0
	}
	return math.Ldexp(1, -t.Float().Mantissa)
}

// smallestNormal returns the smallest normal number of a float dtype.
func smallestNormal(t ir.DType) float64 { return math.Ldexp(1, t.Float().Least) }

// ToleranceOf returns the tolerance for node n's value if a device computes the whole graph. See Tolerances.
func ToleranceOf(g *ir.Graph, n *ir.Node) ir.Tolerance { return Tolerances(g)[n.ID()] }

// Tolerances returns, by node ID, how far a device's value of each node may be from the reference if the device
// computes the whole graph.
//
// The errors of different ops are independent, so along a path through the graph they add as the root of the sum of
// squares. A node takes the worst path that leads to it. A relative error keeps its absolute size: an error made in f16
// stays as large when an f32 op follows. From the second inexact op of a path on, the error is relative to the largest
// element of the tensor, because the difference of two inexact numbers is only as accurate as these.
//
// Devices compute f64 in f64 and every other dtype in f32. The Tol of an op's row is for f32, so Eps is in units of the
// epsilon of that arithmetic, and Abs is as much smaller for f64 as its epsilon is. A narrower result adds one unit of
// its own dtype for rounding.
//
// Integers and bools count as exact, and so does everything computed only from them: an error that flips a comparison
// or an index has no bound. Compared graphs must avoid such ties. Bodies of loops and branches add their own errors.
func Tolerances(g *ir.Graph) []ir.Tolerance {
	all := pathErrors(g)
	out := make([]ir.Tolerance, len(all))
	for i, n := range g.Nodes() {
		if n.DType().IsFloat() {
			out[i] = all[i].tolerance(n.DType())
		}
	}
	return out
}

// pathErrors returns the error of every node, by ID.
func pathErrors(g *ir.Graph) []pathError {
	all := make([]pathError, len(g.Nodes()))
	for i, n := range g.Nodes() {
		all[i] = errorAt(n, all)
	}
	return all
}

// pathError is the error of the worst path that leads to a node, including the node's own.
type pathError struct {
	rel2, abs2 float64 // squares of the relative and the absolute error
	sum        bool    // the relative error is relative to the tensor's largest element
}

// exact reports whether there is no error at all.
func (e pathError) exact() bool { return e.rel2 == 0 && e.abs2 == 0 }

// errorAt returns the error of node n: its own error added to the worst error of its arguments. all has the errors of
// earlier nodes.
func errorAt(n *ir.Node, all []pathError) pathError {
	control := ir.Results(n) != nil // the first result may be an integer although other results are floats
	if !n.DType().IsFloat() && !control {
		return pathError{}
	}
	var worst pathError
	for _, a := range n.Args() {
		if !a.DType().IsFloat() && n.Op() != ir.OpResult {
			continue
		}
		e := all[a.ID()]
		worst.rel2 = max(worst.rel2, e.rel2)
		worst.abs2 = max(worst.abs2, e.abs2)
		worst.sum = worst.sum || e.sum
	}
	own := ownError(n)
	if control {
		own = bodyError(n)
	}
	// Once an argument has an error and the op adds one, the sum is relative to the tensor's largest element: the op
	// may cancel large elements to small ones, which then keep the large elements' error.
	return pathError{
		rel2: worst.rel2 + own.rel2,
		abs2: worst.abs2 + own.abs2,
		sum:  worst.sum || own.sum || !worst.exact() && !own.exact(),
	}
}

// bodyError returns the error that the bodies of a control op add. Each trip of a loop adds the same error.
func bodyError(n *ir.Node) pathError {
	var own pathError
	for _, body := range n.Bodies() {
		for _, e := range pathErrors(body) {
			own.rel2, own.abs2 = max(own.rel2, e.rel2), max(own.abs2, e.abs2)
			own.sum = own.sum || !e.exact() // a later trip adds its error to an inexact value
		}
	}
	if trips := n.Attrs().Shape("trips"); len(trips) == 1 {
		own.rel2 = float64(own.rel2 * float64(trips[0].Max()))
		own.abs2 = float64(own.abs2 * float64(trips[0].Max()))
	}
	return own
}

// ownError returns the error that op n itself adds to exact arguments.
func ownError(n *ir.Node) pathError {
	tol, unit := n.Op().Info().Tol, unitOf(n.DType())
	rel := float64(tol.Eps * unit)
	if eps := epsilon(n.DType()); tol.Eps > 0 && eps > unit {
		rel += eps // rounding to a narrower dtype
	}
	rel += precisionError(n)
	abs := float64(tol.Abs * unit / epsilon(ir.F32))
	return pathError{float64(rel * rel), float64(abs * abs), tol.Sum}
}

// unitOf returns the machine epsilon of the arithmetic that computes values of a dtype.
func unitOf(t ir.DType) float64 {
	if t == ir.F64 {
		return epsilon(ir.F64)
	}
	return epsilon(ir.F32)
}

// HalfSums is the error of a sum accumulated in f16, in units of f16's epsilon.
const HalfSums = 32

// ByteRows is the relative error of a matmul with rows quantized to int8, in 255 steps. It is six standard deviations.
// A standard deviation is half a step, and the largest of 32 neighbours is assumed to be twice the average.
const ByteRows = 6.0 / 254

// splitError returns the relative error of a matmul with each operand split into two bf16, or 0 for a matmul that no
// device computes so. A product of two elements
// has an error of at most 2^-16 for the omitted product of the low parts, and 2^-17 for the remainder of each operand.
// Tensor cores truncate sums instead of rounding them, at most after every 8 products, by half a unit of f32 on
// average.
func splitError(n *ir.Node) float64 {
	if n.DType() != ir.F32 || n.Arg(1).DType().IsBlock() {
		return 0
	}
	depth := n.Arg(0).Shape()[n.Arg(0).Rank()-1]
	if n.Attrs().Bool("transpose_a") {
		depth = n.Arg(0).Shape()[n.Arg(0).Rank()-2]
	}
	return 0x1p-16 + 2*0x1p-17 + float64(depth.Max())/8*epsilon(ir.F32)/2
}

// halfScores is the largest magnitude of scores for which an attention with operands rounded to f16 stays within its
// tolerance. The relative error of a softmax weight is the absolute error of its score.
const halfScores = 16

// precisionError returns the relative error that attributes of the op allow: precision of a matmul, convolution or
// attention with a dtype wider than f16, and unordered of a scatter. The rounding errors of an unordered sum are
// independent, so its error grows with the square root of the number of updates.
func precisionError(n *ir.Node) float64 {
	if n.Attrs().Bool("unordered") {
		return float64(math.Sqrt(float64(n.Arg(2).Shape().MaxElems())) * unitOf(n.DType()))
	}
	if n.Op() == ir.OpAttention && n.Attrs().String_("precision") == ir.PrecisionHalf {
		return float64(halfScores * epsilon(ir.F16))
	}
	switch n.Attrs().String_("precision") {
	case ir.PrecisionBF16x3:
		return splitError(n)
	case ir.PrecisionHalf:
		return epsilon(ir.F16)
	case ir.PrecisionHalfSums:
		return float64(HalfSums * epsilon(ir.F16))
	case ir.PrecisionBytes:
		return ByteRows
	}
	return 0
}

// tolerance returns the error as the tolerance of a value of dtype t.
func (e pathError) tolerance(t ir.DType) ir.Tolerance {
	if e.exact() {
		return ir.Tolerance{}
	}
	return ir.Tolerance{Eps: math.Sqrt(e.rel2) / epsilon(t), Abs: math.Sqrt(e.abs2), Sum: e.sum}
}
