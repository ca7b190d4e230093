package fast

import (
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A convolution of integers reads the image at an offset for each group of a row of weights, and makes no copies of
// windows. The image is packed with its padding, in groups (see intForm). With strides, the positions along an axis are
// split into phases by their remainder, so that the positions for neighbouring results are neighbours in a phase.
//
// A group has elements of several channels of the input. If there are too few channels to fill a group, as in a
// depthwise convolution, a group has neighbours along the last axis instead: the last axis of the window is divided
// into groups.

// intConv has the sizes of a convolution of integers, and the layout of its packed image.
type intConv struct {
	*intForm
	in, out                       []int // extents along the windowed axes
	inPer, outPer                 int   // channels of the input and of the result in a group of the convolution
	kernel, dilation, stride, low []int // by axis; kernel counts groups of integers, the others elements of the input
	neighbours                    bool  // whether a group has neighbours along the last axis
	width                         int   // the kernel's extent along the last axis, in elements
	apart                         int   // elements of the input between neighbours of the window along the last axis
	phases, extent                []int // by axis: the number of remainders that are used, and of positions with each
	area                          int   // positions of a phase, over all axes
	offsets                       []int // by group of a row of packed weights: its offset in the image, in bytes
}

// newIntConv returns the sizes of an integer convolution that depend only on the weights. weights has their extents.
func newIntConv(n *ir.Node, form *intForm, weights []int) *intConv {
	w := ir.WindowOf(n)
	p := &intConv{intForm: form, inPer: weights[1], outPer: weights[0] / n.Attrs().Int("groups")}
	for axis, k := range weights[2:] {
		p.kernel, p.dilation = append(p.kernel, k), append(p.dilation, int(w.Dilation[axis]))
		p.stride, p.low = append(p.stride, int(w.Stride[axis])), append(p.low, int(w.Low[axis]))
	}
	last := len(p.kernel) - 1
	p.width, p.apart = p.kernel[last], p.dilation[last]
	// A group has neighbours along the last axis or along the channels: the axis with fewer groups in all.
	p.neighbours = p.inPer*p.groups(p.width) < p.groups(p.inPer)*p.width
	if p.neighbours {
		p.kernel[last] = p.groups(p.width)
		p.dilation[last] *= p.elems
	}
	return p
}

// setExtents computes the sizes that depend on the extents of the input and of the result.
func (p *intConv) setExtents(x, out []int) {
	p.in, p.out = x[2:], out[2:]
	if volume(p.kernel) == 1 && volume(p.stride) == 1 && p.width == 1 && slices.Equal(p.in, p.out) &&
		volume(p.in) <= packElems {
		// All positions are neighbours.
		size := []int{volume(p.in)}
		p.in, p.out, p.kernel, p.dilation, p.stride, p.low = size, size, []int{1}, []int{1}, []int{1}, []int{0}
	}
	p.area = 1
	for axis, k := range p.kernel {
		reach := (k - 1) * p.dilation[axis] // of the window, in elements of x
		phases := min(p.stride[axis], reach+1)
		if p.dilation[axis]%p.stride[axis] == 0 { // all taps have remainder 0
			phases = 1
		}
		p.phases = append(p.phases, phases)
		if p.neighbours && axis == len(p.kernel)-1 { // neighbours of the last position must be in its row
			reach = (p.width-1)*p.apart + p.stride[axis] - 1
		}
		p.extent = append(p.extent, p.out[axis]+reach/p.stride[axis])
		p.area *= p.extent[axis]
	}
	p.setOffsets()
}

// setOffsets sets the offsets of the groups in an image, by part of the channels and tap. A tap is one position in the
// kernel.
func (p *intConv) setOffsets() {
	for part := range p.parts() {
		for tap := range volume(p.kernel) {
			phase, at, step := 0, 0, 1 // the phase of a tap, its position in the phase, and the elements of one step
			for axis := len(p.kernel) - 1; axis >= 0; axis-- {
				q := tap % p.kernel[axis] * p.dilation[axis] // the tap's coordinate in the input
				tap /= p.kernel[axis]
				phase += q % p.stride[axis] * volume(p.phases[axis+1:])
				at += q / p.stride[axis] * step
				step *= p.extent[axis]
			}
			p.offsets = append(p.offsets, ((part*volume(p.phases)+phase)*p.area+at)*groupBytes)
		}
	}
}

// parts returns the number of parts that the channels of one group of the convolution are divided into. The elements of
// a packed group are all of one part.
func (p *intConv) parts() int {
	if p.neighbours {
		return p.inPer
	}
	return p.groups(p.inPer)
}

// rowBytes returns the size of the packed weights of an output channel.
func (p *intConv) rowBytes() int { return p.parts() * volume(p.kernel) * groupBytes }

// row packs the weights [inPer, kernel...] of one output channel into dst, in groups of p.elems integers that one
// instruction multiplies and adds. A group has neighbours along the innermost axis of the kernel (p.neighbours), or
// else neighbouring input channels. row returns the sum of the weights.
func (p *intConv) row(dst []byte, weights []int32) (sum int32) {
	if p.neighbours {
		for at := 0; at < len(weights); at += p.width { // each line of the kernel fills whole groups
			sum += p.packA(dst, weights[at:], p.width, 1)
			dst = dst[p.groups(p.width)*groupBytes:]
		}
		return sum
	}
	taps := volume(p.kernel)
	for at := 0; at < p.inPer; at += p.elems {
		n := min(p.elems, p.inPer-at)
		for tap := range taps { // of n channels, whose weights are `taps` elements apart
			sum += p.packA(dst, weights[at*taps+tap:], n, taps)
			dst = dst[groupBytes:]
		}
	}
	return sum
}

// imageBytes returns the memory of the packed channels of a group of the convolution. It includes p.cols positions
// after the last one, because the assembly reads whole vectors.
func (p *intConv) imageBytes() int {
	return (p.parts()*volume(p.phases)*p.area + p.cols) * groupBytes
}

// packElems is the number of elements of a channel that are packed at a time: they stay in the cache.
const packElems = 1 << 12

// pack packs one phase of a part of the channels into dst. It takes some rows at a time: it copies these rows of each
// channel, with their padding, to memory from function room, and packs the copies in groups. The channels of the
// convolution's group begin at element `at` of x. phase is the number of a combination of remainders of all axes.
func (p *intConv) pack(dst []byte, x intSource, at, part, phase int, padding int32, room func(n int) []float32) {
	last := len(p.extent) - 1
	wide, step := p.extent[last], p.stride[last]
	rows, pitch := p.area/wide, wide*step // of a channel, with its padding
	var first [3]int                      // by axis: the coordinate of position 0 in a channel of x
	for axis := last; axis >= 0; axis-- {
		first[axis] = phase%p.phases[axis] - p.low[axis]
		phase /= p.phases[axis]
	}
	channel, channels, apart := part*p.elems, min(p.elems, p.inPer-part*p.elems), 0
	if p.neighbours { // a group has elements of one channel
		channel, channels, apart = part, 1, p.apart
	}
	at += channel * volume(p.in)
	if x.bytes != nil && p.elems == 4 && step == 1 {
		p.packBytes(dst, x.bytes, at, channels, apart, first, byte(padding), room)
		return
	}
	most := min(rows, max(1, packElems/pitch))    // rows at a time
	each := most*pitch + (p.elems-1)*apart + step // elements of a channel in memory
	memory := room(channels*each + p.elems*most*wide)
	strided := memory[channels*each:] // lists without the elements between positions
	for row := 0; row < rows; row += most {
		m := min(most, rows-row)
		for ch := range channels {
			p.copyRows(memory[ch*each:][:each], x, at+ch*volume(p.in), row, m, first, padding)
		}
		var lists [4][]int32 // by element of a group: the elements at all positions
		for i := range p.elems {
			image := memory[min(i, channels-1)*each:][:each]
			image = image[first[last]+p.low[last]+i*apart:]
			if step > 1 {
				line := strided[i*most*wide:][:m*wide]
				moveStrided(line, 0, image, 0, step, m*wide, 1)
				image = line
			}
			lists[i] = wordsOf(image)
		}
		p.packB(dst[row*wide*groupBytes:(row+m)*wide*groupBytes], lists)
	}
}

// packBytes does the work of pack if elements are bytes and the last axis has no stride. A group has elements of the
// given number of channels, or neighbours in one channel that are `apart` elements apart. The first channel begins at
// element `at` of x. first is the argument of rowAt.
func (p *intConv) packBytes(dst, x []byte, at, channels, apart int, first [3]int, padding byte,
	room func(n int) []float32) {
	var lists [4][]byte // by element of a group: the elements at all positions
	padded := slices.ContainsFunc(p.low, func(n int) bool { return n != 0 }) || !slices.Equal(p.extent, p.in)
	if !padded && !p.neighbours && volume(p.stride) == 1 {
		for i := range lists {
			lists[i] = x[at+min(i, channels-1)*volume(p.in):]
		}
		mergeLists(dst, &lists, p.shift)
		return
	}
	last := len(p.extent) - 1
	wide := p.extent[last]
	rows := p.area / wide
	most := min(rows, max(1, packElems/wide)) // rows at a time
	each := most*wide + (p.elems-1)*apart     // elements of a channel in memory
	memory := as[byte](room(ceil.Div(channels*each, groupBytes)))
	lo := min(p.low[last], wide)  // elements of padding before a row
	n := min(p.in[last], wide-lo) // elements of a row that are not padding
	step := p.in[last]            // from a row to the next one of its plane
	if last > 0 {
		step *= p.stride[last-1]
	}
	for row := 0; row < rows; row += most {
		m := min(most, rows-row)
		for ch := range channels {
			image := memory[ch*each:][:each]
			repeat(image, padding)
			for r := 0; r < m; { // all rows of a plane at a time
				begin, end, count := p.rowsFrom(row+r, m-r, first)
				if from, inside := p.rowAt(row+r+begin, first); inside && begin < end {
					for i := begin; i < end; i++ {
						copy(image[(r+i)*wide+lo:][:n], x[at+ch*volume(p.in)+from:])
						from += step
					}
				}
				r += count
			}
		}
		for i := range lists {
			lists[i] = memory[min(i, channels-1)*each+i*apart:]
		}
		mergeLists(dst[row*wide*groupBytes:(row+m)*wide*groupBytes], &lists, p.shift)
	}
}

// mergeListsPlain interleaves bytes of four lists in Go, as mergeLists does.
func mergeListsPlain(groups []byte, src *[4][]byte, shift int32) {
	for i := range groups {
		groups[i] = src[i%groupBytes][i/groupBytes] + byte(shift)
	}
}

// copyRows copies m rows of a phase of one channel, from number row on, to image, with the padding around them. The
// channel begins at element `at` of x. first is the argument of rowAt.
func (p *intConv) copyRows(image []float32, x intSource, at, row, m int, first [3]int, padding int32) {
	last := len(p.extent) - 1
	pitch := p.extent[last] * p.stride[last]
	lo := min(p.low[last], pitch)
	n := min(p.in[last], pitch-lo)
	fill(image, bitsOfWord(padding))
	for r := range m {
		if from, inside := p.rowAt(row+r, first); inside {
			x.copy(wordsOf(image[r*pitch+lo:][:n]), at+from)
		}
	}
}

// rowAt returns the index of a row's first element in its channel. inside is false if the whole row is padding. row is
// the number of the row in a phase. first has, by axis, the coordinate of the phase's position 0 in the channel.
func (p *intConv) rowAt(row int, first [3]int) (from int, inside bool) {
	last := len(p.extent) - 1
	along, inside := p.in[last], true
	for axis := last - 1; axis >= 0; axis-- {
		i := row%p.extent[axis]*p.stride[axis] + first[axis]
		row /= p.extent[axis]
		inside = inside && i >= 0 && i < p.in[axis]
		from += i * along
		along *= p.in[axis]
	}
	return from, inside
}

// rowsFrom returns how many of the n rows from number row on are in the same plane of the phase: count. Of these, rows
// number begin to end-1 are not padding along the plane's first axis. first is the argument of rowAt.
func (p *intConv) rowsFrom(row, n int, first [3]int) (begin, end, count int) {
	axis := len(p.extent) - 2
	if axis < 0 {
		return 0, 1, 1
	}
	y, stride := row%p.extent[axis], p.stride[axis]
	at := y*stride + first[axis]
	count = min(n, p.extent[axis]-y)
	if at < 0 {
		begin = min(count, ceil.Div(-at, stride))
	}
	return begin, min(count, max(0, ceil.Div(p.in[axis]-at, stride))), count
}

// packConvInts returns the function that packs the weights of a convolution of integers: the rows, and then their sums.
func packConvInts(n *ir.Node) func(t interp.Tensor) []float32 {
	return func(t interp.Tensor) []float32 {
		if volume(t.Dims) == 0 {
			return nil
		}
		return newIntConv(n, formOf(n.Arg(0).DType()), t.Dims).packAll(wordsFrom(t), t.Dims[0])
	}
}

// packAll returns the packed weights of all n output channels, and then their sums.
func (p *intConv) packAll(weights []int32, n int) []float32 {
	packed := make([]float32, n*(p.rowBytes()/4+1))
	p.rows(packed, weights, 0, n, n)
	return packed
}

// rows packs the weights of output channels lo to hi of n. packed has the rows of all n channels, and then their sums.
func (p *intConv) rows(packed []float32, weights []int32, lo, hi, n int) {
	lda, k := p.rowBytes(), len(weights)/n
	sums := as[int32](packed[n*lda/4:])
	for i := lo; i < hi; i++ {
		sums[i] = p.row(as[byte](packed)[i*lda:], weights[i*k:][:k])
	}
}

// convInts computes a convolution of integers, node n, followed by the epilogue after. If the weights are not packed
// yet, it packs them first.
func convInts(c *interp.Call, n *ir.Node, after *epilogue) error {
	x, weights := c.Args[0], c.Args[1]
	p := newIntConv(n, formOf(n.Arg(0).DType()), weights.Dims)
	channels, k := c.Dims[1], volume(weights.Dims[1:])
	if k == 0 {
		return after.run(c, c.Args, c.Dims).zeros(c)
	}
	p.setExtents(x.Dims, c.Dims)
	toPack, words := 0, len(p.offsets)+1 // words of an output channel
	if weights.Packed == nil {
		toPack = channels
	}
	memory, free := scratchWords(toPack*words + channels)
	defer free()
	packed, sums := memory[:toPack*words], as[int32](memory[toPack*words:])
	list := []int32(nil)
	if toPack > 0 {
		list = wordsFrom(weights)
	}
	err := c.ParallelRange(toPack, k, func(lo, hi int) { p.rows(packed, list, lo, hi, channels) })
	if err != nil {
		return err
	}
	if weights.Packed != nil {
		packed = weights.Packed
	}
	for i, sum := range as[int32](packed[channels*(words-1):]) {
		sums[i] = -p.shift * sum // elements of x are packed plus shift, so dot products are shift*sum too large
	}
	return p.compute(c, sourceOf(x), as[byte](packed), sums, int32(n.Attrs().Int("padding_value")), nil, after)
}

// Limits of a task of a convolution of integers.
const (
	intPositions = 1 << 12 // results in a line, which is long enough for an epilogue
	intSums      = 1 << 15 // sums, which stay in the cache
)

// compute computes a convolution of image x. rows has the packed weights, sums has a number to add to the results of
// each output channel, and padding is the padding value. Unless factor is nil, the sums become floats, multiplied by
// factor(channel).
func (p *intConv) compute(c *interp.Call, x intSource, rows []byte, sums []int32, padding int32,
	factor func(channel int) float32, after *epilogue) error {
	run := after.run(c, c.Args, c.Dims)
	defer run.end()
	memory, free := scratchWords(c.Dims[0] * c.Dims[1] / p.outPer * p.imageBytes() / 4)
	defer free()
	images := as[byte](memory)
	if err := p.packImages(c, images, x, padding); err != nil {
		return err
	}
	t := p.divide(c)
	rowBytes := len(p.offsets) * groupBytes
	lineLength := volume(p.out)
	return c.Parallel(t.count(), t.channels*t.panels*p.cols*len(p.offsets)/4, func(worker, number int) {
		task := t.task(number)
		channel := task.image*p.outPer + task.channel                      // the first channel, in the result
		weights := task.image%(c.Dims[1]/p.outPer)*p.outPer + task.channel // and in the weights of all groups
		positions := task.panels * p.cols
		room := c.Room(worker, 2*task.channels*positions)
		tile, lines := as[int32](room[:task.channels*positions]), room[task.channels*positions:]
		together := 1 // panels of a call: the columns stay in the cache while several rows use them
		if task.channels == 1 {
			together = task.panels
		}
		image := images[task.image*p.imageBytes():]
		for i := 0; i < task.panels; i += together {
			p.multiply(tile[i*p.cols:], positions, rows[weights*rowBytes:], rowBytes,
				image[(task.panel+i)*p.cols*groupBytes:], p.offsets, task.channels, sums[weights:], together)
		}
		first := task.panel * p.cols
		from, _ := p.before(first) // the range of results at these positions
		to, _ := p.before(min(first+positions, t.end))
		lines, stride := run.lines(lines, channel*lineLength+from, to-from, lineLength)
		for _, r := range t.runs[task.panel/t.panels] {
			for i := range task.channels {
				p.storeRun(lines[i*stride+r.to-from:], tile[i*positions+r.from:], r, factor, weights+i)
			}
		}
		run.apply(worker, lines, stride, channel*lineLength+from, to-from, lineLength, task.channels)
	})
}

// storeRun stores the sums of a run of one channel, as integers or, unless factor is nil, as floats.
func (p *intConv) storeRun(dst []float32, sums []int32, r intRun, factor func(channel int) float32, channel int) {
	last := len(p.out) - 1
	if factor == nil {
		moveRows(dst, p.out[last], bitsOf(sums), p.extent[last], r.n, r.rows)
		return
	}
	scaleRows(dst, p.out[last], sums, p.extent[last], r.n, r.rows, factor(channel))
}

// packImages packs the channels of all images and groups of x into images.
func (p *intConv) packImages(c *interp.Call, images []byte, x intSource, padding int32) error {
	phases := volume(p.phases)
	parts := p.parts() * phases
	bytes := p.area * groupBytes // of a part
	return c.Parallel(c.Dims[0]*c.Dims[1]/p.outPer*parts, bytes, func(worker, task int) {
		image, part := task/parts, task%parts
		dst := images[image*p.imageBytes()+part*bytes:][:bytes]
		p.pack(dst, x, image*p.inPer*volume(p.in), part/phases, part%phases, padding,
			func(n int) []float32 { return c.Room(worker, n) })
	})
}

// intTasks divides a convolution of integers into tasks. A task computes some panels of positions for some output
// channels of one group of one image.
type intTasks struct {
	images           int        // pairs of an image and a group
	end              int        // the number of positions from the first result to the last one
	allPanels        int        // panels of these positions
	allChannels      int        // output channels of a group
	panels, channels int        // the maximum numbers in a task
	runs             [][]intRun // by task along the panels: its results
}

// intTask is one task: the number of its image and group, its first panel and channel, and the numbers of both.
type intTask struct{ image, panel, channel, panels, channels int }

// across returns the number of tasks along the panels.
func (t *intTasks) across() int { return ceil.Div(t.allPanels, t.panels) }

// down returns the number of tasks along the channels.
func (t *intTasks) down() int { return ceil.Div(t.allChannels, t.channels) }

// count returns the number of tasks.
func (t *intTasks) count() int { return t.images * t.across() * t.down() }

// task returns the task with a number. Consecutive tasks have the same panels.
func (t *intTasks) task(number int) intTask {
	across, down := t.across(), t.down()
	panel, channel := number/down%across*t.panels, number%down*t.channels
	return intTask{image: number / across / down, panel: panel, channel: channel,
		panels: min(t.panels, t.allPanels-panel), channels: min(t.channels, t.allChannels-channel)}
}

// divide divides a convolution into tasks: large ones, but enough for all workers.
func (p *intConv) divide(c *interp.Call) *intTasks {
	t := &intTasks{images: c.Dims[0] * c.Dims[1] / p.outPer, end: 1, allChannels: p.outPer, channels: p.outPer}
	// Positions count the elements of planes with extents p.extent. end is the position after the last result.
	for axis, step := len(p.out)-1, 1; axis >= 0; axis-- {
		t.end += (p.out[axis] - 1) * step
		step *= p.extent[axis]
	}
	t.allPanels = ceil.Div(t.end, p.cols)
	t.panels = min(t.allPanels, intPositions/p.cols)
	want := tasksPerWorker * c.Workers()
	for t.channels > p.fewest() && (t.count() < want || t.channels*t.panels*p.cols > intSums) {
		t.channels = max(p.fewest(), ceil.Multiple(t.channels/2, 8))
	}
	for t.panels > 1 && t.count() < want {
		t.panels = (t.panels + 1) / 2
	}
	positions := t.panels * p.cols
	for first := 0; first < t.end; first += positions {
		t.runs = append(t.runs, p.runs(first, min(first+positions, t.end)))
	}
	return t
}

// fewest returns the smallest number of channels in a task, unless the convolution has fewer.
func (p *intConv) fewest() int { return 2 * p.dots[0].rows }

// before returns how many positions before the given one have a result, and whether the given one has a result.
func (p *intConv) before(position int) (count int, inside bool) {
	step, each := p.area, volume(p.out)
	for axis := range p.out {
		step /= p.extent[axis]
		each /= p.out[axis]
		i := position / step
		position %= step
		if i >= p.out[axis] {
			return count + p.out[axis]*each, false
		}
		count += i * each
	}
	return count, true
}

// intRun is `rows` rows of n results each, from position `from` on. The first of them is result number `to` of its
// channel.
type intRun struct{ from, to, n, rows int }

// runs returns the results at positions first to end-1, as few runs. In the runs, position 0 is first.
func (p *intConv) runs(first, end int) (list []intRun) {
	last := len(p.out) - 1
	wide, out := p.extent[last], p.out[last]
	for at := first; at < end; at = (at/wide + 1) * wide {
		to, inside := p.before(at)
		if !inside {
			continue
		}
		n := min(end-at, out-at%wide)
		if len(list) > 0 { // a whole row right after the last run's whole rows becomes part of that run
			run := &list[len(list)-1]
			if n == out && run.n == out && run.to+run.rows*out == to && run.from+run.rows*wide == at-first {
				run.rows++
				continue
			}
		}
		list = append(list, intRun{at - first, to, n, 1})
	}
	return list
}

// narrowWordsPlain sets bytes to words plus shift in Go, as narrowWords does, and returns the sum of the shifted words.
func narrowWordsPlain(dst []byte, src []int32, shift int32) (sum int32) {
	for i, x := range src[:len(dst)] {
		dst[i] = byte(x + shift)
		sum += x + shift
	}
	return sum
}
