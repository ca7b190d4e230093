package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/recurrence"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// The number of elements of a window of causal_conv1d up to which one kernel of elementwise ops computes it.
const fewTaps = 16

// causalConv1D decomposes causal_conv1d into sums of shifted rows, or for long windows into a convolution.
func (r *rewriter) causalConv1D(n *ir.Node, args []*ir.Node) *ir.Node {
	if n.Attrs().String_("of") == "state" {
		return r.convState(args[0], args[2])
	}
	args = r.widened(args)
	x, w, state := args[0], args[1], args[2]
	s, size := x.Shape(), w.Shape()[1].Add
	axis := len(s) - 2
	if size > fewTaps {
		batch := r.numel(s[:axis])
		rows := r.reshape(r.rowsAfter(state, x, 0), ir.Shape{batch, s[axis].Plus(size - 1), s[axis+1]})
		z := r.swapAxes(rows, 1, 2)
		y := r.binary(ir.OpConv, z, r.reshape(w, ir.Shape{s[axis+1], ir.D(1), w.Shape()[1]}),
			attr("groups", s[axis+1].Add))
		return r.castTo(r.reshape(r.swapAxes(y, 1, 2), s), n.DType())
	}
	taps := r.byTap(w)
	var y *ir.Node
	for k := range size { // each tap has a concat of its own, which costs nothing because no other op reads it
		// The tap multiplies rows k to k+T-1 of the state followed by x. The state alone has them if x is short. A
		// concat would then be the same for several taps, and so be stored.
		z, from := state, k
		inState := s[axis].IsStatic() && k+s[axis].Add <= size-1
		if !inState {
			z, from = r.rowsAfter(state, x, k), 0
		}
		part := r.binary(ir.OpMul, r.rowsFrom(z, axis, from, s[axis]), taps[k])
		if y == nil {
			y = part
		} else {
			y = r.binary(ir.OpAdd, y, part)
		}
	}
	return r.castTo(y, n.DType())
}

// convState returns the state after a causal_conv1d of x: the last rows of the old state followed by x.
func (r *rewriter) convState(x, state *ir.Node) *ir.Node {
	axis := x.Rank() - 2
	times, size := x.Shape()[axis], state.Shape()[axis]
	if times.IsStatic() {
		k := min(times.Add, size.Add) // so that no row of the result is before k
		return r.rowsFrom(r.rowsAfter(state, x, k), axis, times.Add-k, size)
	}
	at := r.binary(ir.OpAdd, r.iota(ir.Shape{size}, 0), r.dimValue(times))
	return r.onAxis(ir.OpIndexSelect, axis, r.rowsAfter(state, x, 0), at)
}

// rowsAfter returns the rows of the state from row k on, followed by x.
func (r *rewriter) rowsAfter(state, x *ir.Node, k int64) *ir.Node {
	axis := x.Rank() - 2
	rows := state.Shape()[axis].Add
	if k == rows {
		return x
	}
	return r.concat(axis, r.rowsFrom(state, axis, k, ir.Dim{Add: rows - k}), x)
}

// byTap returns column k of w [C, K] for each k. A kernel transposes a weight when the program is loaded, because
// neighbouring channels that lie far apart take several times as long to read (M-recurrences).
func (r *rewriter) byTap(w *ir.Node) []*ir.Node {
	channels, size := w.Shape()[0], w.Shape()[1].Add
	taps := make([]*ir.Node, size)
	for k := range size {
		taps[k] = r.reshape(r.sliceAxis(w, 1, k, k+1), ir.Shape{channels})
	}
	// The concat of a weight's columns is its transpose, which is computed at load.
	if !fixed(w) {
		return taps
	}
	all := r.concat(0, taps...)
	for k := range size {
		taps[k] = r.slice(all, []int64{k * channels.Add}, ir.Shape{ir.Dim{Add: (k + 1) * channels.Add}})
	}
	return taps
}

// fixed reports whether n is the same in every run.
func fixed(n *ir.Node) bool {
	if len(n.Args()) == 0 {
		return analysis.IsFixed(n)
	}
	return !slices.ContainsFunc(n.Args(), func(a *ir.Node) bool { return !fixed(a) })
}

