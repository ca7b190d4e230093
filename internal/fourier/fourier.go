// Package fourier computes discrete Fourier transforms of any length.
//
// A length that is a product of small primes takes one pass per factor, from one buffer to another, which leaves the
// results in order (Stockham's algorithm; Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992,
// 1.7). Other lengths are convolutions of such a length (Bluestein 1970, "A linear filtering approach to the
// computation of the discrete Fourier transform").
package fourier

import (
	"math"
	"math/bits"
	"math/cmplx"
	"sync"
)

// MaxFactor is the largest prime factor of a length that takes passes.
const MaxFactor = 50

// Plan has the tables for transforms of one length. Several goroutines may use it.
type Plan struct {
	n       int
	factors []int        // of n, one per pass; nil for a convolution
	roots   []complex128 // e^(-2πi k/n)

	chirp  []complex128 // of a convolution: e^(-πi k²/n)
	kernel []complex128 // the transform of its conjugate, wrapped around
	inner  *Plan        // of the convolution's length
}

// Plans are kept, because their tables take as long as a transform. The total of their lengths is bounded.
const maxKept = 1 << 20

var kept struct {
	sync.Mutex
	plans map[int]*Plan
	total int
}

// For returns the plan of transforms of length n, which is at least 1. It keeps plans for later calls, and forgets all
// when they become too large.
func For(n int) *Plan {
	kept.Lock()
	p := kept.plans[n]
	kept.Unlock()
	if p != nil {
		return p
	}
	p = newPlan(n) // without the lock: it may take long
	kept.Lock()
	defer kept.Unlock()
	kept.total += n
	if kept.plans == nil || kept.total > maxKept {
		kept.plans, kept.total = map[int]*Plan{}, n
	}
	kept.plans[n] = p
	return p
}

// newPlan computes the tables for a length.
func newPlan(n int) *Plan {
	p := &Plan{n: n, roots: Roots(n)}
	if LargestFactor(n) <= MaxFactor {
		p.factors = factors(n)
		return p
	}
	p.chirp, p.kernel = Chirp(n)
	p.inner = newPlan(len(p.kernel))
	return p
}

// LargestFactor returns the largest prime factor of n, or 1.
func LargestFactor(n int) int {
	largest := 1
	for _, f := range factors(n) {
		if f == 4 {
			f = 2
		}
		largest = max(largest, f)
	}
	return largest
}

// factors returns factors of n: primes, and 4, which has the fastest pass.
func factors(n int) (list []int) {
	for _, f := range []int{4, 2} {
		for ; n%f == 0; n /= f {
			list = append(list, f)
		}
	}
	for f := 3; n > 1; f += 2 {
		if f*f > n { // the rest has no smaller factor: it is prime
			f = n
		}
		for ; n%f == 0; n /= f {
			list = append(list, f)
		}
	}
	return list
}

// Roots returns e^(-2πi k/n) for k from 0 to n-1.
func Roots(n int) []complex128 {
	list := make([]complex128, n)
	for k := range list {
		list[k] = root(k, n)
	}
	return list
}

// root returns e^(-2πi k/n) for 0 <= k < n. Angles are reduced to an eighth of a turn first, so that the sine and the
// cosine of a multiple of 90 degrees are exact.
func root(k, n int) complex128 {
	quarter := 4 * k / n
	rest := 4*k - quarter*n // of 4n
	var z complex128
	if 2*rest <= n {
		sin, cos := math.Sincos(math.Pi / 2 * float64(rest) / float64(n))
		z = complex(cos, -sin)
	} else {
		sin, cos := math.Sincos(math.Pi / 2 * float64(n-rest) / float64(n))
		z = complex(sin, -cos)
	}
	for range quarter {
		z = complex(imag(z), -real(z))
	}
	return z
}

// Chirp returns the tables for a transform of length n by Bluestein's algorithm, as a convolution. chirp[k] is e^(-πi
// k²/n). kernel is the transform of chirp's conjugate, repeated in reverse so that it is even, at a length that is a
// power of two of at least 2n-1.
func Chirp(n int) (chirp, kernel []complex128) {
	size := 1 << bits.Len(uint(2*n-2))
	chirp, kernel = make([]complex128, n), make([]complex128, size)
	for k := range chirp {
		chirp[k] = root(k*k%(2*n), 2*n) // without whole turns, so that the angle is exact
	}
	for k, c := range chirp {
		kernel[k] = cmplx.Conj(c)
		kernel[(size-k)%size] = kernel[k]
	}
	For(size).Transform(kernel, make([]complex128, size))
	return chirp, kernel
}

