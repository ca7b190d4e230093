package rewrite

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// attentionParts has the extents of a decomposed attention. The query heads that share a key head, a group, become the
// rows of one matmul.
type attentionParts struct {
	batch         ir.Shape
	heads, groups ir.Dim   // query heads, and key heads
	queries, keys ir.Dim   // per head
	rows          ir.Dim   // rows of a group: the queries of all its heads
	wide          ir.DType // dtype of the scores
}

// attentionPartsOf returns the extents for an attention of queries q, [..., heads, queries, width], and keys k,
// [..., groups, keys, width].
func attentionPartsOf(q, k *ir.Node) attentionParts {
	qs, ks := q.Shape(), k.Shape()
	n := len(qs) - 3 // the number of batch axes
	p := attentionParts{batch: qs[:n:n], heads: qs[n], groups: ks[n], queries: qs[n+1], keys: ks[n+1],
		wide: kernel.AccType(q.DType())}
	headsPerGroup := p.heads.Static() / p.groups.Static() // without remainder: the op's shape rule has checked it
	p.rows = p.queries.Times(int64(headsPerGroup))
	return p
}

// shape returns the shape with the batch extents followed by dims.
func (p attentionParts) shape(dims ...ir.Dim) ir.Shape {
	return append(append(ir.Shape{}, p.batch...), dims...)
}

// grouped reshapes queries, or their gradients, so that the rows of all heads of a group form one matrix, and casts
// them to the dtype of the scores.
func (r *rewriter) grouped(x *ir.Node, p attentionParts) *ir.Node {
	return r.castTo(r.reshape(x, p.shape(p.groups, p.rows, x.Shape()[x.Rank()-1])), p.wide)
}

// scores returns the scores [..., groups, rows, keys] with scale, soft cap, mask and causality applied. slope is the
// derivative of the soft cap at each score, or nil without a soft cap.
func (r *rewriter) scores(n *ir.Node, args []*ir.Node) (scores, slope *ir.Node) {
	p := attentionPartsOf(args[0], args[1])
	scores = r.binary(ir.OpMatMul, r.grouped(args[0], p), r.castTo(args[1], p.wide), attr("transpose_b", true))
	// The score is softcap*tanh(x) with x = scale*q*k/softcap, so the slope is 1-tanh(x)^2.
	if scale, softcap := analysis.AttentionScale(n), n.Attrs().Float("softcap"); softcap != 0 {
		tanh := r.unary(ir.OpTanh, r.times(scores, scale/softcap))
		slope = r.binary(ir.OpSub, r.scalar(p.wide, 1), r.unary(ir.OpSqr, tanh))
		scores = r.times(tanh, softcap)
	} else {
		scores = r.times(scores, scale)
	}
	if i := n.Op().Info().Arg("mask"); i < len(args) {
		mask := r.unary(ir.OpBroadcast, args[i], attr("shape", p.shape(p.heads, p.queries, p.keys)))
		mask = r.castTo(r.reshape(mask, p.shape(p.groups, p.rows, p.keys)), p.wide)
		scores = r.binary(ir.OpAdd, scores, mask)
	}
	if n.Attrs().Bool("causal") {
		scores = r.causal(scores, p.rows, p.queries, p.keys, int64(n.Attrs().Int("window")))
	}
	return scores, slope
}

// times returns x*by as an affine op that adds -0. Kernels omit that addition, because it changes no value, not even
// zeros.
func (r *rewriter) times(x *ir.Node, by float64) *ir.Node {
	return r.unary(ir.OpAffine, x, attr("mul", by), attr("add", math.Copysign(0, -1)))
}

// sinkColumn returns the score of each row's sink, [..., groups, rows, 1].
func (r *rewriter) sinkColumn(sinks *ir.Node, p attentionParts) *ir.Node {
	column := r.unary(ir.OpBroadcast, r.reshape(sinks, ir.Shape{p.heads, ir.D(1), ir.D(1)}),
		attr("shape", p.shape(p.heads, p.queries, ir.D(1))))
	return r.castTo(r.reshape(column, p.shape(p.groups, p.rows, ir.D(1))), p.wide)
}

// attention decomposes an attention into two matmuls and a softmax.
func (r *rewriter) attention(n *ir.Node, args []*ir.Node) *ir.Node {
	p := attentionPartsOf(args[0], args[1])
	scores, _ := r.scores(n, args)
	probs := r.unary(ir.OpSoftmax, scores, attr("axis", -1))
	hasSinks := len(args) > 4
	if hasSinks {
		probs = r.softmaxWithSink(scores, r.sinkColumn(args[4], p))
	}
	zeroNaN := n.Attrs().Bool("zero_nan")
	if zeroNaN {
		probs = r.where(r.unary(ir.OpIsNaN, probs), r.scalar(p.wide, 0), probs)
	}
	out := r.reshape(r.binary(ir.OpMatMul, r.castTo(probs, n.DType()), args[2]), n.Shape())
	if p.keys.Min() == 0 && !hasSinks && !zeroNaN && !emptyWith(p.queries, p.keys) { // the softmax of no scores
		out = r.whereEmpty(p.keys, math.NaN(), out)
	}
	return out
}