// rowsFrom returns rows first to first+count-1 of x along an axis.
func (r *rewriter) rowsFrom(x *ir.Node, axis int, first int64, count ir.Dim) *ir.Node {
	starts, limits := make([]int64, x.Rank()), slices.Clone(x.Shape())
	starts[axis], limits[axis] = first, count.Plus(first)
	return r.slice(x, starts, limits)
}

// scan rewrites ssm_scan as delta_rule without a correction. delta_rule has a kernel in f32, and becomes doubleScan in
// f64. Long scans become chunkedScan if that is faster.
func (r *rewriter) scan(n *ir.Node, args []*ir.Node) *ir.Node {
	wide := r.widened(args)
	if n.Op() == ir.OpSSMScan {
		x, dt, a, b, c, state := wide[0], wide[1], wide[2], wide[3], wide[4], wide[5]
		dt = r.reshape(dt, append(slices.Clone(dt.Shape()), ir.D(1)))
		// In terms of delta_rule: q is c, k is b, v is x*dt, and the logarithm of the decay is dt*a.
		wide = []*ir.Node{c, b, r.binary(ir.OpMul, x, dt), r.binary(ir.OpMul, dt, a), state}
	}
	if wide[0].DType() == ir.F64 {
		return r.doubleScan(n, wide)
	}
	if out := r.chunkedScan(n, wide); out != nil {
		return r.castTo(out, n.DType())
	}
	if n.Op() == ir.OpDeltaRule && n.DType() == ir.F32 { // nothing changed
		return nil
	}
	return r.castTo(r.add(ir.OpDeltaRule, wide, n.Attrs()...), n.DType())
}

// doubleScan computes a delta_rule in f64 by a kernel of newScan, or, if there is only one time step, by
// elementwise ops and sums, which fuse. args are q, k, v, decay and state, and for a delta_rule with a correction also
// a and b.
func (r *rewriter) doubleScan(n *ir.Node, args []*ir.Node) *ir.Node {
	v, state := args[2], args[4]
	s := state.Shape()
	outer := len(s) - 3
	batch, heads, values, keys := r.numel(s[:outer]), s[outer], s[outer+1], s[outer+2]
	times := v.Shape()[outer]
	list := make([]*ir.Node, len(args)) // of [batch, times, _, _], except the state
	for i, x := range args {
		list[i] = x
		if i != 4 {
			list[i] = r.reshape(x, append(ir.Shape{batch, times}, x.Shape()[x.Rank()-2:]...))
		}
	}
	// The kernel takes factors, and the op logarithms of them.
	list[3] = r.unary(ir.OpExp, list[3])
	of := n.Attrs().String_("of")
	var y *ir.Node
	if times.Is(1) {
		list[4] = r.reshape(state, ir.Shape{batch, heads, values, keys})
		y = r.oneStep(list, of == "state")
	} else {
		list[4] = r.reshape(state, ir.Shape{r.numel(s[:outer+2]), keys})
		op := plainScan
		if len(list) > 5 {
			op = correctedScan
		}
		y = r.add(op, list, attr("output", int64(map[string]int{"y": 0, "state": 1}[of])))
	}
	return r.reshape(y, n.Shape())
}

// oneStep computes one time step of a scan. It returns the new state [B, H, V, K] if wantState is set, and otherwise y
// [B, H, V, 1]. There are B batches, H heads, and V rows of K elements in the state of a head. args are as for
// doubleScan, with the decay as a factor. Fusion makes one kernel of the state and y, which reads the old state once.
func (r *rewriter) oneStep(args []*ir.Node, wantState bool) *ir.Node {
	state := args[4]
	s := state.Shape()
	vector := func(x *ir.Node) *ir.Node { // [B, H, 1, K]
		g, k := x.Shape()[2], x.Shape()[3]
		// Several heads share a vector: repeat it for each.
		if g != s[1] {
			each, _ := s[1].Quo(g.Add)
			x = r.broadcast(r.reshape(x, ir.Shape{s[0], g, ir.D(1), k}), ir.Shape{s[0], g, each, k})
		}
		return r.reshape(x, ir.Shape{s[0], s[1], ir.D(1), k})
	}
	mul := func(a, b *ir.Node) *ir.Node { return r.binary(ir.OpMul, a, b) }
	sum := func(x *ir.Node) *ir.Node { return r.foldAlong(ir.OpSum, x, 3) }
	q, k, v := vector(args[0]), vector(args[1]), r.reshape(args[2], ir.Shape{s[0], s[1], s[2], ir.D(1)})
	next := r.binary(ir.OpAdd, mul(state, vector(args[3])), mul(v, k))
	if len(args) > 5 {
		next = r.binary(ir.OpAdd, next, mul(sum(mul(state, vector(args[5]))), vector(args[6])))
	}
	if wantState {
		return next
	}
	return sum(mul(next, q))
}

