package graphgen

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// maker adds a random op of some kind; weight is its relative frequency.
type maker struct {
	weight int
	make   func(g *generator) *ir.Node
}

// makers has one row per kind of op. Pointwise ops come first, ops with bodies last.
var makers = [...]maker{
	{10, (*generator).unary},
	{14, (*generator).binary},
	{3, (*generator).compareOrSelect},
	{3, (*generator).parametric},
	{4, (*generator).castOp},
	{1, (*generator).bitcast},
	{5, (*generator).integerOp},
	{4, (*generator).reshape},
	{12, (*generator).view},
	{8, (*generator).indexing},
	{3, (*generator).coordinates},
	{4, (*generator).extreme},

	{7, (*generator).reduce},
	{6, (*generator).row},
	{2, (*generator).rope},
	{8, (*generator).matmul},
	{3, (*generator).quantized},
	{3, (*generator).experts},
	{2, (*generator).attention},
	{1, (*generator).recurrence},
	{4, (*generator).scatter},
	{5, (*generator).sort},
	{2, (*generator).random},
	{3, (*generator).composite},
	{4, (*generator).conv},
	{3, (*generator).pooling},
	{3, (*generator).resize},
	{3, (*generator).state},
	{5, (*generator).control},
}

// The first pointwise makers add only pointwise ops, and the first straight ones only ops without bodies.
const (
	pointwise = 12
	straight  = len(makers) - 1
)

// op adds one op of a random kind. If nothing fits that kind, it tries others, up to 8 in all.
func (g *generator) op() {
	for range 8 {
		if g.maker().make(g) != nil {
			return
		}
	}
}

// maker returns a random maker. The probability of each is in proportion to its weight.
func (g *generator) maker() maker {
	total := 0
	for i := range g.makers {
		total += g.weight(i)
	}
	i, pick := 0, g.rng.IntN(total)
	for pick >= g.weight(i) {
		pick -= g.weight(i)
		i++
	}
	return g.makers[i]
}

// weight returns the relative frequency of a maker. Large graphs are for kernels that sum many products.
func (g *generator) weight(i int) int {
	if g.opt.Large && i >= pointwise {
		return 4 * g.makers[i].weight
	}
	return g.makers[i].weight
}

// unaryOps are the functions of one float without attributes.
var unaryOps = func() []ir.Op {
	var list []ir.Op
	for _, op := range ir.Ops() {
		if in := op.Info(); in.Class == ir.ClassElementwise && len(in.Args) == 1 && len(in.Attrs) == 0 &&
			in.Float != nil {
			list = append(list, op)
		}
	}
	return list
}()

// unary adds an elementwise op of one argument. A third of the time it maps the argument to a range that every such op
// accepts.
func (g *generator) unary() *ir.Node {
	op := unaryOps[g.rng.IntN(len(unaryOps))]
	x := g.anyFloat()
	switch g.rng.IntN(3) {
	case 0:
		x = g.squashed(x)
	case 1: // to include functions with jumps
		x = g.pick(func(n *ir.Node) bool { return isFloat(n) && g.bounds[n.ID()].Exact })
	}
	return g.add(op, []*ir.Node{x})
}

// squashed maps x to a range that every function accepts: 0.5 to 0.9 or 1.1 to 1.5.
func (g *generator) squashed(x *ir.Node) *ir.Node {
	return g.add(ir.OpAffine, []*ir.Node{g.add(ir.OpTanh, []*ir.Node{x})}, attr("mul", 0.2),
		attr("add", []float64{0.7, 1.3}[g.rng.IntN(2)]))
}

// binaryOps repeats the ops that real graphs use most.
var binaryOps = []ir.Op{ir.OpAdd, ir.OpAdd, ir.OpAdd, ir.OpSub, ir.OpSub, ir.OpMul, ir.OpMul, ir.OpMul,
	ir.OpDiv, ir.OpMin,
	ir.OpMax, ir.OpPow, ir.OpMod, ir.OpRem, ir.OpAtan2, ir.OpAfter}

// binary adds an elementwise op of two floats.
func (g *generator) binary() *ir.Node {
	op := binaryOps[g.rng.IntN(len(binaryOps))]
	a := g.anyFloat()
	b := g.partner(a)
	if g.rng.IntN(2) == 0 {
		a, b = b, a
	}
	return g.add(op, []*ir.Node{a, b})
}

