package onnx

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

var signalOps = table{
	"HannWindow":      tensorOp(func(c *call) tensor { return c.cosineWindow(0.5, 0.5, 0) }),
	"HammingWindow":   tensorOp(func(c *call) tensor { return c.cosineWindow(25.0/46, 21.0/46, 0) }),
	"BlackmanWindow":  tensorOp(func(c *call) tensor { return c.cosineWindow(0.42, 0.5, 0.08) }),
	"DFT":             tensorOp(dft),
	"STFT":            tensorOp(stft),
	"MelWeightMatrix": tensorOp(melWeights),
}

// cosineWindow returns the vector with elements a0 - a1*cos(2*pi*i/n) + a2*cos(4*pi*i/n).
func (c *call) cosineWindow(a0, a1, a2 float64) tensor {
	size := c.ints(0)
	if len(size) != 1 || size[0] < 0 || size[0] > maxFolded {
		c.fail("of %v elements: want one number, at most %d", size, maxFolded)
	}
	n := float64(size[0])
	if !c.flag("periodic", true) {
		n--
	}
	w := make([]float64, size[0])
	for i := range w {
		p := 2 * math.Pi * float64(i) / n
		w[i] = a0 - float64(a1*math.Cos(p)) + float64(a2*math.Cos(2*p))
	}
	return c.floatsConst(c.dtypeAttr("output_datatype", ir.F32), w, len(w))
}

// floatsConst returns a constant of floats.
func (c *call) floatsConst(t ir.DType, values []float64, dims ...int) tensor {
	d, err := ir.FromFloats(t, values, dims...)
	if err != nil {
		panic(nodeError{err})
	}
	return c.b.Const(d)
}

// maxTransform is the largest length of a Fourier transform, since a matmul computes it.
const maxTransform = 4096

// fourier returns the real and the imaginary part of the matrix of a discrete Fourier transform, [n, bins] each. It
// transforms the first n elements of a signal of the given length.
func (c *call) fourier(t ir.DType, n, length, bins int, inverse bool) (re, im tensor) {
	if length < 1 || length > maxTransform {
		c.fail("a transform of %d elements: want 1 to %d", length, maxTransform)
	}
	a, b := make([]float64, n*bins), make([]float64, n*bins)
	for i := range n {
		for k := range bins {
			p := -2 * math.Pi * float64(i*k%length) / float64(length)
			s := 1.0
			if inverse {
				p, s = -p, 1/float64(length)
			}
			a[i*bins+k], b[i*bins+k] = s*math.Cos(p), s*math.Sin(p)
		}
	}
	return c.floatsConst(t, a, n, bins), c.floatsConst(t, b, n, bins)
}

// dft transforms one axis. The innermost axis has extent 1 for real numbers, or 2 for real and imaginary parts. With
// onesided, the transform of real numbers returns the first half of the frequencies, and the inverse computes real
// numbers from that half.
func dft(c *call) tensor {
	x := c.x(0)
	inverse, onesided := c.flag("inverse", false), c.flag("onesided", false)
	axis := -2
	if c.has(2) {
		axis = c.ints(2)[0]
	}
	axis = c.axis(axis, x.Rank())
	n := x.Dim(axis)
	if !n.IsStatic() || axis == x.Rank()-1 {
		c.fail("axis %d of %s is transformed: its extent must be a number", axis, x)
	}
	complexes := x.Dim(-1).Is(2)
	if onesided && inverse != complexes {
		c.fail("onesided with inverse %v of %s: it transforms real numbers, [..., 1], and back from complex ones, "+
			"[..., 2]", inverse, x)
	}
	length := n.Static()
	if onesided && inverse {
		length = 2 * (length - 1)
	}
	if c.has(1) {
		length = c.ints(1)[0]
	}
	used, bins := length, length // frequencies or elements that are read, and that are made
	switch {
	case onesided && inverse:
		used = length/2 + 1
	case onesided:
		bins = length/2 + 1
	}
	if used < n.Static() {
		x = x.Slice(axis, 0, used)
	}
	re, im := c.fourier(x.DType(), x.Dim(axis).Static(), length, bins, inverse)
	if onesided && inverse {
		return c.halfInverse(x, axis, length, re, im)
	}
	// Move the transformed axis to the innermost position, and back afterwards.
	last := x.Rank() - 2
	a := x.Index(-1, 0).SwapAxes(axis, last)
	y, z := a.MatMul(re), a.MatMul(im)
	if complexes {
		b := x.Index(-1, 1).SwapAxes(axis, last)
		y, z = y.Sub(b.MatMul(im)), z.Add(b.MatMul(re))
	}
	return y.SwapAxes(axis, last).Stack(-1, z.SwapAxes(axis, last))
}

