package lower

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// isCustomKernel reports whether n is a result of a custom op with a kernel of its own. Such a kernel reads its
// arguments from memory and is never fused.
func isCustomKernel(n *ir.Node) bool { return n.Op().Class() == ir.ClassCustom }

// placeCustom makes a cluster of each call of a custom kernel with a live result. A call has a node for each result.
func (f *Fusion) placeCustom() {
	// All results of a call share its key (see [analysis.CallKey]), so calls has them together.
	calls := map[string][]*ir.Node{}
	needed := map[string]bool{}
	for _, n := range f.Graph.Nodes() {
		if isCustomKernel(n) {
			key := analysis.CallKey(n.Op(), n.Args(), n.Attrs())
			calls[key] = append(calls[key], n)
			needed[key] = needed[key] || f.live[n.ID()]
		}
	}
	for _, n := range f.Graph.Nodes() {
		if !isCustomKernel(n) || f.storedBy[n.ID()] != nil {
			continue
		}
		if key := analysis.CallKey(n.Op(), n.Args(), n.Attrs()); needed[key] {
			c := f.newCluster(ClusterCustom, n)
			c.tails = calls[key]
			for _, o := range c.tails {
				f.storedBy[o.ID()] = c
			}
		}
	}
}

// feedsWhole returns a custom kernel or loop that reads n from memory, so that n must be stored. It returns nil if
// there is none.
func (f *Fusion) feedsWhole(n *ir.Node) *ir.Node {
	for _, u := range f.uses[n.ID()] {
		if f.live[u.ID()] && (isCustomKernel(u) || u.Op() == ir.OpLoop && !sinks(u, n)) {
			return u
		}
	}
	return nil
}

// zeroed returns the kernels that set results of a custom kernel to zero before it runs, if its definition requires it.
func (f *Fusion) zeroed(c *Cluster, k *kernel.Kernel) (list []*kernel.Kernel, err error) {
	for i := range k.Custom.Types {
		if !k.Custom.Zeroed(i) {
			continue
		}
		// Types lists the arguments before the results.
		out := slices.IndexFunc(c.tails, func(o *ir.Node) bool { return ir.OutputIndex(o) == i-k.Custom.Args })
		l := newLowerer(f, c)
		zeros, err := l.buildKernel(func() {
			l.k.Family, l.space = kernel.FamilyMap, c.tails[out].Shape()
			l.at = l.parallel(l.space)
			l.k.Stores = []kernel.Store{{Bind: l.binding(c.tails[out], writing), Index: kernel.Linear(l.space, l.at),
				Value: l.b.Integer(c.tails[out].DType(), 0)}}
		})
		if err != nil {
			return nil, err
		}
		zeros.Ops, zeros.Name = []string{"zeros"}, "zeros"
		list = append(list, zeros)
	}
	return list, nil
}

// lowerCustom makes the kernel of a custom op: it only binds the arguments and results.
func (l *lowerer) lowerCustom() {
	n := l.c.tails[0]
	op := n.Op().Info().Custom
	// The results of a call differ only in attribute output. Their kernel has the attributes of result 0.
	c := &kernel.Custom{Op: n.Op(), Attrs: ir.WithOutput(n.Attrs(), 0), Args: len(n.Args())}
	l.k.Family, l.k.Custom = kernel.FamilyCustom, c
	l.ops[n] = true
	for i, a := range n.Args() {
		c.Types = append(c.Types, a.Type())
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: op.Args[i].Name, DType: a.DType(), Read: true,
			Buffer: l.f.bufferNode(a).ID(), Elems: a.Shape().MaxElems()})
	}
	for i, t := range bailout.Must(op.Results(ir.NodeCall(n))) {
		j := slices.IndexFunc(l.c.tails, func(o *ir.Node) bool { return ir.OutputIndex(o) == i })
		bailout.Unless(j >= 0, "%s: no node for result %d", n.Op(), i)
		out := l.c.tails[j]
		c.Types = append(c.Types, t)
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: op.Kernel.Outputs[i], DType: t.DType, Write: true,
			Read: c.Zeroed(c.Args + i), Buffer: l.f.bufferNode(out).ID(), Elems: t.Shape.MaxElems()})
	}
	bailout.Must(c.Grid()) // only for the error, if the op's rules give no grid
}
