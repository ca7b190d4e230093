package rewrite

import (
	"cmp"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// decomposed returns the replacement of op n by other ops, or nil if there is a kernel for n.
func (r *rewriter) decomposed(n *ir.Node, args []*ir.Node) *ir.Node {
	switch n.Op() {
	case ir.OpWhere:
		if args[0].DType() == ir.Bool {
			return nil
		}
		return r.where(r.castTo(args[0], ir.Bool), args[1], args[2])
	case ir.OpClamp, ir.OpAffine:
		return r.integerSteps(n, args[0])
	case ir.OpBatchNorm:
		return r.batchNorm(n, args)
	case ir.OpGroupNorm:
		return r.groupNorm(n, args)
	case ir.OpTril:
		return r.triangle(n, args[0], ir.OpLe)
	case ir.OpTriu:
		return r.triangle(n, args[0], ir.OpGe)
	case ir.OpOneHot:
		return r.oneHot(n, args[0])
	case ir.OpRopeTables:
		return r.ropeTables(n, args)
	case ir.OpFFT, ir.OpRFFT, ir.OpIRFFT:
		return r.transform(n, args[0])
	case ir.OpCholesky, ir.OpTriangularSolve, ir.OpQR, ir.OpEigH:
		return r.linearAlgebra(n, args)
	case ir.OpCausalConv1D:
		return r.causalConv1D(n, args)
	case ir.OpSSMScan, ir.OpDeltaRule:
		return r.scan(n, args)
	case ir.OpMatMul:
		return r.matmul(n, args)
	case ir.OpMatMulID:
		return r.matmulID(n, args)
	case ir.OpCumSum, ir.OpCumProd, ir.OpCumMax, ir.OpCumMin:
		return r.longScan(n, args[0])
	case ir.OpArgsort, ir.OpTopKIndices:
		return r.ordered(n, args[0])
	case ir.OpSort:
		order := r.argsort(n, args[0])
		return r.onAxis(ir.OpGather, n.Attrs().Int("axis"), args[0], order)
	case ir.OpScatter, ir.OpScatterAdd:
		return r.scatter(n, args)
	case ir.OpIndexAdd:
		return r.indexAdd(n, args)
	case ir.OpGatherND:
		return r.gatherND(n, args)
	case ir.OpScatterND, ir.OpScatterNDAdd:
		if n.DType().IsBlock() {
			return nil // in place, or an error in lowering
		}
		return r.scatterND(n, args)
	}
	return nil
}

// integerSteps decomposes a clamp or affine of integers into two ops, such as a max and a min. For floats it returns
// nil, because kernels have these ops.
func (r *rewriter) integerSteps(n, x *ir.Node) *ir.Node {
	if !x.DType().IsInteger() {
		return nil
	}
	type step struct {
		op   ir.Op
		attr string
	}
	steps := []step{{ir.OpMul, "mul"}, {ir.OpAdd, "add"}}
	if n.Op() == ir.OpClamp {
		steps = []step{{ir.OpMax, "min"}, {ir.OpMin, "max"}}
	}
	for _, s := range steps {
		// An infinite limit of a clamp is no limit.
		if v := n.Attrs().Float(s.attr); !math.IsInf(v, 0) {
			x = r.binary(s.op, x, r.scalar(x.DType(), v))
		}
	}
	return x
}

// channels reshapes a parameter [C] so that it broadcasts over x[N, C, …] of the given rank.
func (r *rewriter) channels(p *ir.Node, rank int) *ir.Node {
	s := ir.Shape{p.Shape()[0]}
	for range rank - 2 {
		s = append(s, ir.D(1))
	}
	return r.reshape(p, s)
}

// batchNorm returns (x-mean)*rsqrt(variance+eps)*weight+bias with a mean, variance, weight and bias per channel.
func (r *rewriter) batchNorm(n *ir.Node, args []*ir.Node) *ir.Node {
	rank := n.Rank()
	args = r.widened(args)
	x := r.binary(ir.OpSub, args[0], r.channels(args[1], rank))
	variance := r.binary(ir.OpAdd, args[2], r.scalar(args[2].DType(), n.Attrs().Float("eps")))
	x = r.binary(ir.OpMul, x, r.channels(r.unary(ir.OpRsqrt, variance), rank))
	return r.castTo(r.affineChannels(x, args[3:], rank), n.DType())
}

// widened casts float arguments to the accumulator dtype, in which an op of several steps is computed, so that only the
// result is rounded.
func (r *rewriter) widened(args []*ir.Node) []*ir.Node {
	wide := slices.Clone(args)
	for i, a := range args {
		wide[i] = r.castTo(a, kernel.AccType(a.DType()))
	}
	return wide
}

// affineChannels returns x times the weight plus the bias of each channel. params has the weight and the bias, or only
// the weight, or nothing. rank is x's.
func (r *rewriter) affineChannels(x *ir.Node, params []*ir.Node, rank int) *ir.Node {
	for i, p := range params {
		x = r.binary(scaleAndShift[i], x, r.channels(p, rank))
	}
	return x
}

// groupNorm normalizes each group of channels as one row.
func (r *rewriter) groupNorm(n *ir.Node, args []*ir.Node) *ir.Node {
	s := n.Shape()
	groups := ir.Dim{Add: int64(n.Attrs().Int("groups"))}
	perGroup, _ := s[1].Quo(groups.Add) // its shape rule has checked it
	row := r.numel(append(ir.Shape{perGroup}, s[2:]...))
	args = r.widened(args)
	x := r.reshape(args[0], ir.Shape{s[0], groups, row})
	x = r.unary(ir.OpLayerNorm, x, attr("eps", n.Attrs().Float("eps")))
	if split := r.longFold(x, x.Args()); split != nil {
		x = split
	}
	return r.castTo(r.affineChannels(r.reshape(x, s), args[1:], len(s)), n.DType())
}

// triangle returns x with an element set to 0 unless compare(column - row, k) is true. Attribute k of n is the number
// of the diagonal.
func (r *rewriter) triangle(n, x *ir.Node, compare ir.Op) *ir.Node {
	s := n.Shape()
	plane := s[len(s)-2:]
	column := r.binary(ir.OpSub, r.iota(plane, 1), r.iota(plane, 0))
	limit := min(max(n.Attrs().Int("k"), math.MinInt32), math.MaxInt32) // columns and rows are i32
	keep := r.binary(compare, column, r.scalar(ir.I32, float64(limit)))
	return r.where(keep, x, r.scalar(n.DType(), 0))
}

// oneHot returns whether each index equals each coordinate of a new innermost axis.
func (r *rewriter) oneHot(n, indices *ir.Node) *ir.Node {
	s := n.Shape()
	wide := append(append(ir.Shape{}, indices.Shape()...), ir.D(1))
	count := r.add(ir.OpIota, nil, attr("dtype", indices.DType()),
		attr("shape", ir.Shape{s[len(s)-1]}), attr("axis", 0))
	hit := r.binary(ir.OpEq, r.reshape(indices, wide), count)
	if n.DType() == ir.Bool {
		return hit
	}
	return r.unary(ir.OpCast, hit, attr("dtype", n.DType()))
}

// ropeTables decomposes a rope with tables of cos and sin. It reshapes the two elements of each pair to an axis of
// their own, so that a flip exchanges them: x*cos + flip(x)*sin, with -sin for the first element of a pair.
func (r *rewriter) ropeTables(n *ir.Node, args []*ir.Node) *ir.Node {
	x, s, tables := args[0], n.Shape(), args[1].Shape()
	last, pairs := len(s)-1, tables[len(tables)-1]
	if pairs.Is(0) {
		return x
	}
	wide, axis := kernel.AccType(x.DType()), last+1 // where the two are
	if n.Attrs().String_("mode") == "half" {
		axis = last
	}
	// split returns shape s with the last axis split into pairs and an axis of extent two, at the place for the mode.
	split := func(s ir.Shape, two int) ir.Shape {
		return slices.Insert(append(slices.Clone(s[:len(s)-1]), pairs), len(s)-1+axis-last, ir.D(two))
	}
	ends := append(slices.Clone(s[:last]), pairs.Times(2))
	// part returns the elements from `from` to limits along the last axis.
	part := func(from int64, limits ir.Shape) *ir.Node {
		starts := make([]int64, len(s))
		starts[last] = from
		return r.slice(x, starts, limits)
	}
	y := r.castTo(r.reshape(part(0, ends), split(s, 2)), wide)
	table := func(t *ir.Node) *ir.Node { return r.reshape(r.castTo(t, wide), split(t.Shape(), 1)) }
	// -1 for the first element of a pair and 1 for the second: 2*i - 1
	sign := r.add(ir.OpIota, nil, attr("dtype", wide), attr("shape", split(s, 2)[last:]), attr("axis", axis-last))
	sign = r.unary(ir.OpAffine, sign, attr("mul", 2.0), attr("add", -1.0))
	other := r.unary(ir.OpFlip, y, attr("axes", []int{axis}))
	out := r.binary(ir.OpAdd, r.binary(ir.OpMul, y, table(args[1])),
		r.binary(ir.OpMul, other, r.binary(ir.OpMul, sign, table(args[2]))))
	out = r.reshape(r.castTo(out, n.DType()), ends)
	// Elements after the rotated ones stay as they are.
	if ends[last] == s[last] {
		return out
	}
	return r.concat(last, out, part(ends[last].Add, s))
}

// turns returns the angle per position of each pair of elements, for a rope without that argument (its third). Angles
// are integer fractions of a turn, so that whole turns wrap around and every position is exact. In f32,
// position*frequency would have an error of 2^-12 radian at position 4096, growing with the position.
func (r *rewriter) turns(n *ir.Node) *ir.Node {
	x := n.Arg(0).Shape()
	dims := cmp.Or(int64(n.Attrs().Int("dims")), x[len(x)-1].Add)
	radians := make([]float64, dims/2)
	for i := range radians {
		radians[i] = math.Pow(n.Attrs().Float("base"), -2*float64(i)/float64(dims))
	}
	d, err := ir.RopeTurns(radians)
	bailout.Check(err)
	return r.add(ir.OpConst, nil, attr("data", d))
}
