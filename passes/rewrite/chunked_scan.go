package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// The sizes of scans in chunks of time steps.
const (
	// The number of time steps in a chunk. Shorter chunks store more states, and longer ones multiply more pairs of
	// time steps. For an H200, chunks of 64 are estimated to take as long, and chunks of 256 longer (M-recurrences).
	chunkTimes  = 128
	chunkMargin = 1.4 // chunks must be estimated to be this much faster, because the estimates have errors
	// The most bytes of the states of all chunks, and of the weights of all pairs of time steps.
	mostChunkBytes = 256 << 20
)

// chunkedScan computes a delta_rule in chunks of time steps, for heads with one decay each and without corrections.
// Heads of a group share queries and keys.
type chunkedScan struct {
	*rewriter
	// each is the number of heads of a group. The state of a head is a matrix [values, keys].
	batch, heads, groups, each, values, keys ir.Dim
	times, chunks                            int64

	q, k *ir.Node // [batch, chunks, groups, chunkTimes, keys]
	v    *ir.Node // [batch, chunks, heads, chunkTimes, values]
	// The sum of these nodes is the sum of a chunk's decays up to each time step, [batch, chunks, heads, chunkTimes].
	sums  []*ir.Node
	state *ir.Node
}

// chunkedScan computes a delta_rule in chunks of time steps (Dao and Gu 2024, arXiv:2405.21060, section 6), in three
// parts:
//
//   - A matmul computes the amount that each chunk adds to the state.
//   - A scan with one step per chunk computes the state before each chunk from these amounts.
//   - More matmuls compute the results of each chunk from the state before it and from its own time steps.
//
// The arguments are in f32. chunkedScan returns nil if the device is faster with one time step after the other, or if
// the delta_rule has corrections, several decays per head, or a number of time steps that is a symbol.
func (r *rewriter) chunkedScan(n *ir.Node, args []*ir.Node) *ir.Node {
	v, decay, state := args[2], args[3], args[4]
	s := state.Shape()
	outer := len(s) - 3
	times := v.Shape()[outer]
	// More than five arguments mean corrections, and an innermost extent of 1 means one decay per head.
	if len(args) > 5 || !times.IsStatic() || !decay.Shape()[outer+2].Is(1) || s.MaxElems() == 0 {
		return nil
	}
	c := &chunkedScan{rewriter: r, batch: r.numel(s[:outer]), heads: s[outer], values: s[outer+1], keys: s[outer+2],
		groups: args[0].Shape()[outer+1], times: times.Add, chunks: ceil.Div(times.Add, chunkTimes),
		state: state}
	// Queries and keys with different groups are repeated for each head (see vectors).
	if args[1].Shape()[outer+1] != c.groups {
		c.groups = c.heads
	}
	c.each, _ = c.heads.Quo(c.groups.Add)
	if !c.isFaster() {
		return nil
	}
	c.q, c.k, c.v = c.vectors(args[0]), c.vectors(args[1]), r.swapAxes(c.split(v), 2, 3)
	c.sums = c.sumsOf(r.reshape(r.swapAxes(c.split(decay), 2, 3), c.shape(c.heads, ir.D(chunkTimes))))
	states := c.states()
	if n.Attrs().String_("of") == "state" {
		return r.reshape(r.sliceAxis(states, 1, c.chunks, c.chunks+1), s)
	}
	return r.reshape(c.results(r.sliceAxis(states, 1, 0, c.chunks)), n.Shape())
}

