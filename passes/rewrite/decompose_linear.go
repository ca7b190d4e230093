package rewrite

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// linearAlgebra replaces an op of linear algebra by the custom ops of linear_ops.go. If a matrix is too large for one
// of them, Cholesky and triangular solve work block by block. It reshapes the arguments to [matrices, rows, columns].
func (r *rewriter) linearAlgebra(n *ir.Node, args []*ir.Node) *ir.Node {
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
			const lower, transpose = true, false
			below = r.swapAxes(r.solveBlock(corner, below, lower, transpose), 1, 2)
			column = r.concat(1, corner, below)
			rest = r.binary(ir.OpSub, r.block(rest, size, left-size, size, left-size),
				r.binary(ir.OpMatMul, below, below, attr("transpose_b", true)))
		}
		// Zeros above the block of the diagonal.
		columns = append(columns, r.unary(ir.OpPad, column, attr("low", []int64{0, done, 0}),
			attr("high", []int64{0, 0, 0})))
	}
	// A block that is not positive definite makes all later ones NaN, and the first ones must be NaN as well.
	last := corner.Shape()[1].Add - 1
	bad := r.unary(ir.OpIsNaN, r.block(corner, last, 1, last, 1))
	lower := r.binary(ir.OpGe, r.iota(shape[1:], 0), r.iota(shape[1:], 1))
	return r.where(r.binary(ir.OpAnd, bad, lower), r.scalar(a.DType(), math.NaN()), r.concat(2, columns...))
}

// solveBlock solves a triangular system of at most as many rows as a block. lower says which triangle of a it reads,
// and transpose that it solves aᵀ x = b.
func (r *rewriter) solveBlock(a, b *ir.Node, lower, transpose bool) *ir.Node {
	return r.binary(realsOf(a.DType()).triangularSolve, a, b, attr("lower", lower), attr("transposed", transpose))
}

// triangularSolve returns x with a x = b, or aᵀ x = b if transpose is set. It uses the lower or the upper triangle of
// a. It solves block by block: one kernel solves a block of rows, and a matmul subtracts these rows times their
// coefficients in a from the remaining rows of b. A lower triangle is solved from the first row on, and an upper one
// from the last row on. Transposing exchanges the two.
func (r *rewriter) triangularSolve(a, b *ir.Node, lower, transpose bool) *ir.Node {
	// size is the largest number of rows that one kernel solves. n is an extent, a constant: triangular_solve refuses
	// symbols (see ir.Dim).
	size, n := realsOf(a.DType()).block, a.Shape()[1].Add
	if n <= size {
		return r.solveBlock(a, b, lower, transpose)
	}
	var solved []*ir.Node
	forward := lower != transpose
	for done := int64(0); done < n; done += size {
		rows := min(size, n-done)
		left := n - done - rows
		blockInA, leftInA := done, done+rows // first rows of the block, and of the rows left
		blockInB, leftInB := int64(0), rows  // the same in b, which has only the rows that are not solved
		if !forward {
			blockInA, leftInA, blockInB, leftInB = left, 0, left, 0
		}
		x := r.solveBlock(r.block(a, blockInA, rows, blockInA, rows), r.sliceAxis(b, 1, blockInB, blockInB+rows),
			lower, transpose)
		solved = append(solved, x)
		if left == 0 {
			break
		}
		factors := r.block(a, leftInA, left, blockInA, rows)
		if transpose {
			factors = r.block(a, blockInA, rows, leftInA, left)
		}
		b = r.binary(ir.OpSub, r.sliceAxis(b, 1, leftInB, leftInB+left),
			r.binary(ir.OpMatMul, factors, x, attr("transpose_a", transpose)))
	}
	if !forward {
		slices.Reverse(solved)
	}
	return r.concat(1, solved...)
}
