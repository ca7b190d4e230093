package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// maxRowEpilogue is the longest row for which elementwise ops are fused into a preceding reduction. For longer rows,
// one workgroup per row would leave most of the device idle in the elementwise part.
const maxRowEpilogue = 1 << 16

// lowerRow makes the kernel of reductions and row ops. A row consists of the elements along the folded axes. The
// parallel axes are the other axes.
func (l *lowerer) lowerRow() {
	for _, n := range l.c.Cores {
		if isWindowRow(n) {
			l.requireOneCore(n)
			l.lowerWindowRow(n)
			return
		}
	}
	l.k.Family = kernel.FamilyRow
	x := l.c.Cores[0].Arg(0)
	l.space = x.Shape()
	folded := analysis.FoldedAxes(l.c.Cores[0])
	var kept, rows ir.Shape
	for i, d := range l.space {
		if folded[i] {
			rows = append(rows, d)
		} else {
			kept = append(kept, d)
		}
	}
	l.kept = l.parallel(kept)
	l.k.Fold = numel(rows)
	// The coordinates of an element are those of its row and of its place in the row, in the order of the axes of x.
	keptAt, foldAt := l.kept, kernel.Unflatten(rows, kernel.Axis(l.k.FoldAxis(), l.k.Fold))
	for i := range l.space {
		if folded[i] {
			l.at, foldAt = append(l.at, foldAt[0]), foldAt[1:]
		} else {
			l.at, keptAt = append(l.at, keptAt[0]), keptAt[1:]
		}
	}
	for _, n := range l.c.Cores {
		l.addPhases(n)
	}
	l.storeRowResults(kept)
}

// storeRowResults stores the cluster's results: one per element of a row, or one per row. kept is the shape without the
// folded axes.
func (l *lowerer) storeRowResults(kept ir.Shape) {
	for _, n := range l.c.Stored {
		if l.isPerElement(n) {
			onlyCores := len(l.c.Cores) == len(l.c.tails)
			bailout.Unless(onlyCores || l.k.Fold.Max() <= maxRowEpilogue,
				"its rows of %s elements are too long for one workgroup each", l.k.Fold)
			l.store(n, l.resultCoords(n), perElement)
		} else {
			bailout.Unless(equalModuloOnes(n.Shape(), kept), "its shape %s is neither the rows' %s nor the result's %s",
				n.Shape(), l.space, kept)
			l.store(n, spread(n.Shape(), l.kept, kept), perPoint)
		}
	}
}

// isPerElement reports whether stored node n has a value for each element of the rows. Its shape may differ from the
// rows' shape if it has as many elements and rows have more than one.
func (l *lowerer) isPerElement(n *ir.Node) bool {
	if n.Shape().Equal(l.space) {
		// A reduction has one value per row, even if extents of 1 make its shape equal the rows' shape.
		return n.Op().Class() != ir.ClassReduce || !slices.Contains(l.c.Cores, n)
	}
	return n.Shape().SameNumel(l.space) && l.k.Fold.Min() > 1
}

// equalModuloOnes compares shapes without their axes of extent 1.
func equalModuloOnes(a, b ir.Shape) bool {
	ones := func(d ir.Dim) bool { return d.Is(1) }
	return slices.DeleteFunc(slices.Clone(a), ones).Equal(slices.DeleteFunc(slices.Clone(b), ones))
}

// spread maps coordinates in shape `from` to coordinates in shape s. The shapes differ only in axes of extent 1.
func spread(s ir.Shape, at []kernel.Index, from ir.Shape) []kernel.Index {
	out := make([]kernel.Index, len(s))
	next := 0
	for i, d := range s {
		if d.Is(1) {
			continue
		}
		for from[next].Is(1) {
			next++
		}
		out[i] = at[next]
		next++
	}
	return out
}

