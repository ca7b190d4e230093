package fast

import (
	"math"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// A convolution with a 3x3 window and stride 1 takes 2.25 times fewer multiplications by Winograd's algorithm
// F(2x2,3x3) (Lavin and Gray 2015). It makes a tile of 2x2 results from 16 products: each is a sum of some of the
// tile's 4x4 inputs times a sum of some of the 9 weights. Product number i of all tiles and channels is a matmul. The
// errors are relative to the largest elements of a tile, as the tolerance of op conv is.
//
// A sum of elements that are not finite is NaN, also for results that do not depend on them. Then, and for elements
// near the largest float, the results are computed directly.

// winograd has the sizes of such a convolution.
type winograd struct {
	in, out       int    // channels
	high, wide    int    // rows and columns of tiles
	rows          int    // rows of tiles that are computed at a time
	line          int    // elements between the lists of two channels: a list has an element for each of these tiles
	size, outSize [2]int // extents of the input and of the result
	low           [2]int // padding
	blocks        int    // of channels of the result
	offsets       []int32
}

// tileProducts is the number of products of a tile.
const tileProducts = 16

// byWinograd reports whether a convolution is of the kind that Winograd's algorithm computes.
func byWinograd(n *ir.Node) bool {
	w := ir.WindowOf(n)
	if n.Op() != ir.OpConv || len(w.Kernel) != 2 || vector == nil || n.Attrs().Int("groups") != 1 {
		return false
	}
	for axis, k := range w.Kernel {
		if k != 3 || w.Stride[axis] != 1 || w.Dilation[axis] != 1 {
			return false
		}
	}
	s := n.Arg(1).Shape()
	return s[0].Add >= 16 && s[1].Add >= 16 && s[0].IsStatic() && s[1].IsStatic()
}

// newWinograd returns the sizes for an input and a result of given extents, or nil if the direct computation takes less
// time.
func newWinograd(n *ir.Node, x, out []int) *winograd {
	w := &winograd{in: x[1], out: out[1], high: (out[2] + 1) / 2, wide: (out[3] + 1) / 2, size: [2]int{x[2], x[3]},
		outSize: [2]int{out[2], out[3]}, blocks: blocksOf(out[1])}
	for axis, low := range ir.WindowOf(n).Low {
		w.low[axis] = int(low)
	}
	// The costs of both algorithms are in vectors of multiply-adds for each pair of channels. They are the products,
	// the time of reading the weights, and for Winograd's the time of the sums.
	tiles, positions := w.high*w.wide, out[2]*out[3]
	sums := 10 * tiles * (w.in + w.out) / (w.in * w.out)
	if tileProducts*upTo(tiles)/lanes+13+sums >= 9*upTo(positions)/lanes+7 {
		return nil
	}
	const most, enough = 1 << 17, 48 // elements of both lists, and tiles of a list
	w.rows = max(most/(tileProducts*(w.in+w.out)*w.wide), ceil.Div(enough, w.wide), 1)
	w.rows = evenParts(w.high, min(w.rows, w.high))
	w.line = upTo(w.rows*w.wide) + lanes
	for ch := range w.in {
		w.offsets = append(w.offsets, int32(4*ch*w.line))
	}
	return w
}

// upTo returns n rounded up to whole vectors.
func upTo(n int) int { return ceil.Multiple(n, lanes) }

// winogradSize returns the number of elements of the packed weights.
func winogradSize(in, out int) int {
	return tileProducts * blocksOf(out) * paddedTerms(in) * channelBlock
}

// packWinograd transforms weights [out, in, 3, 3] to [tileProducts, block, in, channel of the block], where a block is
// some adjacent output channels. The 16 numbers for weights g are G g Gᵀ, with the rows (1, 0, 0), (1/2, 1/2, 1/2),
// (1/2, -1/2, 1/2) and (0, 0, 1) of G. packWinograd returns nil if a weight is too large.
func packWinograd(weights []float32, in, out int) []float32 {
	packed := make([]float32, winogradSize(in, out))
	each := blocksOf(out) * paddedTerms(in) * channelBlock
	for o := range out {
		for ch := range in {
			var g [3][3]float64
			for i, x := range weights[(o*in+ch)*9:][:9] {
				if !(math.Abs(float64(x)) < winogradLargest) {
					return nil
				}
				g[i/3][i%3] = float64(x)
			}
			var rows [4][3]float64
			for k := range 3 {
				a, b, c := g[0][k], g[1][k], g[2][k]
				rows[0][k], rows[1][k], rows[2][k], rows[3][k] = a, (a+b+c)/2, (a-b+c)/2, c
			}
			to := packed[(o/channelBlock*paddedTerms(in)+ch)*channelBlock+o%channelBlock:]
			for i, r := range rows {
				for j, x := range [4]float64{r[0], (r[0] + r[1] + r[2]) / 2, (r[0] - r[1] + r[2]) / 2, r[2]} {
					to[(4*i+j)*each] = float32(x)
				}
			}
		}
	}
	return packed
}

// winogradLargest is larger than the elements with which Winograd's algorithm computes.
const winogradLargest = 1e15

// compute computes all results of run r. weights are packed.
func (w *winograd) compute(r *convRun, weights []float32) error {
	strips := ceil.Div(w.high, w.rows)
	tasks, workers := r.batch*strips, r.call.Workers()
	work := tileProducts * w.in * w.out * w.rows * w.wide / lanes
	lists := tileProducts * (w.in + w.blocks*channelBlock) * w.line
	// With enough strips, each task computes a whole strip. Otherwise all workers share one strip after the other.
	if workers == 1 || tasks >= tasksPerWorker*workers {
		memory, free := scratchWords(min(tasks, workers) * lists)
		defer free()
		return r.call.Parallel(tasks, work, func(worker, task int) {
			s := winogradStrip{w, r, weights, memory[worker*lists:][:lists], task / strips, task % strips * w.rows}
			for ch := range w.in {
				s.inputs(worker, ch)
			}
			for i := range tileProducts {
				s.multiply(i, 0, w.blocks)
			}
			for ch := range w.out {
				s.results(worker, ch)
			}
		})
	}
	memory, free := scratchWords(lists)
	defer free()
	for task := range tasks {
		s := winogradStrip{w, r, weights, memory, task / strips, task % strips * w.rows}
		if err := s.parallel(work); err != nil {
			return err
		}
	}
	return nil
}

// winogradStrip computes some rows of tiles of an image.
type winogradStrip struct {
	*winograd
	run     *convRun
	weights []float32
	memory  []float32 // the lists of inputs, and of results: by product, by channel, by tile
	image   int       // in the batch
	first   int       // row of tiles
}

// parallel computes the strip in parallel tasks. work is the multiply-adds of the products, in vectors. A task has
// neighbouring channels, so that workers seldom write to the same cache lines.
func (s *winogradStrip) parallel(work int) error {
	tasks := tasksPerWorker * s.run.call.Workers()
	channels, blocks := ceil.Div(s.in, tasks), ceil.Div(s.blocks, tasks)
	err := s.run.call.Parallel(ceil.Div(s.in, channels), s.rows*s.wide*8*channels, func(worker, task int) {
		for ch := task * channels; ch < min((task+1)*channels, s.in); ch++ {
			s.inputs(worker, ch)
		}
	})
	if err != nil {
		return err
	}
	return s.run.call.Parallel(ceil.Div(s.blocks, blocks), work*blocks/s.blocks, func(worker, task int) {
		first, end := task*blocks, min((task+1)*blocks, s.blocks)
		for i := range tileProducts {
			s.multiply(i, first, end-first)
		}
		for ch := first * channelBlock; ch < min(end*channelBlock, s.out); ch++ {
			s.results(worker, ch)
		}
	})
}

// tileRows returns the number of rows of tiles.
func (s *winogradStrip) tileRows() int { return min(s.rows, s.high-s.first) }

// inputs computes the lists of a channel of the input.
func (s *winogradStrip) inputs(worker, ch int) {
	rows, pitch := 2*s.tileRows()+2, 2*s.wide+2
	plane := s.run.call.Room(worker, rows*pitch+4*lanes)
	fill(plane, 0)
	top, left := 2*s.first-s.low[0], s.low[1] // the input's row at the plane's first one, and the padding
	lo, hi := max(0, -top), min(rows, s.size[0]-top)
	n := min(s.size[1], pitch-left)
	if lo < hi && n > 0 {
		from := ((s.image*s.in+ch)*s.size[0] + top + lo) * s.size[1]
		moveRows(plane[lo*pitch+left:], pitch, s.run.x[from:], s.size[1], n, hi-lo)
	}
	for row := range s.tileRows() {
		winogradInputs(s.memory[ch*s.line+row*s.wide:], s.in*s.line, plane[2*row*pitch:], pitch, s.wide)
	}
}

// multiply computes product i of all tiles, for some blocks of channels of the result.
func (s *winogradStrip) multiply(i, first, blocks int) {
	in := s.memory[i*s.in*s.line:][:s.in*s.line]
	results := tileProducts*s.in + (i*s.blocks+first)*channelBlock // lists before the first result
	out := s.memory[results*s.line:]
	skip := paddedTerms(s.in) * channelBlock // weights of a block
	weights := s.weights[(i*s.blocks+first)*skip:][:blocks*skip]
	convTiles(out, s.line, in, s.offsets, weights, blocks, upTo(s.tileRows()*s.wide))
}

// results computes a channel of the result.
func (s *winogradStrip) results(worker, ch int) {
	pitch := 2 * upTo(s.wide)
	plane := s.run.call.Room(worker, 2*s.tileRows()*pitch)
	for row := range s.tileRows() {
		from := s.memory[(tileProducts*s.in+ch)*s.line+row*s.wide:]
		winogradResults(plane[2*row*pitch:], pitch, from, s.blocks*channelBlock*s.line, s.wide)
	}
	channel := (s.image*s.out + ch) * s.run.outSize
	first, n := channel+2*s.first*s.outSize[1], min(2*s.tileRows(), s.outSize[0]-2*s.first)
	wide := s.outSize[1]
	moveRows(s.run.all[first:], wide, plane, pitch, wide, n)
	s.run.epilogue.apply(worker, s.run.all[first:], n*wide, first, n*wide, n*wide, 1)
}

// finite reports whether all elements are smaller than winogradLargest.
func (r *convRun) finite() bool {
	const part = 1 << 14
	parts := ceil.Div(len(r.x), part)
	large := make([]bool, parts)
	err := r.call.Parallel(parts, part/lanes, func(_, task int) {
		list := r.x[task*part : min((task+1)*part, len(r.x))]
		large[task] = !below(list, winogradLargest)
	})
	for _, l := range large {
		if l {
			return false
		}
	}
	return err == nil
}

// belowPlain is function below without assembly. It reports whether |x| < most for all elements x. NaN is not below.
func belowPlain(list []float32, most float32) bool {
	for _, x := range list {
		if !(x < most && x > -most) {
			return false
		}
	}
	return true
}
