package fast

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// An op that folds rows (a reduction or softmax, for example) is compiled from its row in package ir's table of ops. It
// has steps, and each step reduces a function of the elements to a number per row. It also has a finish, the formula of
// the results. For example, softmax has two steps, the maximum m and the sum s of exp(x-m), and the finish exp(x-m)/s.
//
// For each step a chain computes the values that the step reduces, and another chain computes the results for elements.
// Each chain begins with the elementwise ops that compute the op's argument, so that the argument's elements stay in
// the L1 cache. Row values, which are equal for all elements of a row, are float64 between steps.

// fold is the kernel of an op that folds rows: a reduction, or an op that changes each element by statistics of its
// row, such as softmax.
type fold[T number] struct {
	node    *ir.Node
	args    []*ir.Node  // arguments of the last chain; other chains' arguments are the first of these
	weights []*ir.Node  // none, a factor of the results for elements, or a factor and a summand
	element *chainOf[T] // computes an element of the op's argument
	last    atomic.Pointer[foldLayout]
	idle    sync.Pool     // has *foldRows that no run uses
	long    foldChains[T] // for rows that tasks share, or that are too long for a task's memory
	inPlace foldChains[T] // as long, but the exponentials of softmax stay in the output; other ops have none
	short   foldChains[T] // for other rows: values that several chains use stay in the task's memory
}

// foldChains are the chains of a fold's steps, and of the results for elements.
type foldChains[T number] struct {
	steps []foldStep[T]
	each  *chainOf[T]  // an element's result; nil for a reduction
	kept  []*ir.Scalar // the values that later chains read from memory
}

// foldStep is a step of a fold: the reducer folds the results of chain of.
type foldStep[T number] struct {
	*reducer
	of    *chainOf[T]
	keeps int // the index in foldChains.kept of the value that the chain computes; -1 if it is not kept
	// The row value from which the elements differ, if the step sums the differences or their squares and moments give
	// the result. See momentsOf.
	from *ir.Scalar
}

// folding returns the kernel of the fold that computes node n, or nil if there is none. It sets absorbed, by ID, for
// the elementwise ops that become part of the fold.
func (c *chains) folding(n *ir.Node, absorbed []bool) *interp.Kernel {
	if !foldable(n.Op()) && n.Op().Class() != ir.ClassReduce || c.constant[n.ID()] || c.uses[n.ID()] == 0 {
		return nil
	}
	k := &interp.Kernel{Stored: -1, Fills: true, Words: true, Formats: true, Rounds: true}
	switch {
	case foldsNarrow(n):
		f := newFold[float32](c, n, absorbed)
		k.Compute, k.Args = f.compute, f.args
	case foldsWide(n):
		f := newFold[float64](c, n, absorbed)
		k.Compute, k.Args = f.compute, f.args
	default:
		return nil
	}
	return k
}

// newFold returns the fold that computes node n. It sets absorbed, by ID, for the elementwise ops that become part of
// the fold.
func newFold[T number](c *chains, n *ir.Node, absorbed []bool) *fold[T] {
	var members []*ir.Node // elementwise ops that compute the argument
	f, x := &fold[T]{node: n}, n.Arg(0)
	fits := isWide(x) == f.wide() || f.wide() && !takesFloats(x) // the chain can compute in the fold's type
	if c.uses[x.ID()] == 1 && !c.constant[x.ID()] && computable(x) && fits {
		members = c.membersFor(x, absorbed)
		absorbed[x.ID()] = true
	}
	b := newCompilerOf[T]()
	var element int
	if members != nil {
		element = b.members(c, members)
	} else {
		element = b.read(c, x)
	}
	if b.isWord(x.DType()) {
		element = b.asWord(element)
	}
	f.element = b.chain(b.result(element))
	f.args = f.element.args
	if searches(n.Op()) || n.Op().Info().Running != 0 { // these have no steps
		return f
	}
	f.long = f.compileSteps(c, members, nil)
	// For short rows, later steps read values that memory keeps, instead of computing them again.
	f.short = f.long
	if kept := f.reusedValues(); len(kept) > 0 {
		f.short = f.compileSteps(c, members, kept)
		if last := kept[len(kept)-1:]; last[0].Leaf != ir.LeafElement {
			f.inPlace = f.compileSteps(c, members, last)
		}
	}
	return f
}

