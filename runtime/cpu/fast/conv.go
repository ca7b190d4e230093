package fast

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A convolution adds up terms: a term is the product of one element of the kernel with an element of one channel of
// the input. With stride 1, neighbouring results read neighbouring elements of the input, at an offset that depends
// only on the term. So a vector holds neighbouring results. A tile of a few vectors for each of 4 output channels has
// its sums in registers.
//
// To have this for every convolution, a task first copies its part of the input, with zeros for the padding. If the
// stride along an axis is more than 1, the copy has an image for each remainder of the coordinates by the stride: in
// an image, coordinates with that remainder are neighbours. The rows of a copy follow each other, so a tile may
// reach over several rows; results between rows are not used.
//
// A depthwise convolution uses each element only a few times. So with a stride of 2 along the last axis, its copy has
// the rows as they are, and tiles read every second element.

// convolution is the kernel of a convolution and of the elementwise ops after it.
type convolution struct {
	node      *ir.Node
	after     *epilogue    // nil if there is none
	before    *convolution // a depthwise convolution that computes the input; nil if there is none
	phases    []convPhase
	shape     atomic.Pointer[[]*convShape]   // of the last run, by phase
	separable atomic.Pointer[separableShape] // of the last run, if there is a convolution before
}

// winogradOf returns the sizes of the convolution by Winograd's algorithm, or nil if it is computed directly.
func (f *convolution) winogradOf(x, out []int) *winograd {
	if !byWinograd(f.node) {
		return nil
	}
	return newWinograd(f.node, x, out)
}

// mayUseWinograd reports whether Winograd's algorithm may compute the convolution, for some extents of the input.
func (f *convolution) mayUseWinograd() bool {
	x, errX := f.node.Arg(0).Shape().Eval(nil)
	out, err := f.node.Shape().Eval(nil)
	if errX != nil || err != nil {
		return byWinograd(f.node)
	}
	return f.winogradOf(x, out) != nil
}

// convPhase is a part of the results of a convolution. A convolution has one phase. A transposed convolution has a
// phase for each combination of the remainders of the results' coordinates by the strides. The results of a phase
// use only some elements of the kernel, its taps, and are computed like a convolution with stride 1.
type convPhase struct {
	remainders [3]int   // by axis
	taps       []int    // the kernel's elements, by their row-major positions
	axes       [3][]int // the kernel's coordinates along each axis, of which the taps are all combinations
}

// channelBlock is the number of channels of the result that have their weights next to each other in memory.
const channelBlock = 4

// convolves reports whether a node has the given op, a kind of convolution, and floats that float32 represents.
func convolves(n *ir.Node, op ir.Op) bool { return n.Op() == op && isNarrow(n.DType()) && narrow(n) }

// phasesOf returns the phases of a convolution, see convPhase. A tap is in the phase that has, along each axis, the
// remainder of the tap's coordinate times the dilation.
func phasesOf(n *ir.Node) (list []convPhase) {
	window := ir.WindowOf(n)
	// Axes that the op lacks have extent 1. The strides stay 1 for a convolution, which has one phase.
	kernel, stride, dilation := [3]int{1, 1, 1}, [3]int{1, 1, 1}, [3]int{1, 1, 1}
	for i, first := 0, 3-len(window.Kernel); i < len(window.Kernel); i++ {
		kernel[first+i] = int(window.Kernel[i])
		if n.Op() == ir.OpConvTranspose {
			stride[first+i], dilation[first+i] = int(window.Stride[i]), int(window.Dilation[i])
		}
	}
	for i := range volume(stride[:]) {
		p := convPhase{remainders: [3]int{i / (stride[1] * stride[2]), i / stride[2] % stride[1], i % stride[2]}}
		for axis := range p.axes {
			for k := range kernel[axis] {
				if k*dilation[axis]%stride[axis] == p.remainders[axis] {
					p.axes[axis] = append(p.axes[axis], k)
				}
			}
		}
		for _, d := range p.axes[0] {
			for _, h := range p.axes[1] {
				for _, w := range p.axes[2] {
					p.taps = append(p.taps, (d*kernel[1]+h)*kernel[2]+w)
				}
			}
		}
		list = append(list, p)
	}
	return list
}

// depthwise reports whether a node is a convolution in which each output channel depends on one input channel, and
// each input channel is used once.
func depthwise(n *ir.Node) bool {
	if len(n.Args()) == 1 { // a pool
		return false
	}
	shape := n.Arg(1).Shape()
	return shape[1].Add == 1 && shape[0].Add == int64(n.Attrs().Int("groups"))
}

// pack returns the weights, with extents dims, in the order of use: by phase, by group, by block of channels, by
// term, and by channel of the block. The terms are padded with zeros to a multiple of 8. A depthwise convolution has
// no blocks or padding, and one channel per group. One more element is 0 if all weights are finite, and otherwise
// NaN.
func (f *convolution) pack(weights []float32, dims []int) []float32 {
	groups := f.node.Attrs().Int("groups")
	in, out := dims[1], dims[0]/groups // channels of a group
	if f.node.Op() == ir.OpConvTranspose {
		in, out = dims[0]/groups, dims[1]
	}
	size := 0
	for _, p := range f.phases {
		size += f.packedSize(groups, out, in*len(p.taps))
	}
	packed := make([]float32, size+1)
	rest := packed
	for _, p := range f.phases {
		terms := in * len(p.taps)
		if terms > 0 {
			f.packPhase(rest, weights, p, groups, in, out, volume(dims[2:]))
		}
		rest = rest[f.packedSize(groups, out, terms):]
	}
	notFinite := func(x float32) bool { return x-x != 0 }
	if slices.ContainsFunc(weights, notFinite) {
		packed[size] = float32(math.NaN())
	}
	return packed
}

