package lower

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// fuseMaps merges clusters that FuseElementwise leaves separate because it decides node by node. An elementwise cluster
// joins a row cluster that reads its result; the row kernel then also stores that result if others need it. Elementwise
// clusters over one shape become one if they read the same tensor, or one reads a result of the other.
func (f *Fusion) fuseMaps() {
	for _, row := range f.Clusters {
		if row != nil && row.Kind == ClusterRow {
			f.absorbPrologues(row)
		}
	}
	f.findSharers()
	for id := range f.Clusters {
		// joinMap puts the merged cluster in the place of c.
		for c := f.Clusters[id]; c != nil && c.Kind == ClusterMap && f.joinMap(c); c = f.Clusters[id] {
		}
	}
}

// absorbPrologues merges elementwise clusters into a row cluster that reads their results elementwise.
func (f *Fusion) absorbPrologues(row *Cluster) {
	if isWindowRow(row.Cores[0]) {
		return
	}
	for _, n := range f.inputsOf(row) {
		m := f.storedBy[n.ID()]
		if m.Kind != ClusterMap || !f.sharesPoints(m, row.Cores[0].Arg(0).Shape()) {
			continue
		}
		row = f.Clusters[row.ID] // the merged cluster, if the last round has merged
		if f.storedBy[n.ID()] == m && !f.dependsOn(row, m) {
			f.tryMerge(row, m)
		}
	}
}

// sharesPoints reports whether all stored nodes of a cluster have shape s, so that its kernel computes the same points
// as a kernel over s.
func (f *Fusion) sharesPoints(c *Cluster, s ir.Shape) bool {
	return !slices.ContainsFunc(c.tails, func(n *ir.Node) bool { return !n.Shape().Equal(s) })
}

// findSharers records, for each tensor, the elementwise clusters that store it or read it. A cluster counts as a reader
// only of tensors that are at least as large as its results (see largeInputs).
func (f *Fusion) findSharers() {
	f.sharers = make([][]int, len(f.Graph.Nodes()))
	for _, c := range f.Clusters {
		if c == nil || c.Kind != ClusterMap {
			continue
		}
		for _, n := range slices.Concat(f.largeInputs(c), c.tails) {
			f.sharers[n.ID()] = append(f.sharers[n.ID()], c.ID)
		}
	}
}

// sharersOf returns up to maxTries elementwise clusters that read or store n and can bind another buffer.
func (f *Fusion) sharersOf(n *ir.Node) []int {
	mark := f.newMark()
	var list []int
	closed := 0 // number of leading entries that were merged or are full, so that later searches may skip them
	for i, id := range f.sharers[n.ID()] {
		c := f.clusterByID(id)
		if c.Kind != ClusterMap || f.isFull(c) || f.seenCluster(c, mark) {
			if closed == i {
				closed++
			}
			continue
		}
		list = append(list, c.ID)
		if len(list) == maxTries {
			break
		}
	}
	f.sharers[n.ID()] = f.sharers[n.ID()][closed:]
	return list
}

// isFull reports whether a cluster binds as many buffers as a kernel may.
func (f *Fusion) isFull(c *Cluster) bool {
	return len(f.inputsOf(c))+len(c.leaves)+len(c.tails) >= f.Limits.Bindings
}

// joinMap merges one elementwise cluster into c, and reports whether it could. The other cluster must have the same
// shape, and read a tensor of that shape that c reads or stores.
func (f *Fusion) joinMap(c *Cluster) bool {
	shape := c.tails[0].Shape()
	var others []int // clusters that store or read the same tensors as c
	for _, n := range slices.Concat(f.largeInputs(c), c.tails) {
		if !f.isFull(c) {
			others = append(others, f.sharersOf(n)...)
		}
		if h := f.storedBy[n.ID()]; h != nil && h != c {
			others = append(others, h.ID)
		}
	}
	slices.Sort(others)
	for _, id := range slices.Compact(others) {
		q := f.clusterByID(id)
		if q == c || q.Kind != ClusterMap || !f.sharesPoints(q, shape) || !f.shareTensor(c, q) {
			continue
		}
		if f.dependsOn(c, q) {
			continue
		}
		if f.tryMerge(c, q) == "" {
			return true
		}
		if f.Clusters[c.ID].tries >= maxTries {
			return false
		}
	}
	return false
}

// shareTensor reports whether two clusters read the same tensor (see largeInputs), or one reads a result of the other.
func (f *Fusion) shareTensor(c, q *Cluster) bool {
	a, b := f.largeInputs(c), f.largeInputs(q)
	return slices.ContainsFunc(a, func(n *ir.Node) bool { return slices.Contains(b, n) || f.storedBy[n.ID()] == q }) ||
		slices.ContainsFunc(b, func(n *ir.Node) bool { return f.storedBy[n.ID()] == c })
}

// largeInputs lists the tensors in memory that c reads, except tensors with fewer elements than c's results.
func (f *Fusion) largeInputs(c *Cluster) []*ir.Node {
	var list []*ir.Node
	seen := map[int]bool{}
	full := c.tails[0].Shape().MaxElems()
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		if seen[n.ID()] {
			return
		}
		seen[n.ID()] = true
		if by := f.storedBy[n.ID()]; analysis.IsLeaf(n) || by != nil && by != c { // n is in memory
			if n.Op() != ir.OpIota && n.Shape().MaxElems() >= full {
				list = append(list, n)
			}
			return
		}
		for _, a := range n.Args() {
			visit(a)
		}
	}
	for _, n := range c.tails {
		visit(n)
	}
	return list
}
