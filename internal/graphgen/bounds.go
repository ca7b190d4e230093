package graphgen

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Bound is what is known about the elements of a node. A method for each class of ops derives the bound of a result
// from the bounds of the arguments. The small factors in them, such as 2 and 8, count roundings of the op's own steps,
// and are larger than necessary.
type Bound struct {
	Lo, Hi float64
	// Err bounds the difference between a correct f32 implementation and the exact value, in units of f32's epsilon
	// (2^-23), by a linear error analysis.
	Err float64
	// Exact is set if every implementation computes the same bits.
	Exact bool
	// Bad is set if values may be infinite, NaN, huge, or too uncertain to compare. The generator does not use such a
	// node as an argument or output.
	Bad bool
	// AnyZero is set if a value may be a zero whose sign depends on the implementation.
	AnyZero bool
	// Rounded is set if a matmul may lose precision before this value. Errors are large then, and so is the tolerance.
	Rounded bool

	more *[]Bound // of a loop or a branch: of its results after the first
}

// Limits of the values in a graph.
const (
	maxMagnitude = 1e4           // f16 has such numbers, and a sum of 4096 products is less
	maxErr       = 1e4           // 0.1 percent of 1
	maxRelative  = maxErr / 16   // of a large value: 4096 products in bf16x3 make errors of 512
	maxRounded   = 0.02 * 0x1p23 // 2 percent of the largest value
)

// Errors of rounding to f16, in units of f32's epsilon: relative for normal numbers, and absolute for smaller ones.
const f16Relative, f16Absolute = 0x1p-11 / 0x1p-23, 0x1p-25 / 0x1p-23

func (b Bound) mag() float64 { return max(math.Abs(b.Lo), math.Abs(b.Hi)) }

// Bounds returns the bound of every node of a graph, by node ID, when the leaves have values from Values.
func Bounds(g *ir.Graph) []Bound { return boundsOf(g, nil) }

// boundsOf returns the bound of every node of g, by node ID. Nodes in known, such as a body's inputs, have the bounds
// given there.
func boundsOf(g *ir.Graph, known map[*ir.Node]Bound) []Bound {
	all := make([]Bound, len(g.Nodes()))
	for i, n := range g.Nodes() {
		if b, ok := known[n]; ok {
			all[i] = b
			continue
		}
		args := make([]Bound, len(n.Args()))
		for j, a := range n.Args() {
			args[j] = all[a.ID()]
		}
		all[i] = boundOf(n, args)
	}
	return all
}

// boundOf computes the bound of a node from args, the bounds of its arguments.
func boundOf(n *ir.Node, args []Bound) Bound {
	b := Bound{Exact: n.Op().Info().Tol == ir.Tolerance{} || !n.DType().IsFloat()}
	for _, a := range args {
		b.Exact = b.Exact && a.Exact
		b.Bad = b.Bad || a.Bad
		b.Rounded = b.Rounded || a.Rounded
	}
	switch n.Op().Class() {
	case ir.ClassLeaf:
		b = leafBound(n)
	case ir.ClassElementwise:
		b.elementwise(n, args)
	case ir.ClassView, ir.ClassIndexing:
		b.moved(n, args)
	case ir.ClassReduce:
		b.reduced(n, args[0])
	case ir.ClassRow:
		b.row(n, args)
	case ir.ClassScan:
		b.sorted(n, args[0])
	case ir.ClassWindow:
		b.windowed(n, args)
	case ir.ClassRandom:
		b.random(n)
	case ir.ClassComposite:
		b.composite(n, args)
	case ir.ClassLinear:
		b.linear(n, args)
	case ir.ClassRecurrent:
		b.recurrent(n, args)
	case ir.ClassCustom:
		b.custom(n, args)
	case ir.ClassControl:
		b.controlled(n, args)
	default:
		b.contracted(n, args)
	}
	isAtan2 := n.Op() == ir.OpAtan2 // its result depends on the signs of zeros
	differs := func(a Bound) bool { return !a.Exact || isAtan2 && a.AnyZero }
	// Without differences in the arguments, every implementation lands on the same side of a jump.
	if jumps(n) && !slices.ContainsFunc(args, differs) {
		b.Exact = !isAtan2 // it has a jump, but its result is rounded as usual
	} else if jumps(n) {
		b.Bad = true
	}
	return b.finish(n)
}

