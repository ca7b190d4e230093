package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// isCustomKernel reports whether n is a result of a custom kernel, which reads its arguments from memory and is never
// fused.
func isCustomKernel(n *ir.Node) bool { return n.Op().Class() == ir.ClassCustom }

// completeResults adds a node for every result of a custom kernel, because the kernel writes them all, even unused
// ones. It does the same for loops, which carry all their results.
func completeResults(g *ir.Graph) (*ir.Graph, error) {
	if !slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool { return isCustomKernel(n) || n.Op() == ir.OpLoop }) {
		return g, nil
	}
	made := map[string][]*ir.Node{} // by call: its results
	loops := newLoopCompleter(g)
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		switch {
		case n.Op() == ir.OpLoop:
			return loops.loop(rw.New, n, args)
		case n.Op() == ir.OpResult:
			return loops.results[args[0]][n.Attrs().Int("index")], nil
		case !isCustomKernel(n):
			return rw.Copy(n, args)
		}
		key := callKey(n.Op(), args, n.Attrs())
		if made[key] == nil {
			for i := range n.Op().Info().Custom.Kernel.Outputs {
				m, err := rw.New.Add(n.Op(), args, ir.WithOutput(n.Attrs(), i), n.Pos())
				if err != nil {
					return nil, err
				}
				made[key] = append(made[key], m)
			}
		}
		return made[key][ir.OutputIndex(n)], nil
	})
}

// callKey is the same for the results of one call.
func callKey(op ir.Op, args []*ir.Node, attrs ir.Attrs) string {
	key := op.String()
	for _, a := range args {
		key += fmt.Sprintf(" %d", a.ID())
	}
	for _, a := range ir.WithOutput(attrs, 0) {
		key += " " + ir.FormatAttr(a.Value)
	}
	return key
}

// placeCustom makes a cluster of each call of a custom kernel that is needed.
func (f *Fusion) placeCustom() {
	calls := map[string][]*ir.Node{}
	needed := map[string]bool{}
	for _, n := range f.Graph.Nodes() {
		if isCustomKernel(n) {
			key := callKey(n.Op(), n.Args(), n.Attrs())
			calls[key] = append(calls[key], n)
			needed[key] = needed[key] || f.live[n.ID()]
		}
	}
	for _, n := range f.Graph.Nodes() {
		if !isCustomKernel(n) || f.home[n.ID()] != nil {
			continue
		}
		if key := callKey(n.Op(), n.Args(), n.Attrs()); needed[key] {
			c := f.newCluster(ClusterCustom, n)
			c.tails = calls[key]
			for _, o := range c.tails {
				f.home[o.ID()] = c
			}
		}
	}
}

// feedsWhole returns a custom kernel or loop that reads n from memory, or nil.
func (f *Fusion) feedsWhole(n *ir.Node) *ir.Node {
	for _, u := range f.uses[n.ID()] {
		if f.live[u.ID()] && (isCustomKernel(u) || u.Op() == ir.OpLoop && !sinks(u, n)) {
			return u
		}
	}
	return nil
}

// zeroed makes the kernels that zero a custom kernel's results, one per such result.
func (f *Fusion) zeroed(c *Cluster, k *kernel.Kernel) (list []*kernel.Kernel, err error) {
	for i := range k.Custom.Types {
		if !k.Custom.Zeroed(i) {
			continue
		}
		out := slices.IndexFunc(c.tails, func(o *ir.Node) bool { return ir.OutputIndex(o) == i-k.Custom.Args })
		l := newLowerer(f, c)
		l.k.Family, l.space = kernel.FamilyMap, c.tails[out].Shape()
		l.at = l.parallel(l.space)
		l.k.Stores = []kernel.Store{{Bind: l.binding(c.tails[out], true), Index: linear(l.space, l.at),
			Value: l.b.Integer(c.tails[out].DType(), 0)}}
		zeros, err := l.finish()
		if err != nil {
			return nil, err
		}
		zeros.Ops, zeros.Name = []string{"zeros"}, "zeros"
		list = append(list, zeros)
	}
	return list, nil
}

// lowerCustom binds the arguments and results of a custom kernel.
func (l *lowerer) lowerCustom() error {
	n := l.c.tails[0]
	op := n.Op().Info().Custom
	types, err := op.Results(ir.NodeCall(n))
	if err != nil {
		return err
	}
	c := &kernel.Custom{Op: n.Op(), Attrs: ir.WithOutput(n.Attrs(), 0), Args: len(n.Args())}
	l.k.Family, l.k.Custom = kernel.FamilyCustom, c
	l.ops[n] = true
	for i, a := range n.Args() {
		c.Types = append(c.Types, a.Type())
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: op.Args[i].Name, DType: a.DType(), Read: true,
			Buffer: l.f.bufferNode(a).ID(), Elems: a.Shape().MaxElems()})
	}
	for i, t := range types {
		j := slices.IndexFunc(l.c.tails, func(o *ir.Node) bool { return ir.OutputIndex(o) == i })
		if j < 0 {
			return fmt.Errorf("%s: no node for result %d", n.Op(), i)
		}
		out := l.c.tails[j]
		c.Types = append(c.Types, t)
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: op.Kernel.Outputs[i], DType: t.DType, Write: true,
			Read: c.Zeroed(c.Args + i), Buffer: l.f.bufferNode(out).ID(), Elems: t.Shape.MaxElems()})
	}
	_, err = c.Grid()
	return err
}
