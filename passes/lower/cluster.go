package lower

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// A value is recomputed by each of its readers instead of being stored if it is within these limits.
const (
	// If several kernels need the same value, each computes it, provided that an element costs at most maxSharedFlops
	// operations and reads at most one tensor.
	maxSharedFlops = 8
	// maxOperandFlops limits the cost of an operand's element that is computed again each time: by a matmul once per
	// tile, and by a pooling once per window. An element that costs more operations is stored.
	maxOperandFlops = 4
	// A matmul computes an operand from at most maxOperandLoads tensors.
	maxOperandLoads = 2
)

// FuseElementwise makes the initial clusters. Each core (see [Cluster]) and each output or update gets a cluster that
// stores it. Every other node is computed inline in the clusters that need it, or stored if that is cheaper. A stored
// elementwise node joins a cluster of the same shape that reads it.
func (f *Fusion) FuseElementwise() error {
	nodes := f.Graph.Nodes()
	for _, n := range nodes {
		if f.live[n.ID()] && isCore(n) && f.writesBlocks(n) == nil && !(isRecurrence(n) && f.joinRecurrence(n)) {
			f.newCluster(clusterKind(n), n)
		}
	}
	f.placeCustom()
	f.placeLoops()
	f.placeUpdates()
	// Backwards, so that all users of a node are placed before the node itself.
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		if !f.live[i] {
			continue
		}
		if err := f.ctx.Err(); err != nil {
			return err
		}
		f.findReaders(n)
		if f.storedBy[i] == nil && !f.isUnstoredLeaf(n) {
			f.place(n)
		}
		if f.storedBy[i] == nil && f.core[i] == nil {
			f.addInlineSize(n)
		}
	}
	for _, u := range f.Graph.Updates() {
		if why := f.states.Whole[u.State]; why != "" {
			f.why[u.Value.ID()] = fmt.Sprintf("state %q is written whole: %s", u.State.Name(), why)
		}
	}
	if err := f.cutIndices(); err != nil {
		return err
	}
	f.cutBindings()
	return f.separateOverwrites()
}

// placeUpdates makes a cluster of each write into a state in place.
func (f *Fusion) placeUpdates() {
	for _, u := range f.Graph.Updates() {
		for _, n := range f.states.InPlace[u.State] {
			c := f.newCluster(ClusterUpdate, n)
			w, _ := analysis.WriteOf(n)
			// The kernel that quantizes the written rows also writes them into the state.
			if f.writesBlocks(w.Values()) != nil {
				c.Cores = []*ir.Node{w.Values()}
				f.core[w.Values().ID()] = c
			}
			f.why[n.ID()] = fmt.Sprintf("written into state %q in place", u.State.Name())
		}
	}
}

// clusterKind returns the kind of a cluster with core n.
func clusterKind(n *ir.Node) ClusterKind {
	switch {
	case n.Op().Class() == ir.ClassAttention:
		return ClusterAttention
	case isMatMul(n) && !isWindowRow(n) || isConv(n):
		return ClusterMatMul
	case n.Op().Info().Running != 0:
		return ClusterScan
	case isOrder(n):
		return ClusterSort
	case isRecurrence(n):
		return ClusterRecurrence
	case n.Op() == ir.OpExpertGroups:
		return ClusterGroup
	case n.Op() == ir.OpQuantize:
		return ClusterQuantize
	}
	return ClusterRow
}

