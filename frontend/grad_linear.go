package frontend

import "github.com/vkc-go/vkc/ir"

// A Fourier transform is linear, so the gradient of its operand is the transposed transform of the result's gradient.
// For a forward transform, that is the inverse transform times n. For an inverse, it is the forward transform divided
// by n.

// fftGrad returns the gradient of fft.
func fftGrad(c GradCall) Tensor {
	n := float64(c.Args[0].Dim(-2).Static())
	if c.Attrs.Bool("inverse") {
		return c.Grad.wide().unary(ir.OpFFT).DivScalar(n)
	}
	return c.Grad.wide().unary(ir.OpFFT, attr("inverse", true)).MulScalar(n)
}

// rfftGrad returns the gradient of rfft: the real part of fftGrad of all frequencies, with 0 as the gradient of
// frequencies that rfft leaves out.
func rfftGrad(c GradCall) Tensor {
	n, g := c.Args[0].Dim(-1).Static(), c.Grad.wide()
	low, high := make([]int, g.Rank()), make([]int, g.Rank())
	high[g.Rank()-2] = n - g.Dim(-2).Static()
	return g.Pad(low, high, 0).unary(ir.OpFFT, attr("inverse", true)).Index(-1, 0).MulScalar(float64(n))
}

// irfftGrad returns the gradient of irfft. A frequency counts twice, for itself and for its conjugate, except the first
// one and the middle one.
func irfftGrad(c GradCall) Tensor {
	n, bins := c.Attrs.Int("n"), c.Args[0].Dim(-2).Static()
	weights := make([]float64, bins)
	for k := range weights {
		weights[k] = 2
		if middle := 2*k == n; k == 0 || middle {
			weights[k] = 1
		}
		weights[k] /= float64(n)
	}
	g := c.Grad.wide().unary(ir.OpRFFT)
	d, err := ir.FromFloats(g.DType(), weights, bins, 1)
	if err != nil {
		fail("grad", err, g)
	}
	return g.Mul(g.b.Const(d))
}

// symmetric returns the gradient of the lower triangle of a symmetric matrix, from the gradient s of both triangles: an
// element below the diagonal counts for its mirror image too.
func symmetric(s Tensor) Tensor { return s.Tril(0).Add(s.Triu(1).T()) }

// mirrored copies the lower triangle to the upper one.
func (t Tensor) mirrored() Tensor { return t.Tril(0).Add(t.Tril(-1).T()) }

// choleskyGrad returns the gradient of cholesky (Murray 2016, "Differentiation of the Cholesky decomposition", equation
// 10): l^-T p l^-1, where p is the lower triangle of l^T g with half of its diagonal.
func choleskyGrad(c GradCall) Tensor {
	l, g := c.Result.wide(), c.Grad.wide().Tril(0)
	p := l.T().MatMul(g)
	p = p.Tril(0).Add(p.Tril(-1)).MulScalar(0.5)
	p = l.TriangularSolve(p, Transposed())
	return symmetric(l.TriangularSolve(p.T(), Transposed()).T())
}

// solveGrad returns the gradient of triangular_solve, x = a^-1 b (Giles 2008, "Collected matrix derivative results for
// forward and reverse mode algorithmic differentiation", 2.3.1). For b it is h = a^-T g. For a it is the triangle of -h
// x^T.
func solveGrad(c GradCall, i int) Tensor {
	a, x, g := c.Args[0].wide(), c.Result.wide(), c.Grad.wide()
	lower, transpose := c.Attrs.Bool("lower"), c.Attrs.Bool("transpose")
	h := a.apply(ir.OpTriangularSolve, []Tensor{g}, attr("lower", lower), attr("transpose", !transpose))
	if i == 1 {
		return h
	}
	if transpose {
		// The op solved with a^T, so the gradient of a is the transpose, -x h^T.
		h, x = x, h
	}
	d := h.MatMulT(x).Neg()
	if lower {
		return d.Tril(0)
	}
	return d.Triu(0)
}

// qrGrad returns the gradient of qr (Walter, Lehmann and Lamour 2012, "On evaluating higher-order derivatives of the QR
// decomposition of tall matrices with full column rank in forward and reverse mode algorithmic differentiation"): (g +
// q m) r^-T, where m is symmetric with the lower triangle of -g^T q.
func qrGrad(c GradCall) Tensor {
	q, g := c.Result.wide(), c.Grad.wide()
	r := q.T().MatMul(c.Args[0].wide()).Triu(0)
	m := g.T().MatMul(q).Neg().mirrored()
	return r.TriangularSolve(g.Add(q.MatMul(m)).T(), Upper()).T()
}

// eigHGrad returns the gradient of eigh (Giles 2008, 3.1): v (f * (v^T g)) v^T. f has the reciprocals of the
// differences of eigenvalues, and 0 for equal eigenvalues.
func eigHGrad(c GradCall) Tensor {
	v, g, x := c.Result.wide(), c.Grad.wide(), c.Args[0].wide()
	values := x.mirrored().MatMul(v).Mul(v).Sum(-2) // the eigenvalues: the diagonal of v^T x v
	difference := values.Unsqueeze(-2).Sub(values.Unsqueeze(-1))
	same := difference.Eq(difference.Lit(0))
	f := same.Where(difference.Lit(0), same.Where(difference.Lit(1), difference).Recip())
	return symmetric(v.MatMul(f.Mul(v.T().MatMul(g))).MatMulT(v))
}

// init adds the gradient rules of Fourier transforms and linear algebra.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpCholesky:        first(choleskyGrad),
		ir.OpTriangularSolve: each(solveGrad),
		ir.OpQR:              first(qrGrad),
		ir.OpEigH:            first(eigHGrad),
		ir.OpFFT:             first(fftGrad),
		ir.OpRFFT:            first(rfftGrad),
		ir.OpIRFFT:           first(irfftGrad),
	})
}
