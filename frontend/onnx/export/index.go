package export

import (
	"cmp"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// isWithin reports whether all elements of n are known to be indices into an axis of extent d.
func isWithin(n *ir.Node, d ir.Dim) bool {
	if n.Op() == ir.OpIota {
		extent := n.Shape()[axisOf(n, n.Rank())]
		return extent == d || extent.Max() <= d.Min()
	}
	if n.Op() != ir.OpConst {
		return false
	}
	list, err := n.Attrs().Data("data").Ints()
	return err == nil && !slices.ContainsFunc(list, func(i int64) bool { return i < 0 || i >= d.Min() })
}

// index returns argument i, a tensor of indices into an axis of extent d, clamped to 0 … d-1. ONNX would count negative
// indices from the end, and refuse larger ones.
func (c *call) index(i int, d ir.Dim) string {
	n, x := c.node.Arg(i), c.arg(i)
	t := n.DType()
	if t != ir.I32 && t != ir.I64 {
		x, t = c.cast(x, ir.I64), ir.I64
	}
	if isWithin(n, d) {
		return x
	}
	last := c.scalar(t, float64(d.Add-1))
	if !d.IsStatic() {
		last = c.number(d.Plus(-1))
		if t != ir.I64 {
			last = c.cast(last, t)
		}
	}
	return c.emit("Clip", []string{x, c.scalar(t, 0), last})
}

// gather returns a function for an op that reads elements at indices along an axis.
func gather(op string) func(c *call) string {
	return func(c *call) string {
		s := c.node.Arg(0).Shape()
		axis := axisOf(c.node, len(s))
		return c.emit(op, []string{c.arg(0), c.index(1, s[axis])}, attribute{"axis", int64(axis)})
	}
}

// consecutive returns the coordinates of `size` elements along an axis of the given extent. Argument number `start` has
// the first coordinate, which is clamped so that all fit into the extent. If wrap is set, the coordinates are taken
// modulo the extent instead.
func (c *call) consecutive(start int, extent, size ir.Dim, wrap bool) string {
	from := c.cast(c.arg(start), ir.I64)
	if wrap {
		all := c.emit("Add", []string{c.ranged(size), from})
		return c.emit("Mod", []string{all, c.number(extent)})
	}
	last := c.emit("Sub", []string{c.number(extent), c.number(size)})
	from = c.emit("Max", []string{c.emit("Min", []string{from, last}), c.scalar(ir.I64, 0)})
	return c.emit("Add", []string{c.ranged(size), from})
}

// dynamicSlice writes op dynamic_slice as Gather, because vkc and other readers do not support Slice with a computed
// start.
func dynamicSlice(c *call) string {
	s, size := c.node.Arg(0).Shape(), c.node.Attrs().Shape("size")[0]
	axis := axisOf(c.node, len(s))
	return c.emit("Gather", []string{c.arg(0), c.consecutive(1, s[axis], size, false)}, attribute{"axis", int64(axis)})
}

// dynamicUpdateSlice writes op dynamic_update_slice as a scatter.
func dynamicUpdateSlice(c *call) string {
	s, u := c.node.Shape(), c.node.Arg(1).Shape()
	axis := axisOf(c.node, len(s))
	if u[axis] == s[axis] && !c.node.Attrs().Bool("wrap") {
		return c.arg(1)
	}
	at := c.consecutive(2, s[axis], u[axis], c.node.Attrs().Bool("wrap"))
	return c.emit("ScatterElements", []string{c.arg(0), c.spread(at, axis, u), c.arg(1)},
		attribute{"axis", int64(axis)})
}

// spread returns vector x, which lies along an axis of shape s, repeated along the other axes.
func (c *call) spread(x string, axis int, s ir.Shape) string {
	column := make(ir.Shape, len(s))
	for i := range column {
		column[i] = ir.D(1)
	}
	column[axis] = s[axis]
	return c.emit("Expand", []string{c.reshaped(x, column), c.shape(s)})
}

// scatterReduction returns the value of ONNX's attribute reduction for a scatter: how it combines an element with its
// update.
func (c *call) scatterReduction() string {
	switch c.node.Op() {
	case ir.OpScatter, ir.OpScatterND: // they replace the element
		return "none"
	case ir.OpIndexAdd:
		return "add"
	}
	return cmp.Or(c.node.Attrs().String_("mode"), "none") // modes have ONNX's names
}

// room returns the base of a scatter with one more element along an axis, to which updates with an index out of range
// go. cut removes that element from the scatter's result, and casts the result to the op's dtype.
func (c *call) room(axis int) (base string, cut func(result string) string) {
	n := c.node
	t := n.Arg(2).DType()
	s := slices.Clone(n.Shape())
	extent := s[axis]
	s[axis] = ir.D(1)
	more := c.emit("Expand", []string{c.scalar(t, 0), c.shape(s)})
	base = c.emit("Concat", []string{c.as(0, t), more}, attribute{"axis", int64(axis)})
	return base, func(y string) string {
		y = c.sliced(y, c.ints(0), c.dim(extent), int64(axis))
		if t != n.DType() {
			y = c.cast(y, n.DType())
		}
		return y
	}
}

// orRoom returns indices x in which an index out of range 0 … d-1 is replaced by d, the index of the additional
// element.
func (c *call) orRoom(x string, d ir.Dim) string {
	n := c.number(d)
	in := c.emit("And", []string{c.emit("GreaterOrEqual", []string{x, c.scalar(ir.I64, 0)}),
		c.emit("Less", []string{x, n})})
	return c.emit("Where", []string{in, x, n})
}

// scatter writes ops scatter and scatter_add.
func scatter(c *call) string {
	s := c.node.Shape()
	axis := axisOf(c.node, len(s))
	return c.scattered(c.cast(c.arg(1), ir.I64), axis)
}

// scattered writes a scatter of argument 2, the updates, at indices x, int64, along an axis. Updates with an index out
// of range have no effect.
func (c *call) scattered(x string, axis int) string {
	base, cut := c.room(axis)
	return cut(c.emit("ScatterElements", []string{base, c.orRoom(x, c.node.Shape()[axis]), c.arg(2)},
		attribute{"axis", int64(axis)}, attribute{"reduction", c.scatterReduction()}))
}

// indexAdd writes op index_add: a scatter with indices that are equal along the other axes.
func indexAdd(c *call) string {
	axis := axisOf(c.node, c.node.Rank())
	return c.scattered(c.spread(c.cast(c.arg(1), ir.I64), axis, c.node.Arg(2).Shape()), axis)
}

// coordinates returns argument 1, rows of indices, as int64, and the number of indices in a row.
func (c *call) coordinates() (x string, n int) {
	s := c.node.Arg(1).Shape()
	return c.cast(c.arg(1), ir.I64), int(s[len(s)-1].Add)
}

// gatherND writes op gather_nd, with indices clamped.
func gatherND(c *call) string {
	x, n := c.coordinates()
	if n == 0 {
		return c.fail("its rows of indices are empty")
	}
	last := c.emit("Sub", []string{c.shape(c.node.Arg(0).Shape()[:n]), c.ints(1)})
	x = c.emit("Max", []string{c.emit("Min", []string{x, last}), c.ints(0)})
	return c.emit("GatherND", []string{c.arg(0), x})
}

// scatterND writes ops scatter_nd and scatter_nd_add. If an index of a row is out of range, the row's update goes to an
// extra element after the end of axis 0, which is then cut off.
func scatterND(c *call) string {
	x, n := c.coordinates()
	if n == 0 {
		return c.fail("its rows of indices are empty")
	}
	s := c.node.Shape()
	in := c.emit("And", []string{c.emit("GreaterOrEqual", []string{x, c.ints(0)}),
		c.emit("Less", []string{x, c.shape(s[:n])})})
	count := c.emit("ReduceSum", []string{c.cast(in, ir.I32), c.ints(-1)}, attribute{"keepdims", int64(1)})
	inside := c.emit("Equal", []string{count, c.scalar(ir.I32, float64(n))})
	away := c.dim(s[0]) // the index of the extra element
	if n > 1 {
		away = c.emit("Concat", []string{away, c.ints(make([]int64, n-1)...)}, attribute{"axis", int64(0)})
	}
	base, cut := c.room(0)
	return cut(c.emit("ScatterND", []string{base, c.emit("Where", []string{inside, x, away}), c.arg(2)},
		attribute{"reduction", c.scatterReduction()}))
}