// wide reports whether the fold computes in 64 bits.
func (f *fold[T]) wide() bool {
	_, narrow := any(f).(*fold[float32])
	return !narrow
}

// most is the greatest finite number of type T.
func (f *fold[T]) most() float64 {
	if f.wide() {
		return math.MaxFloat64
	}
	return math.MaxFloat32
}

// ofWords reports whether the elements are words.
func (f *fold[T]) ofWords() bool { return !f.node.Arg(0).DType().IsFloat() }

// reusedValues returns the values that one chain of a fold computes and a later one uses, in the order of computation.
// The row's element is one of them if elementwise ops compute it.
func (f *fold[T]) reusedValues() (kept []*ir.Scalar) {
	row := f.node.Op().Info().Fold
	chains := len(row.Steps)
	if f.long.each != nil {
		chains++
	}
	if chains > 1 && len(f.element.code) > 0 {
		kept = append(kept, element)
	}
	for i, s := range row.Steps {
		_, of := f.reducing(s) // the value that the step reduces
		used := f.long.each != nil && has(row.Finish, of)
		for _, later := range row.Steps[i+1:] {
			used = used || has(later.Map, of)
		}
		known := slices.ContainsFunc(kept, func(k *ir.Scalar) bool { return equalScalars(k, of) })
		isOp := of != nil && of.Leaf == 0
		if used && !known && isOp && of.Op != ir.OpSub { // a read from memory takes longer than a subtraction
			kept = append(kept, of)
		}
	}
	return kept
}

// element is the expression of a row's element.
var element = &ir.Scalar{Leaf: ir.LeafElement}

// has reports whether expression s is or contains the expression part.
func has(s, part *ir.Scalar) bool {
	return s != nil && (equalScalars(s, part) ||
		slices.ContainsFunc(s.Args, func(a *ir.Scalar) bool { return has(a, part) }))
}

// equalScalars reports whether two expressions are the same. It returns false if one is nil.
func equalScalars(a, b *ir.Scalar) bool {
	return a != nil && b != nil && a.Op == b.Op && a.Leaf == b.Leaf && a.Step == b.Step && a.Value == b.Value &&
		a.Attr == b.Attr && slices.EqualFunc(a.Args, b.Args, equalScalars)
}

// reducing returns the reducer of a step, and the expression of the values that it reduces. A nil expression means the
// row's element. If a step sums squares, the reducer squares them.
func (f *fold[T]) reducing(s ir.Step) (by *reducer, of *ir.Scalar) {
	if f.ofWords() {
		return f.reducer(s.By), s.Map
	}
	if s.Map != nil && s.Map.Op == ir.OpSqr && s.By == ir.OpSum {
		return squares, s.Map.Args[0]
	}
	return reducers[s.By], s.Map
}

// differences returns the row value r if a step sums x-r, or its square, over the elements x, and if the moments can
// give that sum (see findMoments). Otherwise it returns nil. by is the step's reducer, and `of` the expression that it
// reduces.
func (f *fold[T]) differences(by *reducer, of *ir.Scalar) *ir.Scalar {
	sums := by == reducers[ir.OpSum] || by == squares
	if !sums || !f.node.Op().Info().Fold.FromFirst() || of == nil || of.Op != ir.OpSub {
		return nil
	}
	x, r := of.Args[0], of.Args[1]
	if x.Leaf != ir.LeafElement || r.Takes(ir.LeafElement) {
		return nil
	}
	return r
}

// reducer returns the reducer of a basic reduction of the fold's elements.
func (f *fold[T]) reducer(op ir.Op) *reducer {
	x := f.node.Arg(0)
	switch {
	case !f.ofWords():
		return reducers[op]
	case f.wide():
		return longReducer(op, x.DType())
	}
	return wordReducer(op, x.DType(), x.Shape().MaxElems())
}

