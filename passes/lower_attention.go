package passes

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// maxHeadDim is the largest head dimension of an attention kernel: a row of
// the result is kept in the registers of a workgroup.
const maxHeadDim = 512

// attentionRefusal says why an attention cannot be a kernel of its own, or "".
// What is refused is computed as a product, a softmax and another product.
func attentionRefusal(n *ir.Node) string {
	rank := n.Rank()
	d, e := n.Arg(0).Shape()[rank-1], n.Shape()[rank-1]
	switch {
	case !e.IsStatic():
		return fmt.Sprintf("the values' extent %s is known only at run time", e)
	case d.Add > maxHeadDim || e.Add > maxHeadDim:
		return fmt.Sprintf("vectors of %s and %s are longer than %d", d, e, maxHeadDim)
	case n.DType() == ir.F64:
		return "its softmax is computed in f32, f64 keeps more of it in parts"
	case n.Shape().MaxElems() == 0 || n.Arg(1).Shape().MaxElems() == 0 || n.Arg(2).Shape().MaxElems() == 0:
		return "there is nothing to attend to"
	}
	return ""
}

// lowerAttention makes an attention kernel. Its rows are the queries of every
// head; the heads that share a key head are an axis of their own, so that a
// schedule may have them share the reading of keys and values.
func (l *lowerer) lowerAttention() error {
	n := l.c.Cores[0]
	q, k, v := n.Arg(0), n.Arg(1), n.Arg(2)
	rank := n.Rank()
	groups, keys, dot := k.Shape()[rank-3], k.Shape()[rank-2], q.Shape()[rank-1]
	perGroup, ok := n.Shape()[rank-3].Quo(groups.Add)
	if !ok {
		return fmt.Errorf("%s query heads for %s key heads", n.Shape()[rank-3], groups)
	}
	l.k.Family, l.k.Fold = kernel.FamilyAttention, keys
	l.space = n.Shape()
	at := l.parallel(slices.Concat(ir.Shape{ir.D(1)}, n.Shape()[:rank-3], ir.Shape{groups, perGroup},
		n.Shape()[rank-2:]))
	batch, group, head := at[1:rank-2], at[rank-2], at[rank-1]
	query, value := at[rank], at[rank+1]
	ax := l.k.AttentionAxes()
	key, along := kernel.Axis(ax.Key, keys), kernel.Axis(ax.Dot, dot)
	heads := group.Times(perGroup.Add).Plus(head)
	l.at = slices.Concat(batch, []kernel.Index{heads, query, value})
	l.ops[n] = true

	a := &kernel.Attention{Dot: dot, Scale: attentionScale(n) * math.Log2E, Causal: n.Attrs().Bool("causal"),
		Half: n.Attrs().String_("precision") == ir.PrecisionHalf}
	if softcap := n.Attrs().Float("softcap"); softcap != 0 {
		a.Scale, a.Softcap = attentionScale(n)/softcap, softcap*math.Log2E
	}
	l.k.Attention = a
	var err error
	operand := func(x *ir.Node, at ...kernel.Index) *kernel.Expr {
		if err != nil {
			return nil
		}
		var e *kernel.Expr
		e, err = l.value(x, slices.Concat(batch, at))
		return e
	}
	a.Q = operand(q, heads, query, along)
	a.K = operand(k, group, key, along)
	a.V = operand(v, group, key, value)
	if err == nil && len(n.Args()) > 3 && !isSplat(n.Arg(3), 0) {
		mask := n.Arg(3)
		if a.Mask, err = l.value(mask,
			broadcastCoords(mask.Shape(), slices.Concat(batch, []kernel.Index{heads, query, key}))); err == nil {
			if !a.Causal {
				a.End = l.endOfKeys(a.Mask, key, keys)
			}
			a.Mask = l.b.Apply(ir.OpMul, ir.F32, nil, l.b.Cast(ir.F32, a.Mask), l.b.Float(ir.F32, math.Log2E))
		}
	}
	if err != nil {
		return err
	}
	if a.Window = int64(n.Attrs().Int("window")); a.Window >= keys.Max() {
		a.Window = 0
	}
	if a.Window > 0 {
		before := l.b.Apply(ir.OpLt, ir.Bool, nil, l.b.FromIndex(key), l.b.FromIndex(l.k.FirstSeen(query)))
		hide := l.b.Apply(ir.OpWhere, ir.F32, nil, before, l.b.Float(ir.F32, math.Inf(-1)), l.b.Float(ir.F32, 0))
		if a.Mask != nil {
			hide = l.b.Apply(ir.OpAdd, ir.F32, nil, a.Mask, hide)
		}
		a.Mask = hide
	}
	sum, weighted := l.b.Acc(1, ir.F32, "sum"), l.b.Acc(2, ir.F32, "weighted")
	result := l.b.Apply(ir.OpDiv, ir.F32, nil, weighted, sum)
	if len(n.Args()) > 4 {
		if result, err = l.besideSink(n.Arg(4), heads, sum, weighted); err != nil {
			return err
		}
	}
	l.accs[n] = []*kernel.Expr{result}
	return l.storeAttention()
}

