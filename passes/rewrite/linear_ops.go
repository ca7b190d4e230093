package rewrite

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/linalg"
	"github.com/vkc-go/vkc/ir"
)

// The kernels of linear algebra. A workgroup factors one matrix: in shared memory if it is a block of a larger one, or
// else in memory. No kernel family has such loops, so they are custom ops with a Go reference.

// reals has the kernels for a dtype of real numbers.
type reals struct {
	cholesky, triangularSolve, qr, eigH ir.Op
	block                               int64 // rows of the largest matrix in shared memory
}

var (
	singles = newReals(realType{ir.F32, "float", 64, "3.402823e38", "uintBitsToFloat(0x7fc00000u)", "1e-13"})
	doubles = newReals(realType{ir.F64, "double", 32, "1.797693134862315e308lf",
		"packDouble2x32(uvec2(0u, 0x7ff80000u))", "1e-30"})
)

// realsOf returns the kernels for f32 or f64.
func realsOf(t ir.DType) reals {
	if t == ir.F64 {
		return doubles
	}
	return singles
}

// realType is a dtype of real numbers, and its part of the kernels' GLSL.
type realType struct {
	ir.DType
	glsl string
	// block is the number of rows of a block of a matrix. In 16 KiB of shared memory, which every device has, there is
	// room for a block of matrix or for a block of rows for each of 64 invocations.
	block               int64
	largest, nan, small string // the largest number, NaN, and the relative sum of squares that counts as zero
}

// newReals registers the custom ops for a real dtype: the kernels of linear algebra for matrices, or blocks of
// matrices, of at most t.block rows.
func newReals(t realType) reals {
	r, size := reals{block: t.block}, t.BlockBytes()
	x := []ir.ArgInfo{{Name: "x"}}
	aMatrix := [3][]ir.GridRule{{{Of: "y", Axis: 0, Tile: 1}}} // a workgroup for each matrix
	r.cholesky = t.register(matrixKernel{
		name: "cholesky", doc: "Lower triangular factors of positive definite matrices, in shared memory.", args: x,
		kernel: ir.CustomKernel{
			Outputs: []string{"y"}, Workgroup: [3]int{128}, Grid: aMatrix,
			Shared: "shared REAL tile[BLOCK * BLOCK];", SharedBytes: size * int(t.block*t.block),
			Body: kernelSource("cholesky"),
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, _ ir.Attrs) {
			linalg.Cholesky(out, values[0], args[0].Dims[1])
		},
	})
	r.triangularSolve = t.register(matrixKernel{
		name: "triangular_solve", doc: "Solutions of triangular systems. Each invocation solves for a column.",
		args:  []ir.ArgInfo{{Name: "a"}, {Name: "b"}},
		attrs: []ir.AttrInfo{{Name: "lower", Kind: ir.AttrBool}, {Name: "transposed", Kind: ir.AttrBool}},
		kernel: ir.CustomKernel{
			Outputs: []string{"y"}, Workgroup: [3]int{64},
			Grid:   [3][]ir.GridRule{{{Of: "y", Axis: 0, Tile: 1}}, {{Of: "y", Axis: 2, Tile: 64}}},
			Shared: "shared REAL done[BLOCK * 64u];", SharedBytes: size * int(t.block) * 64,
			Body: kernelSource("triangular_solve"),
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, a ir.Attrs) {
			linalg.SolveTriangular(out, values[0], values[1], args[1].Dims[1], args[1].Dims[2], a.Bool("lower"),
				a.Bool("transposed"))
		},
	})
	r.qr, r.eigH = t.registerQR(aMatrix), t.registerEigH(aMatrix)
	return r
}

// registerQR registers the custom op of a QR decomposition. grid has a workgroup for each matrix.
func (t realType) registerQR(grid [3][]ir.GridRule) ir.Op {
	return t.register(matrixKernel{
		name: "qr", doc: "Orthonormal columns by Householder reflections (Golub and Van Loan, 5.2.2).",
		args: []ir.ArgInfo{{Name: "x"}},
		kernel: ir.CustomKernel{
			Outputs: []string{"y"}, Zeroed: []string{"y"}, Workgroup: [3]int{128}, Grid: grid,
			Shared: sharedSums + "\nshared REAL taus[1024];", SharedBytes: t.BlockBytes() * (128 + 1024),
			Body: strings.ReplaceAll(kernelSource("qr"), "REFLECT", kernelSource("qr_reflect")),
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, _ ir.Attrs) {
			m, n := args[0].Dims[1], args[0].Dims[2]
			linalg.QR(out, values[0], make([]float64, 2*n), m, n)
		},
	})
}