// halfInverse computes real numbers, [..., 1], from the first half of their frequencies. Each frequency also represents
// its conjugate in the other half, except the first and the middle one. The imaginary parts of those two are ignored.
func (c *call) halfInverse(x tensor, axis, length int, re, im tensor) tensor {
	share := make([]float64, x.Dim(axis).Static())
	for k := range share {
		if share[k] = 2; k == 0 || 2*k == length {
			share[k] = 1
		}
	}
	last, weights := x.Rank()-2, c.floatsConst(x.DType(), share, len(share))
	real, imaginary := x.Index(-1, 0).SwapAxes(axis, last), x.Index(-1, 1).SwapAxes(axis, last)
	y := real.Mul(weights).MatMul(re).Sub(imaginary.Mul(weights).MatMul(im))
	return y.SwapAxes(axis, last).Unsqueeze(-1)
}

// stft transforms frames of a signal [N, L, 1]. Each frame begins step elements after the one before.
func stft(c *call) tensor {
	x, step := c.x(0), c.ints(1)
	if x.Rank() == 3 {
		if !x.Dim(2).Is(1) {
			c.fail("of %s: only real signals are supported", x)
		}
		x = x.Index(2, 0)
	}
	if x.Rank() != 2 || !x.Dim(1).IsStatic() || len(step) != 1 || step[0] < 1 {
		c.fail("of %s by steps of %v: want [N, L, 1] with a number L", x, step)
	}
	length := 0
	switch {
	case c.has(3):
		length = c.ints(3)[0]
	case c.has(2):
		length = c.shapeOf(c.in[2])[0].Static()
	}
	if length < 1 || length > x.Dim(1).Static() {
		c.fail("frames of %d elements of %s", length, x)
	}
	frames := (x.Dim(1).Static()-length)/step[0] + 1
	bins := length
	if c.flag("onesided", true) {
		bins = length/2 + 1
	}
	at := make([]int32, frames*length)
	for f := range frames {
		for i := range length {
			at[f*length+i] = int32(f*step[0] + i)
		}
	}
	framed := x.IndexSelect(1, c.b.Const(at)).Reshape(x.Dim(0), frames, length)
	if c.has(2) {
		framed = framed.Mul(c.x(2))
	}
	re, im := c.fourier(x.DType(), length, length, bins, false)
	return framed.MatMul(re).Stack(-1, framed.MatMul(im))
}

// melWeights returns a matrix that sums the frequencies of a spectrum to bands of equal width in mel (O'Shaughnessy's
// formula).
func melWeights(c *call) tensor {
	bands, length, rate := int(c.number(0)), int(c.number(1)), c.number(2)
	low, high := c.number(3), c.number(4)
	bins := length/2 + 1
	if bands < 1 || bands > maxTransform || length < 1 || length > maxTransform || !(high > low) || !(rate > 0) {
		c.fail("%d bands of a transform of %d elements, %v to %v Hz at %v", bands, length, low, high, rate)
	}
	mel := func(f float64) float64 { return float64(2595 * math.Log10(1+f/700)) }
	edge := make([]int, bands+2)
	for i := range edge {
		m := mel(low) + float64(float64(i)*(mel(high)-mel(low)))/float64(len(edge))
		edge[i] = int(math.Floor(float64(length+1) * 700 * (math.Pow(10, m/2595) - 1) / rate))
	}
	w := make([]float64, bins*bands)
	for k := range bands {
		a, b, d := edge[k], edge[k+1], edge[k+2]
		for i := max(a, 0); i < min(max(d, b+1), bins); i++ {
			switch {
			case i == b && b == a:
				w[i*bands+k] = 1
			case i <= b && b != a:
				w[i*bands+k] = float64(i-a) / float64(b-a)
			case i > b && d != b:
				w[i*bands+k] = float64(d-i) / float64(d-b)
			}
		}
		if a == b && b >= 0 && b < bins {
			w[b*bands+k] = 1
		}
	}
	return c.floatsConst(c.dtypeAttr("output_datatype", ir.F32), w, bins, bands)
}
