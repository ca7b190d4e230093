package passes

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// rewriter adds nodes to a new graph and keeps the first error, so that decompositions can be written like formulas.
type rewriter struct {
	g      *ir.Graph
	pos    string
	err    error
	pricer Pricer // or nil
}

func (r *rewriter) add(op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	if r.err != nil {
		return nil
	}
	n, err := r.g.Add(op, args, attrs, r.pos)
	r.err = err
	return n
}

func (r *rewriter) unary(op ir.Op, x *ir.Node, attrs ...ir.Attr) *ir.Node {
	return r.add(op, []*ir.Node{x}, attrs...)
}

func (r *rewriter) reshape(x *ir.Node, s ir.Shape) *ir.Node {
	if r.err != nil || x.Shape().Equal(s) {
		return x
	}
	return r.unary(ir.OpReshape, x, ir.Attr{Name: "shape", Value: s})
}

func (r *rewriter) scalar(t ir.DType, v float64) *ir.Node {
	if r.err != nil {
		return nil
	}
	d, err := ir.FromFloats(t, []float64{v})
	if err != nil {
		r.err = err
		return nil
	}
	return r.add(ir.OpConst, nil, ir.Attr{Name: "data", Value: d})
}

func (r *rewriter) iota(s ir.Shape, axis int) *ir.Node {
	return r.add(ir.OpIota, nil, ir.Attr{Name: "dtype", Value: ir.I32}, ir.Attr{Name: "shape", Value: s},
		ir.Attr{Name: "axis", Value: axis})
}

func (r *rewriter) dimValue(d ir.Dim) *ir.Node {
	if d.IsStatic() {
		return r.scalar(ir.I32, float64(d.Add))
	}
	return r.add(ir.OpDimValue, nil, ir.Attr{Name: "dim", Value: ir.Shape{d}})
}

// takeApart is the decompose pass. It also records why attentions were decomposed.
func takeApart(s *State) error {
	for _, n := range s.Graph.Nodes() {
		if n.Op().Class() != ir.ClassAttention || n.Shape().MaxElems() == 0 {
			continue
		}
		if why := attentionRefusal(n); why != "" {
			s.Refused = append(s.Refused, fmt.Sprintf("%s = %s: %s", n, n.Op(), why))
		}
	}
	stored := map[*ir.Node]bool{}
	for _, n := range s.Graph.Nodes() {
		if s.storesScores(n) {
			lse := n.Arg(n.Op().Info().Arg("lse")) // of the same scores
			stored[n], stored[lse] = true, true
		}
	}
	return graphPass(func(g *ir.Graph) (*ir.Graph, error) { return decompose(g, stored, s.pricer) })(s)
}

// storesScores reports whether a gradient of an attention should use stored scores.
func (s *State) storesScores(n *ir.Node) bool {
	if s.pricer == nil || n.Op() != ir.OpAttentionGrad {
		return false
	}
	k, rows := n.Arg(1).Shape(), n.Arg(n.Op().Info().Arg("lse")).Shape()
	bytes, err := ir.Type{DType: ir.F32, Shape: append(slices.Clone(rows), k[len(k)-2])}.MaxBytes()
	return err == nil && s.pricer.StoreScores(bytes)
}

