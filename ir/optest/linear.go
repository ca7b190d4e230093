package optest

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// linear adds the cases of Fourier transforms and linear algebra.
func (s *suite) linear() {
	s.transforms()
}

// transforms adds Fourier transforms: by one matmul, by several, and by a convolution, of any numbers of elements.
func (s *suite) transforms() {
	for _, dims := range [][]int{{1}, {2}, {3, 8}, {2, 3, 30}, {0, 5}, {2, 127}, {130}, {2, 1024}, {3, 343}, {262},
		{2, 397}} {
		pairs := append(append([]int{}, dims...), 2)
		n := dims[len(dims)-1]
		for _, inverse := range []bool{false, true} {
			name := "forward"
			if inverse {
				name = "inverse"
			}
			s.unary(ir.OpFFT, name, pairs, plain, small, attr("inverse", inverse)).everyIf(n == 30)
		}
		s.unary(ir.OpRFFT, "", dims, plain, small).everyIf(n == 30)
		half := append(append([]int{}, dims[:len(dims)-1]...), n/2+1, 2)
		s.unary(ir.OpIRFFT, fmt.Sprintf("n %d", n), half, plain, small, attr("n", int64(n))).everyIf(n == 30)
	}
	for l := transposed; l < layouts; l++ {
		s.unary(ir.OpFFT, "", []int{3, 12, 2}, l, small)
		s.unary(ir.OpRFFT, "", []int{3, 12}, l, small)
		s.unary(ir.OpIRFFT, "n 12", []int{3, 7, 2}, l, small, attr("n", int64(12)))
	}
}