// Work returns the number of elements of the working memory of a transform.
func (p *Plan) Work() int {
	if p.inner != nil {
		return 2 * len(p.kernel)
	}
	return p.n
}

// Transform replaces the n elements of x by their Fourier transform: X[k] is the sum of x[j] * e^(-2πi jk/n). work is
// scratch of Work() elements.
func (p *Plan) Transform(x, work []complex128) {
	if p.inner != nil {
		p.convolve(x, work)
		return
	}
	from, to := x, work[:p.n]
	for i, n, stride := 0, p.n, 1; n > 1; i++ {
		f := p.factors[i]
		p.pass(from, to, f, n, stride)
		from, to = to, from
		n, stride = n/f, stride*f
	}
	// Passes alternate between x and work. An odd number of them ends in work.
	if len(p.factors)%2 == 1 {
		copy(x, from)
	}
}

// Inverse replaces the n elements of x by 1/n * the sum of x[k] * e^(2πi jk/n). work has Work() elements.
func (p *Plan) Inverse(x, work []complex128) {
	p.Transform(x, work)
	scale := complex(1/float64(p.n), 0)
	x[0] *= scale
	for i, j := 1, p.n-1; i <= j; i, j = i+1, j-1 {
		x[i], x[j] = x[j]*scale, x[i]*scale
	}
}

// convolve transforms x by Bluestein's algorithm: it multiplies by the chirp, convolves with its conjugate, and
// multiplies by the chirp again.
func (p *Plan) convolve(x, work []complex128) {
	size := len(p.kernel)
	y, work := work[:size], work[size:]
	for i, c := range p.chirp {
		y[i] = x[i] * c
	}
	clear(y[p.n:])
	p.inner.Transform(y, work)
	for i, k := range p.kernel {
		y[i] *= k
	}
	p.inner.Inverse(y, work)
	for i, c := range p.chirp {
		x[i] = y[i] * c
	}
}

// pass transforms by one factor. x has `stride` interleaved sequences of n elements, all of which belong to one
// transform of n*stride elements. y gets f*stride sequences of n/f elements.
func (p *Plan) pass(x, y []complex128, f, n, stride int) {
	switch f {
	case 4:
		p.pass4(x, y, n/4, stride)
	case 2:
		p.pass2(x, y, n/2, stride)
	default:
		p.passOf(x, y, f, n/f, stride)
	}
}

// pass2 does the same as passOf for factor 2, but faster. See pass; m is n/2 and s the stride.
func (p *Plan) pass2(x, y []complex128, m, s int) {
	for i := range m {
		w := p.roots[i*s]
		a, b := x[s*i:][:s], x[s*(i+m):][:s]
		y0, y1 := y[2*s*i:][:s], y[s*(2*i+1):][:s]
		for q := range a {
			y0[q], y1[q] = a[q]+b[q], (a[q]-b[q])*w
		}
	}
}

// pass4 does the same as passOf for factor 4, but faster. See pass; m is n/4 and s the stride.
func (p *Plan) pass4(x, y []complex128, m, s int) {
	if s == 1 { // a loop over one element for each i would cost more than the element
		x0, x1, x2, x3 := x[:m], x[m:][:m], x[2*m:][:m], x[3*m:][:m]
		for i := range x0 {
			a, b, c, d := transform4(x0[i], x1[i], x2[i], x3[i])
			out := y[4*i:][:4]
			out[0], out[1], out[2], out[3] = a, b*p.roots[i], c*p.roots[2*i], d*p.roots[3*i]
		}
		return
	}
	for i := range m {
		w1, w2, w3 := p.roots[i*s], p.roots[2*i*s], p.roots[3*i*s]
		x0, x1, x2, x3 := x[s*i:][:s], x[s*(i+m):][:s], x[s*(i+2*m):][:s], x[s*(i+3*m):][:s]
		out := y[4*s*i:][:4*s]
		y0, y1, y2, y3 := out[:s], out[s:][:s], out[2*s:][:s], out[3*s:][:s]
		for q := range x0 {
			a, b, c, d := transform4(x0[q], x1[q], x2[q], x3[q])
			y0[q], y1[q], y2[q], y3[q] = a, b*w1, c*w2, d*w3
		}
	}
}

