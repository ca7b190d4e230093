package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// HalfAttention rounds the queries, keys and values of an attention to f16 if the graph's precision allows it. If
// nothing but the attention reads one of these, the kernel that computes it then stores it in f16.
func HalfAttention(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	if k.Family != kernel.FamilyAttention || !k.Attention.Half {
		return nil
	}
	p := Proposal{What: "round to f16", Margin: 1.25} // because it loses precision
	p.replace(id, halved(k, o.storeHalf(id, &p)))
	keep := propose("keep f32", id, kernel.Map(k, kernel.Edit{Attention: func(m *kernel.Mapping) *kernel.Attention {
		a := m.Attention(k.Attention)
		a.Half = false
		return a
	}}))
	keep.Default = true
	return []Proposal{p, keep}
}

// storeHalf makes kernels store the queries, keys and values of an attention in f16. It does so for values that only
// the attention reads, and only as queries, keys or values, such as the result of a matmul of all three. It adds these
// kernels to proposal p, and returns the f16 values by binding of the attention.
func (o *Optimizer) storeHalf(id plan.KernelID, p *Proposal) map[int]plan.ValueID {
	k, stored := o.Plan.Kernel(id), map[int]plan.ValueID{}
	operands := []*kernel.Expr{k.Attention.Q, k.Attention.K, k.Attention.V}
	others := map[int]bool{} // bindings that something else reads
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad && !slices.Contains(operands, e) {
			others[e.Bind] = true
		}
	})
	for _, v := range operands {
		readOnly := v.Kind == kernel.ExprLoad && !others[v.Bind] && !k.Bindings[v.Bind].Write
		if !readOnly || v.DType != ir.F32 || stored[v.Bind] != 0 {
			continue
		}
		b := k.Bindings[v.Bind]
		source, ok := o.Plan.Source(b.Buffer, plan.SeveralValues)
		if !ok || o.Plan.ReadByOthers(b.Buffer, id) {
			continue
		}
		b.DType, b.Read, b.Write = ir.F16, false, true
		c := copying{from: b.Buffer, to: b}
		c.to.Buffer = o.Plan.Scratch(ir.Type{DType: ir.F16, Shape: ir.ShapeOf(int(b.Elems))})
		p.replace(source, c.storedBy(p.kernel(o, source), false))
		stored[v.Bind] = c.to.Buffer
	}
	return stored
}

// halved returns attention k with f16 operands. stored has the f16 values by binding: k reads these operands from them,
// and rounds its other operands itself.
func halved(k *kernel.Kernel, stored map[int]plan.ValueID) *kernel.Kernel {
	return kernel.Map(k, kernel.Edit{Attention: func(m *kernel.Mapping) *kernel.Attention {
		m.Rebind = func(bind int, b kernel.Binding) kernel.Binding {
			if buffer, ok := stored[bind]; ok {
				b.DType, b.Buffer = ir.F16, buffer
			}
			return b
		}
		m.Load = func(e *kernel.Expr) *kernel.Expr {
			if _, ok := stored[e.Bind]; !ok {
				return nil
			}
			return m.Builder.Load(m.Rewriter.Bind(e.Bind), ir.F16, m.Index(e.Index), e.Hint)
		}
		a := m.Attention(k.Attention)
		a.Half = false // the rounding is explicit now
		for _, v := range []**kernel.Expr{&a.Q, &a.K, &a.V} {
			*v = m.Builder.Cast(ir.F16, *v)
		}
		return a
	}})
}
