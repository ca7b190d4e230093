package lower

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// predecessors returns the clusters that must run before c: the clusters that store nodes that c loads and, if c
// overwrites a state, the clusters that read its old value.
func (f *Fusion) predecessors(c *Cluster) []*Cluster {
	inputs := f.inputsOf(c)
	l := f.newList(c)
	for _, n := range inputs {
		l.add(f.storedBy[n.ID()])
	}
	for _, n := range c.tails {
		if s := f.firstOverwriteOf(n); s != nil {
			l.addReaders(s)
		}
	}
	return l.all
}

// successors returns the clusters that must run after c.
func (f *Fusion) successors(c *Cluster) []*Cluster {
	f.inputsOf(c) // finds c.oldStates
	l := f.newList(c)
	for _, n := range c.tails {
		l.addReaders(n)
	}
	for _, state := range c.oldStates {
		l.add(f.storedBy[f.firstWrites[state].ID()])
	}
	return l.all
}

// overwrites returns the state or loop result that n overwrites in its buffer, or nil.
func (f *Fusion) overwrites(n *ir.Node) *ir.Node { return f.overwritten[n.ID()] }

// firstOverwriteOf returns the state that n is the first to overwrite, or nil if n is not such a node. No kernel may
// read the state's old value after n is stored.
func (f *Fusion) firstOverwriteOf(n *ir.Node) *ir.Node {
	if s := f.overwrites(n); s != nil && f.firstWrites[s.ID()] == n {
		return s
	}
	return nil
}

// maxSearch limits the clusters that a search for a path between two clusters visits. A search that exceeds it assumes
// that there is a path. The two are then not merged, which is always safe.
const maxSearch = 1000

// dependsOn reports whether a must run after b because of a path through other clusters. It searches only clusters with
// levels between the two.
func (f *Fusion) dependsOn(a, b *Cluster) bool {
	seen := map[*Cluster]bool{}
	next := f.predecessors(a)
	// direct says that next has the predecessors of a itself. One of them may be b; that is no path through others.
	for direct := true; len(next) > 0; direct = false {
		var list []*Cluster
		for _, p := range next {
			switch {
			case p == b && !direct:
				return true
			case p == b || seen[p] || p.level <= b.level:
				continue
			case len(seen) == maxSearch:
				return true
			}
			seen[p] = true
			list = append(list, f.predecessors(p)...)
		}
		next = list
	}
	return false
}

// dependsOnEarly reports whether a must run after b, during FuseElementwise, when clusters have no levels yet. `from`
// is the node that FuseElementwise is placing. It places nodes from last to first, so every node on a path from a to b
// comes after `from` in the graph.
func (f *Fusion) dependsOnEarly(a, b *Cluster, from *ir.Node) bool {
	seen := map[*Cluster]bool{a: true}
	next := []*Cluster{a}
	found := false
	add := func(p *Cluster) {
		found = found || p == b
		if p != nil && !seen[p] {
			seen[p] = true
			next = append(next, p)
		}
	}
	for len(next) > 0 && !found && len(seen) < maxSearch {
		c := next[len(next)-1]
		next = next[:len(next)-1]
		f.visitLoads(c, from.ID()+1, func(n *ir.Node) { add(f.storedBy[n.ID()]) })
		for _, n := range c.tails {
			if s := f.firstOverwriteOf(n); s != nil {
				f.visitReaders(s, from, add)
			}
		}
	}
	return found || len(next) > 0 // a search that exceeds maxSearch assumes a path
}

// visitReaders calls visit for the clusters that read a leaf, and may call it with nil. It is for FuseElementwise, when
// f.readers is complete only for nodes after `from`. For earlier inline nodes it follows the nodes that use them.
func (f *Fusion) visitReaders(leaf, from *ir.Node, visit func(*Cluster)) {
	mark := f.newMark()
	var walk func(n *ir.Node)
	walk = func(n *ir.Node) {
		if f.seenNode(n, mark) {
			return
		}
		for _, u := range f.uses[n.ID()] {
			if !f.live[u.ID()] {
				continue
			}
			visit(f.clusterOf(u))
			switch {
			case f.storedBy[u.ID()] != nil: // readers of u load u, and not the leaf
			case u.ID() <= from.ID(): // f.readers of u is not complete yet
				walk(u)
			default:
				for _, id := range f.readers[u.ID()] {
					visit(f.clusterByID(id))
				}
			}
		}
	}
	walk(leaf)
}

// sortClusters gives every cluster a level above the levels of its predecessors, and returns nil. If clusters depend on
// each other in cycles, it returns the clusters in cycles, each with the number of its cycle.
func (f *Fusion) sortClusters() map[*Cluster]int {
	// Kahn's algorithm. waiting has, for each cluster without a level, its number of predecessors without one.
	waiting := map[*Cluster]int{}
	var ready []*Cluster
	for _, c := range f.Clusters {
		c.level, c.inputs = 0, nil
	}
	for _, c := range f.Clusters {
		waiting[c] = len(f.predecessors(c))
		if waiting[c] == 0 {
			ready = append(ready, c)
		}
	}
	for len(ready) > 0 {
		c := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		delete(waiting, c)
		for _, s := range f.successors(c) {
			s.level = max(s.level, c.level+1)
			waiting[s]--
			if waiting[s] == 0 {
				ready = append(ready, s)
			}
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return f.cycles(waiting)
}

// cycles returns the clusters that depend on each other, with the number of their group. It looks only at the keys of
// among. Groups are the strongly connected components (Tarjan 1972) of more than one cluster.
func (f *Fusion) cycles(among map[*Cluster]int) map[*Cluster]int {
	groups := map[*Cluster]int{}
	// number is the order of the visits. low is the smallest number among the open clusters that a cluster can reach.
	number, low := map[*Cluster]int{}, map[*Cluster]int{}
	open := map[*Cluster]bool{}
	var stack []*Cluster
	var visit func(c *Cluster)
	visit = func(c *Cluster) {
		number[c] = len(number) + 1
		low[c] = number[c]
		stack, open[c] = append(stack, c), true
		for _, p := range f.predecessors(c) {
			if _, ok := among[p]; !ok {
				continue
			}
			if number[p] == 0 {
				visit(p)
				low[c] = min(low[c], low[p])
			} else if open[p] {
				low[c] = min(low[c], number[p])
			}
		}
		// c is in a group that began earlier.
		if low[c] != number[c] {
			return
		}
		at := slices.Index(stack, c)
		for _, m := range stack[at:] {
			open[m] = false
			if len(stack)-at > 1 {
				groups[m] = number[c]
			}
		}
		stack = stack[:at]
	}
	for _, c := range f.Clusters {
		if _, ok := among[c]; ok && number[c] == 0 {
			visit(c)
		}
	}
	return groups
}