// transform4 returns the Fourier transform of four numbers.
func transform4(a, b, c, d complex128) (y0, y1, y2, y3 complex128) {
	even, odd, sum, turned := a+c, a-c, b+d, b-d
	turned = complex(imag(turned), -real(turned)) // times -i
	return even + sum, odd + turned, even - sum, odd - turned
}

// passOf does a pass by any factor f. See pass; m is n/f and s the stride. It takes f² multiplications for f elements.
func (p *Plan) passOf(x, y []complex128, f, m, s int) {
	turn := p.n / f // the root of index turn is an f-th of a turn
	for i := range m {
		for j := range f {
			// Element j of the transform of f elements, m apart, times the twiddle factor.
			to := y[s*(f*i+j):][:s]
			copy(to, x[s*i:])
			for k := 1; k < f; k++ {
				root, from := p.roots[j*k%f*turn], x[s*(i+k*m):][:s]
				for q, v := range from {
					to[q] += complex128(v * root)
				}
			}
			twiddle := p.roots[i*j*s]
			for q := range to {
				to[q] *= twiddle
			}
		}
	}
}

// Real returns in out the first n/2+1 elements of the transform of n real numbers. out and work have n+1 elements or
// more, and work also Work().
func (p *Plan) Real(x []float64, out, work []complex128) {
	if p.n%2 == 1 {
		for i, v := range x {
			out[i] = complex(v, 0)
		}
		p.Transform(out[:p.n], work)
		out[0] = complex(real(out[0]), 0) // a convolution leaves a small error
		return
	}
	// Two real numbers make one complex number of half the transform. Its element k and the conjugate of its element
	// -k have the transforms of the even and of the odd numbers as their sum and difference.
	half := p.n / 2
	for i := range half {
		out[i] = complex(x[2*i], x[2*i+1])
	}
	For(half).Transform(out[:half], work)
	out[half] = out[0]
	for i, j := 0, half; i <= j; i, j = i+1, j-1 {
		a, b := out[i], out[j]
		out[i], out[j] = p.fromHalf(a, b, i), p.fromHalf(b, a, j)
	}
}

// fromHalf returns element k of the transform of real numbers. a and b are elements k and -k of a complex transform of
// half the length. Its argument has the even-numbered numbers as real parts, and the odd-numbered ones as imaginary
// parts.
func (p *Plan) fromHalf(a, b complex128, k int) complex128 {
	b = cmplx.Conj(b)
	odd := (a - b) * p.roots[k%p.n]
	return (a + b + complex(imag(odd), -real(odd))) / 2
}

// RealInverse computes n real numbers, out, from the first n/2+1 elements of their transform, which are in x. The other
// elements are conjugates of these. It ignores the imaginary parts of x[0] and, for an even n, of x[n/2]. x must have
// at least n elements. RealInverse overwrites x and work.
func (p *Plan) RealInverse(x []complex128, out []float64, work []complex128) {
	x[0] = complex(real(x[0]), 0)
	if p.n%2 == 1 {
		for k := 1; k <= p.n/2; k++ {
			x[p.n-k] = cmplx.Conj(x[k])
		}
		p.Inverse(x[:p.n], work)
		for i := range out {
			out[i] = real(x[i])
		}
		return
	}
	// A transform of half the length computes pairs of results as the real and imaginary parts of one number.
	half := p.n / 2
	x[half] = complex(real(x[half]), 0)
	for i, j := 0, half; i <= j; i, j = i+1, j-1 {
		a, b := x[i], x[j]
		x[i], x[j] = p.toHalf(a, b, i), p.toHalf(b, a, j)
	}
	For(half).Inverse(x[:half], work)
	for i, v := range x[:half] {
		out[2*i], out[2*i+1] = real(v), imag(v)
	}
}

// toHalf is the inverse of fromHalf.
func (p *Plan) toHalf(a, b complex128, k int) complex128 {
	b = cmplx.Conj(b)
	odd := (a - b) * cmplx.Conj(p.roots[k%p.n])
	return (a + b + complex(-imag(odd), real(odd))) / 2
}
