package graphgen

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Options restricts the generated graphs. The zero value allows everything.
type Options struct {
	// Ops is how many ops to try to add; 0 means a random number up to 24.
	Ops int
	// Derived makes most extents functions of symbols: sums, products and quotients, and quotients of those.
	Derived bool
	// Static leaves out symbols.
	Static bool
	// Pointwise leaves out ops that sum or round internally, so that every implementation that rounds once per op
	// computes the same bits.
	Pointwise bool
	// Straight leaves out loops and branches.
	Straight bool
	// FullPrecision leaves out matmuls, convolutions and attentions in lower precisions. Only some devices use these.
	FullPrecision bool
	// Custom are custom ops to use next to the others. Kernels among them must move values or average them, since
	// graphgen does not know how large other results are.
	Custom []ir.Op
	// Large makes tensors that fill tiles of matrix units and several workgroups, and more ops that sum.
	Large bool
}

// New returns the graph of a seed. It always passes Verify.
func New(seed uint64, opt Options) (*ir.Graph, error) {
	// 0x67726170 is "grap" in ASCII: any constant would do.
	rng := rand.New(rand.NewPCG(seed, 0x67726170))
	g := &generator{rng: rng, g: ir.NewGraph(fmt.Sprintf("random %d", seed)), opt: opt}
	g.chooseDims()
	for range 1 + g.rng.IntN(3) {
		g.leaf(g.shape(1+g.rng.IntN(3)), g.floatType())
	}
	switch {
	case opt.Pointwise:
		g.makers = makers[:pointwise]
	case opt.Straight || opt.Large && g.rng.IntN(4) > 0:
		g.makers = makers[:straight]
	default:
		g.makers = makers[:]
	}
	if len(opt.Custom) > 0 {
		g.makers = append(slices.Clone(g.makers), maker{40, (*generator).custom})
	}
	ops := opt.Ops
	if ops == 0 {
		ops = 1 + g.rng.IntN(24)
		if opt.Large {
			ops = 1 + ops/3
		}
	}
	for range ops {
		g.op()
	}
	g.finish()
	if g.err != nil {
		return nil, fmt.Errorf("graphgen: seed %d: %w", seed, g.err)
	}
	return g.g, g.g.Verify()
}

// generator builds one graph. It keeps its first error. An op that its rule rejects is not an error; it is skipped.
type generator struct {
	rng    *rand.Rand
	g      *ir.Graph
	opt    Options
	dims   []ir.Dim
	float  ir.DType // dtype of most floating-point nodes
	pool   []*ir.Node
	bounds []Bound // by node ID
	states int
	makers []maker
	err    error

	// of a body:
	outer    *generator // of the enclosing graph
	captured []*ir.Node // of the enclosing graph; the body's inputs represent them
	depth    int        // number of enclosing graphs
}

// chooseDims selects a few extents for most shapes, so that shapes fit each other.
func (g *generator) chooseDims() {
	sizes := []int{1, 2, 3, 4, 5, 7, 8, 13}
	most := 9 // of a symbol
	if g.opt.Large {
		sizes = []int{1, 8, 16, 17, 32, 33, 48, 64, 65, 96, 100, 127, 128, 160, 200, 256, 300, 320, 512}
		most = 200
		// With a small extent every rank has a shape that fits.
		g.dims = append(g.dims, ir.D(1+g.rng.IntN(4)))
		if g.rng.IntN(3) == 0 {
			g.dims = append(g.dims, g.long())
		}
	}
	for range 3 {
		g.dims = append(g.dims, ir.D(sizes[g.rng.IntN(len(sizes))]))
	}
	// rarely, empty tensors
	if g.rng.IntN(12) == 0 {
		g.dims = append(g.dims, ir.D(0))
	}
	// More than a subgroup has invocations, and no multiple of one.
	if !g.opt.Large && g.rng.IntN(20) == 0 {
		g.dims[0] = ir.D(67)
	}
	// A row of whole blocks. The last extent stays small.
	if !g.opt.Large && g.rng.IntN(8) == 0 {
		g.dims[1] = ir.D(32)
	}
	if !g.opt.Static && g.rng.IntN(2) == 0 {
		t := ir.Symbol("T", 1+g.rng.IntN(most))
		g.dims = append(g.dims, t)
		switch g.rng.IntN(6) {
		case 0:
			g.dims = append(g.dims, t.Plus(int64(1+g.rng.IntN(3))))
		case 1:
			g.dims = append(g.dims, t.Times(int64(2+g.rng.IntN(2))))
		case 2:
			g.dims = append(g.dims, ir.Symbol("S", 1+g.rng.IntN(6)))
		}
	}
	if g.opt.Derived {
		g.deriveDims()
	}
	g.float = ir.F32
	switch g.rng.IntN(10) {
	case 0:
		g.float = ir.F16
	case 1:
		g.float = ir.BF16
	}
}

