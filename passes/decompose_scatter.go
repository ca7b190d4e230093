package passes

import (
	"errors"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Scatters are compiled as gathers by default: each element of the result folds over all updates that could hit it, in
// order. So equal indices give the same bits in every run, and no two invocations write the same element. The cost is
// the number of elements times the number of updates along the axis. If that is too high, updates accumulate by
// atomics, or are folded in sorted order of their indices: see scatterForm.

// hitFold describes how to fold the updates of an element, and how to combine the result with the element.
type hitFold struct {
	by, into ir.Op
	none     func(t ir.DType) float64 // neutral value for an update that does not hit
}

var hitFolds = map[string]hitFold{
	"add": {ir.OpSum, ir.OpAdd, func(ir.DType) float64 { return 0 }},
	"mul": {ir.OpProd, ir.OpMul, func(ir.DType) float64 { return 1 }},
	"min": {ir.OpReduceMin, ir.OpMin, func(t ir.DType) float64 { return limitOf(t, 1) }},
	"max": {ir.OpReduceMax, ir.OpMax, func(t ir.DType) float64 { return limitOf(t, -1) }},
}

// limitOf returns the largest value of a dtype, or the smallest if sign is negative.
func limitOf(t ir.DType, sign int) float64 {
	lo, hi := ir.IntRange(t)
	switch {
	case t.IsFloat():
		return math.Inf(sign)
	case sign < 0:
		return float64(lo)
	}
	return float64(hi)
}

// modeOf returns the mode in which a scatter folds updates into the base, or "" for an op that overwrites.
func modeOf(n *ir.Node) string {
	switch n.Op() {
	case ir.OpScatterAdd, ir.OpScatterNDAdd:
		return n.Attrs().String_("mode")
	case ir.OpIndexAdd:
		return "add"
	}
	return ""
}

// scatter moves the indexed axis innermost and folds over it.
func (r *rewriter) scatter(n *ir.Node, args []*ir.Node) *ir.Node {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	if err != nil {
		r.err = err
		return nil
	}
	last := n.Rank() - 1
	base, idx, upd := r.swapAxes(args[0], axis, last), r.swapAxes(args[1], axis, last), r.swapAxes(args[2], axis, last)
	if r.err != nil {
		return nil
	}
	mode := modeOf(n)
	if out := r.scatteredElements(n, args, axis); out != nil || r.err != nil {
		return out
	}
	_, idx = r.pairs(idx)
	_, wide := r.pairs(upd)
	places := ir.Shape{base.Shape()[last], upd.Shape()[last]}
	hit := r.meets(idx, places)
	var out *ir.Node
	if mode != "" {
		out = r.foldHits(base, hit, wide, -1, mode)
	} else {
		pos := r.lastHit(hit, places, -1)
		picked := r.add(ir.OpGather, []*ir.Node{r.notEmpty(upd, last), r.notBelowZero(pos)},
			ir.Attr{Name: "axis", Value: -1})
		out = r.choose(pos, picked, base)
	}
	return r.swapAxes(out, axis, last)
}

// scatteredElements rewrites a scatter along an axis as a scatter of single elements to positions in the base. It
// returns nil if comparing indices along the axis is cheaper, or positions have more than 31 bits.
func (r *rewriter) scatteredElements(n *ir.Node, args []*ir.Node, axis int) *ir.Node {
	base, errBase := flatAround(n.Shape(), axis)
	updates, errUpdates := flatAround(args[2].Shape(), axis)
	all, errAll := n.Shape().Numel()
	each, errEach := args[2].Shape().Numel()
	if errors.Join(errBase, errUpdates, errAll, errEach) != nil || all.Max() > math.MaxInt32 { // or no dim expresses it
		return nil
	}
	one := ir.D(1)
	size := scatterSize{ir.Shape{one, all, one}, ir.Shape{one, each, one}, modeOf(n), args[2].DType()}
	form := r.form(size, float64(each.Max())*float64(base[1].Max()))
	if form == compareAll {
		return nil
	}
	row := r.below(r.reshape(args[1], updates), base[1])
	at := r.binary(ir.OpAdd, r.binary(ir.OpMul, r.iota(updates, 0), r.dimValue(base[1])), row)
	at = r.binary(ir.OpAdd, r.binary(ir.OpMul, at, r.dimValue(base[2])), r.iota(updates, 2))
	if r.err != nil {
		return nil
	}
	at = r.add(ir.OpWhere, []*ir.Node{r.binary(ir.OpGe, row, r.scalar(ir.I32, 0)), at, r.scalar(ir.I32, -1)})
	out := r.rowsByForm(form, size, r.reshape(args[0], size.base), r.reshape(at, ir.Shape{each}),
		r.reshape(args[2], size.updates))
	return r.reshape(out, n.Shape())
}

// indexAdd sums the slices with an index equal to the coordinate.
func (r *rewriter) indexAdd(n *ir.Node, args []*ir.Node) *ir.Node {
	axis, err := ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	if err != nil {
		r.err = err
		return nil
	}
	// base [outer, N, inner], updates [outer, K, inner]
	base, errBase := flatAround(n.Shape(), axis)
	upd, errUpd := flatAround(args[2].Shape(), axis)
	if errBase != nil || errUpd != nil {
		r.err = errBase
		if r.err == nil {
			r.err = errUpd
		}
		return nil
	}
	out := r.rowsInto(r.reshape(args[0], base), r.wideIndex(args[1]), r.reshape(args[2], upd), "add")
	return r.reshape(out, n.Shape())
}

// distinct rewrites a scatter so that it writes each element at most once, as in-place writing requires. Among equal
// indices only the last stays, and its update becomes the fold of all their updates, unrounded for floats; the other
// indices become out of range.
func (r *rewriter) distinct(n *ir.Node, args []*ir.Node) *ir.Node {
	base, indices, updates := args[0], args[1], args[2]
	axis, row, mode := 0, n.Rank()-1, modeOf(n)
	if n.Op() != ir.OpScatterND && n.Op() != ir.OpScatterNDAdd {
		axis, r.err = ir.ResolveAxis(int64(n.Attrs().Int("axis")), n.Rank())
	}
	if r.err != nil {
		return nil
	}
	switch n.Op() {
	case ir.OpScatter, ir.OpScatterAdd:
		hit, kept := r.lastOfEqual(r.swapAxes(indices, axis, row))
		indices = r.swapAxes(kept, axis, row)
		if mode != "" && hit != nil {
			_, others := r.pairs(r.swapAxes(updates, axis, row))
			updates = r.swapAxes(r.hitsOf(hit, others, -1, mode), axis, row)
		}
	case ir.OpIndexAdd:
		hit, kept := r.lastOfRows(indices, n.Shape()[axis])
		rows, err := flatAround(updates.Shape(), axis)
		if r.err == nil {
			r.err = err
		}
		indices, updates = kept, r.foldOfRows(hit, indices, updates, rows, n.Shape()[axis], mode)
	default:
		flat := r.flatIndex(indices, n.Shape(), true)
		outer, _ := r.split(n.Shape(), indices)
		hit, kept := r.lastOfRows(flat, outer)
		if r.err != nil {
			return nil
		}
		places := indices.Shape()[:indices.Rank()-1]
		inner, err := updates.Shape()[len(places):].Numel()
		if r.err == nil {
			r.err = err
		}
		if mode != "" {
			updates = r.foldOfRows(hit, flat, updates, ir.Shape{ir.D(1), kept.Shape()[0], inner}, outer, mode)
		}
		is := r.binary(ir.OpGe, kept, r.scalar(kept.DType(), 0))
		is = r.reshape(is, append(slices.Clone(places), ir.D(1)))
		indices = r.wideIndex(indices)
		if r.err == nil {
			indices = r.add(ir.OpWhere, []*ir.Node{is, indices, r.scalar(indices.DType(), -1)})
		}
	}
	if !n.DType().IsFloat() {
		updates = r.castTo(updates, n.DType()) // wraps
	}
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs()), func(a ir.Attr) bool { return a.Name == "unique" })
	return r.add(n.Op(), []*ir.Node{base, indices, updates}, append(attrs, ir.Attr{Name: "unique", Value: true})...)
}