// packPhase packs the weights of a phase for pack. A group has `in` input channels and `out` output channels, and each
// pair of them has `kernel` weights.
func (f *convolution) packPhase(packed, weights []float32, p convPhase, groups, in, out, kernel int) {
	terms := in * len(p.taps)
	for g := range groups {
		for o := range out {
			to, step := packed[g*terms:], 1 // where the channel's terms go, and their distance
			if !depthwise(f.node) {
				block := g*blocksOf(out) + o/channelBlock
				to, step = packed[block*paddedTerms(terms)*channelBlock+o%channelBlock:], channelBlock
			}
			if f.node.Op() == ir.OpConv { // weights [group, out, in, kernel]: the terms follow each other
				for i, x := range weights[(g*out+o)*in*kernel:][:terms] {
					to[i*step] = x
				}
				continue
			}
			for c := range in { // weights [group, in, out, kernel]
				from := weights[((g*in+c)*out+o)*kernel:]
				for i, tap := range p.taps {
					to[(c*len(p.taps)+i)*step] = from[tap]
				}
			}
		}
	}
}

// packConstant returns packed weights, and after them the weights for Winograd's algorithm if that may be used.
func (f *convolution) packConstant(weights []float32, dims []int) []float32 {
	packed := f.pack(weights, dims)
	if f.mayUseWinograd() {
		packed = append(packed, packWinograd(weights, dims[1], dims[0])...)
	}
	return packed
}

// packedSize returns the number of elements of the packed weights of a phase. A group has `out` output channels, and
// each of their sums has `terms` terms.
func (f *convolution) packedSize(groups, out, terms int) int {
	if depthwise(f.node) {
		return groups * terms
	}
	return groups * blocksOf(out) * paddedTerms(terms) * channelBlock
}

// blocksOf returns the number of blocks of the given number of channels.
func blocksOf(channels int) int { return ceil.Div(channels, channelBlock) }

// paddedTerms returns the number of terms of packed weights for the given number of terms.
func paddedTerms(terms int) int { return ceil.Multiple(terms, 8) }

// convAxis describes an axis along which the window moves.
type convAxis struct {
	in, out, kernel  int // extents of the input, of the phase's part of the result, and of the kernel
	stride, dilation int
	low              int // padding before the input

	// The phase's coordinate i is the result's coordinate first + i*step.
	first, step int

	// An image has the coordinates of the padded input with the same remainder by the stride.
	images []int // the remainders
	image  []int // by coordinate of the kernel: the index of the image that it reads
	shift  []int // by coordinate of the kernel: result i reads element i+shift of the image
	reach  int   // the largest shift
}

// newConvAxis returns a with its images. For example, with stride 2 and a kernel of 3, the kernel's coordinates 0 and 2
// read the image of even coordinates, with shifts 0 and 1, and coordinate 1 reads the image of odd coordinates. So
// consecutive results read consecutive elements of an image.
func newConvAxis(a convAxis) convAxis {
	for k := range a.kernel {
		at := k * a.dilation
		i := slices.Index(a.images, at%a.stride)
		if i < 0 {
			i = len(a.images)
			a.images = append(a.images, at%a.stride)
		}
		a.image, a.shift = append(a.image, i), append(a.shift, at/a.stride)
		a.reach = at / a.stride
	}
	a.step = 1
	return a
}

// newTransposedAxis returns the axis of a phase of a transposed convolution, in the form of a convolution with stride
// 1. a is the axis of the transposed convolution. The phase has the result's coordinates for which the coordinate plus
// the padding has the given remainder by the stride. They use only the kernel's coordinates in the list kernel.
func newTransposedAxis(a convAxis, remainder int, kernel []int) convAxis {
	t := convAxis{in: a.in, kernel: len(kernel), stride: 1, dilation: 1, step: a.stride, images: []int{0}}
	t.first = ((remainder-a.low)%a.stride + a.stride) % a.stride
	t.out = max(0, ceil.Div(a.out-t.first, a.stride))
	minimum := 0
	for i, k := range kernel {
		shift := (t.first + a.low - k*a.dilation) / a.stride // exact
		t.image, t.shift = append(t.image, 0), append(t.shift, shift)
		if i == 0 || shift < minimum {
			minimum = shift
		}
	}
	for i := range t.shift {
		t.shift[i] -= minimum
		t.reach = max(t.reach, t.shift[i])
	}
	t.low = -minimum
	return t
}

// at returns the input's coordinate for coordinate out of the result and coordinate k of the kernel. It may be in the
// padding.
func (a *convAxis) at(out, k int) int {
	return (out+a.shift[k])*a.stride + a.images[a.image[k]] - a.low
}