// isFaster reports whether the scan is expected to be faster as matmuls over chunks of time steps than step by step. It
// returns false if the matrices of the chunks would take too much memory.
func (c *chunkedScan) isFaster() bool {
	if c.pricer == nil || c.chunks < 2 {
		return false
	}
	batch, size := c.batch.Max(), int64(chunkTimes)
	groups, heads := batch*c.chunks*c.groups.Add, batch*c.chunks*c.heads.Add
	keys, values, rows := c.keys.Add, c.values.Add, c.each.Add*c.values.Add
	bytes := func(a, b int64) float64 { return 4 * float64(heads) * float64(a) * float64(b) }
	states, weights, results := bytes(values, keys), bytes(size, size), bytes(size, values)
	if max(states, weights) > mostChunkBytes {
		return false
	}
	chunks := kernel.Work{Form: kernel.FormChunks, Launches: 6, Bytes: float64(2*states) + weights + results,
		Matmuls: []kernel.MatmulWork{
			{Batch: groups, Rows: size, Columns: size, Depth: keys},   // pairs of time steps
			{Batch: groups, Rows: rows, Columns: keys, Depth: size},   // amounts that chunks add to the states
			{Batch: groups, Rows: size, Columns: rows, Depth: keys},   // results of the states before chunks
			{Batch: heads, Rows: size, Columns: values, Depth: size}}} // results of the chunk's own time steps
	stateRows := ir.Dim{Add: batch * c.heads.Add * values}
	steps := kernel.Work{Form: kernel.FormSteps, Rows: stateRows, Columns: c.keys, Depth: ir.Dim{Add: c.times},
		Launches: 1}
	time := func(w kernel.Work) float64 { return c.pricer.Price(kernel.Rewrite{Work: &w}).After }
	return float64(chunkMargin*time(chunks)) < time(steps)
}

// shape returns [batch, chunks, dims...].
func (c *chunkedScan) shape(dims ...ir.Dim) ir.Shape {
	return append(ir.Shape{c.batch, {Add: c.chunks}}, dims...)
}

// split returns x [..., times, A, B] as [batch, chunks, chunkTimes, A, B], for any extents A and B. It pads the last
// chunk with zeros, which leave the state unchanged.
func (c *chunkedScan) split(x *ir.Node) *ir.Node {
	last := x.Shape()[x.Rank()-2:]
	x = c.reshape(x, append(ir.Shape{c.batch, {Add: c.times}}, last...))
	if more := c.chunks*chunkTimes - c.times; more > 0 {
		x = c.concat(1, x, c.fill(ir.F32, 0, append(ir.Shape{c.batch, {Add: more}}, last...)))
	}
	return c.reshape(x, c.shape(append(ir.Shape{ir.D(chunkTimes)}, last...)...))
}

// vectors returns keys or queries [..., times, G, keys] as [batch, chunks, groups, chunkTimes, keys]. If x has fewer
// groups (G) than c.groups, vectors repeats each of them.
func (c *chunkedScan) vectors(x *ir.Node) *ir.Node {
	x = c.swapAxes(c.split(x), 2, 3)
	if have := x.Shape()[2]; have != c.groups {
		each, _ := c.groups.Quo(have.Add)
		x = c.reshape(x, c.shape(have, ir.D(1), ir.D(chunkTimes), c.keys))
		x = c.broadcast(x, c.shape(have, each, ir.D(chunkTimes), c.keys))
		x = c.reshape(x, c.shape(c.groups, ir.D(chunkTimes), c.keys))
	}
	return x
}

// sumsOf returns running sums of decays along a chunk, in two parts. A difference of sums in one f32 would have the
// error of the sums, which is large after a decay that clears the state. The first part has multiples of 1/16 below
// 2^20, so it is exact, and the second part is small.
func (c *chunkedScan) sumsOf(decays *ir.Node) []*ir.Node {
	const most = 1 << 20 / chunkTimes // of a decay, so that the sums of a chunk are at most 2^20
	decays = c.unary(ir.OpClamp, decays, attr("min", -float64(most)), attr("max", float64(most)))
	scaled := c.unary(ir.OpRound, c.binary(ir.OpMul, decays, c.scalar(ir.F32, 16)))
	coarse := c.binary(ir.OpMul, scaled, c.scalar(ir.F32, 1.0/16))
	parts := []*ir.Node{coarse, c.binary(ir.OpSub, decays, coarse)}
	for i, x := range parts {
		parts[i] = c.unary(ir.OpCumSum, x, attr("axis", 3))
	}
	return parts
}

// between returns the sum of the decays between two time steps of a chunk. The functions later and earlier each select
// one of the two: they take one part of c.sums, and return the sums up to that time step. earlier is nil for the start
// of the chunk.
func (c *chunkedScan) between(later, earlier func(sums *ir.Node) *ir.Node) *ir.Node {
	var sum *ir.Node
	for _, x := range c.sums {
		part := later(x)
		if earlier != nil {
			part = c.binary(ir.OpSub, part, earlier(x))
		}
		if sum == nil {
			sum = part
		} else {
			sum = c.binary(ir.OpAdd, sum, part)
		}
	}
	return sum
}

