package interp

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// maxAxes is the number of axes of every window in this file. If an op has fewer, outer axes of extent 1 are added.
const maxAxes = 3

// window is an ir.Window over exactly maxAxes axes, with the extents of the op's argument and result along them.
type window struct {
	in, out                            [maxAxes]int
	kernel, stride, dilation, low, pad [maxAxes]int // pad is the extent of in with its padding
	axes                               int          // number of given axes
}

// newWindow reads the window of a node, and adds outer axes of extent 1.
func newWindow(c *call) window {
	win := ir.WindowOf(c.node)
	ones := [maxAxes]int{1, 1, 1}
	w := window{in: ones, out: ones, kernel: ones, stride: ones, dilation: ones, pad: ones, axes: len(win.Kernel)}
	in, out := innermost(c.args[0].dims, w.axes), innermost(c.dims, w.axes)
	for i := range w.axes {
		a := maxAxes - w.axes + i
		w.in[a], w.out[a] = in[i], out[i]
		w.kernel[a], w.stride[a], w.dilation[a] = int(win.Kernel[i]), int(win.Stride[i]), int(win.Dilation[i])
		w.low[a] = int(win.Low[i])
		w.pad[a] = in[i] + int(win.Low[i]+win.High[i])
	}
	return w
}

func innermost(dims []int, n int) []int { return dims[len(dims)-n:] }

func volume(n [maxAxes]int) int { return n[0] * n[1] * n[2] }

// coords splits a row-major position into coordinates, given the extents n.
func coords(i int, n [maxAxes]int) [maxAxes]int {
	return [maxAxes]int{i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]}
}

// tap is a pair of an input element and the kernel element that multiplies it, by their row-major positions along the
// window's axes.
type tap struct{ in, kernel int }

// taps appends to list the taps of an output position, in row-major order of the kernel. inputCoord returns the input
// coordinate for an output and a kernel coordinate along an axis, and false if it is outside of the input.
func (w *window) taps(list []tap, position int, inputCoord func(axis, out, k int) (int, bool)) []tap {
	at := coords(position, w.out)
	for k0 := range w.kernel[0] {
		i0, ok0 := inputCoord(0, at[0], k0)
		for k1 := range w.kernel[1] {
			i1, ok1 := inputCoord(1, at[1], k1)
			if !ok0 || !ok1 {
				continue
			}
			for k2 := range w.kernel[2] {
				if i2, ok := inputCoord(2, at[2], k2); ok {
					list = append(list, tap{(i0*w.in[1]+i1)*w.in[2] + i2, (k0*w.kernel[1]+k1)*w.kernel[2] + k2})
				}
			}
		}
	}
	return list
}

// forward maps an output and a kernel coordinate along an axis to the input coordinate, for a convolution or pooling.
// It returns false if that is in the padding.
func (w *window) forward(axis, out, k int) (int, bool) {
	i := out*w.stride[axis] - w.low[axis] + k*w.dilation[axis]
	return i, i >= 0 && i < w.in[axis]
}

// backward maps an output and a kernel coordinate along an axis to the input coordinate, for a transposed convolution.
// It returns false if no input element reaches the output through that kernel element.
func (w *window) backward(axis, out, k int) (int, bool) {
	i := out + w.low[axis] - k*w.dilation[axis]
	if i < 0 || i%w.stride[axis] != 0 {
		return 0, false
	}
	i /= w.stride[axis]
	return i, i < w.in[axis]
}

// positions calls f with the taps of each output position, on several goroutines. The list of taps is valid until f
// returns. inputCoord is the argument of taps, and work is the cost of one position.
func (w *window) positions(c *call, work int, inputCoord func(axis, out, k int) (int, bool),
	f func(position int, taps []tap)) error {
	return c.parallelRange(volume(w.out), work, func(lo, hi int) {
		var list []tap
		for p := lo; p < hi; p++ {
			list = w.taps(list[:0], p, inputCoord)
			f(p, list)
		}
	})
}

// conv computes op conv. A transposed convolution differs only in the mapping of coordinates, and in the order of the
// weight's channel axes.
func conv(c *call) (value, error) {
	if c.args[0].i64 != nil {
		return convInts(c)
	}
	sums, err := convWith(c)
	return c.floats(sums), err
}

// convWith returns the elements of a convolution before rounding.
func convWith(c *call) ([]float64, error) {
	w := newWindow(c)
	perGroup := c.args[1].dims[1]
	return w.convolve(c, w.forward, func(in, out int) int { return out*perGroup + in%perGroup })
}

