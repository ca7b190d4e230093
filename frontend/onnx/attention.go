package onnx

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var attentionOps = table{
	"Attention": manyOp(attention),
	"LinearAttention": manyOp(linearAttention).
		leaves("chunk_size", "it says how many positions may be computed at a time, and not what of them"),
	"CausalConvWithState": manyOp(causalConv),
}

// previewOps are ONNX's experimental ops.
var previewOps = table{"FlexAttention": controlOp(func(c *call) []*value { return one(flexAttention(c)) })}

// flexAttention builds FlexAttention. Its subgraphs change the scores before the softmax (score_mod) and the weights
// after it (prob_mod). All is computed in softmax_precision, by default f64 for f64 inputs and f32 for others.
func flexAttention(c *call) tensor {
	a := &attentionNode{c: c, q: c.x(0), k: c.x(1), v: c.x(2)}
	t, precision := a.q.DType(), ir.F32
	if t == ir.F64 {
		precision = ir.F64
	}
	precision = c.dtypeAttr("softmax_precision", precision)
	a.setScale()
	a.q, a.k, a.v = castTo(a.q, precision), castTo(a.k, precision), castTo(a.v, precision)
	modified := func(y tensor, name string) tensor { // applies the subgraph of an attribute, if there is one
		if !c.hasAttr(name) {
			return y
		}
		out := c.subgraph(c.graphAttr(name), []*value{{tensor: y, from: merged(c.in)}})
		if len(out) != 1 {
			c.fail("attribute %s, a graph, has %d outputs: want one", name, len(out))
		}
		return c.asTensor(out[0])
	}
	scores := modified(a.scores(scaledScores), "score_mod")
	weights := modified(scores.Softmax(3), "prob_mod")
	return castTo(weights.MatMul(c.repeatHeads(a.v, a.q.Dim(1))), t)
}

// repeatHeads returns keys or values k [B, G, S, D] as [B, heads, S, D]: each of the G key heads is repeated for the
// query heads that share it.
func (c *call) repeatHeads(k tensor, heads ir.Dim) tensor {
	g := k.Dim(1)
	if g == heads {
		return k
	}
	if !g.IsStatic() || !heads.IsStatic() || g.Static() < 1 || heads.Static()%g.Static() != 0 {
		c.fail("%s heads share %s of keys", heads, g)
	}
	return repeatEach(k, 1, heads.Static()/g.Static())
}

// repeatEach repeats each slice along an axis n times. For n = 2, slices a and b become a, a, b, b.
func repeatEach(x tensor, axis, n int) tensor {
	if n == 1 {
		return x
	}
	s := x.Shape()
	return x.Unsqueeze(axis+1).Broadcast(s[:axis+1], n, s[axis+1:]).
		Reshape(s[:axis], s[axis].Times(int64(n)), s[axis+1:])
}

// splitHeads reshapes [batch, length, heads*size] to [batch, heads, length, size]. attr names the attribute with the
// number of heads.
func (c *call) splitHeads(x tensor, attr string) tensor {
	n := c.intAttr(attr, 0)
	if n < 1 {
		c.fail("attribute %s is %d: want the number of heads", attr, n)
	}
	return c.headsOf(x, n)
}

// mergeHeads reshapes [batch, heads, length, size] to [batch, length, heads*size], the inverse of splitHeads.
func mergeHeads(x tensor) tensor {
	s := x.Shape()
	return x.SwapAxes(1, 2).Reshape(s[0], s[2], s[1].Times(s[3].Add))
}

// attentionNode is a node Attention while it is built, with queries [B, H, T, D], keys [B, G, S, D] and values [B, G,
// S, E]: B sequences, H query heads that share G key heads, T queries, S keys, and vectors of D and E elements. Keys
// and values from the cache come before the node's own.
type attentionNode struct {
	c       *call
	q, k, v tensor
	// offset is the number of keys before the first query's own position: an i32 scalar, or [B, 1, 1, 1].
	offset  tensor
	last    bool   // the queries are at the last positions of the keys, as op attention assumes
	causal  bool   // op attention hides the keys after each query; otherwise, visible must hide them
	window  int    // if not 0, the number of keys in the window that op attention applies
	visible tensor // bools that broadcast to [B, H, T, S]: the keys that a query attends to; the zero Tensor for all
	bias    tensor // floats added to the scores, or the zero Tensor
	sinks   tensor // scores of attention sinks by head, or the zero Tensor
	scale   float64
	softcap float64 // limit of the scores; 0 for none
}

