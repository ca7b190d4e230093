package lower

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// newMark begins a search over nodes or clusters and returns its number. seenNode and seenCluster mark the visited
// nodes and clusters with the number, so that a search needs no set of its own.
func (f *Fusion) newMark() int {
	f.mark++
	return f.mark
}

// seenNode marks n as visited by a search, and reports whether the search had visited it before.
func (f *Fusion) seenNode(n *ir.Node, mark int) bool {
	f.Visits++
	seen := f.marks[n.ID()] == mark
	f.marks[n.ID()] = mark
	return seen
}

// seenCluster marks c as visited by a search, and reports whether the search had visited it before.
func (f *Fusion) seenCluster(c *Cluster, mark int) bool {
	f.Visits++
	seen := c.mark == mark
	c.mark = mark
	return seen
}

// clusterByID returns the cluster with an ID, or the cluster into which it was merged.
func (f *Fusion) clusterByID(id int) *Cluster {
	for f.mergedInto[id] != id {
		f.mergedInto[id] = f.mergedInto[f.mergedInto[id]] // halves the path for the next search
		id = f.mergedInto[id]
	}
	return f.Clusters[id]
}

// clusterList is a list of clusters without duplicates. It uses a search mark, so no other search may begin before the
// list is complete.
type clusterList struct {
	f    *Fusion
	mark int
	all  []*Cluster
}

// newList returns an empty list to which the clusters `but` are never added.
func (f *Fusion) newList(but ...*Cluster) *clusterList {
	l := &clusterList{f: f, mark: f.newMark()}
	for _, c := range but {
		f.seenCluster(c, l.mark)
	}
	return l
}

// add appends c to the list, unless c is nil, in the list or excluded.
func (l *clusterList) add(c *Cluster) {
	if c != nil && !l.f.seenCluster(c, l.mark) {
		l.all = append(l.all, c)
	}
}

// addReaders adds the clusters that compute n inline or load it.
func (l *clusterList) addReaders(n *ir.Node) {
	for _, id := range l.f.readers[n.ID()] {
		l.add(l.f.clusterByID(id))
	}
}

// findReaders records the readers of n: the clusters that load n or compute it inline. These are, for each user u of n,
// the cluster that stores u or has it as a core. If no cluster stores u, all readers of u are readers of n too, so
// findReaders must have run for the users of n before.
func (f *Fusion) findReaders(n *ir.Node) {
	l := f.newList()
	for _, u := range f.uses[n.ID()] {
		if !f.live[u.ID()] {
			continue
		}
		l.add(f.clusterOf(u)) // nil, and so not added, for an inline user
		if f.storedBy[u.ID()] == nil {
			l.addReaders(u)
		}
	}
	ids := f.readers[n.ID()][:0]
	for _, c := range l.all {
		ids = append(ids, c.ID)
	}
	f.readers[n.ID()] = ids
}

// findAllReaders records the readers of every node.
func (f *Fusion) findAllReaders() {
	nodes := f.Graph.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- { // users come before the nodes that they use
		if f.live[i] {
			f.findReaders(nodes[i])
		}
	}
}

// readersOf returns the clusters that compute n inline or load it.
func (f *Fusion) readersOf(n *ir.Node) []*Cluster {
	l := f.newList()
	l.addReaders(n)
	return l.all
}

// clusterOf returns the cluster that stores u or has it as a core, or nil if u is inline or a leaf.
func (f *Fusion) clusterOf(u *ir.Node) *Cluster {
	if c := f.storedBy[u.ID()]; c != nil {
		return c
	}
	return f.core[u.ID()]
}

// inputsOf returns the nodes that c loads and other clusters store. The first call fills in c.inputs, c.leaves and
// c.oldStates.
func (f *Fusion) inputsOf(c *Cluster) []*ir.Node {
	if c.inputs == nil {
		c.inputs, c.leaves, c.oldStates = []int{}, nil, nil
		f.visitLoads(c, 0, func(n *ir.Node) {
			if f.storedBy[n.ID()] != nil {
				c.inputs = append(c.inputs, n.ID())
				return
			}
			if !isComputedLeaf(n) {
				c.leaves = append(c.leaves, n.ID())
			}
			if f.firstWrites[n.ID()] != nil {
				c.oldStates = append(c.oldStates, n.ID())
			}
		})
	}
	list := make([]*ir.Node, len(c.inputs))
	for i, id := range c.inputs {
		list[i] = f.Graph.Nodes()[id]
	}
	return list
}

// visitLoads calls visit for the nodes that c loads: leaves, and nodes that other clusters store. It walks from the
// nodes that c stores to their arguments, and skips nodes with an ID below `from`.
func (f *Fusion) visitLoads(c *Cluster, from int, visit func(*ir.Node)) {
	mark := f.newMark()
	var walk func(n *ir.Node)
	walk = func(n *ir.Node) {
		if n.ID() < from || f.seenNode(n, mark) {
			return
		}
		owner := f.storedBy[n.ID()]
		if owner != nil && owner != c || analysis.IsLeaf(n) && owner == nil {
			visit(n)
			return
		}
		for _, a := range n.Args() {
			walk(a)
		}
	}
	for _, n := range c.tails {
		walk(n)
	}
	for _, n := range c.Cores {
		walk(n)
	}
}