// phase adds a phase to the kernel, a fold of v along the row, and returns its result. Equal phases are shared.
func (l *lowerer) phase(combine kernel.Combine, v *kernel.Expr, name string) *kernel.Expr {
	t := kernel.AccType(v.DType)
	if combine == kernel.CombineArgmax || combine == kernel.CombineArgmin {
		t = ir.I32
	}
	for i, p := range l.k.Phases {
		if p.Combine == combine && p.Value == v {
			return l.b.Acc(i, t, p.Name)
		}
	}
	// Another phase with this name gets a number: sum, sum_2, sum_3.
	same := 0
	for _, p := range l.k.Phases {
		if p.Name == name || strings.HasPrefix(p.Name, name+"_") {
			same++
		}
	}
	if same > 0 {
		name = fmt.Sprintf("%s_%d", name, same+1)
	}
	l.k.Phases = append(l.k.Phases, kernel.Phase{Combine: combine, Value: v, Name: name})
	return l.b.Acc(len(l.k.Phases)-1, t, name)
}

// basicFolds maps the basic reductions to the way in which a kernel combines two values.
var basicFolds = map[ir.Op]kernel.Combine{
	ir.OpSum: kernel.CombineSum, ir.OpProd: kernel.CombineProd, ir.OpReduceMax: kernel.CombineMax,
	ir.OpReduceMin: kernel.CombineMin, ir.OpArgmax: kernel.CombineArgmax, ir.OpArgmin: kernel.CombineArgmin,
	ir.OpAny: kernel.CombineMax, // of u32, so that the result for an empty row is 0
	ir.OpAll: kernel.CombineMin,
}

// addPhases adds the phases of a reduction or row op, as the op table defines them (ir.OpInfo.Fold).
func (l *lowerer) addPhases(n *ir.Node) {
	fold := n.Op().Info().Fold
	bailout.Unless(fold != nil, "%s has no lowering: give its row in ir/ops_*.go a fold, or take it apart in "+
		"passes/rewrite/decompose*.go", n.Op())
	x := l.value(n.Arg(0), l.at)
	if fold.FromFirst() {
		l.first[n] = l.value(n.Arg(0), l.rowStart())
	}
	if x.DType == ir.Bool { // the op counts or compares them as 0 and 1
		x = l.b.Cast(ir.U32, x)
	}
	var accs []*kernel.Expr
	for _, s := range fold.Steps {
		v := x
		if s.Map != nil {
			v = l.scalar(s.Map, n, x, accs)
		}
		accs = append(accs, l.phase(basicFolds[s.By], v, s.Name))
	}
	l.accs[n] = accs
}

// scalar returns the kernel's expression for a scalar formula of n's fold. x is an element of the row, and results are
// the results of the phases before.
func (l *lowerer) scalar(s *ir.Scalar, n *ir.Node, x *kernel.Expr, results []*kernel.Expr) *kernel.Expr {
	t := kernel.AccType(n.Arg(0).DType())
	leaf := func(s *ir.Scalar, _ []*kernel.Expr) *kernel.Expr {
		switch s.Leaf {
		case ir.LeafElement:
			return x
		case ir.LeafResult:
			return results[s.Step]
		case ir.LeafMean:
			return l.mean(results[s.Step])
		case ir.LeafFirst:
			return l.first[n]
		case ir.LeafCount:
			return l.countLess(int64(n.Attrs().Int(s.Attr)), t)
		case ir.LeafAttr:
			return l.b.Float(t, n.Attrs().Float(s.Attr))
		case ir.LeafNumber:
			return l.b.Float(t, s.Value)
		}
		panic(fmt.Sprintf("lower: a kernel that folds whole rows has no leaf %d", s.Leaf))
	}
	return ir.EvalScalar(s, leaf, func(s *ir.Scalar, args []*kernel.Expr) *kernel.Expr {
		var out *kernel.Expr
		switch {
		case s.Test:
			out = l.op(s.Op, ir.Bool, args...)
		case s.Op == ir.OpWhere:
			out = l.where(args[0], args[1], args[2], t)
		default:
			out = l.op(s.Op, t, args...)
		}
		if s.Name != "" {
			out.Hint = s.Name
		}
		return out
	})
}

// mean divides a sum by the length of the row.
func (l *lowerer) mean(sum *kernel.Expr) *kernel.Expr {
	if l.k.Fold.IsStatic() && l.k.Fold.Add > 0 {
		return l.op(ir.OpMul, sum.DType, sum, l.b.Float(sum.DType, 1/float64(l.k.Fold.Add)))
	}
	count := l.b.Cast(sum.DType, l.b.FromIndex(kernel.DimIndex(l.k.Fold)))
	return l.op(ir.OpDiv, sum.DType, sum, count)
}

