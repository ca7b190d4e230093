package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Fusion says which nodes of a graph become which kernels. A node is either a
// leaf (it has a buffer of its own from the start), stored (some cluster
// computes it into a buffer), or inline (every cluster that needs it computes
// it anew, at the coordinates it needs).
//
// What fusion asks again and again is kept and not found anew: who evaluates a
// node, which clusters wait for which. The work is then in proportion to the
// graph, whatever its form.
type Fusion struct {
	Graph    *ir.Graph
	Clusters []*Cluster // in no particular order until they are scheduled
	values   *values

	lowerBody func(g *ir.Graph) (*State, error) // takes the body of a loop as far as kernels
	bodies    []*State                          // by kernel.Loop.Body

	ctx    context.Context // checked wherever a kernel is lowered
	limits Limits
	home   []*Cluster // by node: the cluster that stores it
	core   []*Cluster // by node: the cluster that has it as a core
	live   []bool
	uses   [][]*ir.Node
	why    map[int]string // by node: what stopped or made its fusion

	required    []bool           // by node: an output or update needs it in a buffer
	overwritten map[int]*ir.Node // by value that lies in the buffer of another: a state, or a result of a loop
	firsts      map[int]*ir.Node // by state: the first such value
	states      *overwrites

	slots   []int           // by cluster ID: the ID of the cluster that it was merged into
	readers [][]int         // by node: IDs of the clusters that compute or load it; see findReaders
	places  [][]at          // by inline node: where it is computed
	sharers [][]int         // by node: IDs of the elementwise clusters that read or store it
	refused map[pair]string // clusters that do not merge, as they are, and why
	marks   []int           // by node: the last search that has seen it
	mark    int
	visits  int // of nodes and clusters by all searches: how much work fusion was
}

// pair is two clusters as they are; a merged one is another.
type pair struct{ c, q *Cluster }

// ClusterKind says what the heart of a cluster is.
type ClusterKind uint8

// The cluster kinds.
const (
	ClusterMap       ClusterKind = iota // elementwise, gathers, copies
	ClusterRow                          // reductions and row ops
	ClusterMatMul                       // matrix products
	ClusterScan                         // running folds
	ClusterSort                         // orders of rows
	ClusterAttention                    // attentions
	ClusterGroup                        // positions grouped by what they hold
	ClusterQuantize                     // blocks
	ClusterUpdate                       // a slice of a state written in place
	ClusterCustom                       // a kernel of the user's own
	ClusterLoop                         // a loop, which has kernels of its own
)

var clusterKindNames = [...]string{"map", "row", "matmul", "scan", "sort", "attention", "group", "quantize",
	"update", "custom", "loop"}

// String returns the kind's name in fusion reports.
func (k ClusterKind) String() string { return clusterKindNames[k] }

// Cluster is a set of nodes that become one kernel.
type Cluster struct {
	ID    int
	Kind  ClusterKind
	Cores []*ir.Node // reductions, row ops, products or scans, in graph order
	// Stored are the nodes that it writes to buffers, in graph order.
	Stored []*ir.Node
	Body   *State // of a loop, once it is lowered: what it runs again and again
	// tails are nodes that may have to be stored: cores and absorbed outputs.
	tails []*ir.Node
	// runs, where set, are the arguments of a concat that the cluster stores, as
	// ranges: each gets a kernel of its own, which stores its part of the result.
	runs [][2]int

	size   int   // an estimate of what its kernel takes to compile; see Limits.Size
	tries  int   // how many merges with others have been lowered in vain
	leaves []int // that it reads
	level  int   // greater than those of all clusters that it waits for
	inputs []int // nodes of other clusters that it loads; nil until somebody asks
	olds   []int // states that it reads and another cluster overwrites
	mark   int   // the last search that has seen it
}

func newFusion(ctx context.Context, g *ir.Graph, limits Limits) *Fusion {
	n := len(g.Nodes())
	f := &Fusion{
		Graph:       g,
		ctx:         ctx,
		limits:      limits.orDefault(),
		values:      newValues(g),
		home:        make([]*Cluster, n),
		core:        make([]*Cluster, n),
		live:        g.Live(),
		uses:        g.Users(),
		why:         map[int]string{},
		required:    make([]bool, n),
		overwritten: map[int]*ir.Node{},
		firsts:      map[int]*ir.Node{},
		states:      newOverwrites(g, true),
		readers:     make([][]int, n),
		places:      make([][]at, n),
		refused:     map[pair]string{},
		marks:       make([]int, n),
	}
	for _, o := range g.Outputs() {
		f.required[o.Node.ID()] = true
	}
	for _, u := range g.Updates() {
		values := f.states.inPlace[u.State]
		if values == nil {
			values = []*ir.Node{u.Value}
		}
		for _, n := range values {
			f.required[n.ID()], f.overwritten[n.ID()] = true, u.State
			f.firsts[u.State.ID()] = n
		}
		for _, e := range f.states.takenBy(f.states.inPlace[u.State]) {
			f.required[e.value.ID()] = f.required[e.value.ID()] || isCopy(e.value)
		}
	}
	return f
}