// partner returns an existing node or a new leaf with a's dtype and a shape that broadcasts with a's.
func (g *generator) partner(a *ir.Node) *ir.Node {
	if a == nil {
		return nil
	}
	b := g.pick(func(b *ir.Node) bool {
		s, err := ir.BroadcastShapes(a.Shape(), b.Shape())
		return err == nil && b.DType() == a.DType() && g.fits(s)
	})
	if b != nil && g.rng.IntN(4) > 0 {
		return b
	}
	return g.leaf(g.broadcastable(a.Shape()), a.DType())
}

// broadcastable returns a shape that broadcasts to s: inner axes of s, some of them 1.
func (g *generator) broadcastable(s ir.Shape) ir.Shape {
	// The number of outer axes to leave out.
	from := g.rng.IntN(len(s) + 1)
	if g.rng.IntN(2) == 0 {
		from = 0
	}
	out := append(ir.Shape{}, s[from:]...)
	for i := range out {
		if g.rng.IntN(4) == 0 {
			out[i] = ir.D(1)
		}
	}
	return out
}

// compareOrSelect adds a comparison of exact values, and then a where with its result.
func (g *generator) compareOrSelect() *ir.Node {
	a := g.pick(func(n *ir.Node) bool { return !isBool(n) && g.bounds[n.ID()].Exact })
	b := g.partner(a)
	cmp := []ir.Op{ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe}[g.rng.IntN(6)]
	cond := g.add(cmp, []*ir.Node{a, b})
	if cond == nil {
		return cond
	}
	x := g.pick(func(n *ir.Node) bool {
		_, err := ir.BroadcastShapes(n.Shape(), cond.Shape())
		return err == nil
	})
	return g.add(ir.OpWhere, []*ir.Node{cond, x, g.partner(x)})
}

// parametricOps are the functions of one float with attributes.
var parametricOps = func() []ir.Op {
	var list []ir.Op
	for _, op := range ir.Ops() {
		if in := op.Info(); in.Class == ir.ClassElementwise && len(in.Args) == 1 && in.SampleCount() > 0 &&
			in.Float != nil {
			list = append(list, op)
		}
	}
	return list
}()

// parametric adds an elementwise op that has attributes or more than two arguments.
func (g *generator) parametric() *ir.Node {
	x := g.anyFloat()
	if i := g.rng.IntN(len(parametricOps) + 1); i < len(parametricOps) {
		in := parametricOps[i].Info()
		return g.add(in.Op, []*ir.Node{x}, in.SampleAttrs(g.rng.IntN(in.SampleCount()), true)...)
	}
	y := g.partner(x)
	return g.add(ir.OpLerp, []*ir.Node{x, y, g.partner(x)})
}

// castOp casts a node, to the graph's main float dtype half of the time.
func (g *generator) castOp() *ir.Node {
	to := g.oneOf(ir.F32, ir.F32, ir.F16, ir.BF16, ir.I32, ir.U32, ir.I8, ir.U8, ir.Bool, ir.I64)
	if g.rng.IntN(2) == 0 {
		to = g.float
	}
	return g.add(ir.OpCast, []*ir.Node{g.pick(anyNode)}, attr("dtype", to))
}

// bitcast reinterprets integers, and floats of leaves. It excludes computed floats, because zeros of either sign are
// equal but have different bits.
func (g *generator) bitcast() *ir.Node {
	x := g.pick(func(n *ir.Node) bool {
		return n.DType().IsInteger() || isFloat(n) && n.Op().Class() == ir.ClassLeaf && n.Op() != ir.OpState
	})
	if x == nil {
		return nil
	}
	// The key is the size in bytes, which a bitcast keeps.
	to := map[int]ir.DType{1: g.oneOf(ir.I8, ir.U8), 2: g.oneOf(ir.I16, ir.U16), 4: g.oneOf(ir.I32, ir.U32), 8: ir.I64}
	return g.add(ir.OpBitcast, []*ir.Node{x}, attr("dtype", to[x.DType().BlockBytes()]))
}

