package interp

import "github.com/vkc-go/vkc/internal/linalg"

// cholesky computes, for each symmetric positive definite matrix [n, n], the lower triangular factor [n, n].
func cholesky(c *call) (value, error) {
	n := c.dims[len(c.dims)-1]
	return c.eachMatrix(n*n*n/6, func(args [][]float64, out []float64) { linalg.Cholesky(out, args[0], n) })
}

// triangularSolve solves a triangular system [n, n] for each matrix of right-hand sides [n, k].
func triangularSolve(c *call) (value, error) {
	last := len(c.dims) - 1
	n, k := c.dims[last-1], c.dims[last]
	lower, transpose := c.attrs().Bool("lower"), c.attrs().Bool("transpose")
	return c.eachMatrix(n*n*k/2, func(args [][]float64, out []float64) {
		linalg.SolveTriangular(out, args[0], args[1], n, k, lower, transpose)
	})
}

// qr computes, for each matrix [m, n], orthonormal columns [m, n] that span its columns.
func qr(c *call) (value, error) {
	last := len(c.dims) - 1
	m, n := c.dims[last-1], c.dims[last]
	return c.eachMatrix(2*m*n*n, func(args [][]float64, out []float64) {
		linalg.QR(out, args[0], make([]float64, 2*n), m, n) // with 2*n floats of scratch memory
	})
}

// eigH computes the eigenvectors of each symmetric matrix [n, n].
func eigH(c *call) (value, error) {
	n := c.dims[len(c.dims)-1]
	return c.eachMatrix(8*n*n*n, func(args [][]float64, out []float64) { linalg.EigH(out, args[0], n) })
}

// eachMatrix calls f for each matrix of the result, the two innermost axes, with the matrices of the arguments at the
// same outer coordinates. work is the cost of a call in multiply-adds.
func (c *call) eachMatrix(work int, f func(args [][]float64, out []float64)) (value, error) {
	out := make([]float64, elems(c.dims))
	if len(out) == 0 {
		return c.floats(out), nil
	}
	count := elems(c.dims[:len(c.dims)-2])
	list := make([][]float64, len(c.args))
	for i, a := range c.args {
		list[i] = a.floats()
	}
	// Matrix i of the list x of count matrices.
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
