package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// storeOperands gives operands of products that are computed, or lie badly in
// memory, a kernel of their own, which stores them rounded as the product takes
// them: every tile of the result would do so again.
func storeOperands(s *State) error {
	if s.store == nil {
		return nil
	}
	var list leveled
	for i, k := range s.Kernels {
		level := 2 * s.levels[i] // room for one before
		if k.Family == kernel.FamilyMatMul && k.Guard == nil {
			var stores []*kernel.Kernel
			stores, k = s.storeOperandsOf(k, s.store(k))
			for _, store := range stores {
				list.add(store, level)
			}
		}
		list.add(k, level+1)
	}
	s.Kernels, s.levels = list.sorted()
	return nil
}

// leveled collects kernels with their levels.
type leveled struct {
	kernels []*kernel.Kernel
	levels  []int
}

func (l *leveled) add(k *kernel.Kernel, level int) {
	l.kernels, l.levels = append(l.kernels, k), append(l.levels, level)
}

// sorted returns the kernels in the order of their levels.
func (l *leveled) sorted() (kernels []*kernel.Kernel, levels []int) {
	order := make([]int, len(l.kernels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return l.levels[a] - l.levels[b] })
	for _, i := range order {
		kernels, levels = append(kernels, l.kernels[i]), append(levels, l.levels[i])
	}
	return kernels, levels
}

// storeOperandsOf splits the computation of operands off a product.
func (s *State) storeOperandsOf(k *kernel.Kernel, list []kernel.StoredOperand) (stores []*kernel.Kernel, rest *kernel.Kernel) {
	if len(list) == 0 || multipliesItself(k, list) {
		return nil, k
	}
	all := make([]*operandStore, len(list))
	for i, o := range list {
		st := &operandStore{k: k, StoredOperand: o, fold: k.FoldAxis()}
		for _, p := range k.Products {
			if p.A == o.Operand || p.B == o.Operand {
				st.isB, st.dtype = p.B == o.Operand, p.Operands
			}
		}
		st.place()
		st.buffer = s.addPartial(ir.Type{DType: st.dtype, Shape: st.shape})
		all[i] = st
		stores = append(stores, st.storing())
	}
	return stores, usingStored(k, all)
}

// multipliesItself reports whether a stored operand stands on both sides. It
// varies along neither axis then, as a number repeated does, but stored rows
// would be those of one side.
func multipliesItself(k *kernel.Kernel, list []kernel.StoredOperand) bool {
	isA, isB := map[*kernel.Expr]bool{}, map[*kernel.Expr]bool{}
	for _, p := range k.Products {
		isA[p.A], isB[p.B] = true, true
	}
	return slices.ContainsFunc(list, func(o kernel.StoredOperand) bool { return isA[o.Operand] && isB[o.Operand] })
}

// operandStore is an operand on its way to a buffer of its own.
type operandStore struct {
	kernel.StoredOperand
	k      *kernel.Kernel
	fold   int
	isB    bool
	dtype  ir.DType
	axes   []int    // of the product that the operand has, the contraction last
	shape  ir.Shape // along those, padded
	depth  ir.Dim   // of the padded contraction
	buffer int
}

// place finds the axes and the shape of the stored operand.
func (o *operandStore) place() {
	r := len(o.k.Parallel)
	row := r - 2
	if o.isB {
		row = r - 1
	}
	for axis, d := range o.k.Parallel[:r-2] {
		if o.Operand.Uses(axis) {
			o.axes, o.shape = append(o.axes, axis), append(o.shape, d)
		}
	}
	rows := o.k.Parallel[row]
	if o.Rows > 0 {
		rows = ir.D(o.Rows)
	}
	o.depth = o.k.Fold
	if o.Depth > 0 {
		o.depth = ir.D(o.Depth)
	}
	o.axes, o.shape = append(o.axes, row, o.fold), append(o.shape, rows, o.depth)
}

// storing is the kernel that stores the operand; padding of the contraction is
// 0, that of the rows repeats the last.
func (o *operandStore) storing() *kernel.Kernel {
	t := o.dtype
	out := &kernel.Kernel{Name: o.k.Name + "_operand", Family: kernel.FamilyMap, Parallel: slices.Clone(o.shape), Ops: []string{"cast"}}
	at := make([]kernel.Index, len(o.axes))
	for i, d := range o.shape {
		at[i] = kernel.Axis(i, d)
	}
	r := kernel.NewRewriter(func(axis int, extent ir.Dim) kernel.Index {
		i := slices.Index(o.axes, axis)
		if i < 0 {
			return kernel.Const(0) // the operand is the same along it
		}
		return kernel.Clamp(at[i], kernel.DimIndex(extent).Minus(kernel.Const(1)))
	})
	binds := rebinder{from: o.k, to: out, index: map[int]int{}}
	r.Bind = binds.read
	v := r.Builder.Cast(t, r.Value(o.Operand))
	if o.Depth > 0 {
		k := r.Builder.FromIndex(at[len(at)-1])
		within := r.Builder.Apply(ir.OpLt, ir.Bool, nil, k, r.Builder.FromIndex(kernel.DimIndex(o.k.Fold)))
		v = r.Builder.Apply(ir.OpWhere, t, nil, within, v, r.Builder.Number(t, 0))
	}
	out.Bindings = append(out.Bindings, kernel.Binding{Name: o.name(), DType: t, Write: true, Buffer: o.buffer, Elems: o.shape.MaxElems()})
	out.Stores = []kernel.Store{{Bind: len(out.Bindings) - 1, Index: linear(o.shape, at), Value: v}}
	binds.params()
	return out
}

func (o *operandStore) name() string {
	if o.isB {
		return "b_stored"
	}
	return "a_stored"
}

// usingStored is the product with stored operands. They stand for operands
// alone: where one is also part of another value, that one is computed as it
// was, neither rounded nor along an axis that it does not have.
func usingStored(k *kernel.Kernel, all []*operandStore) *kernel.Kernel {
	fold, depth := k.FoldAxis(), all[0].depth
	out := *k
	out.Bindings, out.Products, out.Stores = nil, nil, nil
	out.Fold = depth
	r := kernel.NewRewriter(func(axis int, extent ir.Dim) kernel.Index {
		if axis == fold {
			extent = depth
		}
		return kernel.Axis(axis, extent)
	})
	binds := rebinder{from: k, to: &out, index: map[int]int{}}
	r.Bind = binds.read
	stored := map[*kernel.Expr]*kernel.Expr{}
	for _, o := range all {
		out.Bindings = append(out.Bindings, kernel.Binding{Name: o.name(), DType: o.dtype, Read: true, Buffer: o.buffer, Elems: o.shape.MaxElems()})
		at := make([]kernel.Index, len(o.axes))
		for i, axis := range o.axes {
			if at[i] = kernel.Axis(axis, depth); axis != fold {
				at[i] = kernel.Axis(axis, k.Parallel[axis])
			}
		}
		stored[o.Operand] = r.Builder.Load(len(out.Bindings)-1, o.dtype, linear(o.shape, at), o.name())
	}
	operand := func(v *kernel.Expr) *kernel.Expr {
		if load, ok := stored[v]; ok {
			return load
		}
		return r.Value(v)
	}
	for _, p := range k.Products {
		p.A, p.B = operand(p.A), operand(p.B)
		out.Products = append(out.Products, p)
	}
	for _, s := range k.Stores {
		s.Index, s.Value, s.Bind = r.Index(s.Index), r.Value(s.Value), binds.write(s.Bind)
		out.Stores = append(out.Stores, s)
	}
	binds.params()
	return &out
}