// unpadded returns which of the n coordinates of an image from `first` on are not padding: numbers lo to hi-1 of them.
// It also returns the input's coordinate for number lo. image is an index of a.images.
func (a *convAxis) unpadded(image, first, n int) (lo, hi, from int) {
	start := first*a.stride + a.images[image] - a.low // the input's coordinate
	if start < 0 {
		lo = ceil.Div(-start, a.stride)
	}
	hi = min(n, ceil.Div(a.in-start, a.stride))
	if start >= a.in || lo >= hi {
		return 0, 0, 0
	}
	return lo, hi, start + lo*a.stride
}

// whole is unpadded for a row that is not split into images: the row has n*stride elements from coordinate first*stride
// on.
func (a *convAxis) whole(first, n int) (lo, hi, from int) {
	start := first*a.stride - a.low
	lo, hi = max(0, -start), min(n*a.stride, a.in-start)
	if lo >= hi {
		return 0, 0, 0
	}
	return lo, hi, start + lo
}

// convShape has the parameters of a convolution of an input of given extents, and how it is divided into tasks.
type convShape struct {
	dims     []int // of the input
	workers  int
	winograd *winograd // nil if the results are computed directly

	batch, groups int
	inPer, outPer int         // channels of the input and of the result in a group
	terms         int         // terms in a sum
	axes          [3]convAxis // outer axes of extent 1 are added

	out          [3]int     // extents of the result
	strided      bool       // the results are not neighbours
	single       bool       // results are computed one position at a time, because there are only a few
	direct       bool       // the input is used in place: no copy is necessary
	depthwise    bool       // see the function of this name
	input        *convShape // of the depthwise convolution that computes a task's input; nil if memory has the input
	rows, cols   int        // extents of a task's part along the last two axes of the result
	channels     int        // number of channels in a task
	units        int        // number of pairs of an image and a group in a task
	step         int        // distance in a copy between the elements for neighbouring positions: 1 or 2
	width, plane int        // distance between rows of a copy, in positions, and between its planes, in elements
	copySize     int        // elements of a copy
	offsets      []int32
}

// tasksPerWorker is the desired number of tasks per worker. With several, no worker waits for long at the end.
const tasksPerWorker = 2

// taskElems is the number of elements that a task works on: its copy of a part of the input, and the results for it.
// They should fit in a core's L2 cache. Tests change it.
var taskElems = 1 << 17

// newConvShape returns the parameters for an input of extents x and a result of extents out. If tasks compute the
// input by a depthwise convolution, `input` has the parameters of that one; otherwise it is nil.
func newConvShape(n *ir.Node, p convPhase, groups int, x, out []int, workers int, input *convShape) *convShape {
	w, axes := ir.WindowOf(n), len(x)-2
	s := &convShape{dims: slices.Clone(x), workers: workers, batch: x[0], groups: groups, step: 1, input: input,
		depthwise: depthwise(n)}
	s.inPer, s.outPer = x[1]/s.groups, out[1]/s.groups
	for i := range s.axes {
		a := convAxis{in: 1, out: 1, kernel: 1, stride: 1, dilation: 1}
		if j := i - (len(s.axes) - axes); j >= 0 {
			a = convAxis{in: x[2+j], out: out[2+j], kernel: int(w.Kernel[j]), stride: int(w.Stride[j]),
				dilation: int(w.Dilation[j]), low: int(w.Low[j])}
		}
		s.out[i] = a.out
		if n.Op() == ir.OpConvTranspose {
			s.axes[i] = newTransposedAxis(a, p.remainders[i], p.axes[i])
			s.strided = s.strided || s.axes[i].step > 1
		} else {
			s.axes[i] = newConvAxis(a)
		}
	}
	size := 1
	s.terms, s.direct = s.inPer, input == nil
	for _, a := range s.axes {
		size *= a.out
		s.terms *= a.kernel
		s.direct = s.direct && a.kernel == 1 && a.stride == 1 && a.in == a.out && a.low == 0
	}
	s.channels, s.units = s.outPer, 1
	// A kernel of one element has no neighbours, so all positions become one axis.
	if s.direct && !s.strided {
		one := newConvAxis(convAxis{in: 1, out: 1, kernel: 1, stride: 1})
		s.axes = [3]convAxis{one, one, newConvAxis(convAxis{in: size, out: size, kernel: 1, stride: 1})}
		s.out = [3]int{1, 1, size}
	}
	s.direct = s.direct && !s.strided && !s.conflicts(size)
	if s.single = size < lanes || s.terms == 0; s.single {
		s.usePositions()
		return s
	}
	if n.Op() == ir.OpConv && s.depthwise && s.axes[2].stride == 2 {
		s.step = 2
	}
	s.tile()
	s.divide()
	s.setOffsets()
	if !s.fits() {
		s.usePositions()
	}
	return s
}

// conflicts reports whether the channels of the input compete for the same part of the cache, because there are many
// channels, and a channel has a multiple of 512 bytes. Then a copy with other distances is faster. plane is the number
// of elements of a channel.
func (s *convShape) conflicts(plane int) bool { return plane*4%512 == 0 && s.inPer > 16 }