// separateOverwrites finds the kernels that must not write a state's new value into the state's buffer, because other
// invocations of the kernel, or the update of another state, still read the old elements. It makes such a kernel store
// the value in a buffer of its own, and adds a kernel that copies it to the state.
func (f *Fusion) separateOverwrites() error {
	for _, u := range f.Graph.Updates() {
		c := f.storedBy[u.Value.ID()]
		if c.Kind == ClusterUpdate {
			continue
		}
		if _, err := f.tryLower(c); errors.Is(err, errOverwrites) {
			f.splitOffCopy(c, u.Value)
		}
	}
	apart := map[*ir.Node]bool{} // new values with a cluster that only copies them
	for {
		f.findAllReaders()
		cycles := f.sortClusters()
		if cycles == nil {
			return nil
		}
		split := map[int]bool{} // numbers of cycles that are already broken
		for _, u := range f.Graph.Updates() {
			c := f.storedBy[u.Value.ID()]
			if i, ok := cycles[c]; ok && !split[i] && c.Kind != ClusterUpdate && !apart[u.Value] {
				split[i], apart[u.Value] = true, true
				f.splitOffCopy(c, u.Value)
			}
		}
		if len(split) == 0 {
			return f.cycleError(cycles)
		}
	}
}

// cycleError returns an error for clusters in a dependency cycle, which is a bug in fusion.
func (f *Fusion) cycleError(cycles map[*Cluster]int) error {
	var names []string
	for c := range cycles {
		names = append(names, c.name())
	}
	slices.Sort(names)
	return fmt.Errorf("internal error: kernels wait for one another: %s", strings.Join(names, ", "))
}

// splitOffCopy leaves in cluster c only the node copied, which copies a value to a state. The copied value and
// everything else that c stores move to a new cluster, which runs first.
func (f *Fusion) splitOffCopy(c *Cluster, copied *ir.Node) {
	f.why[copied.ID()] = fmt.Sprintf("%s; a kernel of its own copies it: %s", f.why[copied.ID()], errOverwrites)
	value := copied.Arg(0)
	others := slices.DeleteFunc(c.tails, func(n *ir.Node) bool { return n == copied || n == value })
	c.tails = []*ir.Node{copied}
	first := f.newCluster(ClusterMap, value)
	for _, n := range others {
		first.tails = append(first.tails, n)
		f.storedBy[n.ID()] = first
	}
}

// isUnstoredLeaf reports whether n is a leaf that no cluster must store. A cluster must store a leaf that is itself an
// output or a state's new value, and a computed one (iota, dim_value) that a custom kernel or loop reads from memory.
func (f *Fusion) isUnstoredLeaf(n *ir.Node) bool {
	computed := n.Op() == ir.OpIota || n.Op() == ir.OpDimValue
	return analysis.IsLeaf(n) && !f.required[n.ID()] && !(computed && f.feedsWhole(n) != nil)
}

// place decides whether a node that is no core is stored or computed inline. All its users must be placed before.
func (f *Fusion) place(n *ir.Node) {
	users := f.readersOf(n)
	if f.required[n.ID()] {
		f.store(n, users, "an output, a state or a loop needs it in memory")
		return
	}
	if u := f.feedsWhole(n); u != nil {
		f.store(n, users, fmt.Sprintf("%s reads it from memory", u.Op()))
		return
	}
	if isFree(n) && !isView(n) {
		f.why[n.ID()] = "inline: computing it costs no more than loading it"
		return
	}
	if c := f.overfilled(n); c != nil {
		f.newCluster(ClusterMap, n)
		f.why[n.ID()] = fmt.Sprintf("stored: the kernel of %s would grow too large", c.name())
		return
	}
	if isView(n) {
		f.why[n.ID()] = "inline: it only moves elements"
		return
	}
	flops, loads := f.cost(n)
	if f.placeInLoop(n, users, flops > maxOperandFlops || loads > maxOperandLoads) {
		return
	}
	isFixed := !slices.ContainsFunc(n.Args(), f.varies)
	switch {
	case slices.ContainsFunc(users, (*Cluster).readsInTiles) && f.isEpilogue(n):
		f.store(n, users, "the matmul before it can store it instead of its own result")
	case n.Op() == ir.OpConcat && n.Rank() == 1 && isFixed: // such as the biases of merged matmuls
		f.store(n, users, "it depends on weights alone, so it is computed once")
	case len(users) <= 1:
		f.why[n.ID()] = "inline: one kernel uses it"
	case flops <= maxSharedFlops && loads <= 1:
		f.why[n.ID()] = fmt.Sprintf("inline in %d kernels: computing it costs no more than loading it", len(users))
	default:
		f.store(n, users, fmt.Sprintf("%d kernels use it", len(users)))
	}
}

