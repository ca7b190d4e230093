package rules

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// SplitK splits the contraction axis of a matmul, or the keys of an attention, into parts. One kernel computes the sums
// of all parts into a buffer. A second kernel adds them in order and applies the original epilogue.
func SplitK(o *Optimizer, id plan.KernelID) (list []Proposal) {
	k := o.Plan.Kernel(id)
	if k.Guard != nil { // the second kernel would have to skip guarded rows too
		return nil
	}
	for _, parts := range o.sizes(k).Parts {
		p := Proposal{What: fmt.Sprintf("split the sums in %d", parts), Margin: 1 / 0.9, LastSplit: true}
		if k.Family == kernel.FamilyAttention {
			sums, rest, err := kernel.SplitAttention(k, parts, func(c kernel.Scratch) int {
				return o.Plan.Scratch(c.Type)
			})
			if err != nil {
				continue
			}
			p.replace(id, sums, rest)
			p.Default = true // the schedule of the unsplit attention assumes a split
		} else if depth, ok := k.Fold.Quo(int64(parts)); ok && parts > 1 && k.Family == kernel.FamilyMatMul {
			sp := splitter{plan: o.Plan, k: k, parts: ir.D(parts), depth: depth}
			p.replace(id, sp.sums(), sp.rest())
		} else {
			continue
		}
		list = append(list, p)
	}
	return list
}

// splitter splits the contraction axis of matmul k.
type splitter struct {
	plan     *plan.Graph
	k        *kernel.Kernel
	parts    ir.Dim
	depth    ir.Dim // length of a part along the contraction axis
	partials []int  // by matmul of the kernel: the value with its sums
}

// shape returns the shape of the sums of all parts.
func (sp *splitter) shape() ir.Shape { return append(ir.Shape{sp.parts}, sp.k.Parallel...) }

// sums returns the kernel that computes the sums of all parts. Its outermost axis is the part.
func (sp *splitter) sums() *kernel.Kernel {
	fold, shape := sp.k.FoldAxis(), sp.shape()
	var stores []kernel.Store
	return kernel.Map(sp.k, kernel.Edit{
		Name: sp.k.Name + "_parts", Parallel: shape, Fold: sp.depth,
		At: func(axis int, extent ir.Dim) kernel.Index {
			if axis == fold {
				// Element depth*part + position, as the axes are: part, parallel axes, position in the part.
				return kernel.Axis(0, sp.parts).Mul(kernel.DimIndex(sp.depth)).Plus(kernel.Axis(fold+1, sp.depth))
			}
			return kernel.Axis(axis+1, extent)
		},
		MatMuls: func(m *kernel.Mapping) (matmuls []kernel.MatMul) {
			for i, p := range sp.k.MatMuls {
				matmuls = append(matmuls, m.MatMul(p))
				t := p.Sums()
				sp.partials = append(sp.partials, sp.plan.Scratch(ir.Type{DType: t, Shape: shape}))
				bind := m.Bind(kernel.Binding{Name: p.Name + "_parts", DType: t, Write: true, Buffer: sp.partials[i],
					Elems: shape.MaxElems()})
				index := kernel.Linear(shape, kernel.Axes(shape))
				stores = append(stores, kernel.Store{Bind: bind, Index: index, Value: m.Builder.Acc(i, t, p.Name)})
			}
			return matmuls
		},
		Stores: func(*kernel.Mapping) []kernel.Store { return stores },
	})
}

// rest returns the kernel that adds the parts and applies the matmul's epilogue.
func (sp *splitter) rest() *kernel.Kernel {
	k := sp.k
	return kernel.Map(k,
		kernel.Edit{Name: k.Name + "_sum", Family: kernel.FamilyMap, Stores: func(m *kernel.Mapping) []kernel.Store {
			at := slices.Concat([]kernel.Index{{}}, kernel.Axes(k.Parallel)) // at[0] is set to each part below
			totals := make([]*kernel.Expr, len(k.MatMuls))
			for i, p := range k.MatMuls {
				t := p.Sums()
				bind := m.Bind(kernel.Binding{Name: p.Name + "_parts", DType: t, Read: true, Buffer: sp.partials[i],
					Elems: sp.shape().MaxElems()})
				for part := range sp.parts.Add {
					at[0] = kernel.Const(part)
					v := m.Builder.Load(bind, t, kernel.Linear(sp.shape(), at), p.Name)
					if totals[i] != nil {
						v = m.Builder.Apply(ir.OpAdd, t, nil, totals[i], v)
					}
					totals[i] = v
				}
			}
			m.Acc = func(e *kernel.Expr) *kernel.Expr { return m.Builder.Cast(e.DType, totals[e.Acc]) }
			return m.Stores()
		}})
}