// Why returns what was decided about n and the reason, for a reader.
func (f *Fusion) Why(n *ir.Node) string { return f.why[n.ID()] }

func (f *Fusion) newCluster(kind ClusterKind, n *ir.Node) *Cluster {
	c := &Cluster{ID: len(f.Clusters), Kind: kind}
	switch kind {
	case ClusterRow, ClusterMatMul, ClusterScan, ClusterSort, ClusterAttention, ClusterGroup, ClusterQuantize:
		c.Cores = []*ir.Node{n}
		f.core[n.ID()] = c
	}
	c.tails = []*ir.Node{n}
	c.size = f.weighNode(n) * kind.copies()
	f.Clusters = append(f.Clusters, c)
	f.slots = append(f.slots, c.ID)
	f.home[n.ID()] = c
	return c
}

// isLeaf reports whether n has a buffer of its own, or is made from nothing.
func isLeaf(n *ir.Node) bool { return n.Op().Class() == ir.ClassLeaf || isPacked(n) }

// isPacked reports whether n joins whole weights along their outermost axis:
// such a concat is a weight buffer of several segments, not a computation.
func isPacked(n *ir.Node) bool {
	if n.Op() != ir.OpConcat || n.Attrs().Int("axis") != 0 {
		return false
	}
	for _, a := range n.Args() {
		if a.Op() != ir.OpWeight {
			return false
		}
	}
	return true
}

// isCore reports whether n needs a loop of its own.
func isCore(n *ir.Node) bool {
	switch n.Op().Class() {
	case ir.ClassReduce, ir.ClassContraction, ir.ClassAttention:
		return true
	case ir.ClassRow:
		return n.Op() != ir.OpRope
	}
	return n.Op().Info().Running != 0 || n.Op() == ir.OpExpertGroups || n.Op() == ir.OpQuantize || isOrder(n) ||
		isConv(n) || isWindowRow(n)
}

// isView reports whether n is only an index map.
func isView(n *ir.Node) bool { return n.Op().Class() == ir.ClassView }

// isFree reports whether computing n anew costs no more than loading it.
func isFree(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpDequantize:
		return true
	case ir.OpCast:
		return isFree(n.Arg(0)) || isLeaf(n.Arg(0)) && n.Arg(0).Op() != ir.OpInput
	}
	return isView(n) && isFree(n.Arg(0)) || isLeaf(n)
}

// newMark begins a search over nodes or clusters.
func (f *Fusion) newMark() int {
	f.mark++
	return f.mark
}

// seenNode reports whether a search has come to n before, and notes that it has.
func (f *Fusion) seenNode(n *ir.Node, mark int) bool {
	f.visits++
	seen := f.marks[n.ID()] == mark
	f.marks[n.ID()] = mark
	return seen
}

// seenCluster is seenNode for a cluster.
func (f *Fusion) seenCluster(c *Cluster, mark int) bool {
	f.visits++
	seen := c.mark == mark
	c.mark = mark
	return seen
}

// slot returns the cluster that the one of an ID is part of by now.
func (f *Fusion) slot(id int) *Cluster {
	for f.slots[id] != id {
		f.slots[id] = f.slots[f.slots[id]] // halves the way for the next search
		id = f.slots[id]
	}
	return f.Clusters[id]
}

// findReaders notes which clusters compute or load n: those of its users that
// are stored or cores, and those of users that are inline. Users come first.
func (f *Fusion) findReaders(n *ir.Node) {
	mark := f.newMark()
	list := f.readers[n.ID()][:0]
	add := func(c *Cluster) {
		if !f.seenCluster(c, mark) {
			list = append(list, c.ID)
		}
	}
	for _, u := range f.uses[n.ID()] {
		if !f.live[u.ID()] {
			continue
		}
		if c := f.coreOrHome(u); c != nil {
			add(c)
		}
		if f.home[u.ID()] == nil {
			for _, id := range f.readers[u.ID()] {
				add(f.slot(id))
			}
		}
	}
	f.readers[n.ID()] = list
}

