package keval

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// run is the evaluation of one step.
type run struct {
	m       *Machine
	k       *kernel.Kernel
	step    kernel.Step
	symbols map[string]int64
	extents map[ir.Dim]int64 // what extent returned, because evaluating an extent parses its text
	elems   []int64          // run-time number of elements, by buffer

	// doing and number say in errors what part of the kernel is computed, such as phase 0.
	doing  string
	number int

	fold     int64   // extent of the fold axis
	at       []int64 // coordinates, the fold axis last
	inFold   bool
	firstCol int64    // the first column of the current store
	point    int64    // number of the current point of the parallel axes
	accs     []number // results of phases and matmuls
	accT     []ir.DType

	// exprs caches the values of expressions by ID. round counts coordinate changes, and firstRound is the first round
	// of the current point. A value that depends on the row's element is valid if it was computed in the current round,
	// and other values if they were computed in firstRound or later.
	exprs      []expr
	round      int64
	firstRound int64

	pending []pending // of stores

	touched [][]touch // by buffer that the step writes, and by element
}

// touch records which points read and stored an element. Points count from 1; 0 means none.
type touch struct{ reader, writer int64 }

// expr is the cached state of an expression: its latest value, constant properties, and scratch memory for its
// arguments.
type expr struct {
	v      number
	when   int64 // the round in which v was computed
	inRow  bool  // its value differs along the row
	floats bool  // an argument is a float
	args   []number
	float  []float64
	int    []int64
}

// pending is a value that a store has computed and not yet written.
type pending struct {
	store int
	at    int64
	v     number
}

// runStep runs the kernel of step i at every point of its parallel axes.
func (m *Machine) runStep(i int, symbols map[string]int64, elems []int64) (err error) {
	k := m.kernels[i]
	r := &run{m: m, k: k, step: m.prog.Steps[i], symbols: symbols, extents: map[ir.Dim]int64{}, elems: elems,
		touched: make([][]touch, len(m.prog.Buffers))}
	defer func() {
		if err != nil {
			err = fmt.Errorf("step %d (%s): at %v: %s %d: %w", i, k.Name, r.at, r.doing, r.number, err)
		}
	}()
	defer bailout.Caught(&err)
	if k.Family == kernel.FamilyCustom {
		r.runCustom()
		return nil
	}
	r.prepare()
	dims, err := ir.Shape(k.Parallel).Eval(symbols)
	bailout.Check(err)
	fold := int64(0)
	if k.Family != kernel.FamilyMap {
		fold = r.extent(k.Fold)
	}
	switch k.Family {
	case kernel.FamilyAttention:
		r.computeAttention(dims, fold)
	case kernel.FamilyRecurrence:
		r.computeRecurrence(dims, fold)
	default:
		for _, n := range m.order(dims) {
			r.moveTo(n, dims)
			r.compute(fold)
		}
	}
	return nil
}

// fail ends the step with an error.
func fail(format string, args ...any) { bailout.Check(fmt.Errorf(format, args...)) }

// extent returns the run-time value of an extent.
func (r *run) extent(d ir.Dim) int64 {
	if d.IsStatic() {
		return d.Add
	}
	n, known := r.extents[d]
	if !known {
		var err error
		n, err = d.Eval(r.symbols)
		bailout.Check(err)
		r.extents[d] = n
	}
	return n
}

// order returns the numbers of the points of a space, in the order of the visits.
func (m *Machine) order(dims []int) []int {
	points := 1
	for _, d := range dims {
		points *= d
	}
	if m.opt.Order != nil {
		return m.opt.Order.Perm(points)
	}
	list := make([]int, points)
	for i := range list {
		list[i] = i
	}
	return list
}

// prepare allocates the cache, and finds the dtype of each phase's and matmul's result.
func (r *run) prepare() {
	folds := results(r.k)
	r.accs, r.accT = make([]number, folds), make([]ir.DType, folds)
	kernel.Walk(r.k.Roots(), func(e *kernel.Expr) {
		// IDs may have gaps.
		r.exprs = append(r.exprs, make([]expr, max(0, e.ID+1-len(r.exprs)))...)
		n := len(e.Args)
		r.exprs[e.ID] = expr{
			// A scan's or sort's result also differs along the row.
			inRow:  r.k.Family != kernel.FamilyMap && e.Uses(r.k.FoldAxis()) || perElement(r.k.Family) && e.UsesAnyAcc(),
			floats: slices.ContainsFunc(e.Args, func(a *kernel.Expr) bool { return a.DType.IsFloat() }),
			args:   make([]number, n), float: make([]float64, n), int: make([]int64, n),
		}
		if e.Kind == kernel.ExprAcc {
			r.accT[e.Acc] = e.DType
		}
	})
}

