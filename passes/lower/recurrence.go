package lower

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// isRecurrence reports whether n is a result of a recurrence with a kernel of its own, a delta_rule. A rewrite has
// replaced each ssm_scan by a delta_rule before.
func isRecurrence(n *ir.Node) bool { return n.Op() == ir.OpDeltaRule && n.DType() == ir.F32 }

// joinRecurrence makes n a core of the cluster that has the other result of the same recurrence. It returns false if
// there is none.
func (f *Fusion) joinRecurrence(n *ir.Node) bool {
	for _, u := range f.uses[n.Arg(0).ID()] {
		c := f.core[u.ID()]
		if u == n || c == nil || c.Kind != ClusterRecurrence || !slices.Equal(u.Args(), n.Args()) {
			continue
		}
		c.Cores, c.tails = append(c.Cores, n), append(c.tails, n)
		f.core[n.ID()], f.storedBy[n.ID()] = c, c
		return true
	}
	return false
}

// ofState reports whether a core of a recurrence is the state after the last time step.
func ofState(n *ir.Node) bool { return n.Attrs().String_("of") == "state" }

// lowerRecurrence makes the kernel of a recurrence: of its y, of its last state, or of both. v and y are [batch…,
// times, heads, values], states [batch…, heads, values, keys], and the other vectors [batch…, times, groups, keys].
func (l *lowerer) lowerRecurrence() {
	n := l.c.Cores[0]
	args, in := n.Args(), n.Op().Info()
	arg := func(name string) *ir.Node {
		if i := in.Arg(name); i < len(args) {
			return args[i]
		}
		return nil
	}
	v, state := arg("v"), arg("state")
	outer := v.Rank() - 3
	times, keys := v.Shape()[outer], state.Shape()[outer+2]
	l.k.Family, l.k.Fold = kernel.FamilyRecurrence, times
	l.space = state.Shape()[:outer+2]
	at := l.parallel(l.space)
	batch, head, row := at[:outer], at[outer], at[outer+1]
	time, key := kernel.Axis(l.k.FoldAxis(), times), kernel.Axis(l.k.KeyAxis(), keys)
	// vector loads an element of a vector of the head, or of the group of heads that it is in.
	vector := func(name string) *kernel.Expr {
		a := arg(name)
		if a == nil {
			return nil
		}
		perGroup, _ := v.Shape()[outer+1].Quo(a.Shape()[outer+1].Add)
		group, _ := head.DivMod(perGroup)
		return l.value(a, slices.Concat(batch, []kernel.Index{time, group, key}))
	}
	decay := arg("decay")
	decayAt := broadcastCoords(decay.Shape(), slices.Concat(batch, []kernel.Index{time, head, key}))
	l.k.Recurrence = &kernel.Recurrence{Keys: keys, State: l.value(state, slices.Concat(at, []kernel.Index{key})),
		Decay: l.f32(ir.OpExp, l.value(decay, decayAt)), Q: vector("q"), K: vector("k"),
		V: l.value(v, slices.Concat(batch, []kernel.Index{time, head, row})), A: vector("a"), B: vector("b")}
	for _, core := range l.c.Cores {
		acc := l.b.Acc(0, ir.F32, "y")
		if ofState(core) {
			acc = l.b.Acc(1, ir.F32, "last")
		}
		l.accs[core] = []*kernel.Expr{acc}
	}
	for _, s := range l.c.Stored {
		core := l.c.Cores[slices.IndexFunc(l.c.Cores, func(core *ir.Node) bool { return l.followsCore(core, s) })]
		if ofState(core) {
			l.at = slices.Concat(at, []kernel.Index{key})
			l.store(s, l.coordsOf(core, s), perPoint)
		} else {
			l.at = slices.Concat(batch, []kernel.Index{time, head, row})
			l.store(s, l.coordsOf(core, s), perElement)
		}
	}
}
