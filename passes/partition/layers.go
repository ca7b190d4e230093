package partition

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// Part is one of the consecutive parts of a graph. It runs on a device of its own, after the previous parts. Inputs and
// outputs of the whole graph keep their names. Values passed between parts get new names.
type Part struct {
	*ir.Graph
	Device int      // index of its device in SplitLayers' shares
	Stored int64    // bytes of its weights and states
	Gives  []string // outputs that later parts read as inputs
}

// SplitLayers cuts a graph into consecutive parts, such as groups of a model's layers (pipeline parallelism, Huang et
// al., "GPipe", 2019). Part i gets about the fraction shares[i]/sum(shares) of the bytes of weights and states. Near
// each ideal position it cuts where the fewest bytes pass to the next part. All reads and updates of a state are in one
// part. It returns an error if there are fewer possible cuts than needed. A graph without weights and states stays
// whole, on the last device, because other graphs leave their results there.
//
// home maps weights and states to their home devices, if other graphs that share them are split already. The cuts then
// put each of them on its home device. If a state cannot be there, SplitLayers returns an error. If a weight cannot,
// two devices store it.
func SplitLayers(g *ir.Graph, shares []float64, home map[string]int) ([]Part, error) {
	g, err := resultsTogether(g)
	if err != nil {
		return nil, err
	}
	s := newLayerSplitter(g)
	if s.stored[len(s.stored)-1] == 0 {
		return []Part{{Graph: g, Device: len(shares) - 1}}, nil
	}
	ends, err := s.cuts(shares, home)
	if err != nil {
		return nil, fmt.Errorf("split over %d devices: %w", len(shares), err)
	}
	parts := make([]Part, len(ends))
	for i := range ends {
		if parts[i], err = s.build(i, ends, home); err != nil {
			return nil, fmt.Errorf("split, part %d: %w", i, err)
		}
		parts[i].Device = i
	}
	return parts, nil
}

// resultsTogether returns the graph with the results of each loop or branch directly after it.
func resultsTogether(g *ir.Graph) (*ir.Graph, error) {
	results := map[*ir.Node][]*ir.Node{}
	for _, n := range g.Nodes() {
		if n.Op() == ir.OpResult {
			results[n.Arg(0)] = append(results[n.Arg(0)], n)
		}
	}
	if len(results) == 0 {
		return g, nil
	}
	order := make([]*ir.Node, 0, len(g.Nodes()))
	for _, n := range g.Nodes() {
		if n.Op() != ir.OpResult {
			order = append(append(order, n), results[n]...)
		}
	}
	return ir.Reorder(g, order)
}

// Homes maps each weight and state to its device. Pass it to [SplitLayers] for other graphs that share them.
func Homes(parts []Part) map[string]int {
	home := map[string]int{}
	for _, p := range parts {
		for _, op := range []ir.Op{ir.OpWeight, ir.OpState} {
			for _, n := range p.Leaves(op) {
				if _, ok := home[n.Name()]; !ok {
					home[n.Name()] = p.Device
				}
			}
		}
	}
	return home
}

// layerSplitter splits one graph. A cut at position i is between nodes i-1 and i.
type layerSplitter struct {
	g      *ir.Graph
	live   []bool
	last   []int   // by node: the last node that reads it, or its own ID
	first  []int   // by leaf: the first node that reads it, or the number of nodes
	stored []int64 // by position: bytes of weights and states that earlier nodes read
	passed []int64 // by position: bytes that would pass between the parts if there is a cut
	inside []bool  // by position: whether a cut there is impossible, such as between two accesses to a state
}

// inEachPart reports whether n is a leaf. Each part that reads a leaf has a copy of it.
func inEachPart(n *ir.Node) bool {
	return slices.Contains([]ir.Op{ir.OpInput, ir.OpWeight, ir.OpState, ir.OpConst, ir.OpDimValue}, n.Op())
}

// newLayerSplitter returns a layerSplitter with the costs of a cut at each position.
func newLayerSplitter(g *ir.Graph) *layerSplitter {
	nodes := g.Nodes()
	s := &layerSplitter{g: g, live: g.Live(), last: make([]int, len(nodes)), first: make([]int, len(nodes)),
		stored: make([]int64, len(nodes)+1), passed: make([]int64, len(nodes)+1), inside: make([]bool, len(nodes)+1)}
	s.findAccesses()
	for i, n := range nodes {
		first, last := s.first[i], s.last[i]
		switch {
		case n.Op() == ir.OpWeight || n.Op() == ir.OpState:
			if first < len(nodes) { // something reads it
				s.stored[first+1] += maxBytes(n)
			}
			if n.Op() == ir.OpWeight {
				continue
			}
			// All accesses to a state must be in one part, so no cut lies between them.
			for at := first + 1; at <= last; at++ {
				s.inside[at] = true
			}
		case n.DType().IsBlock() && !inEachPart(n): // no input or output of a part can have blocks
			for at := i + 1; at <= last; at++ {
				s.inside[at] = true
			}
		case n.Op() == ir.OpResult: // only the part with the loop or branch can have its results
			s.inside[i] = true
			fallthrough
		case !inEachPart(n) && s.live[i]:
			for at := i + 1; at <= last; at++ {
				s.passed[at] += maxBytes(n)
			}
		}
	}
	for at := 1; at < len(s.stored); at++ { // turns bytes at each position into sums of all positions before
		s.stored[at] += s.stored[at-1]
	}
	return s
}