// finish adds the rounding of the result itself.
func (b Bound) finish(n *ir.Node) Bound {
	switch t := n.DType(); {
	case t == ir.Bool:
		b.Lo, b.Hi, b.Err = 0, 1, 0
	case t.IsInteger():
		lo, hi := ir.IntRange(t)
		// !(a >= b) instead of a < b, to include NaN
		if !(b.Lo >= float64(lo) && b.Hi <= float64(hi)) { // it may wrap
			b.Lo, b.Hi = float64(lo), float64(hi)
		}
		b.Err = 0
	default:
		if epsilon := epsilonOf(n); epsilon > 1 && !b.Exact { // the result is rounded to f16 or bf16
			b.Err += epsilon * b.mag()
		}
		// A dtype with a larger epsilon may have errors larger in proportion.
		limit := max(maxErr, maxRelative*b.mag()) * max(1, epsilonOf(n))
		if b.Rounded {
			limit = max(limit, maxRounded*b.mag())
		}
		if !(b.mag() <= maxMagnitude) || !(b.Err <= limit) {
			b.Bad = true
		}
		if b.Exact {
			b.Err = 0
		}
		// No op promises the sign of a zero.
		b.AnyZero = n.Op().Class() != ir.ClassLeaf && b.Lo <= 0 && b.Hi >= 0
	}
	return b
}

// epsilonOf returns the machine epsilon of the node's dtype, in units of f32's.
func epsilonOf(n *ir.Node) float64 {
	switch n.DType() {
	case ir.F16:
		return 0x1p13
	case ir.BF16:
		return 0x1p16
	}
	return 1
}

// jumps reports whether an arbitrarily small change of the arguments can cause a large change of the result.
func jumps(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpFloor, ir.OpCeil, ir.OpRound, ir.OpTrunc, ir.OpSign, ir.OpMod, ir.OpRem, ir.OpAtan2,
		ir.OpIsNaN, ir.OpIsInf, ir.OpArgmax, ir.OpArgmin, ir.OpArgsort, ir.OpTopKIndices, ir.OpQuantize:
		return true
	}
	floats := slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return a.DType().IsFloat() })
	return n.Op().Class() == ir.ClassElementwise && floats && !n.DType().IsFloat()
}

// lacksKeys reports whether a causal attention, or its gradient, may have queries before all keys. Their results are
// NaN, which makes elements of gradients NaN on some devices.
func lacksKeys(n *ir.Node) bool {
	queries, keys := n.Arg(0).Shape(), n.Arg(1).Shape()
	return n.Attrs().Bool("causal") && queries[len(queries)-2].Max() > keys[len(keys)-2].Max()
}

// Unsure reports, by node ID, which values may change by much if an op before them rounds in another way: the results
// of jumps of values that are not exact. Leaves, also states, count as exact. Gradients of attentions that lack keys
// are unsure, too.
func Unsure(g *ir.Graph) []bool {
	exact, unsure := make([]bool, len(g.Nodes())), make([]bool, len(g.Nodes()))
	for i, n := range g.Nodes() {
		exact[i] = n.Op().Info().Tol == ir.Tolerance{} || !n.DType().IsFloat()
		for _, a := range n.Args() {
			exact[i] = exact[i] && exact[a.ID()]
			unsure[i] = unsure[i] || unsure[a.ID()]
		}
		unsure[i] = unsure[i] || n.Op() == ir.OpAttentionGrad && lacksKeys(n)
		inexact := func(a *ir.Node) bool { return !exact[a.ID()] }
		unsure[i] = unsure[i] || jumps(n) && (n.Op() == ir.OpAtan2 || slices.ContainsFunc(n.Args(), inexact))
		for _, body := range n.Bodies() { // of inexact values, or of values that it makes inexact itself
			exact[i] = false
			unsure[i] = unsure[i] || slices.ContainsFunc(body.Nodes(), jumps)
		}
	}
	return unsure
}