// integerOp adds an elementwise op of integers or bools.
func (g *generator) integerOp() *ir.Node {
	ops := []ir.Op{ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpRem, ir.OpMin, ir.OpMax, ir.OpAnd,
		ir.OpOr, ir.OpXor,
		ir.OpShl, ir.OpShr, ir.OpNeg, ir.OpAbs, ir.OpSign, ir.OpSqr, ir.OpNot, ir.OpRelu}
	op := ops[g.rng.IntN(len(ops))]
	x := g.ints()
	if g.rng.IntN(5) == 0 {
		x = g.pick(isBool)
	}
	if op.Info().MinArgs() == 1 {
		return g.add(op, []*ir.Node{x})
	}
	return g.add(op, []*ir.Node{x, g.partner(x)})
}

// extreme adds a reduction that only picks an element.
func (g *generator) extreme() *ir.Node {
	x := g.pick(func(n *ir.Node) bool { return !isBool(n) })
	if x == nil {
		return nil
	}
	op := []ir.Op{ir.OpReduceMax, ir.OpReduceMin}[g.rng.IntN(2)]
	return g.add(op, []*ir.Node{x}, attr("axes", g.axes(x.Rank())), attr("keepdims", g.rng.IntN(2) == 0))
}

// reduce adds a reduction.
func (g *generator) reduce() *ir.Node {
	ops := []ir.Op{ir.OpSum, ir.OpMean, ir.OpProd, ir.OpReduceMax, ir.OpReduceMin, ir.OpNorm1, ir.OpNorm2, ir.OpNormP,
		ir.OpLogSumExp, ir.OpVariance}
	x := g.anyFloat()
	switch g.rng.IntN(6) {
	case 0:
		x = g.ints()
	case 1:
		if b := g.pick(isBool); b != nil {
			x, ops = b, []ir.Op{ir.OpAny, ir.OpAll}
		}
	case 2, 3:
		// Errors could change which element is the largest.
		x = g.pick(func(n *ir.Node) bool { return !isBool(n) && g.bounds[n.ID()].Exact && n.Rank() > 0 })
		ops = []ir.Op{ir.OpArgmax, ir.OpArgmin}
	}
	if x == nil {
		return nil
	}
	op, keep := ops[g.rng.IntN(len(ops))], attr("keepdims", g.rng.IntN(2) == 0)
	if op == ir.OpArgmax || op == ir.OpArgmin {
		return g.add(op, []*ir.Node{x}, attr("axis", g.rng.IntN(x.Rank())), keep)
	}
	attrs := []ir.Attr{attr("axes", g.axes(x.Rank())), keep}
	if in := op.Info(); in.SampleCount() > 0 {
		attrs = append(attrs, in.SampleAttrs(g.rng.IntN(in.SampleCount()), g.rng.IntN(2) == 0)...)
	}
	n := g.add(op, []*ir.Node{x}, attrs...)
	if n != nil && g.rng.IntN(3) == 0 { // as in softmax and norms
		g.add(ir.OpSub, []*ir.Node{x, n})
	}
	return n
}

// axes returns some axes of a rank, some counted from the end. It may return none, which means all.
func (g *generator) axes(rank int) []int {
	axes := []int{}
	for i := range rank {
		switch g.rng.IntN(4) {
		case 0:
			axes = append(axes, i)
		case 1:
			axes = append(axes, i-rank)
		}
	}
	return axes
}

// row adds a softmax, a log-softmax or a norm.
func (g *generator) row() *ir.Node {
	x := g.pick(func(n *ir.Node) bool { return isFloat(n) && n.Rank() > 0 })
	if x == nil {
		return nil
	}
	axis := attr("axis", g.rng.IntN(x.Rank()))
	eps := attr("eps", []float64{0.01, 0.1, 1}[g.rng.IntN(3)])
	inner := x.Shape()[x.Rank()-1:]
	switch g.rng.IntN(6) {
	case 5:
		// A larger eps than in norms, because the error grows with its reciprocal.
		return g.add(ir.OpL2Normalize, []*ir.Node{x}, axis, attr("eps", 0.25))
	case 0:
		return g.add(ir.OpSoftmax, []*ir.Node{x}, axis)
	case 1:
		return g.add(ir.OpLogSoftmax, []*ir.Node{x}, axis)
	case 2:
		return g.add(ir.OpRMSNorm, []*ir.Node{x}, eps)
	case 3:
		return g.add(ir.OpRMSNorm, []*ir.Node{x, g.leaf(inner, g.floatType())}, eps)
	}
	return g.add(ir.OpLayerNorm, []*ir.Node{x, g.leaf(inner, g.floatType()), g.leaf(inner, g.floatType())}, eps)
}