// attention builds Attention of opset 23 and later. Keys and values are appended to a cache, or are themselves a cache
// that each sequence has partly filled. Scores are computed and summed in f32, for every value of softmax_precision.
func attention(c *call) []*value {
	const pastKey, pastValue, filledLength = 4, 5, 6 // optional inputs
	a := &attentionNode{c: c, q: c.x(0), k: c.x(1), v: c.x(2)}
	flat := a.q.Rank() == 3 // the heads are side by side in the last axis
	a.setHeads(flat)
	if c.intAttr("softmax_precision", 0) == float64Type && a.q.DType() != ir.F64 {
		c.fail("attribute softmax_precision is double, but vkc computes the weights of %s in float", a.q.DType())
	}
	stage := c.intAttr("qk_matmul_output_mode", scaledScores)
	if stage < scaledScores || stage > softmaxWeights {
		c.fail("qk_matmul_output_mode is %d: want 0 to 3", stage)
	}
	if c.has(pastKey) != c.has(pastValue) || c.has(pastKey) && c.has(filledLength) {
		c.fail("want both past_key and past_value or neither, and with them no nonpad_kv_seqlen")
	}
	if d := a.q.Dim(3); !d.IsStatic() || d.Add < 1 {
		c.fail("queries %s: want a fixed size of a head", a.q)
	}
	a.scale, a.softcap = c.floatAttr("scale", 1/math.Sqrt(float64(a.q.Dim(3).Add))), c.floatAttr("softcap", 0)
	switch {
	case c.has(pastKey):
		a.appendCache(c.x(pastKey), c.x(pastValue))
	case c.has(filledLength): // k and v are caches, with the number of filled positions of each sequence
		length := a.q.Dim(2)
		filled := c.x(filledLength).Cast(ir.I32).Reshape(-1, 1, 1, 1)
		a.offset = filled.Sub(c.b.DimValue(length))
		a.hideUnless(a.keys().Lt(filled))
	default:
		a.noCache()
	}
	a.setVisible()
	y := a.zeroWithoutKeys(a.q.Attention(a.k, a.v, a.options()...))
	if flat {
		y = mergeHeads(y)
	}
	out := several(y, a.k, a.v)
	if c.wants(3) {
		out = append(out, one(a.scores(stage))...)
	}
	return out
}

// setHeads splits the inputs by head if they are flat, [batch, length, heads*size]. Others have an axis of heads
// already, and setHeads compares it with the attributes.
func (a *attentionNode) setHeads(flat bool) {
	c := a.c
	if flat {
		a.q = c.splitHeads(a.q, "q_num_heads")
		a.k, a.v = c.splitHeads(a.k, "kv_num_heads"), c.splitHeads(a.v, "kv_num_heads")
	}
	if a.q.Rank() != 4 || a.k.Rank() != 4 || a.v.Rank() != 4 {
		c.fail("inputs %s, %s and %s: want [batch, heads, length, size], or [batch, length, heads*size]", a.q, a.k, a.v)
	}
	queries, keys := c.intAttr("q_num_heads", 0), c.intAttr("kv_num_heads", 0) // 0 if not given
	if queries != 0 && !a.q.Dim(1).Is(queries) || keys != 0 && !a.k.Dim(1).Is(keys) {
		c.fail("q_num_heads is %d and kv_num_heads %d, but %s and %s are [batch, heads, length, size]", queries, keys,
			a.q, a.k)
	}
}

// appendCache puts cached keys and values before the new ones. The first query has the first position after the cache.
func (a *attentionNode) appendCache(keys, values tensor) {
	queries, fresh, past := a.q.Dim(2), a.k.Dim(2), keys.Dim(2)
	a.k, a.v = keys.Concat(2, a.k), values.Concat(2, a.v)
	a.offset, a.last = a.c.b.DimValue(past), queries == fresh
}

// noCache sets the queries' positions if all keys are new: the first query has the position of the first key.
func (a *attentionNode) noCache() { a.offset, a.last = a.c.b.Const(int32(0)), a.q.Dim(2) == a.k.Dim(2) }

// keys returns the positions of the keys, [1, 1, 1, S].
func (a *attentionNode) keys() tensor { return a.c.b.Iota(ir.I32, 3, 1, 1, 1, a.k.Dim(2)) }

// queries returns the queries' positions among the keys, [1, 1, T, 1] or [B, 1, T, 1].
func (a *attentionNode) queries() tensor {
	return a.c.b.Iota(ir.I32, 2, 1, 1, a.q.Dim(2), 1).Add(a.offset)
}

// hideUnless hides the keys for which the mask `seen` is false. Keys that are hidden already stay hidden.
func (a *attentionNode) hideUnless(seen tensor) {
	if !a.visible.IsZero() {
		seen = a.visible.And(seen)
	}
	a.visible = seen
}

