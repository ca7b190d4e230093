package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// groupFold is the state of one group.
type groupFold[T number] struct {
	*foldRows[T]
	*foldChains[T]
	group
	firsts  []float64   // by row: its first element, if the fold uses that
	results [][]float64 // by step and row: the step's result
	memory  [][]T       // by index in foldChains.kept: the values that keptValues does not find in the output
	// By part, step and row: results instead of `results` that finish a part of the rows. If the output keeps
	// exponentials of differences from the greatest element of a part, the sum is the sum of such exponentials too.
	parts   [][][]float64
	sums    []float64   // by row: the sum of the differences from its first element; nil if no step uses it
	squares []float64   // by row: the sum of their squares
	alone   bool        // whether one task computes the group; it uses the next fields
	values  []rowValue  // known row values
	fixed   [][]float64 // lists of one number, see repeated
	lists   [][]float64 // memory for lists by row, which later rows use again
	used    int         // number of lists in use
	again   []bool      // memory for recompute
	room    []T         // memory for put
}

// rowValue is a list of a row value, by row of a group.
type rowValue struct {
	of   *ir.Scalar
	list []float64
}

// list returns memory for a list by row. The content is undefined.
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

// keep makes the group keep values that several chains use in the memory of a worker, unless that takes too much.
func (g *groupFold[T]) keep(worker int) {
	size := g.count * g.n
	if len(g.short.kept) == 0 || size > 2*chunk {
		return
	}
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

// keepsInOutput reports whether the last kept value is in the memory of the results, which replace it.
func (g *groupFold[T]) keepsInOutput() bool {
	return len(g.kept) > 0 && g.each != nil && g.out.list != nil
}

// keptValues returns the memory of n values of number i of the kept ones, from element k of row number row on.
func (g *groupFold[T]) keptValues(i, row, k, n int) []T {
	if i == len(g.kept)-1 && g.keepsInOutput() {
		return g.out.list[g.at(g.from+row, k):][:n]
	}
	within := row*g.n + k
	if g.across {
		within = k*g.count + row
	}
	return g.memory[i][within:][:n]
}

// findMoments computes the moments of the rows: the sum of the differences of a row's elements from the row's first
// element, and the sum of the squares of these differences. The latter is the sum of the n squared deviations from the
// mean plus n times one of them, the first. So it is at most n+1 times as large as the sum of squared deviations, and
// float64 has enough digits to compute that sum from it.
func (g *groupFold[T]) findMoments() {
	g.sums, g.squares, g.firsts = g.list(), g.list(), g.list()
	for _, list := range [][]float64{g.sums, g.squares, g.firsts} {
		clear(list)
	}
	if len(g.kept) > 0 && g.kept[0] == element {
		g.addMoments(0, 0, g.count, g.keptValues(0, 0, 0, g.count*g.n))
	} else {
		g.run(g.element, sink[T]{keeps: -1, moments: true}, 0, g.n)
	}
}

// addMoments adds the elements x to the moments: those from number k on of `rows` rows from number row on. T is
// float32.
func (g *groupFold[T]) addMoments(row, k, rows int, x []T) {
	end, list, ahead := row+rows, any(x).([]float32), any(g.ahead(len(x))).([]float32)
	momentsOf(g.sums[row:end], g.squares[row:end], g.firsts[row:end], list, ahead, k == 0)
}

// fromMoments returns the results of a step, by row, which sums differences from a row value y or their squares. With
// d the first element minus y, a difference from y is d more than the difference from the first element.
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

// begin prepares a group of rows: it computes the elements if they are kept, and the moments or the first elements of
// the rows if the fold uses these.
func (g *groupFold[T]) begin() {
	if len(g.kept) > 0 && g.kept[0] == element {
		g.run(g.element, sink[T]{keeps: 0}, 0, g.n)
	}
	g.sums = nil
	if !g.node.Op().Info().Fold.FromFirst() {
		return
	}
	// Moments about the first element are not exact enough for elements of float64.
	fromMoments := slices.ContainsFunc(g.steps, func(s foldStep[T]) bool { return s.from != nil })
	if fromMoments && g.alone && !g.across && !g.wide() {
		g.findMoments()
		return
	}
	g.readFirsts()
}

// readFirsts sets firsts to the first elements of the rows, or to 0 if the rows have no elements.
func (g *groupFold[T]) readFirsts() {
	g.firsts = g.list()
	if g.n == 0 {
		clear(g.firsts)
		return
	}
	if p := g.element; len(p.code) == 0 && !g.across { // here run would use a block for each row, which takes longer
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

// step sets results, a list by row, to the results of step i for elements lo to hi of the rows. It returns them.
func (g *groupFold[T]) step(i int, results []float64, lo, hi int) []float64 {
	s := g.steps[i]
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

// recompute computes a row again, as the interpreter does, if one of its row values is not finite in type T. With the
// interpreter's precision, the results may still be finite.
func (g *groupFold[T]) recompute() {
	if g.ofWords() {
		return
	}
	least, most := 0.0, g.most() // of the magnitudes of row values
	if g.wide() && g.node.Op().Info().Fold.Homogeneous {
		least = 0x1p-900 // squares of smaller numbers may have lost bits
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

// put rounds or wraps row values to the node's dtype, and stores them in the output from element `at` on. An output of
// float32 has an integer as a word, in the bits of a float32. If T is float64, values already have the bits of 64-bit
// integers.
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
				if !g.ofWords() { // integers are the bits of y
					y = ir.RoundTo(y, t)
				}
				list[i] = y
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

// sink says where run puts the results of a chain.
type sink[T number] struct {
	keeps   int       // the index in foldChains.kept of the value that they are; -1 if they are none
	outputs bool      // whether they are the call's output
	by      *reducer  // folds them into the list results; may be nil
	results []float64 // by row
	moments bool      // whether they are elements for findMoments
	// f is called with each block x of results; may be nil. If across is true, x is element k of all rows. Otherwise it
	// is the elements from number k on of `rows` rows from number row on, one row after the other.
	f func(row, k, rows int, x []T)
}

// run runs chain p over elements lo to hi-1 of each row, in blocks, and passes the results to `to`.
func (g *groupFold[T]) run(p *chainOf[T], to sink[T], lo, hi int) {
	s := p.begin(g.readers)
	defer p.end(s)
	values := make([][]float64, 0, 8) // the row values that p reads, by row of the group
	for _, v := range p.row {
		values = append(values, g.value(v))
	}
	if g.across {
		g.runAcross(p, s, &to, values, lo, hi)
	} else {
		g.runAlong(p, s, &to, values, lo, hi)
	}
}

// runAcross does the work of run if neighbouring elements belong to different rows. A block has some elements of every
// row: element k of all rows, then element k+1 of all rows, and so on.
func (g *groupFold[T]) runAcross(p *chainOf[T], s *scratch[T], to *sink[T], values [][]float64, lo, hi int) {
	tall := g.tall() // elements of each row in a block
	p.byColumn(s, g.count)
	// If assembly can write all elements to the output at once, they are a single block.
	if s.columns > 0 && to.outputs && p.rowFunctions() != nil && g.out.list != nil && g.count == g.inner &&
		g.inMemory(p) {
		tall = hi - lo
	}
	ofRow := s.operands[len(p.args)+len(p.kept):] // by row value: the operand
	for i, list := range values {
		if s.columns > 0 {
			fromDoubles(s.numbers[i], list)
		}
		if s.columns > 0 && !p.spread[i] { // only row programs read the value
			continue
		}
		fromDoubles(ofRow[i], list)
		for k := 1; k < tall; k++ {
			copy(ofRow[i][k*g.count:], ofRow[i][:g.count])
		}
	}
	// The processor foresees accesses to memory in order. So elements in memory are folded one line after the other, a
	// line being element k of all rows. Other elements are in a cache, and are folded by columns, with results in
	// registers.
	inPlace := lo < hi && len(p.code) == 0 && g.inMemory(p)
	for k := lo; k < hi; k += tall {
		x := g.computeBlock(p, s, to, 0, k, min(tall, hi-k)*g.count)
		each := g.count // elements to fold at a time
		if to.by != nil && !inPlace {
			each = len(x)
		}
		for i := 0; i < len(x) && !to.outputs; i += each {
			switch part := x[i : i+each]; {
			case to.by != nil:
				eachOf(to.by, to.results, part)
			case to.f != nil:
				to.f(0, k+i/each, each, part)
			}
		}
	}
}

// runAlong is run if the elements of a row are neighbours. A block has a part of a row, or several whole rows. If all
// rows are contiguous in memory and assembly can compute them at once, they are a single block.
func (g *groupFold[T]) runAlong(p *chainOf[T], s *scratch[T], to *sink[T], values [][]float64, lo, hi int) {
	p.byRow(s, g.readers, hi-lo)
	rows, most, step := 1, block, block // of a block: the number of rows, of elements, and of elements of a row
	functions := p.rowFunctions()
	if s.rowElems == 0 {
		functions = nil
	}
	s.sums = nil
	adds := functions != nil && functions.sum != nil && to.by == reducers[ir.OpSum] // assembly adds the results up
	if hi-lo == g.n && g.n > 0 {
		rows = max(1, block/g.n)
		// Without code the results are the argument itself. Otherwise assembly must write them to their final place.
		inFinalPlace := adds || to.keeps >= 0 || to.outputs && g.out.list != nil
		if (len(p.code) == 0 || functions != nil && inFinalPlace) && g.inMemory(p) {
			rows, most, step = g.count, g.count*g.n, g.n
			if functions != nil {
				s.next = g.following(p)
				s.rowElems = g.n
			}
		}
	}
	for row := 0; row < g.count; row += rows {
		n := min(rows, g.count-row)
		g.spreadValues(p, s, values, row, n, hi-lo)
		for k := lo; k < hi; k += step {
			if adds {
				s.sums = to.results[row : row+n]
			}
			x := g.computeBlock(p, s, to, row, k, min(most, n*(hi-k)))
			switch {
			case adds: // computeBlock has added them up
			case to.by != nil:
				rowsOf(to.by, to.results[row:row+n], x, g.ahead(len(x)))
			case to.moments:
				g.addMoments(row, k, n, x)
			case to.f != nil:
				to.f(row, k, n, x)
			}
		}
	}
}

// spreadValues sets the operands for the values of `rows` rows from number row on. Row programs read one number per
// row. Other instructions read a list, in which the number is repeated for each of n elements of the row.
func (g *groupFold[T]) spreadValues(p *chainOf[T], s *scratch[T], values [][]float64, row, rows, n int) {
	ofRow := s.operands[len(p.args)+len(p.kept):] // by row value: the operand
	for i, list := range values {
		if s.rowElems > 0 {
			fromDoubles(s.numbers[i], list[row:row+rows])
		}
		if s.rowElems > 0 && !p.spread[i] {
			continue
		}
		for r, y := range list[row : row+rows] {
			fillOf(ofRow[i][r*n:][:min(block, n)], T(y))
		}
	}
}

// tall returns how many elements of each row a block has, if neighbouring elements belong to different rows. It is 1
// if the elements of the group are not neighbours.
func (g *groupFold[T]) tall() int {
	if g.count < g.inner {
		return 1
	}
	return max(1, block/g.count)
}

// inMemory reports whether the elements that chain p reads are contiguous in memory, for all rows of the group. p has
// no code, or is a row program.
func (g *groupFold[T]) inMemory(p *chainOf[T]) bool {
	x := p.result // the operand with the elements
	if len(p.code) > 0 {
		x = p.code[0].in[0]
		for _, v := range p.code[0].program.lists {
			// A reader can copy a list of up to block elements to contiguous memory.
			if g.n > block && g.readers[v].direct(0, g.n) == nil {
				return false
			}
		}
	}
	if x >= len(p.args) {
		isKept := x < len(p.args)+len(p.kept)
		return isKept
	}
	return g.readers[x].direct(g.at(g.from, 0), g.count*g.n) != nil
}

// ahead returns the memory of the group's results, which assembly prefetches. It returns nil if the group does not have
// n results, or if the fold does not store them there row by row.
func (g *groupFold[T]) ahead(n int) []T {
	if g.each == nil || g.out.list == nil || n != g.count*g.n || g.across {
		return nil
	}
	return g.out.list[g.at(g.from, 0):][:n]
}

// following returns the elements of the g.count rows after the group, so that assembly can prefetch them. It returns
// nil if there are fewer rows, or if the elements are not contiguous in an argument's memory.
func (g *groupFold[T]) following(p *chainOf[T]) []T {
	x, row, size := p.code[0].in[0], g.from+g.count, g.count*g.n
	if x >= len(p.args) || row+g.count > g.rows {
		return nil
	}
	return g.readers[x].direct(g.at(row, 0), size)
}

// computeBlock computes a block of n results of chain p with scratch memory s, from element k of row number row on. It
// returns the results, or nil if it only adds them to s.sums.
func (g *groupFold[T]) computeBlock(p *chainOf[T], s *scratch[T], to *sink[T], row, k, n int) []T {
	at := g.at(g.from+row, k) // the block's first element in the argument
	p.read(g.readers, at, n, s)
	for i, v := range p.kept {
		s.operands[len(p.args)+i] = g.keptValues(slices.Index(g.kept, v), row, k, n)
	}
	var x []T
	switch {
	case to.keeps >= 0:
		x = g.keptValues(to.keeps, row, k, n)
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

// value returns row value s as a list, with an element for each row of the group. If a single task computes the group,
// g keeps the list for later calls.
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

// newValue computes row value s: a list by row of the group. A leaf is a result of a step, the first elements, the
// mean of a step's sum, or a number that is the same for all rows. Any other value is an op of other row values.
func (g *groupFold[T]) newValue(s *ir.Scalar) []float64 {
	switch s.Leaf {
	case 0:
		return g.applied(s)
	case ir.LeafResult:
		return g.results[s.Step]
	case ir.LeafFirst:
		return g.firsts
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

// applied returns row value s, which is an op of other row values.
func (g *groupFold[T]) applied(s *ir.Scalar) []float64 {
	out := g.list()
	var args [3][]float64
	for i, a := range s.Args {
		args[i] = g.value(a)
	}
	if f := rowOps[s.Op]; f != nil {
		if args[1] == nil { // an op of one argument ignores the second list
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
}

// repeated returns a list that has number y for each row.
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
