package interp

import (
	"math/bits"

	"github.com/vkc-go/vkc/internal/fourier"
)

// fft computes discrete Fourier transforms of pairs.
func fft(c *call) (value, error) {
	n := c.dims[len(c.dims)-2]
	plan, inverse := fourier.For(n), c.attrs().Bool("inverse")
	return c.transforms(n, 2*n, 2*n, func(x, out []float64, row, work []complex128) {
		toComplex(row[:n], x)
		if inverse {
			plan.Inverse(row[:n], work)
		} else {
			plan.Transform(row[:n], work)
		}
		fromComplex(out, row[:n])
	})
}

// rfft computes the first half of the frequencies of real numbers.
func rfft(c *call) (value, error) {
	n := c.args[0].dims[len(c.args[0].dims)-1]
	plan, bins := fourier.For(n), n/2+1
	return c.transforms(n, n, 2*bins, func(x, out []float64, row, work []complex128) {
		plan.Real(x, row, work)
		fromComplex(out, row[:bins])
	})
}

// irfft computes real numbers from the first half of their frequencies.
func irfft(c *call) (value, error) {
	n := c.attrs().Int("n")
	plan, bins := fourier.For(n), n/2+1
	return c.transforms(n, 2*bins, n, func(x, out []float64, row, work []complex128) {
		toComplex(row[:bins], x)
		plan.RealInverse(row, out, work)
	})
}

// transforms calls f for each row of the argument, with `from` elements, and each row of the result, with `to`
// elements. f may use row (n+1 elements) and work, memory for transforms of length n.
func (c *call) transforms(n, from, to int, f func(x, out []float64, row, work []complex128)) (value, error) {
	x, out := c.args[0].floats(), make([]float64, elems(c.dims))
	size := n + 1 + fourier.For(n).Work()
	err := c.parallelRange(len(out)/to, 4*n*bits.Len(uint(n)), func(lo, hi int) {
		memory := make([]complex128, size)
		for r := lo; r < hi; r++ {
			f(x[r*from:(r+1)*from], out[r*to:(r+1)*to], memory[:n+1], memory[n+1:])
		}
	})
	return c.floats(out), err
}

// toComplex sets the complex numbers to pairs of floats.
func toComplex(to []complex128, from []float64) {
	for i := range to {
		to[i] = complex(from[2*i], from[2*i+1])
	}
}

// fromComplex sets pairs of floats to the complex numbers.
func fromComplex(to []float64, from []complex128) {
	for i, v := range from {
		to[2*i], to[2*i+1] = real(v), imag(v)
	}
}