// usePositions makes the convolution compute its results one position at a time.
func (s *convShape) usePositions() {
	s.single, s.direct = true, false
	s.rows, s.cols = s.axes[1].out, s.axes[2].out
	s.channels, s.units = s.outPer, 1
	if s.axes[0].out*s.rows*s.cols > 0 {
		s.divide()
	}
}

// tile sets rows and cols to the largest extents of a task's part that fits in the cache: whole rows if at least two
// fit, and otherwise a part of one row. A part has planes*(rows+high.reach)*(cols+wide.reach) elements of the input,
// and outPer*rows*cols results, or a few more.
func (s *convShape) tile() {
	high, wide := &s.axes[1], &s.axes[2]
	planes := s.planes() * s.step
	width := wide.out + wide.reach
	s.cols = wide.out
	s.rows = (taskElems - planes*high.reach*width) / ((planes + s.outPer) * width)
	s.rows = min(max(s.rows, 1), high.out)
	if s.rows > 1 {
		s.rows = evenParts(high.out, s.rows)
		return
	}
	minimum := 4 * tileVectors * lanes // several tiles
	s.cols = (taskElems - planes*(1+high.reach)*wide.reach) / (planes*(1+high.reach) + s.outPer)
	s.cols = evenParts(wide.out, min(max(s.cols, minimum), wide.out))
}

// evenParts returns the size of the parts if n is divided into as few parts as possible, of about equal size and at
// most `most` each.
func evenParts(n, most int) int {
	parts := ceil.Div(n, most)
	return ceil.Div(n, parts)
}

// divide makes parts smaller until there are enough tasks for all workers. If there is one part, which is tiny, a task
// computes several units.
func (s *convShape) divide() {
	work := s.rows * s.cols * s.terms * s.outPer
	want, units := tasksPerWorker*s.workers, s.batch*s.groups
	if s.workers == 1 || work*s.parts()*units/lanes < 1<<14 {
		want = 1 // too little work to share
	}
	if want > 1 {
		tasks, best, least := units*s.parts(), *s, math.Inf(1)
		if tasks >= want { // without a split, some workers may have one more than the others
			least = s.price()
		}
		missing := ceil.Div(max(want, ceil.Multiple(tasks, s.workers)), tasks) // parts to make of each
		for along := missing; along > 0; along-- {
			of := *s
			of.split(along, ceil.Div(missing, along))
			if price := of.price(); price < least {
				best, least = of, price
			}
		}
		s.rows, s.cols, s.channels = best.rows, best.cols, best.channels
	}
	if s.parts() == 1 {
		// A task computes several whole units.
		const minimum = 1 << 16 // multiply-adds of a task
		s.units = min(max(1, minimum/max(work, 1)), max(1, units/want))
	}
}

// split divides each part into smaller ones: into at most `along` ones along the positions, times at most `channels`
// ones along the channels.
func (s *convShape) split(along, channels int) {
	high, wide := &s.axes[1], &s.axes[2]
	const positions, blocks = 6 * lanes, 2 // at least, in a part
	switch {
	case along == 1 || s.single:
	case high.out == 1:
		s.cols = evenParts(wide.out, max(ceil.Div(s.cols, along), positions))
	default:
		minimum := ceil.Div(positions, s.cols)
		s.rows = evenParts(high.out, min(s.rows, max(ceil.Div(s.rows, along), minimum)))
	}
	if all := blocksOf(s.outPer); channels > 1 && all > 1 && s.input == nil {
		s.channels = channelBlock * evenParts(all, max(ceil.Div(all, channels), blocks))
	}
}

// price estimates the cycles that the worker with the most parts takes. In a tile, each multiply-add waits for the
// multiply-add of the term before. So a tile of one vector takes as long as a tile of two.
func (s *convShape) price() float64 {
	const copied, multiplied = 8, 2 // per cycle: copied elements, and vectors multiplied by a weight
	tasks := s.batch * s.groups * s.parts()
	read := s.inPer * s.axes[0].kernel * (s.rows + s.axes[1].reach) * s.axes[1].stride * s.cols * s.axes[2].stride
	vectors := max(vectorsOf(s.rows*(s.cols+s.axes[2].reach)), 2)
	products := vectors * s.terms * blocksOf(s.channels) * channelBlock
	each := float64(read)/copied + float64(products)/multiplied
	return float64(ceil.Div(tasks, s.workers)) * each
}

// parts returns the number of parts of the result for an image and a group.
func (s *convShape) parts() int {
	high, wide := &s.axes[1], &s.axes[2]
	return s.axes[0].out * ceil.Div(high.out, s.rows) * ceil.Div(wide.out, s.cols) *
		ceil.Div(s.outPer, s.channels)
}