// decompose replaces ops without their own kernels, and the companion ops of an attention with stored scores. pricer,
// if not nil, decides which forms pay off on the device.
func decompose(g *ir.Graph, stored map[*ir.Node]bool, pricer Pricer) (*ir.Graph, error) {
	states := newOverwrites(g, false).writes()
	branches := map[*ir.Node][]*ir.Node{} // all results of an if, by its first result
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		r := &rewriter{g: rw.New, pos: n.Pos(), pricer: pricer}
		var out *ir.Node // nil to keep n with the new arguments
		switch op := n.Op(); {
		case op == ir.OpIf:
			if results := r.branches(n, args); r.err == nil {
				branches[results[0]], out = results, results[0]
			}
		case op == ir.OpResult && branches[args[0]] != nil:
			out = branches[args[0]][n.Attrs().Int("index")]
		case op.Class() == ir.ClassControl:
		case op.Class() != ir.ClassLeaf && n.Shape().MaxElems() == 0 && !n.DType().IsBlock():
			out = r.zeros(n)
		case op == ir.OpSqueeze || op == ir.OpUnsqueeze:
			out = r.reshape(args[0], n.Shape())
		case op.Class() == ir.ClassAttention:
			if args = r.addingMask(n, args); r.err == nil && (attentionRefusal(n) != "" || stored[n]) {
				out = r.attentionOf(n, args)
			}
		case op == ir.OpRope:
			if len(args) == 2 {
				args = append(slices.Clone(args), r.turns(n))
			}
		case states[n] && isScatter(n) && !n.Attrs().Bool("unique"):
			out = r.distinct(n, args)
		case states[n]:
		default:
			for _, form := range []func(*ir.Node, []*ir.Node) *ir.Node{r.decomposed, r.foldOfOne, r.longFold} {
				if out = form(n, args); out != nil || r.err != nil {
					break
				}
			}
		}
		if out != nil || r.err != nil {
			return out, r.err
		}
		return rw.Copy(n, args)
	})
}

// addingMask returns the arguments of an attention with a bool or integer mask converted to an additive one.
func (r *rewriter) addingMask(n *ir.Node, args []*ir.Node) []*ir.Node {
	mask := n.Op().Info().Arg("mask")
	if mask >= len(args) || args[mask].DType().IsFloat() {
		return args
	}
	args = slices.Clone(args)
	args[mask] = r.addedMask(args[mask], n.Arg(0).DType())
	return args
}

// attentionOf decomposes an attention or one of its companion ops, with stored scores.
func (r *rewriter) attentionOf(n *ir.Node, args []*ir.Node) *ir.Node {
	switch n.Op() {
	case ir.OpAttentionLSE:
		return r.attentionLSE(n, args)
	case ir.OpAttentionGrad:
		return r.attentionGrad(n, args)
	}
	return r.attention(n, args)
}

// zeros returns a tensor of n's type filled with 0; it may be empty.
func (r *rewriter) zeros(n *ir.Node) *ir.Node {
	if !n.Shape().IsStatic() || n.Shape().MaxElems() > 0 {
		return r.unary(ir.OpBroadcast, r.scalar(n.DType(), 0), ir.Attr{Name: "shape", Value: n.Shape()})
	}
	dims, err := n.Shape().Eval(nil)
	if err != nil {
		r.err = err
		return nil
	}
	return r.add(ir.OpConst, nil, ir.Attr{Name: "data", Value: &ir.Data{DType: n.DType(), Dims: dims}})
}

// addedMask returns the additive form of a mask that says which keys are visible.
func (r *rewriter) addedMask(mask *ir.Node, t ir.DType) *ir.Node {
	seen := r.castTo(mask, ir.Bool)
	return r.add(ir.OpWhere, []*ir.Node{seen, r.scalar(t, 0), r.scalar(t, math.Inf(-1))})
}

func (r *rewriter) castTo(x *ir.Node, t ir.DType) *ir.Node {
	if r.err != nil || x.DType() == t {
		return x
	}
	return r.unary(ir.OpCast, x, ir.Attr{Name: "dtype", Value: t})
}