// deriveDims adds extents that are functions of symbols and of each other. The first leaves have the symbols as
// extents, so that a run can infer the symbols' values from its inputs.
func (g *generator) deriveDims() {
	t, s := ir.Symbol("T", 2+g.rng.IntN(9)), ir.Symbol("S", 1+g.rng.IntN(4))
	all := []ir.Dim{t, s}
	// An extent may be the sum or product of extents made before it.
	for len(all) < 6 {
		a, b := all[g.rng.IntN(len(all))], all[g.rng.IntN(len(all))]
		var d ir.Dim
		var err error
		switch g.rng.IntN(5) {
		case 0, 1:
			d, err = a.Plus(int64(g.rng.IntN(3))).FloorQuo(int64(2 + g.rng.IntN(3)))
		case 2:
			d, err = a.Sum(b)
		case 3:
			d, err = a.Mul2(b)
		default:
			d = a.Times(2).Plus(int64(g.rng.IntN(2)))
		}
		if err == nil && d.Max() <= 24 {
			all = append(all, d)
		}
	}
	// Declare the symbols before the derived extents, which other inputs may have.
	for _, d := range []ir.Dim{t, s} {
		if err := g.g.DeclareDim(d); err != nil && g.err == nil {
			g.err = err
		}
	}
	g.leaf(ir.Shape{t}, ir.F32)
	g.leaf(ir.Shape{s}, ir.F32)
	// Keep one fixed extent.
	g.dims = append(g.dims[:1], all...)
}

// floatType returns the graph's float dtype, and now and then another one.
func (g *generator) floatType() ir.DType {
	if g.rng.IntN(12) == 0 {
		return g.oneOf(ir.F16, ir.BF16, ir.F32)
	}
	return g.float
}

func (g *generator) intType() ir.DType {
	return g.oneOf(ir.I32, ir.I32, ir.U32, ir.I16, ir.U16, ir.I8, ir.U8, ir.I64)
}

func (g *generator) oneOf(list ...ir.DType) ir.DType { return list[g.rng.IntN(len(list))] }

// maxElems is the largest number of elements of a value.
func (g *generator) maxElems() int {
	if g.opt.Large {
		return 1 << 18
	}
	return 3000
}

// fits reports whether a value may have this shape: it must not have too many elements.
func (g *generator) fits(s ir.Shape) bool { return s.MaxElems() <= int64(g.maxElems()) }

// upTo returns an extent from 1 to n, or in a large graph from 1 to 32*n, mostly a multiple of 8.
func (g *generator) upTo(n int) int {
	size := 1 + g.rng.IntN(n)
	if !g.opt.Large {
		return size
	}
	size = 8 * (4*(size-1) + 1 + g.rng.IntN(4))
	if g.rng.IntN(6) == 0 {
		size -= g.rng.IntN(8)
	}
	return size
}

// long returns an extent for long sums. The compiler splits such sums.
func (g *generator) long() ir.Dim {
	return ir.D([]int{600, 777, 1024, 1500, 2048, 4096}[g.rng.IntN(6)])
}

// shape returns a random shape of the given rank that fits.
func (g *generator) shape(rank int) ir.Shape {
	for {
		s := make(ir.Shape, rank)
		for i := range s {
			s[i] = g.dims[g.rng.IntN(len(g.dims))]
		}
		if g.fits(s) {
			return s
		}
	}
}

// leaf adds an input, weight or constant of the given shape and dtype. In a body, it adds the input or weight to the
// enclosing graph and captures it.
func (g *generator) leaf(s ir.Shape, t ir.DType) *ir.Node {
	n := len(g.g.Nodes())
	switch pick := g.rng.IntN(10); {
	// Weights and constants cannot have symbols in their shapes.
	case !s.IsStatic() || pick < 5:
		name := fmt.Sprintf("in%d", n)
		if t.IsInteger() && g.rng.IntN(3) == 0 {
			name = fmt.Sprintf("%s %d", wild, n)
		}
		return g.named(ir.OpInput, name, s, t)
	case pick < 8:
		return g.named(ir.OpWeight, fmt.Sprintf("w%d", n), s, t)
	default:
		return g.constant(s, t)
	}
}

// named adds a leaf with a name. In a body it adds the leaf to the enclosing graph, with a unique name, and captures
// it.
func (g *generator) named(op ir.Op, name string, s ir.Shape, t ir.DType) *ir.Node {
	if g.outer != nil {
		return g.capture(g.outer.named(op, fmt.Sprintf("%s of %d", name, len(g.outer.g.Nodes())), s, t))
	}
	return g.add(op, nil, ir.Attr{Name: "name", Value: name}, ir.Attr{Name: "dtype", Value: t},
		ir.Attr{Name: "shape", Value: s})
}