// endOfKeys finds a key from which on a mask hides all: it is -inf where a comparison says that the key
// comes after a number, which is the same for all queries of heads that share keys, such as the length of
// a text in a batch. It returns nil where the mask is no such one.
func (l *lowerer) endOfKeys(mask *kernel.Expr, key kernel.Index, keys ir.Dim) *kernel.Index {
	for mask.Kind == kernel.ExprApply && mask.Op == ir.OpCast {
		mask = mask.Args[0]
	}
	if mask.Kind != kernel.ExprApply || mask.Op != ir.OpWhere || !keys.IsStatic() {
		return nil
	}
	lowest := func(e *kernel.Expr) bool { return e.Kind == kernel.ExprConst && math.IsInf(e.Value, -1) }
	cond, seen, hidden := mask.Args[0], lowest(mask.Args[2]), lowest(mask.Args[1])
	if seen == hidden {
		return nil
	}
	return l.endWhere(cond, seen, key, last(keys))
}

// endWhere is the end of keys of which those are seen for which a condition holds or, where seen is false,
// does not.
func (l *lowerer) endWhere(cond *kernel.Expr, seen bool, key, last kernel.Index) *kernel.Index {
	if cond.Kind != kernel.ExprApply || len(cond.Args) == 0 {
		return nil
	}
	op, x, y := cond.Op, cond.Args[0], cond.Args[len(cond.Args)-1]
	switch {
	case op == ir.OpNot:
		return l.endWhere(x, !seen, key, last)
	case op == ir.OpAnd && seen, op == ir.OpOr && !seen: // either may end the keys
		if end := l.endWhere(x, seen, key, last); end != nil {
			return end
		}
		return l.endWhere(y, seen, key, last)
	}
	opposite := map[ir.Op]ir.Op{ir.OpLt: ir.OpGe, ir.OpGe: ir.OpLt, ir.OpLe: ir.OpGt, ir.OpGt: ir.OpLe}
	swapped := map[ir.Op]ir.Op{ir.OpLt: ir.OpGt, ir.OpGt: ir.OpLt, ir.OpLe: ir.OpGe, ir.OpGe: ir.OpLe}
	isKey := func(e *kernel.Expr) bool { return e.Kind == kernel.ExprIndex && e.Index.Equal(key) }
	if !seen {
		op = opposite[op]
	}
	if isKey(y) {
		op, x, y = swapped[op], y, x
	}
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

// besideSink is the result of a row whose head has a sink: one more weight, relative
// to the largest score like the others, of the value 0. A row that sees no key has
// the result 0, where without a sink it had none.
func (l *lowerer) besideSink(sinks *ir.Node, head kernel.Index, sum, weighted *kernel.Expr) (*kernel.Expr, error) {
	sink, err := l.value(sinks, []kernel.Index{head})
	if err != nil {
		return nil, err
	}
	f32 := func(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return l.b.Apply(op, ir.F32, nil, args...) }
	top := l.b.Acc(0, ir.F32, "top")
	sink = f32(ir.OpMul, l.b.Cast(ir.F32, sink), l.b.Float(ir.F32, math.Log2E))
	result := f32(ir.OpDiv, weighted, f32(ir.OpAdd, sum, f32(ir.OpExp2, f32(ir.OpSub, sink, top))))
	none := l.b.Apply(ir.OpEq, ir.Bool, nil, top, l.b.Float(ir.F32, math.Inf(-1)))
	return f32(ir.OpWhere, none, l.b.Float(ir.F32, 0), result), nil
}

// attentionScale is what an attention multiplies its scores by.
func attentionScale(n *ir.Node) float64 {
	if scale := n.Attrs().Float("scale"); scale != 0 {
		return scale
	}
	return 1 / math.Sqrt(float64(n.Arg(0).Shape()[n.Rank()-1].Add))
}

// storeAttention stores results wherever the views that follow the attention
// put them.
func (l *lowerer) storeAttention() error {
	for _, n := range l.c.Stored {
		at, err := l.coordsOf(n)
		if err != nil {
			return err
		}
		if err := l.store(n, at, true); err != nil {
			return err
		}
	}
	return nil
}

// coordsOf returns the coordinates in n of the point of the core that is being
// computed: n is the core, or follows from it by elementwise ops, transposes
// and reshapes.
func (l *lowerer) coordsOf(n *ir.Node) ([]kernel.Index, error) {
	if n == l.c.Cores[0] {
		return l.at, nil
	}
	for _, a := range n.Args() {
		if !l.followsCore(a) {
			continue
		}
		at, err := l.coordsOf(a)
		if err != nil {
			return nil, err
		}
		switch {
		case n.Op() == ir.OpTranspose:
			out := make([]kernel.Index, len(at))
			for i, p := range n.Attrs().Ints("perm") {
				out[i] = at[p]
			}
			return out, nil
		case n.Op() == ir.OpReshape:
			return reshaped(n.Shape(), a.Shape(), at), nil
		case n.Op().Class() == ir.ClassElementwise && n.Shape().Equal(a.Shape()):
			return at, nil
		}
		return nil, fmt.Errorf("%s does not keep its elements one by one", n.Op())
	}
	return nil, errNotIdentity
}

// followsCore reports whether n is the cluster's first core or computed from
// it, inline, in this cluster.
func (l *lowerer) followsCore(n *ir.Node) bool {
	if n == l.c.Cores[0] {
		return true
	}
	if h := l.f.home[n.ID()]; h != nil && h != l.c || isLeaf(n) || isCore(n) {
		return false
	}
	return slices.ContainsFunc(n.Args(), l.followsCore)
}
