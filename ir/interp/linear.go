package interp

import "github.com/vkc-go/vkc/internal/linalg"

// cholesky factors positive definite matrices.
func cholesky(c *call) (value, error) {
	n := c.dims[len(c.dims)-1]
	return c.matrices(n*n*n/6, func(args [][]float64, out []float64) { linalg.Cholesky(out, args[0], n) })
}

// triangularSolve solves triangular systems.
func triangularSolve(c *call) (value, error) {
	last := len(c.dims) - 1
	n, k := c.dims[last-1], c.dims[last]
	lower, transpose := c.attrs().Bool("lower"), c.attrs().Bool("transpose")
	return c.matrices(n*n*k/2, func(args [][]float64, out []float64) {
		linalg.SolveTriangular(out, args[0], args[1], n, k, lower, transpose)
	})
}

// qr computes orthonormal columns.
func qr(c *call) (value, error) {
	last := len(c.dims) - 1
	m, n := c.dims[last-1], c.dims[last]
	return c.matrices(2*m*n*n, func(args [][]float64, out []float64) {
		linalg.QR(out, args[0], make([]float64, 2*n), m, n)
	})
}

// eigH computes eigenvectors.
func eigH(c *call) (value, error) {
	n := c.dims[len(c.dims)-1]
	return c.matrices(8*n*n*n, func(args [][]float64, out []float64) { linalg.EigH(out, args[0], n) })
}

// matrices calls f for each matrix of the arguments' and the result's two innermost axes. work is the cost of a call in
// multiply-adds.
func (c *call) matrices(work int, f func(args [][]float64, out []float64)) (value, error) {
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	count := elems(c.dims[:len(c.dims)-2])
	list := make([][]float64, len(c.args))
	for i, a := range c.args {
		list[i] = a.floats()
	}
	part := func(x []float64, i int) []float64 { return x[i*len(x)/count : (i+1)*len(x)/count] }
	err := c.parallelRange(count, work, func(lo, hi int) {
		args := make([][]float64, len(list))
		for i := lo; i < hi; i++ {
			for j, x := range list {
				args[j] = part(x, i)
			}
			f(args, part(out, i))
		}
	})
	return c.floats(out), err
}