// rope adds a rotary embedding.
func (g *generator) rope() *ir.Node {
	x := g.pick(func(n *ir.Node) bool {
		last := n.Rank() - 1
		return isFloat(n) && last > 0 && n.Shape()[last].IsStatic() && n.Shape()[last].Add%2 == 0
	})
	if x == nil {
		s := append(g.shape(1+g.rng.IntN(2)), ir.D([]int{2, 4, 6, 8}[g.rng.IntN(4)]))
		x = g.leaf(s, g.floatType())
	}
	if x == nil {
		return nil
	}
	mode := attr("mode", []string{"interleaved", "half"}[g.rng.IntN(2)])
	if last := x.Rank() - 1; g.rng.IntN(3) == 0 {
		// The tables may rotate fewer pairs than there are.
		pairs := ir.D(g.rng.IntN(int(x.Shape()[last].Add)/2 + 1))
		table := func() *ir.Node { return g.leaf(append(g.broadcastable(x.Shape()[:last]), pairs), x.DType()) }
		return g.add(ir.OpRopeTables, []*ir.Node{x, table(), table()}, mode)
	}
	axis := g.rng.IntN(x.Rank() - 1)
	s := ir.Shape{x.Shape()[axis]}
	pos := g.add(ir.OpIota, nil, attr("shape", s), attr("dtype", g.oneOf(ir.I32, ir.U32)))
	if g.rng.IntN(2) == 0 {
		pos = g.named(ir.OpInput, fmt.Sprintf("pos%d", len(g.g.Nodes())), s, g.oneOf(ir.I32, ir.I64))
	}
	// The number of elements to rotate, which must be even.
	dims := 2 * g.rng.IntN(int(x.Shape()[x.Rank()-1].Add)/2+1)
	return g.add(ir.OpRope, []*ir.Node{x, pos}, attr("axis", axis), attr("dims", dims),
		mode, attr("base", 100.0))
}

// matmul multiplies a node of rank 2 or more by another that fits, or by a new leaf.
func (g *generator) matmul() *ir.Node {
	fits, t := isFloat, g.floatType()
	if g.rng.IntN(4) == 0 {
		fits, t = isByte, g.oneOf(ir.I8, ir.U8)
	}
	a := g.pick(func(n *ir.Node) bool { return fits(n) && n.Rank() >= 2 })
	if a == nil {
		a = g.leaf(g.shape(2+g.rng.IntN(2)), t)
	}
	if g.opt.Large && g.rng.IntN(4) == 0 {
		a = g.leaf(ir.Shape{ir.D(g.upTo(2)), g.long()}, t)
	}
	if a == nil {
		return nil
	}
	ta, tb := g.rng.IntN(4) == 0, g.rng.IntN(2) == 0
	attrs := []ir.Attr{attr("transpose_a", ta), attr("transpose_b", tb), g.precision()}
	if b := g.pick(func(n *ir.Node) bool { return n.DType() == a.DType() && n.Rank() >= 2 }); b != nil &&
		g.rng.IntN(2) == 0 {
		if n := g.add(ir.OpMatMul, []*ir.Node{a, b}, attrs...); n != nil {
			return n
		}
	}
	// k becomes the extent of the contracted axis.
	k := a.Shape()[a.Rank()-1]
	if ta {
		k = a.Shape()[a.Rank()-2]
	}
	// a random extent
	n := g.shape(1)[0]
	if !g.fits(ir.Shape{k, n}) {
		n = ir.D(g.upTo(2))
	}
	b := ir.Shape{k, n}
	if tb {
		b = ir.Shape{n, k}
	}
	// batch axes
	if g.rng.IntN(4) == 0 {
		b = append(g.broadcastable(a.Shape()[:a.Rank()-2]), b...)
	}
	dtype := a.DType()
	if dtype.IsFloat() && g.rng.IntN(8) == 0 {
		dtype = g.oneOf(ir.F16, ir.BF16, ir.F32)
	}
	out := g.add(ir.OpMatMul, []*ir.Node{a, g.leaf(b, dtype)}, attrs...)
	for out != nil && g.rng.IntN(3) == 0 { // siblings, as query, key and value are
		g.add(ir.OpMatMul, []*ir.Node{a, g.leaf(b, dtype)}, attrs...)
		if g.rng.IntN(2) == 0 {
			break
		}
	}
	return out
}