// lastOfEqual compares the indices of each row with each other. It returns which are equal, and the indices with -1 in
// place of all but the last of equal ones. equal is nil if there is only one index.
func (r *rewriter) lastOfEqual(indices *ir.Node) (equal, kept *ir.Node) {
	indices = r.wideIndex(indices)
	if r.err != nil || indices.Shape()[indices.Rank()-1].Is(1) {
		return nil, indices
	}
	mine, others := r.pairs(indices)
	equal = r.binary(ir.OpEq, mine, others)
	if r.err != nil {
		return nil, nil
	}
	n := indices.Shape()[indices.Rank()-1]
	last := r.lastHit(equal, ir.Shape{n, n}, -1)
	is := r.binary(ir.OpEq, last, r.iota(ir.Shape{n}, 0))
	return equal, r.add(ir.OpWhere, []*ir.Node{is, indices, r.scalar(indices.DType(), -1)})
}

// lastOfRows is lastOfEqual for one row of indices below a limit. If comparing all pairs costs more, it finds the last
// of equal indices by atomics.
func (r *rewriter) lastOfRows(indices *ir.Node, limit ir.Dim) (equal, kept *ir.Node) {
	equal, kept = r.lastOfEqual(indices)
	if r.err != nil || equal == nil {
		return equal, kept
	}
	one, n := ir.D(1), kept.Shape()[0]
	size := scatterSize{ir.Shape{one, limit, one}, ir.Shape{one, n, one}, "", ir.I32}
	if r.form(size, size.elements(size.updates)*float64(n.Max())) != accumulate {
		return equal, kept
	}
	indices = r.wideIndex(indices)
	l := r.landing(size, indices)
	last := r.add(ir.OpGather, []*ir.Node{r.lastUpdate(l), r.notBelowZero(l.at)}, ir.Attr{Name: "axis", Value: 0})
	is := r.binary(ir.OpAnd, r.binary(ir.OpEq, last, r.iota(ir.Shape{n}, 0)),
		r.binary(ir.OpGe, l.at, r.scalar(ir.I32, 0)))
	if r.err != nil {
		return nil, nil
	}
	return equal, r.add(ir.OpWhere, []*ir.Node{is, indices, r.scalar(indices.DType(), -1)})
}