// findAccesses sets first and last. The new value of a state counts as an access to the state.
func (s *layerSplitter) findAccesses() {
	nodes := s.g.Nodes()
	for i := range nodes {
		s.last[i], s.first[i] = i, len(nodes)
	}
	access := func(id, by int) { s.first[id], s.last[id] = min(s.first[id], by), max(s.last[id], by) }
	for i, n := range nodes {
		for _, a := range n.Args() {
			if s.live[i] {
				access(a.ID(), i)
			}
		}
	}
	for _, u := range s.g.Updates() {
		if u.Value.Op() != ir.OpState { // for states, see joinStates
			access(u.State.ID(), u.Value.ID())
		}
	}
	s.joinStates()
}

// joinStates gives two states the same first and last access if one becomes the next value of the other. So one part
// has both.
func (s *layerSplitter) joinStates() {
	for again := true; again; {
		again = false
		for _, u := range s.g.Updates() {
			a, b := u.State.ID(), u.Value.ID()
			if u.Value.Op() != ir.OpState || s.first[a] == s.first[b] && s.last[a] == s.last[b] {
				continue
			}
			last := max(s.last[a], s.last[b])
			first := min(s.first[a], s.first[b], last) // last if no node reads them
			s.first[a], s.first[b], s.last[a], s.last[b] = first, first, last, last
			again = true // a third state may become the next value of b
		}
	}
}

// maxBytes returns the size of a value with its symbols at their bounds.
func maxBytes(n *ir.Node) int64 {
	elements := int64(1)
	for _, d := range n.Shape() {
		elements *= max(d.Max(), 1)
	}
	bytes, err := n.DType().BytesFor(elements)
	if err != nil {
		return elements
	}
	return bytes
}

// bytesAway returns, for each position at which part k could end, the number of bytes of weights that such a cut
// would keep away from their home device. home maps weights and states to devices (see SplitLayers). For a position
// that would keep a state away from its home device, bytesAway returns -1.
func (s *layerSplitter) bytesAway(k int, home map[string]int) []int64 {
	bytes := make([]int64, len(s.live)+1)
	for id, n := range s.g.Nodes() {
		at, ok := home[n.Name()]
		if !ok || s.first[id] == len(s.live) || n.Op() != ir.OpWeight && n.Op() != ir.OpState {
			continue
		}
		// The positions from `from` up to, but excluding, `to` keep n away from its home device: ends after its first
		// reader if the home is a later device, and ends before that reader otherwise.
		from, to := s.first[id]+1, len(bytes)
		if at <= k {
			from, to = 0, s.first[id]+1
		}
		for place := from; place < to; place++ {
			switch {
			case n.Op() == ir.OpState:
				bytes[place] = -1
			case bytes[place] >= 0:
				bytes[place] += maxBytes(n)
			}
		}
	}
	return bytes
}

// cuts returns the position at which each part ends, for the shares and home devices of SplitLayers.
func (s *layerSplitter) cuts(shares []float64, home map[string]int) ([]int, error) {
	sum := 0.0
	for _, x := range shares {
		if !(x > 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("a share of %v: want more than 0", x)
		}
		sum += x
	}
	n := len(s.live)
	total := float64(s.stored[n])
	near := total / float64(4*len(shares)) // bytes by which a good cut may be off its ideal position
	var ends []int
	from, share := 0, 0.0
	for k, x := range shares[:len(shares)-1] {
		share += x / sum
		off := func(at int) float64 { return math.Abs(float64(s.stored[at]) - float64(total*share)) }
		away := s.bytesAway(k, home)
		if len(home) > 0 { // then a cut is good if all weights and states are at home
			near, off = 0, func(at int) float64 { return float64(away[at]) }
		}
		end := s.bestCut(from, near, off, func(at int) bool { return away[at] >= 0 })
		if end < 0 {
			return nil, fmt.Errorf("there is no place left for cut %d of %d: states and ops leave %d parts; use fewer "+
				"devices", k+1, len(shares)-1, k+1)
		}
		ends = append(ends, end)
		from = end
	}
	return append(ends, n), nil
}

// bestCut returns the end of the part that begins at position `from`, or -1 if no position is allowed. off returns the
// distance of a cut from its ideal position, in bytes. Among the allowed cuts at most `near` away, bestCut takes the
// one with the fewest bytes to pass from part to part, and among equals the closest. If no cut is that near, it takes
// the closest of all.
func (s *layerSplitter) bestCut(from int, near float64, off func(at int) float64, allowed func(at int) bool) int {
	best, bestCost, bestDistance := -1, 0.0, 0.0
	for at := from + 1; at < len(s.live); at++ {
		if s.inside[at] || !allowed(at) || !s.computes(from, at) || !s.computes(at, len(s.live)) {
			continue
		}
		cost, distance := float64(s.passed[at]), off(at)
		if distance > near {
			cost = farAway * (1 + distance)
		}
		if best < 0 || cost < bestCost || cost == bestCost && distance < bestDistance {
			best, bestCost, bestDistance = at, cost, distance
		}
	}
	return best
}

