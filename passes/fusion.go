package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Fusion says which nodes of a graph become which kernels. A node is either a
// leaf (it has a buffer of its own from the start), stored (some cluster
// computes it into a buffer), or inline (every cluster that needs it computes
// it anew, at the coordinates it needs).
type Fusion struct {
	Graph    *ir.Graph
	Clusters []*Cluster // in no particular order until they are scheduled

	home []*Cluster // by node: the cluster that stores it
	live []bool
	uses [][]*ir.Node
	why  map[int]string // by node: what stopped or made its fusion
}

// ClusterKind says what the heart of a cluster is.
type ClusterKind uint8

// The cluster kinds.
const (
	ClusterMap       ClusterKind = iota // elementwise, gathers, copies
	ClusterRow                          // reductions and row ops
	ClusterMatMul                       // matrix products
	ClusterScan                         // running sums
	ClusterSort                         // orders of rows
	ClusterAttention                    // attentions
	ClusterGroup                        // positions grouped by what they hold
	ClusterQuantize                     // blocks
	ClusterUpdate                       // a slice of a state written in place
	ClusterCustom                       // a kernel of the user's own
)

var clusterKindNames = [...]string{"map", "row", "matmul", "scan", "sort", "attention", "group", "quantize", "update", "custom"}

// String returns the kind's name in fusion reports.
func (k ClusterKind) String() string { return clusterKindNames[k] }

// Cluster is a set of nodes that become one kernel.
type Cluster struct {
	ID    int
	Kind  ClusterKind
	Cores []*ir.Node // reductions, row ops, products or scans, in graph order
	// Stored are the nodes that it writes to buffers, in graph order.
	Stored []*ir.Node
	// tails are nodes that may have to be stored: cores and absorbed outputs.
	tails []*ir.Node
}

func newFusion(g *ir.Graph) *Fusion {
	return &Fusion{
		Graph: g,
		home:  make([]*Cluster, len(g.Nodes())),
		live:  g.Live(),
		uses:  g.Users(),
		why:   map[int]string{},
	}
}

// Home returns the cluster that stores n, or nil.
func (f *Fusion) Home(n *ir.Node) *Cluster { return f.home[n.ID()] }

// Why returns what was decided about n and the reason, for a reader.
func (f *Fusion) Why(n *ir.Node) string { return f.why[n.ID()] }

func (f *Fusion) newCluster(kind ClusterKind, n *ir.Node) *Cluster {
	c := &Cluster{ID: len(f.Clusters), Kind: kind}
	switch kind {
	case ClusterRow, ClusterMatMul, ClusterScan, ClusterSort, ClusterAttention, ClusterGroup, ClusterQuantize:
		c.Cores = []*ir.Node{n}
	}
	c.tails = []*ir.Node{n}
	f.Clusters = append(f.Clusters, c)
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
	return n.Op() == ir.OpCumSum || n.Op() == ir.OpExpertGroups || n.Op() == ir.OpQuantize || isOrder(n) || isConv(n) || isWindowRow(n)
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

// evaluators returns the clusters that compute or load n through inline
// nodes, n's own home left out.
func (f *Fusion) evaluators(n *ir.Node) []*Cluster {
	var list []*Cluster
	seen := map[int]bool{}
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		for _, u := range f.uses[n.ID()] {
			if !f.live[u.ID()] || seen[u.ID()] {
				continue
			}
			seen[u.ID()] = true
			if c := f.coreOrHome(u); c != nil {
				if !slices.Contains(list, c) {
					list = append(list, c)
				}
				if f.home[u.ID()] != nil {
					continue
				}
			}
			visit(u)
		}
	}
	visit(n)
	return list
}

// coreOrHome returns the cluster that stores u or has it as a core.
func (f *Fusion) coreOrHome(u *ir.Node) *Cluster {
	if c := f.home[u.ID()]; c != nil {
		return c
	}
	if !isCore(u) {
		return nil
	}
	for _, c := range f.Clusters {
		if c != nil && slices.Contains(c.Cores, u) {
			return c
		}
	}
	return nil
}

// inputsOf returns the stored nodes of other clusters that c loads.
func (f *Fusion) inputsOf(c *Cluster) []*ir.Node {
	var list []*ir.Node
	seen := map[int]bool{}
	var visit func(n *ir.Node)
	visit = func(n *ir.Node) {
		if seen[n.ID()] {
			return
		}
		seen[n.ID()] = true
		if h := f.home[n.ID()]; h != nil && h != c {
			list = append(list, n)
			return
		}
		for _, a := range n.Args() {
			visit(a)
		}
	}
	for _, n := range append(slices.Clone(c.tails), c.Cores...) {
		visit(n)
	}
	return list
}

// preds returns the clusters that must run before c: those whose results it
// loads, and where it overwrites a state, those that read the old value.
func (f *Fusion) preds(c *Cluster) []*Cluster {
	var list []*Cluster
	add := func(p *Cluster) {
		if p != c && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for _, n := range f.inputsOf(c) {
		add(f.home[n.ID()])
	}
	for _, n := range c.tails {
		if s := f.overwrites(n); s != nil {
			for _, p := range f.evaluators(s) {
				add(p)
			}
		}
	}
	return list
}

// overwrites returns the state whose buffer holds n from its kernel on, or nil.
func (f *Fusion) overwrites(n *ir.Node) *ir.Node {
	for _, u := range f.Graph.Updates() {
		if u.Value == n {
			return u.State
		}
	}
	return nil
}

// dependsOn reports whether a must wait, directly or through others, for b,
// not counting the direct way where direct is false.
func (f *Fusion) dependsOn(a, b *Cluster, direct bool) bool {
	seen := map[*Cluster]bool{}
	var visit func(c *Cluster, depth int) bool
	visit = func(c *Cluster, depth int) bool {
		for _, p := range f.preds(c) {
			if p == b {
				if direct || depth > 0 {
					return true
				}
				continue
			}
			if seen[p] {
				continue
			}
			seen[p] = true
			if visit(p, depth+1) {
				return true
			}
		}
		return false
	}
	return visit(a, 0)
}

// required reports whether n must be in a buffer whatever fusion does.
func (f *Fusion) required(n *ir.Node) bool {
	for _, o := range f.Graph.Outputs() {
		if o.Node == n {
			return true
		}
	}
	for _, u := range f.Graph.Updates() {
		if u.Value == n {
			return true
		}
	}
	return false
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
	for _, c := range f.Clusters {
		for _, n := range c.tails {
			outside := slices.ContainsFunc(f.evaluators(n), func(o *Cluster) bool { return o != c })
			if f.required(n) || outside || len(c.tails) == 1 || c.Kind == ClusterCustom {
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
