package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// epsilon returns the machine epsilon of a float dtype, f32's for f64 because devices compute in f32, and 0 for others.
func epsilon(t ir.DType) float64 {
	switch t {
	case ir.F32, ir.F64:
		return 0x1p-23
	case ir.F16:
		return 0x1p-10
	case ir.BF16:
		return 0x1p-7
	case ir.F8E4M3:
		return 0x1p-3
	case ir.F8E5M2:
		return 0x1p-2
	}
	return 0
}

// smallestNormal returns the smallest positive float with a full mantissa, at
// most f32's exponents assumed.
func smallestNormal(t ir.DType) float64 {
	switch t {
	case ir.F16, ir.F8E5M2:
		return 0x1p-14
	case ir.F8E4M3:
		return 0x1p-6
	}
	return 0x1p-126
}

// ToleranceOf returns the tolerance of a device at node n, if it computes everything from the leaves on. See
// Tolerances.
func ToleranceOf(g *ir.Graph, n *ir.Node) ir.Tolerance { return Tolerances(g)[n.ID()] }

// Tolerances returns the tolerance of every node, by ID.
//
// The errors of different ops are independent, so along a path they add as the root of the sum of squares; a node takes
// the worst path to it. Relative errors keep their absolute size: an error made in f16 stays as large when an f32 op
// follows. From the second inexact op of a path on, the error is relative to the largest element of the tensor, because
// the difference of two inexact numbers is only as accurate as these.
//
// Devices compute in f32 for every dtype, so the Eps of an op's row is in units of f32's epsilon, and a narrower result
// adds one unit of its own for rounding.
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

func pathErrors(g *ir.Graph) []pathError {
	all := make([]pathError, len(g.Nodes()))
	for i, n := range g.Nodes() {
		all[i] = errorAt(n, all)
	}
	return all
}

// pathError is the error of the worst path into a node.
type pathError struct {
	rel2, abs2 float64 // squares of the relative and the absolute error
	sum        bool
}

// exact reports whether there is no error at all.
func (e pathError) exact() bool { return e.rel2 == 0 && e.abs2 == 0 }

// errorAt adds a node's own error to the worst error of its arguments.
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
	return pathError{
		rel2: worst.rel2 + own.rel2,
		abs2: worst.abs2 + own.abs2,
		sum:  worst.sum || own.sum || !worst.exact() && !own.exact(),
	}
}

// bodyError returns the error that the bodies of a control op add. For a loop every trip adds the same error.
func bodyError(n *ir.Node) pathError {
	var own pathError
	for _, body := range n.Bodies() {
		for _, e := range pathErrors(body) {
			own.rel2, own.abs2, own.sum = max(own.rel2, e.rel2), max(own.abs2, e.abs2), own.sum || !e.exact()
		}
	}
	if trips := n.Attrs().Shape("trips"); len(trips) == 1 {
		own.rel2 = float64(own.rel2 * float64(trips[0].Max()))
		own.abs2 = float64(own.abs2 * float64(trips[0].Max()))
	}
	return own
}

func ownError(n *ir.Node) pathError {
	tol := n.Op().Info().Tol
	rel := float64(tol.Eps * epsilon(ir.F32))
	if eps := epsilon(n.DType()); tol.Eps > 0 && eps > epsilon(ir.F32) {
		rel += eps
	}
	rel += precisionError(n)
	return pathError{float64(rel * rel), float64(tol.Abs * tol.Abs), tol.Sum}
}

// halfSums is how many units of f16 a sum made in f16 may be off.
const halfSums = 32

// byteRows bounds the change of a matmul by quantizing rows to 255 steps: six standard deviations, where each deviation
// is half a step and the largest of 32 neighbours is assumed to be twice the average.
const byteRows = 6.0 / 254

// splitOperands is the relative error of a matmul with operands split into two bf16. Each product of elements has an
// error of at most 2^-16 for the omitted product of the low parts, and 2^-17 for the remainder of each operand. Matrix
// units truncate sums instead of rounding them, at most after every 8 products, by half a unit of f32 on average.
func splitOperands(n *ir.Node) float64 {
	if n.DType() != ir.F32 || n.Arg(1).DType().IsBlock() {
		return 0
	}
	depth := n.Arg(0).Shape()[n.Arg(0).Rank()-1]
	if n.Attrs().Bool("transpose_a") {
		depth = n.Arg(0).Shape()[n.Arg(0).Rank()-2]
	}
	return 0x1p-16 + 2*0x1p-17 + float64(depth.Max())/8*epsilon(ir.F32)/2
}

// halfScores is the largest magnitude of scores for which an attention with operands rounded to f16 is within its
// tolerance: the relative error of the weights is the absolute error of the scores.
const halfScores = 16

// precisionError is the relative error that an attribute of the op allows: attribute precision of a matmul or attention
// whose dtype is wider than f16, and attribute unordered of a scatter. The rounding errors of an unordered sum are
// independent, so its error grows with the square root of the number of updates.
func precisionError(n *ir.Node) float64 {
	if n.Attrs().Bool("unordered") {
		return float64(math.Sqrt(float64(n.Arg(2).Shape().MaxElems())) * epsilon(ir.F32))
	}
	if n.Op() == ir.OpAttention && n.Attrs().String_("precision") == ir.PrecisionHalf {
		return float64(halfScores * epsilon(ir.F16))
	}
	switch n.Attrs().String_("precision") {
	case ir.PrecisionBF16x3:
		return splitOperands(n)
	case ir.PrecisionHalf:
		return epsilon(ir.F16)
	case ir.PrecisionHalfSums:
		return float64(halfSums * epsilon(ir.F16))
	case ir.PrecisionBytes:
		return byteRows
	}
	return 0
}

func (e pathError) tolerance(t ir.DType) ir.Tolerance {
	if e.exact() {
		return ir.Tolerance{}
	}
	return ir.Tolerance{Eps: math.Sqrt(e.rel2) / epsilon(t), Abs: math.Sqrt(e.abs2), Sum: e.sum}
}