// rowStart returns the coordinates of the row's first element.
func (l *lowerer) rowStart() []kernel.Index {
	at := slices.Clone(l.at)
	for i := range at {
		if at[i].Uses(l.k.FoldAxis()) {
			at[i] = kernel.Const(0)
		}
	}
	return at
}

// coreResult returns the element at coordinates at of one of this cluster's cores.
func (l *lowerer) coreResult(n *ir.Node, at []kernel.Index) *kernel.Expr {
	accs, ok := l.accs[n]
	bailout.Unless(ok, "%s is needed before its own loop has run", n.Op())
	if isWindowRow(n) {
		requireSame(at, l.at)
		if isPool(n) {
			return l.pooled(n, accs[0])
		}
		return accs[0]
	}
	if n.Op().Class() == ir.ClassReduce {
		requireSame(at, spread(n.Shape(), l.kept, l.k.Parallel))
		fold := n.Op().Info().Fold
		return l.narrowed(n.DType(), fold.Steps[0].By, l.scalar(fold.Finish, n, nil, accs))
	}
	if n.Op().Class() == ir.ClassRow {
		return l.normalized(n, accs, at)
	}
	requireSame(at, l.at)
	if isMatMul(n) || n.Op().Class() == ir.ClassAttention || isConv(n) ||
		isRecurrence(n) {
		return accs[0]
	}
	if by := n.Op().Info().Running; by != 0 {
		return l.narrowed(n.DType(), by, accs[0])
	}
	bailout.Unless(isOrder(n), "%s has no result of a loop", n.Op())
	return l.b.Cast(n.DType(), accs[0])
}

// narrowed converts the result of a fold to its dtype. Narrow dtypes are folded in wide ones. The maximum or minimum of
// no elements is then the smallest or largest value of the wide dtype, which narrowed clamps.
func (l exprs) narrowed(t ir.DType, by ir.Op, acc *kernel.Expr) *kernel.Expr {
	lo, hi := ir.IntRange(t)
	wideLo, wideHi := ir.IntRange(acc.DType)
	switch {
	case t == ir.Bool:
		return l.is(ir.OpNe, acc, l.b.Integer(acc.DType, 0))
	case by == ir.OpReduceMax && t.IsInteger() && lo != wideLo:
		acc = l.op(ir.OpMax, acc.DType, acc, l.b.Integer(acc.DType, lo))
	case by == ir.OpReduceMin && t.IsInteger() && hi != wideHi:
		acc = l.op(ir.OpMin, acc.DType, acc, l.b.Integer(acc.DType, hi))
	}
	return l.b.Cast(t, acc)
}

// countLess returns the number of elements of a row minus some, but at least 0.
func (l *lowerer) countLess(some int64, t ir.DType) *kernel.Expr {
	if l.k.Fold.IsStatic() {
		return l.b.Float(t, float64(max(l.k.Fold.Add-some, 0)))
	}
	count := l.b.FromIndex(kernel.DimIndex(l.k.Fold).Minus(kernel.Const(some)))
	return l.b.Cast(t, l.i32(ir.OpMax, count, l.b.Integer(ir.I32, 0)))
}

// normalized returns the element at coordinates at of row op n, such as softmax, from the results of its phases. The
// element must be in the current row.
func (l *lowerer) normalized(n *ir.Node, accs []*kernel.Expr, at []kernel.Index) *kernel.Expr {
	inRow := slices.EqualFunc(at, l.at, func(x, here kernel.Index) bool {
		return x.Equal(here) || here.Uses(l.k.FoldAxis())
	})
	if !inRow {
		bailout.Check(errNotIdentity)
	}
	x := l.value(n.Arg(0), at)
	out := l.scalar(n.Op().Info().Fold.Finish, n, x, accs)
	for i, p := range n.Args()[1:] { // the weight and bias of a norm, along the innermost axis
		op := []ir.Op{ir.OpMul, ir.OpAdd}[i]
		out = l.op(op, out.DType, out, l.value(p, at[len(at)-1:]))
	}
	return out
}
