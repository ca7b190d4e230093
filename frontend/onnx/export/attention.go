package export

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// rope writes op rope. The angle of a pair is a position times a fraction of a full turn. The fraction has 64 bits, and
// whole turns are dropped exactly, so that large positions are as precise as small ones.
func rope(c *call) string {
	n, a := c.node, c.node.Attrs()
	rank := n.Rank()
	dims := a.Int("dims")
	if dims == 0 {
		dims = int(n.Shape()[rank-1].Add)
	}
	if dims == 0 {
		return c.arg(0)
	}
	var words string // i64[pairs, 2]: the high and the low half of each fraction
	if len(n.Args()) > 2 {
		words = c.cast(c.arg(2), ir.I64)
	} else {
		list := make([]float64, dims/2)
		for i := range list {
			list[i] = math.Pow(a.Float("base"), -2*float64(i)/float64(dims))
		}
		d, err := ir.RopeTurns(list)
		if err != nil {
			return c.fail("%v", err)
		}
		halves, err := d.Ints()
		if err == nil {
			d, err = ir.FromInts(ir.I64, halves, d.Dims...)
		}
		if err != nil {
			return c.fail("%v", err)
		}
		words = c.constant(d)
	}
	half := func(i int64) string {
		return c.emit("Gather", []string{words, c.scalar(ir.I64, float64(i))}, attribute{"axis", int64(1)})
	}
	// With fraction = high/2^32 + low/2^64, turn is (position*high + position*low/2^32) mod 2^32, in units of 2^-32
	// turns.
	whole := c.scalar(ir.I64, 1<<32)
	position := c.unsqueezed(c.cast(c.arg(1), ir.I64), -1)
	carry := c.emit("Div", []string{c.emit("Mul", []string{position, half(1)}), whole})
	turn := c.emit("Add", []string{c.emit("Mul", []string{position, half(0)}), carry})
	turn = c.cast(c.emit("Mod", []string{turn, whole}), ir.F32)
	// The angles are [outer…, T, pairs]. x has axes between the outer ones and T, and between T and the innermost.
	angles := c.emit("Mul", []string{turn, c.scalar(ir.F32, 0x1p-31*math.Pi)})
	axis, outer := axisOf(n, rank), n.Arg(1).Rank()-1
	var ones []int64 // the axes of extent 1 that the angles get
	for i := outer; i < axis; i++ {
		ones = append(ones, int64(i))
	}
	for i := axis + 1; i < rank-1; i++ {
		ones = append(ones, int64(i))
	}
	angles = c.unsqueezed(angles, ones...)
	return c.rotated(c.emit("Cos", []string{angles}), c.emit("Sin", []string{angles}), dims/2)
}

// ropeTables writes op rope_tables, which has tables of cosines and sines as arguments.
func ropeTables(c *call) string {
	tables := c.node.Arg(1).Shape()
	return c.rotated(c.as(1, ir.F32), c.as(2, ir.F32), int(tables[len(tables)-1].Add))
}

// rotated writes a rotation of the first pairs of elements along the innermost axis of the op's first argument. `pairs`
// is their number, and cos and sin are tables of f32. Elements after the pairs stay unchanged.
func (c *call) rotated(cos, sin string, pairs int) string {
	x, rank, t := c.as(0, ir.F32), c.node.Rank(), c.node.DType()
	inner := c.node.Shape()[rank-1].Add
	part := func(from, to, step int) string {
		return c.emit("Slice", []string{x, c.ints(int64(from)), c.ints(int64(to)), c.ints(-1), c.ints(int64(step))})
	}
	half := c.node.Attrs().String_("mode") == "half"
	a, b := part(0, 2*pairs, 2), part(1, 2*pairs, 2)
	if half {
		a, b = part(0, pairs, 1), part(pairs, 2*pairs, 1)
	}
	times := func(x, y string) string { return c.emit("Mul", []string{x, y}) }
	y := []string{c.emit("Sub", []string{times(a, cos), times(b, sin)}),
		c.emit("Add", []string{times(a, sin), times(b, cos)})}
	joined := func(list []string) string { return c.emit("Concat", list, attribute{"axis", int64(-1)}) }
	if !half { // neighbours are a pair, so the results are interleaved
		both := joined([]string{c.unsqueezed(y[0], -1), c.unsqueezed(y[1], -1)})
		s := slices.Clone(c.node.Shape())
		s[rank-1] = ir.D(2 * pairs)
		y = []string{c.reshaped(both, s)}
	}
	if int64(2*pairs) < inner {
		y = append(y, part(2*pairs, int(inner), 1))
	}
	z := y[0]
	if len(y) > 1 {
		z = joined(y)
	}
	if t != ir.F32 {
		z = c.cast(z, t)
	}
	return z
}

