package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A convolution of integers reads the image at an offset for each element of the kernel, and makes no copies of
// windows. The image is packed with its padding, with groups (see intForm) of channels innermost. With strides, the
// positions along an axis are split into phases by their remainder, so that the positions for neighbouring results are
// neighbours in a phase.

// intConv has the sizes of a convolution of integers, and the layout of its packed image.
type intConv struct {
	*intForm
	ir.Window
	in, out        []int // extents along the windowed axes
	inPer, outPer  int   // channels of the input and of the result in a group of the convolution
	phases, extent []int // by axis: the number of remainders that are used, and of positions with each
	area           int   // positions of a phase, over all axes
	offsets        []int // by group of a row of packed weights: the group's offset in the image, in bytes
	kernel         int   // elements of the kernel
}

// newIntConv returns the sizes for a node. x, weights and out are the extents of its arguments and its result.
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
	p.setOffsets()
	return p
}

// setOffsets computes offsets. They are ordered by group of channels, and then by element of the kernel.
func (p *intConv) setOffsets() {
	p.offsets = p.offsets[:0]
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
}

// row packs the weights of one output channel into dst, and returns their sum.
func (p *intConv) row(dst []byte, weights []int32) (sum int32) {
	for at := 0; at < p.inPer; at += p.elems {
		n := min(p.elems, p.inPer-at)
		for tap := range p.kernel {
			sum += p.packA(dst, weights[at*p.kernel+tap:], n, p.kernel)
			dst = dst[groupBytes:]
		}
	}
	return sum
}

// imageBytes returns the memory of the packed channels of a group of the convolution. It includes what the assembly
// reads past the last position, because it reads whole vectors.
func (p *intConv) imageBytes() int {
	return (p.groups(p.inPer)*volume(p.phases)*p.area + p.cols) * groupBytes
}

// pack packs one phase of up to elems channels of x into dst. phase is the number of the combination of remainders of
// all axes, and padding the value of the padding.
func (p *intConv) pack(dst []byte, x []int32, channels, phase int, padding int32) {
	var filled [groupBytes]byte // a group of padding
	for i := range channels {
		p.packB(filled[:], i, []int32{padding}, 1)
	}
	for at := 0; at < len(dst); at += groupBytes {
		copy(dst[at:], filled[:])
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
			p.packB(to, i, x[i*size+from:], step)
		}
	}
}

// packConvInts returns the function that packs the weights of a convolution of integers: the rows, and then their sums.
func packConvInts(n *ir.Node) func(t interp.Tensor) []float32 {
	return func(t interp.Tensor) []float32 {
		f := formOf(n.Arg(0).DType())
		p := &intConv{intForm: f, inPer: t.Dims[1], kernel: volume(t.Dims[2:])}
		if len(t.Words) == 0 {
			return nil
		}
		packed := make([]float32, t.Dims[0]*(p.groups(p.inPer)*p.kernel+1))
		p.rows(packed, t.Words, 0, t.Dims[0], t.Dims[0])
		return packed
	}
}

// rows packs the weights of output channels lo to hi of n. packed has the rows of all n channels, and then their sums.
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
	channels, k := c.Dims[1], p.inPer*p.kernel
	if k == 0 {
		clear(c.Words)
		return nil
	}
	toPack, words := 0, len(p.offsets)+1 // words of an output channel
	if weights.Packed == nil {
		toPack = channels
	}
	memory, free := scratchWords(toPack*words + channels)
	defer free()
	packed, sums := memory[:toPack*words], as[int32](memory[toPack*words:])
	err := c.ParallelRange(toPack, k, func(lo, hi int) { p.rows(packed, weights.Words, lo, hi, channels) })
	if err != nil {
		return err
	}
	if weights.Packed != nil {
		packed = weights.Packed
	}
	for i, sum := range as[int32](packed[channels*(words-1):]) {
		sums[i] = -p.shift * sum
	}
	size := volume(p.out)
	return p.compute(c, x.Words, as[byte](packed), sums, int32(c.Node.Attrs().Int("padding_value")),
		func(channel, at int, line []int32) { copy(c.Words[channel*size+at:], line) })
}

// compute computes a convolution of image x. rows has the packed weights, sums the number to add to each output
// channel, and padding is the padding value. compute calls put for each line of the result: channel counts through all
// images of the batch, and `at` is the index of the line's first element in the channel.
func (p *intConv) compute(c *interp.Call, x []int32, rows []byte, sums []int32, padding int32,
	put func(channel, at int, line []int32)) error {
	batch, count, lda := c.Dims[0], c.Dims[1]/p.outPer, len(p.offsets)*groupBytes
	phases, size := volume(p.phases), volume(p.in)
	image, parts := p.imageBytes(), p.groups(p.inPer)*phases
	memory, free := scratchWords(batch * count * image / 4)
	defer free()
	images := as[byte](memory)
	err := c.Parallel(batch*count*parts, p.area*groupBytes, func(_, task int) {
		of, part := task/parts, task%parts
		first := part / phases * p.elems
		p.pack(images[of*image+part*p.area*groupBytes:][:p.area*groupBytes], x[(of*p.inPer+first)*size:],
			min(p.elems, p.inPer-first), part%phases, padding)
	})
	if err != nil {
		return err
	}
	end := 1 // the number of positions from the first result's to the last one's
	for axis, step := len(p.out)-1, 1; axis >= 0; axis-- {
		end += (p.out[axis] - 1) * step
		step *= p.extent[axis]
	}
	panels := (end + p.cols - 1) / p.cols
	return c.Parallel(batch*count*panels, p.outPer*p.cols*p.inPer*p.kernel/16, func(worker, task int) {
		of, panel := task/panels, task%panels
		first := of % count * p.outPer
		tile := as[int32](c.Room(worker, p.outPer*p.cols))
		p.multiply(tile, p.cols, rows[first*lda:], lda, images[of*image+panel*p.cols*groupBytes:], p.offsets, p.outPer,
			sums[first:])
		p.put(tile, panel*p.cols, of*p.outPer, put)
	})
}

// put passes the results of a tile to the function put, line by line. The tile has cols positions from number first on,
// for the output channels from number channel on. Positions without a result, between lines, are left out.
func (p *intConv) put(tile []int32, first, channel int, put func(channel, at int, line []int32)) {
	last := len(p.out) - 1
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
				put(channel+i, to+from, tile[i*p.cols+at:][:have])
			}
		}
		at += n
	}
}
