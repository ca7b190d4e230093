package passes

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// halveAttention rounds the queries, keys and values of attentions to f16 where
// the graph allows that and the device wants it.
func halveAttention(s *State) error {
	for i, k := range s.Kernels {
		if k.Family != kernel.FamilyAttention || !k.Attention.Half {
			continue
		}
		if h := halved(k); s.half != nil && s.half(h) {
			s.Kernels[i] = h
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

// halved is k with operands of f16. It may round no more than those.
func halved(k *kernel.Kernel) *kernel.Kernel {
	out, a := *k, *k.Attention
	r := kernel.NewRewriter(kernel.Axis)
	round := func(v *kernel.Expr) *kernel.Expr { return r.Builder.Cast(ir.F16, r.Value(v)) }
	a.Half, a.Q, a.K, a.V = false, round(a.Q), round(a.K), round(a.V)
	if a.Mask != nil {
		a.Mask = r.Value(a.Mask)
	}
	out.Attention, out.Stores = &a, nil
	for _, st := range k.Stores {
		st.Index, st.Value = r.Index(st.Index), r.Value(st.Value)
		out.Stores = append(out.Stores, st)
	}
	return &out
}