// moveTo sets the coordinates to a point, counted in row-major order.
func (r *run) moveTo(point int, dims []int) {
	r.point = int64(point)
	if r.at == nil {
		r.at = make([]int64, len(dims)+1)
	}
	r.at[len(dims)] = 0
	for i := len(dims) - 1; i >= 0; i-- {
		r.at[i] = int64(point % dims[i])
		point /= dims[i]
	}
	r.round++
	r.firstRound = r.round
}

// compute runs the folds and stores of one point, unless the kernel's guard skips it. fold is the run-time extent of
// the fold axis, also in the methods that it calls.
func (r *run) compute(fold int64) {
	switch family := r.k.Family; {
	case family == kernel.FamilyScan:
		r.scan(fold)
	case family == kernel.FamilyGroup:
		r.computeGroups(fold)
	case r.skipped(): // scans and groups have no guard
	case family == kernel.FamilyQuantize:
		r.quantize(fold)
	case family == kernel.FamilySort:
		r.sortRow(fold)
	default:
		r.foldAndStore(fold)
	}
}

// foldAndStore computes the phases and matmuls, and then the stores.
func (r *run) foldAndStore(fold int64) {
	for i, p := range r.k.Phases {
		r.doing, r.number = "phase", i
		f := newFold(p.Combine, r.accT[r.k.PhaseAcc(i)])
		r.eachElement(fold, func(j int64) { f.add(r.value(p.Value), p.Value.DType, j) })
		r.accs[r.k.PhaseAcc(i)] = f.result()
	}
	r.fold = fold
	for i := range r.k.MatMuls {
		r.doing, r.number = "product", i
		r.accs[i] = r.matmul(i)
	}
	r.runStores(oncePerRow)
	if r.k.Family == kernel.FamilyRow {
		r.eachElement(fold, func(int64) { r.runStores(oncePerElement) })
	}
}

// matmul returns the result of matmul i at the current row and column.
func (r *run) matmul(i int) number {
	p := r.k.MatMuls[i]
	sum, ints, undef := 0.0, int64(0), false
	r.eachElement(r.fold, func(int64) {
		a, b := r.value(p.A), r.value(p.B)
		sum += float64(a.float(p.A.DType) * b.float(p.B.DType))
		ints += a.i * b.i
		undef = undef || a.undef || b.undef
	})
	return number{f: ir.RoundTo(sum, ir.F32), i: ir.Wrap(ints, ir.I32), undef: undef}
}

// otherSum returns the matmul result that e refers to, which belongs to another column than the current one.
func (r *run) otherSum(e *kernel.Expr) number {
	axis := len(r.k.Parallel) - 1
	at, here := r.index(e.Index), r.at[axis]
	// e.Index counts columns from the store's first one.
	r.moveAlong(axis, at+r.firstCol)
	defer r.moveAlong(axis, here)
	return r.matmul(e.Acc)
}

// scan goes along a row and stores the running result at each element.
func (r *run) scan(fold int64) {
	p := r.k.Phases[0]
	f := newFold(p.Combine, r.accT[0])
	r.eachElement(fold, func(j int64) {
		if l := r.k.Limit; l != nil && r.index(l.At) >= r.extent(l.Below) {
			return
		}
		v := r.value(p.Value)
		// the fold before this element
		r.accs[0] = f.result()
		f.add(v, p.Value.DType, j)
		if !p.Exclusive {
			r.accs[0] = f.result()
		}
		r.runStores(oncePerElement)
	})
}

// eachElement calls f for every element of the row, with the coordinate along the fold axis set.
func (r *run) eachElement(fold int64, f func(j int64)) {
	r.inFold = true
	defer func() { r.inFold = false }()
	for j := range fold {
		r.at[r.k.FoldAxis()] = j
		r.round++
		f(j)
	}
}

