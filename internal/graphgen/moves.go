package graphgen

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// reshape splits, joins, adds and drops axes.
func (g *generator) reshape() *ir.Node {
	x := g.pick(anyNode)
	s := slices.Clone(x.Shape())
	for range 1 + g.rng.IntN(3) {
		s = g.reshaped(s)
	}
	return g.add(ir.OpReshape, []*ir.Node{x}, attr("shape", s))
}

// reshaped returns a shape with as many elements as s: with an axis of 1 added, two axes joined, or an axis split. It
// returns s if the random choice does not fit. It may overwrite s.
func (g *generator) reshaped(s ir.Shape) ir.Shape {
	switch pick := g.rng.IntN(4); {
	case pick == 0 && len(s) < 5:
		return slices.Insert(s, g.rng.IntN(len(s)+1), ir.D(1))
	case pick < 3 && len(s) > 1:
		i := g.rng.IntN(len(s) - 1)
		if d, err := s[i].Mul2(s[i+1]); err == nil {
			return slices.Replace(s, i, i+2, d)
		}
	case len(s) > 0 && len(s) < 6:
		i := g.rng.IntN(len(s))
		for _, n := range append(ir.ShapeOf(2, 3, 5, 4), g.dims...) {
			if d, ok := s[i].Quo2(n); ok {
				parts := []ir.Dim{d, n}
				if g.rng.IntN(2) == 0 {
					slices.Reverse(parts)
				}
				return slices.Replace(s, i, i+1, parts...)
			}
		}
	}
	return s
}

// view adds a random view.
func (g *generator) view() *ir.Node {
	x := g.pick(func(n *ir.Node) bool { return n.Rank() > 0 })
	if x == nil {
		return nil
	}
	switch g.rng.IntN(7) {
	case 6:
		return g.add(ir.OpRoll, []*ir.Node{x}, attr("shifts", g.perAxis(x.Rank(), -3, 3)))
	case 0, 1:
		var perm []int
		perm = append(perm, g.rng.Perm(x.Rank())...)
		return g.add(ir.OpTranspose, []*ir.Node{x}, attr("perm", perm))
	case 2:
		return g.slice(x)
	case 3:
		return g.broadcast(x)
	case 4:
		return g.add(ir.OpFlip, []*ir.Node{x}, attr("axes", g.axes(x.Rank())))
	}
	if g.rng.IntN(2) == 0 {
		return g.add(ir.OpUnsqueeze, []*ir.Node{x}, attr("axes", []int{g.rng.IntN(x.Rank() + 1)}))
	}
	axes := []int{}
	for i, d := range x.Shape() {
		if d.Is(1) {
			axes = append(axes, i)
		}
	}
	return g.add(ir.OpSqueeze, []*ir.Node{x}, attr("axes", axes))
}

// slice slices some axes. Symbolic axes stay whole or keep their minimum extent.
func (g *generator) slice(x *ir.Node) *ir.Node {
	starts, steps := make([]int, x.Rank()), make([]int, x.Rank())
	limits := slices.Clone(x.Shape())
	for i, d := range x.Shape() {
		steps[i] = 1
		// Add is the extent for symbols of 0, the smallest extent.
		if n := int(d.Add); n > 0 && g.rng.IntN(3) > 0 {
			limit := 1 + g.rng.IntN(n)
			starts[i] = g.rng.IntN(limit + 1)
			limits[i] = ir.D(limit)
			steps[i] = 1 + g.rng.IntN(3)
			if !d.IsStatic() && g.rng.IntN(2) == 0 { // starts within the extent that it always has
				limits[i], steps[i] = d, 1
			}
		}
	}
	return g.add(ir.OpSlice, []*ir.Node{x}, attr("starts", starts), attr("limits", limits), attr("steps", steps))
}

// broadcast broadcasts x along axes of extent 1 and along new ones.
func (g *generator) broadcast(x *ir.Node) *ir.Node {
	s := slices.Clone(x.Shape())
	for i, d := range s {
		if d.Is(1) && g.rng.IntN(2) == 0 {
			s[i] = g.dims[g.rng.IntN(len(g.dims))]
		}
	}
	// Outer axes.
	for len(s) < 4 && g.rng.IntN(2) == 0 {
		s = append(g.shape(1), s...)
	}
	return g.add(ir.OpBroadcast, []*ir.Node{x}, attr("shape", s))
}

