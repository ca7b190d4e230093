package fast

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// An op that folds rows (a reduction or softmax, for example) is compiled from its row in package ir's table of ops: a
// list of steps, each of which reduces a function of the elements to a number per row, and a finish, the formula of the
// results. A chain computes the values that a step reduces, and another the results for elements. Each begins with the
// elementwise ops that compute the op's argument, so that the argument's elements stay in the L1 cache. Row values,
// which are equal for all elements of a row, are float64 between steps.

// fold is the kernel of an op that folds rows: a reduction, or an op that changes each element by statistics of its
// row, such as softmax.
type fold[T number] struct {
	node *ir.Node
	args []*ir.Node // arguments of the last chain; other chains' arguments are the first of these
	// The arguments by which an element's result is multiplied, and that is then added; may be absent.
	weights []*ir.Node
	element *chainOf[T] // computes an element of the op's argument
	last    atomic.Pointer[foldLayout]
	long    foldChains[T] // for rows that tasks share, or that are too long for a task's memory
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
	var members []*ir.Node
	f, x := &fold[T]{node: n}, n.Arg(0)
	fits := isWide(x) == f.wide() || f.wide() && !takesFloats(x)
	if c.uses[x.ID()] == 1 && !c.constant[x.ID()] && computable(x) && fits {
		members = c.membersFor(x, absorbed)
		absorbed[x.ID()] = true
	}
	begin := func() (b *compilerOf[T], element int) {
		if b = newCompilerOf[T](); members != nil {
			element = b.members(c, members)
		} else {
			element = b.read(c, x)
		}
		if b.isWord(x.DType()) {
			element = b.asWord(element)
		}
		return b, element
	}
	b, element := begin()
	f.element = b.chain(b.result(element))
	f.args = f.element.args
	switch {
	case searches(n.Op()):
		return f
	case n.Op().Info().Running != 0:
		b, element := begin()
		f.long.each = b.chain(b.asLast(element))
		return f
	}
	f.long = f.compileSteps(c, members, nil)
	f.short = f.long
	if kept := f.reusedValues(); len(kept) > 0 {
		f.short = f.compileSteps(c, members, kept)
	}
	return f
}

// wide reports whether the fold computes in 64 bits.
func (f *fold[T]) wide() bool {
	_, narrow := any(f).(*fold[float32])
	return !narrow
}

// ofWords reports whether the elements are words.
func (f *fold[T]) ofWords() bool { return !f.node.Arg(0).DType().IsFloat() }