// isByte reports whether a node can be an operand of an integer matmul.
func isByte(n *ir.Node) bool { return n.DType() == ir.I8 || n.DType() == ir.U8 }

// quantized uses a weight in a block format.
func (g *generator) quantized() *ir.Node {
	// mostly short blocks, so that tensors stay small
	t := g.oneOf(ir.Q8_0, ir.Q4_0, ir.Q4_1, ir.Q5_0, ir.Q5_1, ir.IQ4_NL, ir.MXFP4)
	if g.rng.IntN(2) == 0 {
		t = g.oneOf(ir.BlockFormats()...)
	}
	// One or two blocks per row.
	k := t.BlockElems() * (1 + g.rng.IntN(2))
	if g.opt.Large {
		k = t.BlockElems() * (1 + g.rng.IntN(max(2, 1<<(6+g.rng.IntN(7))/t.BlockElems()))) // up to 4096 elements
	}
	a := g.pick(func(n *ir.Node) bool { // rows of whole blocks
		last := n.Rank() - 1
		return isFloat(n) && last > 0 && n.Shape()[last].IsStatic() && n.Shape()[last].Add > 0 &&
			n.Shape()[last].Add%int64(t.BlockElems()) == 0
	})
	if g.rng.IntN(2) == 0 {
		a = nil
	}
	if a != nil {
		k = int(a.Shape()[a.Rank()-1].Add)
	}
	w := g.blocks(t, k)
	switch g.rng.IntN(4) {
	case 0:
		return g.add(ir.OpEmbedding, []*ir.Node{w, g.ints()}, attr("dtype", g.float))
	case 1:
		return g.add(ir.OpDequantize, []*ir.Node{w}, attr("dtype", g.float))
	}
	if g.rng.IntN(4) == 0 { // rows in blocks, too
		return g.add(ir.OpMatMul, []*ir.Node{g.blocks(g.oneOf(ir.Q8_0, ir.Q8_1), k), w}, attr("transpose_b", true),
			g.precision())
	}
	if a == nil {
		a = g.leaf(append(g.shape(1+g.rng.IntN(2)), ir.D(k)), g.float)
	}
	return g.add(ir.OpMatMul, []*ir.Node{a, w}, attr("transpose_b", true), g.precision())
}

// precision returns a matmul's precision attribute: full precision half of the time.
func (g *generator) precision() ir.Attr {
	list := []string{ir.PrecisionBF16x3, ir.PrecisionHalf, ir.PrecisionHalfSums, ir.PrecisionBytes}
	if i := g.rng.IntN(2 * len(list)); i < len(list) && !g.opt.FullPrecision {
		return attr("precision", list[i])
	}
	return attr("precision", ir.PrecisionFull)
}

// blocks makes rows of k elements in a block format: a weight, or a quantized input. It does not quantize computed
// values, since the block format's steps would amplify their errors.
func (g *generator) blocks(t ir.DType, k int) *ir.Node {
	name, shape := fmt.Sprintf("q%d", len(g.g.Nodes())), ir.ShapeOf(g.upTo(12), k)
	if !g.fits(shape) {
		shape[0] = ir.D(1 + g.rng.IntN(max(g.maxElems()/k, 1)))
	}
	if g.rng.IntN(3) > 0 {
		return g.named(ir.OpWeight, name, shape, t)
	}
	return g.add(ir.OpQuantize, []*ir.Node{g.leaf(shape, g.float)}, attr("dtype", t))
}

