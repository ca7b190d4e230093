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

// Fusion decides how kernels compute the nodes of a graph. Each node is one of:
//
//   - a leaf, such as a weight: no kernel computes it;
//   - stored: one cluster computes it and writes it to a buffer;
//   - inline: every cluster that needs an element of it computes that element.
//
// Fusion maintains two tables: the clusters that need each node (readers), and the dependencies between clusters (see
// predecessors). With them its time is proportional to the size of the graph.
type Fusion struct {
	Graph    *ir.Graph
	Clusters []*Cluster // by ID; nil after a merge into another one, until finalize renumbers them
	// LowerBody runs the passes on the body of a loop, up to kernels.
	LowerBody func(*ir.Graph) (*Fusion, error)

	Plan     *plan.Graph // graph of the kernels, which Lower adds
	Limits   Limits
	ctx      context.Context // checked each time that a kernel is made
	storedBy []*Cluster      // by node: the cluster that stores it
	core     []*Cluster      // by node: the cluster that has it as a core
	live     []bool          // by node: whether an output or update needs it
	uses     [][]*ir.Node    // by node: the nodes that it is an argument of
	why      map[int]string  // by node: the reason why it was or was not fused
	// keepsDecoded says that decoded copies of the graph's weights may stay in memory.
	keepsDecoded bool

	required    []bool           // by node: whether it must be in a buffer for an output or a state's new value
	overwritten map[int]*ir.Node // by node stored in the buffer of another node: that state, or loop's result
	firstWrites map[int]*ir.Node // by state: the first value that overwrites it
	states      *analysis.Overwrites
	stepped     map[*ir.Node]bool // see analysis.Stepped

	mergedInto []int           // by cluster ID: the ID of the cluster that it was merged into, or itself
	readers    [][]int         // by node: IDs of the clusters that compute it inline or load it; see findReaders
	places     [][]placement   // by inline node: the clusters and coordinates at which it is computed
	sharers    [][]int         // by node: IDs of the elementwise clusters that read or store it
	refused    map[pair]string // pairs of clusters that cannot merge, with the reason
	marks      []int           // by node: the number of the last search that has visited it
	mark       int             // number of searches so far
	Visits     int             // nodes and clusters visited by all searches; tests bound it
}

// pair is two clusters that tryMerge has tried to merge. A merge makes a new *Cluster, so a refusal of one of its parts
// does not count for it.
type pair struct{ c, q *Cluster }

// ClusterKind is the kind of a cluster, which decides the family of its kernel.
type ClusterKind uint8

// The cluster kinds.
const (
	ClusterMap        ClusterKind = iota // elementwise ops, gathers, copies
	ClusterRow                           // reductions and row ops
	ClusterMatMul                        // matmuls
	ClusterScan                          // scans, such as cumsum
	ClusterSort                          // sorting rows
	ClusterAttention                     // attentions
	ClusterRecurrence                    // recurrences with a matrix as their state
	ClusterGroup                         // expert_groups
	ClusterQuantize                      // quantizing to a block format
	ClusterUpdate                        // a write into a state in place
	ClusterCustom                        // a custom op's own kernel
	ClusterLoop                          // a loop, which has its own kernels
)

var clusterKindNames = [...]string{"map", "row", "matmul", "scan", "sort", "attention", "recurrence", "group",
	"quantize", "update", "custom", "loop"}

// String returns the kind's name in fusion reports.
func (k ClusterKind) String() string { return clusterKindNames[k] }

// Cluster is a set of nodes that become one kernel. Its cores are the nodes that need a loop over several elements per
// result: reductions, row ops such as softmax, matmuls, scans, sorts. A cluster without cores is a map.
type Cluster struct {
	ID    int
	Kind  ClusterKind
	Cores []*ir.Node // in graph order
	// Stored are the nodes that the kernel writes to buffers, in graph order.
	Stored []*ir.Node
	Body   *Fusion // the fusion of a loop's body; nil for other clusters
	// tails are the nodes that the cluster may have to store: its cores, and nodes computed from them. finalize reduces
	// them to the nodes that are needed elsewhere.
	tails []*ir.Node
	// ranges, if set, divide the arguments of a stored concat. Each range gets a kernel of its own, which stores that
	// part of the result.
	ranges []argRange

	size      int   // estimate of the kernel's compile time; see Limits.Size
	tries     int   // failed attempts to lower a merge with another cluster
	leaves    []int // IDs of the leaves that it reads
	level     int   // greater than the levels of all predecessors
	inputs    []int // IDs of nodes that it loads and other clusters store; nil until computed
	oldStates []int // IDs of states that it reads and another cluster overwrites
	mark      int   // number of the last search that has visited it
}

