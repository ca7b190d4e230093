package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// Thresholds for splitting the rows of a scan into chunks. A scan kernel assigns a workgroup to each row, or an
// invocation if rows are interleaved in memory. So few long rows would leave most of a device idle (M-memory).
const (
	minLongSum   = 8192    // longest row that one workgroup should scan
	sumGroups    = 1 << 12 // workgroups that fill any device
	minSumChunk  = 2048    // the fewest elements per workgroup that make up for its launch
	minSideSum   = 128     // longest row that one invocation should scan; an element takes 0.2 us on an H100
	sumLanes     = 1 << 19 // invocations that fill any device
	minSideChunk = 32      // the fewest elements per invocation that make up for its start
)

// chunkOfScan returns the chunk length for a scan of rows with the given number of elements, or 0 if rows should not be
// divided. sideBySide means that the rows are interleaved in memory.
func chunkOfScan(length, rows int64, sideBySide bool) int64 {
	short, fill, chunk := int64(minLongSum), int64(sumGroups), int64(minSumChunk)
	if sideBySide {
		short, fill, chunk = minSideSum, sumLanes, minSideChunk
	}
	if length <= short || rows*4 > fill { // a fourth of what fills a device is enough without chunks
		return 0
	}
	for chunk*fill < length*rows {
		chunk *= 2
	}
	// Prefer a chunk length that divides the row: kernels then need no test for the end of the row. It stays a multiple
	// of 4, the width of vectors.
	for c := chunk; c > chunk/2; c -= 4 {
		if length%c == 0 {
			return c
		}
	}
	return chunk
}

// longScan splits a scan of few long rows into steps: a scan inside each chunk, a fold of each chunk, an exclusive scan
// of these folds, and an op that combines each element with the fold of all chunks before its own. Each step folds in a
// fixed order, and workgroups need not synchronize. It returns nil if one kernel is as fast.
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
		chunk: chunk, chunks: ceil.Div(length.Max(), chunk),
		reverse: n.Attrs().Bool("reverse")}
	if n.Op().Info().Tol != (ir.Tolerance{}) { // exact scans need no wider accumulator
		x = r.castTo(x, kernel.AccType(n.DType()))
	}
	inside := s.running(x, n.Attrs().Bool("exclusive"), s.reverse, chunk)
	before := s.running(s.chunked(x), true, false, 0) // exclusive, forward, without restarts
	if again := r.longScan(before, before.Arg(0)); again != nil {
		before = again
	}
	return r.castTo(r.binary(analysis.CombineOps[s.by], s.spread(before, n.Shape()), inside), n.DType())
}

// longScan adds the nodes of a scan in chunks.
type longScan struct {
	*rewriter
	op, by        ir.Op // the scan, and the fold of a chunk
	axis          int
	length        ir.Dim
	chunk, chunks int64
	reverse       bool
}

// running returns a scan of x that restarts every `restart` elements, or never if that is 0. exclusive leaves out each
// element itself, and reverse scans from the last element on: they are the attributes of the scan ops.
func (s *longScan) running(x *ir.Node, exclusive, reverse bool, restart int64) *ir.Node {
	return s.unary(s.op, x, attr("axis", s.axis), attr("exclusive", exclusive),
		attr("reverse", reverse), attr("restart", restart))
}

// along returns a shape with the given extents in place of the scanned axis.
func (s *longScan) along(shape ir.Shape, extents ...int64) ir.Shape {
	return replaced(shape, s.axis, s.axis, extents)
}

// flip reverses the scanned axis if the scan runs in reverse.
func (s *longScan) flip(x *ir.Node) *ir.Node {
	if !s.reverse {
		return x
	}
	return s.unary(ir.OpFlip, x, attr("axes", []int{s.axis}))
}

// chunked returns the fold of each chunk of x.
func (s *longScan) chunked(x *ir.Node) *ir.Node {
	x = s.filled(s.flip(x))
	x = s.reshape(x, s.along(x.Shape(), s.chunks, s.chunk))
	return s.unary(s.by, x, attr("axes", []int{s.axis + 1}))
}

// filled pads the scanned axis of x to whole chunks. No element comes after the padding, so its values do not matter.
func (s *longScan) filled(x *ir.Node) *ir.Node {
	if s.length.Is(int(s.chunk * s.chunks)) {
		return x
	}
	low, high := make([]int64, x.Rank()), make([]int64, x.Rank())
	high[s.axis] = 1
	if s.length.IsStatic() {
		high[s.axis] = s.chunk*s.chunks - s.length.Add
	}
	x = s.unary(ir.OpPad, x, attr("low", low), attr("high", high))
	if s.length.IsStatic() {
		return x
	}
	// A pad cannot depend on a symbol. Instead, an index_select repeats the last element, the one of padding.
	place := s.iota(ir.Shape{{Add: s.chunk * s.chunks}}, 0)
	return s.onAxis(ir.OpIndexSelect, s.axis, x, place)
}

// spread broadcasts the value of each chunk to its elements, and removes the padding.
func (s *longScan) spread(x *ir.Node, shape ir.Shape) *ir.Node {
	x = s.reshape(x, s.along(shape, s.chunks, 1))
	x = s.unary(ir.OpBroadcast, x, attr("shape", s.along(shape, s.chunks, s.chunk)))
	x = s.reshape(x, s.along(shape, s.chunks*s.chunk))
	if !s.length.Is(int(s.chunk * s.chunks)) {
		x = s.slice(x, make([]int64, len(shape)), shape)
	}
	return s.flip(x)
}
