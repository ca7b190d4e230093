package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of the Fourier transforms to the op table.
func init() {
	x := []ArgInfo{{Name: "x"}}
	tol := Tolerance{Eps: 256, Abs: 1e-6, Sum: true}
	rows(
		OpInfo{Op: OpFFT, Name: "fft", Class: ClassLinear, Args: x,
			Attrs: []AttrInfo{{Name: "inverse", Kind: AttrBool, Default: false, Doc: "compute the inverse transform, " +
				"divided by n"}},
			Infer: inferFFT, Tol: tol,
			Doc: "Discrete Fourier transform of x[..., n, 2], for any n: X[k] = the sum over j of x[j] * e^(-2πi*jk/n). The inverse is x[j] = 1/n * the sum over k of X[k] * e^(2πi*jk/n). n must be a constant, not a symbol, and at most 4194304. An infinity or NaN makes elements of its row's transform infinite or NaN; which ones depends on the device."},
		OpInfo{Op: OpRFFT, Name: "rfft", Class: ClassLinear, Args: x, Infer: inferRFFT, Tol: tol,
			Doc: "Discrete Fourier transform of real numbers x[..., n]: the first floor(n/2)+1 frequencies, [..., n/2+1, 2]. x is real, so frequency n-k is the conjugate of frequency k and is left out. An infinity or NaN makes elements of its row's transform infinite or NaN; which ones depends on the device."},
		OpInfo{Op: OpIRFFT, Name: "irfft", Class: ClassLinear, Args: x,
			Attrs: []AttrInfo{{Name: "n", Kind: AttrInt, Doc: "extent of the result"}}, Infer: inferIRFFT, Tol: tol,
			Doc: "The n real numbers with the first floor(n/2)+1 frequencies x[..., n/2+1, 2], the inverse of rfft. It ignores the imaginary parts of frequency 0 and, if n is even, of frequency n/2. An infinity or NaN may make elements of its row's result infinite or NaN; which ones depends on the device."},
		OpInfo{Op: OpCholesky, Name: "cholesky", Class: ClassLinear, Args: x, Infer: inferCholesky, Tol: tol,
			Doc: "The lower triangular l with l*lᵀ = x, for symmetric positive definite x[..., n, n]. It reads the lower triangle of x, and so only that has a gradient (Murray 2016). If x is not positive definite, all of the lower triangle of l is NaN. n must be a constant, not a symbol, and at most 4096."},
		OpInfo{Op: OpTriangularSolve, Name: "triangular_solve", Class: ClassLinear,
			Args: []ArgInfo{{Name: "a"}, {Name: "b"}},
			Attrs: []AttrInfo{
				{Name: "lower", Kind: AttrBool, Default: true, Doc: "read the lower triangle of a, not the upper one"},
				{Name: "transpose", Kind: AttrBool, Default: false, Doc: "solve aᵀ*x = b"},
			}, Infer: inferTriangularSolve, Tol: tol,
			Doc: "The solution x[..., n, k] of a*x = b[..., n, k], for triangular a[..., n, n]. It reads one triangle of a, and so only that has a gradient (Giles 2008). A zero on the diagonal makes elements of x infinite or NaN. n must be a constant, not a symbol, and at most 4096."},
		OpInfo{Op: OpQR, Name: "qr", Class: ClassLinear, Args: x, Infer: inferQR, Tol: tol,
			Doc: "The factor q[..., m, n] of x[..., m, n] = q*r, for m >= n. The columns of q are orthonormal. r = qᵀ*x is upper triangular, and its diagonal has no negative number. If columns of x are linearly dependent, q is not unique: it depends on the device, and the gradient is not finite. m and n must be constants, not symbols: m is at most 65536, and n at most 1024."},
		OpInfo{Op: OpEigH, Name: "eigh", Class: ClassLinear, Args: x, Infer: inferEigH,
			Tol: Tolerance{Eps: 1024, Abs: 1e-5, Sum: true},
			Doc: "The orthonormal eigenvectors of symmetric x[..., n, n], in columns, by ascending eigenvalue. In each vector the element of the largest magnitude is positive. It reads only the lower triangle of x, so only that has a gradient. The vectors of equal eigenvalues may be any orthonormal basis of their space, which depends on the device. Their gradient ignores how they turn within that space. n must be a constant, not a symbol, and at most 1024."},
	)
}

// MaxTransform is the largest length of a Fourier transform. Devices store a table of angles with as many rows.
const MaxTransform = 1 << 22

// checkTransform returns an error unless a Fourier transform may have length n.
func checkTransform(n Dim) error {
	if !n.IsStatic() || n.Add < 1 || n.Add > MaxTransform {
		return fmt.Errorf("a transform of %s elements: want a number from 1 to %d", n, MaxTransform)
	}
	return nil
}