// attention adds an attention, and sometimes a gradient of one.
func (g *generator) attention() *ir.Node {
	groups := 1 + g.rng.IntN(2)
	heads := groups * (1 + g.rng.IntN(3))
	batch := g.shape(g.rng.IntN(2))
	t, s := g.dims[g.rng.IntN(len(g.dims))], g.dims[g.rng.IntN(len(g.dims))]
	if g.rng.IntN(3) == 0 { // as in self-attention
		s = t
	}
	if int64(heads)*t.Max()*s.Max() > 1<<21 { // the reference would take long
		return nil
	}
	// Op reshape could not split the heads: it does not see that both shapes are empty.
	if (t.Is(0) || s.Is(0)) && !batch.IsStatic() {
		return nil
	}
	d, e := ir.D(g.upTo(4)), ir.D(g.upTo(4))
	if g.opt.Large && g.rng.IntN(3) > 0 {
		e = d
	}
	of := func(dims ...ir.Dim) *ir.Node { return g.batched(batch, g.float, dims...) }
	args := []*ir.Node{of(ir.D(heads), t, d), of(ir.D(groups), s, d), of(ir.D(groups), s, e)}
	if g.rng.IntN(3) == 0 {
		args = append(args, g.leaf(g.broadcastable(ir.Shape{ir.D(heads), t, s}), g.floatType()))
		if g.rng.IntN(2) == 0 { // sinks, which may only follow a mask
			args = append(args, g.leaf(ir.ShapeOf(heads), g.floatType()))
		}
	}
	attrs := []ir.Attr{attr("causal", false)}
	if g.rng.IntN(2) == 0 {
		attrs = []ir.Attr{attr("causal", true), attr("window", []int64{0, 0, 1, 3}[g.rng.IntN(4)])}
	}
	if g.rng.IntN(3) == 0 && !g.opt.FullPrecision {
		attrs = append(attrs, attr("precision", ir.PrecisionHalf))
	}
	switch g.rng.IntN(4) {
	case 0:
		attrs = append(attrs, attr("softcap", 0.5+2*g.rng.Float64()))
	case 1:
		attrs = append(attrs, attr("zero_nan", true))
	}
	switch g.rng.IntN(4) {
	case 0:
		return g.attentionGrad(args, attrs)
	case 1:
		// This op has no argument for values.
		return g.add(ir.OpAttentionLSE, slices.Delete(args, 2, 3), scoreAttrs(attrs)...)
	}
	return g.add(ir.OpAttention, args, attrs...)
}

// attentionGrad adds a gradient of the attention with these args and attrs. The gradient of the attention's result and
// the statistics of its rows are new leaves.
func (g *generator) attentionGrad(args []*ir.Node, attrs []ir.Attr) *ir.Node {
	if slices.Contains(args, nil) {
		return nil
	}
	q, v := args[0], args[2]
	rank := q.Rank()
	grad := slices.Concat(q.Shape()[:rank-1], v.Shape()[rank-1:])
	if !g.fits(grad) {
		return nil
	}
	// One number per row: the logarithm of the sum of exponentials, or a sum of gradients.
	stat := func() *ir.Node { return g.leaf(grad[:rank-1], ir.F32) }
	with := []*ir.Node{q, args[1], v, g.leaf(grad, q.DType()), stat(), stat()}
	if len(args) > 3 {
		with = append(with, args[3])
	}
	of := []string{"q", "k", "v"}[g.rng.IntN(3)]
	return g.add(ir.OpAttentionGrad, with, append(scoreAttrs(attrs), attr("of", of))...)
}

// scoreAttrs returns the attributes that determine scores.
func scoreAttrs(attrs []ir.Attr) []ir.Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a ir.Attr) bool {
		return a.Name == "precision" || a.Name == "zero_nan"
	})
}

// state adds a state, and perhaps in-place writes of slices and elements.
func (g *generator) state() *ir.Node {
	// A body's states are its carried values, which loop adds.
	if g.states > 2 || g.depth > 0 {
		return nil
	}
	t := g.float
	if g.rng.IntN(3) == 0 {
		t = g.intType()
	}
	like := g.pick(func(n *ir.Node) bool { return n.Shape().IsStatic() })
	s := ir.ShapeOf(1+g.rng.IntN(8), 1+g.rng.IntN(4))
	if like != nil && g.rng.IntN(2) == 0 {
		s, t = like.Shape(), like.DType()
	}
	g.states++
	n := g.named(ir.OpState, fmt.Sprintf("s%d", len(g.g.Nodes())), s, t)
	// Writes that begin at a state may happen in place.
	for w := n; w != nil && w.Rank() > 0 && g.rng.IntN(2) == 0; {
		if g.rng.IntN(2) == 0 {
			w = g.updateSlice(w)
		} else {
			w = g.scatterInto(w)
		}
	}
	return n
}

// coordinates adds a leaf made of coordinates or extents.
func (g *generator) coordinates() *ir.Node {
	if g.rng.IntN(3) == 0 {
		return g.add(ir.OpDimValue, nil, attr("dim", g.shape(1)))
	}
	s := g.shape(1 + g.rng.IntN(3))
	return g.add(ir.OpIota, nil, attr("shape", s), attr("axis", g.rng.IntN(len(s))),
		attr("dtype", g.oneOf(ir.I32, ir.F32, ir.U32, ir.I8, g.float)))
}