// leafBound returns the bound of a node without arguments.
func leafBound(n *ir.Node) Bound {
	b := Bound{Exact: true}
	switch n.Op() {
	case ir.OpIota:
		b.Hi = float64(max(n.Shape()[resolved(n)].Max()-1, 0))
	case ir.OpDimValue:
		d := n.Attrs().Shape("dim")[0]
		b.Lo, b.Hi = float64(d.Add), float64(d.Max())
	case ir.OpConst:
		v, err := n.Attrs().Data("data").Floats()
		if err != nil {
			// Blocks have no floats to list. Implementations may round when they decode them.
			b.Lo, b.Hi, b.Exact, b.Err = -blockMagnitude, blockMagnitude, false, blockMagnitude
			return b
		}
		for _, x := range v {
			b.Lo, b.Hi = min(b.Lo, x), max(b.Hi, x)
		}
	default:
		b.Lo, b.Hi = rangeOf(n)
		if n.Op() == ir.OpState { // may be any value computed before
			b.Lo, b.Hi = min(b.Lo, -stateMagnitude), max(b.Hi, stateMagnitude)
			b.Exact = !n.DType().IsFloat()
			b.Err = stateErr * epsilonOf(n)
		}
		if n.DType().IsBlock() {
			// Implementations may round when they decode blocks.
			b.Exact, b.Err = false, blockMagnitude
		}
	}
	return b
}

// Bounds of the floats that states are updated to, and of their errors, so that neither grows much from run to run.
const (
	stateMagnitude = 4
	stateErr       = 1024
)

// resolved returns the axis attribute of a node, counted from 0.
func resolved(n *ir.Node) int {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	if err != nil {
		return 0
	}
	return axis
}

// elementwise samples the op's scalar reference over the arguments' ranges to estimate the range of the result and the
// magnification of errors.
func (b *Bound) elementwise(n *ir.Node, args []Bound) {
	f := n.Op().Info().Float
	// Integers may wrap, so any value is possible. finish narrows this to the dtype's range.
	if n.DType().IsInteger() && n.Op() != ir.OpCast || f == nil {
		b.Lo, b.Hi = math.Inf(-1), math.Inf(1)
		return
	}
	var grid [][]float64 // the samples of each argument
	for i, a := range args {
		grid = append(grid, samples(a, len(args), n.Arg(i).DType() == ir.Bool))
	}
	b.Lo, b.Hi = math.Inf(1), math.Inf(-1)
	slope := make([]float64, len(args)) // the steepest one by each argument
	at := make([]int, len(args))        // the indices in the grid: all combinations, one after the other
	x := make([]float64, len(args))
	eval := func() float64 {
		for i := range at {
			x[i] = grid[i][at[i]]
		}
		return f(x, n.Attrs())
	}
	for done := false; !done; {
		y := eval()
		if math.IsNaN(y) {
			b.Bad = true
		}
		b.Lo, b.Hi = min(b.Lo, y), max(b.Hi, y)
		for i := range at {
			if at[i]+1 < len(grid[i]) && n.Arg(i).DType().IsFloat() {
				at[i]++
				// The change per unit of argument i, between neighboring samples.
				slope[i] = max(slope[i], math.Abs(eval()-y)/(grid[i][at[i]]-grid[i][at[i]-1]))
				at[i]--
			}
		}
		done = !next(at, grid)
	}
	if n.Op() == ir.OpTan && args[0].mag() > 1.2 {
		b.Bad = true // samples may miss a pole: the first is at π/2
	}
	for i, a := range args {
		if a.Err > 0 {
			// 1.5 covers slopes that are steeper between two samples than from one to the next.
			b.Err += 1.5 * slope[i] * a.Err
		}
	}
	// The op's own rounding. Tol.Eps/8 is larger than 1 for ops that may be less accurate than one rounding.
	b.Err += b.mag() * max(1, n.Op().Info().Tol.Eps/8)
}

