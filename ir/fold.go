package ir

import (
	"math"
	"slices"
)

// Fold defines an op that folds rows: a reduction, or an op that changes each element of a row by what it folds of
// the row. The reference, the kernels, and the way in which long rows are folded in chunks all follow from it.
type Fold struct {
	Steps []Step // in order; each may use the results of those before
	// Finish is the result, of the steps' results: of a reduction one value per row, of other ops one per element.
	Finish *Scalar
	// Homogeneous says that k times the row has k times the result, for k > 0. The reference then folds a multiple of
	// the row whose powers do not overflow.
	Homogeneous bool
}

// Step folds one value per element of a row.
type Step struct {
	By    Op      // a basic reduction: sum, prod, reduce_max, reduce_min, any, all, argmax or argmin
	Map   *Scalar // what is folded, of the element and of results before; nil is the element
	Name  string  // of the result, for who reads kernels
	Merge *Merge  // set where Map uses results before
}

// Merge says how the row's result of a step follows from chunks of the row, each of which is folded by results of its
// own.
type Merge struct {
	Map  *Scalar // what a chunk folds, of the element and of the chunk's own results
	Part *Scalar // what the chunk gives to the row's result, of its own results (LeafPart) and the row's (LeafResult)
}

// Scalar is an expression over an element of a row and what was folded of the row.
type Scalar struct {
	Op   Op // an elementwise op, of Args; 0 for a leaf
	Args []*Scalar
	Test bool   // the value is a bool
	Name string // of the value, for who reads kernels; may be empty

	Leaf  Leaf
	Step  int     // whose result a leaf is
	Value float64 // of LeafNumber
	Attr  string  // of LeafAttr and LeafCount
}

// Leaf says what a Scalar without an op is.
type Leaf uint8

// The leaves.
const (
	LeafElement   Leaf = iota + 1 // the element
	LeafResult                    // the result of step Step
	LeafMean                      // that, divided by the number of elements
	LeafFirst                     // the first element of the row
	LeafCount                     // the number of elements less the int attribute Attr, but at least 0
	LeafNumber                    // Value
	LeafAttr                      // the float attribute Attr
	LeafPart                      // the result of step Step of a chunk
	LeafPartMean                  // that, divided by the number of the chunk's elements
	LeafPartFirst                 // the first element of the chunk
	LeafPartCount                 // the number of the chunk's elements
)

// EvalScalar computes s of whatever leaf gives for leaves, by apply.
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
		if s.Map.takes(LeafFirst) {
			return true
		}
	}
	return f.Finish.takes(LeafFirst)
}

func (s *Scalar) takes(l Leaf) bool {
	return s != nil && (s.Leaf == l || slices.ContainsFunc(s.Args, func(a *Scalar) bool { return a.takes(l) }))
}

// Short forms for the rows.
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

// sumOf is a step that adds up.
func sumOf(name string, of *Scalar) Step { return Step{By: OpSum, Map: of, Name: name} }

// deviations is how the elements of a row differ from its mean, to the precision of the differences and not of the
// mean. There are three steps. The first one adds up how much the elements differ from the row's first one, so that in
// a row of equal elements all differences are 0. This gives a mean to start from, which is rounded. The other steps add
// up the differences from it and their squares. each is an element less the mean, and squares the sum of the squares
// of that: both take off what rounding has left. Chunks of a row start from means of their own, and their sums are then
// moved to the row's (Chan, Golub and LeVeque 1979).
func deviations() (steps []Step, each, squares *Scalar) {
	from := scalarOf(OpSub, element, first)
	start := scalarOf(OpAdd, first, meanOf(0))
	dev := scalarOf(OpSub, element, start)
	count, partFirst := &Scalar{Leaf: LeafPartCount}, &Scalar{Leaf: LeafPartFirst}
	apart := scalarOf(OpSub, scalarOf(OpAdd, partFirst, &Scalar{Leaf: LeafPartMean}), start)
	moved := scalarOf(OpAdd, part(1), scalarOf(OpMul, count, apart)) // the sum of a chunk's differences from start
	step := func(name string, of, part *Scalar) Step {
		return Step{By: OpSum, Map: of, Name: name, Merge: &Merge{Map: of, Part: part}}
	}
	steps = []Step{
		step("sum_from_first", from, scalarOf(OpAdd, part(0), scalarOf(OpMul, count, scalarOf(OpSub, partFirst, first)))),
		step("sum_dev", dev, moved),
		step("sum_sq_dev", scalarOf(OpSqr, dev),
			scalarOf(OpAdd, part(2), scalarOf(OpMul, apart, scalarOf(OpAdd, part(1), moved)))),
	}
	each = scalarOf(OpSub, dev, meanOf(1))
	return steps, each, scalarOf(OpSub, result(2), scalarOf(OpMul, result(1), meanOf(1)))
}

// powers gives the largest magnitude of a row and the sum of (|x|/largest)^p, which does not overflow.
func powers() []Step {
	power := func(x, top *Scalar) *Scalar { // 0 where top is
		top = scalarOf(OpWhere, test(OpEq, top, numberOf(0)), numberOf(1), top)
		return scalarOf(OpPow, scalarOf(OpDiv, x, top), attrOf("p"))
	}
	each := power(magnitude, result(0))
	return []Step{{By: OpReduceMax, Map: magnitude, Name: "largest"}, {By: OpSum, Map: each, Name: "sum_powers",
		Merge: &Merge{Map: each, Part: scalarOf(OpMul, part(1), power(part(0), result(0)))}}}
}

// exponentials gives the largest element of a row and the sum of exp(x-largest), NaN where there is an infinite one:
// each chunk sums by its own largest element, and its sum is scaled to the row's (Milakov and Gimelshein 2018).
func exponentials() []Step {
	scale := func(x, top *Scalar) *Scalar { // 0 where both are -inf: a chunk of nothing else adds nothing to its row
		nothing := test(OpEq, top, numberOf(math.Inf(-1)))
		return scalarOf(OpExp, scalarOf(OpSub, x, scalarOf(OpWhere, nothing, numberOf(0), top)))
	}
	return []Step{{By: OpReduceMax, Name: "row_max"},
		{By: OpSum, Map: scalarOf(OpExp, scalarOf(OpSub, element, result(0))), Name: "row_sum",
			Merge: &Merge{Map: scale(element, result(0)), Part: scalarOf(OpMul, part(1), scale(part(0), result(0)))}}}
}
