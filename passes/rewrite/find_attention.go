package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// FindAttention recognizes an attention written as other ops, softmax(q k^T * scale + mask) v, and replaces it by op
// attention, because an attention kernel never stores the scores. Between these ops there may be transposes, casts,
// reshapes, several masks, a soft cap or repeated key heads, as exporters write them.
func FindAttention(g *ir.Graph) (*ir.Graph, error) {
	found := map[*ir.Node]*foundAttention{} // by the matmul with the values
	users, shown := g.Users(), shownNodes(g)
	for _, n := range g.Nodes() {
		if s := matchAttention(n, users, shown); s != nil {
			found[n] = s
		}
	}
	if len(found) == 0 {
		return g, nil
	}
	out, err := rewrite(g, nil, func(r *rewriter, n *ir.Node, _ []*ir.Node) *ir.Node {
		if s := found[n]; s != nil {
			return s.build(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return DCE(out)
}

// shownNodes returns the nodes that are outputs or new values of states, so that they must be computed.
func shownNodes(g *ir.Graph) map[*ir.Node]bool {
	shown := map[*ir.Node]bool{}
	for _, o := range g.Outputs() {
		shown[o.Node] = true
	}
	for _, u := range g.Updates() {
		shown[u.Value] = true
	}
	return shown
}

// foundAttention is an attention found in the graph as a sequence of other ops.
type foundAttention struct {
	result  *ir.Node // the matmul of weights and values
	scores  *ir.Node // the matmul of queries and keys
	scale   float64
	softcap float64    // 0 for none
	zeroNaN bool       // whether weights that are NaN count as 0
	masks   []maskTerm // added to the scores
	// shapes are the shapes that reshapes give the scores, in order from the weights back to the matmul of queries and
	// keys.
	shapes []ir.Shape
}

// maskTerm is a term added to the scores. Without cond it is factor*of. With cond it is factor where cond equals
// hidesIf, and 0 elsewhere.
type maskTerm struct {
	of, cond *ir.Node
	hidesIf  bool
	factor   float64
	seen     int // number of elements of foundAttention.shapes that were found before it
}

// matchAttention returns the attention with n as its last matmul, or nil.
func matchAttention(n *ir.Node, users [][]*ir.Node, shown map[*ir.Node]bool) *foundAttention {
	once := func(n *ir.Node) bool { return len(users[n.ID()]) == 1 && !shown[n] }
	if n.Op() != ir.OpMatMul || n.Attrs().Bool("transpose_a") || storedWeight(n.Arg(1)) != nil {
		return nil
	}
	s := &foundAttention{result: n, shapes: []ir.Shape{n.Arg(0).Shape()}}
	x, readers := n.Arg(0), 1 // readers is the number of nodes of the attention that read x
	for len(users[x.ID()]) == readers && !shown[x] && x.Op() != ir.OpSoftmax {
		p, test := withoutNaN(x)
		switch {
		case p != nil && once(test):
			x, readers, s.zeroNaN = p, 2, true // the test and the where
		case s.passes(x):
			x, readers = x.Arg(0), 1
		default:
			return nil
		}
	}
	if x.Op() != ir.OpSoftmax || len(users[x.ID()]) != readers || shown[x] {
		return nil
	}
	if analysis.Axis(x) != x.Rank()-1 {
		return nil
	}
	f := &scoreFinder{once: once, steps: maxScoreOps}
	if !f.find(s, x.Arg(0), 1) || !s.possible() {
		return nil
	}
	return s
}

// withoutNaN returns p and the test of p, if n is p with zeros in place of NaN: where(is_nan(p), 0, p). A row of
// softmax is NaN as a whole or not at all.
func withoutNaN(n *ir.Node) (p, test *ir.Node) {
	if n.Op() != ir.OpWhere || n.Arg(0).Op() != ir.OpIsNaN {
		return nil, nil
	}
	test = n.Arg(0)
	zero, ok := scalarOf(n.Arg(1))
	p = n.Arg(2)
	if test.Arg(0) != p || !ok || zero != 0 || !keepsShape(n, p) {
		return nil, nil
	}
	return p, test
}

// passes reports whether n is a cast or reshape that does not change the scores, and records its shape.
func (s *foundAttention) passes(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpCast:
		return isScoreType(n.DType()) && isScoreType(n.Arg(0).DType())
	case ir.OpReshape, ir.OpSqueeze, ir.OpUnsqueeze:
		from, to := n.Arg(0).Shape(), n.Shape()
		// The reshape may change only the outer axes, so that rows and columns of the scores stay.
		if len(from) < 2 || len(to) < 2 || !from[len(from)-2:].Equal(to[len(to)-2:]) {
			return false
		}
		s.shapes = append(s.shapes, from)
		return true
	}
	return false
}

// isScoreType reports whether scores of dtype t may be computed in f32.
func isScoreType(t ir.DType) bool { return t == ir.F32 || t == ir.F16 || t == ir.BF16 }

// maxScoreOps limits the number of ops between the matmul of queries and keys and the softmax.
const maxScoreOps = 64

// scoreFinder follows scores from a softmax back to the matmul of queries and keys.
type scoreFinder struct {
	once  func(*ir.Node) bool // whether a node has one user, so that the attention may replace it
	steps int                 // number of ops that it may still follow
}

// find reports whether n times a factor can be the scores of an attention, and records the attention in s.
func (f *scoreFinder) find(s *foundAttention, n *ir.Node, factor float64) bool {
	f.steps-- // bounds the search
	// Each op must have no other reader, because it vanishes.
	if f.steps < 0 || !f.once(n) || !isScoreType(n.DType()) {
		return false
	}
	if s.passes(n) {
		return f.find(s, n.Arg(0), factor)
	}
	switch n.Op() {
	case ir.OpMatMul:
		s.scores, s.scale = n, factor
		return true
	case ir.OpAffine, ir.OpMul, ir.OpDiv:
		y, by := factorOf(n)
		return y != nil && f.find(s, y, factor*by)
	case ir.OpTanh:
		// The factor before the tanh is the soft cap. The factor inside is counted from 1.
		if s.softcap == 0 {
			s.softcap = factor
			return f.find(s, n.Arg(0), 1)
		}
	case ir.OpAdd, ir.OpSub:
		return f.findMask(s, n, factor, 0, 1) || n.Op() == ir.OpAdd && f.findMask(s, n, factor, 1, 0)
	case ir.OpWhere:
		return f.findHidden(s, n, factor, 1, 2) || f.findHidden(s, n, factor, 2, 1)
	}
	return false
}

// findMask continues find at n, an add or subtract: its argument x is the scores before, and its argument m a mask.
// factor is the factor of n in the scores.
func (f *scoreFinder) findMask(s *foundAttention, n *ir.Node, factor float64, x, m int) bool {
	if s.softcap != 0 || !keepsShape(n, n.Arg(x)) || !isScoreType(n.Arg(m).DType()) {
		return false
	}
	t := maskTerm{of: n.Arg(m), factor: factor}
	if n.Op() == ir.OpSub {
		t.factor = -factor
	}
	return f.findMasked(s, n.Arg(x), factor, t)
}

// findMasked continues find at x, the scores before mask t was added, which have the given factor. If that fails, it
// leaves s unchanged, so that find can try another argument.
func (f *scoreFinder) findMasked(s *foundAttention, x *ir.Node, factor float64, t maskTerm) bool {
	try := *s
	t.seen = len(s.shapes)
	try.masks, try.shapes = append(slices.Clip(s.masks), t), slices.Clip(s.shapes)
	if !f.find(&try, x, factor) {
		return false
	}
	*s = try
	return true
}

// leastHidden is a score so low that adding any other score to it gives the same number. So adding it as a mask has the
// same effect as replacing the score by it, even in a row in which all scores are hidden.
const leastHidden = -1e30

// findHidden continues find at n, an op where that hides scores: its argument x is the scores before, and its
// argument c the value of hidden scores. factor is the factor of n in the scores.
func (f *scoreFinder) findHidden(s *foundAttention, n *ir.Node, factor float64, x, c int) bool {
	lowest, ok := scalarOf(n.Arg(c))
	if !ok || s.softcap != 0 || !(lowest*factor <= leastHidden) || !keepsShape(n, n.Arg(x)) {
		return false
	}
	return f.findMasked(s, n.Arg(x), factor, maskTerm{cond: n.Arg(0), hidesIf: c == 1, factor: lowest * factor})
}

// isFinite reports whether x is neither infinite nor NaN.
func isFinite(x float64) bool { return x-x == 0 }

// keepsShape reports whether n has the shape of x.
func keepsShape(n, x *ir.Node) bool { return n.Shape().Equal(x.Shape()) }

// scalarOf returns the number that all elements of n are, if n is computed from a constant of one element.
func scalarOf(n *ir.Node) (float64, bool) { return scalarWithin(n, 6) }

// scalarWithin returns the number that all elements of n are, and follows arguments at most depth nodes deep. ok is
// false if n is not such a number, or is computed by more nodes.
func scalarWithin(n *ir.Node, depth int) (float64, bool) {
	switch {
	case depth == 0:
		return 0, false
	case n.Op() == ir.OpConst && n.Shape().MaxElems() == 1 && !n.DType().IsBlock():
		v, err := n.Attrs().Data("data").Floats()
		if err != nil || len(v) != 1 {
			return 0, false
		}
		return v[0], true
	case n.Op() == ir.OpReshape, n.Op() == ir.OpBroadcast, n.Op() == ir.OpSqueeze, n.Op() == ir.OpUnsqueeze:
		return scalarWithin(n.Arg(0), depth-1)
	}
	f := n.Op().Info().Float
	if f == nil || !n.DType().IsFloat() || len(n.Args()) > 2 {
		return 0, false
	}
	var args []float64
	for _, a := range n.Args() {
		v, ok := scalarWithin(a, depth-1)
		if !ok || !a.DType().IsFloat() {
			return 0, false
		}
		args = append(args, v)
	}
	return f(args, n.Attrs()), len(args) > 0
}

// possible reports whether the two matmuls have shapes, dtypes and a scale with which they can be an attention.
func (s *foundAttention) possible() bool {
	p, full := s.scores, s.shapes[0]
	out := s.result.Shape()
	dot := p.Arg(0).Shape()
	extent := dot[len(dot)-1]
	if p.Attrs().Bool("transpose_a") {
		extent = dot[len(dot)-2]
	}
	switch {
	case len(full) != len(out) || !full[:len(full)-1].Equal(out[:len(out)-1]): // the values have additional outer axes
		return false
	case s.scale == 0 || s.softcap < 0 || !isFinite(s.scale) || !isFinite(s.softcap):
		return false
	case storedWeight(p.Arg(1)) != nil: // a layer, which is faster as a plain matmul
		return false
	}
	for _, x := range []*ir.Node{p.Arg(0), p.Arg(1), s.result.Arg(1)} {
		if !isScoreType(x.DType()) {
			return false
		}
	}
	return extent.IsStatic()
}

// build adds the attention to the new graph. It returns nil if no attention kernel supports it.
func (s *foundAttention) build(r *rewriter) *ir.Node {
	t := s.scores.DType()
	q, ofQ := r.operand(r.mapped(s.scores.Arg(0)), s.scores.Attrs().Bool("transpose_a"))
	k, ofK := r.operand(r.mapped(s.scores.Arg(1)), !s.scores.Attrs().Bool("transpose_b"))
	v, ofV := r.operand(r.mapped(s.result.Arg(1)), s.result.Attrs().Bool("transpose_b"))
	scale := float64(s.scale * ofQ * ofK)
	if scale == 0 || !isFinite(scale) || !isFinite(ofV) {
		return nil
	}
	if ofV != 1 {
		v = r.times(v, ofV)
	}
	q, k, v = r.castTo(q, t), r.castTo(k, t), r.castTo(v, t)
	q = r.outer(q, s.shapes)
	k, v = s.keyHeads(r, k, v)
	args := []*ir.Node{q, k, v}
	if mask := s.mask(r); mask != nil {
		args = append(args, mask)
	}
	if rank := q.Rank(); rank < 3 || !q.Shape()[rank-3].IsStatic() { // one head
		for i, a := range args {
			if i < 3 || a.Rank() > 2 {
				at := a.Rank() - 2
				args[i] = r.reshape(a, slices.Concat(a.Shape()[:at], ir.Shape{ir.D(1)}, a.Shape()[at:]))
			}
		}
	}
	a := r.add(ir.OpAttention, args, s.attrs(scale)...)
	if analysis.AttentionRefusal(a) != "" {
		return nil
	}
	out := r.reshape(r.castTo(a, s.result.DType()), s.result.Shape())
	if keys := s.shapes[0][len(s.shapes[0])-1]; keys.Min() == 0 && !s.zeroNaN {
		out = r.whereEmpty(keys, 0, out) // the sum of no values
	}
	return out
}

// attrs returns the attributes of the attention. scale is the factor of q*k, inside the tanh if there is a soft cap.
func (s *foundAttention) attrs(scale float64) []ir.Attr {
	attrs := []ir.Attr{attr("scale", scale)}
	if s.softcap != 0 { // the op computes softcap*tanh(scale*q*k/softcap)
		attrs = []ir.Attr{attr("scale", scale*s.softcap), attr("softcap", s.softcap)}
	}
	if s.zeroNaN {
		attrs = append(attrs, attr("zero_nan", true))
	}
	if ir.AllowsHalf(analysis.Precision(s.scores)) && ir.AllowsHalf(analysis.Precision(s.result)) {
		attrs = append(attrs, attr("precision", ir.PrecisionHalf))
	}
	return attrs
}

// operand returns y and a factor, such that y times the factor is x. If swap is set, y times the factor is x with its
// last two axes exchanged. So factors of queries and keys become part of the scale, and transposes and reshapes that
// undo each other vanish.
func (r *rewriter) operand(x *ir.Node, swap bool) (y *ir.Node, factor float64) {
	rank := x.Rank()
	switch x.Op() {
	// A factor moves outwards.
	case ir.OpMul, ir.OpDiv, ir.OpAffine:
		if of, by := factorOf(x); of != nil {
			y, factor = r.operand(of, swap)
			return y, factor * by
		}
	case ir.OpTranspose:
		return r.transposedOperand(x, swap)
	case ir.OpReshape, ir.OpUnsqueeze, ir.OpSqueeze:
		return r.reshapedOperand(x, swap)
	}
	if swap {
		return r.swapAxes(x, rank-2, rank-1), 1
	}
	return x, 1
}

// transposedOperand is operand for a transpose x. If the transpose and the swap together exchange the last two axes,
// the argument's operand is taken with swap instead.
func (r *rewriter) transposedOperand(x *ir.Node, swap bool) (y *ir.Node, factor float64) {
	perm, last := slices.Clone(x.Attrs().Ints("perm")), int64(x.Rank()-1)
	if swap {
		perm[last-1], perm[last] = perm[last], perm[last-1]
	}
	exchanged := perm[last] == last-1 && perm[last-1] == last
	if exchanged {
		perm[last-1], perm[last] = last-1, last
	}
	y, factor = r.operand(x.Arg(0), exchanged)
	if slices.IsSorted(perm) {
		return y, factor
	}
	return r.transpose(y, perm), factor
}

// reshapedOperand is operand for a reshape x. A reshape that keeps the last two axes is applied after the swap.
func (r *rewriter) reshapedOperand(x *ir.Node, swap bool) (y *ir.Node, factor float64) {
	from, to, rank := x.Arg(0).Shape(), x.Shape(), x.Rank()
	keeps := len(from) >= 2 && rank >= 2 && from[len(from)-2:].Equal(to[rank-2:])
	y, factor = r.operand(x.Arg(0), swap && keeps)
	if swap && keeps {
		to = slices.Concat(to[:rank-2], ir.Shape{to[rank-1], to[rank-2]})
	}
	if y.Op() == ir.OpReshape { // one reshape suffices
		y = y.Arg(0)
	}
	y = r.reshape(y, to)
	if swap && !keeps {
		y = r.swapAxes(y, rank-2, rank-1)
	}
	return y, factor
}

// factorOf returns y and a factor, if x is y times this factor, or y divided by a number. For any other x it returns
// nil.
func factorOf(x *ir.Node) (y *ir.Node, factor float64) {
	switch x.Op() {
	case ir.OpAffine:
		if x.Attrs().Float("add") == 0 {
			return x.Arg(0), x.Attrs().Float("mul")
		}
	case ir.OpMul:
		for i := range 2 {
			if c, ok := scalarOf(x.Arg(1 - i)); ok && keepsShape(x, x.Arg(i)) {
				return x.Arg(i), c
			}
		}
	case ir.OpDiv:
		if c, ok := scalarOf(x.Arg(1)); ok && keepsShape(x, x.Arg(0)) {
			return x.Arg(0), 1 / c
		}
	}
	return nil, 1
}

// outer broadcasts and reshapes the outer axes of operand x like the scores: first to the matmul's outer axes, then to
// the shapes of later reshapes.
func (r *rewriter) outer(x *ir.Node, shapes []ir.Shape) *ir.Node {
	for _, s := range slices.Backward(shapes) {
		own := x.Shape()[x.Rank()-2:]
		shape := slices.Concat(s[:len(s)-2], own)
		if broadcast, err := ir.BroadcastShapes(x.Shape(), shape); err == nil && broadcast.Equal(shape) {
			x = r.broadcast(x, shape)
		} else {
			x = r.reshape(x, shape)
		}
	}
	return x
}

// keyHeads broadcasts keys and values to the outer axes of the scores. If no op reshapes the scores, it leaves out
// heads that only repeat other ones.
func (s *foundAttention) keyHeads(r *rewriter, k, v *ir.Node) (keys, values *ir.Node) {
	full := s.shapes[0]
	heads := len(full) - 3 // the axis of the heads
	if heads >= 0 && len(s.shapes) == 1 && full[heads].IsStatic() {
		fewK, fewV := r.fewHeads(k, len(full)), r.fewHeads(v, len(full))
		if fewK.Shape()[heads] == fewV.Shape()[heads] {
			shape := slices.Clone(full)
			shape[heads] = fewK.Shape()[heads]
			return r.outer(fewK, []ir.Shape{shape}), r.outer(fewV, []ir.Shape{shape})
		}
	}
	return r.outer(k, s.shapes), r.outer(v, s.shapes[:1])
}

// fewHeads returns keys or values x [.., groups*repeats, rows, width] as [.., groups, rows, width], if all heads of a
// group are provably equal: x is the reshape of a broadcast to [.., groups, repeats, rows, width], or of a concat of
// one tensor with itself, and the argument of that op is [.., groups, 1, rows, width]. Otherwise it returns x. rank is
// the number of axes of the result. If x has fewer, fewHeads only adds leading axes of extent 1.
func (r *rewriter) fewHeads(x *ir.Node, rank int) *ir.Node {
	if missing := rank - x.Rank(); missing > 0 {
		return r.reshape(x, slices.Concat(slices.Repeat(ir.Shape{ir.D(1)}, missing), x.Shape()))
	}
	if x.Op() != ir.OpReshape || x.Arg(0).Op() != ir.OpBroadcast && !concatsOne(x.Arg(0)) {
		return x
	}
	wide, narrow := x.Arg(0).Shape(), x.Arg(0).Arg(0).Shape()
	// wide is [.., groups, repeats, rows, width] and narrow is [.., groups, 1, rows, width]. at is the axis of groups.
	at := rank - 3
	repeats := len(wide) == rank+1 && len(narrow) == len(wide) && wide[:at].Equal(x.Shape()[:at]) &&
		wide[at+2:].Equal(x.Shape()[at+1:]) && narrow[at+1].Is(1)
	for i := range wide {
		repeats = repeats && (i == at+1 || narrow[i] == wide[i])
	}
	if !repeats {
		return x
	}
	return r.reshape(x.Arg(0).Arg(0), slices.Concat(wide[:at+1], wide[at+2:]))
}

// concatsOne reports whether n concatenates one tensor with itself.
func concatsOne(n *ir.Node) bool {
	return n.Op() == ir.OpConcat && !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return a != n.Arg(0) })
}

// mask returns the sum of the masks, or nil if there are none.
func (s *foundAttention) mask(r *rewriter) *ir.Node {
	var sum *ir.Node
	for _, t := range s.masks {
		m := t.node(r)
		if t.seen > 1 { // it is added to scores of another shape
			inner := s.shapes[t.seen-1]
			m = r.outer(r.broadcast(m, inner), s.shapes[:t.seen])
		}
		if sum == nil {
			sum = m
		} else {
			sum = r.binary(ir.OpAdd, r.castTo(sum, ir.F32), r.castTo(m, ir.F32))
		}
	}
	return sum
}

// node adds the mask of a term to the new graph.
func (t maskTerm) node(r *rewriter) *ir.Node {
	if t.cond != nil {
		hidden, seen := r.scalar(ir.F32, t.factor), r.scalar(ir.F32, 0)
		if !t.hidesIf {
			hidden, seen = seen, hidden
		}
		return r.where(r.mapped(t.cond), hidden, seen)
	}
	m := r.mapped(t.of)
	if t.factor == 1 {
		return m
	}
	return r.times(r.castTo(m, ir.F32), t.factor)
}
