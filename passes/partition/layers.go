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
// home maps weights and states to devices, if other graphs that share them are split already. The cuts then follow it.
// It is an error if a state cannot be on its home device. A weight that cannot is stored on two devices.
func SplitLayers(g *ir.Graph, shares []float64, home map[string]int) ([]Part, error) {
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
		if parts[i], err = s.build(i, ends); err != nil {
			return nil, fmt.Errorf("split, part %d: %w", i, err)
		}
		parts[i].Device = i
	}
	return parts, nil
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
	whole  []bool  // by position: whether a cut there would be between two accesses to a state
}

// inEachPart reports whether n is a leaf. Each part that reads a leaf has a copy of it.
func inEachPart(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpInput, ir.OpWeight, ir.OpState, ir.OpConst, ir.OpDimValue:
		return true
	}
	return false
}

// newLayerSplitter returns a layerSplitter with the costs of a cut at each position.
func newLayerSplitter(g *ir.Graph) *layerSplitter {
	nodes := g.Nodes()
	s := &layerSplitter{g: g, live: g.Live(), last: make([]int, len(nodes)), first: make([]int, len(nodes)),
		stored: make([]int64, len(nodes)+1), passed: make([]int64, len(nodes)+1), whole: make([]bool, len(nodes)+1)}
	first := s.first
	for i := range nodes {
		s.last[i], first[i] = i, len(nodes)
	}
	for i, n := range nodes {
		for _, a := range n.Args() {
			if s.live[i] {
				s.last[a.ID()], first[a.ID()] = i, min(first[a.ID()], i)
			}
		}
	}
	for _, u := range g.Updates() {
		id := u.State.ID()
		s.last[id] = max(s.last[id], u.Value.ID())
		first[id] = min(first[id], u.Value.ID())
	}
	for i, n := range nodes {
		switch {
		case n.Op() == ir.OpWeight || n.Op() == ir.OpState:
			if first[i] < len(nodes) {
				s.stored[first[i]+1] += maxBytes(n)
			}
			for at := first[i] + 1; n.Op() == ir.OpState && at <= s.last[i]; at++ {
				s.whole[at] = true
			}
		case !inEachPart(n) && s.live[i]:
			for at := i + 1; at <= s.last[i]; at++ {
				s.passed[at] += maxBytes(n)
			}
		}
	}
	for at := 1; at < len(s.stored); at++ {
		s.stored[at] += s.stored[at-1]
	}
	return s
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

// bytesAway returns, for each position at which part k could end, the number of bytes of weights that would not be on
// their home device. It returns -1 for a position if a state would not be on its home device. home is the map given to
// SplitLayers.
func (s *layerSplitter) bytesAway(k int, home map[string]int) []int64 {
	bytes := make([]int64, len(s.live)+1)
	for id, n := range s.g.Nodes() {
		at, ok := home[n.Name()]
		if !ok || s.first[id] == len(s.live) || n.Op() != ir.OpWeight && n.Op() != ir.OpState {
			continue
		}
		from, to := s.first[id]+1, len(bytes) // positions for this cut, after the previous one
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
		best, bestCost, bestOff := -1, 0.0, 0.0
		away := s.bytesAway(k, home)
		for at := from + 1; at < n; at++ {
			if s.whole[at] || away[at] < 0 || !s.computes(from, at) || !s.computes(at, n) {
				continue
			}
			// A cut close to the ideal position costs the bytes that pass it. Any other cut costs its distance from the
			// ideal position, scaled so that it is always more. If there are home devices, the distance is the number
			// of bytes that would not be at home. Of equal cuts the closest wins.
			cost, off := float64(s.passed[at]), math.Abs(float64(s.stored[at])-float64(total*share))
			if len(home) > 0 {
				off = float64(away[at])
			}
			if off > near || len(home) > 0 && off > 0 {
				cost = farAway * (1 + off)
			}
			if best < 0 || cost < bestCost || cost == bestCost && off < bestOff {
				best, bestCost, bestOff = at, cost, off
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("there is no place left for cut %d of %d: states and ops leave %d parts; use fewer "+
				"devices", k+1, len(shares)-1, k+1)
		}
		ends = append(ends, best)
		from = best
	}
	return append(ends, n), nil
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

// build makes part i. ends are the positions at which the parts end.
func (s *layerSplitter) build(i int, ends []int) (_ Part, err error) {
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
		if s.last[id] >= p.to {
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
	return p.Part, nil
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
		p.copies[n], err = p.Add(ir.OpInput, nil, []ir.Attr{{Name: "name", Value: p.passedName(n)},
			{Name: "dtype", Value: n.DType()}, {Name: "shape", Value: n.Shape()}}, n.Pos())
	}
	bailout.Check(err)
	return p.copies[n]
}

// returns reports whether the part returns n as an output or, if state is not nil, as the next value of that state.
func (p *partBuilder) returns(n, state *ir.Node) bool {
	at := n.ID()
	if inEachPart(n) { // the part with its state, and otherwise the last part
		at = len(p.live) - 1
		if n.Op() == ir.OpState {
			state = n
		}
		if state != nil {
			at = min(p.last[state.ID()], at)
		}
	}
	return p.from <= at && at < p.to
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