// setOffsets sets the offset in bytes of each term's elements in the copy of a part, or in the input if it is not
// copied. It also sets the size of the copy, and the distances in it.
func (s *convShape) setOffsets() {
	s.offsets = make([]int32, 0, s.terms)
	if s.direct {
		s.width = s.cols
		for ch := range s.inPer {
			s.offsets = append(s.offsets, int32(4*ch*s.axes[2].in))
		}
		return
	}
	deep, high, wide := &s.axes[0], &s.axes[1], &s.axes[2]
	shared := 0 // elements of padding before a row that are also the padding after the row before
	if s.cols == wide.out {
		shared = wide.reach
		for i := range wide.images {
			lo, hi, _ := wide.unpadded(i, 0, wide.out+wide.reach)
			shared = min(shared, lo, wide.out+wide.reach-hi)
		}
	}
	s.width = s.cols + wide.reach - shared
	const line = 16 // elements of a cache line
	lines := ceil.Div(((s.rows+high.reach)*s.width+shared)*s.step, line)
	s.plane = (lines | 1) * line // an odd number of lines: planes do not compete for the same part of the cache
	s.copySize = s.planes()*s.plane + lanes*s.step
	for ch := range s.inPer {
		for d := range deep.kernel {
			for h := range high.kernel {
				for w := range wide.kernel {
					plane, at := (ch*deep.kernel+d)*len(high.images)+high.image[h], 0
					if s.step == 1 {
						plane = plane*len(wide.images) + wide.image[w]
					} else {
						at = wide.images[wide.image[w]]
					}
					at += s.step * (high.shift[h]*s.width + wide.shift[w])
					s.offsets = append(s.offsets, int32(4*(plane*s.plane+at)))
				}
			}
		}
	}
}

// planes returns the number of planes in a copy.
func (s *convShape) planes() int {
	n := s.inPer * s.axes[0].kernel * len(s.axes[1].images)
	if s.step == 1 {
		n *= len(s.axes[2].images)
	}
	return n
}

// fits reports whether the offsets of all terms, in bytes, fit in 32 bits.
func (s *convShape) fits() bool {
	const most = 1<<29 - 1<<10 // elements
	return s.direct && s.inPer*s.axes[2].in < most || !s.direct && s.copySize < most
}

// compute implements interp.Kernel.Compute.
func (f *convolution) compute(c *interp.Call) error {
	r := f.run(c, c.Args, c.Dims)
	defer r.epilogue.end()
	r.all, r.weights = r.epilogue.out, f.packed(c.Args[1])
	if f.before != nil {
		return r.computeBoth()
	}
	return r.compute()
}

// run returns a run with a result of extents out. args begins with the input and ends with the arguments of the
// epilogue. The caller sets the result and the weights, and ends the epilogue.
func (f *convolution) run(c *interp.Call, args []interp.Tensor, out []int) *convRun {
	return &convRun{convolution: f, call: c, x: args[0].Floats, dims: args[0].Dims, outDims: out,
		outSize: volume(out[2:]), epilogue: f.after.run(c, args, out)}
}

// packed returns the packed weights of an argument.
func (f *convolution) packed(w interp.Tensor) []float32 {
	if w.Packed != nil {
		return w.Packed
	}
	return f.pack(w.Floats, w.Dims)
}

// compute computes the whole result of a convolution whose input is in memory, on several workers: by Winograd's
// algorithm, if that is faster and all numbers are finite, or else phase by phase.
func (r *convRun) compute() error {
	shapes := r.shapes(r.dims, r.outDims, r.call.Workers())
	sizes, all := make([]int, len(shapes)), 0 // of the packed weights, by phase and of all phases
	for i, s := range shapes {
		sizes[i] = r.packedSize(s.groups, s.outPer, s.inPer*len(r.phases[i].taps))
		all += sizes[i]
	}
	// Weights that are not finite do not count in the padding, but 0 times them is NaN.
	r.skipPadding = r.weights[all] != 0
	forWinograd := r.weights[all+1:]
	if s := shapes[0]; len(forWinograd) > 0 && s.winograd != nil {
		r.convShape = s
		if r.finite() {
			return s.winograd.compute(r, forWinograd)
		}
	}
	for i, s := range shapes {
		r.convShape = s
		if s.axes[0].out*s.axes[1].out*s.axes[2].out > 0 {
			if r.skipPadding && !s.single {
				byPosition := *s
				byPosition.usePositions()
				r.convShape = &byPosition
			}
			if err := r.parallel(); err != nil {
				return err
			}
		}
		r.weights = r.weights[sizes[i]:]
	}
	return nil
}

// shapes returns the parameters of all phases. It keeps those of the last call, because most calls have equal extents.
func (f *convolution) shapes(x, out []int, workers int) []*convShape {
	if list := f.shape.Load(); list != nil && slices.Equal((*list)[0].dims, x) && (*list)[0].workers == workers {
		return *list
	}
	var list []*convShape
	for _, p := range f.phases {
		list = append(list, newConvShape(f.node, p, f.node.Attrs().Int("groups"), x, out, workers, nil))
	}
	list[0].winograd = f.winogradOf(x, out)
	f.shape.Store(&list)
	return list
}

// parallel computes all parts of the result, in parallel tasks.
func (r *convRun) parallel() error {
	parts, units := r.parts(), r.batch*r.groups
	tasks := ceil.Div(units, r.units) * parts
	work := r.units * r.rows * r.cols * r.terms * r.channels / lanes
	return r.call.Parallel(tasks, work, func(worker, task int) {
		first := task / parts * r.units
		for unit := first; unit < min(first+r.units, units); unit++ {
			r.part(worker, unit, task%parts)
		}
	})
}

