package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// halveAttention rounds the queries, keys and values of attentions to f16 where
// the graph allows that and the device wants it. What only the attention reads is
// stored so by the kernel that computes it.
func halveAttention(s *State) error {
	s.findTouching()
	for i, k := range s.Kernels {
		if k.Family != kernel.FamilyAttention || !k.Attention.Half {
			continue
		}
		if h := halved(k, nil); s.half != nil && s.half(h) {
			s.Kernels[i] = halved(k, s.storedHalf(k))
			s.noteTouching(i)
			continue
		}
		exact := *k.Attention
		exact.Half = false
		out := *k
		out.Attention = &exact
		s.Kernels[i] = &out
	}
	return nil
}

// storedHalf has kernels store in f16 what k alone reads of them, for one
// operand. It returns the buffers by binding.
func (s *State) storedHalf(k *kernel.Kernel) map[int]int {
	stored := map[int]int{}
	reads := map[int]map[*kernel.Expr]bool{}
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad {
			if reads[e.Bind] == nil {
				reads[e.Bind] = map[*kernel.Expr]bool{}
			}
			reads[e.Bind][e] = true
		}
	})
	for _, v := range []*kernel.Expr{k.Attention.Q, k.Attention.K, k.Attention.V} {
		if v.Kind != kernel.ExprLoad || v.DType != ir.F32 || len(reads[v.Bind]) != 1 || k.Bindings[v.Bind].Write || stored[v.Bind] != 0 {
			continue
		}
		b := k.Bindings[v.Bind]
		source := s.sourceOf(b.Buffer)
		if source == nil || s.reads(b.Buffer, map[*kernel.Kernel]bool{k: true}) {
			continue
		}
		b.DType, b.Read, b.Write = ir.F16, false, true
		c := recast{from: b.Buffer, to: b}
		c.to.Buffer = s.addPartial(ir.Type{DType: ir.F16, Shape: ir.ShapeOf(int(b.Elems))})
		at := s.writersOf(b.Buffer)[0]
		s.Kernels[at] = c.in(source, false)
		s.noteTouching(at)
		stored[v.Bind] = c.to.Buffer
	}
	return stored
}

// halved is k with operands of f16, those of the stored bindings read from the
// buffers where they are that. It may round no more.
func halved(k *kernel.Kernel, stored map[int]int) *kernel.Kernel {
	from := *k
	from.Bindings = slices.Clone(k.Bindings)
	for bind, buffer := range stored {
		from.Bindings[bind].DType, from.Bindings[bind].Buffer = ir.F16, buffer
	}
	return kernel.Map(&from, kernel.Edit{Attention: func(m *kernel.Mapping) *kernel.Attention {
		m.Load = func(e *kernel.Expr) *kernel.Expr {
			if _, ok := stored[e.Bind]; !ok {
				return nil
			}
			return m.Builder.Load(m.Rewriter.Bind(e.Bind), ir.F16, m.Index(e.Index), e.Hint)
		}
		a := m.Attention(k.Attention)
		a.Half = false
		for _, v := range []**kernel.Expr{&a.Q, &a.K, &a.V} {
			*v = m.Builder.Cast(ir.F16, *v)
		}
		return a
	}})
}