// causal hides from query i all keys after i+s-t: the queries are the last t of s positions. If a matrix has the rows
// of several heads, their positions repeat every t rows. A nonzero window also hides all but that many of the remaining
// keys.
func (r *rewriter) causal(scores *ir.Node, plane ir.Shape, t, s ir.Dim, window int64) *ir.Node {
	row, col := r.iota(plane, 0), r.iota(plane, 1)
	if plane[0] != t {
		row = r.add(ir.OpRem, []*ir.Node{row, r.dimValue(t)})
	}
	if s != t {
		ahead := r.add(ir.OpSub, []*ir.Node{r.dimValue(s), r.dimValue(t)})
		row = r.add(ir.OpAdd, []*ir.Node{row, ahead})
	}
	seen := r.add(ir.OpLe, []*ir.Node{col, row})
	if window > 0 {
		before := r.binary(ir.OpSub, row, r.scalar(ir.I32, float64(window)))
		seen = r.binary(ir.OpAnd, seen, r.binary(ir.OpGt, col, before))
	}
	if r.err != nil {
		return nil
	}
	hidden := r.scalar(scores.DType(), math.Inf(-1))
	return r.add(ir.OpWhere, []*ir.Node{seen, scores, hidden})
}

// ownValues inserts copies: for an output that is a leaf or a slice of a state that is written in place, before every
// update that is not in place, and for operands of in-place writes that depend on the old value. A copy is a reshape to
// the same shape, which fusion turns into a store. Blocks with a single reader are quantized directly into the state,
// others are quantized once more for each write. ownValues decomposes scatters that turned out not to be in place.
func ownValues(g *ir.Graph, pricer Pricer) (*ir.Graph, error) {
	before := newOverwrites(g, false)
	states := before.writes()
	out, err := ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		r := &rewriter{g: rw.New, pos: n.Pos(), pricer: pricer}
		for i, x := range n.Args() {
			if before.early[edge{x, n}] {
				args[i] = r.copied(args[i])
			}
		}
		if r.err != nil {
			return nil, r.err
		}
		if w, ok := writeOf(n); ok && w.op == n && n.DType().IsBlock() {
			if !states[n] {
				return nil, fmt.Errorf("%s writes blocks, which is done only into a state and in place: %s", opAt(n),
					before.whyNot(w))
			}
			i := slices.Index(n.Args(), w.values())
			if x := n.Arg(i); x.Op() == ir.OpQuantize && !before.once(x) { // the quantize stores its blocks there
				args[i] = r.unary(ir.OpQuantize, args[i].Arg(0), x.Attrs()...)
			}
			if r.err != nil {
				return nil, r.err
			}
		}
		if isScatter(n) && !states[n] { // it was planned in place until another pass added a reader
			out := r.decomposed(n, args)
			return out, r.err
		}
		return rw.Copy(n, args)
	})
	if err != nil {
		return nil, err
	}
	fresh := ir.NewLike(g)
	own, err := ir.CopyInto(fresh, out)
	if err != nil {
		return nil, err
	}
	r := &rewriter{g: fresh}
	after := newOverwrites(out, false)
	inPlace := map[*ir.Node]bool{}
	for _, u := range out.Updates() {
		state, value := own[u.State.ID()], own[u.Value.ID()]
		switch {
		case after.inPlace[u.State] != nil:
			inPlace[u.Value] = true
		case u.Value.Op() == ir.OpQuantize && len(after.users[u.Value.ID()]) == 0 && after.shown[u.Value] == 1:
		default:
			if isLeaf(value) { // may also be a state that is overwritten
				value = r.copied(value)
			}
			value = r.copied(value)
		}
		if r.err != nil {
			return nil, r.err
		}
		if err := fresh.Update(state, value); err != nil {
			return nil, err
		}
	}
	for _, o := range out.Outputs() {
		n := own[o.Node.ID()]
		if isLeaf(n) || inPlace[o.Node] {
			n = r.copied(n)
		}
		if r.err != nil {
			return nil, r.err
		}
		if err := fresh.Output(o.Name, n); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// copied returns a copy of a value, which fusion stores.
func (r *rewriter) copied(n *ir.Node) *ir.Node {
	if r.err != nil {
		return nil
	}
	r.pos = n.Pos()
	return r.unary(ir.OpReshape, n, ir.Attr{Name: "shape", Value: n.Shape()})
}

// dce removes dead nodes.
func dce(g *ir.Graph) (*ir.Graph, error) {
	return ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		return rw.Copy(n, args)
	})
}
