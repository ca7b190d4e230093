package lower

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// lowerAttention makes the kernel of an attention, of its log-sum-exp, or of one of its gradients. Each row of the
// kernel is a query of a head, and the kernel iterates over keys. Query heads that share a key head are an axis of
// their own, so that a schedule can share the loads of keys and values. In gradients of keys and values each row is a
// key, and the kernel iterates over queries.
func (l *lowerer) lowerAttention() {
	n := l.c.Cores[0]
	p := l.openAttention(n)
	p.readOperands()
	p.readFactor()
	p.addMask()
	p.limitKeys()
	l.accs[n] = []*kernel.Expr{p.result()}
	for _, n := range l.c.Stored { // the attention, or views of it such as a transpose
		l.store(n, l.coordsOf(l.c.Cores[0], n), perElement)
	}
}

// attentionPoint has the coordinates of one query and one key in an attention kernel, and reads the operands there.
type attentionPoint struct {
	l                       *lowerer
	n                       *ir.Node
	a                       *kernel.Attention
	grad                    string // "q", "k" or "v" if it computes the gradient of that operand, or ""
	reversed                bool   // whether rows are keys, and the kernel iterates over queries
	batch                   []kernel.Index
	head, group, query, key kernel.Index
	row, value              kernel.Index // coordinates of the result
}

// openAttention declares the axes of an attention kernel and sets the fields that depend only on attributes. The kernel
// computes softmax weights with exp2, so the scale of the scores includes log2(e).
func (l *lowerer) openAttention(n *ir.Node) *attentionPoint {
	q, k := n.Arg(0), n.Arg(1)
	rank := q.Rank()
	heads, groups, queries, keys := q.Shape()[rank-3], k.Shape()[rank-3], q.Shape()[rank-2], k.Shape()[rank-2]
	perGroup, ok := heads.Quo(groups.Add)
	bailout.Unless(ok, "%s query heads for %s key heads", heads, groups)
	p := &attentionPoint{l: l, n: n}
	if n.Op().Info().Arg("grad") >= 0 {
		p.grad = n.Attrs().String_("of")
	}
	// In gradients of keys and values a row is a key, and the kernel iterates over queries.
	p.reversed = p.grad == "k" || p.grad == "v"
	l.k.Family, l.k.Fold = kernel.FamilyAttention, keys
	rows := ir.Shape{groups, perGroup, queries}
	if p.reversed {
		l.k.Fold, rows = queries, ir.Shape{heads, ir.D(1), keys}
	}
	l.space = n.Shape()
	width := ir.D(1) // the log-sum-exp has one value per query, and so no innermost axis
	if n.Rank() == rank {
		width = n.Shape()[rank-1]
	}
	// The axes are: split, batch axes, key head, query head of the key head, row, element of the result. Reversed
	// kernels have all query heads along the axis of key heads.
	at := l.parallel(slices.Concat(ir.Shape{ir.D(1)}, q.Shape()[:rank-3], rows, ir.Shape{width}))
	p.batch, p.row, p.value = at[1:rank-2], at[rank], at[rank+1]
	head, inGroup := at[rank-2], at[rank-1]
	over := kernel.Axis(l.k.AttentionAxes().Key, l.k.Fold)
	if p.reversed {
		p.head, p.query, p.key = head, over, p.row
		p.group, _ = head.DivMod(perGroup)
	} else {
		p.head, p.query, p.key = head.Times(perGroup.Add).Plus(inGroup), p.row, over
		p.group = head
	}
	l.at = slices.Concat(p.batch, []kernel.Index{p.head, p.row, p.value})[:n.Rank()]

	causal := n.Attrs().Bool("causal")
	p.a = &kernel.Attention{Dot: q.Shape()[rank-1], Scale: analysis.AttentionScale(n) * math.Log2E, Causal: causal,
		Reversed: causal && p.reversed}
	// The softcap makes a score softcap*tanh(score/softcap), so the factor log2(e) moves to its last multiplication.
	if softcap := n.Attrs().Float("softcap"); softcap != 0 {
		p.a.Scale, p.a.Softcap = analysis.AttentionScale(n)/softcap, softcap*math.Log2E
	}
	l.k.Attention = p.a
	return p
}