// evaluators returns the clusters that compute or load n through inline
// nodes.
func (f *Fusion) evaluators(n *ir.Node) []*Cluster {
	mark := f.newMark()
	var list []*Cluster
	for _, id := range f.readers[n.ID()] {
		if c := f.slot(id); !f.seenCluster(c, mark) {
			list = append(list, c)
		}
	}
	return list
}

// coreOrHome returns the cluster that stores u or has it as a core.
func (f *Fusion) coreOrHome(u *ir.Node) *Cluster {
	if c := f.home[u.ID()]; c != nil {
		return c
	}
	return f.core[u.ID()]
}

// inputsOf returns the stored nodes of other clusters that c loads.
func (f *Fusion) inputsOf(c *Cluster) []*ir.Node {
	if c.inputs == nil {
		c.inputs, c.leaves, c.olds = []int{}, nil, nil
		f.visitCone(c, 0, func(n *ir.Node) {
			if f.home[n.ID()] != nil {
				c.inputs = append(c.inputs, n.ID())
				return
			}
			if !isComputedLeaf(n) {
				c.leaves = append(c.leaves, n.ID())
			}
			if f.firsts[n.ID()] != nil {
				c.olds = append(c.olds, n.ID())
			}
		})
	}
	list := make([]*ir.Node, len(c.inputs))
	for i, id := range c.inputs {
		list[i] = f.Graph.Nodes()[id]
	}
	return list
}

// visitCone calls visit for the leaves and the stored nodes of other clusters
// that c needs, among the nodes from one on.
func (f *Fusion) visitCone(c *Cluster, from int, visit func(*ir.Node)) {
	mark := f.newMark()
	var walk func(n *ir.Node)
	walk = func(n *ir.Node) {
		if n.ID() < from || f.seenNode(n, mark) {
			return
		}
		if h := f.home[n.ID()]; h != nil && h != c || isLeaf(n) && h == nil {
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

// preds returns the clusters that must run before c: those whose results it
// loads, and where it overwrites a state, those that read the old value.
func (f *Fusion) preds(c *Cluster) []*Cluster {
	var list []*Cluster
	inputs := f.inputsOf(c)
	mark := f.newMark()
	f.seenCluster(c, mark)
	add := func(p *Cluster) {
		if !f.seenCluster(p, mark) {
			list = append(list, p)
		}
	}
	for _, n := range inputs {
		add(f.home[n.ID()])
	}
	for _, n := range c.tails {
		if s := f.ends(n); s != nil {
			for _, id := range f.readers[s.ID()] {
				add(f.slot(id))
			}
		}
	}
	return list
}

// succs returns the clusters that wait for c.
func (f *Fusion) succs(c *Cluster) []*Cluster {
	f.inputsOf(c)
	mark := f.newMark()
	f.seenCluster(c, mark)
	var list []*Cluster
	add := func(s *Cluster) {
		if s != nil && !f.seenCluster(s, mark) {
			list = append(list, s)
		}
	}
	for _, n := range c.tails {
		for _, id := range f.readers[n.ID()] {
			add(f.slot(id))
		}
	}
	for _, state := range c.olds {
		add(f.home[f.firsts[state].ID()])
	}
	return list
}

// overwrites returns the state whose buffer holds n from its kernel on, or nil.
func (f *Fusion) overwrites(n *ir.Node) *ir.Node { return f.overwritten[n.ID()] }

// ends returns the state whose old value is gone once n is stored, or nil.
func (f *Fusion) ends(n *ir.Node) *ir.Node {
	if s := f.overwrites(n); s != nil && f.firsts[s.ID()] == n {
		return s
	}
	return nil
}

// storing returns the cluster of a kernel as it was lowered, by the first value that it stores.
func (f *Fusion) storing(k *kernel.Kernel) *Cluster {
	id := storedFirst(k)
	if n := f.firsts[id]; n != nil {
		id = n.ID()
	}
	if id < 0 || id >= len(f.home) {
		return nil
	}
	return f.home[id]
}

// maxSearch is how many clusters are looked at for a way from one to another.
// Where that does not settle it, there is taken to be one: the two are then not
// merged, which is never wrong.
const maxSearch = 1000

// dependsOn reports whether a must wait for b, directly or through others, not
// counting the direct way where direct is false. Levels say where not to look.
func (f *Fusion) dependsOn(a, b *Cluster, direct bool) bool {
	seen := map[*Cluster]bool{}
	next := f.preds(a)
	for first := true; len(next) > 0; first = false {
		var list []*Cluster
		for _, p := range next {
			switch {
			case p == b && (direct || !first):
				return true
			case p == b || seen[p] || p.level <= b.level:
				continue
			case len(seen) == maxSearch:
				return true
			}
			seen[p] = true
			list = append(list, f.preds(p)...)
		}
		next = list
	}
	return false
}

// waits is dependsOn while nodes are placed, the last ones first, and levels are
// not known: all that can lead from a to b comes after node from, whose turn it
// is.
func (f *Fusion) waits(a, b *Cluster, from *ir.Node) bool {
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
		f.visitCone(c, from.ID()+1, func(n *ir.Node) { add(f.home[n.ID()]) })
		for _, n := range c.tails {
			if s := f.ends(n); s != nil {
				f.visitReaders(s, from, add)
			}
		}
	}
	return found || len(next) > 0
}

// visitReaders calls visit for the evaluators of a leaf, before they are noted.
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
			visit(f.coreOrHome(u))
			switch {
			case f.home[u.ID()] != nil:
			case u.ID() <= from.ID():
				walk(u)
			default:
				for _, id := range f.readers[u.ID()] {
					visit(f.slot(id))
				}
			}
		}
	}
	walk(leaf)
}