// convInts convolves 8-bit integers. float64 represents the sums exactly, as in matmulInts. To pad with v, it subtracts
// v from x, pads with 0, and adds v times the sum of the weights.
func convInts(c *call) (value, error) {
	paddingValue := float64(c.attrs().Int("padding_value"))
	x, weights := fromInts(c.args[0].i64), fromInts(c.args[1].i64)
	for i := range x {
		x[i] -= paddingValue
	}
	c.args[0].f64, c.args[1].f64 = x, weights
	sums, err := convWith(c)
	if err != nil {
		return value{}, err
	}
	channels, positions := c.dims[1], elems(c.dims[2:]) // of the result
	padded := make([]float64, channels)
	for i, w := range weights { // the weight's outermost axis is the channels of the result
		padded[i*channels/len(weights)] += float64(paddingValue * w)
	}
	out := make([]int64, len(sums))
	for i, s := range sums {
		out[i] = int64(s + padded[i/positions%channels])
	}
	return c.ints(out), nil
}

// convTranspose computes op conv_transpose.
func convTranspose(c *call) (value, error) {
	w := newWindow(c)
	perGroup := c.args[1].dims[1]
	sums, err := w.convolve(c, w.backward, func(in, out int) int { return in*perGroup + out%perGroup })
	return c.floats(sums), err
}

// convolve returns the elements of a convolution before rounding. It adds up the terms of an element in order: by
// channel of the element's group, and then by position in the kernel. inputCoord is the argument of taps. weight
// returns the index of the kernel that connects an input channel to an output channel.
func (w *window) convolve(c *call, inputCoord func(axis, out, k int) (int, bool),
	weight func(in, out int) int) ([]float64, error) {
	x, weights := c.args[0].floats(), c.args[1].floats()
	batch, inChannels, outChannels := c.dims[0], c.args[0].dims[1], c.dims[1]
	groups := c.attrs().Int("groups")
	inPerGroup, outPerGroup := inChannels/groups, outChannels/groups
	inSize, outSize, kernelSize := volume(w.in), volume(w.out), volume(w.kernel)
	result := make([]float64, elems(c.dims))
	work := batch * outChannels * inPerGroup * kernelSize
	err := w.positions(c, work, inputCoord, func(p int, taps []tap) {
		for n := range batch {
			for o := range outChannels {
				first := o / outPerGroup * inPerGroup
				acc := 0.0
				for ch := first; ch < first+inPerGroup; ch++ {
					// plane is the channel's part of the image, and k the kernel between the two channels.
					plane, k := x[(n*inChannels+ch)*inSize:], weights[weight(ch, o)*kernelSize:]
					for _, t := range taps {
						acc += float64(plane[t.in] * k[t.kernel])
					}
				}
				result[(n*outChannels+o)*outSize+p] = acc
			}
		}
	})
	return result, err
}

// avgPool computes op avg_pool: the mean of each window.
func avgPool(c *call) (value, error) {
	w := newWindow(c)
	includePad := c.attrs().Bool("count_include_pad")
	x, out := c.args[0].floats(), make([]float64, elems(c.dims))
	inSize, outSize := volume(w.in), volume(w.out)
	err := w.positions(c, volume(w.kernel)*max(1, len(x)/max(inSize, 1)), w.forward, func(p int, taps []tap) {
		count := len(taps)
		if includePad { // padding counts as elements of value 0
			count = w.padded(p)
		}
		for i := range len(out) / outSize {
			acc := 0.0
			for _, t := range taps {
				acc += x[i*inSize+t.in]
			}
			out[i*outSize+p] = acc / float64(count)
		}
	})
	return c.floats(out), err
}

// padded returns the number of elements of a position's window that are in the input or its padding.
func (w *window) padded(position int) int {
	n := 1
	for axis, at := range coords(position, w.out) {
		start, step := at*w.stride[axis], w.dilation[axis]
		end := min(start+(w.kernel[axis]-1)*step+1, w.pad[axis])
		n *= (end - start + step - 1) / step // every step-th position from start to end-1
	}
	return n
}

// maxPool computes op max_pool.
func maxPool(c *call) (value, error) {
	x := c.args[0]
	if x.typ.IsFloat() {
		out := make([]float64, elems(c.dims))
		err := poolMax(c, x.floats(), out, math.Inf(-1))
		return c.floats(out), err
	}
	out := make([]int64, elems(c.dims))
	lowest, _ := ir.IntRange(x.typ)
	err := poolMax(c, x.i64, out, lowest)
	return c.ints(out), err
}

// poolMax sets out to the largest element of each window of x (NaN if a window has one), or to lowest for a window
// without elements.
func poolMax[T float64 | int64](c *call, x, out []T, lowest T) error {
	w := newWindow(c)
	inSize, outSize := volume(w.in), volume(w.out)
	return w.positions(c, volume(w.kernel)*max(1, len(x)/max(inSize, 1)), w.forward, func(p int, taps []tap) {
		for i := range len(out) / outSize { // for each image and channel
			acc := lowest
			for _, t := range taps {
				acc = max(acc, x[i*inSize+t.in])
			}
			out[i*outSize+p] = acc
		}
	})
}
