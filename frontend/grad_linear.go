package frontend

import "github.com/vkc-go/vkc/ir"

// A Fourier transform is linear, so the gradient of its operand is the transposed map of the gradient: the transform
// that turns the other way, without or with the division by n.

// fftGrad is the gradient of fft.
func fftGrad(c GradCall) Tensor {
	n := float64(c.Args[0].Dim(-2).Static())
	if c.Attrs.Bool("inverse") {
		return c.Grad.wide().unary(ir.OpFFT).DivScalar(n)
	}
	return c.Grad.wide().unary(ir.OpFFT, attr("inverse", true)).MulScalar(n)
}

// rfftGrad is the gradient of rfft: the real part of the transform of all frequencies. Those that rfft leaves out have
// no gradient.
func rfftGrad(c GradCall) Tensor {
	n, g := c.Args[0].Dim(-1).Static(), c.Grad.wide()
	low, high := make([]int, g.Rank()), make([]int, g.Rank())
	high[g.Rank()-2] = n - g.Dim(-2).Static()
	return g.Pad(low, high, 0).unary(ir.OpFFT, attr("inverse", true)).Index(-1, 0).MulScalar(float64(n))
}

// irfftGrad is the gradient of irfft. A frequency counts twice, for itself and for its conjugate, except the first one
// and the middle one.
func irfftGrad(c GradCall) Tensor {
	n, bins := c.Attrs.Int("n"), c.Args[0].Dim(-2).Static()
	weights := make([]float64, bins)
	for k := range weights {
		if weights[k] = 2; k == 0 || 2*k == n {
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

// init adds the gradient rules of Fourier transforms.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpFFT:   first(fftGrad),
		ir.OpRFFT:  first(rfftGrad),
		ir.OpIRFFT: first(irfftGrad),
	})
}
