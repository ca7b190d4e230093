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
	f, ok := scaledRowOf(o.Plan.Kernel(id))
	if !ok {
		return nil
	}
	source, ok := o.Plan.Source(f.id.row, plan.SeveralValues)
	if !ok {
		return nil
	}
	// Matmuls that read the same row times the same weight share the stored product.
	value, known := o.scaledRows[f.id]
	if !known {
		value = o.Plan.Scratch(f.rowType())
		o.scaledRows[f.id] = value
	}
	p := propose("read the row times its weight", id, f.reading(value))
	if len(o.Plan.Writers(value)) == 0 { // no accepted proposal stores it yet
		with, ok := f.storing(o.Plan.Kernel(source), value)
		if !ok {
			return nil
		}
		p.replace(source, with)
	}
	return []Proposal{p}
}

// scaledRow is operand A of all matmuls of kernel k: a row times a weight vector.
type scaledRow struct {
	k           *kernel.Kernel
	row, weight *kernel.Expr // loads
	id          scaledRowID  // identifies the stored row times weight
}

// scaledRowID identifies a row times a weight vector: the buffers of both, and the index of the weight's first element
// in its buffer. Matmuls with equal IDs share one stored row.
type scaledRowID struct {
	row, weight int
	from        int64
}

// scaledRowOf matches a matmul with a fused norm (see FuseNorms) if its operand A is a row times a weight vector that
// is the same for all rows and batches.
func scaledRowOf(k *kernel.Kernel) (scaledRow, bool) {
	if !k.RowSums() {
		return scaledRow{}, false
	}
	a := k.MatMuls[0].A
	if a.Kind != kernel.ExprApply || a.Op != ir.OpMul ||
		slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return p.A != a }) {
		return scaledRow{}, false
	}
	for i, x := range a.Args {
		w := a.Args[1-i]
		if x.Kind != kernel.ExprLoad || w.Kind != kernel.ExprLoad {
			continue
		}
		row, weight := k.Bindings[x.Bind], k.Bindings[w.Bind]
		along := kernel.Axis(k.FoldAxis(), k.Fold)
		isRow := row.DType == ir.F32 && !row.Fixed && x.Index.Equal(along) && k.Fold.IsStatic() &&
			k.Fold.Add == row.Elems
		from := w.Index.Minus(along) // constant if the weight is a vector along the contraction axis
		isWeight := weight.DType == ir.F32 && weight.Fixed && from.IsConst()
		if isRow && isWeight {
			return scaledRow{k: k, row: x, weight: w, id: scaledRowID{row.Buffer, weight.Buffer, from.Offset()}}, true
		}
	}
	return scaledRow{}, false
}

// rowType returns the type of the stored row: f32, with the length of the contraction axis.
func (f scaledRow) rowType() ir.Type { return ir.Type{DType: ir.F32, Shape: ir.Shape{f.k.Fold}} }

// binding returns a binding of the buffer with the row times the weight.
func (f scaledRow) binding(buffer int) kernel.Binding {
	return kernel.Binding{Name: f.k.Bindings[f.row.Bind].Name + "_weighed", DType: ir.F32, Buffer: buffer,
		Elems: f.k.Fold.Add}
}

// reading returns the matmul that reads the stored row times weight from a buffer.
func (f scaledRow) reading(buffer int) *kernel.Kernel {
	return kernel.Map(f.k, kernel.Edit{MatMuls: func(m *kernel.Mapping) (matmuls []kernel.MatMul) {
		bind := f.binding(buffer)
		bind.Read = true
		a := m.Builder.Load(m.Bind(bind), ir.F32, kernel.Axis(f.k.FoldAxis(), f.k.Fold), bind.Name)
		for _, p := range f.k.MatMuls {
			p.A, p.B = a, m.Value(p.B)
			matmuls = append(matmuls, p)
		}
		return matmuls
	}})
}

// storing returns kernel k, which stores the row, with a second store of the row times the weight to a buffer. ok is
// false unless k has exactly one store of the row.
func (f scaledRow) storing(k *kernel.Kernel, buffer int) (*kernel.Kernel, bool) {
	stores := 0
	for _, st := range k.Stores {
		if k.Bindings[st.Bind].Buffer == f.id.row {
			stores++
		}
	}
	if stores != 1 {
		return nil, false
	}
	return kernel.Map(k, kernel.Edit{Stores: func(m *kernel.Mapping) []kernel.Store {
		list := m.Stores()
		at := slices.IndexFunc(list, func(st kernel.Store) bool { return m.To.Bindings[st.Bind].Buffer == f.id.row })
		st := list[at]
		// The matmul loads the weight at the row's contraction coordinate, and k at the position where it stores.
		weight := m.Part(f.k, func(int, ir.Dim) kernel.Index { return st.Index }).Value(f.weight)
		st.Value = m.Builder.Apply(ir.OpMul, ir.F32, nil, st.Value, weight)
		bind := f.binding(buffer)
		bind.Write = true
		st.Bind = m.Bind(bind)
		return append(list, st)
	}}), true
}