// attentionLSE decomposes attention_lse into ops that store the scores.
func (r *rewriter) attentionLSE(n *ir.Node, args []*ir.Node) *ir.Node {
	p := attentionPartsOf(args[0], args[1])
	scores, _ := r.scores(n, args)
	if len(args) > 3 {
		scores = r.concat(-1, scores, r.sinkColumn(args[3], p))
	}
	top := r.foldAlong(ir.OpReduceMax, scores, -1)
	none := r.binary(ir.OpEq, top, r.scalar(p.wide, math.Inf(-1)))
	top = r.where(none, r.scalar(p.wide, 0), top) // -inf minus -inf would be NaN
	sum := r.foldAlong(ir.OpSum, r.unary(ir.OpExp, r.binary(ir.OpSub, scores, top)), -1)
	return r.reshape(r.binary(ir.OpAdd, r.unary(ir.OpLog, sum), top), n.Shape())
}

// attentionGrad decomposes attention_grad into ops that store the softmax weights, exp(scores - lse). The gradient of v
// is the transposed weights times grad. The gradient of the scores is weights * (grad v^T - delta), from which the
// gradients of q and k follow by a matmul. Hidden keys have weight 0.
func (r *rewriter) attentionGrad(n *ir.Node, args []*ir.Node) *ir.Node {
	p := attentionPartsOf(args[0], args[1])
	column := func(x *ir.Node) *ir.Node { return r.reshape(x, p.shape(p.groups, p.rows, ir.D(1))) }
	grad, none := r.grouped(args[3], p), r.scalar(p.wide, math.Inf(-1))
	scores, slope := r.scores(n, args)
	weights := r.unary(ir.OpExp, r.binary(ir.OpSub, scores, column(args[4])))
	// Hidden keys, and rows without a visible key, for which lse is -inf, would give NaN.
	unseen := r.binary(ir.OpOr, r.binary(ir.OpEq, scores, none), r.binary(ir.OpEq, column(args[4]), none))
	weights = r.where(unseen, r.scalar(p.wide, 0), weights)
	of := n.Attrs().String_("of")
	left := weights // the left operand of the matmul
	if of != "v" {  // left is the gradient of q*k, the scores before scaling
		d := r.binary(ir.OpSub,
			r.binary(ir.OpMatMul, grad, r.castTo(args[2], p.wide), attr("transpose_b", true)), column(args[5]))
		if slope != nil {
			d = r.binary(ir.OpMul, d, slope)
		}
		d = r.times(r.binary(ir.OpMul, weights, d), analysis.AttentionScale(n))
		// 0 times an infinite d would be NaN.
		left = r.where(r.binary(ir.OpEq, weights, r.scalar(p.wide, 0)), weights, d)
	}
	if of == "q" {
		out := r.binary(ir.OpMatMul, left, r.castTo(args[1], p.wide))
		return r.castTo(r.reshape(out, n.Shape()), n.DType())
	}
	from := args[0]
	if of == "v" {
		from = args[3]
	}
	out := r.binary(ir.OpMatMul, r.reshape(left, p.shape(p.heads, p.queries, p.keys)), r.castTo(from, p.wide),
		attr("transpose_a", true))
	return r.castTo(out, n.DType())
}

// softmaxWithSink returns the softmax of each row of scores and one more score per row, the sink. It leaves out the
// sink's weight, so that the weights of a row add up to less than 1.
func (r *rewriter) softmaxWithSink(scores, sink *ir.Node) *ir.Node {
	top := r.binary(ir.OpMax, r.foldAlong(ir.OpReduceMax, scores, -1), sink)
	weights := r.unary(ir.OpExp, r.binary(ir.OpSub, scores, top))
	sinkWeight := r.unary(ir.OpExp, r.binary(ir.OpSub, sink, top))
	return r.binary(ir.OpDiv, weights, r.binary(ir.OpAdd, r.foldAlong(ir.OpSum, weights, -1), sinkWeight))
}

// emptyWith reports whether extent t is 0 in every run in which extent s is 0.
func emptyWith(t, s ir.Dim) bool {
	return t == s || t.Is(0) || t.Sym == s.Sym && t.Add == 0 && s.Add == 0
}

// whereEmpty returns v if extent d is 0 in a run, else x.
func (r *rewriter) whereEmpty(d ir.Dim, v float64, x *ir.Node) *ir.Node {
	empty := r.binary(ir.OpEq, r.dimValue(d), r.scalar(ir.I32, 0))
	return r.where(empty, r.scalar(x.DType(), v), x)
}