// placeInLoop decides whether to store n if the kernel of a user would compute each element of n several times.
// expensive says that computing an element takes longer than loading it. The result is true if placeInLoop decided: n
// is then stored, or is a sum of halves that a matmul adds inline (see partOfHalfSum). It is false if there is no such
// user, or if computing n again is cheap.
func (f *Fusion) placeInLoop(n *ir.Node, users []*Cluster, expensive bool) bool {
	inline, stored := f.partOfHalfSum(n)
	for _, c := range users {
		switch {
		case c.readsInTiles() && isRounding(n):
			f.store(n, users, fmt.Sprintf("%s reads int8 operands from memory", c.name()))
		case c.Kind == ClusterMatMul && stored:
			f.store(n, users, fmt.Sprintf("%s reads the halves of an operand from memory", c.name()))
		case c.Kind == ClusterMatMul && inline:
			f.why[n.ID()] = "inline: a matmul adds the halves of its operand itself"
		case expensive && c.readsInTiles():
			f.store(n, users, fmt.Sprintf("%s would compute it again for each tile", c.name()))
		case expensive && c.readsInWindows():
			f.store(n, users, fmt.Sprintf("%s would compute it again for each window", c.name()))
		default:
			continue
		}
		return true
	}
	return false
}

// varies reports whether n may have another value in each run: it depends on more than weights and constants.
func (f *Fusion) varies(n *ir.Node) bool {
	if analysis.IsLeaf(n) {
		return !analysis.IsFixed(n)
	}
	return f.storedBy[n.ID()] != nil || slices.ContainsFunc(n.Args(), f.varies)
}

// isEpilogue reports whether n is computed from the result of a matmul element by element, and nothing else reads this
// result. The matmul's kernel can then store n instead of the result, and computes each element of n once.
func (f *Fusion) isEpilogue(n *ir.Node) bool {
	for x := n; ; {
		var from *ir.Node // the only argument of x with an element for each element of x, or nil
		switch {
		case x.Op() == ir.OpReshape:
			from = x.Arg(0)
		case x.Op().Class() == ir.ClassElementwise:
			for _, a := range x.Args() {
				if analysis.IsLeaf(a) || !a.Shape().Equal(x.Shape()) {
					continue
				}
				if from != nil && from != a {
					return false
				}
				from = a
			}
		}
		if from == nil || f.required[from.ID()] || len(f.uses[from.ID()]) != 1 {
			return false
		}
		if c := f.core[from.ID()]; c != nil {
			// A wider dtype than the result's would cost memory traffic.
			return c.Kind == ClusterMatMul && from.DType().BlockBytes() >= n.DType().BlockBytes()
		}
		x = from
	}
}

// isRounding reports whether n casts floats to int8.
func isRounding(n *ir.Node) bool {
	return n.Op() == ir.OpCast && n.DType() == ir.I8 && n.Arg(0).DType().IsFloat()
}

// addsHalves reports whether n adds two f32 values that are each rounded to f16. Such a sum of two halves represents an
// f32 operand of a matmul with about twice the bits of f16.
func addsHalves(n *ir.Node) bool {
	isCast := func(n *ir.Node, t ir.DType) bool { return n.Op() == ir.OpCast && n.DType() == t }
	return n.Op() == ir.OpAdd && n.DType() == ir.F32 && !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool {
		return !isCast(a, ir.F32) || !isCast(a.Arg(0), ir.F16) || a.Arg(0).Arg(0).DType() != ir.F32
	})
}