// farAway is larger than any number of bytes that a cut passes.
const farAway = 1e30

// computes reports whether a part between two positions would have nodes to compute.
func (s *layerSplitter) computes(from, to int) bool {
	for i := from; i < to; i++ {
		if s.live[i] && !inEachPart(s.g.Nodes()[i]) {
			return true
		}
	}
	return false
}

// partBuilder builds one part of the graph.
type partBuilder struct {
	*layerSplitter
	Part
	from, to int                   // the part's nodes of the whole graph, by position
	copies   map[*ir.Node]*ir.Node // by node of the whole graph: the part's node
}

// build makes part i. ends are the positions at which the parts end. home is as for SplitLayers.
func (s *layerSplitter) build(i int, ends []int, home map[string]int) (_ Part, err error) {
	defer bailout.Caught(&err)
	p := partBuilder{layerSplitter: s, Part: Part{Graph: ir.NewGraph(fmt.Sprintf("%s.part%d", s.g.Name, i))},
		to: ends[i], copies: map[*ir.Node]*ir.Node{}}
	if i > 0 {
		p.from = ends[i-1]
	}
	bailout.Check(p.DeclareSymbolsOf(s.g))
	for id := p.from; id < p.to; id++ {
		n := s.g.Nodes()[id]
		if !s.live[id] || inEachPart(n) {
			continue
		}
		args := make([]*ir.Node, len(n.Args()))
		for j, a := range n.Args() {
			args[j] = p.get(a)
		}
		p.copies[n], err = p.Add(n.Op(), args, n.Attrs(), n.Pos())
		bailout.Check(err)
		if s.last[id] >= p.to { // a later part reads it
			bailout.Check(p.Output(s.passedName(n), p.copies[n]))
			p.Gives = append(p.Gives, s.passedName(n))
		}
	}
	for _, u := range s.g.Updates() {
		if p.returns(u.Value, u.State) {
			bailout.Check(p.Update(p.get(u.State), p.get(u.Value)))
		}
	}
	for _, o := range s.g.Outputs() {
		if p.returns(o.Node, nil) {
			bailout.Check(p.Graph.Output(o.Name, p.get(o.Node)))
		}
	}
	for _, n := range s.g.Leaves(ir.OpState) {
		if at, ok := home[n.Name()]; s.isUnused(n) && (ok && at == i || !ok && i == len(ends)-1) {
			p.get(n)
		}
	}
	return p.Part, nil
}

// isUnused reports whether nothing reads or updates a state. Programs have such states, too.
func (s *layerSplitter) isUnused(state *ir.Node) bool {
	isOutput := slices.ContainsFunc(s.g.Outputs(), func(o ir.Output) bool { return o.Node == state })
	return s.first[state.ID()] == len(s.live) && !isOutput
}

// get returns the part's node for a node of the whole graph. It adds leaves, and inputs for values of other parts.
func (p *partBuilder) get(n *ir.Node) *ir.Node {
	if p.copies[n] != nil {
		return p.copies[n]
	}
	var err error
	if inEachPart(n) {
		if n.Op() == ir.OpWeight || n.Op() == ir.OpState {
			p.Stored += maxBytes(n)
		}
		p.copies[n], err = p.Add(n.Op(), nil, n.Attrs(), n.Pos())
	} else {
		p.copies[n], err = p.Add(ir.OpInput, nil, []ir.Attr{attr("name", p.passedName(n)), attr("dtype", n.DType()),
			attr("shape", n.Shape())}, n.Pos())
	}
	bailout.Check(err)
	return p.copies[n]
}

// returns reports whether the part returns n as an output or, if state is not nil, as the next value of that state.
// Exactly one part does: the part that computes n or, for a leaf, since each part has a copy of it, the last part. But
// a state, and a leaf that is a state's next value, are returned by the last part that reads the state.
func (p *partBuilder) returns(n, state *ir.Node) bool {
	owner := n.ID() // a node of the part that returns n
	if inEachPart(n) {
		owner = len(p.live) - 1
		if n.Op() == ir.OpState {
			state = n
		}
		if state != nil {
			owner = min(p.last[state.ID()], owner)
		}
	}
	return p.from <= owner && owner < p.to
}

// passedName returns a new name for a value that is passed between parts.
func (s *layerSplitter) passedName(n *ir.Node) string {
	name := fmt.Sprintf("passed_%d", n.ID())
	taken := func(name string) bool {
		_, ok := s.g.Named(name)
		return ok || slices.ContainsFunc(s.g.Outputs(), func(o ir.Output) bool { return o.Name == name })
	}
	for taken(name) {
		name += "_"
	}
	return name
}
