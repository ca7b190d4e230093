package ir

import (
	"fmt"
	"slices"
)

// IndexRange says what the elements of an input are for: a node picks by them from an axis of its argument, so that
// they are meant to be 0 to Extent-1. The node itself takes the nearest element for others, see [ArgInfo.Picks].
type IndexRange struct {
	Input  string
	Node   *Node
	From   *Node // the argument that it picks from
	Axis   int
	Extent Dim
}

// IndexRanges lists the inputs whose elements reach a node as indices, as they were given: by views that keep every
// element, and by casts. What is computed of an input first, such as its remainder, is not the host's any more.
func (g *Graph) IndexRanges() []IndexRange {
	var list []IndexRange
	given := map[*Node]string{} // the input that a node has the elements of
	for _, n := range g.nodes {
		switch {
		case n.op == OpInput && n.typ.DType.IsInteger():
			given[n] = n.Name()
		case n.op.Class() == ClassView && n.op != OpSlice || n.op == OpCast && n.typ.DType.IsInteger():
			if name, ok := given[n.args[0]]; ok {
				given[n] = name
			}
		}
		if r, by, ok := n.picks(); ok && given[by] != "" {
			r.Input = given[by]
			list = append(list, r)
		}
	}
	return list
}

// picks says from what a node picks elements, and by which argument.
func (n *Node) picks() (r IndexRange, by *Node, ok bool) {
	info := n.op.Info()
	for i, a := range info.Args[:min(len(info.Args), len(n.args))] {
		if a.Picks == "" {
			continue
		}
		from := n.args[info.Arg(a.Picks)]
		axis := 0
		if slices.ContainsFunc(info.Attrs, func(a AttrInfo) bool { return a.Name == "axis" }) {
			axis = int(n.attrs.Int("axis"))
		}
		if axis < 0 {
			axis += from.Rank()
		}
		return IndexRange{Node: n, From: from, Axis: axis, Extent: from.Shape()[axis]}, n.args[i], true
	}
	return r, nil, false
}

// always is for ops that pick whatever their attributes are.
func always(Attrs) bool { return true }

// PicksFrom returns the argument whose elements are the node's, or what these are made of, and axes along which it has
// to have some where the node has. It is negative where the op asks for none.
func (n *Node) PicksFrom() (arg int, axes []int) {
	if r, _, ok := n.picks(); ok {
		return slices.Index(n.args, r.From), []int{r.Axis}
	}
	if picks := n.op.Info().Picks; picks != nil && picks(n.attrs) {
		for axis := range n.args[0].Rank() {
			axes = append(axes, axis)
		}
		return 0, axes
	}
	return -1, nil
}

// Pick is a node that picks from an argument which values of symbols may leave without elements.
type Pick struct {
	node, from *Node
	axes       []int   // of from
	inputs     []*Node // of the graph
}

// Picks lists the live nodes that pick from something that may be empty, those in bodies of loops apart: whether these
// are computed at all is not known before.
func (g *Graph) Picks() []Pick {
	if g == nil {
		return nil
	}
	var list []Pick
	live := g.Live()
	for _, n := range g.nodes {
		if !live[n.id] {
			continue
		}
		arg, axes := n.PicksFrom()
		axes = slices.DeleteFunc(axes, func(axis int) bool { return n.args[arg].Shape()[axis].IsStatic() })
		if len(axes) > 0 {
			list = append(list, Pick{n, n.args[arg], axes, g.Leaves(OpInput)})
		}
	}
	return list
}

// Check refuses values of symbols by which there is nothing to pick from, though the result has elements.
func (p Pick) Check(symbols map[string]int64) error {
	for _, axis := range p.axes {
		extent := p.from.Shape()[axis]
		if n, err := extent.Eval(symbols); err != nil {
			return err
		} else if n > 0 {
			continue
		}
		dims, err := p.node.Shape().Eval(symbols)
		if err != nil || slices.Contains(dims, 0) {
			return err
		}
		picks := fmt.Sprintf("%s is 0, and %s %s picks from axis %d of %s", extent, p.node.op, p.node, axis, p.from.typ)
		for _, in := range p.inputs {
			if axis := slices.Index(in.Shape(), extent); axis >= 0 {
				return fmt.Errorf("input %q: %s: want at least 1 element along axis %d", in.Name(), picks, axis)
			}
		}
		return fmt.Errorf("%s: want at least 1", picks)
	}
	return nil
}

// CheckIndices refuses elements of inputs that IndexRanges lists which are out of their range. A run would have the
// nodes take the nearest element for them. It reads all elements of such inputs.
func CheckIndices(g *Graph, in map[string]*Data, symbols map[string]int64) error {
	for _, r := range g.IndexRanges() {
		if err := r.check(in[r.Input], symbols); err != nil {
			return err
		}
	}
	return nil
}

// check refuses elements out of range.
func (r IndexRange) check(d *Data, symbols map[string]int64) error {
	extent, err := r.Extent.Eval(symbols)
	if err != nil {
		return err
	}
	values, err := d.Ints()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(values, func(v int64) bool { return v < 0 || v >= extent })
	if i < 0 {
		return nil
	}
	from := r.From.typ.String()
	if name := r.From.Name(); name != "" {
		from += fmt.Sprintf(" %q", name)
	}
	return fmt.Errorf("input %q: element %v is %d: want 0 to %d, an index of axis %d of %s, from which %s %s picks",
		r.Input, coordinates(i, d.Dims), values[i], extent-1, r.Axis, from, r.Node.op, r.Node)
}

// coordinates are those of element i in row-major order.
func coordinates(i int, dims []int) []int {
	at := make([]int, len(dims))
	for axis := len(dims) - 1; axis >= 0; axis-- {
		at[axis], i = i%dims[axis], i/dims[axis]
	}
	return at
}
