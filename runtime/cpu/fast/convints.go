package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A convolution of integers reads the image at an offset for each element of the kernel, and makes no copies of
// windows. The image is packed with its padding: groups of channels are innermost. With strides, the positions along an
// axis are split by their remainder, so that the positions for neighbouring results are neighbours.

// intConv has the sizes of a convolution of integers.
type intConv struct {
	*intForm
	ir.Window
	in, out        []int // extents along the windowed axes
	inPer, outPer  int   // channels of a group
	phases, extent []int // by axis: number of remainders that are used, and of positions of each
	area           int   // positions of all axes
	offsets        []int // of the groups of a row of weights: channels first, and then the kernel
	kernel         int   // elements of the kernel
}

// newIntConv returns the sizes for a node and the extents of its arguments and its result.
func newIntConv(n *ir.Node, x, weights, out []int) *intConv {
	groups := n.Attrs().Int("groups")
	p := &intConv{intForm: formOf(n.Arg(0).DType()), Window: ir.WindowOf(n), in: x[2:], out: out[2:],
		inPer: x[1] / groups, outPer: out[1] / groups, area: 1, kernel: volume(weights[2:])}
	for axis, k := range p.Kernel {
		reach := int(k-1) * int(p.Dilation[axis]) // of the window, in elements of x
		p.phases = append(p.phases, min(int(p.Stride[axis]), reach+1))
		p.extent = append(p.extent, p.out[axis]+reach/int(p.Stride[axis]))
		p.area *= p.extent[axis]
	}
	for group := range p.groups(p.inPer) {
		for tap := range p.kernel {
			phase, at, step := 0, 0, 1
			for axis := len(p.Kernel) - 1; axis >= 0; axis-- {
				q := tap % int(p.Kernel[axis]) * int(p.Dilation[axis])
				tap /= int(p.Kernel[axis])
				phase += q % int(p.Stride[axis]) * volume(p.phases[axis+1:])
				at += q / int(p.Stride[axis]) * step
				step *= p.extent[axis]
			}
			p.offsets = append(p.offsets, ((group*volume(p.phases)+phase)*p.area+at)*groupBytes)
		}
	}
	return p
}

// row packs the weights of an output channel, and returns its summand of the results.
func (p *intConv) row(dst []byte, weights []int32) (sum int32) {
	for at := 0; at < p.inPer; at += p.elems {
		n := min(p.elems, p.inPer-at)
		for tap := range p.kernel {
			sum += p.ofA(dst, weights[at*p.kernel+tap:], n, p.kernel)
			dst = dst[groupBytes:]
		}
	}
	return sum
}

// imageBytes is the memory of the packed channels of a group. Functions read whole vectors past the last position.
func (p *intConv) imageBytes() int {
	return (p.groups(p.inPer)*volume(p.phases)*p.area + p.cols) * groupBytes
}

// pack packs the phase of a group of up to elems channels of x. around is the value of the padding.
func (p *intConv) pack(dst []byte, x []int32, channels, phase int, around int32) {
	var padding [groupBytes]byte
	for i := range channels {
		p.ofB(padding[:], i, []int32{around}, 1)
	}
	for at := 0; at < len(dst); at += groupBytes {
		copy(dst[at:], padding[:])
	}
	last := len(p.extent) - 1
	size := volume(p.in)
	var first [3]int // by axis: the element of x at position 0
	for axis := last; axis >= 0; axis-- {
		first[axis] = phase%p.phases[axis] - int(p.Low[axis])
		phase /= p.phases[axis]
	}
	step := int(p.Stride[last])
	lo := max(0, (-first[last]+step-1)/step)
	hi := min(p.extent[last], (p.in[last]-first[last]+step-1)/step)
	for row := range p.area / p.extent[last] {
		from, stride, inside, rest := 0, p.in[last], true, row
		for axis := last - 1; axis >= 0; axis-- {
			i := rest%p.extent[axis]*int(p.Stride[axis]) + first[axis]
			rest /= p.extent[axis]
			inside = inside && i >= 0 && i < p.in[axis]
			from += i * stride
			stride *= p.in[axis]
		}
		if !inside || lo >= hi {
			continue
		}
		to := dst[(row*p.extent[last]+lo)*groupBytes : (row*p.extent[last]+hi)*groupBytes]
		from += lo*step + first[last]
		for i := range channels {
			p.ofB(to, i, x[i*size+from:], step)
		}
	}
}