// heads has the operands of an attention op.
type heads struct {
	t          ir.DType // in which the op is computed
	h, g       ir.Dim   // numbers of heads of queries, and of keys
	outer      ir.Shape // the extents before the heads
	rows, keys ir.Dim   // numbers of queries, and of keys
	q, k       string   // the names of queries and keys
	mask       *ir.Node // or nil
	sinks      string   // or ""
}

// attention writes ops attention and attention_lse: as ONNX's Attention if that defines the same result, and otherwise
// as matmuls and a softmax.
func attention(c *call) string {
	a := c.node.Attrs()
	q, k := c.node.Arg(0), c.node.Arg(1)
	rank := q.Rank()
	h := heads{t: computed(q.DType()), h: q.Shape()[rank-3], g: k.Shape()[rank-3], outer: q.Shape()[:rank-3],
		rows: q.Shape()[rank-2], keys: k.Shape()[rank-2], q: c.float(0)}
	h.k = c.as(1, h.t) // keys in the dtype of the computation
	info := c.node.Op().Info()
	if i := info.Arg("mask"); len(c.node.Args()) > i {
		h.mask = c.node.Arg(i)
	}
	if i := info.Arg("sinks"); len(c.node.Args()) > i {
		h.sinks = c.as(i, h.t)
	}
	lse := c.node.Op() == ir.OpAttentionLSE
	plain := h.sinks == "" && h.mask == nil && a.Float("softcap") == 0 && !a.Bool("zero_nan")
	if !lse && plain && rank <= 4 && h.allSee() {
		c.opset = max(c.opset, 23)
		return c.attentionOp(h)
	}
	return c.attentionParts(h, lse)
}

// allSee reports whether each query sees a key under a causal mask. If one sees none, ONNX does not define the result.
func (h heads) allSee() bool {
	more, err := h.keys.Less(h.rows)
	return err == nil && more.Add >= 0
}

// attentionScale returns the factor of the scores: the attribute, or 1/sqrt(D) without one.
func (c *call) attentionScale() float64 {
	if v := c.node.Attrs().Float("scale"); v != 0 {
		return v
	}
	s := c.node.Arg(0).Shape()
	return 1 / math.Sqrt(float64(s[len(s)-1].Add))
}

// attentionOp writes ONNX's op, which has a batch before the heads.
func (c *call) attentionOp(h heads) string {
	in := []string{h.q, h.k, c.as(2, h.t)}
	alone := c.node.Rank() == 3 // without a batch
	if alone {
		for i, x := range in {
			in[i] = c.unsqueezed(x, 0)
		}
	}
	attrs := []attribute{{"scale", c.attentionScale()}}
	// ONNX's causal mask starts at the first key, and vkc's ends at the last.
	if c.node.Attrs().Bool("causal") && c.node.Attrs().Int("window") == 0 && h.rows == h.keys {
		attrs = append(attrs, attribute{"is_causal", int64(1)})
	} else if seen := c.seen(h); seen != "" {
		in = append(in, seen)
	}
	y := c.emit("Attention", in, attrs...)
	if alone {
		y = c.emit("Squeeze", []string{y, c.ints(0)})
	}
	return c.rounded(y, h.t)
}

// seen returns a bool[rows, keys]: which keys each query sees with the causal mask and the window. It returns "" if all
// queries see all keys.
func (c *call) seen(h heads) string {
	window := c.node.Attrs().Int("window")
	if !c.node.Attrs().Bool("causal") || h.rows.Is(1) && window == 0 {
		return ""
	}
	// The last query is at the last key.
	offset := c.emit("Sub", []string{c.number(h.keys), c.number(h.rows)})
	last := c.unsqueezed(c.emit("Add", []string{c.ranged(h.rows), offset}), 1)
	key := c.unsqueezed(c.ranged(h.keys), 0)
	seen := c.emit("LessOrEqual", []string{key, last})
	if window > 0 {
		past := c.emit("Sub", []string{last, c.scalar(ir.I64, float64(window))})
		seen = c.emit("And", []string{seen, c.emit("Greater", []string{key, past})})
	}
	return seen
}

