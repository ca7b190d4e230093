package lower

import (
	"context"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
	"github.com/vkc-go/vkc/passes/plan"
)

// Fusion maps the nodes of a graph to kernels. A node is a leaf (it has its own buffer from the start), stored (a
// cluster computes it into a buffer), or inline (every cluster that needs it recomputes it at the coordinates it
// needs).
//
// Fusion maintains answers to frequent questions instead of recomputing them: which clusters evaluate a node, and which
// depend on each other. So its cost is proportional to the size of the graph.
type Fusion struct {
	Graph    *ir.Graph
	Clusters []*Cluster // in no particular order until they are scheduled
	// LowerBody compiles the body of a loop to kernels.
	LowerBody func(*ir.Graph) (*Fusion, error)

	Plan   *plan.Graph // of the kernels, which Lower makes
	Limits Limits
	ctx    context.Context // checked wherever a kernel is lowered
	home   []*Cluster      // by node: the cluster that stores it
	core   []*Cluster      // by node: the cluster that has it as a core
	live   []bool
	uses   [][]*ir.Node
	why    map[int]string // by node: the reason why it was or was not fused

	required    []bool           // by node: an output or update needs it in a buffer
	overwritten map[int]*ir.Node // by value in the buffer of another: a state, or a loop's result
	firsts      map[int]*ir.Node // by state: the first value that overwrites it
	states      *analysis.Overwrites

	slots   []int           // by cluster ID: the ID of the cluster it was merged into
	readers [][]int         // by node: IDs of the clusters that compute or load it; see findReaders
	places  [][]at          // by inline node: where it is computed
	sharers [][]int         // by node: IDs of the elementwise clusters that read or store it
	refused map[pair]string // pairs of clusters that cannot merge, with the reason
	marks   []int           // by node: the last search that has seen it
	mark    int
	Visits  int // number of nodes and clusters visited by all searches: the work of fusion
}

// pair is two clusters. A merged cluster is a new one, so it does not match older pairs.
type pair struct{ c, q *Cluster }

// ClusterKind is the kind of a cluster's core.
type ClusterKind uint8

// The cluster kinds.
const (
	ClusterMap       ClusterKind = iota // elementwise, gathers, copies
	ClusterRow                          // reductions and row ops
	ClusterMatMul                       // matmuls
	ClusterScan                         // running folds
	ClusterSort                         // sorting rows
	ClusterAttention                    // attentions
	ClusterGroup                        // grouping positions by value
	ClusterQuantize                     // blocks
	ClusterUpdate                       // a slice of a state written in place
	ClusterCustom                       // a kernel of the user's own
	ClusterLoop                         // a loop, which has its own kernels
)

var clusterKindNames = [...]string{"map", "row", "matmul", "scan", "sort", "attention", "group", "quantize",
	"update", "custom", "loop"}

// String returns the kind's name in fusion reports.
func (k ClusterKind) String() string { return clusterKindNames[k] }

// Cluster is a set of nodes that become one kernel.
type Cluster struct {
	ID    int
	Kind  ClusterKind
	Cores []*ir.Node // reductions, row ops, matmuls or scans, in graph order
	// Stored are the nodes that it writes to buffers, in graph order.
	Stored []*ir.Node
	Body   *Fusion // of a loop, after lowering
	// tails are nodes that may have to be stored: cores and absorbed outputs.
	tails []*ir.Node
	// runs, if set, are ranges of the arguments of a stored concat: each gets its own kernel, which stores that part of
	// the result.
	runs [][2]int

	size   int   // estimate of the kernel's compile time; see Limits.Size
	tries  int   // failed attempts to lower a merge with another cluster
	leaves []int // leaves that it reads
	level  int   // greater than the levels of all predecessors
	inputs []int // nodes of other clusters that it loads; nil until computed
	olds   []int // states that it reads and another cluster overwrites
	mark   int   // the last search that has seen it
}

// NewFusion returns a fusion without clusters. Canceling ctx stops it.
func NewFusion(ctx context.Context, g *ir.Graph, limits Limits) *Fusion {
	n := len(g.Nodes())
	f := &Fusion{
		Graph:       g,
		ctx:         ctx,
		Limits:      limits.orDefault(),
		Plan:        plan.New(g, analysis.IsFixed),
		home:        make([]*Cluster, n),
		core:        make([]*Cluster, n),
		live:        g.Live(),
		uses:        g.Users(),
		why:         map[int]string{},
		required:    make([]bool, n),
		overwritten: map[int]*ir.Node{},
		firsts:      map[int]*ir.Node{},
		states:      analysis.NewOverwrites(g, true),
		readers:     make([][]int, n),
		places:      make([][]at, n),
		refused:     map[pair]string{},
		marks:       make([]int, n),
	}
	for _, o := range g.Outputs() {
		f.required[o.Node.ID()] = true
	}
	for _, u := range g.Updates() {
		values := f.states.InPlace[u.State]
		if values == nil {
			values = []*ir.Node{u.Value}
		}
		for _, n := range values {
			f.required[n.ID()], f.overwritten[n.ID()] = true, u.State
			f.firsts[u.State.ID()] = n
		}
		for _, e := range f.states.Operands(f.states.InPlace[u.State]) {
			f.required[e.Value.ID()] = f.required[e.Value.ID()] || analysis.IsCopy(e.Value)
		}
	}
	return f
}

// Why explains the fusion decision on n.
func (f *Fusion) Why(n *ir.Node) string { return f.why[n.ID()] }

// Note returns the kernel that contains a node, for printing.
func (f *Fusion) Note(n *ir.Node) string {
	switch c := f.coreOrHome(n); {
	case !f.live[n.ID()]:
		return ""
	case analysis.IsLeaf(n) && c == nil:
		return ""
	case c == nil:
		return "inline"
	case f.home[n.ID()] == nil:
		return fmt.Sprintf("k%d, not stored", c.ID)
	default:
		return fmt.Sprintf("k%d", c.ID)
	}
}

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

// storing returns the cluster that a kernel was lowered from, by the first value that it stores.
func (f *Fusion) storing(k *kernel.Kernel) *Cluster {
	id := k.FirstStored()
	if n := f.firsts[id]; n != nil {
		id = n.ID()
	}
	if id < 0 || id >= len(f.home) {
		return nil
	}
	return f.home[id]
}

// finalize drops merged clusters, and finds the values that each cluster must store: outputs, updates, and values that
// other clusters load.
func (f *Fusion) finalize() {
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
