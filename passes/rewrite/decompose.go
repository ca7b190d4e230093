package rewrite

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// RefusedAttentions returns a line for each attention that Decompose replaces because no attention kernel supports it,
// with the reason.
func RefusedAttentions(g *ir.Graph) (list []string) {
	for _, n := range g.Nodes() {
		if n.Op().Class() != ir.ClassAttention || n.Shape().MaxElems() == 0 {
			continue
		}
		if why := analysis.AttentionRefusal(n); why != "" {
			list = append(list, fmt.Sprintf("%s = %s: %s", n, n.Op(), why))
		}
	}
	return list
}

// storesScores reports whether a gradient of an attention should be decomposed, so that its scores are stored, even
// though there is a kernel for it.
func storesScores(n *ir.Node, pricer kernel.Pricer) bool {
	if n.Op() != ir.OpAttentionGrad {
		return false
	}
	k, rows := n.Arg(1).Shape(), n.Arg(n.Op().Info().Arg("lse")).Shape()
	bytes, err := ir.Type{DType: ir.F32, Shape: append(slices.Clone(rows), k[len(k)-2])}.MaxBytes()
	return err == nil && kernel.Suits(pricer, kernel.Work{Form: kernel.FormScores, Bytes: float64(bytes)})
}

// Decompose replaces ops without a kernel by other ops. A pricer, if not nil, chooses between forms of an op that
// differ only in speed, such as the gradients of attentions with and without stored scores.
func Decompose(g *ir.Graph, pricer kernel.Pricer) (*ir.Graph, error) {
	stored := map[*ir.Node]bool{}
	for _, n := range g.Nodes() {
		if storesScores(n, pricer) {
			lse := n.Arg(n.Op().Info().Arg("lse")) // of the same scores
			stored[n], stored[lse] = true, true
		}
	}
	states := analysis.NewOverwrites(g).Writes()
	branches := map[*ir.Node][]*ir.Node{} // all results of an if, by its first result
	return rewrite(g, pricer, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		switch op := n.Op(); {
		case op == ir.OpIf:
			results := r.branches(n, args)
			branches[results[0]] = results
			return results[0]
		case op == ir.OpResult && branches[args[0]] != nil:
			return branches[args[0]][n.Attrs().Int("index")]
		// A loop stays, and so do its results.
		case op.Class() == ir.ClassControl:
		// There is nothing to compute.
		case op.Class() != ir.ClassLeaf && n.Shape().MaxElems() == 0 && !n.DType().IsBlock():
			return r.zeros(n)
		case op == ir.OpSqueeze || op == ir.OpUnsqueeze:
			return r.reshape(args[0], n.Shape())
		case op.Class() == ir.ClassAttention:
			args = r.addingMask(n, args)
			if analysis.AttentionRefusal(n) != "" || stored[n] {
				return r.attentionOf(n, args)
			}
			return r.add(op, args, n.Attrs()...)
		// The kernel reads the angles' units as a third argument.
		case op == ir.OpRope:
			if len(args) == 2 {
				return r.add(op, append(args, r.turns(n)), n.Attrs()...)
			}
		case states[n] && analysis.IsScatter(n) && !n.Attrs().Bool("unique"):
			return r.distinct(n, args)
		// It writes a state in place, so it must stay one op.
		case states[n]:
		default:
			for _, form := range []func(*ir.Node, []*ir.Node) *ir.Node{r.decomposed, r.foldOfOne, r.longFold} {
				if out := form(n, args); out != nil {
					return out
				}
			}
		}
		return nil
	})
}

// addingMask returns the arguments of an attention. It replaces a bool or integer mask, which says which keys are
// visible, by a mask to be added to the scores: 0 for a visible key, and -inf for a hidden one.
func (r *rewriter) addingMask(n *ir.Node, args []*ir.Node) []*ir.Node {
	mask := n.Op().Info().Arg("mask")
	if mask >= len(args) || args[mask].DType().IsFloat() {
		return args
	}
	args = slices.Clone(args)
	t := n.Arg(0).DType()
	args[mask] = r.where(r.castTo(args[mask], ir.Bool), r.scalar(t, 0), r.scalar(t, math.Inf(-1)))
	return args
}

// attentionOf decomposes an attention, its log-sum-exp or one of its gradients into ops that store the scores.
func (r *rewriter) attentionOf(n *ir.Node, args []*ir.Node) *ir.Node {
	switch n.Op() {
	case ir.OpAttentionLSE:
		return r.attentionLSE(n, args)
	case ir.OpAttentionGrad:
		return r.attentionGrad(n, args)
	}
	return r.attention(n, args)
}

// zeros returns a tensor of n's type filled with 0. It may have no elements.
func (r *rewriter) zeros(n *ir.Node) *ir.Node {
	if !n.Shape().IsStatic() || n.Shape().MaxElems() > 0 {
		return r.fill(n.DType(), 0, n.Shape())
	}
	dims, err := n.Shape().Eval(nil)
	bailout.Check(err)
	return r.add(ir.OpConst, nil, attr("data", &ir.Data{DType: n.DType(), Dims: dims}))
}

// causal sets the scores [rows, keys] of hidden keys to -inf. The queries are at the last positions: query i sees the
// keys up to i + keys - queries. With a window other than 0, a query sees only the last `window` of these keys. If the
// rows belong to several heads, positions repeat after each head's queries.
func (r *rewriter) causal(scores *ir.Node, rows, queries, keys ir.Dim, window int64) *ir.Node {
	plane := ir.Shape{rows, keys}
	last, key := r.iota(plane, 0), r.iota(plane, 1) // last is the last key that a row sees
	if rows != queries {
		last = r.binary(ir.OpRem, last, r.dimValue(queries))
	}
	if keys != queries {
		ahead := r.binary(ir.OpSub, r.dimValue(keys), r.dimValue(queries))
		last = r.binary(ir.OpAdd, last, ahead)
	}
	seen := r.binary(ir.OpLe, key, last)
	if window > 0 {
		before := r.binary(ir.OpSub, last, r.scalar(ir.I32, float64(window)))
		seen = r.binary(ir.OpAnd, seen, r.binary(ir.OpGt, key, before))
	}
	hidden := r.scalar(scores.DType(), math.Inf(-1))
	return r.where(seen, scores, hidden)
}
