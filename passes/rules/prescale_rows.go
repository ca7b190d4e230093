package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// PrescaleRows removes a multiplication from a matmul that reads a row and multiplies it by a weight vector, such as a
// norm's weight. The kernel that computes the row also stores it multiplied by the weight, for all matmuls that need
// this. Every workgroup of these matmuls then reads one row instead of two.
func PrescaleRows(o *Optimizer, id plan.KernelID) []Proposal {
	f, ok := factorOf(o.Plan.Kernel(id))
	if !ok {
		return nil
	}
	source, ok := o.Plan.Source(f.of.row, true)
	if !ok {
		return nil
	}
	value, known := o.weighed[f.of]
	if !known {
		value = o.Plan.Scratch(f.rowType())
		o.weighed[f.of] = value
	}
	p := propose("read the row times its weight", id, f.reading(value))
	if len(o.Plan.Writers(value)) == 0 {
		with, ok := f.storing(o.Plan.Kernel(source), value)
		if !ok {
			return nil
		}
		p.also(source, with)
	}
	return []Proposal{p}
}

// weighedRow is operand A of all products of kernel k, if that is a row times a weight vector.
type weighedRow struct {
	k           *kernel.Kernel
	row, weight *kernel.Expr // loads
	of          weighing     // identifies the stored product
}

// weighing identifies a row times a weight vector: the buffers of both, and the weight's first element in its buffer.
type weighing struct {
	row, weight int
	from        int64
}

// factorOf matches a matmul with fused norm (see FuseNorms) in which operand A is a row times a weight vector that is
// the same for all rows and batches.
func factorOf(k *kernel.Kernel) (weighedRow, bool) {
	if !k.RowSums() {
		return weighedRow{}, false
	}
	a := k.Products[0].A
	if a.Kind != kernel.ExprApply || a.Op != ir.OpMul ||
		slices.ContainsFunc(k.Products, func(p kernel.Product) bool { return p.A != a }) {
		return weighedRow{}, false
	}
	for i, x := range a.Args {
		w := a.Args[1-i]
		if x.Kind != kernel.ExprLoad || w.Kind != kernel.ExprLoad {
			continue
		}
		row, weight := k.Bindings[x.Bind], k.Bindings[w.Bind]
		along := kernel.Axis(k.FoldAxis(), k.Fold)
		whole, from := x.Index.Equal(along) && k.Fold.IsStatic() && k.Fold.Add == row.Elems, w.Index.Minus(along)
		if row.DType == ir.F32 && weight.DType == ir.F32 && !row.Fixed && weight.Fixed && whole && from.IsConst() {
			return weighedRow{k: k, row: x, weight: w, of: weighing{row.Buffer, weight.Buffer, from.Offset()}}, true
		}
	}
	return weighedRow{}, false
}

// rowType returns the type of the row.
func (f weighedRow) rowType() ir.Type { return ir.Type{DType: ir.F32, Shape: ir.Shape{f.k.Fold}} }

// binding returns a binding of the stored row times weight.
func (f weighedRow) binding(buffer int) kernel.Binding {
	return kernel.Binding{Name: f.k.Bindings[f.row.Bind].Name + "_weighed", DType: ir.F32, Buffer: buffer,
		Elems: f.k.Fold.Add}
}

// reading returns the matmul that reads the stored row times weight from a buffer.
func (f weighedRow) reading(buffer int) *kernel.Kernel {
	return kernel.Map(f.k, kernel.Edit{Products: func(m *kernel.Mapping) (products []kernel.Product) {
		bind := f.binding(buffer)
		bind.Read = true
		a := m.Builder.Load(m.Bind(bind), ir.F32, kernel.Axis(f.k.FoldAxis(), f.k.Fold), bind.Name)
		for _, p := range f.k.Products {
			p.A, p.B = a, m.Value(p.B)
			products = append(products, p)
		}
		return products
	}})
}

// storing returns kernel k, which stores the row, with a second store of the row times the weight to a buffer. ok is
// false unless k has exactly one store of the row.
func (f weighedRow) storing(k *kernel.Kernel, buffer int) (*kernel.Kernel, bool) {
	stores := 0
	for _, st := range k.Stores {
		if k.Bindings[st.Bind].Buffer == f.of.row {
			stores++
		}
	}
	if stores != 1 {
		return nil, false
	}
	return kernel.Map(k, kernel.Edit{Stores: func(m *kernel.Mapping) []kernel.Store {
		list := m.Stores()
		at := slices.IndexFunc(list, func(st kernel.Store) bool { return m.To.Bindings[st.Bind].Buffer == f.of.row })
		st := list[at]
		weight := m.Part(f.k, func(int, ir.Dim) kernel.Index { return st.Index }).Value(f.weight)
		st.Value = m.Builder.Apply(ir.OpMul, ir.F32, nil, st.Value, weight)
		bind := f.binding(buffer)
		bind.Write = true
		st.Bind = m.Bind(bind)
		return append(list, st)
	}}), true
}
