package lower

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// Limits bound the size of kernels. To stay within them, fusion stores values that it would otherwise compute inline.
// No graph is too large for that. Limits also bound the memory for decoded weights.
type Limits struct {
	// Bindings is the maximum number of buffers of a kernel.
	Bindings int
	// Size is the maximum size of a kernel, in units of about 100 bytes of optimized SPIR-V. A kernel's size is the sum
	// of Weigh over its distinct expressions, each multiplied by the number of copies of it in the kernel's code.
	Size int
	// Weigh returns the size of an op with results of a dtype, in these units.
	Weigh func(op ir.Op, t ir.DType) int
	// Memory is the size of the device's memory in bytes. It decides whether KeepsDecoded is true.
	Memory uint64
}

// KeepsDecoded reports whether a program decodes the quantized weights of a graph once, when it is loaded, and keeps
// the decoded copies. All copies, as f16, must fit into a quarter of the memory that the graph's weights and states
// leave.
func (l Limits) KeepsDecoded(g *ir.Graph) bool {
	decoded, others := uint64(0), uint64(0)
	for _, n := range g.Nodes() {
		bytes, err := n.Type().MaxBytes()
		switch {
		case err != nil:
		case n.Op() == ir.OpState:
			others += uint64(bytes)
		case analysis.IsFixed(n):
			others += uint64(bytes)
			if n.DType().IsBlock() {
				decoded += 2 * uint64(n.Shape().MaxElems()) // f16 has 2 bytes
			}
		}
	}
	return decoded <= (l.Memory-min(others, l.Memory))/4
}

// orDefault replaces unset fields by defaults.
func (l Limits) orDefault() Limits {
	if l.Bindings == 0 {
		l.Bindings = 14
	}
	if l.Size == 0 {
		l.Size = maxSize
	}
	if l.Weigh == nil {
		l.Weigh = func(op ir.Op, _ ir.DType) int { return opCost(op) }
	}
	return l
}

// maxSize is the default of Limits.Size. With it spirv-opt takes at most about a second and 300 MB per kernel
// (M-kernel-size).
const maxSize = 4000

// The number of copies of an expression in a kernel's code. Each loop of a row kernel computes its operand again
// (rowCopies), and a matmul's epilogue is repeated for each result of a tile (tileCopies).
const (
	rowCopies  = 4
	tileCopies = 16
)

// The sizes of expressions other than ops, in the units of Limits.Size.
const (
	loadSize   = 2
	decodeSize = 40  // decoding an element of a block format
	randomSize = 60  // a random number
	blendSize  = 100 // a rotation, or the interpolation of an element
)

// copies returns the number of copies of an expression in the code of a kind of kernel.
func (k ClusterKind) copies() int {
	switch k {
	case ClusterRow, ClusterScan, ClusterSort, ClusterRecurrence:
		return rowCopies
	case ClusterMatMul, ClusterAttention:
		return tileCopies
	}
	return 1
}

// SizeOf returns the size of a kernel in the units of [Limits.Size].
func (l Limits) SizeOf(k *kernel.Kernel) int {
	size := 0
	add := func(copies int, roots ...*kernel.Expr) {
		// Walk visits a shared expression once per call of add, so only expressions within one loop share their code.
		kernel.Walk(roots, func(e *kernel.Expr) { size += copies * l.weigh(k, e) })
	}
	copies := 1
	if k.Family == kernel.FamilyMatMul || k.Family == kernel.FamilyAttention {
		copies = tileCopies
	}
	// A phase has a loop of its own, so its value is counted apart from the other expressions.
	rest := k.Roots()
	for _, p := range k.Phases {
		add(copies, p.Value)
		rest = slices.DeleteFunc(rest, func(e *kernel.Expr) bool { return e == p.Value })
	}
	add(copies, rest...)
	return size
}

// weigh returns the size of an expression in a kernel.
func (l Limits) weigh(k *kernel.Kernel, e *kernel.Expr) int {
	switch e.Kind {
	case kernel.ExprApply:
		return l.Weigh(e.Op, e.DType)
	case kernel.ExprLoad:
		if k.Bindings[e.Bind].DType.IsBlock() {
			return decodeSize
		}
		return loadSize + len(e.Index.Terms())
	case kernel.ExprRandom:
		return randomSize
	case kernel.ExprIndex:
		return len(e.Index.Terms())
	}
	return 0
}

// placement is a cluster that computes an inline node, and a hash of the coordinates at which it does. If a cluster
// computes a node at several coordinates, its kernel contains the node's code several times.
type placement struct {
	cluster int
	coords  uint64
}

