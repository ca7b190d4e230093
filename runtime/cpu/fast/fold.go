package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// An op that folds rows is compiled from its row in package ir, which has steps and a finish. A chain computes the
// values that a step folds, and another the results for elements. Each begins with the elementwise ops that compute the
// op's argument, so that the argument's elements stay in the L1 cache. Row values, which are equal for all elements of
// a row, are float64 between steps.

// fold is the kernel of an op that folds rows: a reduction, or an op that changes each element by statistics of its
// row, such as softmax.
type fold struct {
	node    *ir.Node
	args    []*ir.Node // arguments of the last chain; other chains' arguments are the first of these
	weights []*ir.Node // the argument by which each element's result is multiplied, and the one then added to it
	element *chain     // an element of the op's argument
	steps   []foldStep
	each    *chain // an element's result; nil for a reduction
}

// foldStep is a step of a fold: it reduces the results of a chain.
type foldStep struct {
	*reducer
	of *chain
}

// folding returns the fold that computes a node, or nil if there is none. It sets within, by ID, for the elementwise
// ops that become part of the fold.
func (c *chains) folding(n *ir.Node, within []bool) *fold {
	in := n.Op().Info()
	if !foldable(n.Op()) || !narrow(n) || c.constant[n.ID()] || c.uses[n.ID()] == 0 {
		return nil
	}
	var members []*ir.Node
	x := n.Arg(0)
	if c.uses[x.ID()] == 1 && !c.constant[x.ID()] && computable(x) {
		members = c.before(x, within)
		within[x.ID()] = true
	}
	begin := func() (b *compiler, element int) {
		b = newCompiler()
		if members != nil {
			return b, c.members(b, members)
		}
		return b, c.read(b, x)
	}
	b, element := begin()
	f := &fold{node: n, element: b.chain(b.result(element))}
	f.args = f.element.args
	switch {
	case searches(n.Op()):
		return f
	case in.Running != 0:
		b, element := begin()
		f.each = b.chain(b.stored(element))
		return f
	}
	for _, s := range in.Fold.Steps {
		by, of := reducers[s.By], s.Map
		if of != nil && of.Op == ir.OpSqr && s.By == ir.OpSum {
			by, of = squares, of.Args[0]
		}
		b, element := begin()
		f.steps = append(f.steps, foldStep{by, b.chain(b.result(b.scalar(of, element, n.Attrs())))})
	}
	if in.Class != ir.ClassReduce {
		b, element := begin()
		v := b.scalar(in.Fold.Finish, element, n.Attrs())
		for i, a := range n.Args()[1:] {
			at := c.read(b, a)
			f.weights = append(f.weights, b.values[at].arg)
			v = b.instruction(primitives[[]string{"*", "+"}[i]], []int{v, at})
		}
		if name, ok := roundings[n.DType()]; ok {
			v = b.instruction(primitives[name], []int{v})
		}
		f.each = b.chain(b.stored(v))
		f.args = f.each.args
	}
	return f
}

// foldable reports whether an op folds rows of floats by reducers of this package.
func foldable(op ir.Op) bool {
	in := op.Info()
	unknown := func(s ir.Step) bool { return reducers[s.By] == nil }
	return searches(op) || reducers[in.Running] != nil || in.Fold != nil && !slices.ContainsFunc(in.Fold.Steps, unknown)
}

