package lower

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// inlineDerived makes results inline that cost only traffic: a few elementwise ops derive each from another stored
// value, and every kernel that reads the result loads that value anyway. FuseElementwise stores such results, because
// it decides about them before it knows that their argument is stored.
func (f *Fusion) inlineDerived() {
	f.findAllReaders()
	for _, n := range f.Graph.Nodes() {
		c := f.storedBy[n.ID()]
		// The cluster must have another node to store. Outputs, cores, and arguments of custom kernels and loops must
		// stay in memory.
		if c == nil || c.ranges != nil || len(c.tails) == 1 || f.required[n.ID()] || f.core[n.ID()] != nil ||
			f.feedsWhole(n) != nil {
			continue
		}
		if from := f.derivedFrom(n); from != nil && f.tryInline(n) {
			f.why[n.ID()] = fmt.Sprintf("inline: its readers load %s anyway, and derive it from that", from)
			f.findAllReaders()
		}
	}
}

// derivedFrom returns the only stored value from which elementwise ops compute n. It returns nil if there are several
// such values, if the ops cost more than [maxSharedFlops], or if a reader of n does not load the value, or would derive
// n several times.
func (f *Fusion) derivedFrom(n *ir.Node) (from *ir.Node) {
	flops, single := 0, true
	var visit func(x *ir.Node)
	visit = func(x *ir.Node) {
		switch {
		case isComputedLeaf(x): // costs no load
		case x != n && f.storedBy[x.ID()] != nil && x.Shape().Equal(n.Shape()):
			single = single && (from == nil || from == x)
			from = x
		case x.Op().Class() == ir.ClassElementwise && flops <= maxSharedFlops:
			flops += opCost(x.Op())
			for _, a := range x.Args() {
				visit(a)
			}
		default:
			single = false // n also needs this value
		}
	}
	visit(n)
	if !single || from == nil || flops > maxSharedFlops || f.overwrites(from) != nil {
		return nil
	}
	loading := f.readersOf(from)
	for _, r := range f.readersOf(n) {
		loads := r != f.storedBy[from.ID()] && slices.Contains(loading, r)
		if r != f.storedBy[n.ID()] && (!loads || r.readsInTiles() || r.readsInWindows()) {
			return nil
		}
	}
	return from
}

// tryInline makes n inline instead of stored, and reports whether all its readers can still be lowered. If not, n stays
// stored.
func (f *Fusion) tryInline(n *ir.Node) bool {
	c := f.storedBy[n.ID()]
	readers, tails := f.readersOf(n), c.tails
	c.tails = slices.DeleteFunc(slices.Clone(tails), func(t *ir.Node) bool { return t == n })
	f.storedBy[n.ID()] = nil
	fits := !slices.ContainsFunc(readers, func(r *Cluster) bool {
		k, err := f.tryLower(r)
		return err != nil || f.Limits.SizeOf(k) > f.Limits.Size
	})
	if !fits {
		c.tails, f.storedBy[n.ID()] = tails, c
	}
	for _, r := range append(readers, c) {
		r.inputs = nil // they may load other values than before
	}
	return fits
}
