package target

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// attention is a causal attention of heads query heads over groups key heads,
// in f16.
func attention(groups, heads, queries, keys, dot ir.Dim) *kernel.Kernel {
	b := kernel.NewBuilder()
	k := &kernel.Kernel{Name: "attention", Family: kernel.FamilyAttention, Parallel: []ir.Dim{one, groups, heads, queries, dot}, Fold: keys,
		Bindings: []kernel.Binding{binding("q", ir.F16, groups, heads, queries, dot), binding("k", ir.F16, groups, keys, dot),
			binding("v", ir.F16, groups, keys, dot), binding("y", ir.F16, groups, heads, queries, dot)}}
	ax := k.AttentionAxes()
	along := func(axis int, extents ...ir.Dim) kernel.Index { // row-major over the last axes named by ids axis, axis+1, …
		x := kernel.Const(0)
		for i, d := range extents {
			x = x.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(axis+i, d))
		}
		return x
	}
	row := along(ax.Group, groups, heads, queries)
	key := kernel.Axis(ax.Group, groups).Mul(kernel.DimIndex(keys)).Plus(kernel.Axis(ax.Key, keys))
	in := func(x kernel.Index, axis int) kernel.Index {
		return x.Mul(kernel.DimIndex(dot)).Plus(kernel.Axis(axis, dot))
	}
	k.Attention = &kernel.Attention{Q: b.Load(0, ir.F16, in(row, ax.Dot), "q"), K: b.Load(1, ir.F16, in(key, ax.Dot), "k"),
		V: b.Load(2, ir.F16, in(key, ax.Value), "v"), Dot: dot, Scale: 0.1, Causal: true}
	y := b.Apply(ir.OpDiv, ir.F32, nil, b.Acc(2, ir.F32, "weighted"), b.Acc(1, ir.F32, "sum"))
	k.Stores = []kernel.Store{{Bind: 3, Index: in(row, ax.Value), Value: y, PerElement: true}}
	return k
}