// foldOfRows folds, for each row of updates [outer, K, inner], all rows with the same index.
func (r *rewriter) foldOfRows(hit, indices, updates *ir.Node, rows ir.Shape, limit ir.Dim, mode string) *ir.Node {
	if r.err != nil {
		return nil
	}
	one := ir.D(1)
	if hit == nil {
		return updates // a single update
	}
	size := scatterSize{ir.Shape{one, limit, one}, rows, mode, updates.DType()}
	if r.form(size, size.elements(rows)*float64(rows[1].Max())) != compareAll && size.sorts() {
		return r.reshape(r.sortedFolds(indices, indices, r.reshape(updates, rows), limit, mode), updates.Shape())
	}
	folded := r.hitsOf(r.reshape(hit, ir.Shape{one, rows[1], rows[1], one}),
		r.reshape(updates, ir.Shape{rows[0], one, rows[1], rows[2]}), 2, mode)
	return r.reshape(folded, updates.Shape())
}

// flatAround joins the axes before one axis, and the axes after it.
func flatAround(s ir.Shape, axis int) (ir.Shape, error) {
	outer, err := s[:axis].Numel()
	if err != nil {
		return nil, err
	}
	inner, err := s[axis+1:].Numel()
	return ir.Shape{outer, s[axis], inner}, err
}

// rowsInto changes base [outer, N, inner] by updates [outer, K, inner]: row k goes to row indices[k], if that exists.
// It replaces that row or, with a mode, is folded into it.
func (r *rewriter) rowsInto(base, indices, updates *ir.Node, mode string) *ir.Node {
	if r.err != nil {
		return nil
	}
	size := scatterSize{base.Shape(), updates.Shape(), mode, updates.DType()}
	steps := size.elements(size.updates)
	if mode == "" {
		steps = size.elements(size.updates[:2]) // number of rows
	}
	return r.rowsByForm(r.form(size, steps*float64(size.base[1].Max())), size, base, indices, updates)
}

// rowsByForm is rowsInto in one of its forms.
func (r *rewriter) rowsByForm(form scatterForm, s scatterSize, base, indices, updates *ir.Node) *ir.Node {
	if r.err != nil {
		return nil
	}
	places := ir.Shape{s.base[1], s.updates[1]}
	switch {
	case form == sortFirst:
		return r.foldInto(base, r.sortedFolds(indices, r.iota(places[:1], 0), updates, places[0], s.mode), s.mode)
	case form == accumulate && s.mode == "":
		return r.pickedRows(base, updates, r.lastUpdate(r.landing(s, indices)))
	case form == accumulate:
		folded := r.accumulated(r.landing(s, indices), updates)
		return r.foldInto(base, r.reshape(folded, s.base), s.mode)
	}
	hit := r.meets(indices, places) // [N, K]
	if s.mode == "" {
		return r.pickedRows(base, updates, r.lastHit(hit, places, -1))
	}
	wide := r.reshape(updates, ir.Shape{s.updates[0], ir.D(1), s.updates[1], s.updates[2]})
	hit = r.reshape(hit, ir.Shape{ir.D(1), places[0], places[1], ir.D(1)})
	return r.foldHits(base, hit, wide, 2, s.mode)
}

