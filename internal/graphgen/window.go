package graphgen

import "github.com/vkc-go/vkc/ir"

// images returns a float node for windows, [N, C, …] with 1 or 2 axes after the channels. It makes one if there is
// none, or by chance.
func (g *generator) images() *ir.Node {
	x := g.pick(func(n *ir.Node) bool {
		return isFloat(n) && (n.Rank() == 3 || n.Rank() == 4) && n.Shape()[1].IsStatic()
	})
	if x != nil && g.rng.IntN(2) == 0 {
		return x
	}
	s := append(g.shape(1), ir.D([]int{1, 2, 4, 6, 8}[g.rng.IntN(5)]))
	if g.opt.Large {
		s[1] = ir.D(g.upTo(3))
	}
	s = append(s, g.shape(1+g.rng.IntN(2))...)
	if !g.fits(s) {
		return nil
	}
	return g.leaf(s, g.floatType())
}

// perAxis returns n random values from lo to hi.
func (g *generator) perAxis(n, lo, hi int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = lo + g.rng.IntN(hi-lo+1)
	}
	return v
}

// conv adds a convolution or its transpose.
func (g *generator) conv() *ir.Node {
	x := g.images()
	if x == nil {
		return nil
	}
	c := int(x.Shape()[1].Add)
	groups := 1
	if choices := []int{1, 2, c}; c > 0 {
		groups = choices[g.rng.IntN(3)]
	}
	// Groups must divide the channels, of which there may be none.
	if groups < 1 || c%groups != 0 {
		groups = 1
	}
	op, w := ir.OpConv, ir.ShapeOf(groups*g.upTo(6), c/groups)
	attrs := []ir.Attr{attr("groups", groups)}
	axes := x.Rank() - 2
	switch g.rng.IntN(5) {
	case 0:
		// an integer convolution
		x = g.leaf(x.Shape(), g.oneOf(ir.I8, ir.U8))
		attrs = append(attrs, attr("padding_value", g.rng.IntN(128)))
	case 1, 2:
		// The weight of a transpose has its axes the other way around.
		op, w = ir.OpConvTranspose, ir.ShapeOf(c, g.upTo(6))
		attrs = append(attrs, attr("output_padding", g.perAxis(axes, 0, 1)))
	}
	if g.rng.IntN(4) == 0 && !g.opt.FullPrecision {
		attrs = append(attrs, attr("precision", []string{ir.PrecisionHalf, ir.PrecisionHalfSums}[g.rng.IntN(2)]))
	}
	for range axes {
		w = append(w, ir.D(1+g.rng.IntN(3)))
	}
	// A stride makes the result's extent a quotient. With symbols, avoid most of these.
	if x.Shape()[2].IsStatic() || op == ir.OpConvTranspose || g.rng.IntN(2) == 0 {
		attrs = append(attrs, attr("stride", g.perAxis(axes, 1, 3)))
	}
	attrs = append(attrs, attr("padding_low", g.perAxis(axes, 0, 2)), attr("padding_high", g.perAxis(axes, 0, 2)),
		attr("dilation", g.perAxis(axes, 1, 2)))
	return g.add(op, []*ir.Node{x, g.leaf(w, x.DType())}, attrs...)
}

// pooling adds a max_pool or avg_pool.
func (g *generator) pooling() *ir.Node {
	x := g.images()
	op := ir.OpAvgPool
	attrs := []ir.Attr{attr("ceil_mode", g.rng.IntN(2) == 0)}
	if g.rng.IntN(2) == 0 {
		op = ir.OpMaxPool
		if n := g.pick(func(n *ir.Node) bool { return isInt(n) && n.Rank() > 0 }); n != nil && g.rng.IntN(3) == 0 {
			x = n
		}
	}
	if x == nil {
		return nil
	}
	axes := min(1+g.rng.IntN(2), x.Rank())
	if op == ir.OpMaxPool {
		attrs = append(attrs, attr("dilation", g.perAxis(axes, 1, 2)))
	} else {
		attrs = append(attrs, attr("count_include_pad", g.rng.IntN(2) == 0))
	}
	if g.rng.IntN(2) == 0 {
		attrs = append(attrs, attr("stride", g.perAxis(axes, 1, 3)))
	}
	return g.add(op, []*ir.Node{x}, append(attrs, attr("kernel", g.perAxis(axes, 1, 4)),
		attr("padding_low", g.perAxis(axes, 0, 1)), attr("padding_high", g.perAxis(axes, 0, 1)))...)
}

// resize adds a resizing op.
func (g *generator) resize() *ir.Node {
	x := g.pick(func(n *ir.Node) bool { return n.Rank() > 0 })
	op := []ir.Op{ir.OpResizeNearest, ir.OpResizeLinear, ir.OpResizeCubic}[g.rng.IntN(3)]
	// The interpolating ops need floats.
	if x == nil || op != ir.OpResizeNearest && !isFloat(x) {
		return nil
	}
	axes := min(1+g.rng.IntN(2), x.Rank())
	attrs := []ir.Attr{attr("size", g.shape(axes))}
	switch {
	// scales has a fraction, numerator and denominator, per axis.
	case g.rng.IntN(4) == 0:
		attrs = append(attrs, attr("scales", g.perAxis(2*axes, 1, 7)))
	case op != ir.OpResizeNearest:
		attrs = append(attrs, attr("align_corners", g.rng.IntN(2) == 0))
	}
	return g.add(op, []*ir.Node{x}, attrs...)
}

// windowed bounds convolutions, pooling and resizing.
func (b *Bound) windowed(n *ir.Node, args []Bound) {
	x := args[0]
	b.Lo, b.Hi, b.Err = min(x.Lo, 0), max(x.Hi, 0), x.Err
	switch n.Op() {
	case ir.OpConv, ir.OpConvTranspose:
		w := n.Arg(1).Shape()
		// k becomes the number of products in a sum.
		k := 1.0
		for _, d := range w[2:] {
			k *= float64(d.Max())
		}
		k *= max(1, float64(n.Arg(0).Shape()[1].Max())/float64(n.Attrs().Int("groups")))
		m := k * max(x.mag(), float64(n.Attrs().Int("padding_value"))) * args[1].mag()
		b.Lo, b.Hi = -m, m
		b.Err = k*(x.mag()*args[1].Err+args[1].mag()*x.Err) + additions(k, m)
		if n.DType().IsFloat() {
			b.roundedMatMul(n, k, args)
		}
	case ir.OpAvgPool, ir.OpResizeLinear:
		b.Err = x.Err + 8*x.mag()
	case ir.OpResizeCubic: // each axis overshoots by at most a half
		b.Lo, b.Hi = -4*x.mag(), 4*x.mag()
		b.Err = 4*x.Err + 32*x.mag()
	}
}