// partOfHalfSum reports whether n is a part of a sum of halves, the form cast(a) + cast(b) with f16 values a and b (see
// addsHalves). inline is true for the sum and for the two casts, which a matmul computes inline. stored is true for a
// and b, which a kernel stores for the matmul.
func (f *Fusion) partOfHalfSum(n *ir.Node) (inline, stored bool) {
	isTerm := func(n *ir.Node) bool { return slices.ContainsFunc(f.uses[n.ID()], addsHalves) }
	isCast := n.Op() == ir.OpCast
	inline = addsHalves(n) || isCast && n.DType() == ir.F32 && isTerm(n)
	stored = isCast && n.DType() == ir.F16 && slices.ContainsFunc(f.uses[n.ID()], isTerm)
	return inline, stored
}

// readsInTiles reports whether several workgroups of c read the same elements of an operand, and so would compute them
// several times.
func (c *Cluster) readsInTiles() bool {
	return c.Kind == ClusterMatMul || c.Kind == ClusterAttention
}

// readsInWindows reports whether several windows of c read the same elements of its argument, and so would compute them
// several times.
func (c *Cluster) readsInWindows() bool {
	return len(c.Cores) > 0 && isWindowRow(c.Cores[0]) && windowsShare(c.Cores[0])
}

// name returns the cluster's name in messages: its first core, or else its first stored node.
func (c *Cluster) name() string {
	if len(c.Cores) > 0 {
		return c.Cores[0].String()
	}
	return c.tails[0].String()
}

// store makes a cluster store n. If a map cluster among the users has n's shape and uses each element of n at the
// element's own coordinates, store takes that cluster. Otherwise it makes a new cluster. why is the reason, for people.
func (f *Fusion) store(n *ir.Node, users []*Cluster, why string) {
	f.why[n.ID()] = "stored: " + why
	for _, c := range users {
		if c.Kind != ClusterMap || !c.tails[0].Shape().Equal(n.Shape()) || !f.identityIn(n, c) {
			continue
		}
		// c waits for o, another user of n. If c stored n, o would wait for c too.
		if slices.ContainsFunc(users, func(o *Cluster) bool { return o != c && f.dependsOnEarly(c, o, n) }) {
			continue
		}
		if c.size+f.weighNode(n) > f.Limits.Size {
			continue
		}
		c.tails = append(c.tails, n)
		c.size += f.weighNode(n)
		f.storedBy[n.ID()] = c
		return
	}
	f.newCluster(ClusterMap, n)
}

// identityIn reports whether c uses element i of n only to compute element i of its stored nodes: all nodes in between
// are elementwise ops or copies, with n's shape.
func (f *Fusion) identityIn(n *ir.Node, c *Cluster) bool {
	mark := f.newMark()
	var keeps func(n *ir.Node) bool // whether the users of n in c do so
	keeps = func(n *ir.Node) bool {
		for _, u := range f.uses[n.ID()] {
			if !f.live[u.ID()] {
				continue
			}
			owner := f.clusterOf(u) // nil if u is inline
			inOther := owner != nil && owner != c || owner == nil && !slices.Contains(f.readersOf(u), c)
			if inOther {
				continue
			}
			if u.Op() == ir.OpAfter && u.Arg(1) == n {
				return false // it needs all of n, even if it also uses n through its other argument
			}
			if f.seenNode(u, mark) {
				continue
			}
			if u.Op().Class() != ir.ClassElementwise && u.Op() != ir.OpReshape || !u.Shape().Equal(n.Shape()) {
				return false
			}
			if owner == nil && !keeps(u) {
				return false
			}
		}
		return true
	}
	return keeps(n)
}

// maxCost limits the estimates of cost. A node with this cost is never recomputed.
const maxCost = 100