// convRun is one run of a convolution.
type convRun struct {
	*convolution
	*convShape
	call        *interp.Call
	x           []float32
	dims        []int     // of x
	outDims     []int     // of the result
	weights     []float32 // packed, unless the convolution is depthwise
	all         []float32 // the result
	source      *convRun  // computes the input of each task; nil if x has the input
	epilogue    *epilogueRun
	outSize     int      // elements of a channel of the result
	pool        *pooling // computes the results of a pool instead of a convolution's; nil for a convolution
	padding     float32  // the value of elements in the padding
	skipPadding bool     // terms in the padding are left out
}

// part computes one part of the result. unit is the number of the pair of an image and a group. part is the number of
// the part: parts count blocks of channels innermost, then blocks of columns, blocks of rows, and depths.
func (r *convRun) part(worker, unit, part int) {
	high, wide := &r.axes[1], &r.axes[2]
	blocks := ceil.Div(r.outPer, r.channels)
	channel := part % blocks * r.channels
	part /= blocks
	across := ceil.Div(wide.out, r.cols)
	col := part % across * r.cols
	part /= across
	down := ceil.Div(high.out, r.rows)
	row := part % down * r.rows
	depth := part / down
	p := convPart{convRun: r, worker: worker, unit: unit, depth: depth, row: row, col: col, channel: channel,
		rows: min(r.rows, high.out-row), cols: min(r.cols, wide.out-col), channels: min(r.channels, r.outPer-channel)}
	p.place()
	p.out = r.all[(unit*r.outPer+channel)*r.outSize:][:p.channels*r.outSize]
	if r.single {
		p.columns(worker)
		return
	}
	p.tiles(worker)
}

// place sets the fields that follow from the part's coordinates and extents.
func (p *convPart) place() {
	deep, high, wide := &p.axes[0], &p.axes[1], &p.axes[2]
	p.inSize = deep.in * high.in * wide.in
	if p.source == nil {
		p.input = p.x[p.unit*p.inPer*p.inSize:][:p.inPer*p.inSize]
	}
	out := &p.convShape.out
	p.first = ((deep.first+p.depth*deep.step)*out[1]+high.first+p.row*high.step)*out[2] + wide.first + p.col*wide.step
}

// convPart is a part of the result that a task computes.
type convPart struct {
	*convRun
	unit                        int       // number of the image and the group
	depth, row, col, rows, cols int       // first coordinates in the result's phase, and extents
	channel, channels           int       // first channel within the group, and number of channels
	input                       []float32 // the group's channels
	inSize                      int       // elements of a channel of the input
	out                         []float32 // the part's channels of the result, with all their positions
	first                       int       // index of the part's first position in each of these channels
	worker                      int
}

// tiles computes the part by tiles of neighbouring positions.
func (p *convPart) tiles(worker int) {
	positions := (p.rows-1)*p.width + p.cols
	// Tiles are computed in the memory of the result if they have no elements between rows, and whole blocks of
	// channels.
	noGaps := p.convShape.direct || p.rows == 1 || p.width == p.cols
	single := p.pool != nil || p.depthwise // one channel at a time
	inPlace := !p.strided && noGaps && positions >= lanes && (p.channels%channelBlock == 0 || single)
	stride, scratch := p.outSize, 0 // the distance between channels in sums, and elements of sums not in place
	if !inPlace {
		stride = ceil.Multiple(positions, lanes)
		scratch = blocksOf(p.channels) * channelBlock * stride
	}
	room := p.call.Room(worker, p.copySize+max(scratch, p.inputRoom()))
	in, sums := room[:p.copySize], room[p.copySize:]
	switch {
	case p.direct:
		in = p.input[p.first:]
	case p.source != nil:
		p.computeInput(in, sums)
	default:
		p.copy(in)
	}
	if inPlace {
		sums = p.out[p.first:]
	}
	switch {
	case p.pool != nil:
		p.pool.fold(sums[:positions], in, p.offsets)
	case single:
		convTaps(sums, in, p.offsets, p.groupWeights(), positions, p.step)
	default:
		p.multiplyTiles(sums, stride, in, positions)
	}
	switch {
	case p.strided:
		p.storeStrided(sums, stride)
	case !inPlace:
		for ch := range p.channels {
			moveRows(p.out[ch*p.outSize+p.first:], p.cols, sums[ch*stride:], p.width, p.cols, p.rows)
		}
	}
	p.finish()
}

// multiplyTiles sets sums to the results of all channels, stride elements apart, at neighbouring positions.
func (p *convPart) multiplyTiles(sums []float32, stride int, in []float32, positions int) {
	blocks, blockWeights := blocksOf(p.channels), paddedTerms(p.terms)*channelBlock
	convTiles(sums, stride, in, p.offsets, p.groupWeights()[:blocks*blockWeights], blocks, positions)
}

