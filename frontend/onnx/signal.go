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

// cosineWindow returns the vector with elements a0 - a1*cos(2*pi*i/n) + a2*cos(4*pi*i/n). Input 0 is its size. n is the
// size for a periodic window, and otherwise the size minus 1.
func (c *call) cosineWindow(a0, a1, a2 float64) tensor {
	size := c.ints(0)
	if len(size) != 1 || size[0] < 0 || size[0] > maxFolded {
		c.fail("size %v: want one number, at most %d", size, maxFolded)
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

// dft builds DFT, a Fourier transform along one axis. The last axis has extent 1 for real numbers, or 2 for real and
// imaginary parts. With onesided, the transform of real numbers returns the first half of the frequencies, and the
// inverse computes real numbers from that half.
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
		c.fail("it transforms axis %d of %s: want a fixed extent", axis, x)
	}
	complexes := x.Dim(-1).Is(2)
	if onesided && inverse != complexes {
		c.fail("onesided with inverse %v of %s: want real numbers, [..., 1], or for the inverse complex ones, [..., "+
			"2]", inverse, x)
	}
	length := n.Static() // the default
	if onesided && inverse {
		length = 2 * (length - 1)
	}
	if c.has(1) {
		length = c.ints(1)[0]
	}
	if length < 1 || length > ir.MaxTransform {
		c.fail("a transform of %d elements: want 1 to %d", length, ir.MaxTransform)
	}
	switch {
	case onesided && inverse:
		return ofLength(x, axis, length/2+1).IRFFT(axis, length).Unsqueeze(-1)
	case onesided:
		return ofLength(x, axis, length).Index(-1, 0).RFFT(axis)
	}
	x = ofLength(complexOf(x), axis, length)
	if inverse {
		return x.IFFT(axis)
	}
	return x.FFT(axis)
}

// ofLength drops elements at the end of an axis, or appends zeros, so that the axis has the given length.
func ofLength(x tensor, axis, length int) tensor {
	n := x.Dim(axis).Static()
	if length <= n {
		return x.Slice(axis, 0, ir.D(length))
	}
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	high[axis] = length - n
	return x.Pad(low, high, 0)
}

// complexOf returns real numbers [..., 1] as complex numbers [..., 2]. Complex numbers stay.
func complexOf(x tensor) tensor { return ofLength(x, x.Rank()-1, 2) }

// stft builds STFT, Fourier transforms of frames of a signal [N, L, 1], or [N, L, 2] with complex numbers. Each frame
// begins `step` elements (input 1) after the frame before. Input 2 is a window, and input 3 the length of frames.
func stft(c *call) tensor {
	x, step := c.x(0), c.ints(1)
	if x.Rank() == 2 {
		x = x.Unsqueeze(-1)
	}
	if x.Rank() != 3 || !x.Dim(1).IsStatic() || len(step) != 1 || step[0] < 1 {
		c.fail("input %s by steps of %v: want [N, L, 1 or 2] with a fixed L", x, step)
	}
	complexes, onesided := x.Dim(2).Is(2), c.flag("onesided", true)
	if complexes && onesided {
		c.fail("onesided of %s: want real numbers, [N, L, 1]", x)
	}
	length := 0
	switch {
	case c.has(3):
		length = c.ints(3)[0]
	case c.has(2):
		length = c.shapeOf(c.in[2])[0].Static() // the window's length
	}
	if length < 1 || length > x.Dim(1).Static() {
		c.fail("frames of %d elements of %s", length, x)
	}
	frames := (x.Dim(1).Static()-length)/step[0] + 1
	at := make([]int32, frames*length) // the index in x of each element of a frame
	for f := range frames {
		for i := range length {
			at[f*length+i] = int32(f*step[0] + i)
		}
	}
	framed := x.IndexSelect(1, c.b.Const(at)).Reshape(x.Dim(0), frames, length, x.Dim(2))
	if c.has(2) {
		framed = framed.Mul(c.x(2).Unsqueeze(-1))
	}
	if onesided {
		return framed.Index(-1, 0).RFFT(-1)
	}
	return complexOf(framed).FFT(-2)
}

// maxMel is the largest length of a transform, and the largest number of bands, of MelWeightMatrix.
const maxMel = 4096

// melWeights builds MelWeightMatrix, [frequencies of a spectrum, bands]. The bands have equal widths on the mel scale
// (O'Shaughnessy's formula), and triangular weights.
func melWeights(c *call) tensor {
	bands, length, rate := int(c.number(0)), int(c.number(1)), c.number(2)
	low, high := c.number(3), c.number(4)
	bins := length/2 + 1
	if bands < 1 || bands > maxMel || length < 1 || length > maxMel || !(high > low) || !(rate > 0) {
		c.fail("%d bands of a transform of %d elements, %v to %v Hz at %v", bands, length, low, high, rate)
	}
	mel := func(f float64) float64 { return float64(2595 * math.Log10(1+f/700)) }
	edge := make([]int, bands+2) // frequencies, as indices into the spectrum
	for i := range edge {
		m := mel(low) + float64(float64(i)*(mel(high)-mel(low)))/float64(len(edge))
		edge[i] = int(math.Floor(float64(length+1) * 700 * (math.Pow(10, m/2595) - 1) / rate))
	}
	// Band k rises from edge k to edge k+1, and falls to edge k+2.
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