// Arguments of runStores.
const (
	oncePerElement = true
	oncePerRow     = false
)

// runStores runs the stores per element if perElement is set, and otherwise the others. It computes all values before
// it stores any, as a device may.
func (r *run) runStores(perElement bool) {
	r.pending = r.pending[:0]
	for i, s := range r.k.Stores {
		if s.PerElement != perElement || r.skipsColumn(s) {
			continue
		}
		r.doing, r.number = "store", i
		if v, x, ok := r.stored(s); ok {
			r.pending = append(r.pending, pending{i, x, v})
		}
	}
	for _, p := range r.pending {
		s := r.k.Stores[p.store]
		r.number = p.store
		if p.v.undef {
			fail("the value depends on memory that holds nothing")
		}
		r.store(s.Bind, p.at, p.v, s.Value.DType)
	}
}

// skipsColumn reports whether a store does not write the current column.
func (r *run) skipsColumn(s kernel.Store) bool {
	if s.Cols.All() {
		return false
	}
	col := r.at[len(r.k.Parallel)-1]
	return col < s.Cols.From || col >= s.Cols.To
}

// stored returns the value and index of a store. ok is false if the store's condition is.
func (r *run) stored(s kernel.Store) (v number, at int64, ok bool) {
	if axis := len(r.k.Parallel) - 1; !s.Cols.All() {
		here := r.at[axis]
		// The store's expressions count columns from its own first one.
		r.moveAlong(axis, here-s.Cols.From)
		r.firstCol = s.Cols.From
		defer func() { r.firstCol = 0; r.moveAlong(axis, here) }()
	}
	if s.Where != nil && r.value(s.Where).i == 0 {
		return number{}, 0, false
	}
	return r.value(s.Value), r.index(s.Index), true
}

// value returns an expression's value at the current point, from the cache if it is valid.
func (r *run) value(e *kernel.Expr) number {
	known, since := &r.exprs[e.ID], r.firstRound
	if known.inRow {
		since = r.round
	}
	// Rounds count from 1, so 0 means not computed yet.
	if known.when < since || known.when == 0 {
		v := r.evaluate(e)
		known.v, known.when = v, r.round
	}
	return known.v
}

// evaluate computes an expression's value, without the cache.
func (r *run) evaluate(e *kernel.Expr) number {
	switch e.Kind {
	case kernel.ExprConst:
		return number{f: e.Value, i: e.Int}
	case kernel.ExprAcc:
		if e.Other {
			return r.otherSum(e)
		}
		return r.accs[e.Acc]
	case kernel.ExprIndex:
		return number{i: ir.Wrap(r.index(e.Index), ir.I32)}
	case kernel.ExprLoad:
		return r.load(e.Bind, r.index(e.Index))
	case kernel.ExprRandom:
		return r.random(e)
	}
	return r.apply(e)
}

// random computes a word of the stream by the reference's generator.
func (r *run) random(e *kernel.Expr) number {
	x := r.index(e.Index)
	if x < 0 {
		fail("element %d of a random stream", x)
	}
	seed, offset := r.value(e.Args[0]), r.value(e.Args[1])
	// A block has four words.
	words := ir.RandomBlock(uint64(seed.i), uint64(offset.i), uint64(x/4))
	return number{i: int64(words[e.Word.Of(x)]), undef: seed.undef || offset.undef}
}

// apply computes an elementwise op. The result is undefined if an argument is, except for the unselected branch of a
// where.
func (r *run) apply(e *kernel.Expr) number {
	known := &r.exprs[e.ID]
	args := known.args
	for i, a := range e.Args {
		args[i] = r.value(a)
	}
	undef := slices.ContainsFunc(args, func(v number) bool { return v.undef })
	if e.Op == ir.OpWhere && !args[0].undef {
		undef = args[1].undef
		if args[0].i == 0 {
			undef = args[2].undef
		}
	}
	v := known.reference(e)
	v.undef = undef
	return v
}

