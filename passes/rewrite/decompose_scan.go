package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// Thresholds for splitting a scan into chunks. One kernel assigns a workgroup to each row, or an invocation if rows are
// interleaved in memory, so few long rows would leave a device idle (M-memory).
const (
	minLongSum   = 8192    // elements of a row that one workgroup sums quickly
	sumGroups    = 1 << 12 // workgroups that fill any device
	minSumChunk  = 2048    // elements per workgroup that justify its launch
	minSideSum   = 128     // elements of a row that an invocation sums quickly: 0.2 us each on an H100
	sumLanes     = 1 << 19 // invocations that fill any device
	minSideChunk = 32      // elements per invocation that are worth their start
)

// chunkOfScan returns the chunk length for a scan over a number of rows, which may be interleaved in memory; 0 for no
// chunks.
func chunkOfScan(length, rows int64, sideBySide bool) int64 {
	short, fill, chunk := int64(minLongSum), int64(sumGroups), int64(minSumChunk)
	if sideBySide {
		short, fill, chunk = minSideSum, sumLanes, minSideChunk
	}
	if length <= short || rows*4 > fill {
		return 0
	}
	for chunk*fill < length*rows {
		chunk *= 2
	}
	// Chunks of whole vectors that leave nothing over need no test of their end.
	for c := chunk; c > chunk/2; c -= 4 {
		if length%c == 0 {
			return c
		}
	}
	return chunk
}

// longScan splits a scan of few long rows into three steps: the fold of each chunk, a scan of these, and scans inside
// the chunks that start from its results. Each step reads its input in parallel and in a fixed order, and has no
// synchronization between workgroups.
func (r *rewriter) longScan(n, x *ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	length := n.Shape()[axis]
	rest := slices.Clone(n.Shape())
	rest[axis] = ir.D(1)
	chunk := chunkOfScan(length.Max(), rest.MaxElems(), rest[axis:].MaxElems() > 1)
	if chunk == 0 || n.Attrs().Int("restart") > 0 {
		return nil
	}
	s := longScan{rewriter: r, op: n.Op(), by: n.Op().Info().Running, axis: axis, length: length,
		chunk: chunk, chunks: (length.Max() + chunk - 1) / chunk,
		reverse: n.Attrs().Bool("reverse")}
	if n.Op().Info().Tol != (ir.Tolerance{}) { // else it is the same in any dtype
		x = r.castTo(x, analysis.AccType(n.DType()))
	}
	inside := s.running(x, n.Attrs().Bool("exclusive"), s.reverse, chunk)
	before := s.running(s.chunked(x), true, false, 0)
	if r.err != nil {
		return nil
	}
	if again := r.longScan(before, before.Arg(0)); again != nil {
		before = again
	}
	return r.castTo(r.binary(analysis.CombineOps[s.by], s.spread(before, n.Shape()), inside), n.DType())
}

// longScan is a running fold being made in chunks.
type longScan struct {
	*rewriter
	op, by        ir.Op // the scan, and the fold of a chunk
	axis          int
	length        ir.Dim
	chunk, chunks int64
	reverse       bool
}

func (s *longScan) running(x *ir.Node, exclusive, reverse bool, restart int64) *ir.Node {
	if s.err != nil {
		return nil
	}
	return s.unary(s.op, x, ir.Attr{Name: "axis", Value: s.axis}, ir.Attr{Name: "exclusive", Value: exclusive},
		ir.Attr{Name: "reverse", Value: reverse}, ir.Attr{Name: "restart", Value: restart})
}

// along returns a shape with other extents in place of the folded axis.
func (s *longScan) along(shape ir.Shape, extents ...int64) ir.Shape {
	out := slices.Clone(shape[:s.axis])
	for _, n := range extents {
		out = append(out, ir.Dim{Add: n})
	}
	return append(out, shape[s.axis+1:]...)
}

// flip reverses the folded axis for a reverse scan.
func (s *longScan) flip(x *ir.Node) *ir.Node {
	if s.err != nil || !s.reverse {
		return x
	}
	return s.unary(ir.OpFlip, x, ir.Attr{Name: "axes", Value: []int{s.axis}})
}

// chunked folds each chunk of x.
func (s *longScan) chunked(x *ir.Node) *ir.Node {
	x = s.filled(s.flip(x))
	if s.err != nil {
		return nil
	}
	x = s.reshape(x, s.along(x.Shape(), s.chunks, s.chunk))
	return s.unary(s.by, x, ir.Attr{Name: "axes", Value: []int{s.axis + 1}})
}

// filled pads x with zeros to whole chunks. No element comes after the padding, so its fold does not matter.
func (s *longScan) filled(x *ir.Node) *ir.Node {
	if s.err != nil || s.length.Is(int(s.chunk*s.chunks)) {
		return x
	}
	low, high := make([]int64, x.Rank()), make([]int64, x.Rank())
	high[s.axis] = 1
	if s.length.IsStatic() {
		high[s.axis] = s.chunk*s.chunks - s.length.Add
	}
	x = s.unary(ir.OpPad, x, ir.Attr{Name: "low", Value: low}, ir.Attr{Name: "high", Value: high})
	if s.length.IsStatic() {
		return x
	}
	// Padding cannot depend on a symbol. Instead, indices past the end gather the last element, which is zero.
	place := s.iota(ir.Shape{{Add: s.chunk * s.chunks}}, 0)
	return s.add(ir.OpIndexSelect, []*ir.Node{x, place}, ir.Attr{Name: "axis", Value: s.axis})
}

// spread broadcasts the value of a chunk to its elements.
func (s *longScan) spread(x *ir.Node, shape ir.Shape) *ir.Node {
	x = s.reshape(x, s.along(shape, s.chunks, 1))
	if s.err != nil {
		return nil
	}
	x = s.unary(ir.OpBroadcast, x, ir.Attr{Name: "shape", Value: s.along(shape, s.chunks, s.chunk)})
	x = s.reshape(x, s.along(shape, s.chunks*s.chunk))
	if s.err == nil && !s.length.Is(int(s.chunk*s.chunks)) {
		x = s.unary(ir.OpSlice, x, ir.Attr{Name: "starts", Value: make([]int64, len(shape))},
			ir.Attr{Name: "limits", Value: shape})
	}
	return s.flip(x)
}