// samples returns points of a range in order, with its ends and 0 among them: fewer for ops with more arguments. For a
// bool they are 0 and 1.
func samples(a Bound, args int, isBool bool) []float64 {
	if isBool {
		return []float64{0, 1}
	}
	// The number of evaluated combinations is the product over all arguments.
	count := []int{0, 65, 17, 7}[args]
	var s []float64
	for i := range count {
		s = append(s, a.Lo+(a.Hi-a.Lo)*float64(i)/float64(count-1))
	}
	bends := []float64{0} // functions bend near 0, however wide the range is
	if args < 3 {
		bends = []float64{-4, -2, -1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5, 2, 4}
	}
	for _, x := range bends {
		if a.Lo < x && x < a.Hi {
			s = append(s, x)
		}
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// next advances at, which has an index into each list of grid, to the next combination. It returns false after the
// last.
func next(at []int, grid [][]float64) bool {
	for i := range at {
		at[i]++
		if at[i] < len(grid[i]) {
			return true
		}
		at[i] = 0
	}
	return false
}

// moved bounds ops that copy elements of their arguments.
func (b *Bound) moved(n *ir.Node, args []Bound) {
	// Keep only the flags that boundOf has set; the range is the first argument's.
	*b = Bound{Lo: args[0].Lo, Hi: args[0].Hi, Err: args[0].Err, Exact: b.Exact, Bad: b.Bad, Rounded: b.Rounded}
	switch n.Op() {
	case ir.OpPad:
		v := n.Attrs().Float("value")
		b.Lo, b.Hi = min(b.Lo, v), max(b.Hi, v)
	case ir.OpConcat:
		b.join(args[1:])
	case ir.OpDynamicUpdateSlice:
		b.join(args[1:2])
	case ir.OpScatter, ir.OpScatterND:
		b.join(args[2:3])
	case ir.OpScatterAdd, ir.OpIndexAdd, ir.OpScatterNDAdd: // in the worst case all for the same destination
		count, u := float64(n.Arg(1).Shape().MaxElems()), args[2]
		m := args[0].mag() + count*u.mag()
		b.Lo, b.Hi, b.Err = -m, m, args[0].Err+count*u.Err+2*m
	case ir.OpEmbedding:
		// The op has a tolerance only for tables in blocks, and those are not exact.
		b.Exact = args[0].Exact && args[1].Exact
	case ir.OpQuantize:
		b.Lo, b.Hi = -blockMagnitude, blockMagnitude
	}
}

// join extends the bound so that it covers the values of args, too.
func (b *Bound) join(args []Bound) {
	for _, a := range args {
		b.Lo, b.Hi, b.Err = min(b.Lo, a.Lo), max(b.Hi, a.Hi), max(b.Err, a.Err)
	}
}

// folded returns the largest number of elements that make one of the result.
func folded(n *ir.Node) float64 {
	switch n.Op() {
	case ir.OpArgmax, ir.OpArgmin:
		// Such an op returns the place of one element.
		return 1
	}
	in, err := ir.ResolveAxes(n.Attrs().Ints("axes"), n.Arg(0).Rank())
	if err != nil {
		return 1
	}
	count := 1.0
	for i, d := range n.Arg(0).Shape() {
		if in[i] {
			count *= float64(d.Max())
		}
	}
	return count
}

// additions bounds the error of the additions of a sum of count terms, which is at most m. Sums of equal terms may
// round in the same direction again and again.
func additions(count, m float64) float64 { return max(2, count/16) * m }

// reduced sets the bound of a reduction of x.
func (b *Bound) reduced(n *ir.Node, x Bound) {
	count := folded(n)
	b.Lo, b.Hi, b.Err = x.Lo, x.Hi, x.Err
	switch n.Op() {
	case ir.OpSum:
		b.Lo, b.Hi = min(0, count*x.Lo), max(0, count*x.Hi)
		b.Err = count*x.Err + additions(count, count*x.mag())
	case ir.OpMean:
		b.Err = x.Err + 4*x.mag()
	case ir.OpProd:
		m := math.Pow(max(1, x.mag()), count)
		b.Lo, b.Hi = -m, m
		// The relative errors of all factors add up.
		b.Err = count * m * (x.Err + 2)
	case ir.OpArgmax, ir.OpArgmin:
		b.Lo, b.Hi = 0, float64(n.Arg(0).Shape().MaxElems())
	case ir.OpNorm1:
		b.Lo, b.Hi, b.Err = 0, count*x.mag(), count*(x.Err+x.mag())
	case ir.OpNorm2:
		b.Lo, b.Hi, b.Err = 0, math.Sqrt(count)*x.mag(), math.Sqrt(count)*(x.Err+8*x.mag())
	case ir.OpNormP:
		root := math.Pow(count, max(1, 1/n.Attrs().Float("p")))
		b.Lo, b.Hi, b.Err = 0, root*x.mag(), root*(x.Err+8*x.mag())
		b.Bad = b.Bad || x.Err > 0 && n.Attrs().Float("p") < 1 // steep at 0
	case ir.OpLogSumExp:
		b.Hi = x.Hi + math.Log(max(count, 1))
		b.Err = x.Err + 8*b.mag() + 8
	case ir.OpVariance:
		c := float64(n.Attrs().Int("correction"))
		scale := max(1, count/max(count-c, 1))
		b.Lo, b.Hi = 0, 4*scale*x.mag()*x.mag()
		// The derivative of a square is twice its argument.
		b.Err = 8 * scale * x.mag() * (x.Err + 8*x.mag())
		b.Bad = b.Bad || x.Err > 0 && c > 0 && count <= c // rounding errors by 0
	}
}

// row sets the bound of an op along one axis: a softmax, a norm or a rotation.
func (b *Bound) row(n *ir.Node, args []Bound) {
	x := args[0]
	spread := x.Hi - x.Lo
	last := float64(n.Shape()[n.Rank()-1].Max())
	switch n.Op() {
	case ir.OpSoftmax:
		// An exponential magnifies an error of its argument relatively, and rounding its argument loses spread.
		b.Lo, b.Hi, b.Err = 0, 1, 2*x.Err+spread+8
	case ir.OpLogSoftmax:
		count := float64(n.Shape().MaxElems())
		b.Lo, b.Hi = -spread-math.Log(max(count, 1)), 0
		b.Err = 2*x.Err + 4*b.mag() + 8
	case ir.OpRope:
		m := x.mag() * math.Sqrt2
		b.Lo, b.Hi = -m, m
		b.Err = 2*x.Err + m*(8+4*args[1].mag())
		// Rounding a large angle changes sines and cosines too much.
		b.Bad = b.Bad || args[1].mag() > 64
	case ir.OpL2Normalize:
		least := n.Attrs().Float("eps") // the smallest divisor
		b.Lo, b.Hi, b.Err = -1, 1, 2*(x.Err+x.mag())*math.Sqrt(float64(n.Shape()[resolved(n)].Max()))/least+8
	default: // norms
		// A group has at most all elements.
		if n.Op() == ir.OpGroupNorm {
			last = float64(n.Shape().MaxElems())
		}
		// The largest factor: the reciprocal square root of eps plus a variance of 0.
		scale := 1 / math.Sqrt(n.Attrs().Float("eps"))
		// An element is at most sqrt(n) standard deviations from the mean of n elements.
		m := min(x.mag()*scale, math.Sqrt(last)) * 2
		b.Err = 4*scale*(x.Err+4*x.mag()) + 8*m
		// weight and bias
		for _, p := range args[1:] {
			b.Err = b.Err*max(1, p.mag()) + p.Err*max(1, m)
			m = m*max(1, p.mag()) + p.mag()
		}
		b.Lo, b.Hi = -m, m
	}
}

// custom sets the bound of a custom kernel. Kernels of tests move or average floats, see Options.Custom, and may
// compute any integers.
func (b *Bound) custom(n *ir.Node, args []Bound) {
	b.join(args)
	if n.DType().IsInteger() {
		b.Lo, b.Hi = math.Inf(-1), math.Inf(1)
	}
}

// contracted sets the bound of a matmul or an attention.
func (b *Bound) contracted(n *ir.Node, args []Bound) {
	switch n.Op() {
	case ir.OpAttentionLSE, ir.OpAttentionGrad:
		b.attentionWeights(n, args)
	case ir.OpAttention:
		b.attention(n, args)
	default:
		b.matmul(n, args)
	}
}

// attention sets the bound of an attention: averages of values, with weights from scores. An error of a score magnifies
// its weight relatively. The factors 4 and 8 leave room for the softmax's own roundings.
func (b *Bound) attention(n *ir.Node, args []Bound) {
	q, k, v := args[0], args[1], args[2]
	d := float64(n.Arg(0).Shape()[n.Rank()-1].Max())
	scale := n.Attrs().Float("scale")
	if scale == 0 {
		scale = 1 / math.Sqrt(d)
	}
	scoresErr := scale * d * (q.mag()*k.Err + k.mag()*q.Err + 2*q.mag()*k.mag())
	b.Lo, b.Hi = v.Lo, v.Hi
	for _, added := range args[3:] { // a mask, and sinks, which have the value 0
		scoresErr += added.Err + added.mag()
		b.Lo, b.Hi = min(b.Lo, 0), max(b.Hi, 0)
	}
	if n.Attrs().Bool("zero_nan") {
		b.Lo, b.Hi = min(b.Lo, 0), max(b.Hi, 0)
	}
	b.Err = v.Err + 4*v.mag()*(scoresErr+8)
	if n.Attrs().String_("precision") == ir.PrecisionHalf {
		b.Err += f16Relative*4*v.mag()*(2*scale*d*q.mag()*k.mag()+8) +
			f16Absolute*(1+4*v.mag()*scale*d*(q.mag()+k.mag()))
		b.Rounded = true
	}
	if math.IsNaN(b.Err) {
		b.Bad = true
	}
}

// matmul sets the bound of a matmul. It takes the larger of the extents of the first argument's innermost axes for the
// contraction axis.
func (b *Bound) matmul(n *ir.Node, args []Bound) {
	shape := n.Arg(0).Shape()
	k := float64(max(shape[len(shape)-1].Max(), shape[len(shape)-2].Max()))
	x, y := args[0], args[1]
	m := k * x.mag() * y.mag()
	b.Lo, b.Hi = -m, m
	b.Err = k*(x.mag()*y.Err+y.mag()*x.Err) + additions(k, m)
	if n.DType().IsFloat() {
		b.roundedMatMul(n, k, args)
	}
}

// attentionScore bounds the magnitude and the error of an attention's scores with their mask. It also returns the scale
// of the scores.
func attentionScore(n *ir.Node, args []Bound) (score, scoreErr, scale float64) {
	shape, q, k := n.Arg(0).Shape(), args[0], args[1]
	d := float64(shape[len(shape)-1].Max())
	scale = n.Attrs().Float("scale")
	if scale == 0 {
		scale = 1 / math.Sqrt(d)
	}
	score = scale * d * q.mag() * k.mag()
	scoreErr = scale*d*(q.mag()*k.Err+k.mag()*q.Err) + 4*d*score + 8
	if i := n.Op().Info().Arg("mask"); i < len(args) {
		score, scoreErr = score+args[i].mag(), scoreErr+args[i].Err+args[i].mag()
	}
	return score, scoreErr, scale
}

// attentionWeights bounds the ops that compute with attention weights exp(score - lse), and the op that computes lse,
// the logarithm of the sum of exponentials of the scores.
func (b *Bound) attentionWeights(n *ir.Node, args []Bound) {
	in, shape, s := n.Op().Info(), n.Arg(0).Shape(), n.Arg(1).Shape()
	rank := len(shape)
	t, keys := float64(shape[rank-2].Max()), float64(s[rank-2].Max())
	score, scoreErr, scale := attentionScore(n, args)
	if n.Op() == ir.OpAttentionLSE {
		if i := in.Arg("sinks"); i < len(args) {
			score, scoreErr = score+args[i].mag(), scoreErr+args[i].Err+args[i].mag()
		}
		m := score + math.Log(keys+1)
		b.Lo, b.Hi, b.Err = -m, m, scoreErr+8*(m+1)
		// -inf for a query that sees no key
		b.Bad = n.Attrs().Bool("causal") || s[rank-2].Min() == 0 || math.IsNaN(b.Err)
		return
	}
	q, k, v, grad, lse, delta := args[0], args[1], args[2], args[3], args[4], args[5]
	e := float64(n.Arg(2).Shape()[rank-1].Max())
	weight := math.Exp(score + lse.mag())
	weightErr := weight * (scoreErr + lse.Err + 4*(score+lse.mag()+2))
	terms, with := keys, k
	// The gradient of q sums over the keys; those of k and v sum over the queries.
	switch n.Attrs().String_("of") {
	case "k":
		terms, with = t, q
	case "v":
		terms, with = t, grad
	}
	if n.Attrs().String_("of") != "v" {
		// Gradients of q and k pass through the softmax, which multiplies each weight by this factor.
		factor := e*grad.mag()*v.mag() + delta.mag()
		factorErr := e*(grad.mag()*v.Err+v.mag()*grad.Err) + delta.Err + 4*e*factor
		if n.Attrs().Float("softcap") != 0 {
			factorErr += factor * 4 * (scoreErr + 4)
		}
		weight, weightErr = scale*weight*factor, scale*(weightErr*factor+weight*factorErr)
	}
	m := terms * weight * with.mag()
	b.Lo, b.Hi = -m, m
	b.Err = terms*(weightErr*with.mag()+weight*with.Err) + 2*terms*m
	b.Bad = b.Bad || math.IsNaN(b.Err) || math.IsInf(b.Err, 0)
}

// roundedMatMul adds the error that a reduced precision allows in a matmul or convolution with k terms per sum. For
// half it is half a unit of f16 for each operand and each sum, for bf16x3 the rest of an operand split into two bf16,
// and for int8 half a step of 1/127 of the largest element for each element of the rows.
func (b *Bound) roundedMatMul(n *ir.Node, k float64, args []Bound) {
	switch precision := n.Attrs().String_("precision"); {
	// Two bf16 keep 16 of f32's 24 bits.
	case precision == ir.PrecisionBF16x3:
		b.Err += b.mag() * 0x1p-15 / 0x1p-23
	case ir.AllowsHalf(precision):
		switch precision {
		case ir.PrecisionHalfSums:
			b.Err += k * (f16Relative*b.mag() + f16Absolute)
		case ir.PrecisionBytes:
			// Half a step of 1/127, in units of f32's epsilon.
			b.Err += b.mag() / 254 / 0x1p-23
		}
		b.Err += 2*f16Relative*b.mag() + k*f16Absolute*(args[0].mag()+args[1].mag())
		b.Rounded = true
	}
}

// Tolerance returns how far an f32 implementation may be from the reference at
// a node.
func (b Bound) Tolerance(n *ir.Node) ir.Tolerance {
	if b.Exact || !n.DType().IsFloat() {
		return ir.Tolerance{}
	}
	return ir.Tolerance{Eps: 4, Abs: (4*b.Err + b.mag()) * 0x1p-23}
}
