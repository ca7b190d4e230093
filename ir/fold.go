package ir

import (
	"math"
	"slices"
)

// Fold defines an op that folds rows: a reduction, or an op that changes each element by a statistic of its row. The
// reference, the kernels, and folding long rows in chunks all derive from it.
type Fold struct {
	Steps []Step // in order; each may use the results of earlier steps
	// Finish computes the result from the steps' results: one value per row for a reduction, one per element for other
	// ops.
	Finish *Scalar
	// Homogeneous means that scaling the row by k > 0 scales the result by k. The reference then scales the row so that
	// powers of its elements do not overflow.
	Homogeneous bool
}

// Step folds one value per element of a row to a single result, as softmax folds exp(x-max) to a sum.
type Step struct {
	By    Op      // a basic reduction: sum, prod, reduce_max, reduce_min, any, all, argmax or argmin
	Map   *Scalar // the folded value, computed from the element and earlier results; nil is the element
	Name  string  // of the result, for readers of kernels
	Merge *Merge  // set if Map uses earlier results
}

// Merge says how to combine the results of a row's chunks for one step, if a kernel splits the row. Each chunk is
// folded with its own results of the earlier steps.
type Merge struct {
	Map *Scalar // the value folded in a chunk, from the element and the chunk's own results
	// The chunk's contribution to the row's result, from the chunk's results (LeafPart) and the row's (LeafResult).
	Part *Scalar
}

// Scalar is an expression over an element of a row and the results of steps.
type Scalar struct {
	Op   Op // an elementwise op on Args; 0 for a leaf
	Args []*Scalar
	Test bool   // the value is a bool
	Name string // of the value, for readers of kernels; may be empty

	Leaf  Leaf
	Step  int     // the step of a LeafResult or LeafPart
	Value float64 // of LeafNumber
	Attr  string  // of LeafAttr and LeafCount
}

// Leaf is the kind of a Scalar without an op.
type Leaf uint8

// The leaves.
const (
	LeafElement   Leaf = iota + 1 // the element
	LeafResult                    // the result of step Step
	LeafMean                      // a result divided by the number of elements
	LeafFirst                     // the first element of the row
	LeafCount                     // the number of elements minus the int attribute Attr, at least 0
	LeafNumber                    // Value
	LeafAttr                      // the float attribute Attr
	LeafPart                      // the result of step Step of a chunk
	LeafPartMean                  // LeafPart divided by the number of the chunk's elements
	LeafPartFirst                 // the first element of the chunk
	LeafPartCount                 // the number of the chunk's elements
)

// EvalScalar evaluates s bottom-up: leaf returns the value of a leaf, and apply applies an op to the values of
// its arguments.
func EvalScalar[T any](s *Scalar, leaf, apply func(s *Scalar, args []T) T) T {
	if s.Leaf != 0 {
		return leaf(s, nil)
	}
	args := make([]T, len(s.Args))
	for i, a := range s.Args {
		args[i] = EvalScalar(a, leaf, apply)
	}
	return apply(s, args)
}

// FromFirst reports whether the fold compares elements with the first one of their row.
func (f *Fold) FromFirst() bool {
	for _, s := range f.Steps {
		if s.Map.Takes(LeafFirst) {
			return true
		}
	}
	return f.Finish.Takes(LeafFirst)
}

// Takes reports whether the expression, which may be nil, has a leaf of kind l.
func (s *Scalar) Takes(l Leaf) bool {
	return s != nil && (s.Leaf == l || slices.ContainsFunc(s.Args, func(a *Scalar) bool { return a.Takes(l) }))
}

// Short forms for the expressions in rows of the op table.
var (
	element   = &Scalar{Leaf: LeafElement}
	first     = &Scalar{Leaf: LeafFirst}
	magnitude = scalarOf(OpAbs, element)
)

func result(i int) *Scalar                       { return &Scalar{Leaf: LeafResult, Step: i} }
func meanOf(i int) *Scalar                       { return &Scalar{Leaf: LeafMean, Step: i} }
func part(i int) *Scalar                         { return &Scalar{Leaf: LeafPart, Step: i} }
func numberOf(v float64) *Scalar                 { return &Scalar{Leaf: LeafNumber, Value: v} }
func attrOf(name string) *Scalar                 { return &Scalar{Leaf: LeafAttr, Attr: name} }
func scalarOf(op Op, args ...*Scalar) *Scalar    { return &Scalar{Op: op, Args: args} }
func test(op Op, args ...*Scalar) *Scalar        { return &Scalar{Op: op, Args: args, Test: true} }
func named(name string, s *Scalar) *Scalar       { s.Name = name; return s }
func basic(op Op, name string) *Fold             { return foldOf(result(0), Step{By: op, Name: name}) }
func foldOf(finish *Scalar, steps ...Step) *Fold { return &Fold{Steps: steps, Finish: finish} }

