package frontend

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Complex numbers are pairs of floats along an innermost axis of 2: the real and the imaginary part.

// FFT returns the discrete Fourier transform of complex numbers along an axis: X[k] = the sum over j of x[j] *
// e^(-2πi*jk/n). n may be any number. The innermost axis has the real and the imaginary parts, so axis -2 is the last
// axis of complex numbers.
func (t Tensor) FFT(axis int) Tensor { return t.transform(axis, attr("inverse", false)) }

// IFFT is the inverse of FFT: x[j] = 1/n * the sum over k of X[k] * e^(2πi*jk/n).
func (t Tensor) IFFT(axis int) Tensor { return t.transform(axis, attr("inverse", true)) }

func (t Tensor) transform(axis int, inverse ir.Attr) Tensor {
	a := t.complexAxis(ir.OpFFT, axis)
	return t.swapped(a, -2).unary(ir.OpFFT, inverse).swapped(a, -2)
}

// RFFT returns the discrete Fourier transform of real numbers along an axis: the first floor(n/2)+1 frequencies, since
// the others are their conjugates. The result has a new innermost axis of the real and the imaginary parts.
func (t Tensor) RFFT(axis int) Tensor {
	a := t.axis(ir.OpRFFT, axis)
	return t.swapped(a, -1).unary(ir.OpRFFT).swapped(a, -2)
}

// IRFFT is the inverse of RFFT: the n real numbers along an axis whose first floor(n/2)+1 frequencies are t. The
// innermost axis, of the real and the imaginary parts, disappears.
func (t Tensor) IRFFT(axis, n int) Tensor {
	a := t.complexAxis(ir.OpIRFFT, axis)
	return t.swapped(a, -2).unary(ir.OpIRFFT, attr("n", n)).swapped(a, -1)
}

// complexAxis returns an axis of complex numbers, counted from 0.
func (t Tensor) complexAxis(op ir.Op, axis int) int {
	a := t.axis(op, axis)
	if a == t.Rank()-1 {
		fail(op.String(), fmt.Errorf("axis %d of %s is innermost, which has the real and the imaginary parts: "+
			"want another one", axis, t), t)
	}
	return a
}

// swapped exchanges axis a and the negative axis b, if they differ.
func (t Tensor) swapped(a, b int) Tensor {
	if a == t.Rank()+b {
		return t
	}
	return t.SwapAxes(a, b)
}