// indexing adds an op that takes elements by indices, a concat, a pad, a dynamic slice, or an update of a slice.
func (g *generator) indexing() *ir.Node {
	x := g.pick(func(n *ir.Node) bool { return n.Rank() > 0 })
	if x == nil {
		return nil
	}
	axis := g.rng.IntN(x.Rank())
	switch g.rng.IntN(7) {
	case 6:
		return g.dynamicSlice(x, axis)
	case 0:
		s := slices.Clone(x.Shape())
		s[axis] = g.shape(1)[0]
		return g.add(ir.OpGather, []*ir.Node{x, g.leaf(s, g.intType())}, attr("axis", axis))
	case 1:
		return g.add(ir.OpIndexSelect, []*ir.Node{x, g.vector()}, attr("axis", axis))
	case 2:
		if x.Rank() != 2 || !isFloat(x) {
			return nil
		}
		return g.add(ir.OpEmbedding, []*ir.Node{x, g.ints()})
	case 3:
		return g.concat(x, axis)
	case 4:
		return g.pad(x)
	}
	return g.updateSlice(x)
}

// vector returns a vector of integers, as index_select wants.
func (g *generator) vector() *ir.Node {
	if n := g.pick(func(n *ir.Node) bool { return isInt(n) && n.Rank() == 1 }); n != nil && g.rng.IntN(2) == 0 {
		return n
	}
	return g.leaf(g.shape(1), g.intType())
}

// concat adds a concat of x and up to three other nodes that fit.
func (g *generator) concat(x *ir.Node, axis int) *ir.Node {
	fits := func(n *ir.Node) bool {
		if n.DType() != x.DType() || n.Rank() != x.Rank() {
			return false
		}
		for i, d := range n.Shape() {
			if i != axis && d != x.Shape()[i] {
				return false
			}
		}
		return true
	}
	args := []*ir.Node{x}
	for range g.rng.IntN(4) {
		y := g.pick(fits)
		if g.rng.IntN(3) == 0 { // a new leaf of another extent along axis
			shape := slices.Clone(x.Shape())
			shape[axis] = g.shape(1)[0]
			y = g.leaf(shape, x.DType())
		}
		if y != nil {
			args = append(args, y)
		}
	}
	g.rng.Shuffle(len(args), func(i, j int) { args[i], args[j] = args[j], args[i] })
	return g.add(ir.OpConcat, args, attr("axis", axis))
}

// pad adds a pad of some axes of x.
func (g *generator) pad(x *ir.Node) *ir.Node {
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	for i := range low {
		if g.rng.IntN(2) == 0 {
			low[i], high[i] = g.rng.IntN(4), g.rng.IntN(4)
		}
	}
	mode := []string{"constant", "constant", "reflect", "replicate", "wrap"}[g.rng.IntN(5)]
	return g.add(ir.OpPad, []*ir.Node{x}, attr("low", low), attr("high", high),
		attr("value", []float64{0, 1, -2}[g.rng.IntN(3)]), attr("mode", mode))
}

// start returns a coordinate that may be out of range.
func (g *generator) start() *ir.Node {
	if n := g.pick(func(n *ir.Node) bool { return isInt(n) && n.Rank() == 0 }); n != nil && g.rng.IntN(2) == 0 {
		return n
	}
	return g.leaf(ir.Shape{}, g.intType())
}

// dynamicSlice adds a slice of constant size, from a start that may be out of range.
func (g *generator) dynamicSlice(x *ir.Node, axis int) *ir.Node {
	// At most the smallest extent that the axis can have.
	size := g.rng.IntN(int(max(x.Shape()[axis].Add, 0)) + 1)
	return g.add(ir.OpDynamicSlice, []*ir.Node{x, g.start()}, attr("axis", axis), attr("size", ir.ShapeOf(size)))
}

// updateSlice overwrites some of x's elements, from a start that may be out of range.
func (g *generator) updateSlice(x *ir.Node) *ir.Node {
	axis := g.rng.IntN(x.Rank())
	s := slices.Clone(x.Shape())
	// At most the smallest extent that the axis can have.
	if n := int(s[axis].Add); n > 0 {
		s[axis] = ir.D(g.rng.IntN(n + 1))
	}
	fits := func(n *ir.Node) bool { return n.DType() == x.DType() && n.Shape().Equal(s) }
	update := g.pick(fits)
	if update == nil || g.rng.IntN(2) == 0 {
		update = g.leaf(s, x.DType())
	}
	// Wrapping around takes indices modulo the extent, which must be static and not 0.
	wrap := x.Shape()[axis].IsStatic() && !x.Shape()[axis].Is(0) && g.rng.IntN(3) == 0
	return g.add(ir.OpDynamicUpdateSlice, []*ir.Node{x, update, g.start()}, attr("axis", axis), attr("wrap", wrap))
}