// placesOf returns the clusters and coordinates at which inline node n is computed. An elementwise user of n computes n
// at the user's own coordinates, and other users at other coordinates. A hash of the ops on the path from the user to n
// stands for the coordinates. The list ends after Limits.Size entries, because the cluster is then too large anyway.
func (f *Fusion) placesOf(n *ir.Node) []placement {
	var list []placement
	seen := map[placement]bool{}
	add := func(p placement) {
		if len(list) <= f.Limits.Size && !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	for _, u := range f.uses[n.ID()] {
		if !f.live[u.ID()] {
			continue
		}
		from := f.places[u.ID()] // where u is computed
		if c := f.clusterOf(u); c != nil {
			from = []placement{{cluster: c.ID}}
		}
		for i, a := range u.Args() {
			if a != n {
				continue
			}
			for _, p := range from {
				for element := range timesRead(u) {
					add(placement{p.cluster, pathHash(u, i, element, p.coords)})
				}
			}
		}
	}
	return list
}

// timesRead returns the number of elements of an argument that an op reads per element of its result.
func timesRead(n *ir.Node) int {
	switch n.Op() {
	case ir.OpRope:
		return 2
	case ir.OpResizeLinear:
		return 4
	case ir.OpResizeCubic:
		return 16
	}
	return 1
}

// pathHash returns a hash of the coordinates at which op u reads argument number arg. Two reads of a value with equal
// hashes read the same element. coords is the hash of the coordinates at which u is computed. If u reads several
// elements of the argument per result, element is the number of the read.
func pathHash(u *ir.Node, arg, element int, coords uint64) uint64 {
	from := u.Arg(arg)
	h := fnv.New64a()
	switch {
	case u.Op().Class() == ir.ClassElementwise || u.Op() == ir.OpReshape:
		if from.Shape().Equal(u.Shape()) { // u reads the element at its own coordinates
			return coords
		}
		fmt.Fprintf(h, "%d %v", coords, from.Shape())
	case isView(u):
		fmt.Fprintf(h, "%d %s %v %v", coords, u.Op(), from.Shape(), u.Shape())
		for _, a := range u.Attrs() {
			fmt.Fprintf(h, " %s", ir.FormatAttr(a.Value))
		}
	default: // the coordinates may depend on other values, so only the same read of the same op is equal
		fmt.Fprintf(h, "%d %d %d %d", coords, u.ID(), arg, element)
	}
	return h.Sum64()
}

// weighNode returns the size of the code that computes an element of n, in the units of Limits.Size.
func (f *Fusion) weighNode(n *ir.Node) int {
	switch {
	case analysis.IsLeaf(n):
		return loadSize
	case n.Op() == ir.OpConcat:
		return 4 * min(len(n.Args()), f.Limits.Bindings) // a comparison and a selection per argument
	case n.Op() == ir.OpRope, n.Op() == ir.OpResizeCubic, n.Op() == ir.OpResizeLinear:
		return blendSize
	case n.Op().Class() == ir.ClassRandom:
		return randomSize
	case n.Op() == ir.OpDequantize:
		return decodeSize
	case n.Op().Class() == ir.ClassElementwise:
		return max(1, f.Limits.Weigh(n.Op(), n.DType()))
	}
	return 2 // for coordinates, which other ops transform
}

// overfilled returns a cluster that would exceed Limits.Size if it computed n inline, or nil.
func (f *Fusion) overfilled(n *ir.Node) *Cluster {
	f.places[n.ID()] = f.placesOf(n)
	more := map[int]int{} // by cluster: the size of n's code, which is there once per set of coordinates
	for _, p := range f.places[n.ID()] {
		more[p.cluster] += f.weighNode(n)
	}
	for _, p := range f.places[n.ID()] {
		c := f.Clusters[p.cluster]
		if c.size+more[p.cluster]*c.Kind.copies() > f.Limits.Size {
			return c
		}
	}
	return nil
}

// addInlineSize adds the size of inline node n to each cluster that computes it, once for each set of coordinates at
// which the cluster computes it.
func (f *Fusion) addInlineSize(n *ir.Node) {
	if f.places[n.ID()] == nil {
		f.places[n.ID()] = f.placesOf(n)
	}
	for _, p := range f.places[n.ID()] {
		c := f.Clusters[p.cluster]
		c.size += f.weighNode(n) * c.Kind.copies()
	}
}

// cutBindings stores inline nodes so that no kernel binds too many buffers. It goes through the graph in order and
// records the set of buffers needed to compute each inline node. If a set is too large, it stores the argument that
// needs the most buffers.
func (f *Fusion) cutBindings() {
	b := &binder{f: f, sets: make([][]int, len(f.Graph.Nodes())), stored: map[*Cluster][]int{}}
	b.limit = f.Limits.Bindings
	if len(f.Graph.Symbols()) > 0 {
		b.limit-- // the values of symbols are in a buffer, too
	}
	for _, n := range f.Graph.Nodes() {
		switch c := f.storedBy[n.ID()]; {
		case !f.live[n.ID()] || analysis.IsLeaf(n) && c == nil: // no kernel computes it
		case c == nil:
			b.recordInline(n)
		case c.Kind != ClusterCustom && c.Kind != ClusterLoop:
			b.recordStored(n)
		}
	}
}

// binder is the state of cutBindings.
type binder struct {
	f      *Fusion
	limit  int                // number of buffers that a kernel may bind
	sets   [][]int            // by inline node: the buffers needed to compute it
	stored map[*Cluster][]int // by cluster: the buffers that it needs for the nodes so far
}

// buffersOf returns the buffers that a kernel must bind to read or compute an element of n.
func (b *binder) buffersOf(n *ir.Node) []int {
	switch {
	case b.f.storedBy[n.ID()] == nil && !analysis.IsLeaf(n):
		return b.sets[n.ID()]
	case b.f.storedBy[n.ID()] == nil && isComputedLeaf(n):
		return nil
	}
	list := []int{b.f.bufferNode(n).ID()}
	if n.DType().IsBlock() {
		list = append(list, b.f.Plan.Codebook(n.DType()))
	}
	return list
}

// union returns the union of a set and the buffers of some nodes. It ends early if the union is too large.
func (b *binder) union(set []int, nodes ...*ir.Node) []int {
	set = slices.Clone(set)
	for _, n := range nodes {
		for _, id := range b.buffersOf(n) {
			if !slices.Contains(set, id) {
				set = append(set, id)
			}
			if len(set) > b.limit {
				return set
			}
		}
	}
	return set
}

// recordInline records the buffers that an inline node needs. If they are too many, it stores arguments of the node, or
// the node itself if it is a concat.
func (b *binder) recordInline(n *ir.Node) {
	for {
		set := b.union(nil, n.Args()...)
		switch {
		case len(set) < b.limit && !b.isLongConcat(n): // one more buffer is for the result
			b.sets[n.ID()] = set
			return
		case n.Op() == ir.OpConcat:
			b.storeInOwnCluster(n)
			b.splitConcat(n)
			return
		case !b.storeLargestArg(n):
			b.sets[n.ID()] = set // too large: buildKernel reports the error
			return
		}
	}
}

// isLongConcat reports whether n is a concat of more tensors than one kernel should select from.
func (b *binder) isLongConcat(n *ir.Node) bool {
	return n.Op() == ir.OpConcat && len(n.Args()) > b.f.Limits.Bindings
}

// recordStored adds the buffers that a stored node needs to the buffers of its cluster. If these become too many, it
// moves the node and the later stored nodes of the cluster to a new cluster.
func (b *binder) recordStored(n *ir.Node) {
	f, c := b.f, b.f.storedBy[n.ID()]
	for { // each round moves nodes to another cluster or stores an argument, until the buffers are few enough
		set := b.union(append(slices.Clone(b.stored[c]), n.ID()), n.Args()...)
		switch {
		case len(set) <= b.limit && !b.isLongConcat(n):
			b.stored[c] = set
			return
		case b.stored[c] != nil:
			c = f.moveTails(c, func(t *ir.Node) bool { return t.ID() >= n.ID() })
		case n.Op() == ir.OpConcat && c.Kind == ClusterMap:
			if len(c.tails) > 1 {
				f.moveTails(c, func(t *ir.Node) bool { return t != n })
			}
			b.splitConcat(n)
			return
		case !b.storeLargestArg(n):
			b.stored[c] = set // too large: buildKernel reports the error
			return
		}
	}
}

// moveTails moves the tails of c that a function selects to a new cluster, which it returns.
func (f *Fusion) moveTails(c *Cluster, selects func(*ir.Node) bool) *Cluster {
	var stay, move []*ir.Node
	for _, t := range c.tails {
		if selects(t) {
			move = append(move, t)
		} else {
			stay = append(stay, t)
		}
	}
	moved := f.newCluster(c.Kind, move[0])
	c.tails, moved.tails = stay, move
	for _, t := range move {
		f.storedBy[t.ID()] = moved
	}
	return moved
}

// storeLargestArg stores the inline argument of n that needs the most buffers. It returns false if no argument needs
// more than one.
func (b *binder) storeLargestArg(n *ir.Node) bool {
	var most *ir.Node
	for _, a := range n.Args() {
		if b.f.clusterOf(a) == nil && !analysis.IsLeaf(a) && len(b.sets[a.ID()]) > 1 &&
			(most == nil || len(b.sets[a.ID()]) > len(b.sets[most.ID()])) {
			most = a
		}
	}
	if most == nil {
		return false
	}
	b.storeInOwnCluster(most)
	return true
}

// storeInOwnCluster makes a new cluster that stores an inline node.
func (b *binder) storeInOwnCluster(n *ir.Node) {
	b.stored[b.f.newCluster(ClusterMap, n)] = append(slices.Clone(b.sets[n.ID()]), n.ID())
	b.f.why[n.ID()] = fmt.Sprintf("stored: a kernel binds at most %d buffers", b.f.Limits.Bindings)
}

// isExtent reports whether a kernel can iterate over the arguments `from` to to-1 of concat n. The sum of their extents
// must be a number or an extent of some node, because other sums of symbols have no value at run time.
func (b *binder) isExtent(n *ir.Node, from, to int) bool {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	length := ir.D(0)
	for _, a := range n.Args()[from:to] {
		if err == nil {
			length, err = length.Sum(a.Shape()[axis])
		}
	}
	_, known := b.f.Graph.SymbolBound(length.Sym)
	return err == nil && (known || length.IsStatic())
}

// splitConcat divides the arguments of a stored concat into ranges that need few enough buffers (Cluster.ranges).
// One kernel per range stores its part of the result.
func (b *binder) splitConcat(n *ir.Node) {
	c := b.f.storedBy[n.ID()]
	c.ranges = nil
	set, first := []int{n.ID()}, 0
	for i, a := range n.Args() {
		more := b.union(set, a)
		if i > first && (len(more) > b.limit || i-first >= b.f.Limits.Bindings || !b.isExtent(n, first, i+1)) {
			c.ranges = append(c.ranges, argRange{first, i})
			first, more = i, b.union([]int{n.ID()}, a)
		}
		set = more
	}
	c.ranges = append(c.ranges, argRange{first, len(n.Args())})
	b.f.why[n.ID()] = fmt.Sprintf("stored by %d kernels: each binds at most %d buffers", len(c.ranges),
		b.f.Limits.Bindings)
}

// Ops that move elements, such as reshape, transform coordinates. After a reshape every coordinate can depend on all
// coordinates before it, so a chain of such ops can take exponential time and code. maxIndex limits the sum of the
// sizes of an element's coordinates (see [kernel.Index.Size]). Models stay below 32.
const (
	maxIndex   = 256
	grownIndex = maxIndex / 8 // elements at smaller coordinates are not checked, to save time
)

// errIndex means that the coordinates of an element are too large. A kernel should store the moved elements first.
var errIndex = errors.New("computing the positions of its elements would take too long")

// sizeOf returns the sum of the sizes of coordinates.
func sizeOf(at []kernel.Index) int {
	size := 0
	for _, x := range at {
		size += x.Size()
	}
	return size
}

// cutIndices finds chains of ops that move elements, such as reshapes and slices, with index expressions that would
// grow too large when the whole chain is inlined. It stores a node in the middle of such a chain. To find these nodes
// it lowers each cluster that computes such ops inline; see lowerer.cuts.
func (f *Fusion) cutIndices() error {
	var check []*Cluster
	seen := map[*Cluster]bool{}
	for i, n := range f.Graph.Nodes() {
		if !f.live[i] || f.clusterOf(n) != nil || analysis.IsLeaf(n) || n.Op().Class() == ir.ClassElementwise {
			continue
		}
		for _, c := range f.readersOf(n) {
			if !seen[c] {
				seen[c] = true
				check = append(check, c)
			}
		}
	}
	for len(check) > 0 {
		c, known := check[0], len(f.Clusters)
		l := newLowerer(f, c)
		c.Stored, l.cuts = c.tails, true // lowering stores what c may have to store, since that is not decided yet
		// Pass lower reports errors other than the end of the context.
		if _, err := l.lower(); err != nil && f.ctx.Err() != nil {
			return err
		}
		check = append(check[1:], f.Clusters[known:]...) // the clusters of the nodes that lowering cut off
	}
	return nil
}