// maskedScores writes the scores of attention, [outer…, H, rows, keys], for queries q [outer…, G, H/G, rows, D].
func (c *call) maskedScores(h heads, q string) string {
	t, rank := h.t, c.node.Arg(0).Rank()
	// The new axis broadcasts the keys to the queries that share them.
	k := c.unsqueezed(h.k, int64(rank-2))
	scores := c.emit("MatMul", []string{q, c.swapped(k, rank+1)})
	scores = c.emit("Mul", []string{scores, c.scalar(t, c.attentionScale())})
	if cap := c.node.Attrs().Float("softcap"); cap != 0 {
		scores = c.emit("Tanh", []string{c.emit("Div", []string{scores, c.scalar(t, cap)})})
		scores = c.emit("Mul", []string{scores, c.scalar(t, cap)})
	}
	scores = c.reshaped(scores, slices.Concat(h.outer, ir.Shape{h.h, h.rows, h.keys}))
	hidden := c.scalar(t, math.Inf(-1))
	if h.mask != nil {
		m := c.value(h.mask)
		if h.mask.DType().IsFloat() {
			if h.mask.DType() != t {
				m = c.cast(m, t)
			}
			scores = c.emit("Add", []string{scores, m})
		} else {
			scores = c.emit("Where", []string{c.truth(m, h.mask.DType()), scores, hidden})
		}
	}
	if seen := c.seen(h); seen != "" {
		scores = c.emit("Where", []string{seen, scores, hidden})
	}
	return scores
}

// attentionParts writes attention as matmuls and a softmax. If lse is set, it writes op attention_lse: the logarithms
// of the softmax's denominators.
func (c *call) attentionParts(h heads, lse bool) string {
	t, rank := h.t, c.node.Arg(0).Rank()
	// Heads of queries that share keys are an axis of their own: [outer…, G, H/G, rows, D].
	share, ok := h.h.Quo(h.g.Add)
	if !h.g.IsStatic() || !ok {
		return c.fail("%s heads share the keys of %s: want fixed numbers of heads", h.h, h.g)
	}
	grouped := func(rows, last ir.Dim) ir.Shape { return slices.Concat(h.outer, ir.Shape{h.g, share, rows, last}) }
	scores := c.maskedScores(h, c.reshaped(h.q, grouped(h.rows, c.node.Arg(0).Shape()[rank-1])))
	last := int64(rank - 1)
	if h.sinks != "" {
		s := slices.Concat(h.outer, ir.Shape{h.h, h.rows, ir.D(1)})
		sink := c.emit("Expand", []string{c.unsqueezed(h.sinks, 1, 2), c.shape(s)})
		// A sink is one more key without a value.
		scores = c.emit("Concat", []string{scores, sink}, attribute{"axis", last})
	}
	if lse {
		y := c.emit("ReduceLogSumExp", []string{scores, c.ints(last)}, attribute{"keepdims", int64(0)})
		infinite := c.emit("IsInf", []string{y}, attribute{"detect_negative", int64(0)})
		// The result is NaN for an infinite sum, as of vkc's op.
		y = c.emit("Where", []string{infinite, c.scalar(t, math.NaN()), y})
		return c.rounded(y, t)
	}
	p := c.emit("Softmax", []string{scores}, attribute{"axis", last})
	if c.node.Attrs().Bool("zero_nan") {
		p = c.emit("Where", []string{c.emit("IsNaN", []string{p}), c.scalar(t, 0), p})
	}
	if h.sinks != "" {
		p = c.sliced(p, c.ints(0), c.dim(h.keys), last)
	}
	v := c.unsqueezed(c.as(2, t), int64(rank-2))
	y := c.emit("MatMul", []string{c.reshaped(p, grouped(h.rows, h.keys)), v})
	if h.keys.Min() == 0 && h.sinks == "" && !c.node.Attrs().Bool("zero_nan") {
		// A mean of no values is NaN, but a product of no terms is 0.
		none := c.emit("Equal", []string{c.number(h.keys), c.scalar(ir.I64, 0)})
		y = c.emit("Where", []string{none, c.scalar(t, math.NaN()), y})
	}
	return c.rounded(c.reshaped(y, c.node.Shape()), t)
}