// readOperands loads the operands of the scores (Q and K), and the values that the softmax weights multiply (V).
//
// The kernel of a gradient also sums weighted rows, so V is the tensor with these rows. It is q for the gradient of k,
// grad for the gradient of v, and k for the gradient of q. Reversed kernels iterate over queries, so there Q and K
// trade places.
func (p *attentionPoint) readOperands() {
	a := p.a
	along := kernel.Axis(p.l.k.AttentionAxes().Dot, a.Dot)
	a.Q, a.K = p.ofQuery("q", along), p.ofKey("k", along)
	if p.reversed {
		a.Q, a.K = a.K, a.Q
	}
	switch {
	case p.grad == "k":
		a.V = p.ofQuery("q", p.value)
	case p.grad == "v":
		a.V = p.ofQuery("grad", p.value)
	case p.grad == "q":
		a.V = p.ofKey("k", p.value)
	case p.n.Op().Info().Arg("v") >= 0:
		a.V, a.Half = p.ofKey("v", p.value), p.n.Attrs().String_("precision") == ir.PrecisionHalf
	default: // only the weights count
		a.V = p.l.b.Float(ir.F32, 1)
	}
}

// readFactor loads the operands of the factor by which gradients of queries and keys multiply each softmax weight. The
// factor is the dot product of the query's grad and the key's v, minus the query's delta.
func (p *attentionPoint) readFactor() {
	if p.grad != "q" && p.grad != "k" {
		return
	}
	f := &kernel.AttentionFactor{Dot: p.n.Arg(3).Shape()[p.n.Arg(0).Rank()-1], Delta: p.ofQuery("delta")}
	along := kernel.Axis(p.l.k.AttentionAxes().Factor, f.Dot)
	f.Q, f.K = p.ofQuery("grad", along), p.ofKey("v", along)
	if p.reversed { // Q and K trade places, as in readOperands
		f.Q, f.K = f.K, f.Q
	}
	p.a.Factor = f
}

// limitKeys limits a query to the keys in the op's window, if the window is smaller than the number of keys. A schedule
// may still read keys before the window, so the mask gets -inf for them.
func (p *attentionPoint) limitKeys() {
	l := p.l
	p.a.Window = int64(p.n.Attrs().Int("window"))
	if p.a.Window >= l.k.Fold.Max() {
		p.a.Window = 0 // no limit
	}
	if !l.k.SkipsFirst() {
		return
	}
	over := kernel.Axis(l.k.AttentionAxes().Key, l.k.Fold)
	before := l.is(ir.OpLt, l.b.FromIndex(over), l.b.FromIndex(l.k.FirstSeen(p.row)))
	p.maskBy(l.f32(ir.OpWhere, before, l.b.Float(ir.F32, math.Inf(-1)), l.b.Float(ir.F32, 0)))
}

// read loads an element of the named argument at the batch's coordinates followed by at.
func (p *attentionPoint) read(name string, at ...kernel.Index) *kernel.Expr {
	return p.l.value(p.n.Arg(p.n.Op().Info().Arg(name)), slices.Concat(p.batch, at))
}

// ofQuery loads an element of the named argument at the point's query. `along` is the rest of the coordinates.
func (p *attentionPoint) ofQuery(name string, along ...kernel.Index) *kernel.Expr {
	return p.read(name, slices.Concat([]kernel.Index{p.head, p.query}, along)...)
}

// ofKey loads an element of the named argument at the point's key. `along` is the rest of the coordinates.
func (p *attentionPoint) ofKey(name string, along ...kernel.Index) *kernel.Expr {
	return p.read(name, slices.Concat([]kernel.Index{p.group, p.key}, along)...)
}

// maskBy adds a term to the mask, which the kernel adds to the scores.
func (p *attentionPoint) maskBy(e *kernel.Expr) {
	if p.a.Mask != nil {
		e = p.l.f32(ir.OpAdd, p.a.Mask, e)
	}
	p.a.Mask = e
}

// addMask adds the op's mask. For a gradient it also subtracts the log-sum-exp from the scores, which normalizes the
// weights.
func (p *attentionPoint) addMask() {
	l, in := p.l, p.n.Op().Info()
	if i := in.Arg("mask"); i < len(p.n.Args()) && !analysis.IsSplat(p.n.Arg(i), 0) {
		at := slices.Concat(p.batch, []kernel.Index{p.head, p.query, p.key})
		mask := l.value(p.n.Arg(i), broadcastCoords(p.n.Arg(i).Shape(), at))
		if !p.a.Causal && !p.reversed {
			p.a.End = l.endOfKeys(mask, p.key, l.k.Fold)
		}
		p.maskBy(l.exponentOf2(mask))
	}
	if in.Arg("lse") < 0 {
		return
	}
	lse := p.ofQuery("lse")
	// Subtracts lse, but adds it for a query without keys: its lse is -inf, and its scores must stay -inf.
	factor := l.f32(ir.OpWhere, l.isMinusInf(lse), l.b.Float(ir.F32, math.Log2E), l.b.Float(ir.F32, -math.Log2E))
	p.maskBy(l.f32(ir.OpMul, l.b.Cast(ir.F32, lse), factor))
}

