package graphgen

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// scatter writes or adds updates at indices, some of them out of range and some equal.
func (g *generator) scatter() *ir.Node {
	base := g.pick(func(n *ir.Node) bool { return n.Rank() > 0 })
	if base == nil {
		return nil
	}
	return g.scatterInto(base)
}

// scatterInto adds a random scatter into base, or a gather_nd from it. It returns nil for shapes with axes that the
// compiler must join into one and cannot (see isLinear).
func (g *generator) scatterInto(base *ir.Node) *ir.Node {
	axis := g.rng.IntN(base.Rank())
	s := slices.Clone(base.Shape())
	s[axis] = g.shape(1)[0]
	// updates adds a leaf for the written values, or returns nil if it would be too large.
	updates := func(s ir.Shape) *ir.Node {
		if !g.fits(s) {
			return nil
		}
		return g.leaf(s, base.DType())
	}
	if !isLinear(s[:axis]) || !isLinear(s[axis+1:]) {
		return nil
	}
	mode := attr("mode", []string{"add", "mul", "min", "max"}[g.rng.IntN(4)])
	// folded adds a scatter that combines each update with the element already there.
	folded := func(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
		return g.add(op, args, append(attrs, mode, attr("unordered", axis == 0))...)
	}
	switch g.rng.IntN(6) {
	case 0:
		return g.add(ir.OpScatter, []*ir.Node{base, g.leaf(s, g.intType()), updates(s)}, attr("axis", axis))
	case 1:
		return folded(ir.OpScatterAdd, []*ir.Node{base, g.leaf(s, g.intType()), updates(s)}, attr("axis", axis))
	case 2:
		return g.add(ir.OpIndexAdd, []*ir.Node{base, g.leaf(s[axis:axis+1], g.intType()), updates(s)},
			attr("axis", axis), attr("unordered", axis == 0))
	}
	// The number of axes that are indexed together.
	rank := g.rng.IntN(base.Rank() + 1)
	// The shape of the list of places.
	places := g.shape(g.rng.IntN(3))
	if !isLinear(places) || !isLinear(base.Shape()[:rank]) || !isLinear(base.Shape()[rank:]) {
		return nil
	}
	indices := g.leaf(append(slices.Clone(places), ir.D(rank)), g.intType())
	if g.rng.IntN(3) == 0 {
		return g.add(ir.OpGatherND, []*ir.Node{base, indices})
	}
	args := []*ir.Node{base, indices, updates(append(slices.Clone(places), base.Shape()[rank:]...))}
	if g.rng.IntN(2) == 0 {
		return g.add(ir.OpScatterND, args)
	}
	return folded(ir.OpScatterNDAdd, args)
}

// isLinear reports whether all axes can be joined into one. The compiler does that with the axes on either side of an
// indexed axis.
func isLinear(s ir.Shape) bool {
	_, err := s.Numel()
	return err == nil
}

// sort adds a sort, an argsort, a top_k_indices or a scan.
func (g *generator) sort() *ir.Node {
	x := g.pick(func(n *ir.Node) bool { return !isBool(n) && n.Rank() > 0 })
	if x == nil {
		return nil
	}
	axis := g.rng.IntN(x.Rank())
	way := g.rng.IntN(2) == 0
	switch g.rng.IntN(5) {
	case 3, 4:
		// Half of the scans never restart, which 0 means.
		restart := max(0, g.rng.IntN(12)-6)
		op := []ir.Op{ir.OpCumSum, ir.OpCumProd, ir.OpCumMax, ir.OpCumMin}[g.rng.IntN(4)]
		return g.add(op, []*ir.Node{x}, attr("axis", axis), attr("exclusive", way),
			attr("reverse", g.rng.IntN(2) == 0), attr("restart", restart))
	case 0:
		return g.add(ir.OpSort, []*ir.Node{x}, attr("axis", axis), attr("descending", way))
	case 1:
		return g.add(ir.OpArgsort, []*ir.Node{x}, attr("axis", axis), attr("descending", way))
	}
	// At most the smallest extent that the axis can have.
	k := g.rng.IntN(1 + int(max(x.Shape()[axis].Add, 0)))
	return g.add(ir.OpTopKIndices, []*ir.Node{x}, attr("k", k), attr("axis", axis), attr("largest", way))
}