// cost estimates the cost of computing one element of n from stored values: the number of arithmetic operations, up to
// maxCost, and the number of tensors read. It ignores values with less than 1/16 of n's elements, because each of them
// serves many elements of n.
func (f *Fusion) cost(n *ir.Node) (flops, loads int) {
	mark := f.newMark()
	full := n.Shape().MaxElems()
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		if flops >= maxCost || f.seenNode(n, mark) {
			return
		}
		if analysis.IsLeaf(n) || f.storedBy[n.ID()] != nil || isRounding(n) {
			if !isComputedLeaf(n) && n.Shape().MaxElems()*16 > full {
				loads++
			}
			return
		}
		if n.Shape().MaxElems()*16 > full {
			flops += opCost(n.Op())
		}
		for _, a := range n.Args() {
			visit(a)
		}
	}
	// n itself always counts as computed, even if a cluster stores it.
	f.seenNode(n, mark)
	flops = opCost(n.Op())
	for _, a := range n.Args() {
		visit(a)
	}
	return flops, loads
}

// isComputedLeaf reports whether a kernel knows the elements of leaf n without a load, such as an iota's.
func isComputedLeaf(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpIota, ir.OpDimValue:
		return true
	case ir.OpConst:
		if n.Shape().MaxElems() == 1 {
			_, ok := n.Number()
			return ok
		}
	}
	return false
}

// opCost returns a rough number of arithmetic operations per element.
func opCost(op ir.Op) int {
	if cost := op.Info().Cost; cost > 0 {
		return cost
	}
	switch op.Class() {
	case ir.ClassView, ir.ClassLeaf:
		return 0
	case ir.ClassIndexing:
		return 2
	}
	return 1
}

// FuseEpilogues completes the clusters in three steps. It merges clusters that read the result of a matmul or row
// cluster into that cluster: elementwise clusters, and row clusters over the same rows. It merges elementwise clusters
// with each other and into row clusters that read them. It makes cheap results inline. It returns an error if the
// context ends.
func (f *Fusion) FuseEpilogues() error {
	for changed := true; changed; {
		changed = false
		for id := range f.Clusters {
			// absorbOne puts the merged cluster in the place of c.
			for c := f.Clusters[id]; c != nil && len(c.Cores) > 0 && f.absorbOne(c); c = f.Clusters[id] {
				changed = true
			}
		}
	}
	f.fuseMaps()
	// A merge fails once the context has ended, so the loops above end soon after it.
	if err := f.ctx.Err(); err != nil {
		return err
	}
	f.inlineDerived()
	f.finalize()
	return nil
}

// absorbOne merges one cluster that reads a result of c into c, and reports whether it could.
func (f *Fusion) absorbOne(c *Cluster) bool {
	// A merge changes the list of tails.
	for _, n := range slices.Clone(c.tails) {
		for _, q := range f.readersOf(n) {
			if q == c {
				continue
			}
			if why := f.tryMerge(c, q); why != "" {
				f.why[n.ID()] = "stored: " + why
				continue
			}
			return true
		}
	}
	return false
}

// tryMerge merges cluster q into c. If it cannot, it returns the reason.
func (f *Fusion) tryMerge(c, q *Cluster) string {
	if why, ok := f.refused[pair{c, q}]; ok {
		return why
	}
	switch {
	case c.ranges != nil || q.ranges != nil:
		return "several kernels write the parts of a concat"
	case c.tries >= maxTries || q.tries >= maxTries:
		return fmt.Sprintf("%d merges with other kernels have failed", maxTries)
	case cmp.Or(neverMerged[c.Kind], neverMerged[q.Kind]) != "":
		return cmp.Or(neverMerged[c.Kind], neverMerged[q.Kind])
	case q.Kind != ClusterMap && q.Kind != c.Kind, q.Kind == ClusterAttention, q.Kind == ClusterRecurrence:
		return fmt.Sprintf("%s needs a loop of its own", q.name())
	case q.Kind != ClusterMap && !sameLoop(c, q):
		return fmt.Sprintf("%s needs a different loop", q.name())
	case f.dependsOn(q, c):
		return fmt.Sprintf("another kernel must run between it and %s", q.name())
	}
	merged := &Cluster{ID: c.ID, Kind: c.Kind, level: max(c.level, q.level), tries: max(c.tries, q.tries),
		Cores: slices.Concat(c.Cores, q.Cores), tails: slices.Concat(c.tails, q.tails)}
	slices.SortFunc(merged.Cores, func(a, b *ir.Node) int { return a.ID() - b.ID() })
	f.adopt(merged) // tryLower needs the nodes' new cluster
	k, err := f.tryLower(merged)
	if err == nil {
		if size := f.Limits.SizeOf(k); size > f.Limits.Size {
			err = fmt.Errorf("one kernel for both would have size %d, but the limit is %d", size, f.Limits.Size)
		}
	}
	if err != nil {
		// Undo: the nodes belong to their own clusters again.
		f.adopt(c)
		f.adopt(q)
		c.tries++
		q.tries++
		f.refused[pair{c, q}] = err.Error()
		return err.Error()
	}
	f.Clusters[q.ID] = nil
	f.mergedInto[q.ID] = c.ID
	f.raise(merged)
	return ""
}