// sumOf returns a step that sums the expression of.
func sumOf(name string, of *Scalar) Step { return Step{By: OpSum, Map: of, Name: name} }

// deviations computes the deviations of a row's elements from its mean, with errors relative to the deviations rather
// than to the mean. It has three steps:
//
//  0. Sum the differences of the elements from the row's first element. All are 0 in a row of equal elements.
//     This gives an approximate mean.
//  1. Sum the differences from the approximate mean.
//  2. Sum the squares of these differences.
//
// It returns the steps and two expressions, both corrected for the error of the approximate mean: deviation is an
// element minus the exact mean, and squares is the sum of the squared deviations. Chunks of a row have their own means,
// and their sums are shifted to the row's mean (Chan, Golub and LeVeque 1979).
func deviations() (steps []Step, deviation, squares *Scalar) {
	from := scalarOf(OpSub, element, first)
	start := scalarOf(OpAdd, first, meanOf(0))
	dev := scalarOf(OpSub, element, start)
	count, partFirst := &Scalar{Leaf: LeafPartCount}, &Scalar{Leaf: LeafPartFirst}
	// apart is the approximate mean of a chunk minus the row's.
	apart := scalarOf(OpSub, scalarOf(OpAdd, partFirst, &Scalar{Leaf: LeafPartMean}), start)
	moved := scalarOf(OpAdd, part(1), scalarOf(OpMul, count, apart)) // the sum of a chunk's differences from start
	step := func(name string, of, part *Scalar) Step {
		return Step{By: OpSum, Map: of, Name: name, Merge: &Merge{Map: of, Part: part}}
	}
	// The sum of (d+apart)^2 over a chunk is the sum of d^2, plus apart times the sum of d and moved.
	steps = []Step{
		step("sum_from_first", from, scalarOf(OpAdd, part(0), scalarOf(OpMul, count, scalarOf(OpSub, partFirst, first)))),
		step("sum_dev", dev, moved),
		step("sum_sq_dev", scalarOf(OpSqr, dev),
			scalarOf(OpAdd, part(2), scalarOf(OpMul, apart, scalarOf(OpAdd, part(1), moved)))),
	}
	deviation = scalarOf(OpSub, dev, meanOf(1))
	return steps, deviation, scalarOf(OpSub, result(2), scalarOf(OpMul, result(1), meanOf(1)))
}

// powers returns the steps of a p-norm: the largest magnitude of a row, and the sum of (|x|/largest)^p, which cannot
// overflow. Each chunk uses its own largest magnitude, and its sum is rescaled to the row's.
func powers() []Step {
	power := func(x, top *Scalar) *Scalar { // 0 if top is 0
		top = scalarOf(OpWhere, test(OpEq, top, numberOf(0)), numberOf(1), top)
		return scalarOf(OpPow, scalarOf(OpDiv, x, top), attrOf("p"))
	}
	each := power(magnitude, result(0))
	return []Step{{By: OpReduceMax, Map: magnitude, Name: "largest"}, {By: OpSum, Map: each, Name: "sum_powers",
		Merge: &Merge{Map: each, Part: scalarOf(OpMul, part(1), power(part(0), result(0)))}}}
}

// exponentials returns steps for the maximum of a row and the sum of exp(x-maximum), which is NaN if the maximum is
// infinite. Each chunk uses its own maximum, and its sum is rescaled to the row's (Milakov and Gimelshein 2018).
func exponentials() []Step {
	scale := func(x, top *Scalar) *Scalar { // 0 if both are -inf, so that a chunk of only -inf adds nothing to its row
		nothing := test(OpEq, top, numberOf(math.Inf(-1)))
		return scalarOf(OpExp, scalarOf(OpSub, x, scalarOf(OpWhere, nothing, numberOf(0), top)))
	}
	return []Step{{By: OpReduceMax, Name: "row_max"},
		{By: OpSum, Map: scalarOf(OpExp, scalarOf(OpSub, element, result(0))), Name: "row_sum",
			Merge: &Merge{Map: scale(element, result(0)), Part: scalarOf(OpMul, part(1), scale(part(0), result(0)))}}}
}
