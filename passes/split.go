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
	if s.split == nil {
		return nil
	}
	var list leveled
	for i, k := range s.Kernels {
		level := 2 * s.levels[i] // room for one in between
		parts := 1
		if k.Guard == nil { // its rows that are none are not to be added up either
			parts = s.split(k)
		}
		if parts < 2 {
			list.add(k, level)
			continue
		}
		sums, rest, err := s.splitKernel(k, parts)
		if err != nil {
			return fmt.Errorf("split kernel %s: %w", k.Name, err)
		}
		list.add(sums, level)
		list.add(rest, level+1)
	}
	s.Kernels, s.levels = list.sorted()
	return nil
}

// splitKernel makes the two kernels of one that is split into so many parts.
func (s *State) splitKernel(k *kernel.Kernel, parts int) (sums, rest *kernel.Kernel, err error) {
	if k.Family == kernel.FamilyAttention {
		return kernel.SplitAttention(k, parts, func(c kernel.Scratch) int { return s.addPartial(c.Type) })
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
	k, fold := sp.k, sp.k.FoldAxis()
	r := kernel.NewRewriter(func(axis int, extent ir.Dim) kernel.Index {
		if axis == fold {
			return kernel.Axis(0, sp.parts).Mul(kernel.DimIndex(sp.depth)).Plus(kernel.Axis(fold+1, sp.depth))
		}
		return kernel.Axis(axis+1, extent)
	})
	out := &kernel.Kernel{Name: k.Name + "_parts", Family: kernel.FamilyMatMul, Parallel: sp.shape(), Fold: sp.depth, Ops: k.Ops}
	binds := rebinder{from: k, to: out, index: map[int]int{}}
	r.Bind = binds.read
	at := make([]kernel.Index, len(out.Parallel))
	for i, d := range out.Parallel {
		at[i] = kernel.Axis(i, d)
	}
	for i, p := range k.Products {
		p.A, p.B = r.Value(p.A), r.Value(p.B)
		out.Products = append(out.Products, p)
		t := p.Sums()
		buffer := sp.state.addPartial(ir.Type{DType: t, Shape: sp.shape()})
		sp.partials = append(sp.partials, buffer)
		out.Bindings = append(out.Bindings, kernel.Binding{Name: p.Name + "_parts", DType: t, Write: true, Buffer: buffer, Elems: sp.shape().MaxElems()})
		out.Stores = append(out.Stores, kernel.Store{Bind: len(out.Bindings) - 1, Index: linear(sp.shape(), at), Value: r.Builder.Acc(i, t, p.Name)})
	}
	binds.params()
	return out
}

// rest is the kernel that adds the parts up and stores what the product did.
func (sp *splitter) rest() *kernel.Kernel {
	k := sp.k
	r := kernel.NewRewriter(kernel.Axis)
	out := &kernel.Kernel{Name: k.Name + "_sum", Family: kernel.FamilyMap, Parallel: k.Parallel, Ops: k.Ops}
	binds := rebinder{from: k, to: out, index: map[int]int{}}
	r.Bind = binds.read
	at := make([]kernel.Index, len(k.Parallel)+1)
	for i, d := range k.Parallel {
		at[i+1] = kernel.Axis(i, d)
	}
	totals := make([]*kernel.Expr, len(k.Products))
	for i, p := range k.Products {
		t := p.Sums()
		out.Bindings = append(out.Bindings, kernel.Binding{Name: p.Name + "_parts", DType: t, Read: true, Buffer: sp.partials[i], Elems: sp.shape().MaxElems()})
		bind := len(out.Bindings) - 1
		for part := range sp.parts.Add {
			at[0] = kernel.Const(part)
			v := r.Builder.Load(bind, t, linear(sp.shape(), at), p.Name)
			if totals[i] != nil {
				v = r.Builder.Apply(ir.OpAdd, t, nil, totals[i], v)
			}
			totals[i] = v
		}
	}
	r.Acc = func(e *kernel.Expr) *kernel.Expr { return r.Builder.Cast(e.DType, totals[e.Acc]) }
	for _, s := range k.Stores {
		s.Index, s.Value, s.Bind = r.Index(s.Index), r.Value(s.Value), binds.write(s.Bind)
		out.Stores = append(out.Stores, s)
	}
	binds.params()
	return out
}

// rebinder gives a kernel those bindings of another that it uses, unless it binds
// their buffers already.
type rebinder struct {
	from, to *kernel.Kernel
	index    map[int]int // binding of from to binding of to
}

func (b *rebinder) use(bind int) *kernel.Binding {
	i, ok := b.index[bind]
	if !ok {
		x := b.from.Bindings[bind]
		if i = slices.IndexFunc(b.to.Bindings, func(have kernel.Binding) bool { return have.Buffer == x.Buffer }); i < 0 {
			i = len(b.to.Bindings)
			x.Read, x.Write = false, false
			b.to.Bindings = append(b.to.Bindings, x)
		}
		b.index[bind] = i
	}
	return &b.to.Bindings[i]
}

func (b *rebinder) read(bind int) int {
	b.use(bind).Read = true
	return b.index[bind]
}

func (b *rebinder) write(bind int) int {
	b.use(bind).Write = true
	return b.index[bind]
}

// params binds what the kernel reads without a load: the values of symbols, and
// codebooks of its operands.
func (b *rebinder) params() {
	used := map[ir.DType]bool{}
	for _, x := range b.to.Bindings {
		used[x.DType] = true
	}
	for i, x := range b.from.Bindings {
		switch {
		case x.Buffer == paramsBuffer && len(b.to.Symbols()) > 0, x.Codebook != ir.Invalid && used[x.Codebook]:
			b.read(i)
		}
	}
}

// addPartial makes a buffer that is no node's value, and returns what stands
// for it in Binding.Buffer.
func (s *State) addPartial(t ir.Type) int {
	s.partials = append(s.partials, t)
	return s.nextPartial() - 1
}

// nextPartial is what will stand for the next buffer that addPartial makes.
func (s *State) nextPartial() int { return len(s.Graph.Nodes()) + len(s.partials) }
