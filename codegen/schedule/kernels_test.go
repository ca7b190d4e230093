package schedule

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

func dims(n ...int) []ir.Dim { return ir.ShapeOf(n...) }

// flat is the row-major position of a point of the axes first, first+1, ….
func flat(first int, shape []ir.Dim) kernel.Index {
	x := kernel.Const(0)
	for i, d := range shape {
		x = x.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(first+i, d))
	}
	return x
}

func binding(name string, t ir.DType, shape ...ir.Dim) kernel.Binding {
	return kernel.Binding{Name: name, DType: t, Elems: ir.Shape(shape).MaxElems()}
}

// unaryMap is y = exp(x) over a shape, of one dtype.
func unaryMap(t ir.DType, shape ...ir.Dim) *kernel.Kernel {
	b := kernel.NewBuilder()
	at := flat(0, shape)
	v := b.Apply(ir.OpExp, t, nil, b.Load(0, t, at, "x"))
	return kernel.Canonical(&kernel.Kernel{Name: "exp", Family: kernel.FamilyMap, Parallel: shape,
		Bindings: []kernel.Binding{binding("x", t, shape...), binding("y", t, shape...)},
		Stores:   []kernel.Store{{Bind: 1, Index: at, Value: v}}})
}

// transposeMap is y[i,j] = x[j,i].
func transposeMap(t ir.DType, inner, other ir.Dim) *kernel.Kernel {
	b := kernel.NewBuilder()
	i, j := kernel.Axis(0, other), kernel.Axis(1, inner)
	x := b.Load(0, t, j.Mul(kernel.DimIndex(other)).Plus(i), "x")
	return &kernel.Kernel{Name: "transpose", Family: kernel.FamilyMap, Parallel: []ir.Dim{other, inner},
		Bindings: []kernel.Binding{binding("x", t, inner, other), binding("y", t, other, inner)},
		Stores:   []kernel.Store{{Bind: 1, Index: i.Mul(kernel.DimIndex(inner)).Plus(j), Value: x}}}
}

// rowSum is y[i] = sum over j of x[i,j]; softmax adds a second pass over the row.
func rowSum(t ir.DType, rows, cols ir.Dim, softmax bool) *kernel.Kernel {
	b := kernel.NewBuilder()
	at := flat(0, []ir.Dim{rows, cols})
	x := b.Cast(ir.F32, b.Load(0, t, at, "x"))
	k := &kernel.Kernel{Name: "sum", Family: kernel.FamilyRow, Parallel: []ir.Dim{rows}, Fold: cols,
		Bindings: []kernel.Binding{binding("x", t, rows, cols), binding("y", t, rows, cols)},
		Phases:   []kernel.Phase{{Combine: kernel.CombineSum, Value: x, Name: "row_sum"}}}
	sum := b.Acc(0, ir.F32, "row_sum")
	if softmax {
		k.Stores = []kernel.Store{{Bind: 1, Index: at, Value: b.Apply(ir.OpDiv, ir.F32, nil, x, sum), PerElement: true}}
	} else {
		k.Stores = []kernel.Store{{Bind: 1, Index: flat(0, []ir.Dim{rows}), Value: sum}}
	}
	return k
}

// columnSum is y[j] = sum over i of x[i,j]: rows lie side by side.
func columnSum(rows, cols ir.Dim) *kernel.Kernel {
	b := kernel.NewBuilder()
	j := kernel.Axis(0, cols)
	x := b.Load(0, ir.F32, kernel.Axis(1, rows).Mul(kernel.DimIndex(cols)).Plus(j), "x")
	return &kernel.Kernel{Name: "colsum", Family: kernel.FamilyRow, Parallel: []ir.Dim{cols}, Fold: rows,
		Bindings: []kernel.Binding{binding("x", ir.F32, rows, cols), binding("y", ir.F32, cols)},
		Phases:   []kernel.Phase{{Combine: kernel.CombineSum, Value: x}},
		Stores:   []kernel.Store{{Bind: 1, Index: j, Value: b.Acc(0, ir.F32, "acc")}}}
}