// constant adds a constant, often of one value throughout.
func (g *generator) constant(s ir.Shape, t ir.DType) *ir.Node {
	// It fails for a shape with symbols.
	dims, err := s.Eval(nil)
	if err != nil {
		return nil
	}
	v := make([]float64, s.MaxElems())
	splat := g.rng.IntN(2) == 0 || len(v) > 3000 // graphs are printed
	// Identities and small numbers, which rewrites look for.
	first := []float64{0, 1, 1, -1, 0.5, 2}[g.rng.IntN(6)]
	for i := range v {
		v[i] = first
		if !splat {
			// Multiples of 1/8 are exact in every float dtype.
			v[i] = float64(g.rng.IntN(17)-8) / 8
		}
	}
	d, err := ir.FromFloats(t, v, dims...)
	if err != nil {
		return nil
	}
	return g.add(ir.OpConst, nil, ir.Attr{Name: "data", Value: d})
}

// add adds a node, or returns nil if the op's rule rejects it, an argument is nil, or the result is not usable.
func (g *generator) add(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	var known []Bound
	for _, a := range args {
		if a == nil {
			return nil
		}
		known = append(known, g.bounds[a.ID()])
	}
	n, err := g.g.Add(op, args, attrs, "")
	if err != nil {
		return nil
	}
	b := boundOf(n, known)
	b.Bad = b.Bad || !g.fits(n.Shape())
	// The graph keeps an unusable node, so it needs a bound. Without a user it is dead.
	g.bounds = append(g.bounds, b)
	if b.Bad {
		return nil
	}
	// Most ops do not accept blocks. Makers that want blocks make them.
	if !n.DType().IsBlock() {
		g.pool = append(g.pool, n)
	}
	return n
}

func attr(name string, v any) ir.Attr { return ir.Attr{Name: name, Value: v} }

// pick returns a random node that ok accepts, or nil if there is none. It prefers nodes that were added late.
func (g *generator) pick(ok func(n *ir.Node) bool) *ir.Node {
	var fit []*ir.Node
	for _, n := range g.pool {
		if ok(n) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	// Half of the time choose from the last third.
	if g.rng.IntN(2) == 0 {
		fit = fit[len(fit)*2/3:]
	}
	return fit[g.rng.IntN(len(fit))]
}

func isFloat(n *ir.Node) bool { return n.DType().IsFloat() }
func isInt(n *ir.Node) bool   { return n.DType().IsInteger() }
func isBool(n *ir.Node) bool  { return n.DType() == ir.Bool }
func anyNode(*ir.Node) bool   { return true }

// anyFloat returns a float node.
func (g *generator) anyFloat() *ir.Node { return g.pick(isFloat) }

// ints returns an integer node. It makes one if there is none, or by chance.
func (g *generator) ints() *ir.Node {
	if n := g.pick(isInt); n != nil && g.rng.IntN(3) > 0 {
		return n
	}
	return g.leaf(g.shape(1+g.rng.IntN(2)), g.intType())
}

// finish makes states advance and declares outputs.
func (g *generator) finish() {
	for range g.states {
		g.update()
	}
	outputs := 1 + g.rng.IntN(3)
	used := g.g.Users()
	var ends []*ir.Node // unused nodes first
	for _, n := range slices.Backward(g.pool) {
		if len(used[n.ID()]) == 0 && n.Op().Class() != ir.ClassLeaf {
			ends = append(ends, n)
		}
	}
	for i := range outputs {
		n := g.pick(anyNode)
		// Sometimes an output is a node that other nodes use, or a leaf.
		if i < len(ends) && g.rng.IntN(5) > 0 {
			n = ends[i]
		}
		if err := g.g.Output(fmt.Sprintf("out%d", i), n); err != nil && g.err == nil {
			g.err = err
		}
	}
}

// update gives a state without update a new value, if a node fits.
func (g *generator) update() {
	for _, s := range g.g.Leaves(ir.OpState) {
		if slices.ContainsFunc(g.g.Updates(), func(u ir.Update) bool { return u.State == s }) {
			continue
		}
		n := g.pick(func(n *ir.Node) bool {
			b := g.bounds[n.ID()]
			return n.Type().Equal(s.Type()) && n != s &&
				(!isFloat(n) || b.mag() <= stateMagnitude && b.Err <= (stateErr+100)*epsilonOf(n))
		})
		if n == nil {
			continue
		}
		if err := g.g.Update(s, n); err != nil && g.err == nil {
			g.err = err
		}
	}
}