// argRange is the range [first, end) of a node's arguments.
type argRange struct{ first, end int }

// NewFusion returns a fusion without clusters. Fusing ends with an error when ctx ends.
func NewFusion(ctx context.Context, g *ir.Graph, limits Limits) *Fusion {
	n := len(g.Nodes())
	f := &Fusion{
		Graph:        g,
		ctx:          ctx,
		Limits:       limits.orDefault(),
		keepsDecoded: limits.KeepsDecoded(g),
		Plan:         plan.New(g, analysis.IsFixed),
		storedBy:     make([]*Cluster, n),
		core:         make([]*Cluster, n),
		live:         g.Live(),
		uses:         g.Users(),
		why:          map[int]string{},
		required:     make([]bool, n),
		overwritten:  map[int]*ir.Node{},
		firstWrites:  map[int]*ir.Node{},
		states:       analysis.DecidedOverwrites(g),
		stepped:      analysis.Stepped(g),
		readers:      make([][]int, n),
		places:       make([][]placement, n),
		refused:      map[pair]string{},
		marks:        make([]int, n),
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
			f.firstWrites[u.State.ID()] = n
		}
		// A copied operand depends on the old value, so it must be in a buffer before the first write.
		for _, e := range f.states.Operands(f.states.InPlace[u.State]) {
			f.required[e.Value.ID()] = f.required[e.Value.ID()] || analysis.IsCopy(e.Value)
		}
	}
	return f
}

// Why returns the reason why n is stored or inline, for people.
func (f *Fusion) Why(n *ir.Node) string { return f.why[n.ID()] }

// Note says for printing where a node is computed: "k3" for kernel 3, "k3, not stored" if only that kernel reads the
// result, "inline" if each reader computes it, and "" for dead nodes and for leaves.
func (f *Fusion) Note(n *ir.Node) string {
	switch c := f.clusterOf(n); {
	case !f.live[n.ID()]:
		return ""
	case analysis.IsLeaf(n) && c == nil:
		return ""
	case c == nil:
		return "inline"
	case f.storedBy[n.ID()] == nil:
		return fmt.Sprintf("k%d, not stored", c.ID)
	default:
		return fmt.Sprintf("k%d", c.ID)
	}
}

// newCluster adds a cluster that stores n. Kinds other than elementwise kernels and copies have n as their core: the
// reduction, matmul or other loop around which elementwise ops are fused.
func (f *Fusion) newCluster(kind ClusterKind, n *ir.Node) *Cluster {
	c := &Cluster{ID: len(f.Clusters), Kind: kind}
	switch kind {
	case ClusterRow, ClusterMatMul, ClusterScan, ClusterSort, ClusterAttention, ClusterRecurrence, ClusterGroup,
		ClusterQuantize:
		c.Cores = []*ir.Node{n}
		f.core[n.ID()] = c
	}
	c.tails = []*ir.Node{n} // the last nodes so far; n is the only one
	c.size = f.weighNode(n) * kind.copies()
	f.Clusters = append(f.Clusters, c)
	f.mergedInto = append(f.mergedInto, c.ID)
	f.storedBy[n.ID()] = c
	return c
}

// clusterOfKernel returns the cluster that kernel k was made of, or nil for a kernel that rules made. It finds the
// cluster by the first value that k stores.
func (f *Fusion) clusterOfKernel(k *kernel.Kernel) *Cluster {
	id := k.FirstStored()
	if n := f.firstWrites[id]; n != nil { // k stores into a state: take the value that first overwrites it
		id = n.ID()
	}
	if id < 0 || id >= len(f.storedBy) {
		return nil
	}
	return f.storedBy[id]
}

