package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// FuseNorms removes a kernel that scales rows for matmuls, as an rms norm does: it multiplies element k of each row x
// by a weight w_k, and each row by a factor s, which needs a sum along the row. s can be applied after the matmul with
// B:
//
//	sum_k(x_k * w_k * s * B_kn) = s * sum_k(x_k * w_k * B_kn)
//
// The matmuls read the norm's inputs, accumulate its sums along the rows in their own loop, and multiply by s in the
// epilogue. So they need not wait for a kernel that reads the rows first.
func FuseNorms(o *Optimizer, id plan.KernelID) []Proposal {
	n, ok := o.normOf(id)
	if !ok {
		return nil
	}
	p := propose("multiply before the norm", id)
	for _, reader := range o.Plan.Readers(n.buffer) {
		with, ok := n.fusedWith(o.Plan.Kernel(reader))
		if !ok || !o.Plan.CanMove(id, reader, n.buffer) {
			return nil
		}
		p.replace(reader, with)
	}
	if len(p.Changes) == 1 {
		return nil // no kernel reads it
	}
	return []Proposal{p}
}

// norm is a kernel that scales rows, and may be fused into the matmuls that read its rows.
type norm struct {
	k      *kernel.Kernel
	store  kernel.Store // its only store
	buffer plan.ValueID // destination of the store
}

// normOf matches a kernel that computes f32 rows from sums along its input rows. It must have a single store, to a
// value that only kernels read.
func (o *Optimizer) normOf(id plan.KernelID) (norm, bool) {
	k := o.Plan.Kernel(id)
	if k.Family != kernel.FamilyRow || len(k.Stores) != 1 || !k.Stores[0].PerElement || k.Limit != nil {
		return norm{}, false
	}
	n := norm{k: k, store: k.Stores[0], buffer: k.Bindings[k.Stores[0].Bind].Buffer}
	isF32 := n.store.Value.DType == ir.F32 && k.Bindings[n.store.Bind].DType == ir.F32
	runsOnce := k.CanPrepare(func(int) bool { return false }) // its time does not matter then
	if !isF32 || runsOnce || o.Plan.Outlives(n.buffer) {
		return norm{}, false
	}
	for _, p := range k.Phases {
		if p.Combine != kernel.CombineSum || p.Value.DType != ir.F32 || p.Value.UsesAnyAcc() {
			return norm{}, false
		}
	}
	_, ok := o.Plan.Source(n.buffer, plan.SeveralValues)
	return n, ok
}

// fusedWith returns kernel k fused with the norm. ok is false unless k is a matmul with as many rows as the norm, and
// uses the norm's result only as rows of operand A.
func (n norm) fusedWith(k *kernel.Kernel) (*kernel.Kernel, bool) {
	at, ok := n.axesIn(k)
	if !ok || k.Family != kernel.FamilyMatMul || k.Guard != nil || len(k.Phases) > 0 {
		return nil, false
	}
	f := normFuser{n: n, ok: true}
	// Map calls MatMuls first. It sets f.norm, which Phases and Stores use.
	out := kernel.Map(k, kernel.Edit{
		Name: n.k.Name + "_" + k.Name, Ops: slices.Concat(n.k.Ops, k.Ops),
		MatMuls: func(m *kernel.Mapping) []kernel.MatMul { return f.matmuls(m, at) },
		Phases: func(*kernel.Mapping) (phases []kernel.Phase) {
			for _, p := range n.k.Phases {
				phases = append(phases, f.norm.Phase(p))
			}
			return phases
		},
		Stores: f.stores,
	})
	// A kernel that still reads the norm's result uses it as something other than rows of A.
	return out, f.ok && !out.ReadsBuffer(n.buffer) && out.CheckRowSums() == nil
}

// axesIn maps the norm's axes to coordinates of a matmul with as many rows. The norm's axes longer than 1 correspond,
// in order, to the matmul's axes other than columns. ok is false if they do not.
func (n norm) axesIn(k *kernel.Kernel) (func(axis int, extent ir.Dim) kernel.Index, bool) {
	if len(k.Parallel) < 2 || k.Fold != n.k.Fold {
		return nil, false
	}
	at := map[int]kernel.Index{n.k.FoldAxis(): kernel.Axis(k.FoldAxis(), k.Fold)}
	next := 0
	for axis, d := range n.k.Parallel {
		if d.Is(1) {
			at[axis] = kernel.Const(0)
			continue
		}
		for next < len(k.Parallel)-1 && k.Parallel[next].Is(1) {
			next++
		}
		if next == len(k.Parallel)-1 || k.Parallel[next] != d { // only the columns are left, or the extents differ
			return nil, false
		}
		at[axis] = kernel.Axis(next, d)
		next++
	}
	return func(axis int, _ ir.Dim) kernel.Index { return at[axis] }, true
}

