package optest

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// linear adds the cases of Fourier transforms and linear algebra.
func (s *suite) linear() {
	s.transforms()
	s.factors()
}

// spread returns a tensor [..., n, n] of random elements up to about 1.5*offDiagonal. It adds step*i+first to element i
// of the diagonal.
func (b *builder) spread(t ir.DType, dims []int, l layout, first, step, offDiagonal float64) *ir.Node {
	matrix := ir.ShapeOf(dims[len(dims)-2:]...)
	count := func(axis int64) *ir.Node {
		return b.op(ir.OpIota, nil, attr("dtype", t), attr("shape", matrix), attr("axis", axis))
	}
	row := count(0)
	diagonal := b.op(ir.OpWhere, []*ir.Node{b.op(ir.OpEq, []*ir.Node{row, count(1)}),
		b.view(ir.OpAffine, row, attr("mul", step), attr("add", first)),
		b.view(ir.OpAffine, row, attr("mul", 0.0), attr("add", 0.0))})
	x := b.view(ir.OpAffine, b.arg(t, dims, l, small), attr("mul", offDiagonal), attr("add", 0.0))
	return b.op(ir.OpAdd, []*ir.Node{x, diagonal})
}

// factors adds the ops of linear algebra, on matrices that are far from singular: smaller and larger ones than a kernel
// factors in shared memory. The diagonal dominates, so that rounding changes results little.
func (s *suite) factors() {
	for _, dims := range [][]int{{1, 1}, {2, 2}, {3, 7, 7}, {0, 3, 3}, {2, 3, 4, 4}, {2, 40, 40}, {65, 65},
		{150, 150}} {
		n := dims[len(dims)-1]
		for l := plain; l < layouts; l++ {
			if l != plain && n != 7 {
				continue
			}
			name := label(dims, l, small)
			s.add(ir.OpCholesky, name, func(b *builder, t ir.DType) *ir.Node {
				return b.view(ir.OpCholesky, b.spread(t, dims, l, 3, 0, 1.5/float64(n)))
			}).allDTypesIf(n == 7 && l == plain)
			s.add(ir.OpQR, name, func(b *builder, t ir.DType) *ir.Node {
				return b.view(ir.OpQR, b.spread(t, dims, l, 3, 0, 1.5/float64(n)))
			}).allDTypesIf(n == 7 && l == plain)
			s.add(ir.OpEigH, name, func(b *builder, t ir.DType) *ir.Node {
				return b.view(ir.OpEigH, b.spread(t, dims, l, -2, 1, 0.3))
			}).allDTypesIf(n == 7 && l == plain)
			for mode := range 4 {
				lower, transpose := mode&1 == 0, mode&2 != 0 // each of the four combinations
				s.add(ir.OpTriangularSolve, fmt.Sprintf("%s/lower %v, transpose %v", name, lower, transpose),
					func(b *builder, t ir.DType) *ir.Node {
						a := b.spread(t, dims, l, 3, 0, 1.5/float64(n))
						columns := []int{1, 3, 70}[len(dims)%3] // different ones for different ranks
						right := append(append([]int{}, dims[:len(dims)-1]...), columns)
						return b.op(ir.OpTriangularSolve, []*ir.Node{a, b.arg(t, right, l, small)},
							attr("lower", lower), attr("transpose", transpose))
					}).allDTypesIf(n == 7 && l == plain && mode == 2)
			}
		}
	}
	s.unary(ir.OpQR, "", []int{2, 33, 5}, plain, small)
	s.unary(ir.OpQR, "", []int{300, 3}, plain, wide)
	for _, n := range []int{5, 100} { // not positive definite, in the last row
		s.add(ir.OpCholesky, fmt.Sprintf("not positive definite/%dx%d", n, n), func(b *builder, t ir.DType) *ir.Node {
			return b.view(ir.OpCholesky, b.spread(t, []int{2, n, n}, plain, float64(n)-1.5, -1, 0.1/float64(n)))
		})
	}
}

// transforms adds Fourier transforms: by one matmul, by several, and by a convolution, of any numbers of elements.
func (s *suite) transforms() {
	for _, dims := range [][]int{{1}, {2}, {3, 8}, {2, 3, 30}, {0, 5}, {2, 127}, {130}, {2, 1024}, {3, 343}, {262},
		{2, 397}} {
		// The last axis has real and imaginary parts.
		pairs := append(append([]int{}, dims...), 2)
		n := dims[len(dims)-1]
		for _, inverse := range []bool{false, true} {
			name := "forward"
			if inverse {
				name = "inverse"
			}
			s.unary(ir.OpFFT, name, pairs, plain, small, attr("inverse", inverse)).allDTypesIf(n == 30)
		}
		s.unary(ir.OpRFFT, "", dims, plain, small).allDTypesIf(n == 30)
		half := append(append([]int{}, dims[:len(dims)-1]...), n/2+1, 2)
		s.unary(ir.OpIRFFT, fmt.Sprintf("n %d", n), half, plain, small, attr("n", int64(n))).allDTypesIf(n == 30)
	}
	for l := transposed; l < layouts; l++ {
		s.unary(ir.OpFFT, "", []int{3, 12, 2}, l, small)
		s.unary(ir.OpRFFT, "", []int{3, 12}, l, small)
		s.unary(ir.OpIRFFT, "n 12", []int{3, 7, 2}, l, small, attr("n", int64(12)))
	}
}
