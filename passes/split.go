package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// splitSums splits the contraction of products, and the keys of attentions,
// with too few results to fill the device: a kernel computes the sums of each
// part into a buffer, and another adds them, in order, and goes on to what the
// whole kernel stored.
func splitSums(s *State) error {
	for _, id := range s.Plan.IDs() {
		k := s.Plan.Kernel(id)
		if k.Guard != nil { // its rows that are none are not to be added up either
			continue
		}
		parts := s.pricer.SplitSums(k)
		if parts < 2 {
			continue
		}
		sums, rest, err := s.splitKernel(k, parts)
		if err != nil {
			return fmt.Errorf("split kernel %s: %w", k.Name, err)
		}
		s.Plan.Replace(id, sums, rest)
	}
	return nil
}

// splitKernel makes the two kernels of one that is split into so many parts.
func (s *State) splitKernel(k *kernel.Kernel, parts int) (sums, rest *kernel.Kernel, err error) {
	if k.Family == kernel.FamilyAttention {
		return kernel.SplitAttention(k, parts, func(c kernel.Scratch) int { return s.Plan.Scratch(c.Type) })
	}
	return s.splitProduct(k, parts)
}

// splitProduct makes the two kernels of a product whose contraction is split
// into so many parts.
func (s *State) splitProduct(k *kernel.Kernel, parts int) (sums, rest *kernel.Kernel, err error) {
	depth, ok := k.Fold.Quo(int64(parts))
	if !ok || k.Family != kernel.FamilyMatMul {
		return nil, nil, fmt.Errorf("%d parts of a %s kernel that folds %s", parts, k.Family, k.Fold)
	}
	sp := splitter{state: s, k: k, parts: ir.D(parts), depth: depth}
	return sp.sums(), sp.rest(), nil
}

// splitter splits one product.
type splitter struct {
	state    *State
	k        *kernel.Kernel
	parts    ir.Dim
	depth    ir.Dim // of the contraction, in a part
	partials []int  // buffer of each product's sums
}

// shape of the sums of all parts.
func (sp *splitter) shape() ir.Shape { return append(ir.Shape{sp.parts}, sp.k.Parallel...) }

// sums is the kernel of the parts' sums: the part is its outermost axis.
func (sp *splitter) sums() *kernel.Kernel {
	fold, shape := sp.k.FoldAxis(), sp.shape()
	var stores []kernel.Store
	return kernel.Map(sp.k, kernel.Edit{
		Name: sp.k.Name + "_parts", Parallel: shape, Fold: sp.depth,
		At: func(axis int, extent ir.Dim) kernel.Index {
			if axis == fold {
				return kernel.Axis(0, sp.parts).Mul(kernel.DimIndex(sp.depth)).Plus(kernel.Axis(fold+1, sp.depth))
			}
			return kernel.Axis(axis+1, extent)
		},
		Products: func(m *kernel.Mapping) (products []kernel.Product) {
			for i, p := range sp.k.Products {
				products = append(products, m.Product(p))
				t := p.Sums()
				sp.partials = append(sp.partials, sp.state.Plan.Scratch(ir.Type{DType: t, Shape: shape}))
				bind := m.Bind(kernel.Binding{Name: p.Name + "_parts", DType: t, Write: true, Buffer: sp.partials[i], Elems: shape.MaxElems()})
				stores = append(stores, kernel.Store{Bind: bind, Index: linear(shape, axes(shape)), Value: m.Builder.Acc(i, t, p.Name)})
			}
			return products
		},
		Stores: func(*kernel.Mapping) []kernel.Store { return stores },
	})
}

// rest is the kernel that adds the parts up and stores what the product did.
func (sp *splitter) rest() *kernel.Kernel {
	k := sp.k
	return kernel.Map(k, kernel.Edit{Name: k.Name + "_sum", Family: kernel.FamilyMap, Stores: func(m *kernel.Mapping) []kernel.Store {
		at := slices.Concat([]kernel.Index{{}}, axes(k.Parallel))
		totals := make([]*kernel.Expr, len(k.Products))
		for i, p := range k.Products {
			t := p.Sums()
			bind := m.Bind(kernel.Binding{Name: p.Name + "_parts", DType: t, Read: true, Buffer: sp.partials[i], Elems: sp.shape().MaxElems()})
			for part := range sp.parts.Add {
				at[0] = kernel.Const(part)
				v := m.Builder.Load(bind, t, linear(sp.shape(), at), p.Name)
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
