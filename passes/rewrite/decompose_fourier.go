package rewrite

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/fourier"
	"github.com/vkc-go/vkc/ir"
)

// A Fourier transform becomes a few matmuls by the matrices of short transforms. Each step reads and writes all
// elements once. So on a device few long steps are faster than the steps of length 2 or 4 that a processor takes.
const (
	maxStep   = 64      // longest transform that one of several matmuls computes
	maxMatrix = 1 << 17 // elements of the largest matrix of a transform by one matmul
)

// transform decomposes Fourier transform n of x. It computes on tensors [rows, elements, parts], in which parts are the
// real and the imaginary part, or only the real one.
func (r *rewriter) transform(n, x *ir.Node) *ir.Node {
	wide, s := kernel.AccType(n.DType()), x.Shape()
	inner := 2 // the axes of elements and parts; real numbers have no axis of parts
	if n.Op() == ir.OpRFFT {
		inner = 1
	}
	f, rows := fourierSteps{r, 1}, r.numel(s[:len(s)-inner])
	x = r.castTo(x, wide)
	var y *ir.Node
	switch n.Op() {
	case ir.OpRFFT:
		length := s[len(s)-1].Add
		x = r.reshape(x, ir.Shape{rows, ir.Dim{Add: length}, ir.D(1)})
		// One matmul computes only the bins that are wanted; a transform of all elements computes the others too.
		if bins := length/2 + 1; length*bins*2 <= maxMatrix {
			y = f.byOneMatmul(x, int(bins), 1)
		} else {
			y = r.sliceAxis(f.transformed(x, 1), 1, 0, bins)
		}
	case ir.OpIRFFT:
		length := int64(n.Attrs().Int("n"))
		f.sign = -1
		x = r.reshape(x, ir.Shape{rows, s[len(s)-2], ir.D(2)})
		if s[len(s)-2].Add*2*length <= maxMatrix {
			y = f.realNumbers(x, int(length))
		} else {
			y = r.sliceAxis(f.transformed(f.allFrequencies(x, length), 1/float64(length)), 2, 0, 1)
		}
	default:
		length, scale := s[len(s)-2], 1.0
		if n.Attrs().Bool("inverse") {
			f.sign, scale = -1, 1/float64(length.Add)
		}
		y = f.transformed(r.reshape(x, ir.Shape{rows, length, ir.D(2)}), scale)
	}
	return r.castTo(r.reshape(y, n.Shape()), n.DType())
}

// fourierSteps adds the nodes of a Fourier transform. sign is 1, or -1 for the inverse.
type fourierSteps struct {
	*rewriter
	sign float64
}

// allFrequencies appends the conjugates of the frequencies x[rows, n/2+1, 2] of n real numbers. The imaginary parts of
// frequency 0 and the middle one are set to 0.
func (f fourierSteps) allFrequencies(x *ir.Node, n int64) *ir.Node {
	bins := n/2 + 1
	keep := make([]float64, 2*bins)
	for i := range keep {
		keep[i] = 1
	}
	keep[1] = 0 // keep has a pair (real, imaginary) per frequency
	if n%2 == 0 {
		keep[2*bins-1] = 0
	}
	x = f.binary(ir.OpMul, x, f.table(x.DType(), keep, int(bins), 2))
	if n < 3 { // all frequencies are given
		return x
	}
	// Frequency n-k is the conjugate of frequency k, for k from 1 to (n-1)/2.
	others := f.unary(ir.OpFlip, f.sliceAxis(x, 1, 1, 1+(n-1)/2), attr("axes", []int{1}))
	others = f.binary(ir.OpMul, others, f.table(x.DType(), []float64{1, -1}, 2))
	return f.concat(1, x, others)
}