// normFuser fuses one norm with one matmul.
type normFuser struct {
	n       norm
	norm    *kernel.Mapping // rewrites the norm's expressions for the fused kernel
	factors []*kernel.Expr  // by matmul of the kernel: the factor of each row, or nil for 1
	ok      bool
}

// matmuls returns the matmuls of rows that the norm has not multiplied by the row factors, and records the factors in
// f.factors. The matmuls read f32 rows, because rows without the factor may have any magnitude.
func (f *normFuser) matmuls(m *kernel.Mapping,
	axes func(axis int, extent ir.Dim) kernel.Index) (matmuls []kernel.MatMul) {
	k := m.From
	f.norm = m.Part(f.n.k, axes)
	f.norm.Rebind = f.n.renamed(k)
	f.norm.Acc = func(e *kernel.Expr) *kernel.Expr {
		return m.Builder.Acc(len(k.MatMuls)+e.Acc, e.DType, e.Hint)
	}
	for _, p := range k.MatMuls {
		at := f.norm.Index(f.n.store.Index)
		m.Load = func(e *kernel.Expr) *kernel.Expr { // replaces loads of the norm's result by its expression
			if k.Bindings[e.Bind].Buffer != f.n.buffer || !m.Index(e.Index).Equal(at) {
				return nil
			}
			return f.norm.Value(f.n.store.Value)
		}
		a, factor, ok := rowFactor(m.Builder, m.Value(p.A), k.FoldAxis())
		m.Load = nil
		p.A, p.B = a, m.Value(p.B)
		if !ok || a == nil || p.Sums() != ir.F32 || p.B.UsesAnyAcc() {
			f.ok = false // fusedWith then drops the kernel
			return nil
		}
		p.Operands, p.HalfSums, p.BF16x3 = ir.F32, false, false
		matmuls, f.factors = append(matmuls, p), append(f.factors, factor)
	}
	return matmuls
}

// stores returns the matmul's stores, which multiply the sums by the row factors.
func (f *normFuser) stores(m *kernel.Mapping) []kernel.Store {
	if !f.ok {
		return nil
	}
	m.Acc = func(e *kernel.Expr) *kernel.Expr {
		sum := m.Builder.Acc(e.Acc, e.DType, e.Hint)
		if factor := f.factors[e.Acc]; factor != nil {
			return m.Builder.Apply(ir.OpMul, ir.F32, nil, sum, factor)
		}
		return sum
	}
	return m.Stores()
}

// renamed returns a function that gives the norm's bindings names that matmul k does not use. A buffer that both
// kernels read keeps the matmul's name.
func (n norm) renamed(k *kernel.Kernel) func(bind int, b kernel.Binding) kernel.Binding {
	taken, same := map[string]bool{}, map[int]string{}
	for _, b := range k.Bindings {
		taken[b.Name], same[b.Buffer] = true, b.Name
	}
	return func(_ int, b kernel.Binding) kernel.Binding {
		if name, ok := same[b.Buffer]; ok {
			b.Name = name
			return b
		}
		for taken[b.Name] {
			b.Name = "norm_" + b.Name
		}
		taken[b.Name] = true
		return b
	}
}

// rowFactor splits value v into two factors: `along` varies along the axis but uses no sum of the row, and `row` uses
// such sums but is constant along the axis. nil stands for 1. ok is false if v has no such factors.
func rowFactor(b *kernel.Builder, v *kernel.Expr, axis int) (along, row *kernel.Expr, ok bool) {
	switch {
	// Only ops and sums may use sums of the row.
	case v.DType != ir.F32 || v.UsesAnyAcc() && v.Kind != kernel.ExprApply && v.Kind != kernel.ExprAcc:
		return nil, nil, false
	case !v.UsesAnyAcc():
		return v, nil, true
	case !v.Uses(axis):
		return nil, v, true
	case v.Op == ir.OpMul:
		along1, row1, ok1 := rowFactor(b, v.Args[0], axis)
		along2, row2, ok2 := rowFactor(b, v.Args[1], axis)
		return product(b, along1, along2), product(b, row1, row2), ok1 && ok2
	case v.Op == ir.OpDiv && !v.Args[1].Uses(axis):
		along, row, ok = rowFactor(b, v.Args[0], axis)
		one := b.Float(ir.F32, 1)
		return along, product(b, row, b.Apply(ir.OpDiv, ir.F32, nil, one, v.Args[1])), ok
	}
	return nil, nil, false
}

// product returns x*y, where nil stands for 1.
func product(b *kernel.Builder, x, y *kernel.Expr) *kernel.Expr {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return b.Apply(ir.OpMul, ir.F32, nil, x, y)
}