// The kernels of op delta_rule in f64, without and with a correction. A kernel goes along time once, with the state in
// registers. The argument decay is the factor itself, because custom kernels have no exponential of doubles.
var (
	plainScan     = newScan("scan", "Linear attention with a state that decays (Dao and Gu 2024).")
	correctedScan = newScan("delta_scan",
		"Linear attention with a state that decays and is corrected (Yang et al. 2024).",
		ir.ArgInfo{Name: "a"}, ir.ArgInfo{Name: "b"})
)

// newScan registers a kernel. Sixteen lanes share a row of the state, and a workgroup has eight rows. It adds up the
// lanes' parts of y for eight time steps at once, for which the 16 KiB of shared memory that every device has suffice.
func newScan(name, doc string, more ...ir.ArgInfo) ir.Op {
	// shared counts doubles: parts of y for eight time steps and 128 lanes.
	shared, source := 8*128, []string{"SHARED", "", "BEFORE", "", "CORRECTION", ""}
	if len(more) > 0 {
		shared += 2 * 128 // the correction's reads
		source = []string{"SHARED", "shared double reads[256];", "BEFORE", kernelSource("recurrence_reads") + "\n",
			"CORRECTION", " + read * b[b_at + n]"}
	}
	fill := strings.NewReplacer(source...).Replace
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc." + name + "_f64", Doc: doc,
		Args: append([]ir.ArgInfo{{Name: "q"}, {Name: "k"}, {Name: "v"}, {Name: "decay"}, {Name: "state"}}, more...),
		Kernel: &ir.CustomKernel{
			Outputs: []string{"y", "last"}, Workgroup: [3]int{128},
			Grid:   [3][]ir.GridRule{{{Of: "state", Axis: 0, Tile: 8}}},
			Shared: fill("shared double parts[8 * 128];\nSHARED"), SharedBytes: ir.F64.BlockBytes() * shared,
			Body: fill(kernelSource("recurrence")),
		},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			for i := range c.Args {
				if c.DType(i) != ir.F64 {
					return nil, fmt.Errorf("want arguments of f64")
				}
			}
			// Result y has v's shape, and last the state's.
			return []ir.Type{{DType: ir.F64, Shape: c.Shape(2)}, {DType: ir.F64, Shape: c.Shape(4)}}, nil
		},
		Reference: reference(scanReference),
	})
}

// scanReference computes a scan in Go. Its arguments are q, k, v, decay and state, and with a correction also a and b
// (see newScan). It returns the outputs y and the last state.
func scanReference(args []*ir.Data, _ ir.Attrs) []*ir.Data {
	vectors := func(i int) recurrence.Vectors {
		if i >= len(args) {
			return recurrence.Vectors{}
		}
		return recurrence.Vectors{Elements: floats(args[i]), Groups: args[i].Dims[2]}
	}
	v := args[2].Dims
	s := recurrence.Scan{Batches: v[0], Times: v[1], Heads: v[2], Values: v[3], Keys: args[4].Dims[1],
		Q: vectors(0), K: vectors(1), A: vectors(5), B: vectors(6), V: floats(args[2]), Decay: floats(args[3]),
		Factors: true, State: floats(args[4])}
	y, last := make([]float64, len(s.V)), make([]float64, len(s.State))
	s.Run(y, last, 0, s.Batches*s.Heads)
	return []*ir.Data{ofFloats(ir.F64, y, v...), ofFloats(ir.F64, last, args[4].Dims...)}
}