// reusedValues returns the values that a chain of a fold computes and a later one uses, in the order of computation.
// The element is one of them if elementwise ops compute it.
func (f *fold[T]) reusedValues() (kept []*ir.Scalar) {
	row := f.node.Op().Info().Fold
	last := len(row.Steps)
	if f.long.each == nil {
		last--
	}
	if last > 0 && len(f.element.code) > 0 {
		kept = append(kept, element)
	}
	for i, s := range row.Steps {
		_, of := f.reducing(s)
		used := f.long.each != nil && has(row.Finish, of)
		for _, later := range row.Steps[i+1:] {
			used = used || has(later.Map, of)
		}
		known := slices.ContainsFunc(kept, func(k *ir.Scalar) bool { return equalScalars(k, of) })
		if used && !known && of != nil && of.Leaf == 0 && of.Op != ir.OpSub { // memory takes longer than subtraction
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

// reducing returns the reducer of a step, and the expression of the values that it reduces: nil means the element.
func (f *fold[T]) reducing(s ir.Step) (by *reducer, of *ir.Scalar) {
	if f.ofWords() {
		return f.reducer(s.By), s.Map
	}
	if s.Map != nil && s.Map.Op == ir.OpSqr && s.By == ir.OpSum {
		return squares, s.Map.Args[0]
	}
	return reducers[s.By], s.Map
}

// differences returns the row value from which the elements differ, if a step sums the differences or their squares,
// and moments are exact enough. Otherwise it returns nil. The step reduces expression of.
func (f *fold[T]) differences(by *reducer, of *ir.Scalar) *ir.Scalar {
	if f.wide() || by != reducers[ir.OpSum] && by != squares || !f.node.Op().Info().Fold.FromFirst() || of == nil ||
		of.Op != ir.OpSub || of.Args[0].Leaf != ir.LeafElement || of.Args[1].Takes(ir.LeafElement) {
		return nil
	}
	return of.Args[1]
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

// compileSteps compiles the chains of a fold's steps and results. members are the elementwise ops that compute an
// element, or nil if the element is read. kept lists the values that a chain leaves in memory for later ones.
func (f *fold[T]) compileSteps(c *chains, members []*ir.Node, kept []*ir.Scalar) foldChains[T] {
	n, row := f.node, f.node.Op().Info().Fold
	list := foldChains[T]{kept: kept}
	var ready []*ir.Scalar // the kept values that earlier chains have computed
	if len(kept) > 0 && kept[0] == element {
		ready = kept[:1]
	}
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
	for i, a := range n.Args()[1:] {
		at := b.read(c, a)
		f.weights = append(f.weights, b.values[at].arg)
		v = b.instruction(b.primitive([]string{"*", "+"}[i]), []int{v, at})
	}
	if name, ok := b.rounding(n.DType()); ok {
		v = b.instruction(b.primitive(name), []int{v})
	}
	list.each = b.chain(b.asLast(v))
	f.args = list.each.args
	return list
}

// foldsNarrow reports whether a node folds rows in 32 bits: of floats, or of words if the results are exact in float64.
func foldsNarrow(n *ir.Node) bool {
	if x := n.Arg(0); n.Op().Class() == ir.ClassReduce && isWord(x.DType()) {
		return wordReducer(n.Op(), x.DType(), x.Shape().MaxElems()) != nil
	}
	return foldable(n.Op()) && narrow(n)
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

// scalar compiles expression s of a step or finish, and returns its value. A nil s means the row's element; element is
// its value.
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
	case !s.Takes(ir.LeafElement):
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

// chunk is the number of elements that one task folds, unless there are fewer. They take 256 KiB, which fit in an L2
// cache.
const chunk = 1 << 16

// compute implements interp.Kernel.Compute.
func (f *fold[T]) compute(c *interp.Call) error {
	r, err := f.layout(c)
	if err != nil || r.rows == 0 {
		return err
	}
	switch op := f.node.Op(); {
	case searches(op):
		return r.search()
	case op.Info().Running != 0:
		return r.scan()
	}
	return r.compute()
}

// foldRows describes the rows of one run of a fold.
//
// If the innermost axis is folded, a row's elements are neighbours, and a chain computes up to `block` elements of a
// row at a time. Otherwise neighbouring elements belong to different rows, and a chain computes one element of each of
// up to `block` rows.
type foldRows[T number] struct {
	*fold[T]
	*foldLayout
	call    *interp.Call
	readers []readerOf[T]
	out     results[T]
}

// foldLayout is the part of foldRows that follows from the extents. Runs with the same extents share it.
type foldLayout struct {
	runExtents
	strides []strides // by argument
	rows    int       // number of rows
	n       int       // number of elements in a row
	across  bool      // whether neighbouring elements belong to different rows
	inner   int       // if across: how many rows' elements are neighbours
	groups  []group   // the rows
}

// layout returns the rows of a run.
func (f *fold[T]) layout(c *interp.Call) (*foldRows[T], error) {
	dims, err := c.Extents(f.node.Arg(0))
	if err != nil {
		return nil, err
	}
	l := f.last.Load()
	if l == nil || !l.are(c, dims) {
		if l, err = f.newFoldLayout(c, dims); err != nil {
			return nil, err
		}
		f.last.Store(l)
	}
	r := &foldRows[T]{fold: f, foldLayout: l, call: c, out: resultsOf[T](c), readers: make([]readerOf[T], len(c.Args))}
	for i, a := range c.Args {
		r.readers[i] = readerWith[T](a, l.strides[i])
	}
	return r, nil
}

// newFoldLayout finds which axes are folded, and in which order the elements are read. dims are the extents of the
// fold's argument.
func (f *fold[T]) newFoldLayout(c *interp.Call, dims []int) (*foldLayout, error) {
	folded, err := f.axes(len(dims))
	if err != nil {
		return nil, err
	}
	r := &foldLayout{runExtents: extentsOf(c, dims), rows: 1, n: 1, inner: 1}
	// Axes: along are folded and kept are not. Of these, inner are inside the innermost folded axis, and outer are not.
	var outer, inner, kept, along []int
	for axis := len(dims) - 1; axis >= 0; axis-- {
		switch {
		case folded[axis]:
			along = append(along, axis)
			r.n *= dims[axis]
			continue
		case len(along) == 0:
			inner = append(inner, axis)
			r.inner *= dims[axis]
		default:
			outer = append(outer, axis)
		}
		kept = append(kept, axis)
		r.rows *= dims[axis]
	}
	reduces := f.node.Op().Class() == ir.ClassReduce
	// Read across rows if the elements of a row are not neighbours, or if the rows are many and too short to fill a
	// chain.
	r.across = r.inner > 1 || reduces && r.n < shortRow && r.rows > shortRow
	order := slices.Concat(inner, along, outer)
	if r.across && reduces && r.inner < block {
		// Too few rows are neighbours to fill a block: let a block continue over all kept axes.
		order, r.inner = slices.Concat(kept, along), r.rows
	}
	slices.Reverse(order)
	for _, a := range c.Args {
		r.strides = append(r.strides, newStrides(a.Dims, dims, order))
	}
	r.setGroups()
	return r, nil
}

// shortRow bounds short rows: if a reduction's rows have fewer elements than this, a chain computes many rows at a
// time.
const shortRow = 32

// axes returns, by axis, whether the axis is folded.
func (f *fold[T]) axes(rank int) ([]bool, error) {
	attrs, list := f.node.Attrs(), []int64{-1}
	switch {
	case attrs.Has("axis"):
		list[0] = int64(attrs.Int("axis"))
	case f.node.Op().Class() == ir.ClassReduce:
		list = attrs.Ints("axes")
	}
	return ir.ResolveAxes(list, rank)
}

// group is a range of neighbouring rows that are computed together.
type group struct{ from, count int }

// setGroups splits the rows into groups. A group of long rows has about as many elements as a chunk, but at least one
// row.
func (r *foldLayout) setGroups() {
	size, within := max(1, min(block, chunk/max(r.n, 1))), r.rows
	if r.across {
		size, within = block, r.inner
	}
	for at := 0; at < r.rows; at += within {
		for lo := 0; lo < within; lo += size {
			r.groups = append(r.groups, group{at + lo, min(size, within-lo)})
		}
	}
}

// parts splits the elements of each row into parts for different tasks. It returns the number of elements of a part,
// and the number of parts. There are several parts only if there are few groups with many elements each.
func (r *foldRows[T]) parts(groups []group) (each, parts int) {
	const few = 16 // number of groups
	if len(groups) >= few || r.n*groups[0].count < 2*chunk {
		return r.n, 1
	}
	each = max(1, chunk/groups[0].count)
	return each, (r.n + each - 1) / each
}

// at returns the index of element k of a row, in the order in which the argument readers read elements.
func (r *foldRows[T]) at(row, k int) int {
	if !r.across {
		return row*r.n + k
	}
	return (row/r.inner*r.n+k)*r.inner + row%r.inner
}

// compute computes all rows. If there are few groups of many elements, the tasks of a step are parts of the rows;
// otherwise they are groups. Which elements a task folds does not depend on the number of workers.
func (r *foldRows[T]) compute() error {
	groups := r.groups
	each, parts := r.parts(groups)
	if parts == 1 {
		work := r.work(r.n * groups[0].count)
		if len(groups) == 1 && r.call.Serial(1, work) {
			r.whole(0, groups[0])
			return r.call.Context.Err()
		}
		return r.call.Parallel(len(groups), work, func(worker, task int) { r.whole(worker, groups[task]) })
	}
	list := make([]*groupFold[T], len(groups))
	for i, g := range groups {
		list[i] = r.group(g)
		list[i].begin()
	}
	for i, s := range r.long.steps {
		results := make([][]float64, len(groups)*parts)
		err := r.call.Parallel(len(results), r.work(each*groups[0].count), func(_, task int) {
			k := task % parts * each
			results[task] = list[task/parts].step(i, k, min(k+each, r.n))
		})
		if err != nil {
			return err
		}
		for at, g := range list {
			g.results[i] = results[at*parts]
			for _, part := range results[at*parts+1 : (at+1)*parts] {
				for row, y := range part {
					g.results[i][row] = s.merge(g.results[i][row], y)
				}
			}
		}
	}
	if r.long.each == nil {
		parts, each = 1, r.n
	}
	err := r.call.Parallel(len(list)*parts, r.work(each*groups[0].count), func(_, task int) {
		k := task % parts * each
		list[task/parts].finish(k, min(k+each, r.n))
	})
	if err != nil {
		return err
	}
	return r.call.Parallel(len(list), r.work(r.n*groups[0].count), func(_, task int) { list[task].recompute() })
}

// resident is the number of elements that steps compute one after the other. They stay in a core's caches between the
// steps.
const resident = 8 * block

// whole computes a group by all steps.
func (r *foldRows[T]) whole(worker int, rows group) {
	if !r.foldWhole(worker, rows) {
		r.someRows(worker, rows)
	}
}

// someRows computes a group by all steps, some rows at a time.
func (r *foldRows[T]) someRows(worker int, rows group) {
	g, end := r.group(rows), rows.from+rows.count
	g.alone = true
	if !r.across && (r.long.each != nil || len(r.long.steps) > 1) {
		g.count = max(1, min(rows.count, resident/max(r.n, 1)))
	}
	g.keep(worker)
	for ; g.from < end; g.from += g.count {
		g.count = min(g.count, end-g.from)
		if g.keepsInOutput() {
			at := g.at(g.from, 0)
			g.memory = append(g.memory[:len(g.kept)-1], g.out.list[at:at+g.count*g.n])
		}
		g.used, g.values = 0, g.values[:0]
		g.begin()
		for i, s := range g.steps {
			if s.from != nil && g.sums != nil {
				g.results[i] = g.fromMoments(&s)
			} else {
				g.results[i] = g.step(i, 0, r.n)
			}
		}
		g.finish(0, r.n)
		g.recompute()
	}
}

// work estimates the cost of all steps for a number of elements, in multiply-adds.
func (r *foldRows[T]) work(elements int) int {
	each := len(r.long.steps)
	for _, s := range r.long.steps {
		each += s.of.work
	}
	if r.long.each != nil {
		each += r.long.each.work
	}
	return max(1, elements*each/4)
}

// groupFold is the state of one group.
type groupFold[T number] struct {
	*foldRows[T]
	*foldChains[T]
	group
	firsts  []float64   // by row: its first element, if the fold uses that
	results [][]float64 // by step and row: the step's result
	memory  [][]T       // by index in foldChains.kept: the values, for all elements of the group
	sums    []float64   // by row: the sum of the differences from its first element; nil if no step uses it
	squares []float64   // by row: the sum of their squares
	alone   bool        // whether one task computes the group; the next fields are used then
	values  []rowValue  // known row values
	fixed   [][]float64 // lists of one number, see repeated
	lists   [][]float64 // memory for lists by row, which later rows use again
	used    int         // number of lists in use
	again   []bool      // see recompute
	room    []T         // see put
}

// rowValue is a list of a row value, by row of a group.
type rowValue struct {
	of   *ir.Scalar
	list []float64
}

// list returns memory for a list by row.
func (g *groupFold[T]) list() []float64 {
	if !g.alone {
		return make([]float64, g.count)
	}
	if g.used == len(g.lists) {
		g.lists = append(g.lists, make([]float64, g.count))
	}
	g.used++
	return g.lists[g.used-1][:g.count]
}

// group returns the state of a group before the first step.
func (r *foldRows[T]) group(g group) *groupFold[T] {
	return &groupFold[T]{foldRows: r, foldChains: &r.long, group: g, results: make([][]float64, len(r.long.steps))}
}

// keep makes the group keep values that several chains use in the memory of a worker, if that is not too much.
func (g *groupFold[T]) keep(worker int) {
	if size := g.count * g.n; len(g.short.kept) > 0 && size <= 2*chunk {
		g.foldChains = &g.short
		rooms := len(g.kept)
		if g.keepsInOutput() {
			rooms--
		}
		room := roomOf[T](g.call, worker, size*rooms)
		for i := range rooms {
			g.memory = append(g.memory, room[i*size:(i+1)*size])
		}
	}
}

// keepsInOutput reports whether the last kept value is in the memory of the results, which replace it.
func (g *groupFold[T]) keepsInOutput() bool {
	return len(g.kept) > 0 && !g.across && g.each != nil && g.out.list != nil
}

// findMoments sums the differences of the elements from the first one of their row, and the squares of these. For n
// elements, the sum of the squares is at most n+1 times the sum of squared deviations from the mean, because the first
// element's own deviation is among these. So float64 has enough digits for deviations from any mean in float32.
func (g *groupFold[T]) findMoments() {
	g.sums, g.squares, g.firsts = g.list(), g.list(), g.list()
	for _, list := range [][]float64{g.sums, g.squares, g.firsts} {
		clear(list)
	}
	if len(g.kept) > 0 && g.kept[0] == element {
		g.addMoments(0, 0, g.count, g.memory[0][:g.count*g.n])
	} else {
		g.run(g.element, sink[T]{keeps: -1, moments: true}, 0, g.n)
	}
}

// addMoments adds the elements x of some rows to the moments. See sink.f for the parameters.
func (g *groupFold[T]) addMoments(row, k, rows int, x []T) {
	end, list, ahead := row+rows, any(x).([]float32), any(g.ahead(len(x))).([]float32)
	momentsOf(g.sums[row:end], g.squares[row:end], g.firsts[row:end], list, ahead, k == 0)
}

// fromMoments returns the results of a step from the moments, by row.
func (g *groupFold[T]) fromMoments(s *foldStep[T]) []float64 {
	if s.from.Leaf == ir.LeafFirst && s.reducer != squares {
		return g.sums
	}
	results, n := g.list(), float64(g.n)
	sums, squared, firsts := g.sums[:len(results)], g.squares[:len(results)], g.firsts[:len(results)]
	for row, y := range g.value(s.from)[:len(results)] {
		d := firsts[row] - float64(T(y)) // chains have y as T
		if s.reducer == squares {
			results[row] = squared[row] + float64(d*(float64(2*sums[row])+float64(n*d)))
		} else {
			results[row] = sums[row] + float64(n*d)
		}
	}
	return results
}

// begin computes the elements of the rows if they are kept, and reads the first of each row if the fold uses them.
func (g *groupFold[T]) begin() {
	if len(g.kept) > 0 && g.kept[0] == element {
		g.run(g.element, sink[T]{keeps: 0}, 0, g.n)
	}
	g.sums = nil
	if !g.node.Op().Info().Fold.FromFirst() {
		return
	}
	if g.alone && !g.across && slices.ContainsFunc(g.steps, func(s foldStep[T]) bool { return s.from != nil }) {
		g.findMoments()
		return
	}
	if g.firsts = g.list(); g.n == 0 {
		clear(g.firsts)
		return
	}
	if p := g.element; len(p.code) == 0 && !g.across { // in a block for each row, run would take longer
		from := &g.readers[p.result]
		if all := from.direct(g.at(g.from, 0), g.count*g.n); all != nil {
			for row := range g.firsts {
				g.firsts[row] = float64(all[row*g.n])
			}
			return
		}
		var x [1]T
		for row := range g.firsts {
			from.read(x[:], g.at(g.from+row, 0))
			g.firsts[row] = float64(x[0])
		}
		return
	}
	g.run(g.element, sink[T]{keeps: -1, f: func(row, _, _ int, x []T) {
		for i, v := range x {
			g.firsts[row+i] = float64(v)
		}
	}}, 0, 1)
}

// step returns the results of step i, by row, for elements lo to hi of the rows.
func (g *groupFold[T]) step(i, lo, hi int) []float64 {
	s := g.steps[i]
	results := g.list()
	fillOf(results, s.identity)
	g.fold(s.reducer, results, s.of, s.keeps, lo, hi)
	return results
}

// fold folds the results of a chain for elements lo to hi of the rows into results. See sink for keeps.
func (g *groupFold[T]) fold(by *reducer, results []float64, of *chainOf[T], keeps, lo, hi int) {
	g.run(of, sink[T]{keeps: keeps, by: by, results: results}, lo, hi)
}

// finish computes the op's results: of each row for a reduction, else of elements lo to hi of each row.
func (g *groupFold[T]) finish(lo, hi int) {
	if g.each != nil {
		g.run(g.each, sink[T]{keeps: -1, outputs: true}, lo, hi)
		return
	}
	g.put(g.from, g.value(g.node.Op().Info().Fold.Finish))
}

// recompute computes rows again, as the interpreter does, if one of their row values is not finite in float32: their
// results may still be finite.
func (g *groupFold[T]) recompute() {
	if g.ofWords() {
		return
	}
	least, most := 0.0, math.MaxFloat32
	if g.wide() {
		// Squares may have lost bits below the least ones.
		if most = math.MaxFloat64; g.node.Op().Info().Fold.Homogeneous {
			least = 0x1p-900
		}
	}
	again := g.again[:0] // by row; empty if no row is to be computed again
	check := func(list []float64) {
		if within(list, least, most) {
			return
		}
		if len(again) == 0 {
			again = append(again, make([]bool, g.count)...)
		}
		for row, y := range list {
			if !(math.Abs(y) <= most && math.Abs(y) >= least) {
				again[row] = true
			}
		}
	}
	for _, list := range g.results {
		check(list)
	}
	if g.each == nil {
		check(g.value(g.node.Op().Info().Fold.Finish))
	} else {
		for _, v := range g.each.row {
			check(g.value(v))
		}
	}
	for row, is := range again {
		if is {
			g.reference(row)
		}
	}
	g.again = again
}

// withinPlain reports whether the magnitudes of all numbers of a list are from least to most.
func withinPlain(list []float64, least, most float64) bool {
	return !slices.ContainsFunc(list, func(y float64) bool { return !(math.Abs(y) >= least && math.Abs(y) <= most) })
}

// put rounds or wraps row values and stores them as the elements from number `at` on of the output.
func (g *groupFold[T]) put(at int, values []float64) {
	if g.room == nil {
		g.room = make([]T, block)
	}
	t := g.node.DType()
	for ; len(values) > 0; values = values[min(block, len(values)):] {
		n := min(block, len(values))
		list := g.out.block(at, n, g.room)
		switch list := any(list).(type) {
		case []float32:
			for i, y := range values[:n] {
				switch {
				case t == ir.F32:
					list[i] = float32(y)
				case t.IsFloat():
					list[i] = float32(ir.RoundTo(y, t))
				default:
					list[i] = bitsOfWord(int32(ir.Wrap(int64(y), t)))
				}
			}
		case []float64:
			for i, y := range values[:n] {
				if list[i] = y; !g.ofWords() {
					list[i] = ir.RoundTo(y, t)
				}
			}
		}
		g.out.put(at, list)
		at += n
	}
}

// reference computes the results of a whole row as the interpreter does, in float64.
func (g *groupFold[T]) reference(row int) {
	x := make([]float64, 0, g.n)
	one := groupFold[T]{foldRows: g.foldRows, foldChains: &g.long, group: group{g.from + row, 1}}
	one.run(g.element, sink[T]{keeps: -1, f: func(_, _, _ int, list []T) {
		for _, v := range list {
			x = append(x, float64(v))
		}
	}}, 0, g.n)
	y := interp.FoldRow(g.node, x)
	if g.each == nil {
		g.put(g.from+row, y[:1])
		return
	}
	for k := range y {
		at, z := g.at(g.from+row, k), [2]float64{1, 0} // weight and bias
		for i := range g.weights {
			var v [1]T
			g.readers[g.argument(g.weights[i])].read(v[:], at)
			z[i] = float64(v[0])
		}
		y[k] = float64(y[k]*z[0]) + z[1]
		g.put(at, y[k:k+1])
	}
}

// sink says where the results of a chain go.
type sink[T number] struct {
	keeps   int       // the number of the kept value that they are; -1 if they are none
	outputs bool      // whether they are the call's output
	by      *reducer  // if it is not nil, it folds them into results
	results []float64 // by row
	moments bool      // whether they are elements for findMoments
	// If it is not nil, run calls f with each block x of results: element k of all rows if across is true, or else the
	// elements from k on of `rows` rows from number `row` on, one row after the other.
	f func(row, k, rows int, x []T)
}

// run runs chain p over elements lo to hi of each row, in blocks. If it can, it passes all rows to assembly at once.
func (g *groupFold[T]) run(p *chainOf[T], to sink[T], lo, hi int) {
	s := p.begin(g.readers)
	defer p.end(s)
	ofRow := s.operands[len(p.args)+len(p.kept):]
	values := make([][]float64, 0, 8)
	for _, v := range p.row {
		values = append(values, g.value(v))
	}
	if g.across {
		for i, list := range values {
			fromDoubles(ofRow[i], list)
		}
		for k := lo; k < hi; k++ {
			x := g.computeBlock(p, s, &to, 0, k, g.count)
			switch {
			case to.by != nil:
				eachOf(to.by, to.results, x)
			case to.f != nil:
				to.f(0, k, g.count, x)
			}
		}
		return
	}
	p.byRow(s, g.readers, hi-lo)
	rows, most, step := 1, block, block // of a block: number of rows, of all elements, of elements of a row
	functions := p.rowFunctions()
	if s.rowElems == 0 {
		functions = nil
	}
	s.sums = nil
	adds := functions != nil && functions.sum != nil && to.by == reducers[ir.OpSum]
	if hi-lo == g.n && g.n > 0 {
		rows = max(1, block/g.n)
		if (len(p.code) == 0 || functions != nil && (adds || to.keeps >= 0 || to.outputs && g.out.list != nil)) &&
			g.inMemory(p) {
			if rows, most, step = g.count, g.count*g.n, g.n; functions != nil {
				s.next = g.following(p)
				s.rowElems = g.n
			}
		}
	}
	for row := 0; row < g.count; row += rows {
		rows := min(rows, g.count-row)
		for i, list := range values {
			if s.rowElems > 0 {
				fromDoubles(s.numbers[i], list[row:row+rows])
			}
			if s.rowElems > 0 && !p.spread[i] {
				continue
			}
			for r, y := range list[row : row+rows] {
				fillOf(ofRow[i][r*(hi-lo):][:min(block, hi-lo)], T(y))
			}
		}
		for k := lo; k < hi; k += step {
			if adds {
				s.sums = to.results[row : row+rows]
			}
			x := g.computeBlock(p, s, &to, row, k, min(most, rows*(hi-k)))
			switch {
			case adds:
			case to.by != nil:
				rowsOf(to.by, to.results[row:row+rows], x, g.ahead(len(x)))
			case to.moments:
				g.addMoments(row, k, rows, x)
			case to.f != nil:
				to.f(row, k, rows, x)
			}
		}
	}
}

// inMemory reports whether the elements that a chain reads, of all rows of the group, are neighbours in memory. The
// chain has no code, or is a row program.
func (g *groupFold[T]) inMemory(p *chainOf[T]) bool {
	x := p.result
	if len(p.code) > 0 {
		x = p.code[0].in[0]
		for _, v := range p.code[0].program.lists {
			if g.n > block && g.readers[v].direct(0, g.n) == nil {
				return false
			}
		}
	}
	if x >= len(p.args) {
		return x < len(p.args)+len(p.kept)
	}
	return g.readers[x].direct(g.at(g.from, 0), g.count*g.n) != nil
}

// ahead returns the group's results if there are n of them and they are not in caches yet, or nil.
func (g *groupFold[T]) ahead(n int) []T {
	if g.each == nil || g.out.list == nil || n != g.count*g.n || g.across {
		return nil
	}
	return g.out.list[g.at(g.from, 0):][:n]
}

// following returns the elements of as many rows after the group, if a row program reads the group's elements from an
// argument, and nil otherwise.
func (g *groupFold[T]) following(p *chainOf[T]) []T {
	x, row, size := p.code[0].in[0], g.from+g.count, g.count*g.n
	if x >= len(p.args) || row+g.count > g.rows {
		return nil
	}
	return g.readers[x].direct(g.at(row, 0), size)
}

// computeBlock computes a block of n results of chain p with scratch memory s, from element k of a row on. It returns
// them, or nil if it only adds them to s.sums.
func (g *groupFold[T]) computeBlock(p *chainOf[T], s *scratch[T], to *sink[T], row, k, n int) []T {
	at, within := g.at(g.from+row, k), row*g.n+k // within is the position in memory
	if g.across {
		within = k*g.count + row
	}
	p.read(g.readers, at, n, s)
	for i, v := range p.kept {
		s.operands[len(p.args)+i] = g.memory[slices.Index(g.kept, v)][within:][:n]
	}
	var x []T
	switch {
	case to.keeps >= 0:
		x = g.memory[to.keeps][within:][:n]
	case s.sums != nil:
	case to.outputs:
		x = g.out.block(at, n, s.results)
		p.apply(x, s)
		g.out.put(at, x)
		return x
	case len(p.code) == 0: // the result is an operand
		return s.operands[p.result][:n]
	default:
		x = s.operands[p.code[len(p.code)-1].out][:n]
	}
	if s.sums != nil {
		s.runProgram(&p.code[0], x, s.sums, n)
	} else {
		p.apply(x, s)
	}
	return x
}

// value returns the row value s: a list by row of the group.
func (g *groupFold[T]) value(s *ir.Scalar) []float64 {
	for _, v := range g.values {
		if v.of == s {
			return v.list
		}
	}
	y := g.newValue(s)
	if g.alone {
		g.values = append(g.values, rowValue{s, y})
	}
	return y
}

// rowOps has functions of the ops that row values use most, or nil, by op: they set each element of out to the op of x
// and y.
var rowOps = make([]func(out, x, y []float64), slices.Max(ir.Ops())+1)

// addRowOps sets rowOps, after the primitives have assembly.
func addRowOps() {
	for op, name := range map[ir.Op]string{ir.OpAdd: "+", ir.OpSub: "-", ir.OpMul: "*", ir.OpDiv: "/",
		ir.OpMax: "nan_max", ir.OpSqrt: "sqrt", ir.OpExp: "exp", ir.OpLog: "log"} {
		of := widePrimitives[name]
		rowOps[op] = func(out, x, y []float64) { of.apply(out, x, y, x) }
	}
	ones := slices.Repeat([]float64{1}, block) // a group has at most as many rows
	rowOps[ir.OpSqr] = func(out, x, _ []float64) { rowOps[ir.OpMul](out, x, x) }
	rowOps[ir.OpRecip] = func(out, x, _ []float64) { rowOps[ir.OpDiv](out, ones, x) }
	rowOps[ir.OpRsqrt] = func(out, x, _ []float64) {
		rowOps[ir.OpSqrt](out, x, x)
		rowOps[ir.OpDiv](out, ones, out)
	}
}

// newValue computes a row value: a list by row of the group.
func (g *groupFold[T]) newValue(s *ir.Scalar) []float64 {
	switch s.Leaf {
	case ir.LeafResult:
		return g.results[s.Step]
	case ir.LeafFirst:
		return g.firsts
	}
	switch s.Leaf {
	case 0:
		out := g.list()
		var args [3][]float64
		for i, a := range s.Args {
			args[i] = g.value(a)
		}
		if f := rowOps[s.Op]; f != nil {
			if args[1] == nil {
				args[1] = args[0]
			}
			f(out, args[0], args[1])
			return out
		}
		x, of := make([]float64, len(s.Args)), s.Op.Info().Float
		for row := range out {
			for i := range x {
				x[i] = args[i][row]
			}
			out[row] = of(x, nil)
		}
		return out
	case ir.LeafMean:
		out := g.list()
		rowOps[ir.OpDiv](out, g.results[s.Step], g.repeated(float64(g.n)))
		return out
	case ir.LeafCount:
		return g.repeated(max(float64(g.n)-float64(g.node.Attrs().Int(s.Attr)), 0))
	case ir.LeafAttr:
		return g.repeated(g.node.Attrs().Float(s.Attr))
	}
	return g.repeated(s.Value)
}

// repeated returns a list with a number for each row.
func (g *groupFold[T]) repeated(y float64) []float64 {
	for _, list := range g.fixed {
		if list[0] == y {
			return list[:g.count]
		}
	}
	list := slices.Repeat([]float64{y}, g.count)
	if g.alone { // otherwise other tasks read the group
		g.fixed = append(g.fixed, list)
	}
	return list
}
