package frontend

import (
	"errors"
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

// IRFFT returns the n real numbers along an axis with the given Fourier transform, so it inverts RFFT. t has their
// first floor(n/2)+1 frequencies. The innermost axis of t, of the real and the imaginary parts, disappears.
func (t Tensor) IRFFT(axis, n int) Tensor {
	a := t.complexAxis(ir.OpIRFFT, axis)
	return t.swapped(a, -2).unary(ir.OpIRFFT, attr("n", n)).swapped(a, -1)
}

// complexAxis returns an axis of complex numbers, counted from 0.
func (t Tensor) complexAxis(op ir.Op, axis int) int {
	a := t.axis(op, axis)
	if a == t.Rank()-1 {
		fail(op.String(), fmt.Errorf("axis %d of %s is innermost and has the real and the imaginary parts: want "+
			"another axis", axis, t), t)
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

// Cholesky returns the lower triangular l with l l^T = t, for symmetric positive definite matrices t [..., n, n]. It
// reads the lower triangle of t. If a matrix is not positive definite, all of the lower triangle of its l is NaN.
func (t Tensor) Cholesky() Tensor { return t.unary(ir.OpCholesky) }

// TriangularOption sets an option of TriangularSolve.
type TriangularOption func(*[]ir.Attr)

// Upper makes TriangularSolve read the upper triangle.
func Upper() TriangularOption {
	return func(a *[]ir.Attr) { *a = append(*a, attr("lower", false)) }
}

// Transposed makes TriangularSolve solve t^T x = b.
func Transposed() TriangularOption {
	return func(a *[]ir.Attr) { *a = append(*a, attr("transpose", true)) }
}

// TriangularSolve returns the solution x of t x = b for triangular t [..., n, n] and b [..., n, k]. It reads only the
// lower triangle of t, or with Upper the upper one. Outer axes broadcast.
func (t Tensor) TriangularSolve(b Tensor, options ...TriangularOption) Tensor {
	var attrs []ir.Attr
	for _, o := range options {
		o(&attrs)
	}
	t, b = t.sameBatch(ir.OpTriangularSolve, b)
	return t.apply(ir.OpTriangularSolve, []Tensor{b}, attrs...)
}

// sameBatch returns two tensors of matrices with their outer axes, all except the last two, broadcast to one shape. op
// is named in errors.
func (t Tensor) sameBatch(op ir.Op, b Tensor) (x, y Tensor) {
	t.must(op.String())
	b.must(op.String())
	if t.Rank() < 2 || b.Rank() < 2 {
		fail(op.String(), errors.New("want matrices [..., rows, columns]"), t, b)
	}
	outer, err := ir.BroadcastShapes(t.Shape()[:t.Rank()-2], b.Shape()[:b.Rank()-2])
	if err != nil {
		fail(op.String(), err, t, b)
	}
	with := func(x Tensor) Tensor {
		s := append(append(ir.Shape{}, outer...), x.Dim(-2), x.Dim(-1))
		if x.Shape().Equal(s) {
			return x
		}
		return x.Broadcast(s)
	}
	return with(t), with(b)
}

// Solve returns the solution x of t x = b for matrices t [..., n, n] and b [..., n, k]. Outer axes broadcast. It uses
// QR. If t is singular, elements of x are infinite, NaN or very large. For symmetric positive definite matrices,
// CholeskySolve is faster.
func (t Tensor) Solve(b Tensor) Tensor {
	q, r := t.QR()
	return r.TriangularSolve(q.T().MatMul(b), Upper())
}

// CholeskySolve returns the solution x of a x = b, where t is the Cholesky factor of a: x =
// a.Cholesky().CholeskySolve(b).
func (t Tensor) CholeskySolve(b Tensor) Tensor {
	return t.TriangularSolve(t.TriangularSolve(b), Transposed())
}

// QR returns the factors of matrices t [..., m, n] with t = q r. The columns of q are orthonormal. r is upper
// triangular with no negative number on its diagonal. If m >= n, q is [..., m, n] and r [..., n, n]; otherwise q is
// [..., m, m] and r [..., m, n]. See op qr for columns that are linearly dependent.
func (t Tensor) QR() (q, r Tensor) {
	t.must("qr")
	tall := t // op qr wants at least as many rows as columns; the first m columns have the same q
	if t.Rank() >= 2 && t.Dim(-2).IsStatic() && t.Dim(-1).IsStatic() && t.Dim(-2).Add < t.Dim(-1).Add {
		tall = t.Slice(-1, 0, t.Dim(-2))
	}
	q = tall.unary(ir.OpQR)
	return q, q.T().MatMul(t).Triu(0)
}

// EigH returns the eigenvalues [..., n], in ascending order, and the orthonormal eigenvectors [..., n, n], in columns,
// of symmetric matrices t [..., n, n]. It reads the lower triangle of t. In each vector the element of the largest
// magnitude is positive.
func (t Tensor) EigH() (values, vectors Tensor) {
	vectors = t.unary(ir.OpEigH)
	return t.mirrored().MatMul(vectors).Mul(vectors).Sum(-2), vectors
}
