package ir

import (
	"fmt"
	"slices"
)

// IndexRange says that an input's elements are indices into an axis of a node's argument, and so should be 0 to
// Extent-1. The node clamps other indices, see [ArgInfo.Picks].
type IndexRange struct {
	Input  string
	Node   *Node
	From   *Node // the indexed argument
	Axis   int
	Extent Dim
}

// IndexRanges lists the inputs that nodes use as indices, directly or through casts and views that keep every element.
// It leaves out indices computed from an input, such as its remainder: they are not under the host's control.
func (g *Graph) IndexRanges() []IndexRange {
	var list []IndexRange
	given := map[*Node]string{} // the input that a node is a view of
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

// picks describes how a node gathers elements: r names the argument it gathers from and the indexed axis, and by is the
// argument with the indices. ok is false if the node does not gather.
func (n *Node) picks() (r IndexRange, by *Node, ok bool) {
	info := n.op.Info()
	for i, a := range info.Args[:min(len(info.Args), len(n.args))] {
		if a.Picks == "" {
			continue
		}
		// a.Picks names the argument from which the indices pick.
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

// always is the Picks of ops that read argument 0 for all attribute values.
func always(Attrs) bool { return true }

// PicksFrom returns the index of the argument from which a node picks elements, as argmax and gather do, or -1 if it
// picks from none. axes are the axes of the argument along which it picks at least one element, so that they must not
// be empty.
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

// Pick is a node that gathers from an argument, together with the axes of the argument that are empty for some values
// of symbols.
type Pick struct {
	node, from *Node
	axes       []int   // of from
	inputs     []*Node // of the graph
}

// Picks lists the live nodes that gather from a possibly empty argument. It leaves out nodes in loop bodies: whether
// those run is only known at run time.
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

// Check returns an error if, for these values of symbols, the argument is empty and the result is not: there would be
// no element to gather.
func (p Pick) Check(symbols map[string]int64) error {
	for _, axis := range p.axes {
		extent := p.from.Shape()[axis]
		n, err := extent.Eval(symbols)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		dims, err := p.node.Shape().Eval(symbols)
		if err != nil || slices.Contains(dims, 0) {
			return err
		}
		picks := fmt.Sprintf("%s is 0, so axis %d of %s is empty, and %s %s has nothing to pick", extent, axis,
			p.from.typ, p.node.op, p.node)
		for _, in := range p.inputs {
			if axis := slices.Index(in.Shape(), extent); axis >= 0 {
				return fmt.Errorf("input %q: %s: want at least 1 element along axis %d", in.Name(), picks, axis)
			}
		}
		return fmt.Errorf("%s: want at least 1", picks)
	}
	return nil
}

// CheckIndices reports out-of-range elements of the inputs of IndexRanges. A run would clamp them. It reads all
// elements of these inputs.
func CheckIndices(g *Graph, in map[string]*Data, symbols map[string]int64) error {
	for _, r := range g.IndexRanges() {
		if err := r.check(in[r.Input], symbols); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if an element of d, the tensor given for the input, is out of range.
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

// coordinates returns the coordinates of element i in row-major order.
func coordinates(i int, dims []int) []int {
	at := make([]int, len(dims))
	for axis := len(dims) - 1; axis >= 0; axis-- {
		at[axis], i = i%dims[axis], i/dims[axis]
	}
	return at
}
