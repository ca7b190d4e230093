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
			Attrs: []AttrInfo{{Name: "inverse", Kind: AttrBool, Default: false, Doc: "turn the other way, and divide by n"}},
			Infer: inferFFT, Tol: tol,
			Doc: "Discrete Fourier transform of x[..., n, 2], for any n: X[k] = the sum over j of x[j] * e^(-2πi*jk/n). The inverse is x[j] = 1/n * the sum over k of X[k] * e^(2πi*jk/n). n is a number, at most 4194304."},
		OpInfo{Op: OpRFFT, Name: "rfft", Class: ClassLinear, Args: x, Infer: inferRFFT, Tol: tol,
			Doc: "Discrete Fourier transform of real numbers x[..., n]: the first floor(n/2)+1 frequencies, [..., n/2+1, 2]. The others are their conjugates."},
		OpInfo{Op: OpIRFFT, Name: "irfft", Class: ClassLinear, Args: x,
			Attrs: []AttrInfo{{Name: "n", Kind: AttrInt, Doc: "the extent of the result"}}, Infer: inferIRFFT, Tol: tol,
			Doc: "The n real numbers with the first floor(n/2)+1 frequencies x[..., n/2+1, 2], the inverse of rfft. It ignores the imaginary parts of frequency 0 and, if n is even, of frequency n/2."},
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

// inferFFT is the rule of fft: the result has the shape of the argument.
func inferFFT(c *Call) (Type, error) {
	s, err := c.complexRows()
	if err != nil {
		return Type{}, err
	}
	return Type{c.DType(0), s}, checkTransform(s[len(s)-2])
}

// inferRFFT is the rule of rfft: n real numbers have floor(n/2)+1 frequencies.
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