// setVisible sets which keys each query attends to, and the bias of the scores, from the attributes and attn_mask.
func (a *attentionNode) setVisible() {
	left, right := a.c.intAttr("left_window_size", -1), a.c.intAttr("right_window_size", -1)
	causal := a.c.intAttr("is_causal", 0) != 0
	if causal {
		right = -1 // causality hides all keys after the query's own
	}
	a.hideOutside(causal, left+1)
	if right >= 0 {
		a.hideUnless(a.keys().Le(a.queries().AddScalar(float64(right))))
	}
	if !a.c.has(3) {
		return
	}
	if mask := a.padMask(a.c.x(3)); mask.DType() == ir.Bool {
		a.hideUnless(mask)
	} else {
		a.bias = mask
	}
}

// hideOutside hides keys from queries. If causal is set, a query does not see the keys after its own position. If
// window is not 0, it sees at most the last `window` keys up to that position. Op attention does both itself if the
// queries are at the last positions of the keys (a.last).
func (a *attentionNode) hideOutside(causal bool, window int) {
	a.causal = causal && a.last
	if causal && !a.last {
		a.hideUnless(a.keys().Le(a.queries()))
	}
	switch {
	case window > 0 && a.causal:
		a.window = window
	case window > 0:
		a.hideUnless(a.keys().Gt(a.queries().AddScalar(float64(-window))))
	}
}

// padMask extends a mask that is shorter than the keys, so that it hides the keys after its end.
func (a *attentionNode) padMask(mask tensor) tensor {
	if mask.Rank() < 1 {
		a.c.fail("attn_mask is a scalar")
	}
	n, keys := mask.Dim(-1), a.k.Dim(2)
	if n == keys || n.Is(1) {
		return mask
	}
	missing, err := keys.Less(n)
	if err != nil {
		a.c.fail("attn_mask %s for %s keys: %v", mask, keys, err)
	}
	hidden := 0.0 // false for bools
	if mask.DType() != ir.Bool {
		hidden = math.Inf(-1)
	}
	last := mask.Rank() - 1
	return mask.Concat(last, a.c.b.Full(mask.DType(), hidden, mask.Shape()[:last], missing))
}

// mask returns the mask for op attention: bools, or floats with -Inf for hidden keys. The zero Tensor means no mask.
func (a *attentionNode) mask() tensor {
	switch {
	case a.bias.IsZero():
		return a.visible
	case a.visible.IsZero():
		return a.bias
	}
	return a.visible.Where(a.bias, a.bias.Lit(math.Inf(-1)))
}

// options returns the options of vkc's op attention that the node's inputs and attributes ask for.
func (a *attentionNode) options() []frontend.AttentionOption {
	options := []frontend.AttentionOption{frontend.Scale(a.scale)}
	if a.causal {
		options = append(options, frontend.Causal(), frontend.Window(a.window))
	}
	if a.softcap > 0 {
		options = append(options, frontend.Softcap(a.softcap))
	}
	if !a.sinks.IsZero() {
		options = append(options, frontend.Sinks(a.sinks))
	}
	if m := a.mask(); !m.IsZero() {
		options = append(options, frontend.Mask(m))
	}
	return options
}

// fullMask returns a mask that also hides the keys that op attention hides itself (causal and window).
func (a *attentionNode) fullMask() tensor {
	b := *a
	if a.causal {
		b.hideUnless(a.keys().Le(a.queries()))
	}
	if a.window > 0 {
		b.hideUnless(a.keys().Gt(a.queries().AddScalar(float64(-a.window))))
	}
	return b.mask()
}

// zeroWithoutKeys returns y [B, H, T, _] with 0 for the queries that attend to no key, as ONNX defines. The softmax
// over no keys would give NaN.
func (a *attentionNode) zeroWithoutKeys(y tensor) tensor {
	if a.visible.IsZero() && a.bias.IsZero() {
		return y // each query attends at least to its own position
	}
	seen := a.fullMask()
	if seen.DType() != ir.Bool {
		seen = seen.Gt(seen.Lit(math.Inf(-1)))
	}
	return seen.AnyKeep(-1).Where(y, y.Lit(0))
}

// The stages of the computation of attention weights, as attribute qk_matmul_output_mode numbers them.
const (
	scaledScores = iota
	cappedScores
	maskedScores
	softmaxWeights
)

// scores returns the scores or weights [B, H, T, S] as they are after a stage of their computation.
func (a *attentionNode) scores(stage int) tensor {
	y := a.q.MatMulT(a.c.repeatHeads(a.k, a.q.Dim(1))).MulScalar(a.scale)
	if a.softcap > 0 && stage >= cappedScores {
		y = wide(y, func(y tensor) tensor { return y.DivScalar(a.softcap).Tanh().MulScalar(a.softcap) })
	}
	if stage < maskedScores {
		return y
	}
	if mask := a.fullMask(); !mask.IsZero() {
		if mask.DType() == ir.Bool {
			mask = mask.Where(y.Lit(0), y.Lit(math.Inf(-1)))
		}
		y = y.Add(castTo(mask, y.DType()))
	}
	if stage == maskedScores {
		return y
	}
	return a.zeroWithoutKeys(y.Softmax(-1))
}