// neverMerged has the kinds of clusters that never merge with others, with the reason.
var neverMerged = map[ClusterKind]string{
	ClusterCustom:   "a custom kernel cannot be fused",
	ClusterLoop:     "a loop has kernels of its own",
	ClusterGroup:    "op expert_groups has a kernel of its own",
	ClusterQuantize: "op quantize has a kernel of its own",
	ClusterUpdate:   "a write into a state has a kernel of its own",
}

// maxTries limits the failed attempts to merge a cluster with others.
const maxTries = 64

// adopt enters cluster c into the tables of f: under its ID, under each node that it may store (tails), and under each
// node that determines the kind of its kernel (Cores). tryMerge also uses it to restore a cluster after a merge that
// failed.
func (f *Fusion) adopt(c *Cluster) {
	f.Clusters[c.ID] = c
	for _, n := range c.tails {
		f.storedBy[n.ID()] = c
	}
	for _, n := range c.Cores {
		f.core[n.ID()] = c
	}
}

// raise restores the order of levels after a merge: it raises the level of the merged cluster above the levels of its
// predecessors, and the levels of its direct and indirect successors above its own.
func (f *Fusion) raise(merged *Cluster) {
	for _, p := range f.predecessors(merged) {
		merged.level = max(merged.level, p.level+1)
	}
	next := []*Cluster{merged}
	for len(next) > 0 {
		c := next[len(next)-1]
		next = next[:len(next)-1]
		for _, s := range f.successors(c) {
			if s.level <= c.level {
				s.level = c.level + 1
				next = append(next, s)
			}
		}
	}
}

// sameLoop reports whether the cores of two clusters can share one loop: reductions along the same axes of tensors of
// the same shape, or matmuls of the same left operand with matrices of the same shape.
func sameLoop(c, q *Cluster) bool {
	a, b := c.Cores[0], q.Cores[0]
	switch {
	case c.Kind == ClusterScan, c.Kind == ClusterSort:
		return false
	case a.Op().Class() == ir.ClassWindow, b.Op().Class() == ir.ClassWindow:
		return false
	case c.Kind == ClusterRow:
		return a.Arg(0).Shape().Equal(b.Arg(0).Shape()) && slices.Equal(analysis.FoldedAxes(a), analysis.FoldedAxes(b))
	case len(c.Cores)+len(q.Cores) > maxMatMuls:
		return false
	case a.Op() == ir.OpMatMulID, b.Op() == ir.OpMatMulID:
		return sameExperts(a, b)
	}
	return a.Arg(0) == b.Arg(0) && a.Shape().Equal(b.Shape()) &&
		!addsHalves(a.Arg(0)) && // two kernels are faster (M-halves)
		a.Attrs().Bool("transpose_a") == b.Attrs().Bool("transpose_a") && analysis.Precision(a) == analysis.Precision(b)
}

// maxMatMuls limits the matmuls in one kernel: each needs registers for a tile of results.
const maxMatMuls = 2