// convTiles computes neighbouring positions for blocks of channels, by tiles; see convTile for the parameters. If there
// are fewer than a vector of positions, it computes a whole vector.
func convTiles(out []float32, stride int, in []float32, offsets []int32, weights []float32, blocks, positions int) {
	skip := len(weights) / blocks
	terms := len(offsets) // at a time
	if terms > 2*tileTerms && vectorsOf(positions) > tileVectors {
		terms = evenParts(terms, tileTerms)
	}
	at, most := 0, min(max(1, positions/lanes), tileVectors)
	for left := vectorsOf(positions); left > 0; {
		vectors := min(left, most)
		if left == tileVectors+1 { // otherwise the last tile would have one vector
			vectors = min(vectors, left/2)
		}
		from := min(at, max(0, positions-vectors*lanes)) // the last tile may repeat some of the positions before
		for term := 0; term < len(offsets); term += terms {
			convTile(vectors, out[from:], stride, in[from:], offsets[term:min(term+terms, len(offsets))],
				weights[term*channelBlock:], skip, blocks, term > 0)
		}
		at, left = at+vectors*lanes, left-vectors
	}
}

// tileVectors is the largest number of vectors of positions in a tile. If several tiles use the weights, tileTerms
// terms are computed at a time: their elements of the input take about half of the L1 cache, and stay there while
// all channels use them. If one tile uses all weights, all terms are computed at once, so that the weights are read
// in order.
const tileVectors, tileTerms = 3, 128

// vectorsOf returns the number of vectors of the given number of positions.
func vectorsOf(positions int) int { return ceil.Div(positions, lanes) }

// storeStrided copies sums to the part's elements of the result. In sums, channels are `stride` elements apart. In
// the result, neighbours of the part are `step` elements apart along each axis.
func (p *convPart) storeStrided(sums []float32, stride int) {
	for ch := range p.channels {
		for y := range p.rows {
			from := sums[ch*stride+y*p.width:][:p.cols]
			to := p.out[ch*p.outSize+p.first+y*p.axes[1].step*p.convShape.out[2]:]
			for x, v := range from {
				to[x*p.axes[2].step] = v
			}
		}
	}
}

// finish applies the epilogue to the part of the result, or divides the sums of an average pool.
func (p *convPart) finish() {
	if p.pool != nil {
		p.pool.divide(p)
		return
	}
	first := (p.unit*p.outPer+p.channel)*p.outSize + p.first
	p.epilogue.apply(p.worker, p.all[first:], p.outSize, first, p.rows*p.cols, p.outSize, p.channels)
}

// copy copies the part of the input under the part's windows to `to`, with the padding around it. The copy has a
// plane for each channel and each combination of images (see convAxis), so that neighbouring results read
// neighbouring elements.
func (p *convPart) copy(to []float32) {
	deep, high, wide := &p.axes[0], &p.axes[1], &p.axes[2]
	height, width := p.rows+high.reach, p.cols+wide.reach
	images := len(wide.images)
	if p.step == 2 { // one image has all elements of the rows
		images = 1
	}
	plane, pitch := 0, p.width*p.step
	for ch := range p.inPer {
		for d := range deep.kernel {
			at := deep.at(p.depth, d)
			for h := range high.images {
				top, bottom, y := high.unpadded(h, p.row, height)
				for w := range images {
					left, right, x := wide.unpadded(w, p.col, width)
					if p.step == 2 {
						left, right, x = wide.whole(p.col, width)
					}
					image := to[plane*p.plane:][:p.plane]
					plane++
					if at < 0 || at >= deep.in || top == bottom || left == right { // all is padding
						fill(image, p.padding)
						continue
					}
					if top > 0 || bottom < height || left > 0 || right < width*p.step {
						fillAround(image, p.padding, top*pitch+left, pitch, right-left, bottom-top)
					}
					from := p.input[ch*p.inSize+((at*high.in)+y)*wide.in+x:]
					moveStrided(image[top*pitch+left:], pitch, from, high.stride*wide.in, wide.stride/p.step,
						right-left, bottom-top)
				}
			}
		}
	}
}

// fillAround sets the elements of a list to x, except `rows` rows of n elements, which are pitch elements apart. The
// first row begins with element number first.
func fillAround(list []float32, x float32, first, pitch, n, rows int) {
	fill(list[:first], x)
	end := first + n // of a row
	for range rows - 1 {
		for i := range list[end : end+pitch-n] { // often only one or two
			list[end+i] = x
		}
		end += pitch
	}
	fill(list[end:], x)
}

// moveStrided copies rows of n elements. In src, elements are `step` apart and rows `from` apart. In dst, elements are
// contiguous and rows `to` apart.
func moveStrided(dst []float32, to int, src []float32, from, step, n, rows int) {
	if step == 1 {
		moveRows(dst, to, src, from, n, rows)
		return
	}
	for r := range rows {
		line, elems := dst[r*to:][:n], src[r*from:]
		if step == 2 {
			done := secondOnes(line, elems)
			line, elems = line[done:], elems[min(2*done, len(elems)):]
		}
		for i := range line {
			line[i] = elems[i*step]
		}
	}
}