// exponentOf2 returns x*log2(e) in f32, so that exp(x) = exp2(result). If the product leaves the range of f32, the
// result is x itself: models mask keys with the lowest f32, and a query with only masked keys attends to all of them
// equally. The condition tests the product and not x, so that the shader computes the product before it selects; GLSL
// compilers turn other forms into a branch.
func (l *lowerer) exponentOf2(x *kernel.Expr) *kernel.Expr {
	x = kernel.Widened(x)
	// A condition is kept, so that endOfKeys can still recognize the mask. A constant is multiplied here.
	switch {
	case x.Kind == kernel.ExprApply && x.Op == ir.OpWhere:
		return l.f32(ir.OpWhere, x.Args[0], l.exponentOf2(x.Args[1]), l.exponentOf2(x.Args[2]))
	case x.Kind == kernel.ExprConst && math.Abs(x.Value) > math.MaxFloat32/math.Log2E:
		return l.b.Float(ir.F32, x.Value)
	case x.Kind == kernel.ExprConst:
		return l.b.Float(ir.F32, x.Value*math.Log2E)
	}
	wide := l.b.Cast(ir.F32, x)
	product := l.f32(ir.OpMul, wide, l.b.Float(ir.F32, math.Log2E))
	if x.DType == ir.F16 { // no f16 leaves the range
		return product
	}
	outside := l.is(ir.OpGt, l.f32(ir.OpAbs, product), l.b.Float(ir.F32, math.MaxFloat32))
	return l.f32(ir.OpWhere, outside, wide, product)
}

// result returns the value that a row stores. The kernel provides the maximum of the scores, the sum of the weights and
// the weighted sum of the values. Scores are in units of log2, and weights are relative to the maximum.
func (p *attentionPoint) result() *kernel.Expr {
	l, in := p.l, p.n.Op().Info()
	top, sum, weighted := l.b.Acc(0, ir.F32, "top"), l.b.Acc(1, ir.F32, "sum"), l.b.Acc(2, ir.F32, "weighted")
	if p.grad != "" {
		return p.gradient(top, weighted)
	}
	var sink *kernel.Expr
	if i := in.Arg("sinks"); i < len(p.n.Args()) {
		sink = l.exponentOf2(l.value(p.n.Arg(i), []kernel.Index{p.head}))
	}
	if in.Arg("v") < 0 {
		return l.logSumExp(top, sum, sink)
	}
	zero := l.b.Float(ir.F32, 0)
	if sink != nil { // one more weight, for the value 0
		sum = l.f32(ir.OpAdd, sum, l.softmaxWeight(sink, top))
	}
	quotient := l.f32(ir.OpDiv, weighted, sum)
	switch {
	case p.n.Attrs().Bool("zero_nan"): // the sum is 0 if there is no score, and NaN if one is NaN or infinite
		return l.f32(ir.OpWhere, l.is(ir.OpGt, sum, zero), quotient, zero)
	case sink != nil: // a row without visible keys has the result 0 rather than NaN
		return l.f32(ir.OpWhere, l.isMinusInf(top), zero, quotient)
	}
	return quotient
}

// gradient returns a gradient's element. The log-sum-exp in the mask has already normalized the weights (see addMask).
func (p *attentionPoint) gradient(top, weighted *kernel.Expr) *kernel.Expr {
	scale := 1.0
	if p.grad != "v" {
		scale = analysis.AttentionScale(p.n)
	}
	l := p.l
	return l.f32(ir.OpMul, l.f32(ir.OpMul, weighted, l.f32(ir.OpExp2, top)), l.b.Float(ir.F32, scale))
}

// logSumExp returns the natural logarithm of the sum of exp(score). A sink, if not nil, is one more score.
func (l exprs) logSumExp(top, sum, sink *kernel.Expr) *kernel.Expr {
	if sink != nil {
		most := l.f32(ir.OpMax, top, sink)
		most = l.f32(ir.OpWhere, l.isMinusInf(most), l.b.Float(ir.F32, 0), most) // any finite maximum will do
		sum = l.f32(ir.OpAdd, l.f32(ir.OpMul, sum, l.softmaxWeight(top, most)), l.softmaxWeight(sink, most))
		top = most
	}
	return l.f32(ir.OpMul, l.f32(ir.OpAdd, top, l.f32(ir.OpLog2, sum)), l.b.Float(ir.F32, math.Ln2))
}

// softmaxWeight returns the weight of a score in units of log2, relative to a maximum.
func (l exprs) softmaxWeight(score, top *kernel.Expr) *kernel.Expr {
	return l.f32(ir.OpExp2, l.f32(ir.OpSub, score, top))
}

func (l exprs) isMinusInf(x *kernel.Expr) *kernel.Expr {
	return l.is(ir.OpEq, x, l.b.Float(ir.F32, math.Inf(-1)))
}