// depthwise is a convolution of each channel of [channels, rows, columns] by taps x taps weights of its own, padded.
func depthwise(channels, rows, columns, taps int) *kernel.Kernel {
	b := kernel.NewBuilder()
	shape, fold := dims(channels, rows, columns), ir.D(taps*taps)
	c, y, x := kernel.Axis(0, shape[0]), kernel.Axis(1, shape[1]), kernel.Axis(2, shape[2])
	down, along := kernel.Axis(3, fold).DivMod(ir.D(taps))
	pad := kernel.Const(int64(taps / 2))
	at := func(i kernel.Index, extent int) (within *kernel.Expr, limited kernel.Index) {
		low := b.Apply(ir.OpGe, ir.Bool, nil, b.FromIndex(i), b.Integer(ir.I32, 0))
		high := b.Apply(ir.OpLt, ir.Bool, nil, b.FromIndex(i), b.Integer(ir.I32, int64(extent)))
		return b.Apply(ir.OpAnd, ir.Bool, nil, low, high), kernel.Clamp(i, kernel.Const(int64(extent-1)))
	}
	isRow, row := at(y.Plus(down).Minus(pad), rows)
	isColumn, column := at(x.Plus(along).Minus(pad), columns)
	load := b.Load(0, ir.F32, c.Times(int64(rows*columns)).Plus(row.Times(int64(columns))).Plus(column), "x")
	inside := b.Apply(ir.OpAnd, ir.Bool, nil, isRow, isColumn)
	value := b.Apply(ir.OpWhere, ir.F32, nil, inside, load, b.Float(ir.F32, 0))
	weight := b.Load(1, ir.F32, c.Times(fold.Add).Plus(kernel.Axis(3, fold)), "w")
	return &kernel.Kernel{Name: "depthwise", Family: kernel.FamilyRow, Parallel: shape, Fold: fold,
		Bindings: []kernel.Binding{binding("x", ir.F32, shape...), binding("w", ir.F32, shape[0], fold),
			binding("y", ir.F32, shape...)},
		Phases: []kernel.Phase{{Combine: kernel.CombineSum, Name: "window_sum",
			Value: b.Apply(ir.OpMul, ir.F32, nil, value, weight)}},
		Stores: []kernel.Store{{Bind: 2, Index: flat(0, shape), Value: b.Acc(0, ir.F32, "window_sum")}}}
}

// matMul is y[b,m,n] = sum over k of x[b,m,k]*w[k,n], with w stored as [n,k]
// where transposed is set.
func matMul(batch, m, n, k ir.Dim, w ir.DType, transposed bool) *kernel.Kernel {
	b := kernel.NewBuilder()
	bi, mi, ni, ki := kernel.Axis(0, batch), kernel.Axis(1, m), kernel.Axis(2, n), kernel.Axis(3, k)
	at := func(r kernel.Index, rows ir.Dim, c kernel.Index, cols ir.Dim) kernel.Index {
		return r.Mul(kernel.DimIndex(cols)).Plus(c)
	}
	x := b.Load(0, ir.F32, at(at(bi, batch, mi, m), m, ki, k), "x")
	wat := at(ki, k, ni, n)
	if transposed {
		wat = at(ni, n, ki, k)
	}
	return &kernel.Kernel{Name: "matmul", Family: kernel.FamilyMatMul, Parallel: []ir.Dim{batch, m, n}, Fold: k,
		Bindings: []kernel.Binding{binding("x", ir.F32, batch, m, k), binding("w", w, n, k), binding("y", ir.F32, batch, m, n)},
		MatMuls:  []kernel.MatMul{{A: x, B: b.Cast(ir.F32, b.Load(1, w, wat, "w")), Name: "acc"}},
		Stores:   []kernel.Store{{Bind: 2, Index: at(at(bi, batch, mi, m), m, ni, n), Value: b.Acc(0, ir.F32, "acc")}}}
}

// runningSum is y[i,j] = x[i,0] + … + x[i,j], or the same down the columns of
// x[j,i].
func runningSum(t ir.DType, rows, cols ir.Dim, down bool) *kernel.Kernel {
	b := kernel.NewBuilder()
	at := flat(0, []ir.Dim{rows, cols})
	if down {
		at = kernel.Axis(1, cols).Mul(kernel.DimIndex(rows)).Plus(kernel.Axis(0, rows))
	}
	return &kernel.Kernel{Name: "cumsum", Family: kernel.FamilyScan, Parallel: []ir.Dim{rows}, Fold: cols,
		Bindings: []kernel.Binding{binding("x", t, rows, cols), binding("y", t, rows, cols)},
		Phases:   []kernel.Phase{{Combine: kernel.CombineSum, Value: b.Cast(ir.F32, b.Load(0, t, at, "x")), Name: "running_sum"}},
		Stores:   []kernel.Store{{Bind: 1, Index: at, Value: b.Acc(0, ir.F32, "running_sum"), PerElement: true}}}
}