// pickedRows returns base [outer, N, inner] with each row replaced by row pos[n] of updates, if pos[n] is not negative.
func (r *rewriter) pickedRows(base, updates, pos *ir.Node) *ir.Node {
	if r.err != nil {
		return nil
	}
	picked := r.add(ir.OpIndexSelect, []*ir.Node{r.notEmpty(updates, 1), r.notBelowZero(pos)},
		ir.Attr{Name: "axis", Value: 1})
	return r.choose(r.reshape(pos, ir.Shape{pos.Shape()[0], ir.D(1)}), picked, base)
}

// meets compares indices, along the innermost axis, with each coordinate of the axis before it.
func (r *rewriter) meets(indices *ir.Node, places ir.Shape) *ir.Node {
	indices = r.wideIndex(indices)
	if r.err != nil {
		return nil
	}
	at := r.add(ir.OpIota, nil, ir.Attr{Name: "dtype", Value: indices.DType()}, ir.Attr{Name: "shape", Value: places},
		ir.Attr{Name: "axis", Value: 0})
	return r.binary(ir.OpEq, indices, at)
}

// wideIndex casts indices to i32, or leaves them i64. A u32 too large for i32 becomes negative, and stays out of range.
func (r *rewriter) wideIndex(x *ir.Node) *ir.Node {
	if r.err != nil || x.DType() == ir.I64 {
		return x
	}
	return r.castTo(x, ir.I32)
}

// foldHits folds the updates that hit an element, along an axis, into base.
func (r *rewriter) foldHits(base, hit, updates *ir.Node, axis int, mode string) *ir.Node {
	if r.err != nil {
		return nil
	}
	return r.foldInto(base, r.hitsOf(hit, updates, axis, mode), mode)
}

// foldInto changes base by folded updates, in the dtype that folds have.
func (r *rewriter) foldInto(base, folded *ir.Node, mode string) *ir.Node {
	if r.err != nil {
		return nil
	}
	t := base.DType()
	wide := accType("", t)
	return r.castTo(r.binary(hitFolds[mode].into, r.castTo(base, wide), r.castTo(folded, wide)), t)
}

// hitsOf folds the updates that hit, along an axis, in the accumulator dtype.
func (r *rewriter) hitsOf(hit, updates *ir.Node, axis int, mode string) *ir.Node {
	if r.err != nil {
		return nil
	}
	t, fold := updates.DType(), hitFolds[mode]
	met := r.add(ir.OpWhere, []*ir.Node{hit, updates, r.scalar(t, fold.none(t))})
	if t.IsFloat() {
		met = r.castTo(met, accType("", t))
	}
	return r.unary(fold.by, met, ir.Attr{Name: "axes", Value: []int{axis}})
}

// lastHit returns the last position along an axis of true elements, or -1.
func (r *rewriter) lastHit(hit *ir.Node, places ir.Shape, axis int) *ir.Node {
	pos := r.add(ir.OpWhere, []*ir.Node{hit, r.iota(places, 1), r.scalar(ir.I32, -1)})
	if r.err != nil {
		return nil
	}
	top := r.unary(ir.OpReduceMax, pos, ir.Attr{Name: "axes", Value: []int{axis}})
	return r.binary(ir.OpMax, top, r.scalar(ir.I32, -1)) // over no updates at all
}

// notEmpty pads an axis of x that may be empty by one element, so that a gather has an element even if its result is
// discarded.
func (r *rewriter) notEmpty(x *ir.Node, axis int) *ir.Node {
	if r.err != nil || x.Shape()[axis].Min() > 0 {
		return x
	}
	low, high := make([]int64, x.Rank()), make([]int64, x.Rank())
	high[axis] = 1
	return r.unary(ir.OpPad, x, ir.Attr{Name: "low", Value: low}, ir.Attr{Name: "high", Value: high})
}

func (r *rewriter) notBelowZero(pos *ir.Node) *ir.Node {
	return r.binary(ir.OpMax, pos, r.scalar(ir.I32, 0))
}

