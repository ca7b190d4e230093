package passes

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// joinCasts removes kernels that do no more than store another kernel's result
// again, element for element, in another dtype: the other kernel stores it so
// itself, and no longer as it was where nothing else reads that.
func joinCasts(s *State, id plan.KernelID) []Proposal {
	c, ok := castOf(s.Plan.Kernel(id))
	if !ok {
		return nil
	}
	source, ok := s.sourceOf(c.from)
	if !ok {
		return nil
	}
	p := propose("store "+c.to.DType.String()+" at once", source, c.in(s.Plan.Kernel(source), s.readByOthers(c.from, id)))
	p.Default = true
	p.also(id)
	return []Proposal{p}
}

// recast is what a kernel does that only stores a buffer in another dtype.
type recast struct {
	from int // buffer
	to   kernel.Binding
}

// castOf reports whether each element of the one buffer that k writes is that of
// another buffer as long, in another dtype.
func castOf(k *kernel.Kernel) (recast, bool) {
	if k.Family != kernel.FamilyMap || k.Custom != nil || len(k.Stores) != 1 || len(k.Bindings) != 2 {
		return recast{}, false
	}
	st := k.Stores[0]
	v, to := st.Value, k.Bindings[st.Bind]
	if v.Kind != kernel.ExprApply || v.Op != ir.OpCast || v.Args[0].Kind != kernel.ExprLoad {
		return recast{}, false
	}
	load := v.Args[0]
	from := k.Bindings[load.Bind]
	// Every element of both is met once, at the same place.
	whole := linear(k.Parallel, axes(k.Parallel))
	if from.DType.IsBlock() || from.Elems != to.Elems || ir.Shape(k.Parallel).MaxElems() != to.Elems ||
		!load.Index.Equal(st.Index) || !st.Index.Equal(whole) {
		return recast{}, false
	}
	return recast{from: from.Buffer, to: to}, true
}

// in is p with what it stores in the buffer that c reads stored in c's dtype, and
// as it was only if that is to be kept.
func (c recast) in(p *kernel.Kernel, keep bool) *kernel.Kernel {
	return kernel.Map(p, kernel.Edit{Stores: func(m *kernel.Mapping) (stores []kernel.Store) {
		to := c.to
		var recast []kernel.Store
		for _, st := range p.Stores {
			from := p.Bindings[st.Bind]
			if from.Buffer != c.from {
				stores = append(stores, m.Store(st))
				continue
			}
			value := m.Value(st.Value)
			if to.Name = from.Name; keep {
				to.Name += "_" + to.DType.String()
				stores = append(stores, m.Store(st))
			}
			st.Index = m.Index(st.Index)
			st.Value = m.Builder.Cast(to.DType, m.Builder.Cast(from.DType, value)) // rounded first as storing it did
			recast = append(recast, st)
		}
		bind := m.Bind(to)
		for _, st := range recast {
			st.Bind = bind
			stores = append(stores, st)
		}
		return stores
	}})
}
