package fast

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// pooling is the kernel of a max_pool or avg_pool. It reads windows as a depthwise convolution does, and folds their
// elements instead of multiplying them by weights.
type pooling struct {
	node  *ir.Node
	by    *primitive // folds two elements
	shape atomic.Pointer[convShape]
}

// preparePool returns the compute function of a max_pool or avg_pool.
func preparePool(n *ir.Node) func(c *interp.Call) error {
	f := &pooling{node: n, by: primitives["+"]}
	if n.Op() == ir.OpMaxPool {
		f.by = primitives["nan_max"]
	}
	return f.compute
}

// mean reports whether the pool is an avg_pool.
func (f *pooling) mean() bool { return f.node.Op() == ir.OpAvgPool }

// compute implements interp.Kernel.Compute: a pooling is a convolution of each channel by itself, with maxima or sums.
func (f *pooling) compute(c *interp.Call) error {
	x, w := c.Args[0], ir.WindowOf(f.node)
	outer := len(x.Dims) - len(w.Kernel)
	channels := volume(x.Dims[:outer])
	in := append([]int{1, channels}, x.Dims[outer:]...)
	s := f.shape.Load()
	if s == nil || !slices.Equal(s.dims, in) || s.workers != c.Workers() {
		out := append([]int{1, channels}, c.Dims[outer:]...)
		s = newConvShape(f.node, convPhase{}, channels, in, out, c.Workers(), nil)
		f.shape.Store(s)
	}
	r := convRun{convShape: s, call: c, x: x.Floats, all: c.Out, outSize: volume(c.Dims[outer:]), pool: f}
	if !f.mean() {
		r.padding = float32(math.Inf(-1)) // no maximum
	}
	return r.parallel()
}

// fold sets each element of out to the sum or the largest of its window's terms. Term i of element 0 is offsets[i]
// bytes after the start of in, and the terms i of neighbouring elements are neighbours.
func (f *pooling) fold(out, in []float32, offsets []int32) {
	for at := 0; at < len(out); at += block {
		n := min(block, len(out)-at)
		list := out[at : at+n]
		copy(list, in[int(offsets[0])/4+at:])
		for _, offset := range offsets[1:] {
			f.by.apply(list, list, in[int(offset)/4+at:][:n], list)
		}
	}
}

// all returns the fold of a window's terms.
func (f *pooling) all(terms []float32) float32 {
	if !f.mean() {
		return slices.Max(terms) // NaN if one is NaN
	}
	sum := 0.0
	for _, x := range terms {
		sum += float64(x)
	}
	return float32(sum)
}

// divide divides the sums of a part by the number of elements in their windows. It does nothing for maxima.
func (f *pooling) divide(p *convPart) {
	if !f.mean() {
		return
	}
	padded := f.node.Attrs().Bool("count_include_pad")
	high := ir.WindowOf(f.node).High
	deep := p.axes[0].count(p.depth, f.pad(high, 0), padded)
	counts := make([]float32, p.cols)
	for y := range p.rows {
		row := deep * p.axes[1].count(p.row+y, f.pad(high, 1), padded)
		for x := range counts {
			counts[x] = float32(row * p.axes[2].count(p.col+x, f.pad(high, 2), padded))
		}
		out := p.out[p.first+y*p.cols:][:p.cols]
		primitives["/"].apply(out, out, counts, out) // ignores its last argument
	}
}

// pad returns the padding after axis i, where axes are numbered 0 to 2. high has the padding after the axes of the
// window, which are the last of the three.
func (f *pooling) pad(high []int64, i int) int {
	if i -= 3 - len(high); i < 0 {
		return 0
	}
	return int(high[i])
}

// count returns how many elements of a window are in the input. The window is at coordinate `at` of the result. If
// padded is true, count includes elements in the padding, which has `high` elements after the input.
func (a *convAxis) count(at, high int, padded bool) int {
	first, end := 0, a.in
	if padded {
		first, end = -a.low, a.in+high
	}
	n := 0
	for k := range a.kernel {
		if i := a.at(at, k); i >= first && i < end {
			n++
		}
	}
	return n
}