// endOfKeys returns the number of keys that a row needs to read if mask has the form where(key < end, x, -inf), which
// hides all later keys. end must be the same for all queries of heads that share keys, such as the length of a prompt
// in a batch. endOfKeys returns nil for other masks.
func (l *lowerer) endOfKeys(mask *kernel.Expr, key kernel.Index, keys ir.Dim) *kernel.Index {
	for mask.Kind == kernel.ExprApply && mask.Op == ir.OpCast {
		mask = mask.Args[0]
	}
	if mask.Kind != kernel.ExprApply || mask.Op != ir.OpWhere || !keys.IsStatic() {
		return nil
	}
	hides := func(e *kernel.Expr) bool { return e.Kind == kernel.ExprConst && math.IsInf(e.Value, -1) }
	cond, hidesTrue, hidesFalse := mask.Args[0], hides(mask.Args[1]), hides(mask.Args[2])
	if hidesTrue == hidesFalse {
		return nil // the mask hides nothing, or everything
	}
	seen := hidesFalse // the value of cond for visible keys
	return l.endWhere(cond, seen, key, kernel.Last(keys))
}

// endWhere returns the number of keys that a row needs to read, if all later keys are hidden. A key is visible if cond
// has the value seen. last is the index of the last key. endWhere returns nil if cond is no comparison of key with a
// value, or if this value is not the same for all queries and heads that share keys.
func (l *lowerer) endWhere(cond *kernel.Expr, seen bool, key, last kernel.Index) *kernel.Index {
	if cond.Kind != kernel.ExprApply || len(cond.Args) == 0 {
		return nil
	}
	op, x, y := cond.Op, cond.Args[0], cond.Args[len(cond.Args)-1]
	switch {
	case op == ir.OpNot:
		return l.endWhere(x, !seen, key, last)
	case op == ir.OpAnd && seen, op == ir.OpOr && !seen: // a visible key meets both conditions, so either bounds it
		if end := l.endWhere(x, seen, key, last); end != nil {
			return end
		}
		return l.endWhere(y, seen, key, last)
	}
	// The cases below have the form key < y or key <= y, so negations and swapped operands are rewritten first.
	opposite := map[ir.Op]ir.Op{ir.OpLt: ir.OpGe, ir.OpGe: ir.OpLt, ir.OpLe: ir.OpGt, ir.OpGt: ir.OpLe}
	swapped := map[ir.Op]ir.Op{ir.OpLt: ir.OpGt, ir.OpGt: ir.OpLt, ir.OpLe: ir.OpGe, ir.OpGe: ir.OpLe}
	isKey := func(e *kernel.Expr) bool { return e.Kind == kernel.ExprIndex && e.Index.Equal(key) }
	if !seen {
		op = opposite[op]
	}
	if isKey(y) {
		op, x, y = swapped[op], y, x
	}
	// The same end must hold for all points of a workgroup, so it may depend only on batch axes and key heads.
	ax := l.k.AttentionAxes()
	own := slices.ContainsFunc([]int{ax.Head, ax.Query, ax.Value, ax.Key, ax.Dot}, y.Uses)
	if !isKey(x) || own || y.DType != ir.I32 {
		return nil
	}
	var end kernel.Index
	switch op {
	case ir.OpLt:
		end = l.indexOf(y, last.Plus(kernel.Const(1)))
	case ir.OpLe:
		end = l.indexOf(y, last).Plus(kernel.Const(1))
	default:
		return nil
	}
	return &end
}

// coordsOf returns the coordinates at which n has the current element of a core. n is the core, or is computed from it
// by elementwise ops, transposes and reshapes.
func (l *lowerer) coordsOf(core, n *ir.Node) []kernel.Index {
	if n == core {
		return l.at
	}
	for _, a := range n.Args() {
		// n has a value per core element only through an argument that is computed from the core.
		if !l.followsCore(core, a) {
			continue
		}
		at := l.coordsOf(core, a)
		switch {
		case n.Op() == ir.OpTranspose:
			out := make([]kernel.Index, len(at))
			for i, p := range n.Attrs().Ints("perm") {
				out[i] = at[p]
			}
			return out
		case n.Op() == ir.OpReshape:
			return reshaped(n.Shape(), a.Shape(), at)
		}
		same := n.Op().Class() == ir.ClassElementwise && n.Shape().Equal(a.Shape())
		bailout.Unless(same, "%s does not keep its elements one by one", n.Op())
		return at
	}
	bailout.Check(errNotIdentity) // no argument of n is computed from the core
	return nil
}

// followsCore reports whether n is the given core, or is computed from it in this cluster's kernel without another core
// in between.
func (l *lowerer) followsCore(core, n *ir.Node) bool {
	if n == core {
		return true
	}
	if h := l.f.storedBy[n.ID()]; (h != nil && h != l.c) || analysis.IsLeaf(n) || isCore(n) {
		return false
	}
	return slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return l.followsCore(core, a) })
}