// transformed returns scale times the transform of x[rows, n, parts], which has one part for real numbers and two for
// complex ones. It chooses one matmul, two shorter transforms, or a convolution for n with a large prime factor.
func (f fourierSteps) transformed(x *ir.Node, scale float64) *ir.Node {
	n := int(x.Shape()[1].Add)
	switch {
	case 2*n*n*int(x.Shape()[2].Add) <= maxMatrix:
		return f.byOneMatmul(x, n, scale)
	case fourier.LargestFactor(n) > fourier.MaxFactor:
		return f.convolution(x, scale)
	}
	first := firstStep(n)
	return f.split(x, first, n/first, scale)
}

// firstStep returns the length of the first of several steps of a transform of length n. The steps have similar
// lengths, and are as few as possible.
func firstStep(n int) int {
	// The fewest steps of at most maxStep. 1e-9 keeps a rounding error from adding a step if n is a power of maxStep.
	steps := math.Ceil(math.Log(float64(n))/math.Log(maxStep) - 1e-9)
	best, distance := n, math.Inf(1)
	for a := 2; a <= maxStep; a++ {
		// The best divisor a of n is the one with a^steps nearest to n.
		if d := math.Abs(float64(steps*math.Log(float64(a))) - math.Log(float64(n))); n%a == 0 && d < distance {
			best, distance = a, d
		}
	}
	return best
}

// byOneMatmul computes the first bins elements of scale times a transform by one matmul.
func (f fourierSteps) byOneMatmul(x *ir.Node, bins int, scale float64) *ir.Node {
	n := int(x.Shape()[1].Add)
	roots := fourier.Roots(n)
	return f.dense(x, bins, 2, func(j, part, k int) []float64 {
		re, im := scale*real(roots[j*k%n]), scale*f.sign*imag(roots[j*k%n])
		if part == 1 { // times i
			re, im = -im, re
		}
		return []float64{re, im}
	})
}

// realNumbers computes n real numbers from their frequencies x by one matmul. A frequency counts for its conjugate too,
// except frequency 0 and the middle one.
func (f fourierSteps) realNumbers(x *ir.Node, n int) *ir.Node {
	roots := fourier.Roots(n)
	return f.dense(x, n, 1, func(k, part, j int) []float64 {
		z, weight := roots[j*k%n], 2/float64(n)
		if k == 0 || 2*k == n {
			z, weight = complex(real(z), 0), 1/float64(n)
		}
		return []float64{weight * []float64{real(z), imag(z)}[part]}
	})
}

// dense multiplies x[rows, from, parts] by a matrix of [from, parts, to, toParts] elements. element returns the toParts
// elements for element j of x, one of its parts, and element k of the result.
func (f fourierSteps) dense(x *ir.Node, to, toParts int, element func(j, part, k int) []float64) *ir.Node {
	rows, from, parts := x.Shape()[0], int(x.Shape()[1].Add), int(x.Shape()[2].Add)
	matrix := make([]float64, 0, from*parts*to*toParts)
	for j := range from {
		for part := range parts {
			for k := range to {
				matrix = append(matrix, element(j, part, k)...)
			}
		}
	}
	y := f.binary(ir.OpMatMul, f.reshape(x, ir.Shape{rows, ir.D(from * parts)}),
		f.table(x.DType(), matrix, from*parts, to*toParts))
	return f.reshape(y, ir.Shape{rows, ir.D(to), ir.D(toParts)})
}