// choose returns picked where pos is a position, else base.
func (r *rewriter) choose(pos, picked, base *ir.Node) *ir.Node {
	found := r.binary(ir.OpGe, pos, r.scalar(ir.I32, 0))
	return r.add(ir.OpWhere, []*ir.Node{found, picked, base})
}

// flatIndex converts rows of coordinates indices[…, R] of the R outermost axes of s to row-major positions over those
// axes. Coordinates out of range are clamped, or yield a negative position if drop is set.
func (r *rewriter) flatIndex(indices *ir.Node, s ir.Shape, drop bool) *ir.Node {
	if r.err != nil {
		return nil
	}
	is := indices.Shape()
	positive := indices.DType().Kind() == ir.KindUint && indices.DType().BlockBytes() < 4 // so that i32 is, too
	rank := int(is[len(is)-1].Add)
	rows, err := is[:len(is)-1].Numel()
	if err != nil {
		r.err = err
		return nil
	}
	if !drop && indices.DType() == ir.U32 { // limited from above, before i32 makes it negative
		indices = r.binary(ir.OpMin, indices, r.scalar(ir.U32, math.MaxInt32))
	}
	table := r.reshape(r.wideIndex(indices), ir.Shape{rows, is[len(is)-1]})
	if r.err != nil {
		return nil
	}
	t := table.DType()
	flat := r.scalar(t, 0)
	var outside *ir.Node
	for i := range rank {
		column := r.unary(ir.OpSlice, table, ir.Attr{Name: "starts", Value: []int{0, i}},
			ir.Attr{Name: "limits", Value: ir.Shape{rows, ir.D(i + 1)}})
		extent := r.castTo(r.dimValue(s[i]), t)
		if drop {
			var below, out *ir.Node
			if !positive {
				below = r.binary(ir.OpLt, column, r.scalar(t, 0))
			}
			if out = r.binary(ir.OpGe, column, extent); !positive {
				out = r.binary(ir.OpOr, below, out)
			}
			if outside == nil {
				outside = out
			} else {
				outside = r.binary(ir.OpOr, outside, out)
			}
		}
		end := r.binary(ir.OpSub, extent, r.scalar(t, 1))
		column = r.binary(ir.OpMin, column, end)
		if !positive || s[i].Min() == 0 {
			column = r.binary(ir.OpMax, column, r.scalar(t, 0))
		}
		flat = r.binary(ir.OpAdd, r.binary(ir.OpMul, flat, extent), column)
	}
	if outside != nil {
		flat = r.add(ir.OpWhere, []*ir.Node{outside, r.scalar(t, -1), flat})
	}
	if r.err != nil {
		return nil
	}
	if flat.Rank() == 0 { // rows of no coordinates all name the whole of x
		flat = r.unary(ir.OpBroadcast, flat, ir.Attr{Name: "shape", Value: ir.Shape{rows}})
	}
	return r.reshape(flat, ir.Shape{rows})
}

// split joins the axes that rows of coordinates index, and the remaining axes.
func (r *rewriter) split(s ir.Shape, indices *ir.Node) (outer, inner ir.Dim) {
	rank := int(indices.Shape()[indices.Rank()-1].Add)
	outer, err := s[:rank].Numel()
	if err == nil {
		inner, err = s[rank:].Numel()
	}
	r.err = err
	return outer, inner
}

func (r *rewriter) gatherND(n *ir.Node, args []*ir.Node) *ir.Node {
	x, indices := args[0], args[1]
	outer, inner := r.split(x.Shape(), indices)
	flat := r.flatIndex(indices, x.Shape(), false)
	if r.err != nil {
		return nil
	}
	rows := r.reshape(x, ir.Shape{outer, inner})
	return r.reshape(r.add(ir.OpIndexSelect, []*ir.Node{rows, flat}, ir.Attr{Name: "axis", Value: 0}), n.Shape())
}

func (r *rewriter) scatterND(n *ir.Node, args []*ir.Node) *ir.Node {
	base, indices, updates := args[0], args[1], args[2]
	outer, inner := r.split(base.Shape(), indices)
	flat := r.flatIndex(indices, base.Shape(), true)
	if r.err != nil {
		return nil
	}
	one := ir.D(1)
	rows := ir.Shape{one, flat.Shape()[0], inner}
	out := r.rowsInto(r.reshape(base, ir.Shape{one, outer, inner}), flat, r.reshape(updates, rows), modeOf(n))
	return r.reshape(out, n.Shape())
}