// states returns the states before each chunk and after the last one, [batch, chunks+1, heads, values*keys]. They are
// results of a scan with one key. Each of its time steps adds one chunk's amount to the state, and the first one adds
// 0.
func (c *chunkedScan) states() *ir.Node {
	// end and self pick the sums up to the chunk's last time step, and up to each time step.
	end := func(x *ir.Node) *ir.Node { return c.sliceAxis(x, 3, chunkTimes-1, chunkTimes) }
	self := func(x *ir.Node) *ir.Node { return x }
	// left is the part of each time step's value that is left at the end of the chunk.
	left := c.reshape(c.unary(ir.OpExp, c.between(end, self)), c.shape(c.heads, ir.D(chunkTimes), ir.D(1)))
	v := c.swapAxes(c.binary(ir.OpMul, c.v, left), 3, 4)
	rows := c.numel(ir.Shape{c.each, c.values})
	added := c.binary(ir.OpMatMul, c.reshape(v, c.shape(c.groups, rows, ir.D(chunkTimes))), c.k)

	all := c.numel(ir.Shape{c.values, c.keys})
	before := func(x *ir.Node) *ir.Node {
		s := slices.Clone(x.Shape())
		s[1] = ir.D(1)
		return c.concat(1, c.fill(ir.F32, 0, s), x)
	}
	// With keys and queries of 1, y is the state after each time step. Time step 0 changes nothing, so y[i] is the
	// state before chunk i.
	one := c.fill(ir.F32, 1, ir.Shape{c.batch, {Add: c.chunks + 1}, ir.D(1), ir.D(1)})
	return c.add(ir.OpDeltaRule, []*ir.Node{one, one, before(c.reshape(added, c.shape(c.heads, all))),
		before(c.between(end, nil)), c.reshape(c.state, ir.Shape{c.batch, c.heads, all, ir.D(1)})}, attr("of", "y"))
}

// results returns y [batch, times, heads, values], for the states before each chunk.
func (c *chunkedScan) results(states *ir.Node) *ir.Node {
	size, rows := ir.D(chunkTimes), c.numel(ir.Shape{c.each, c.values})
	across := attr("transpose_b", true)
	// The results are the sum of two parts. One comes from the state before the chunk.
	fromState := c.binary(ir.OpMatMul, c.q, c.reshape(states, c.shape(c.groups, rows, c.keys)), across)
	fromState = c.swapAxes(c.reshape(fromState, c.shape(c.groups, size, c.each, c.values)), 3, 4)
	decayed := c.unary(ir.OpExp, c.between(func(x *ir.Node) *ir.Node { return x }, nil))
	fromState = c.binary(ir.OpMul, c.reshape(fromState, c.shape(c.heads, size, c.values)),
		c.reshape(decayed, c.shape(c.heads, size, ir.D(1))))

	// The other comes from the chunk's own time steps: their values, times a weight for each pair of time steps.
	pairs := c.reshape(c.binary(ir.OpMatMul, c.q, c.k, across), c.shape(c.groups, ir.D(1), size, size))
	later := func(x *ir.Node) *ir.Node { return c.reshape(x, c.shape(c.groups, c.each, size, ir.D(1))) }
	earlier := func(x *ir.Node) *ir.Node { return c.reshape(x, c.shape(c.groups, c.each, ir.D(1), size)) }
	weights := c.binary(ir.OpMul, pairs, c.unary(ir.OpExp, c.between(later, earlier)))
	plane := ir.Shape{size, size}
	// A time step reads only itself and earlier time steps.
	weights = c.where(c.binary(ir.OpLe, c.iota(plane, 1), c.iota(plane, 0)), weights, c.scalar(ir.F32, 0))
	y := c.binary(ir.OpMatMul, c.reshape(weights, c.shape(c.heads, size, size)), c.v)

	y = c.swapAxes(c.binary(ir.OpAdd, y, fromState), 2, 3)
	y = c.reshape(y, ir.Shape{c.batch, {Add: c.chunks * chunkTimes}, c.heads, c.values})
	return c.sliceAxis(y, 1, 0, c.times)
}