// packConvInts returns the function that packs the weights of a convolution of integers: the rows, and then their
// summands.
func packConvInts(n *ir.Node) func(t interp.Tensor) []float32 {
	return func(t interp.Tensor) []float32 {
		f := formOf(n.Arg(0).DType())
		p := &intConv{intForm: f, inPer: t.Dims[1], kernel: volume(t.Dims[2:])}
		if len(t.Words) == 0 {
			return nil
		}
		lda := p.groups(p.inPer) * p.kernel * groupBytes
		packed := make([]float32, t.Dims[0]*(lda/4+1))
		p.rows(packed, t.Words, 0, t.Dims[0], t.Dims[0])
		return packed
	}
}

// rows packs the weights of output channels from lo to hi of n: their rows, and then their summands.
func (p *intConv) rows(packed []float32, weights []int32, lo, hi, n int) {
	lda, k := p.groups(p.inPer)*p.kernel*groupBytes, p.inPer*p.kernel
	sums := as[int32](packed[n*lda/4:])
	for i := lo; i < hi; i++ {
		sums[i] = p.row(as[byte](packed)[i*lda:], weights[i*k:])
	}
}

// convInts computes a convolution of integers.
func convInts(c *interp.Call) error {
	x, weights := c.Args[0], c.Args[1]
	p := newIntConv(c.Node, x.Dims, weights.Dims, c.Dims)
	batch, channels := c.Dims[0], c.Dims[1]
	count, k := channels/p.outPer, p.inPer*p.kernel // number of groups of channels
	if k == 0 {
		clear(c.Words)
		return nil
	}
	lda, image, toPack := len(p.offsets)*groupBytes, p.imageBytes(), channels
	if weights.Packed != nil {
		toPack = 0
	}
	memory, free := scratchWords(toPack*(lda/4+1) + batch*count*image/4)
	defer free()
	packed, images := memory[:toPack*(lda/4+1)], as[byte](memory[toPack*(lda/4+1):])
	err := c.ParallelRange(toPack, k, func(lo, hi int) { p.rows(packed, weights.Words, lo, hi, channels) })
	if weights.Packed != nil {
		packed = weights.Packed
	}
	rows, sums := as[byte](packed), as[int32](packed[channels*lda/4:])
	phases, size := volume(p.phases), volume(p.in)
	around, parts := int32(c.Node.Attrs().Int("padding_value")), p.groups(p.inPer)*phases
	if err == nil {
		err = c.Parallel(batch*count*parts, p.area*groupBytes, func(_, task int) {
			of, part := task/parts, task%parts
			first := part / phases * p.elems
			p.pack(images[of*image+part*p.area*groupBytes:][:p.area*groupBytes],
				x.Words[(of*p.inPer+first)*size:], min(p.elems, p.inPer-first), part%phases, around)
		})
	}
	if err != nil {
		return err
	}
	end := 1 // the number of positions from the first result's to the last one's
	for axis, step := len(p.out)-1, 1; axis >= 0; axis-- {
		end += (p.out[axis] - 1) * step
		step *= p.extent[axis]
	}
	panels := (end + p.cols - 1) / p.cols
	return c.Parallel(batch*count*panels, p.outPer*p.cols*k/16, func(worker, task int) {
		of, panel := task/panels, task%panels
		first := of % count * p.outPer
		tile := as[int32](c.Room(worker, p.outPer*p.cols))
		p.multiply(tile, p.cols, rows[first*lda:], lda, images[of*image+panel*p.cols*groupBytes:], p.offsets, p.outPer,
			sums[first:])
		p.put(c.Words[of*p.outPer*volume(p.out):], tile, panel*p.cols)
	})
}

// put copies the results for the positions from first on to the planes of out, and leaves out positions without result.
func (p *intConv) put(out, tile []int32, first int) {
	last, size := len(p.out)-1, volume(p.out)
	for at := 0; at < p.cols; {
		to, step, rest, inside := 0, p.out[last], (first+at)/p.extent[last], true
		for axis := last - 1; axis >= 0; axis-- {
			inside = inside && rest%p.extent[axis] < p.out[axis]
			to += rest % p.extent[axis] * step
			rest /= p.extent[axis]
			step *= p.out[axis]
		}
		from := (first + at) % p.extent[last]
		n := min(p.cols-at, p.extent[last]-from)
		if have := min(n, p.out[last]-from); inside && rest == 0 && have > 0 {
			for i := range p.outPer {
				copy(out[i*size+to+from:][:have], tile[i*p.cols+at:])
			}
		}
		at += n
	}
}