// findAllReaders notes the readers of every node.
func (f *Fusion) findAllReaders() {
	nodes := f.Graph.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- {
		if f.live[i] {
			f.findReaders(nodes[i])
		}
	}
}

// sortClusters gives every cluster a level above those that it waits for. If
// some wait for one another it returns them, with a number for each such group,
// else nil.
func (f *Fusion) sortClusters() map[*Cluster]int {
	waiting := map[*Cluster]int{}
	var ready []*Cluster
	for _, c := range f.Clusters {
		c.level, c.inputs = 0, nil
	}
	for _, c := range f.Clusters {
		if waiting[c] = len(f.preds(c)); waiting[c] == 0 {
			ready = append(ready, c)
		}
	}
	for len(ready) > 0 {
		c := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		delete(waiting, c)
		for _, s := range f.succs(c) {
			s.level = max(s.level, c.level+1)
			if waiting[s]--; waiting[s] == 0 {
				ready = append(ready, s)
			}
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return f.cycles(waiting)
}

// cycles returns those of some clusters that wait for one another, with a number
// for each group of them: strongly connected components (Tarjan 1972).
func (f *Fusion) cycles(among map[*Cluster]int) map[*Cluster]int {
	groups := map[*Cluster]int{}
	number, low := map[*Cluster]int{}, map[*Cluster]int{}
	open := map[*Cluster]bool{}
	var stack []*Cluster
	var visit func(c *Cluster)
	visit = func(c *Cluster) {
		number[c] = len(number) + 1
		low[c] = number[c]
		stack, open[c] = append(stack, c), true
		for _, p := range f.preds(c) {
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

// settle drops clusters that were merged away, and finds what each must
// store: what an output or update needs or another cluster loads.
func (f *Fusion) settle() {
	f.Clusters = slices.DeleteFunc(f.Clusters, func(c *Cluster) bool { return c == nil })
	slices.SortFunc(f.Clusters, func(a, b *Cluster) int { return a.first() - b.first() })
	for i, c := range f.Clusters {
		c.ID = i
		c.Stored = nil
	}
	f.slots = f.slots[:len(f.Clusters)]
	for i := range f.slots {
		f.slots[i] = i
	}
	f.findAllReaders()
	for _, c := range f.Clusters {
		for _, n := range c.tails {
			outside := slices.ContainsFunc(f.evaluators(n), func(o *Cluster) bool { return o != c })
			if f.required[n.ID()] || outside || len(c.tails) == 1 || c.Kind == ClusterCustom || c.Kind == ClusterLoop {
				c.Stored = append(c.Stored, n)
			} else {
				f.home[n.ID()] = nil
				f.why[n.ID()] = fmt.Sprintf("inline in k%d", c.ID)
			}
		}
		slices.SortFunc(c.Stored, func(a, b *ir.Node) int { return a.ID() - b.ID() })
		c.tails = c.Stored
	}
}

func (c *Cluster) first() int {
	id := c.tails[0].ID()
	for _, n := range c.tails {
		id = min(id, n.ID())
	}
	return id
}