// split returns scale times a transform, by two steps (Cooley and Tukey 1965). Element j = j1*b+j2 of the argument and
// element k = k2*a+k1 of the result are the elements [j1, j2] and [k2, k1] of matrices. The first step transforms along
// j1, and the second one along j2. Between them, element [j2, k1] is multiplied by e^(-2πi*j2*k1/(a*b)), or its
// conjugate for the inverse.
func (f fourierSteps) split(x *ir.Node, a, b int, scale float64) *ir.Node {
	rows, parts := x.Shape()[0], x.Shape()[2]
	x = f.swapAxes(f.reshape(x, ir.Shape{rows, ir.D(a), ir.D(b), parts}), 1, 2) // [rows, j2, j1, parts]
	x = f.transformed(f.reshape(x, ir.Shape{rows.Times(int64(b)), ir.D(a), parts}), scale)
	roots := fourier.Roots(a * b)
	twiddles := make([]complex128, 0, a*b)
	for j2 := range b {
		for k1 := range a {
			twiddles = append(twiddles, roots[j2*k1]) // roots[n] is e^(-2πi*n/(a*b))
		}
	}
	x = f.times(f.reshape(x, ir.Shape{rows, ir.D(b), ir.D(a), ir.D(2)}), twiddles, b, a) // [rows, j2, k1, 2]
	x = f.transformed(f.reshape(f.swapAxes(x, 1, 2), ir.Shape{rows.Times(int64(a)), ir.D(b), ir.D(2)}), 1)
	x = f.swapAxes(f.reshape(x, ir.Shape{rows, ir.D(a), ir.D(b), ir.D(2)}), 1, 2) // [rows, k2, k1, 2]
	return f.reshape(x, ir.Shape{rows, ir.D(a * b), ir.D(2)})
}

// convolution returns scale times a transform, by a convolution with the chirp (Bluestein 1970). That works for every
// length. It computes the convolution by transforms of a longer length with small factors.
func (f fourierSteps) convolution(x *ir.Node, scale float64) *ir.Node {
	rows, n := x.Shape()[0], int(x.Shape()[1].Add)
	chirp, kernel := fourier.Chirp(n)
	size := len(kernel)
	if x.Shape()[2].Is(1) {
		// Real numbers get the imaginary part 0.
		x = f.concat(2, x, f.binary(ir.OpMul, x, f.scalar(x.DType(), 0)))
	}
	x = f.unary(ir.OpPad, f.times(x, chirp, n), attr("low", []int64{0, 0, 0}),
		attr("high", []int64{0, int64(size - n), 0}))
	there, back := fourierSteps{f.rewriter, 1}, fourierSteps{f.rewriter, -1}
	x = f.times(there.transformed(x, 1), kernel, size)
	x = f.sliceAxis(back.transformed(x, scale/float64(size)), 1, 0, int64(n))
	return f.reshape(f.times(x, chirp, n), ir.Shape{rows, ir.D(n), ir.D(2)})
}

// times multiplies pairs x[..., dims, 2] by complex numbers, or for the inverse by their conjugates. The product of
// pair (a, b) and z is (a, b)*re(z) + (b, a)*(-im(z), im(z)).
func (f fourierSteps) times(x *ir.Node, factors []complex128, dims ...int) *ir.Node {
	re, im := make([]float64, 0, len(factors)), make([]float64, 0, 2*len(factors))
	for _, z := range factors {
		re, im = append(re, real(z)), append(im, -f.sign*imag(z), f.sign*imag(z))
	}
	other := f.unary(ir.OpFlip, x, attr("axes", []int{-1}))
	return f.binary(ir.OpAdd, f.binary(ir.OpMul, x, f.table(x.DType(), re, append(slices.Clone(dims), 1)...)),
		f.binary(ir.OpMul, other, f.table(x.DType(), im, append(slices.Clone(dims), 2)...)))
}

// table adds a constant with these values and extents.
func (r *rewriter) table(t ir.DType, values []float64, dims ...int) *ir.Node {
	return r.add(ir.OpConst, nil, attr("data", bailout.Must(ir.FromFloats(t, values, dims...))))
}

// sliceAxis returns the elements from start to limit-1 along an axis.
func (r *rewriter) sliceAxis(x *ir.Node, axis int, start, limit int64) *ir.Node {
	starts, limits := make([]int64, x.Rank()), slices.Clone(x.Shape())
	starts[axis], limits[axis] = start, ir.Dim{Add: limit}
	return r.slice(x, starts, limits)
}