// compileSteps compiles the chains of a fold: one for each step, with the values that it reduces, and one for the
// results of elements. members are the elementwise ops that compute an element, or nil if the element is read. kept
// lists the values that a chain leaves in memory for later ones.
func (f *fold[T]) compileSteps(c *chains, members []*ir.Node, kept []*ir.Scalar) foldChains[T] {
	n, row := f.node, f.node.Op().Info().Fold
	list := foldChains[T]{kept: kept}
	var ready []*ir.Scalar // the kept values that earlier chains have computed
	if len(kept) > 0 && kept[0] == element {
		ready = kept[:1]
	}
	// begin returns a compiler for the next chain, and the value of the element.
	begin := func() (b *compilerOf[T], x int) {
		b = newCompilerOf[T]()
		for _, a := range f.element.args { // the same first arguments in every chain
			b.of[a] = b.value(value[T]{arg: a})
		}
		for i := range ready {
			b.kept = append(b.kept, b.value(value[T]{kept: ready[i]}))
		}
		switch {
		case len(ready) > 0 && ready[0] == element:
			return b, b.kept[0]
		case members != nil:
			return b, b.members(c, members)
		}
		return b, b.read(c, n.Arg(0))
	}
	for _, s := range row.Steps {
		by, of := f.reducing(s)
		b, x := begin()
		v := b.scalar(of, x, n.Attrs())
		if by.words {
			v = b.asWord(v)
		}
		step := foldStep[T]{by, b.chain(b.result(v)), -1, f.differences(by, of)}
		if i := len(ready); i < len(kept) && kept[i] == of {
			step.keeps = i
			ready = kept[:i+1]
		}
		list.steps = append(list.steps, step)
	}
	if n.Op().Info().Class == ir.ClassReduce {
		return list
	}
	b, x := begin()
	v := b.scalar(row.Finish, x, n.Attrs())
	f.weights = nil
	for i, a := range n.Args()[1:] { // a factor, and then a summand
		at := b.read(c, a)
		f.weights = append(f.weights, b.values[at].arg)
		v = b.instruction(b.primitive([]string{"*", "+"}[i]), []int{v, at})
	}
	list.each = b.chain(b.asLast(v))
	f.args = list.each.args
	return list
}

// foldsNarrow reports whether a node folds rows in 32 bits: of floats, or of words if the results are exact in float64.
func foldsNarrow(n *ir.Node) bool {
	switch x := n.Arg(0); {
	case !isWord(x.DType()):
		return foldable(n.Op()) && narrow(n)
	case searches(n.Op()):
		return x.DType() != ir.U32 // words of u32 are signed here
	}
	x := n.Arg(0)
	return n.Op().Class() == ir.ClassReduce && wordReducer(n.Op(), x.DType(), x.Shape().MaxElems()) != nil
}

// foldsWide reports whether a node folds rows in 64 bits, of floats or integers.
func foldsWide(n *ir.Node) bool {
	floats := n.Arg(0).DType().IsFloat()
	return foldable(n.Op()) && !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool {
		return a.DType().IsBlock() || a.DType().IsFloat() != floats
	})
}

// foldable reports whether an op folds rows of floats, and this package has all its reducers.
func foldable(op ir.Op) bool {
	in := op.Info()
	unknown := func(s ir.Step) bool { return reducers[s.By] == nil }
	return searches(op) || reducers[in.Running] != nil || in.Fold != nil && !slices.ContainsFunc(in.Fold.Steps, unknown)
}

// scalar compiles expression s of a step or finish, and returns its value. element is the value of the row's element,
// and a nil s means that element. attrs are the fold's attributes.
func (b *compilerOf[T]) scalar(s *ir.Scalar, element int, attrs ir.Attrs) int {
	for _, v := range b.kept {
		if equalScalars(s, b.values[v].kept) {
			return v
		}
	}
	switch {
	case s == nil || s.Leaf == ir.LeafElement:
		return element
	case s.Leaf == ir.LeafNumber:
		return b.constant(T(s.Value))
	case s.Leaf == ir.LeafAttr:
		return b.constant(T(attrs.Float(s.Attr)))
	case !s.Takes(ir.LeafElement): // a number per row, which the group computes
		v, ok := b.row[s]
		if !ok {
			v = b.value(value[T]{row: s})
			b.row[s] = v
		}
		return v
	}
	args := make([]int, len(s.Args))
	for i, a := range s.Args {
		args[i] = b.scalar(a, element, attrs)
	}
	form := s.Op.Info().Form(nil, func(arg int) (float64, bool) {
		a := s.Args[arg]
		return a.Value, a.Leaf == ir.LeafNumber
	}).Float
	if e := b.formula(form, len(args)); e != nil {
		return b.expression(e, args, nil)
	}
	return b.instruction(byReference[T](s.Op, len(args), nil), args)
}