// columns computes a part one position at a time: it collects the elements of the position's window, and multiplies
// them by the weights of all channels.
func (p *convPart) columns(worker int) {
	blocks, padded := blocksOf(p.channels), paddedTerms(p.terms)
	room := p.call.Room(worker, padded+blocks*channelBlock)
	terms, sums := room[:padded], room[padded:]
	var inside []bool // by term: whether it is not in the padding
	if p.skipPadding {
		inside = make([]bool, p.terms)
	}
	for y := range p.rows {
		for x := range p.cols {
			fill(terms, p.padding)
			p.window(terms, inside, y, x)
			switch {
			case p.pool != nil:
				sums[0] = p.pool.all(terms[:p.terms])
			case p.skipPadding:
				p.sums(sums, terms, inside)
			case p.depthwise:
				sums[0] = dot(terms[:p.terms], p.groupWeights())
			default:
				convPosition(sums, terms, p.groupWeights()[:blocks*padded*channelBlock])
			}
			for ch := range p.channels {
				p.out[ch*p.outSize+p.first+y*p.axes[1].step*p.convShape.out[2]+x*p.axes[2].step] = sums[ch]
			}
		}
	}
	p.finish()
}

// groupWeights returns the packed weights from the part's first channel on.
func (p *convPart) groupWeights() []float32 {
	group := p.unit % p.groups
	if p.depthwise {
		return p.weights[group*p.terms:][:p.terms]
	}
	return p.weights[(group*blocksOf(p.outPer)+p.channel/channelBlock)*paddedTerms(p.terms)*channelBlock:]
}

// sums computes all channels of a position. It adds up only the terms for which inside is true; the others are in the
// padding.
func (p *convPart) sums(sums, terms []float32, inside []bool) {
	weights := p.groupWeights()
	for ch := range p.channels {
		of, step := weights, 1
		if !p.depthwise {
			of, step = weights[ch/channelBlock*len(terms)*channelBlock+ch%channelBlock:], channelBlock
		}
		sum := float32(0)
		for i, is := range inside {
			if is {
				sum += float32(of[i*step] * terms[i])
			}
		}
		sums[ch] = sum
	}
}

// window sets terms to the input's elements in the window for position y, x of the part. Terms in the padding stay as
// they are. Unless inside is nil, window sets it, by term, to whether the term is not in the padding.
func (p *convPart) window(terms []float32, inside []bool, y, x int) {
	deep, high, wide := &p.axes[0], &p.axes[1], &p.axes[2]
	i := 0
	for ch := range p.inPer {
		for d := range deep.kernel {
			atDeep := deep.at(p.depth, d)
			for h := range high.kernel {
				atHigh := high.at(p.row+y, h)
				for w := range wide.kernel {
					atWide := wide.at(p.col+x, w)
					is := atDeep >= 0 && atDeep < deep.in && atHigh >= 0 && atHigh < high.in && atWide >= 0 &&
						atWide < wide.in
					if is {
						terms[i] = p.input[ch*p.inSize+(atDeep*high.in+atHigh)*wide.in+atWide]
					}
					if inside != nil {
						inside[i] = is
					}
					i++
				}
			}
		}
	}
}

// volume returns the product of extents.
func volume(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// The functions below compute in Go what the assembly does.

// convTilePlain computes in Go what convTile does, for n positions.
func convTilePlain(n int, out []float32, stride int, in []float32, offsets []int32, weights []float32, skip,
	blocks int, add bool) {
	for o := range blocks * channelBlock {
		sums, of := out[o*stride:][:n], weights[o/channelBlock*skip+o%channelBlock:]
		if !add {
			clear(sums)
		}
		for i, offset := range offsets {
			w := of[i*channelBlock]
			for j, x := range in[offset/4:][:n] {
				sums[j] += float32(w * x)
			}
		}
	}
}

// convTapsPlain computes in Go what convTaps does: element j of out is the sum, over the terms i, of weights[i] times
// element offsets[i]/4 + j*step of in.
func convTapsPlain(out, in []float32, offsets []int32, weights []float32, step int) {
	clear(out)
	for i, offset := range offsets {
		for j := range out {
			out[j] += float32(weights[i] * in[int(offset)/4+j*step])
		}
	}
}

// convPositionPlain computes in Go what convPosition does: it sets out to weighted sums of terms, one for each channel.
// The weights are in blocks of channels.
func convPositionPlain(out, terms, weights []float32) {
	clear(out)
	for o := 0; o < len(out) && len(terms) > 0; o++ {
		of := weights[o/channelBlock*len(terms)*channelBlock+o%channelBlock:]
		for i, x := range terms {
			out[o] += float32(of[i*channelBlock] * x)
		}
	}
}

// moveRowsPlain copies rows of n elements in Go, as moveRows does. Rows are `from` elements apart in src, and `to`
// elements apart in dst.
func moveRowsPlain(dst []float32, to int, src []float32, from, n, rows int) {
	for r := range rows {
		copy(dst[r*to:][:n], src[r*from:][:n])
	}
}

// scaleRowsPlain sets rows of n floats to integers times a factor in Go, as scaleRows does. Rows are `from` elements
// apart in src, and `to` elements apart in dst.
func scaleRowsPlain(dst []float32, to int, src []int32, from, n, rows int, factor float32) {
	for r := range rows {
		out := dst[r*to:][:n]
		for i, x := range src[r*from:][:n] {
			out[i] = float32(x) * factor
		}
	}
}