// linearAttention builds LinearAttention as op delta_rule. Keys of D elements and values of E elements, in G heads,
// accumulate in a state [B, G, D, E]. At each of the T positions, a gated rule lets the state decay, and a delta rule
// corrects it (Yang et al. 2024, arXiv:2412.06464). If there are more query heads than G, the values and the state are
// repeated to have a head for each query head.
func linearAttention(c *call) []*value {
	c.must("q_num_heads", AttrInt)
	c.must("kv_num_heads", AttrInt)
	rule := c.choice("update_rule", "gated_delta", "linear", "gated", "delta")
	gated, delta := rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	if gated != c.has(4) || delta != c.has(5) {
		c.fail("update_rule %q: want decay for gated rules, and beta for delta rules", rule)
	}
	t := c.dtypeOf(c.input(0))
	split := func(i int, attr string) tensor { // [B, T, heads, _]
		return castTo(c.splitHeads(c.x(i), attr), ir.F32).SwapAxes(1, 2)
	}
	q, k, v := split(0, "q_num_heads"), split(1, "kv_num_heads"), split(2, "kv_num_heads")
	batch, steps, g, d, e := q.Dim(0), q.Dim(1), k.Dim(2).Static(), k.Dim(3), v.Dim(3)
	queries := q.Dim(2).Static()
	if queries < 1 || g < 1 || queries%g != 0 && g%queries != 0 || q.Dim(3) != d || !d.IsStatic() || d.Add < 1 {
		c.fail("of queries %s and keys %s", q, k)
	}
	scale := c.floatAttr("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d.Add))
	}
	state, stateType := c.b.Full(ir.F32, 0, batch, g, d, e), t
	if c.has(3) {
		stateType = c.dtypeOf(c.in[3])
		state = castTo(c.x(3), ir.F32)
	}
	decay, correction := c.b.Full(ir.F32, 0, batch, steps, g, 1), []frontend.Correction(nil)
	if gated {
		decay = c.rates(4, g)
		decay = decay.Broadcast(batch, steps, g, decay.Dim(3))
	}
	if delta {
		beta := c.rates(5, g)
		correction = []frontend.Correction{{A: k.Mul(decay.Exp()).Neg(), B: k.Mul(beta)}}
		v = v.Mul(beta)
	}
	sharing := max(queries/g, 1) // query heads for each head of the state
	v, decay = repeatEach(v, 2, sharing), repeatEach(decay, 2, sharing)
	state = repeatEach(state.SwapAxes(2, 3), 1, sharing) // delta_rule has states [E, D]
	y, last := q.DeltaRule(k, v, decay, state, correction...)
	if sharing > 1 { // query heads that share a head have equal states: keep the first
		last = last.Reshape(batch, g, sharing, e, d).Index(2, 0)
	}
	return several(castTo(y.MulScalar(scale).Reshape(batch, steps, -1), t), castTo(last.SwapAxes(2, 3), stateType))
}

// rates returns input i in f32 as [B, T, heads or 1, D or 1]: rates by position and head, or also by element of a key.
// The input is [B, T, heads], [B, T, 1] or [B, T, heads*D].
func (c *call) rates(i, heads int) tensor {
	x := castTo(c.x(i), ir.F32)
	if n := x.Dim(2); n.Is(heads) || n.Is(1) {
		return x.Unsqueeze(3)
	}
	return x.Reshape(x.Dim(0), x.Dim(1), heads, -1)
}

// causalConv builds CausalConvWithState, a convolution over time for decoding in pieces: y[b, c, t] = sum over k of
// w[c, k] * x[b, c, t-size+1+k], where size is the extent of the window. Input 3 has the size-1 positions before x;
// without it they are zeros. The second result is the last size-1 positions, which the next call takes as its input 3.
func causalConv(c *call) []*value {
	x, w := c.x(0), c.x(1)
	if x.Rank() != 3 || w.Rank() != 3 || !w.Shape().IsStatic() || w.Dim(2).Add < 1 || w.Dim(0) != x.Dim(1) {
		c.fail("input %s with weights %s: want [batch, channels, length] and [channels, 1, size]", x, w)
	}
	keep := w.Dim(2).Static() - 1
	past := c.b.Full(x.DType(), 0, x.Dim(0), x.Dim(1), keep)
	if c.has(3) {
		past = c.x(3)
	}
	y, last := x.SwapAxes(1, 2).CausalConv1D(w.Reshape(w.Dim(0), w.Dim(2)), past.SwapAxes(1, 2))
	if c.has(2) { // the bias
		y = y.Add(c.x(2))
	}
	if c.choice("activation", "none", "silu", "swish") != "none" {
		y = y.Silu()
	}
	return several(y.SwapAxes(1, 2), last.SwapAxes(1, 2))
}
