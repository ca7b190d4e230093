package keval

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// run is the evaluation of one step.
type run struct {
	m       *Machine
	k       *kernel.Kernel
	step    kernel.Step
	symbols map[string]int64
	elems   []int64 // run-time number of elements, by buffer

	fold     int64   // extent of the fold axis
	at       []int64 // coordinates, the fold axis last
	inFold   bool
	firstCol int64    // the first column of the current store
	point    int64    // number of the current point of the parallel axes
	accs     []number // results of phases and matmuls
	accT     []ir.DType

	// exprs caches the values of expressions by ID. A value that depends on the row's element is valid if it was
	// computed in the current round, other values if they were computed in round turn or later. round counts coordinate
	// changes; turn is the first round of the current point.
	exprs []expr
	round int64
	turn  int64

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

// step runs the kernel of step i at every point of its parallel axes.
func (m *Machine) step(i int, symbols map[string]int64, elems []int64) error {
	k := m.kernels[i]
	r := &run{m: m, k: k, step: m.prog.Steps[i], symbols: symbols, elems: elems,
		touched: make([][]touch, len(m.prog.Buffers))}
	if k.Family == kernel.FamilyCustom {
		return r.custom()
	}
	r.prepare()
	dims, err := ir.Shape(k.Parallel).Eval(symbols)
	if err != nil {
		return err
	}
	fold := int64(0)
	if k.Family != kernel.FamilyMap {
		if fold, err = k.Fold.Eval(symbols); err != nil {
			return err
		}
	}
	if k.Family == kernel.FamilyAttention {
		return r.attention(dims, fold)
	}
	for _, n := range m.order(dims) {
		r.moveTo(n, dims)
		if err := r.compute(fold); err != nil {
			return fmt.Errorf("at %v: %w", r.at, err)
		}
	}
	return nil
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
		r.exprs = append(r.exprs, make([]expr, max(0, e.ID+1-len(r.exprs)))...)
		n := len(e.Args)
		r.exprs[e.ID] = expr{
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
	r.turn = r.round
}

// compute runs the folds and stores of one point.
func (r *run) compute(fold int64) error {
	switch r.k.Family {
	case kernel.FamilyScan:
		return r.scan(fold)
	case kernel.FamilyGroup:
		return r.group(fold)
	case kernel.FamilyQuantize:
		if out, err := r.guarded(); out || err != nil {
			return err
		}
		return r.quantize(fold)
	default:
		return r.guardedPoint(fold)
	}
}

// guardedPoint runs the folds and stores of a point unless the kernel's guard skips it.
func (r *run) guardedPoint(fold int64) error {
	if out, err := r.guarded(); out || err != nil {
		return err
	}
	if r.k.Family == kernel.FamilySort {
		return r.sort(fold)
	}
	for i, p := range r.k.Phases {
		f := newFold(p.Combine, r.accT[r.k.PhaseAcc(i)])
		err := r.eachElement(fold, func(j int64) error {
			v, err := r.value(p.Value)
			f.add(v, p.Value.DType, j)
			return err
		})
		if err != nil {
			return fmt.Errorf("phase %d (%s): %w", i, p.Name, err)
		}
		r.accs[r.k.PhaseAcc(i)] = f.result()
	}
	r.fold = fold
	for i := range r.k.Products {
		sum, err := r.product(i)
		if err != nil {
			return err
		}
		r.accs[i] = sum
	}
	if err := r.stores(false); err != nil {
		return err
	}
	if r.k.Family != kernel.FamilyRow {
		return nil
	}
	return r.eachElement(fold, func(int64) error { return r.stores(true) })
}

// product returns the result of matmul i at the current row and column.
func (r *run) product(i int) (number, error) {
	p := r.k.Products[i]
	sum, ints, undef := 0.0, int64(0), false
	err := r.eachElement(r.fold, func(int64) error {
		a, errA := r.value(p.A)
		b, errB := r.value(p.B)
		sum += float64(a.float(p.A.DType) * b.float(p.B.DType))
		ints += a.i * b.i
		undef = undef || a.undef || b.undef
		if errA != nil {
			return errA
		}
		return errB
	})
	if err != nil {
		return number{}, fmt.Errorf("product %d (%s): %w", i, p.Name, err)
	}
	return number{f: ir.RoundTo(sum, ir.F32), i: ir.Wrap(ints, ir.I32), undef: undef}, nil
}

// otherSum returns the matmul result that e refers to, which belongs to another column than the current one.
func (r *run) otherSum(e *kernel.Expr) (number, error) {
	axis := len(r.k.Parallel) - 1
	at, err := r.index(e.Index)
	if err != nil {
		return number{}, err
	}
	here := r.at[axis]
	r.moveAlong(axis, at+r.firstCol)
	defer r.moveAlong(axis, here)
	return r.product(e.Acc)
}

// scan goes along a row and stores the running result at each element.
func (r *run) scan(fold int64) error {
	p := r.k.Phases[0]
	f := newFold(p.Combine, r.accT[0])
	return r.eachElement(fold, func(j int64) error {
		if beyond, err := r.beyondLimit(); beyond || err != nil {
			return err
		}
		v, err := r.value(p.Value)
		if err != nil {
			return err
		}
		r.accs[0] = f.result()
		f.add(v, p.Value.DType, j)
		if !p.Exclusive {
			r.accs[0] = f.result()
		}
		return r.stores(true)
	})
}

// beyondLimit reports whether the current element is at or after the row's limit.
func (r *run) beyondLimit() (bool, error) {
	if r.k.Limit == nil {
		return false, nil
	}
	at, err := r.index(r.k.Limit.At)
	if err != nil {
		return false, err
	}
	below, err := r.k.Limit.Below.Eval(r.symbols)
	return at >= below, err
}

// eachElement calls f for every element of the row, with the coordinate along the fold axis set.
func (r *run) eachElement(fold int64, f func(j int64) error) error {
	r.inFold = true
	defer func() { r.inFold = false }()
	for j := range fold {
		r.at[r.k.FoldAxis()] = j
		r.round++
		if err := f(j); err != nil {
			return fmt.Errorf("element %d of the row: %w", j, err)
		}
	}
	return nil
}

// stores runs the stores of the current point or element. It computes all values before it stores any, as a device may.
func (r *run) stores(perElement bool) error {
	r.pending = r.pending[:0]
	for i, s := range r.k.Stores {
		if s.PerElement != perElement || r.leavesOut(s) {
			continue
		}
		v, x, left, err := r.stored(s)
		if err != nil {
			return fmt.Errorf("store %d: %w", i, err)
		}
		if !left {
			r.pending = append(r.pending, pending{i, x, v})
		}
	}
	for _, p := range r.pending {
		s := r.k.Stores[p.store]
		if p.v.undef {
			return fmt.Errorf("store %d: the value depends on memory that holds nothing", p.store)
		}
		if err := r.store(s.Bind, p.at, p.v, s.Value.DType); err != nil {
			return fmt.Errorf("store %d: %w", p.store, err)
		}
	}
	return nil
}

// leavesOut reports whether a store does not write the current column.
func (r *run) leavesOut(s kernel.Store) bool {
	if s.Cols.All() {
		return false
	}
	col := r.at[len(r.k.Parallel)-1]
	return col < s.Cols.From || col >= s.Cols.To
}

// stored returns the value and index of a store. left says that the store's condition is false.
func (r *run) stored(s kernel.Store) (v number, at int64, left bool, err error) {
	if axis := len(r.k.Parallel) - 1; !s.Cols.All() {
		here := r.at[axis]
		r.moveAlong(axis, here-s.Cols.From)
		r.firstCol = s.Cols.From
		defer func() { r.firstCol = 0; r.moveAlong(axis, here) }()
	}
	if s.Where != nil {
		if v, err = r.value(s.Where); err != nil || v.i == 0 {
			return v, 0, true, err
		}
	}
	if v, err = r.value(s.Value); err != nil {
		return v, 0, false, err
	}
	at, err = r.index(s.Index)
	return v, at, false, err
}

// value returns an expression's value at the current point, from the cache if it is valid.
func (r *run) value(e *kernel.Expr) (number, error) {
	known, since := &r.exprs[e.ID], r.turn
	if known.inRow {
		since = r.round
	}
	if known.when >= since && known.when > 0 {
		return known.v, nil
	}
	v, err := r.compute1(e)
	if err != nil {
		return number{}, err
	}
	known.v, known.when = v, r.round
	return v, nil
}

// compute1 computes an expression's value, without the cache.
func (r *run) compute1(e *kernel.Expr) (number, error) {
	switch e.Kind {
	case kernel.ExprConst:
		return number{f: e.Value, i: e.Int}, nil
	case kernel.ExprAcc:
		if e.Other {
			return r.otherSum(e)
		}
		return r.accs[e.Acc], nil
	case kernel.ExprIndex:
		x, err := r.index(e.Index)
		return number{i: ir.Wrap(x, ir.I32)}, err
	case kernel.ExprLoad:
		x, err := r.index(e.Index)
		if err != nil {
			return number{}, err
		}
		return r.load(e.Bind, x)
	case kernel.ExprRandom:
		return r.random(e)
	}
	return r.apply(e)
}

// random computes a word of the stream by the reference's generator.
func (r *run) random(e *kernel.Expr) (number, error) {
	x, err := r.index(e.Index)
	if err != nil {
		return number{}, err
	}
	if x < 0 {
		return number{}, fmt.Errorf("element %d of a random stream", x)
	}
	seed, err := r.value(e.Args[0])
	if err != nil {
		return number{}, err
	}
	offset, err := r.value(e.Args[1])
	words := ir.RandomBlock(uint64(seed.i), uint64(offset.i), uint64(x/4))
	return number{i: int64(words[e.Word.Of(x)]), undef: seed.undef || offset.undef}, err
}

// apply computes an elementwise op. The result is undefined if an argument is, except for the unselected branch of a
// where.
func (r *run) apply(e *kernel.Expr) (number, error) {
	known := &r.exprs[e.ID]
	args := known.args
	for i, a := range e.Args {
		v, err := r.value(a)
		if err != nil {
			return number{}, err
		}
		args[i] = v
	}
	undef := slices.ContainsFunc(args, func(v number) bool { return v.undef })
	if e.Op == ir.OpWhere && !args[0].undef {
		undef = args[1].undef
		if args[0].i == 0 {
			undef = args[2].undef
		}
	}
	v, err := known.reference(e)
	v.undef = undef
	return v, err
}

// reference applies the op's scalar reference: the float version if an argument is a float, else the integer version.
func (k *expr) reference(e *kernel.Expr) (number, error) {
	args, floats := k.args, k.floats
	if e.Op == ir.OpCast {
		return cast(args[0], e.Args[0].DType, e.DType), nil
	}
	if e.Op == ir.OpBitcast {
		f, i := ir.Bitcast(args[0].f, args[0].i, e.Args[0].DType, e.DType)
		return number{f: f, i: i}, nil
	}
	info := e.Op.Info()
	if floats && info.Float != nil {
		for i, a := range e.Args {
			k.float[i] = args[i].float(a.DType)
		}
		return fromFloat(info.Float(k.float, e.Attrs), e.DType), nil
	}
	if info.Custom != nil && (floats || info.Int == nil) {
		return number{}, fmt.Errorf("custom op %s: %w", info.Name, ir.ErrNoReference)
	}
	if floats || info.Int == nil || e.DType.IsFloat() {
		return number{}, fmt.Errorf("%s : %s has no reference for these arguments", e.Op, e.DType)
	}
	for i := range args {
		k.int[i] = args[i].i
	}
	return number{i: ir.Wrap(info.Int(k.int, e.Attrs), e.DType)}, nil
}

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
	default:
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
		return sign*v.f > sign*f.best.f || v.f != v.f && f.best.f == f.best.f
	}
	if sign < 0 {
		return v.i < f.best.i
	}
	return v.i > f.best.i
}

func (f *folder) result() number {
	return number{f: ir.RoundTo(f.acc.f, f.t), i: ir.Wrap(f.acc.i, f.t), undef: f.undef}
}