// reference applies the op's scalar reference: the float version if an argument is a float, else the integer version.
func (k *expr) reference(e *kernel.Expr) number {
	args, floats := k.args, k.floats
	if e.Op == ir.OpCast {
		return cast(args[0], e.Args[0].DType, e.DType)
	}
	if e.Op == ir.OpBitcast {
		f, i := ir.Bitcast(args[0].f, args[0].i, e.Args[0].DType, e.DType)
		return number{f: f, i: i}
	}
	info := e.Op.Info()
	if floats && info.Float != nil {
		for i, a := range e.Args {
			k.float[i] = args[i].float(a.DType)
		}
		return fromFloat(info.Float(k.float, e.Attrs), e.DType)
	}
	switch {
	case info.Custom != nil && (floats || info.Int == nil):
		fail("custom op %s: %w", info.Name, ir.ErrNoReference)
	case floats || info.Int == nil || e.DType.IsFloat():
		fail("%s : %s has no reference for these arguments", e.Op, e.DType)
	}
	for i := range args {
		k.int[i] = args[i].i
	}
	return number{i: ir.Wrap(info.Int(k.int, e.Attrs), e.DType)}
}

// fromFloat returns f rounded to dtype t.
func fromFloat(f float64, t ir.DType) number {
	if t.IsFloat() {
		return number{f: ir.RoundTo(f, t)}
	}
	return number{i: ir.FloatToInt(f, t)}
}

// cast converts a number between dtypes, as op cast does.
func cast(v number, from, to ir.DType) number {
	switch {
	case from.IsFloat():
		return fromFloat(v.f, to)
	case to.IsFloat():
		return fromFloat(ir.IntToFloat(v.i, to), to)
	case to == ir.Bool:
		if v.i != 0 {
			return number{i: 1}
		}
		return number{}
	}
	return number{i: ir.Wrap(v.i, to)}
}

// folder accumulates the fold of one row.
type folder struct {
	combine kernel.Combine
	t       ir.DType // of the result
	acc     number
	// best is the largest (or smallest) element so far, for argmax and argmin; acc is then its coordinate.
	best  number
	float bool // the elements are floats
	any   bool // there was an element
	undef bool
}

// newFold returns a folder that has seen no elements. Its result is of dtype t.
func newFold(c kernel.Combine, t ir.DType) *folder {
	f := &folder{combine: c, t: t}
	lo, hi := ir.IntRange(t)
	switch c {
	case kernel.CombineProd:
		f.acc = number{f: 1, i: 1}
	case kernel.CombineMax:
		f.acc = number{f: math.Inf(-1), i: lo}
	case kernel.CombineMin:
		f.acc = number{f: math.Inf(1), i: hi}
	}
	return f
}

// add adds the element v of dtype t, at coordinate j of the row.
func (f *folder) add(v number, t ir.DType, j int64) {
	f.float = t.IsFloat()
	f.undef = f.undef || v.undef
	switch f.combine {
	case kernel.CombineSum:
		f.acc = number{f: f.acc.f + v.f, i: f.acc.i + v.i}
	case kernel.CombineProd:
		f.acc = number{f: float64(f.acc.f * v.f), i: f.acc.i * v.i}
	case kernel.CombineMax:
		f.acc = number{f: max(f.acc.f, v.f), i: max(f.acc.i, v.i)}
	case kernel.CombineMin:
		f.acc = number{f: min(f.acc.f, v.f), i: min(f.acc.i, v.i)}
	default: // argmax or argmin: the result is the coordinate of the best element
		if !f.any || f.beats(v) {
			f.best, f.acc = v, number{i: j}
		}
	}
	f.any = true
}

// beats reports whether v replaces the best element so far. The first NaN beats all other values.
func (f *folder) beats(v number) bool {
	sign := 1.0
	if f.combine == kernel.CombineArgmin {
		sign = -1
	}
	if f.float {
		// v.f != v.f holds for NaN only.
		return sign*v.f > sign*f.best.f || v.f != v.f && f.best.f == f.best.f
	}
	if sign < 0 {
		return v.i < f.best.i
	}
	return v.i > f.best.i
}

// result returns the fold of the elements so far, rounded to its dtype.
func (f *folder) result() number {
	return number{f: ir.RoundTo(f.acc.f, f.t), i: ir.Wrap(f.acc.i, f.t), undef: f.undef}
}