// groups groups n elements by numbers, rows to a group.
func groups(n ir.Dim, numbers, rows int) *kernel.Kernel {
	b := kernel.NewBuilder()
	of := kernel.ValueIndex(b.Load(0, ir.I32, kernel.Axis(1, n), "ids"), kernel.Const(int64(numbers-1)))
	table := []ir.Dim{ir.D(int(n.Max())), ir.D(1 + rows)} // as if each element had a group
	return &kernel.Kernel{Name: "groups", Family: kernel.FamilyGroup, Parallel: []ir.Dim{ir.D(numbers)}, Fold: n,
		Bindings: []kernel.Binding{binding("ids", ir.I32, n), binding("out", ir.I32, table...)},
		Group:    &kernel.Group{Of: of, Rows: int64(rows), Groups: n.Max(), Bind: 1}}
}

// quantizes makes rows of blocks.
func quantizes(rows, blocks ir.Dim, t ir.DType) *kernel.Kernel {
	b, per := kernel.NewBuilder(), t.BlockElems()
	x := kernel.Axis(0, rows).Mul(kernel.DimIndex(blocks)).Plus(kernel.Axis(1, blocks))
	return &kernel.Kernel{Name: "quantizes", Family: kernel.FamilyQuantize,
		Parallel: []ir.Dim{rows, blocks}, Fold: ir.D(per),
		Bindings: []kernel.Binding{binding("x", ir.F32, rows, blocks, ir.D(per)),
			binding("out", t, rows, blocks, ir.D(per))},
		Stores: []kernel.Store{{Bind: 1, Index: x, PerElement: true,
			Value: b.Load(0, ir.F32, x.Times(int64(per)).Plus(kernel.Axis(2, ir.D(per))), "x")}}}
}

// argsort is y[i,p] = the coordinate of the element at place p of row i, for the
// first take places.
func argsort(t ir.DType, rows, cols, take ir.Dim) *kernel.Kernel {
	b := kernel.NewBuilder()
	return &kernel.Kernel{Name: "argsort", Family: kernel.FamilySort, Parallel: []ir.Dim{rows}, Fold: cols, Take: take,
		Bindings: []kernel.Binding{binding("x", t, rows, cols), binding("y", ir.I32, rows, take)},
		Phases:   []kernel.Phase{{Combine: kernel.CombineOrder, Value: b.Load(0, t, flat(0, []ir.Dim{rows, cols}), "x"), Name: "order"}},
		Stores:   []kernel.Store{{Bind: 1, Index: flat(0, []ir.Dim{rows, take}), Value: b.Acc(0, ir.I32, "order"), PerElement: true}}}
}

// recurrence is a delta rule of f32 in which each head has its own vectors.
func recurrence(texts, heads ir.Dim, rows, keys int, times ir.Dim, corrected bool) *kernel.Kernel {
	b := kernel.NewBuilder()
	lead := []ir.Dim{texts, heads, ir.D(rows)}
	text, head, row := kernel.Axis(0, texts), kernel.Axis(1, heads), kernel.Axis(2, ir.D(rows))
	time, key := kernel.Axis(3, times), kernel.Axis(4, ir.D(keys))
	steps := text.Mul(kernel.DimIndex(times)).Plus(time).Mul(kernel.DimIndex(heads)).Plus(head)
	k := &kernel.Kernel{Name: "delta_rule", Family: kernel.FamilyRecurrence, Parallel: lead, Fold: times,
		Recurrence: &kernel.Recurrence{Keys: ir.D(keys)}}
	bind := func(shape ...ir.Dim) int {
		k.Bindings = append(k.Bindings, binding("x", ir.F32, shape...))
		return len(k.Bindings) - 1
	}
	vector := func() *kernel.Expr {
		return b.Load(bind(texts, times, heads, ir.D(keys)), ir.F32, steps.Times(int64(keys)).Plus(key), "x")
	}
	state := flat(0, lead).Times(int64(keys)).Plus(key)
	r := k.Recurrence
	r.State, r.Decay = b.Load(bind(append(lead, ir.D(keys))...), ir.F32, state, "x"), b.Load(bind(texts, times, heads),
		ir.F32, steps, "x")
	r.Q, r.K = vector(), vector()
	if corrected {
		r.A, r.B = r.K, r.Q
	}
	y := steps.Times(int64(rows)).Plus(row)
	r.V = b.Load(bind(texts, times, heads, ir.D(rows)), ir.F32, y, "x")
	k.Stores = []kernel.Store{
		{Bind: bind(texts, times, heads, ir.D(rows)), Index: y, Value: b.Acc(0, ir.F32, "y"), PerElement: true},
		{Bind: bind(append(lead, ir.D(keys))...), Index: state, Value: b.Acc(1, ir.F32, "last")}}
	return k
}