// complexRows checks that argument 0 is [..., n, 2], pairs of floats. It returns its shape.
func (c *Call) complexRows() (Shape, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return nil, err
	}
	s := c.Shape(0)
	if len(s) < 2 || !s[len(s)-1].Is(2) {
		return nil, fmt.Errorf("%s is %s, want [..., n, 2]: an innermost axis of real and imaginary parts", c.arg(0), s)
	}
	return s, nil
}

// inferFFT is the type rule of fft: the result has the shape of the argument.
func inferFFT(c *Call) (Type, error) {
	s, err := c.complexRows()
	if err != nil {
		return Type{}, err
	}
	return Type{c.DType(0), s}, checkTransform(s[len(s)-2])
}

// inferRFFT is the type rule of rfft: n real numbers have floor(n/2)+1 frequencies.
func inferRFFT(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	s := c.Shape(0)
	if len(s) == 0 || len(s) == MaxRank {
		return Type{}, fmt.Errorf("%s is %s, want [..., n] of at most %d axes", c.arg(0), s, MaxRank-1)
	}
	last := len(s) - 1
	if err := checkTransform(s[last]); err != nil {
		return Type{}, err
	}
	return Type{c.DType(0), append(slices.Clone(s[:last]), Dim{Add: s[last].Add/2 + 1}, D(2))}, nil
}

// inferIRFFT is the type rule of irfft.
func inferIRFFT(c *Call) (Type, error) {
	s, err := c.complexRows()
	if err != nil {
		return Type{}, err
	}
	n := Dim{Add: int64(c.Attrs.Int("n"))}
	if err := checkTransform(n); err != nil {
		return Type{}, err
	}
	if have, want := s[len(s)-2], (Dim{Add: n.Add/2 + 1}); have != want {
		return Type{}, fmt.Errorf("%s is %s, want [..., %s, 2], the frequencies of %s numbers", c.arg(0), s, want, n)
	}
	return Type{c.DType(0), append(slices.Clone(s[:len(s)-2]), n)}, nil
}

// The largest matrices of ops of linear algebra. A device factors larger ones than fit in shared memory by blocks, or
// with a vector of each column in shared memory.
const (
	maxSolved  = 4096
	maxQRRows  = 65536
	maxColumns = 1024
)

// matrices checks that argument i is [..., rows, columns] of floats, with numbers of at most that many rows and
// columns.
func (c *Call) matrices(i int, rows, columns int64) (Shape, error) {
	if err := c.wantKinds(i, KindFloat); err != nil {
		return nil, err
	}
	s := c.Shape(i)
	if len(s) < 2 {
		return nil, fmt.Errorf("%s is %s, want [..., rows, columns]", c.arg(i), s)
	}
	m, n := s[len(s)-2], s[len(s)-1]
	if !m.IsStatic() || !n.IsStatic() || m.Add < 1 || n.Add < 1 || m.Add > rows || n.Add > columns {
		return nil, fmt.Errorf("%s is %s, want matrices of 1 to %d rows and 1 to %d columns", c.arg(i), s, rows,
			columns)
	}
	return s, nil
}

// squares checks that argument i is [..., n, n] of floats, with a number of at most n rows.
func (c *Call) squares(i int, n int64) (Shape, error) {
	s, err := c.matrices(i, n, n)
	if err == nil && s[len(s)-2] != s[len(s)-1] {
		err = fmt.Errorf("%s is %s, want square matrices", c.arg(i), s)
	}
	return s, err
}

// inferCholesky is the type rule of cholesky: square matrices.
func inferCholesky(c *Call) (Type, error) {
	s, err := c.squares(0, maxSolved)
	return Type{c.DType(0), s}, err
}

// inferEigH is the type rule of eigh: square matrices.
func inferEigH(c *Call) (Type, error) {
	s, err := c.squares(0, maxColumns)
	return Type{c.DType(0), s}, err
}

// inferQR is the type rule of qr: at least as many rows as columns.
func inferQR(c *Call) (Type, error) {
	s, err := c.matrices(0, maxQRRows, maxColumns)
	if err == nil && s[len(s)-2].Add < s[len(s)-1].Add {
		err = fmt.Errorf("%s is %s, want matrices with at least as many rows as columns", c.arg(0), s)
	}
	return Type{c.DType(0), s}, err
}

// inferTriangularSolve is the type rule of triangular_solve: outer axes and the number of rows agree.
func inferTriangularSolve(c *Call) (Type, error) {
	a, err := c.squares(0, maxSolved)
	if err != nil {
		return Type{}, err
	}
	if err := c.wantSame(0, 1); err != nil {
		return Type{}, err
	}
	b := c.Shape(1)
	if last := len(a) - 1; len(b) != len(a) || !b[:last].Equal(a[:last]) {
		return Type{}, fmt.Errorf("%s is %s and %s %s: want [..., n, n] and [..., n, k]", c.arg(0), a, c.arg(1), b)
	}
	return Type{c.DType(0), b}, nil
}
