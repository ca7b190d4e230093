package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// FuseCopies removes a kernel that only copies another kernel's result, each element once, to another dtype or order.
// The other kernel then stores the copy itself. It also stores the original if any kernel reads that.
func FuseCopies(o *Optimizer, id plan.KernelID) []Proposal {
	c, ok := copyOf(o.Plan.Kernel(id))
	if !ok {
		return nil
	}
	keep := o.Plan.ReadByOthers(c.from, id)
	source, ok := o.Plan.Source(c.from, keep)
	if !ok || !o.Plan.CanMove(id, source, c.from) {
		return nil
	}
	p := propose("store the copy at once", source, c.storedBy(o.Plan.Kernel(source), keep))
	p.replace(id)
	return []Proposal{p}
}

// copying is a kernel that only copies value `from` to binding `to`.
type copying struct {
	from plan.ValueID
	to   kernel.Binding
	// place maps an element's index in `from` to its index in the copy. It is nil if the two are equal.
	place func(kernel.Index) kernel.Index
}

// copyOf matches a kernel that copies all elements of one value to another value. ok is false if k is no such kernel.
func copyOf(k *kernel.Kernel) (_ copying, ok bool) {
	tensors := 0
	for _, b := range k.Bindings {
		if !b.Params { // params only hold extents
			tensors++
		}
	}
	if k.Family != kernel.FamilyMap || k.Custom != nil || len(k.Stores) != 1 || tensors != 2 {
		return copying{}, false
	}
	k = dividedAxes(k)
	st := k.Stores[0]
	load, to := st.Value, k.Bindings[st.Bind]
	if load.Kind == kernel.ExprApply && load.Op == ir.OpCast {
		load = load.Args[0]
	}
	if load.Kind != kernel.ExprLoad || load.Bind == st.Bind {
		return copying{}, false
	}
	from := k.Bindings[load.Bind]
	if from.DType.IsBlock() || from.Elems > to.Elems || ir.Shape(k.Parallel).MaxElems() != from.Elems {
		return copying{}, false
	}
	c := copying{from: from.Buffer, to: to}
	whole := kernel.Linear(k.Parallel, kernel.Axes(k.Parallel))
	if load.Index.Equal(st.Index) && st.Index.Equal(whole) {
		return c, true // a copy without reordering
	}
	// at returns the coordinates of the kernel at which it loads a position. Each position is loaded and stored once.
	at, ok := coordinates(k.Parallel, load.Index)
	if _, once := coordinates(k.Parallel, st.Index); !ok || !once {
		return copying{}, false
	}
	c.place = func(x kernel.Index) kernel.Index {
		return st.Index.Substitute(func(axis int, _ ir.Dim) kernel.Index { return at(x, axis) }, nil)
	}
	return c, true
}

// dividedAxes returns k with each axis split in two if the indices of k divide its coordinate by a constant. For
// example, an axis of 512 columns that is divided by 64 becomes an axis of 8 heads and one of 64 columns per head.
// Every index is then linear in the coordinates, which [coordinates] needs.
func dividedAxes(k *kernel.Kernel) *kernel.Kernel {
	for axis := 0; axis < len(k.Parallel); axis++ {
		by := divisorOf(k, axis)
		outer, ok := k.Parallel[axis].Quo(by)
		if by < 2 || !ok || outer.Is(1) { // nothing divides the axis, or the split would be partial or trivial
			continue
		}
		inner := ir.D(int(by))
		k = kernel.Map(k, kernel.Edit{SameBindings: true,
			Parallel: slices.Replace(slices.Clone(k.Parallel), axis, axis+1, outer, inner),
			At: func(i int, extent ir.Dim) kernel.Index {
				switch {
				case i == axis:
					return kernel.Axis(i, outer).Times(by).Plus(kernel.Axis(i+1, inner))
				case i > axis: // the axes inside of the split one move by one
					i++
				}
				return kernel.Axis(i, extent)
			}})
	}
	return k
}

// divisorOf returns a constant by which some index of k divides the coordinate along an axis, or 1 if there is none.
func divisorOf(k *kernel.Kernel, axis int) int64 {
	by := int64(1)
	k.WalkIndices(func(x kernel.Index) {
		x.Walk(func(f *kernel.Factor) {
			divides := f.Kind == kernel.FactorDiv || f.Kind == kernel.FactorMod
			if divides && f.D.IsConst() && f.X.Equal(kernel.Axis(axis, k.Parallel[axis])) {
				by = f.D.Offset()
			}
		})
	})
	return by
}

// coordinates inverts a linear index: at(x, axis) returns the coordinate along axis of the point at which index has the
// value x. ok is false unless index enumerates the points of the shape from 0 without gaps, with the axes in any order.
func coordinates(shape ir.Shape, index kernel.Index) (at func(x kernel.Index, axis int) kernel.Index, ok bool) {
	// index is the sum of coordinate*step over the axes, plus rest. Only a constant rest of 0 is allowed.
	steps, rest := make([]kernel.Index, len(shape)), index
	for axis, d := range shape {
		step, ok := index.Stride(axis)
		if !ok || d.IsStatic() && d.Add < 1 {
			return nil, false
		}
		rest = rest.Minus(kernel.Axis(axis, d).Mul(step))
		steps[axis] = step
	}
	if !rest.Equal(kernel.Const(0)) {
		return nil, false
	}
	strides := make([]ir.Dim, len(shape)) // strides has the same steps, as dims
	next := ir.D(1)                       // the step that an axis must have: the product of the extents so far
	for range shape {
		axis := slices.IndexFunc(steps, func(s kernel.Index) bool { return s.Equal(kernel.DimIndex(next)) })
		if axis < 0 {
			break
		}
		larger, err := next.Mul2(shape[axis])
		if err != nil {
			return nil, false
		}
		strides[axis], steps[axis], next = next, kernel.Index{}, larger // no other axis has an empty step
	}
	for axis, d := range shape {
		if strides[axis].Is(0) && !d.Is(1) {
			return nil, false
		}
	}
	return func(x kernel.Index, axis int) kernel.Index {
		if shape[axis].Is(1) {
			return kernel.Const(0)
		}
		quo, _ := x.DivMod(strides[axis])
		_, rem := quo.DivMod(shape[axis])
		return rem
	}, true
}

// storedBy returns kernel p, which computes the copied value, with a store of the copy. If keep is true, p also stores
// the original.
func (c copying) storedBy(p *kernel.Kernel, keep bool) *kernel.Kernel {
	return kernel.Map(p, kernel.Edit{Stores: func(m *kernel.Mapping) (stores []kernel.Store) {
		to := c.to
		var copied []kernel.Store
		for _, st := range p.Stores {
			from := p.Bindings[st.Bind]
			if from.Buffer != c.from {
				stores = append(stores, m.Store(st))
				continue
			}
			value := m.Value(st.Value)
			to.Name = from.Name
			if keep {
				to.Name += "_copy"
				if from.DType != to.DType {
					to.Name = from.Name + "_" + to.DType.String()
				}
				stores = append(stores, m.Store(st))
			}
			st.Index = m.Index(st.Index)
			if c.place != nil {
				st.Index = c.place(st.Index)
			}
			st.Value = m.Builder.Cast(to.DType, m.Builder.Cast(from.DType, value)) // both roundings, as before
			copied = append(copied, st)
		}
		bind := m.Bind(to)
		for _, st := range copied {
			st.Bind = bind
			stores = append(stores, st)
		}
		return stores
	}})
}