// composite adds an op that the compiler replaces by several others.
func (g *generator) composite() *ir.Node {
	switch g.rng.IntN(7) {
	case 5, 6:
		return g.linear()
	case 0:
		return g.add(ir.OpTril, []*ir.Node{g.pick(anyNode)}, attr("k", g.rng.IntN(7)-3))
	case 1:
		return g.add(ir.OpTriu, []*ir.Node{g.pick(anyNode)}, attr("k", g.rng.IntN(7)-3))
	case 2:
		return g.add(ir.OpOneHot, []*ir.Node{g.ints()}, attr("depth", g.rng.IntN(6)),
			attr("dtype", g.oneOf(g.float, ir.F32, ir.I32, ir.Bool)))
	}
	x := g.images()
	if x == nil {
		return nil
	}
	c := x.Shape()[1:2]
	// channel adds a vector with one element per channel.
	channel := func() *ir.Node { return g.leaf(c, x.DType()) }
	eps := attr("eps", []float64{0.01, 0.1}[g.rng.IntN(2)])
	if g.rng.IntN(2) == 0 {
		// Squares are not negative, as variances are.
		variance := g.add(ir.OpSqr, []*ir.Node{channel()})
		return g.add(ir.OpBatchNorm, []*ir.Node{x, channel(), variance, channel(), channel()}, eps)
	}
	if !isLinear(x.Shape()[1:]) {
		return nil
	}
	groups := 1 + g.rng.IntN(3)
	return g.add(ir.OpGroupNorm, []*ir.Node{x, channel(), channel()}, attr("groups", groups), eps)
}

// composite bounds the results of tril, triu, one_hot, rope_tables and batch_norm. A result of tril or triu is an
// element of x or 0.
func (b *Bound) composite(n *ir.Node, args []Bound) {
	b.Lo, b.Hi, b.Err = min(0, args[0].Lo), max(0, args[0].Hi), args[0].Err
	switch n.Op() {
	case ir.OpOneHot:
		b.Lo, b.Hi, b.Err = 0, 1, 0
	case ir.OpRopeTables: // each result is a sum of two products of x and a table
		x, largestEntry := args[0], max(args[1].mag(), args[2].mag(), 1)
		magnitude := 2 * x.mag() * largestEntry
		b.Lo, b.Hi = -magnitude, magnitude
		b.Err = 2*x.Err*largestEntry + 2*x.mag()*max(args[1].Err, args[2].Err) + 4*magnitude
	case ir.OpBatchNorm:
		x, mean, variance := args[0], args[1], args[2]
		leastVariance := variance.Lo + n.Attrs().Float("eps")
		if leastVariance <= 0 { // the square root may be NaN
			b.Bad = true
			return
		}
		scale := 1 / min(1, leastVariance)
		magnitude := (x.mag() + mean.mag()) * scale
		b.Err = scale*(x.Err+mean.Err+2*x.mag()+2*mean.mag()) + magnitude*scale*(variance.Err+variance.mag()) +
			8*magnitude
		b.scaleAndShift(magnitude, args[3:])
	}
}

// scaleAndShift sets b to the bound of a normalized value of magnitude m after multiplication by params[0] and addition
// of params[1]. b.Err is the value's error before.
func (b *Bound) scaleAndShift(m float64, params []Bound) {
	for i, p := range params {
		if i == 0 {
			b.Err = b.Err*p.mag() + p.Err*m + m*p.mag()
			m *= p.mag()
		} else {
			b.Err += p.Err + p.mag() + m
			m += p.mag()
		}
	}
	b.Lo, b.Hi = -m, m
}

// sorted bounds scans and sorts.
func (b *Bound) sorted(n *ir.Node, x Bound) {
	count := float64(n.Arg(0).Shape()[resolved(n)].Max())
	b.Lo, b.Hi, b.Err = x.Lo, x.Hi, x.Err
	switch n.Op() {
	case ir.OpArgsort, ir.OpTopKIndices:
		b.Lo, b.Hi, b.Err = 0, count, 0
	case ir.OpCumMax, ir.OpCumMin:
		if n.Attrs().Bool("exclusive") && n.DType().IsFloat() {
			b.Bad = true // the first result is infinite
		}
	case ir.OpCumProd:
		m := math.Pow(max(1, x.mag()), count)
		b.Lo, b.Hi = -m, m
		b.Err = count * m * (x.Err + 2)
	case ir.OpCumSum:
		b.Lo, b.Hi = min(0, count*x.Lo), max(0, count*x.Hi)
		b.Err = count*x.Err + additions(count, count*x.mag())
	}
}