// registerEigH registers the custom op that computes eigenvectors. grid has a workgroup for each matrix.
func (t realType) registerEigH(grid [3][]ir.GridRule) ir.Op {
	return t.register(matrixKernel{
		name: "eigh", doc: "Eigenvectors by Jacobi rotations, half as many at a time as there are rows " +
			"(Brent and Luk 1985).", args: []ir.ArgInfo{{Name: "x"}},
		kernel: ir.CustomKernel{
			Outputs: []string{"y", "room"}, Zeroed: []string{"y", "room"}, Workgroup: [3]int{128}, Grid: grid,
			Shared: sharedSums + "\n" + kernelSource("eigh_shared"), SharedBytes: t.BlockBytes()*(128+1024) + 4*1024,
			Body: kernelSource("eigh"),
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, _ ir.Attrs) {
			linalg.EigH(out, values[0], args[0].Dims[1])
		},
	})
}

// matrixKernel is a kernel of linear algebra for any dtype: register replaces the words in capital letters in its GLSL.
type matrixKernel struct {
	name, doc string
	args      []ir.ArgInfo // matrices [matrices, rows, columns]; the last has the extents of the results
	attrs     []ir.AttrInfo
	kernel    ir.CustomKernel
	compute   matrixFunc
}

// matrixFunc is the Go reference of a kernel for one matrix of each argument. values has their elements, and args the
// arguments themselves.
type matrixFunc func(args []*ir.Data, values [][]float64, out []float64, a ir.Attrs)

// register registers a kernel for the dtype as a custom op.
func (t realType) register(m matrixKernel) ir.Op {
	source := strings.NewReplacer("REAL", t.glsl, "BLOCK", fmt.Sprintf("%du", t.block), "LARGEST", t.largest,
		"NAN", t.nan, "SMALL", t.small)
	k := m.kernel
	k.Body, k.Shared = source.Replace(k.Body), source.Replace(k.Shared)
	// The result has the shape of the last argument: of x, or of b.
	last := len(m.args) - 1
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc." + m.name + "_" + t.String(), Doc: m.doc, Args: m.args, Attrs: m.attrs, Kernel: &k,
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			for i := range c.Args {
				if c.DType(i) != t.DType || len(c.Shape(i)) != 3 {
					return nil, fmt.Errorf("want matrices [matrices, rows, columns] of %s", t)
				}
			}
			// A second result is scratch memory of the kernel, which nothing reads.
			return slices.Repeat([]ir.Type{{DType: t.DType, Shape: c.Shape(last)}}, len(k.Outputs)), nil
		},
		Reference: reference(func(args []*ir.Data, a ir.Attrs) []*ir.Data {
			d := eachMatrix(args, args[last].Dims, a, m.compute)
			return slices.Repeat([]*ir.Data{d}, len(k.Outputs))
		}),
	})
}

// eachMatrix computes the Go reference of a kernel: it calls f for each matrix of the arguments. The result has the
// given extents, [matrices, rows, columns].
func eachMatrix(args []*ir.Data, dims []int, a ir.Attrs, f matrixFunc) *ir.Data {
	count, size := dims[0], dims[1]*dims[2]
	all, out := make([][]float64, len(args)), make([]float64, count*size)
	for i, d := range args {
		all[i] = floats(d)
	}
	for i := range count {
		values := make([][]float64, len(args))
		for j, x := range all {
			// Every argument has count matrices: this is matrix i of argument j.
			values[j] = x[i*len(x)/count : (i+1)*len(x)/count]
		}
		f(args, values, out[i*size:(i+1)*size], a)
	}
	return ofFloats(args[0].DType, out, dims...)
}

// sharedSums is GLSL for one value of each invocation in shared memory, which the kernels below add up.
const sharedSums = "shared REAL sums[128];"

// linearAlgebra replaces an op of linear algebra by the custom ops of [newReals]. If a matrix is too large for one
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
