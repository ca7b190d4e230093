package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// conv computes a convolution by matmuls (im2col). For each group, one matrix has the weights: a row for each output
// channel. The other, the panel, has a row for each of a few windows of the input, with copies of its elements.
func conv(c *interp.Call) error {
	x, weights := c.Args[0], c.Args[1]
	w := windows{Window: ir.WindowOf(c.Node), in: x.Dims[2:], out: c.Dims[2:]}
	batch, channels := c.Dims[0], c.Dims[1]
	groups := c.Node.Attrs().Int("groups")
	inPer, outPer := x.Dims[1]/groups, channels/groups
	inSize, outSize, kernel := volume(w.in), volume(w.out), volume(weights.Dims[2:])
	k := inPer * kernel
	tiles := (outSize + tileCols - 1) / tileCols
	return c.Parallel(batch*tiles, channels*k*tileCols/8, func(worker, task int) {
		n, first := task/tiles, task%tiles*tileCols
		cols := min(tileCols, outSize-first)
		panel := c.Room(worker, cols*k)
		taps := make([][]tap, cols)
		for j := range taps {
			taps[j] = w.taps(first + j)
		}
		for g := range groups {
			planes := x.Floats[(n*groups+g)*inPer*inSize:][:inPer*inSize]
			for j, list := range taps {
				column := panel[j*k : (j+1)*k]
				if len(list) < kernel { // the window reaches into the padding
					clear(column)
				}
				for ch := range inPer {
					plane, at := planes[ch*inSize:(ch+1)*inSize], column[ch*kernel:(ch+1)*kernel]
					for _, t := range list {
						at[t.kernel] = plane[t.in]
					}
				}
			}
			out := c.Out[(n*channels+g*outPer)*outSize+first:]
			of := weights.Floats[g*outPer*k : (g+1)*outPer*k]
			multiply(out, outSize, of, panel, outPer, cols, k)
			for j, list := range taps {
				if len(list) == kernel {
					continue
				}
				for ch := range outPer {
					if sum := &out[ch*outSize+j]; *sum != *sum {
						*sum = withoutPadding(of[ch*k:(ch+1)*k], panel[j*k:(j+1)*k], list, kernel)
					}
				}
			}
		}
	})
}

// withoutPadding returns the dot product of weights and a row of the panel, without the elements in the padding. These
// would make the result NaN if their weight is infinite or NaN, since 0 times such a weight is NaN.
func withoutPadding(weights, column []float32, list []tap, kernel int) (sum float32) {
	for at := 0; at < len(weights); at += kernel {
		for _, t := range list {
			sum += float32(weights[at+t.kernel] * column[at+t.kernel])
		}
	}
	return sum
}

// windows has the parameters of a convolution's windows, and the extents of input and result along the windowed axes.
type windows struct {
	ir.Window
	in, out []int
}

// tap is an element of a window: its row-major positions in the input and in the kernel, both within the windowed axes.
type tap struct{ in, kernel int }

// taps returns the taps in the window of the result element at a row-major position. It leaves out those in the
// padding.
func (w *windows) taps(position int) []tap {
	list := []tap{{}}
	stride := volume(w.out) // the result's stride along the axis
	for axis := range w.out {
		stride /= w.out[axis]
		start := int64(position/stride%w.out[axis])*w.Stride[axis] - w.Low[axis]
		var next []tap
		for _, t := range list {
			for k := range w.Kernel[axis] {
				if i := start + k*w.Dilation[axis]; i >= 0 && i < int64(w.in[axis]) {
					next = append(next, tap{t.in*w.in[axis] + int(i), t.kernel*int(w.Kernel[axis]) + int(k)})
				}
			}
		}
		list = next
	}
	return list
}

// volume returns the product of extents.
func volume(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
