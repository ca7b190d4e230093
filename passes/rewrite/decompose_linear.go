package rewrite

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// factored decomposes ops of linear algebra into the kernels of linear_ops.go, and for large matrices into blocks. It
// computes on tensors [matrices, rows, columns].
func (r *rewriter) factored(n *ir.Node, args []*ir.Node) *ir.Node {
	args = r.widened(args)
	for i, a := range args {
		s := a.Shape()
		last := len(s) - 1
		args[i] = r.reshape(a, ir.Shape{r.numel(s[:last-1]), s[last-1], s[last]})
	}
	var y *ir.Node
	switch real := realsOf(args[0].DType()); n.Op() {
	case ir.OpCholesky:
		y = r.cholesky(args[0])
	case ir.OpTriangularSolve:
		y = r.triangularSolve(args[0], args[1], n.Attrs().Bool("lower"), n.Attrs().Bool("transpose"))
	case ir.OpQR:
		y = r.unary(real.qr, args[0])
	default:
		y = r.unary(real.eigH, args[0])
	}
	return r.castTo(r.reshape(y, n.Shape()), n.DType())
}

// block returns the block of the matrices x with the given first row and number of rows, and first column and number of
// columns.
func (r *rewriter) block(x *ir.Node, row, rows, column, columns int64) *ir.Node {
	return r.sliceAxis(r.sliceAxis(x, 1, row, row+rows), 2, column, column+columns)
}

// cholesky factors matrices. One kernel factors a block of the diagonal, another one the rows below it, and a matmul
// subtracts their product from the rest (the right-looking algorithm; Golub and Van Loan, 4.2.6).
func (r *rewriter) cholesky(a *ir.Node) *ir.Node {
	real, n := realsOf(a.DType()), a.Shape()[1].Add
	if n <= real.block {
		return r.unary(real.cholesky, a)
	}
	shape, rest := a.Shape(), a
	var columns []*ir.Node
	var corner *ir.Node
	for done := int64(0); done < n; done += real.block {
		left := n - done
		size := min(left, real.block)
		corner = r.unary(real.cholesky, r.block(rest, 0, size, 0, size))
		column := corner
		if left > size {
			below := r.swapAxes(r.block(rest, size, left-size, 0, size), 1, 2)
			below = r.swapAxes(r.solveBlock(corner, below, true, false), 1, 2)
			column = r.concat(1, corner, below)
			rest = r.binary(ir.OpSub, r.block(rest, size, left-size, size, left-size),
				r.add(ir.OpMatMul, []*ir.Node{below, below}, ir.Attr{Name: "transpose_b", Value: true}))
		}
		columns = append(columns, r.unary(ir.OpPad, column, ir.Attr{Name: "low", Value: []int64{0, done, 0}},
			ir.Attr{Name: "high", Value: []int64{0, 0, 0}}))
	}
	// A block that is not positive definite makes all later ones NaN, and the first ones must be NaN as well.
	last := corner.Shape()[1].Add - 1
	bad := r.unary(ir.OpIsNaN, r.block(corner, last, 1, last, 1))
	lower := r.binary(ir.OpGe, r.iota(shape[1:], 0), r.iota(shape[1:], 1))
	return r.add(ir.OpWhere, []*ir.Node{r.binary(ir.OpAnd, bad, lower), r.scalar(a.DType(), math.NaN()),
		r.concat(2, columns...)})
}

// concat joins tensors along an axis.
func (r *rewriter) concat(axis int, list ...*ir.Node) *ir.Node {
	if len(list) == 1 {
		return list[0]
	}
	return r.add(ir.OpConcat, list, ir.Attr{Name: "axis", Value: axis})
}

// solveBlock solves a triangular system of at most as many rows as a block.
func (r *rewriter) solveBlock(a, b *ir.Node, lower, transpose bool) *ir.Node {
	return r.add(realsOf(a.DType()).triangularSolve, []*ir.Node{a, b}, ir.Attr{Name: "lower", Value: lower},
		ir.Attr{Name: "transposed", Value: transpose})
}

// triangularSolve solves triangular systems. One kernel solves a block of rows, and a matmul subtracts these times
// their factors from the other rows.
func (r *rewriter) triangularSolve(a, b *ir.Node, lower, transpose bool) *ir.Node {
	size, n := realsOf(a.DType()).block, a.Shape()[1].Add
	if n <= size {
		return r.solveBlock(a, b, lower, transpose)
	}
	var solved []*ir.Node
	forward := lower != transpose
	for done := int64(0); done < n; done += size {
		rows := min(size, n-done)
		left := n - done - rows
		at, others, now, later := done, done+rows, int64(0), rows // in a, and in b, which has the rows left
		if !forward {
			at, others, now, later = left, 0, left, 0
		}
		x := r.solveBlock(r.block(a, at, rows, at, rows), r.sliceAxis(b, 1, now, now+rows), lower, transpose)
		solved = append(solved, x)
		if left == 0 {
			break
		}
		factors := []*ir.Node{r.block(a, others, left, at, rows), x}
		if transpose {
			factors[0] = r.block(a, at, rows, others, left)
		}
		b = r.binary(ir.OpSub, r.sliceAxis(b, 1, later, later+left),
			r.add(ir.OpMatMul, factors, ir.Attr{Name: "transpose_a", Value: transpose}))
	}
	if !forward {
		slices.Reverse(solved)
	}
	return r.concat(1, solved...)
}