// finalize drops merged clusters, renumbers the others, and finds the nodes that each cluster must store: outputs, new
// values of states, and nodes that other clusters load.
func (f *Fusion) finalize() {
	f.Clusters = slices.DeleteFunc(f.Clusters, func(c *Cluster) bool { return c == nil })
	slices.SortFunc(f.Clusters, func(a, b *Cluster) int { return a.first() - b.first() })
	for i, c := range f.Clusters {
		c.ID = i
		c.Stored = nil
	}
	// The new IDs are of clusters that were not merged.
	f.mergedInto = f.mergedInto[:len(f.Clusters)]
	for i := range f.mergedInto {
		f.mergedInto[i] = i
	}
	f.findAllReaders()
	for _, c := range f.Clusters {
		for _, n := range c.tails {
			isRead := slices.ContainsFunc(f.readersOf(n), func(o *Cluster) bool { return o != c })
			// Kernels of custom ops and loops store all their results, used or not.
			storesAll := len(c.tails) == 1 || c.Kind == ClusterCustom || c.Kind == ClusterLoop
			if f.required[n.ID()] || isRead || storesAll {
				c.Stored = append(c.Stored, n)
			} else {
				f.storedBy[n.ID()] = nil
				f.why[n.ID()] = fmt.Sprintf("inline in k%d", c.ID)
			}
		}
		slices.SortFunc(c.Stored, func(a, b *ir.Node) int { return a.ID() - b.ID() })
		c.tails = c.Stored
	}
}

// first returns the smallest ID of a node that the cluster stores.
func (c *Cluster) first() int {
	id := c.tails[0].ID()
	for _, n := range c.tails {
		id = min(id, n.ID())
	}
	return id
}

// Lower makes the kernels of all clusters, in the order of their levels, and adds them to Plan. A pricer, if not nil,
// chooses the layouts of quantized weights.
func (f *Fusion) Lower(pricer kernel.Pricer) error {
	if cycles := f.sortClusters(); cycles != nil {
		for c := range cycles { // names any one of them
			return fmt.Errorf("internal error: the kernel of %s waits for itself", c.name())
		}
	}
	clusters := slices.Clone(f.Clusters)
	slices.SortStableFunc(clusters, func(a, b *Cluster) int { return a.level - b.level })
	for _, c := range clusters {
		kernels, err := f.lowerCluster(c)
		if err != nil {
			return fmt.Errorf("kernel of %s (%s): %w", c.name(), c.Kind, err)
		}
		for _, k := range kernels {
			f.Plan.Append(k)
		}
	}
	for v, n := range f.Graph.Nodes() {
		if pricer != nil && analysis.IsFixed(n) && n.DType().IsBlock() {
			f.layOutWeight(v, pricer)
		}
	}
	return nil
}

// layOutWeight chooses the layout of a quantized weight, before any pass asks for the price of a kernel that reads it:
// blocks as in the file, or planes if the pricer expects its readers to be faster then. A weight that some kernel
// copies unchanged keeps the file's layout.
func (f *Fusion) layOutWeight(v plan.ValueID, pricer kernel.Pricer) {
	weight, ids := f.Plan.Value(v), f.Plan.Readers(v)
	readers := make([]*kernel.Kernel, len(ids))
	for i, id := range ids {
		readers[i] = f.Plan.Kernel(id)
		// A kernel that copies the blocks unchanged binds the weight with another dtype.
		if slices.ContainsFunc(readers[i].Bindings, func(b kernel.Binding) bool {
			return b.Buffer == v && b.DType != weight.Type.DType
		}) {
			return
		}
	}
	w := kernel.Work{Form: kernel.FormPlanes, Format: weight.Type.DType}
	if !kernel.Suits(pricer, w, readers...) {
		return
	}
	weight.Layout = kernel.LayoutPlanes
	for _, k := range readers {
		for i := range k.Bindings {
			if k.Bindings[i].Buffer == v {
				k.Bindings[i].Layout = weight.Layout
			}
		}
	}
}

// isCore reports whether an element of n needs a loop over several elements of its arguments; see [Cluster].
func isCore(n *ir.Node) bool {
	switch n.Op().Class() {
	case ir.ClassReduce, ir.ClassContraction, ir.ClassAttention:
		return true
	case ir.ClassRow:
		return n.Op() != ir.OpRope
	}
	return n.Op().Info().Running != 0 || n.Op() == ir.OpExpertGroups || n.Op() == ir.OpQuantize || isOrder(n) ||
		isConv(n) || isWindowRow(n) || isRecurrence(n)
}

// isView reports whether n only reads its argument at other coordinates, such as transpose.
func isView(n *ir.Node) bool { return n.Op().Class() == ir.ClassView }

// isFree reports whether computing an element of n costs no more than loading it.
func isFree(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpDequantize:
		return true
	case ir.OpCast:
		return isFree(n.Arg(0)) || analysis.IsLeaf(n.Arg(0)) && n.Arg(0).Op() != ir.OpInput
	}
	return isView(n) && isFree(n.Arg(0)) || analysis.IsLeaf(n)
}
