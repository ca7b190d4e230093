package lower

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// lowerMatMul makes the kernel of a matmul, convolution or expert matmul. A matmul's parallel axes are the result's
// batch axes, row and column.
func (l *lowerer) lowerMatMul() {
	l.k.Family = kernel.FamilyMatMul
	switch n := l.c.Cores[0]; {
	case isConv(n):
		l.requireOneCore(n)
		l.lowerConv(n)
		return
	case n.Op() == ir.OpMatMulID:
		l.lowerMatMulID()
		return
	}
	l.space = l.c.Cores[0].Shape()
	l.at = l.parallel(l.space)
	for i, n := range l.c.Cores {
		a, b := n.Arg(0), n.Arg(1)
		transposeA, transposeB := n.Attrs().Bool("transpose_a"), n.Attrs().Bool("transpose_b")
		l.k.Fold = contraction(n)
		fold := kernel.Axis(l.k.FoldAxis(), l.k.Fold)
		inner := len(l.space) - 2
		batch, row, col := l.at[:inner], l.at[inner], l.at[inner+1]
		l.addMatMul(n, l.value(a, operandCoords(a.Shape(), batch, row, fold, transposeA)),
			l.value(b, operandCoords(b.Shape(), batch, fold, col, transposeB)), i)
	}
	l.storeResults(perPoint)
}

// contraction returns the extent of the axis along which a matmul sums.
func contraction(n *ir.Node) ir.Dim {
	a := n.Arg(0).Shape()
	if n.Attrs().Bool("transpose_a") {
		return a[len(a)-2]
	}
	return a[len(a)-1]
}

// addMatMul adds core n as matmul number i of the kernel: the sum of a*b along the contraction axis.
func (l *lowerer) addMatMul(n *ir.Node, a, b *kernel.Expr, i int) {
	bailout.Unless(!a.UsesAnyAcc() && !b.UsesAnyAcc(), "%s needs the result of the other matmul", n)
	name := "acc"
	if len(l.c.Cores) > 1 {
		name = fmt.Sprintf("acc%d", i)
	}
	precision, f32 := analysis.Precision(n), n.Arg(0).DType() == ir.F32 && n.Arg(1).DType() == ir.F32
	p := kernel.MatMul{A: a, B: b, Name: name, Operands: operandDType(n.Arg(0), n.Arg(1), precision),
		HalfSums: precision == ir.PrecisionHalfSums && n.DType().IsFloat(),
		ByteRows: precision == ir.PrecisionBytes, BF16x3: precision == ir.PrecisionBF16x3 && f32}
	l.k.MatMuls = append(l.k.MatMuls, p)
	l.accs[n] = []*kernel.Expr{l.b.Acc(i, p.Sums(), name)}
}

// operandDType returns the dtype to which a matmul may round its operands:
//
//   - their own dtype if both have the same narrow one, even if they were cast to f32 (f16 for f8, since it has all
//     values of f8);
//   - f16 or bf16 if a has it and b is a quantized weight;
//   - f16 for f32 operands if the precision allows it;
//   - f32 otherwise.
func operandDType(a, b *ir.Node, precision string) ir.DType {
	if narrowA, narrowB := beforeWidening(a), beforeWidening(b); narrowA.DType() == narrowB.DType() {
		a, b = narrowA, narrowB
	}
	switch t := a.DType(); {
	case t != b.DType() && !b.DType().IsBlock():
		return ir.F32
	case t == ir.F32 && ir.AllowsHalf(precision):
		return ir.F16
	case t == ir.F16 || t == ir.BF16 || t == ir.I8 || t == ir.U8:
		return t
	case (t == ir.F8E4M3 || t == ir.F8E5M2) && b.DType() == t:
		return ir.F16
	}
	return ir.F32
}

// beforeWidening returns the argument of a cast to f32 that changes no value, or n if it is no such cast.
func beforeWidening(n *ir.Node) *ir.Node {
	if n.Op() == ir.OpCast && n.DType() == ir.F32 && n.Arg(0).DType().IsFloat() && n.Arg(0).DType() != ir.F64 {
		return n.Arg(0)
	}
	return n
}

// storeResults stores the cluster's results, once per point or once per element (see perPoint).
func (l *lowerer) storeResults(rate bool) {
	for _, n := range l.c.Stored {
		l.store(n, l.resultCoords(n), rate)
	}
}

// operandCoords returns the coordinates in an operand of shape s = [batch…, row, col], or [batch…, col, row] if it is
// transposed. Batch axes are broadcast.
func operandCoords(s ir.Shape, batch []kernel.Index, row, col kernel.Index, transposed bool) []kernel.Index {
	if transposed {
		row, col = col, row
	}
	at := broadcastCoords(s[:len(s)-2], batch)
	return append(at, row, col)
}

// resultCoords returns the coordinates at which a stored node has the current point's element. If its shape is not the
// kernel's, the element has the same position in row-major order.
func (l *lowerer) resultCoords(n *ir.Node) []kernel.Index {
	if n.Shape().Equal(l.space) {
		return l.at
	}
	bailout.Unless(n.Shape().SameNumel(l.space), "its shape %s differs in size from the kernel's %s",
		n.Shape(), l.space)
	return reshaped(n.Shape(), l.space, l.at)
}