// scalar compiles an expression of a row in package ir, and returns its value. element is the value of the row's
// element, and nil means the element itself.
func (b *compiler) scalar(s *ir.Scalar, element int, attrs ir.Attrs) int {
	switch {
	case s == nil || s.Leaf == ir.LeafElement:
		return element
	case s.Leaf == ir.LeafNumber:
		return b.constant(float32(s.Value))
	case s.Leaf == ir.LeafAttr:
		return b.constant(float32(attrs.Float(s.Attr)))
	case !s.Takes(ir.LeafElement):
		v, ok := b.row[s]
		if !ok {
			v = b.value(value{row: s})
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
	if e, err := parse(form); err == nil && e.known(len(args)) {
		return b.expression(e, args, nil)
	}
	return b.instruction(byReference(s.Op, len(args), nil), args)
}

// chunk is the number of elements that one task folds, unless there are fewer. They take 256 KiB, which fit in an L2
// cache.
const chunk = 1 << 16

// compute is the kernel.
func (f *fold) compute(c *interp.Call) error {
	r, err := f.geometry(c)
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

// foldRows has the rows of one run of a fold.
//
// If the innermost axis is folded, a row's elements are neighbours, and a chain computes up to `block` elements of a
// row at a time. Otherwise neighbouring elements belong to different rows, and a chain computes one element of each of
// up to `block` rows.
type foldRows struct {
	*fold
	call   *interp.Call
	places []place
	rows   int  // number of rows
	n      int  // number of elements in a row
	across bool // whether neighbouring elements belong to different rows
	inner  int  // if across: how many rows' elements are neighbours
}

// geometry returns the rows of a run.
func (f *fold) geometry(c *interp.Call) (*foldRows, error) {
	dims, err := c.Extents(f.node.Arg(0))
	if err != nil {
		return nil, err
	}
	folded, err := f.axes(len(dims))
	if err != nil {
		return nil, err
	}
	r := &foldRows{fold: f, call: c, rows: 1, n: 1, inner: 1}
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
	r.across = r.inner > 1 || f.each == nil && r.n < short && r.rows > short
	order := slices.Concat(inner, along, outer)
	if r.across && f.each == nil && r.inner < block { // a block of rows may have any kept coordinates
		order, r.inner = slices.Concat(kept, along), r.rows
	}
	slices.Reverse(order)
	for _, a := range c.Args {
		r.places = append(r.places, newPlace(a, dims, order))
	}
	return r, nil
}

// short: if a reduction's rows have fewer elements than this, a chain computes many rows at a time.
const short = 32

// axes returns, by axis, whether the axis is folded.
func (f *fold) axes(rank int) ([]bool, error) {
	attrs, list := f.node.Attrs(), []int64{-1}
	switch {
	case attrs.Has("axis"):
		list[0] = int64(attrs.Int("axis"))
	case f.each == nil:
		list = attrs.Ints("axes")
	}
	return ir.ResolveAxes(list, rank)
}

// group is a range of neighbouring rows that are computed together.
type group struct{ from, count int }

// groups splits the rows into groups. A group of long rows has about as many elements as a chunk, but at least one row.
func (r *foldRows) groups() []group {
	size, within := max(1, min(block, chunk/max(r.n, 1))), r.rows
	if r.across {
		size, within = block, r.inner
	}
	var list []group
	for at := 0; at < r.rows; at += within {
		for lo := 0; lo < within; lo += size {
			list = append(list, group{at + lo, min(size, within-lo)})
		}
	}
	return list
}

// parts splits the elements of each row into parts for different tasks. It returns the number of elements in a part,
// and the number of parts. There is one part, unless there are only few groups, each with many elements.
func (r *foldRows) parts(groups []group) (each, parts int) {
	const few = 16 // number of groups
	if len(groups) >= few || r.n*groups[0].count < 2*chunk {
		return r.n, 1
	}
	each = max(1, chunk/groups[0].count)
	return each, (r.n + each - 1) / each
}

// at returns the index of element k of a row, in the order in which the places read elements.
func (r *foldRows) at(row, k int) int {
	if !r.across {
		return row*r.n + k
	}
	return (row/r.inner*r.n+k)*r.inner + row%r.inner
}

// compute computes all rows. If there are few groups of many elements, the tasks of a step are parts of the rows;
// otherwise they are groups. Which elements a task folds does not depend on the number of workers.
func (r *foldRows) compute() error {
	groups := r.groups()
	each, parts := r.parts(groups)
	if parts == 1 {
		return r.call.Parallel(len(groups), r.work(r.n*groups[0].count), func(_, task int) {
			g := r.group(groups[task])
			g.begin()
			for i := range r.steps {
				g.results[i] = g.step(i, 0, r.n)
			}
			g.finish(0, r.n)
			g.mend()
		})
	}
	list := make([]*groupFold, len(groups))
	for i, g := range groups {
		list[i] = r.group(g)
		list[i].begin()
	}
	for i, s := range r.steps {
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
	if r.each == nil {
		parts, each = 1, r.n
	}
	err := r.call.Parallel(len(list)*parts, r.work(each*groups[0].count), func(_, task int) {
		k := task % parts * each
		list[task/parts].finish(k, min(k+each, r.n))
	})
	if err != nil {
		return err
	}
	return r.call.Parallel(len(list), r.work(r.n*groups[0].count), func(_, task int) { list[task].mend() })
}

// work estimates the cost of all steps for a number of elements, in multiply-adds.
func (r *foldRows) work(elements int) int {
	each := len(r.steps)
	for _, s := range r.steps {
		each += s.of.work
	}
	if r.each != nil {
		each += r.each.work
	}
	return max(1, elements*each/4)
}

// groupFold is the state of one group.
type groupFold struct {
	*foldRows
	group
	firsts  []float64   // the first elements of the rows, if the fold uses them
	results [][]float64 // by step: the result of each row
}

// group returns the state of a group before the first step.
func (r *foldRows) group(g group) *groupFold {
	return &groupFold{foldRows: r, group: g, results: make([][]float64, len(r.steps))}
}

// begin reads the first elements of the rows, if the fold uses them.
func (g *groupFold) begin() {
	if !g.node.Op().Info().Fold.FromFirst() || g.n == 0 {
		return
	}
	g.firsts = make([]float64, g.count)
	g.run(g.element, nil, 0, 1, func(row, _ int, x []float32) {
		for i, v := range x {
			g.firsts[row+i] = float64(v)
		}
	})
}

// step returns the results of step i, by row, for elements lo to hi of the rows.
func (g *groupFold) step(i, lo, hi int) []float64 {
	s, results := g.steps[i], make([]float64, g.count)
	for row := range results {
		results[row] = s.first
	}
	to := s.start()
	g.run(s.of, g.rowValues(s.of), lo, hi, func(row, _ int, x []float32) {
		if g.across {
			to.each(results, x)
		} else {
			results[row] = to.list(results[row], x)
		}
	})
	return results
}

// finish computes the op's results: of each row for a reduction, else of elements lo to hi of each row.
func (g *groupFold) finish(lo, hi int) {
	if g.each != nil {
		g.run(g.each, g.rowValues(g.each), lo, hi, nil)
		return
	}
	for i, y := range g.value(g.node.Op().Info().Fold.Finish) {
		g.put(g.from+i, y)
	}
}

// mend computes rows again, as the interpreter does, if one of their row values is not finite in float32: their results
// may still be finite.
func (g *groupFold) mend() {
	values := g.results
	if g.each != nil {
		values = slices.Concat(values, g.rowValues(g.each))
	} else {
		values = slices.Concat(values, [][]float64{g.value(g.node.Op().Info().Fold.Finish)})
	}
	for row := range g.count {
		if slices.ContainsFunc(values, func(v []float64) bool { return !(math.Abs(v[row]) <= math.MaxFloat32) }) {
			g.reference(row)
		}
	}
}

// put rounds y and stores it as an element of the output.
func (g *groupFold) put(at int, y float64) { g.call.Out[at] = float32(ir.RoundTo(y, g.node.DType())) }

// reference is finish for a whole row, but computes as the interpreter does, in float64.
func (g *groupFold) reference(row int) {
	x := make([]float64, 0, g.n)
	one := groupFold{foldRows: g.foldRows, group: group{g.from + row, 1}}
	one.run(g.element, nil, 0, g.n, func(_, _ int, list []float32) {
		for _, v := range list {
			x = append(x, float64(v))
		}
	})
	y := interp.FoldRow(g.node, x)
	if g.each == nil {
		g.put(g.from+row, y[0])
		return
	}
	for k := range y {
		at, z := g.at(g.from+row, k), [2]float64{1, 0} // weight and bias
		for i := range g.weights {
			var v [1]float32
			g.places[slices.Index(g.args, g.weights[i])].read(v[:], at)
			z[i] = float64(v[0])
		}
		g.put(at, float64(y[k]*z[0])+z[1])
	}
}

// rowValues returns the row values that a chain uses, each by row of the group.
func (g *groupFold) rowValues(p *chain) [][]float64 {
	list := make([][]float64, len(p.row))
	for i, v := range p.row {
		list[i] = g.value(v)
	}
	return list
}

// run runs a chain over elements lo to hi of the rows. rows are the chain's row values. It calls f with the results: x
// has element k of all rows if across is true, else elements of one row from k on. If f is nil, the results go to the
// call's output.
func (g *groupFold) run(p *chain, rows [][]float64, lo, hi int, f func(row, k int, x []float32)) {
	s := p.begin(g.places)
	defer p.idle.Put(s)
	defer clear(s.operands[:len(p.args)]) // the caller's memory
	results := func(row, k, n int) []float32 {
		at := g.at(g.from+row, k)
		p.read(g.places, at, n, s)
		switch {
		case f == nil:
			p.apply(g.call.Out[at:at+n], s)
			return nil
		case len(p.code) == 0:
			return s.operands[p.result][:n]
		}
		x := s.operands[p.code[len(p.code)-1].out][:n]
		p.apply(x, s)
		return x
	}
	if g.across {
		for i, list := range rows {
			for row, y := range list {
				s.operands[len(p.args)+i][row] = float32(y)
			}
		}
		for k := lo; k < hi; k++ {
			if x := results(0, k, g.count); f != nil {
				f(0, k, x)
			}
		}
		return
	}
	some := 1 // number of rows in one block
	if hi-lo == g.n {
		some = max(1, block/max(g.n, 1))
	}
	for row := 0; row < g.count; row += some {
		some := min(some, g.count-row)
		for i, list := range rows {
			for r := range some {
				fill(s.operands[len(p.args)+i][r*(hi-lo):][:min(block, hi-lo)], float32(list[row+r]))
			}
		}
		for k := lo; k < hi; k += block {
			x := results(row, k, min(block, some*(hi-k)))
			for r := 0; f != nil && r < some; r++ {
				f(row+r, k, x[r*len(x)/some:(r+1)*len(x)/some])
			}
		}
	}
}

// value returns a row value by row of the group.
func (g *groupFold) value(s *ir.Scalar) []float64 {
	out := make([]float64, g.count)
	switch s.Leaf {
	case 0:
		args, x, of := make([][]float64, len(s.Args)), make([]float64, len(s.Args)), s.Op.Info().Float
		for i, a := range s.Args {
			args[i] = g.value(a)
		}
		for row := range out {
			for i, a := range args {
				x[i] = a[row]
			}
			out[row] = of(x, nil)
		}
		return out
	case ir.LeafResult:
		return g.results[s.Step]
	case ir.LeafMean:
		for row, y := range g.results[s.Step] {
			out[row] = y / float64(g.n)
		}
		return out
	case ir.LeafFirst:
		copy(out, g.firsts)
		return out
	}
	y := s.Value
	switch s.Leaf {
	case ir.LeafCount:
		y = max(float64(g.n)-float64(g.node.Attrs().Int(s.Attr)), 0)
	case ir.LeafAttr:
		y = g.node.Attrs().Float(s.Attr)
	}
	for row := range out {
		out[row] = y
	}
	return out
}
