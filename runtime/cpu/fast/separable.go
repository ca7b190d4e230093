package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Image models have many separable convolutions: a depthwise one, and then a pointwise one, with a 1x1 window, that
// combines the channels. One kernel computes both. A task computes some rows of all channels of the depthwise one,
// which stay in the cache, and from them the same rows of the pointwise one. So the depthwise result need not go
// through memory.

// depthwiseBefore returns the depthwise convolution f that computes, with its epilogue, the input of pointwise
// convolution n. args has its input, its weights, and the epilogue's arguments. It returns nil if there is none, or if
// something else uses n's input. It sets absorbed, by ID, for the nodes that f computes.
func (c *chains) depthwiseBefore(n *ir.Node, absorbed []bool) (f *convolution, args []*ir.Node) {
	x, inside := n.Arg(0), slices.Clone(absorbed)
	if !pointwise(n) || c.uses[x.ID()] != 1 || c.constant[x.ID()] || x.DType() != ir.F32 {
		return nil, nil
	}
	inside[x.ID()] = true
	own, e, more := x, (*epilogue)(nil), []*ir.Node(nil)
	if x.Op() != ir.OpConv {
		own, e, more = c.epilogueOf(x, inside)
	}
	if own == nil || !convolves(own, ir.OpConv) || !depthwise(own) || own.DType() != ir.F32 {
		return nil, nil
	}
	copy(absorbed, inside)
	return &convolution{node: own, after: e, phases: phasesOf(own)}, slices.Concat(own.Args(), more)
}

// pointwise reports whether a node is a convolution of which each result depends on one position of the input.
func pointwise(n *ir.Node) bool {
	if n.Op() != ir.OpConv || n.Attrs().Int("groups") != 1 {
		return false
	}
	w := ir.WindowOf(n)
	for axis, k := range w.Kernel {
		if k != 1 || w.Stride[axis] != 1 || w.Low[axis] != 0 || w.High[axis] != 0 {
			return false
		}
	}
	return true
}

// separableShape is how a run computes both convolutions.
type separableShape struct {
	dims    []int // of the input
	workers int
	strip   *convShape // of the pointwise convolution if tasks compute both, otherwise nil
}

// separableShapeOf returns how to compute run r and the depthwise convolution d before it: together in each task, or
// one after the other. It keeps the result for the next run, because most runs have equal extents.
func (r *convRun) separableShapeOf(d *convRun, workers int) *separableShape {
	if s := r.separable.Load(); s != nil && slices.Equal(s.dims, d.dims) && s.workers == workers {
		return s
	}
	s := &separableShape{dims: slices.Clone(d.dims), workers: workers}
	alone := newConvShape(r.node, r.phases[0], 1, d.outDims, r.outDims, workers, nil)
	input := newConvShape(d.node, d.phases[0], d.node.Attrs().Int("groups"), d.dims, d.outDims, workers, nil)
	strip := newConvShape(r.node, r.phases[0], 1, d.outDims, r.outDims, workers, input)
	if !strip.single && !input.single {
		input.rows, input.cols = strip.rows, strip.cols
		input.setOffsets()
		const copied = 4 // elements of the result of the first, written and read, in a cycle
		moved := float64(volume(d.outDims)) / copied / float64(workers)
		if input.fits() && float64(strip.price())-float64(alone.price()) <= moved {
			s.strip = strip
		}
	}
	r.separable.Store(s)
	return s
}

// computeBoth computes all of the result, and the depthwise convolution before. The call's arguments after the first
// two are its weights and the arguments of its epilogue.
func (r *convRun) computeBoth() error {
	f, args, more := r.before, r.call.Args, 0
	dims, err := r.call.Extents(f.node)
	if err != nil {
		return err
	}
	if f.after != nil {
		more = len(f.after.args) - 1
	}
	d := f.run(r.call, args[:3+more], dims)
	defer d.epilogue.end()
	weights := args[2].Floats // those of a depthwise convolution are not packed
	finite := r.weights[r.packedSize(1, r.outDims[1], dims[1])] == 0 && below(weights, float32(math.Inf(1)))
	if s := r.separableShapeOf(d, r.call.Workers()).strip; s != nil && finite {
		r.source, r.convShape, d.convShape, d.weights = d, s, s.input, weights
		return r.parallel()
	}
	memory, free := scratchWords(volume(dims))
	defer free()
	d.all, d.weights = memory, f.packed(args[2])
	if err := d.compute(); err != nil {
		return err
	}
	r.x, r.dims = memory, dims
	return r.compute()
}

// inputRoom returns how many elements of memory computeInput needs.
func (p *convPart) inputRoom() int {
	if p.source == nil {
		return 0
	}
	return p.source.copySize + upTo(p.source.rows*p.source.width)
}

// computeInput sets `to` to the input of the part: for each channel, a plane of the results of the depthwise
// convolution.
func (p *convPart) computeInput(to, room []float32) {
	d := p.source
	in, sums := room[:d.copySize], room[d.copySize:]
	positions := (p.rows-1)*d.width + p.cols
	for ch := range p.inPer {
		of := convPart{convRun: d, worker: p.worker, unit: p.unit*p.inPer + ch, depth: p.depth, row: p.row, col: p.col,
			rows: p.rows, cols: p.cols, channels: 1}
		of.place()
		of.copy(in)
		convTaps(sums, in, d.offsets, of.groupWeights(), positions, d.step)
		plane, n := to[ch*p.plane:], p.rows*p.cols
		moveRows(plane, p.width, sums, d.width, p.cols, p.rows)
		d.epilogue.apply(p.worker, plane, n, of.unit*d.outSize+of.first, n, n, 1)
	}
}
