package rewrite

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
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

// ordered returns the indices in the order of a sort, argsort or top_k_indices, or nil if one workgroup can sort the
// row.
func (r *rewriter) ordered(n, x *ir.Node) *ir.Node {
	if sortsInWorkgroup(n) {
		return nil
	}
	if x.Shape()[analysis.Axis(n)].Is(1) && n.Shape().MaxElems() > 0 { // rows of one element
		return r.fill(ir.I32, 0, n.Shape())
	}
	if out := r.topOfChunks(n, x); out != nil {
		return out
	}
	if out := r.longOrder(n, x); out != nil {
		return out
	}
	return r.orderByCounting(n, x)
}

// matmul casts the operands of a matmul to the result's dtype if they have different dtypes, and dequantizes an operand
// a in a block format. Fusion moves casts and dequantization into the matmul's loads. Operand b may stay in a block
// format, which the matmul's kernel decodes itself, except in f64.
//
// If each batch of a has one row, and all batches multiply the same matrix, the batches become the rows of one matmul.
func (r *rewriter) matmul(n *ir.Node, args []*ir.Node) *ir.Node {
	a, b := args[0], args[1]
	oneRow := a.Rank() > 2 && a.Shape()[a.Rank()-2].Is(1) && !n.Attrs().Bool("transpose_a")
	// err is set if no dim can express the number of rows.
	rows, err := a.Shape()[:a.Rank()-1].Numel()
	if oneRow && b.Rank() == 2 && !a.DType().IsBlock() && err == nil && !rows.Is(1) {
		flat := r.reshape(a, ir.Shape{rows, a.Shape()[a.Rank()-1]})
		return r.reshape(r.binary(ir.OpMatMul, flat, b, n.Attrs()...), n.Shape())
	}
	decoded := n.DType() != ir.F64
	if !a.DType().IsBlock() && (b.DType().IsBlock() && decoded || a.DType() == b.DType()) {
		return nil
	}
	args = slices.Clone(args)
	// b in a block format stays as it is.
	for i, x := range args {
		switch {
		case !x.DType().IsBlock():
			x = r.castTo(x, n.DType())
		case i == 0 || !decoded:
			x = r.unary(ir.OpDequantize, x, attr("dtype", n.DType()))
		}
		args[i] = x
	}
	return r.add(ir.OpMatMul, args, n.Attrs()...)
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

// orderByCounting is a stable argsort: the rank of an element is the number of elements that come before it, and
// result p is the index of the element with rank p. Both are folds over all pairs of a row's elements, so the cost is
// quadratic in the row length. It serves rows that no sorting kernel supports.
func (r *rewriter) orderByCounting(n, x *ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	last := x.Rank() - 1
	x = r.swapAxes(x, axis, last)
	s := x.Shape()
	length := s[last]
	mine, other := r.pairs(x) // element i of a row of pairs with element j
	plane := ir.Shape{length, length}
	before := r.before(other, mine, r.iota(plane, 1), r.iota(plane, 0), analysis.Descending(n))
	rank := r.unary(ir.OpSum, r.castTo(before, ir.I32), attr("axes", []int{-1}))

	// The element of rank p is the sum of i over all i with rank[i] = p.
	k := n.Shape()[axis] // the number of results, which may be less than length
	places := ir.Shape{k, length}
	_, ranks := r.pairs(rank)
	hit := r.binary(ir.OpEq, ranks, r.iota(places, 0))
	index := r.where(hit, r.iota(places, 1), r.scalar(ir.I32, 0))
	out := r.unary(ir.OpSum, index, attr("axes", []int{-1}))
	return r.swapAxes(out, axis, last)
}

// pairs returns x reshaped to [..., N, 1] and to [..., 1, N]. An elementwise op of both combines every pair of elements
// of the innermost axis.
func (r *rewriter) pairs(x *ir.Node) (column, row *ir.Node) {
	s := x.Shape()
	outer, n := s[:len(s)-1], s[len(s)-1]
	column = r.reshape(x, slices.Concat(outer, ir.Shape{n, ir.D(1)}))
	row = r.reshape(x, slices.Concat(outer, ir.Shape{ir.D(1), n}))
	return column, row
}

// before returns whether a comes before b in sorted order. NaN is last in ascending and first in descending order.
// Equal elements are in the order of their positions posA and posB.
func (r *rewriter) before(a, b, posA, posB *ir.Node, descending bool) *ir.Node {
	less, equal := r.binary(ir.OpLt, a, b), r.binary(ir.OpEq, a, b)
	if descending {
		less = r.binary(ir.OpGt, a, b)
	}
	if a.DType().IsFloat() {
		// NaN equals NaN here, so that their positions decide.
		nanA, nanB := r.unary(ir.OpIsNaN, a), r.unary(ir.OpIsNaN, b)
		equal = r.binary(ir.OpOr, equal, r.binary(ir.OpAnd, nanA, nanB))
		if descending {
			nanA, nanB = nanB, nanA
		}
		less = r.binary(ir.OpOr, less, r.binary(ir.OpAnd, nanB, r.unary(ir.OpNot, nanA)))
	}
	return r.binary(ir.OpOr, less, r.binary(ir.OpAnd, equal, r.binary(ir.OpLt, posA, posB)))
}

// branches rewrites an if to two loops, one per branch, and returns the results. Each loop has at most one trip and
// carries the results. The loop of the branch that is not taken has no trip and leaves them unchanged.
func (r *rewriter) branches(n *ir.Node, args []*ir.Node) []*ir.Node {
	types := ir.Results(n)
	results := make([]*ir.Node, len(types))
	for i, t := range types {
		// The first loop starts with zeros, the second with the results of the first. Exactly one has a trip, which
		// sets the results.
		results[i] = r.fill(t.DType, 0, t.Shape)
	}
	condition := args[0]
	for _, branch := range []string{"then", "else"} {
		if branch == "else" {
			condition = r.unary(ir.OpNot, condition)
		}
		body := branchBody(r.g, n.Attrs().Graph(branch), types)
		given := append([]*ir.Node{condition}, append(results, args[1:]...)...)
		loop := r.add(ir.OpLoop, given, attr("trips", ir.ShapeOf(1)), attr("while", true), attr("body", body))
		results = make([]*ir.Node, len(types))
		for i := range results {
			results[i] = r.unary(ir.OpResult, loop, attr("index", i+1)) // result 0 of the loop is the condition
		}
	}
	return results
}

// branchBody returns the body of a branch's loop: the condition and the results are states, and the branch's outputs
// become the results' new values.
func branchBody(around, g *ir.Graph, types []ir.Type) *ir.Graph {
	body := ir.NewBody(g.Name)
	r := &nodes{g: body}
	bailout.Check(body.DeclareSymbolsOf(around))
	// The branch's inputs keep their names.
	r.add(ir.OpState, nil, attr("name", g.UnusedName("condition")), attr("dtype", ir.Bool), attr("shape", ir.Shape{}))
	states := make([]*ir.Node, len(types))
	for i, t := range types {
		states[i] = r.add(ir.OpState, nil, attr("name", g.UnusedName(fmt.Sprintf("result %d", i))),
			attr("dtype", t.DType), attr("shape", t.Shape))
	}
	nodes, err := ir.CopyInto(body, g)
	bailout.Check(err)
	for i, o := range g.Outputs() {
		bailout.Check(body.Update(states[i], nodes[o.Node.ID()]))
	}
	return body
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

// An expert matmul with many rows collects the rows of one matrix in groups of this size, a multiple of a matmul's
// tile.
const (
	minGroupRows = 16
	maxGroupRows = 128
	// maxGrouped limits the number of matrices. The kernel that makes the groups counts the rows of each in shared
	// memory, and some devices have only 16 KiB.
	maxGrouped = 3 << 10
)

// groupRows returns the number of rows per group for expert matmul n. It returns 0 if so few rows share a matrix that
// multiplying each row separately is better, and in f64, which has no kernel for groups. A group has room for 1.5 times
// the average number of rows per matrix: then most matrices are read once, and groups have little padding.
func groupRows(n *ir.Node) int64 {
	rows, experts := n.Arg(2).Shape().MaxElems(), n.Arg(1).Shape()[0].Add
	if n.DType() == ir.F64 || rows <= 2*experts || rows < minGroupRows || experts > maxGrouped {
		return 0
	}
	size := int64(minGroupRows)
	for size < maxGroupRows && size*experts < rows*3/2 {
		size *= 2
	}
	return size
}

// matmulID adds a table of groups to an expert matmul with many rows, or returns nil if groups are not worth it. In f64
// it dequantizes the matrices instead.
func (r *rewriter) matmulID(n *ir.Node, args []*ir.Node) *ir.Node {
	if n.DType() == ir.F64 && args[1].DType().IsBlock() {
		matrices := r.unary(ir.OpDequantize, args[1], attr("dtype", n.DType()))
		return r.add(ir.OpMatMulID, []*ir.Node{args[0], matrices, args[2]}, n.Attrs()...)
	}
	rows := groupRows(n)
	if len(args) > 3 || rows == 0 {
		return nil
	}
	groups := r.unary(ir.OpExpertGroups, args[2], attr("experts", n.Arg(1).Shape()[0].Add), attr("rows", rows))
	return r.add(ir.OpMatMulID, append(args[:3:3], groups), attr("precision", n.Attrs().String_("precision")))
}
