package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// joinCasts removes kernels that do no more than store another kernel's result
// again, element for element, in another dtype: the other kernel stores it so
// itself, and no longer as it was where nothing else reads that.
func joinCasts(s *State) error {
	s.findTouching()
	drop := map[*kernel.Kernel]bool{}
	for _, k := range s.Kernels {
		c, ok := castOf(k)
		if !ok {
			continue
		}
		if p := s.sourceOf(c.from); p != nil {
			drop[k] = true
			if joined := c.in(p, s.reads(c.from, drop)); len(joined.Bindings) <= s.limits.Bindings {
				at := s.writersOf(c.from)[0]
				s.Kernels[at] = joined
				s.noteTouching(at)
			} else {
				drop[k] = false
			}
		}
	}
	s.drop(drop)
	return nil
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

// sourceOf returns the kernel that computes all of a buffer, if it is one that
// may store several values. What a state is and becomes is left
// alone: kernels store parts of it, and others read what it was before.
func (s *State) sourceOf(buffer int) *kernel.Kernel {
	writers := s.writersOf(buffer)
	if s.touching.states[buffer] || len(writers) != 1 {
		return nil
	}
	k := s.Kernels[writers[0]]
	if k.Custom != nil || k.Guard != nil || readsBuffer(k, buffer) {
		return nil
	}
	switch k.Family {
	case kernel.FamilyMap, kernel.FamilyRow, kernel.FamilyMatMul:
		return k
	}
	return nil
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

// reads reports whether a buffer is an output, what a state becomes, or read by
// a kernel that is not dropped.
func (s *State) reads(buffer int, dropped map[*kernel.Kernel]bool) bool {
	return s.outlives(buffer) || slices.ContainsFunc(s.readersOf(buffer), func(i int) bool { return !dropped[s.Kernels[i]] })
}

// outlives reports whether a buffer is an output or what a state becomes.
func (s *State) outlives(buffer int) bool {
	return s.touching.outputs[buffer] || s.touching.states[buffer]
}

func readsBuffer(k *kernel.Kernel, buffer int) bool {
	return slices.ContainsFunc(k.Bindings, func(b kernel.Binding) bool { return b.Read && b.Buffer == buffer })
}
