package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// microsoftAttentionOps are ONNX Runtime's attention ops.
var microsoftAttentionOps = table{
	"Attention":                       manyOp(microsoftAttention),
	"QAttention":                      manyOp(quantizedAttention),
	"MultiHeadAttention":              manyOp(multiHeadAttention),
	"DecoderMaskedMultiHeadAttention": manyOp(decoderMaskedAttention),
	"GroupQueryAttention":             manyOp(groupQueryAttention),
	"RotaryEmbedding":                 tensorOp(microsoftRotary),
	"MRotaryEmbedding":                tensorOp(multimodalRotary),
	"GemmaRotaryEmbedding":            manyOp(gemmaRotary),
	"RelativePositionBias":            tensorOp(relativePositionBias),
	"GatedRelativePositionBias":       tensorOp(gatedRelativePositionBias),
	"LinearAttention": manyOp(microsoftLinearAttention).
		leaves("chunk_size", "it says how many positions may be computed at a time, and not what of them"),
	"LinearAttentionGate": manyOp(linearAttentionGate),
	"CausalConvWithState": manyOp(microsoftCausalConv),
	"EngramGate":          manyOp(engramGate),
}

// headsOf reshapes [batch, length, heads*size] to [batch, heads, length, size].
func (c *call) headsOf(x tensor, heads int) tensor {
	s := x.Shape()
	if x.Rank() != 3 || heads < 1 || !s[2].IsStatic() || s[2].Static()%heads != 0 {
		c.fail("input %s with %d heads: want [batch, length, heads*size]", x, heads)
	}
	return x.Reshape(s[0], s[1], heads, s[2].Static()/heads).SwapAxes(1, 2)
}

// setScale sets the scale of the scores from attribute scale. The default, also for 0, is 1/sqrt(D), with heads of D
// elements.
func (a *attentionNode) setScale() {
	d := a.q.Dim(3)
	if a.q.Rank() != 4 || a.k.Rank() != 4 || a.v.Rank() != 4 || !d.IsStatic() || d.Add < 1 {
		a.c.fail("inputs %s, %s and %s: want [batch, heads, length, size]", a.q, a.k, a.v)
	}
	a.scale = a.c.floatAttr("scale", 0)
	if a.scale == 0 {
		a.scale = 1 / math.Sqrt(float64(d.Add))
	}
}

// shareCache writes the new keys and values into the caches `keys` and `values`, from position start on, and hides the
// positions after them.
func (a *attentionNode) shareCache(keys, values, start tensor) {
	start = start.Cast(ir.I32).Reshape()
	fresh := a.k.Dim(2)
	a.k, a.v = keys.DynamicUpdateSlice(2, a.k, start), values.DynamicUpdateSlice(2, a.v, start)
	a.offset = start
	a.hideUnless(a.keys().Lt(start.Add(a.c.b.DimValue(fresh))))
}

// hidePadding adds attribute mask_filter_value to the scores of keys that are padding. Input i, if given, has the
// lengths of the sequences [B], or their ends and then their starts [2*B], or a mask [B, S] or [B, T, S] with 0 for
// padding.
func (a *attentionNode) hidePadding(i int) {
	filter := a.c.floatAttr("mask_filter_value", -10000)
	if !a.c.has(i) {
		return
	}
	m, batch, valid := castTo(a.c.x(i), ir.I32), a.q.Dim(0), tensor{}
	switch {
	case m.Rank() == 1 && m.Dim(0) == batch: // the end of each text
		valid = a.keys().Lt(m.Reshape(-1, 1, 1, 1))
	case m.Rank() == 1 && m.Dim(0) == batch.Times(2): // the ends, and then the starts
		both := m.Reshape(2, -1, 1, 1, 1)
		valid = a.keys().Lt(both.Index(0, 0)).And(a.keys().Ge(both.Index(0, 1)))
	case m.Rank() == 2:
		valid = m.Unsqueeze(1, 2).Gt(m.Lit(0))
	case m.Rank() == 3:
		valid = m.Unsqueeze(1).Gt(m.Lit(0))
	default:
		a.c.fail("mask %s for batch %s: want [batch], [2*batch], [batch, keys] or [batch, queries, keys]", m, batch)
	}
	t := a.q.DType()
	a.bias = valid.Where(a.c.b.Scalar(t, 0), a.c.b.Scalar(t, filter))
}

// addBias adds input i to the scores.
func (a *attentionNode) addBias(i int) {
	if !a.c.has(i) {
		return
	}
	bias := a.padMask(a.c.x(i))
	if !a.bias.IsZero() {
		bias = bias.Add(a.bias)
	}
	a.bias = bias
}

// projected splits a projection x [B, T, sum of sizes] into queries, keys and values, and these into heads. sizes has
// the three widths.
func (a *attentionNode) projected(x tensor, heads int, sizes []int) {
	parts := x.Split(2, sizes...)
	a.q, a.k, a.v = a.c.headsOf(parts[0], heads), a.c.headsOf(parts[1], heads), a.c.headsOf(parts[2], heads)
}

// selfAttention builds the rest of Attention and QAttention after a.q, a.k and a.v are set. Its arguments are numbers
// of inputs: the padding, a cache of keys and values, a bias of the scores, and the used length of the cache. bias and
// length are -1 if the op has no such input.
func (a *attentionNode) selfAttention(mask, past, bias, length int) []*value {
	a.c.only("do_rotary", 0, "ONNX Runtime applies rotary embeddings here only on GPUs")
	a.setScale()
	shared := a.c.flag("past_present_share_buffer", false)
	switch {
	case !a.c.has(past):
		if shared {
			a.c.fail("attribute past_present_share_buffer is set, but input %d is missing", past)
		}
		a.noCache()
	case shared:
		if length < 0 {
			a.c.fail("attribute past_present_share_buffer is set, but vkc does not know the length of the past")
		}
		// Input past is [2, …]: keys and values.
		a.shareCache(a.c.x(past).Index(0, 0), a.c.x(past).Index(0, 1), a.c.x(length))
	default:
		a.appendCache(a.c.x(past).Index(0, 0), a.c.x(past).Index(0, 1))
		if length >= 0 && a.c.has(length) {
			a.c.fail("it has input %d, the length of the past, but past_present_share_buffer is not set", length)
		}
	}
	a.hidePadding(mask)
	if bias >= 0 {
		a.addBias(bias)
	}
	a.hideOutside(a.c.flag("unidirectional", false), 0)
	y := mergeHeads(a.q.Attention(a.k, a.v, a.options()...))
	if !a.c.wants(1) {
		return one(y)
	}
	return several(y, a.k.Stack(0, a.v))
}

// microsoftAttention builds Attention of ONNX Runtime. One matmul projects its input to queries, keys and values.
func microsoftAttention(c *call) []*value {
	a := &attentionNode{c: c}
	x := matmul(c.x(0), c.x(1))
	if c.has(2) { // the bias of the projection
		x = x.Add(c.x(2))
	}
	c.only("rotary_embedding_dim", 0, "it rotates nothing")
	sizes := c.intsAttr("qkv_hidden_sizes")
	if len(sizes) == 0 {
		sizes = a.c.thirds(x)
	}
	if len(sizes) != 3 {
		c.fail("attribute qkv_hidden_sizes is %v: want three numbers", sizes)
	}
	a.projected(x, c.mustInt("num_heads"), sizes)
	return a.selfAttention(3, 4, 5, 6) // mask, past, bias and length
}

// thirds divides the last axis of a projection among queries, keys and values.
func (c *call) thirds(x tensor) []int {
	d := x.Dim(-1)
	if x.Rank() != 3 || !d.IsStatic() || d.Static()%3 != 0 {
		c.fail("the projection is %s: want [batch, length, 3*heads*size]", x)
	}
	return []int{d.Static() / 3, d.Static() / 3, d.Static() / 3}
}

// quantizedAttention builds QAttention: Attention with a projection of 8-bit integers. Inputs 3 and 4 are the scales of
// inputs 0 and 1, and inputs 6 and 7 their zero points.
func quantizedAttention(c *call) []*value {
	a := &attentionNode{c: c}
	y := c.int8MatMul(c.withZero(0, 6, false), c.withZero(1, 7, false)).Cast(ir.F32)
	scale := scalarOrRow(c.x(3)).Mul(scalarOrRow(c.x(4))).Cast(ir.F32)
	y = castTo(y.Mul(scale), c.x(3).DType()).Add(c.x(2))
	a.projected(y, c.mustInt("num_heads"), c.thirds(y))
	return a.selfAttention(5, 8, -1, -1) // mask and past
}

// multiHeadAttention builds MultiHeadAttention. Inputs 0 to 2 are the queries, keys and values (see operands). Input 3
// is a bias of the operands, 4 the mask of padding, 5 a bias of the scores, 6 and 7 the past keys and values, and 8 the
// length of the past.
func multiHeadAttention(c *call) []*value {
	a := &attentionNode{c: c}
	a.operands(c.mustInt("num_heads"), 3)
	a.setScale()
	switch {
	case !c.has(6):
		a.noCache()
	case c.has(8):
		a.shareCache(c.x(6), c.x(7), c.x(8))
	default:
		a.appendCache(c.x(6), c.x(7))
	}
	a.hidePadding(4)
	a.addBias(5)
	a.hideOutside(c.flag("unidirectional", false), 0)
	return a.withScores()
}

// decoderMaskedAttention builds DecoderMaskedMultiHeadAttention, of one query for each sequence. Input 3 is the mask of
// padding, 4 a bias of the scores, 5 and 6 the past keys and values, 7 the length of the past, and 10 a bias of the
// operands.
func decoderMaskedAttention(c *call) []*value {
	a := &attentionNode{c: c}
	a.operands(c.mustInt("num_heads"), 10)
	if !a.q.Dim(2).Is(1) {
		c.fail("queries %s: want one per sequence", a.q)
	}
	a.setScale()
	switch {
	case !c.has(5):
		a.noCache()
	case c.flag("past_present_share_buffer", false):
		a.shareCache(c.x(5), c.x(6), c.x(7))
	default:
		a.appendCache(c.x(5), c.x(6))
		if c.has(7) {
			c.fail("it has input 7, the length of the past, but attribute past_present_share_buffer is not set")
		}
	}
	a.hidePadding(3)
	a.addBias(4)
	if c.intAttr("output_qk", 0) == 0 && c.wants(3) {
		c.fail("its result 3 is used, but attribute output_qk is 0")
	}
	return a.withScores()
}

// withScores returns the results of an attention op: the attention, the keys, the values and, if the node names a
// fourth result, the scores.
func (a *attentionNode) withScores() []*value {
	out := several(mergeHeads(a.q.Attention(a.k, a.v, a.options()...)), a.k, a.v)
	if a.c.wants(3) {
		out = append(out, one(a.scores(maskedScores))...)
	}
	return out
}

// operands sets a.q, a.k and a.v to [batch, heads, length, size], from inputs 0 to 2. The queries, keys and values are
// three inputs, or packed in one or two inputs. Or the keys and values are the cache of another sequence. `bias` is the
// number of an optional input with a bias of queries, keys and values one after another.
func (a *attentionNode) operands(heads, bias int) {
	q, biases := a.c.x(0), []tensor{{}, {}, {}}
	if a.c.has(bias) {
		b := a.c.x(bias)
		width := q.Dim(-1)
		if q.Rank() != 3 || !width.IsStatic() || !b.Shape().IsStatic() {
			a.c.fail("input %s with a bias %s: want [batch, length, heads*size]", q, b)
		}
		n := width.Static() // of queries and of keys; values may have another width
		if !a.c.has(1) {    // input 0 has queries, keys and values
			n = b.Dim(0).Static() / 3
		}
		biases = b.Split(0, n, n, b.Dim(0).Static()-2*n)
	}
	with := func(x tensor, i int) tensor { // x plus bias i, by head
		if !biases[i].IsZero() {
			x = x.Add(biases[i])
		}
		return a.c.headsOf(x, heads)
	}
	switch {
	case !a.c.has(1) && q.Rank() == 5: // [batch, length, heads, 3, size]
		a.q, a.k, a.v = q.Index(3, 0).SwapAxes(1, 2), q.Index(3, 1).SwapAxes(1, 2), q.Index(3, 2).SwapAxes(1, 2)
	case !a.c.has(1): // [batch, length, 3*heads*size]
		p := q.Split(2, a.c.thirds(q)...)
		a.q, a.k, a.v = with(p[0], 0), with(p[1], 1), with(p[2], 2)
	case !a.c.has(2): // packed keys and values, [batch, length, heads, 2, size]
		k := a.c.x(1)
		if k.Rank() != 5 {
			a.c.fail("keys are %s without values: want [batch, length, heads, 2, size]", k)
		}
		a.q, a.k, a.v = with(q, 0), k.Index(3, 0).SwapAxes(1, 2), k.Index(3, 1).SwapAxes(1, 2)
	case a.c.x(1).Rank() == 4: // keys and values of another sequence
		a.q, a.k, a.v = with(q, 0), a.c.x(1), a.c.x(2)
	default:
		a.q, a.k, a.v = with(q, 0), with(a.c.x(1), 1), with(a.c.x(2), 2)
	}
}

// groupedOperands sets a.q, a.k and a.v to [batch, heads, length, size], from inputs 0 to 2, or from input 0 if it has
// queries, keys and values one after another. Keys and values have `groups` heads.
func (a *attentionNode) groupedOperands(heads, groups int) {
	c := a.c
	q := c.x(0)
	var k, v tensor
	if c.has(1) {
		k, v = c.x(1), c.x(2)
	} else {
		d := q.Dim(-1)
		if q.Rank() != 3 || !d.IsStatic() || heads < 1 || groups < 1 || d.Static()%(heads+2*groups) != 0 {
			c.fail("input %s with %d and %d heads: want [batch, length, heads*size] of queries, keys and values", q,
				heads, groups)
		}
		size := d.Static() / (heads + 2*groups)
		parts := q.Split(2, heads*size, groups*size, groups*size)
		q, k, v = parts[0], parts[1], parts[2]
	}
	a.q, a.k, a.v = c.headsOf(q, heads), c.headsOf(k, groups), c.headsOf(v, groups)
}

// groupQueryAttention builds GroupQueryAttention. Sequences of a batch may have different lengths. Their new keys and
// values come directly after their own past in the cache, and input 5 has the last position of each.
func groupQueryAttention(c *call) []*value {
	a := &attentionNode{c: c}
	heads, groups := c.mustInt("num_heads"), c.mustInt("kv_num_heads")
	c.choice("k_quant_type", "NONE")
	c.choice("v_quant_type", "NONE")
	c.only("kv_cache_bit_width", 0, "the cache has floats")
	c.only("sliding_window_cache", 0, "the cache has all positions")
	a.groupedOperands(heads, groups)
	a.setScale()
	a.softcap = c.floatAttr("softcap", 0)
	if c.has(14) != c.has(15) {
		c.fail("it has only one of q_norm_weight and k_norm_weight: want both or neither")
	}
	if eps := c.floatAttr("qk_norm_epsilon", 1e-6); c.has(14) {
		a.q, a.k = a.q.RMSNorm(c.x(14), eps), a.k.RMSNorm(c.x(15), eps)
	}
	a.growCache()
	causal, window := c.flag("causal", true), c.intAttr("local_window_size", -1)
	if window >= 0 && !causal {
		c.fail("local_window_size is %d, and causal is 0", window)
	}
	a.hideOutside(causal, max(window, 0))
	if !causal { // keys after the sequence's end
		a.hideUnless(a.keys().Lt(a.offset.Add(c.b.DimValue(a.q.Dim(2)))))
	}
	a.addBias(10)
	switch {
	case c.has(11):
		a.sinks = c.x(11)
	case c.flag("smooth_softmax", false):
		a.sinks = c.b.Full(a.q.DType(), 0, heads)
	}
	out := several(mergeHeads(a.q.Attention(a.k, a.v, a.options()...)), a.k, a.v)
	const none, maskedAsZero, weights = 0, 1, 2 // the values of attribute qk_output
	mode := c.intAttr("qk_output", none)
	if mode < none || mode > weights {
		c.fail("attribute qk_output is %d: want 0, 1 or 2", mode)
	}
	if mode == none || !c.wants(3) {
		return out
	}
	if !a.sinks.IsZero() {
		c.fail("attribute qk_output is %d, with a smooth softmax", mode)
	}
	if mode == weights {
		return append(out, one(a.scores(softmaxWeights))...)
	}
	y := a.scores(maskedScores)
	return append(out, one(y.Eq(y.Lit(math.Inf(-1))).Where(y.Lit(0), y))...) // 0 for hidden keys
}

// growCache applies rotary embeddings, and sets a.k and a.v to the cache of GroupQueryAttention with the new keys and
// values. The result has the size of the given cache if all positions fit, and is otherwise larger. growCache also sets
// a.offset to the number of positions before the new ones and, if there is no past, a.last.
//
// Inputs 3 and 4 are the past keys and values. Input 5 is the last position of each sequence, and input 6 the total
// length. Inputs 7 and 8 are the tables of cosines and sines, and input 9 has the queries' positions.
func (a *attentionNode) growCache() {
	total := a.c.dims(6)
	if len(total) != 1 {
		a.c.fail("input 6, the total length, has %d elements: want one", len(total))
	}
	fresh := a.k.Dim(2)
	past := ir.D(0)
	if a.c.has(3) {
		past = a.c.x(3).Dim(2)
	}
	room, ok := a.roomFor(past, fresh, total[0])
	if !ok {
		a.equal(total[0], past, fresh)
	}
	ends := a.c.x(5).Cast(ir.I32).Reshape(-1, 1, 1, 1)
	// In the first prompt no positions come before the new ones: shorter sequences have padding after them.
	before := ends.AddScalar(1).Sub(a.c.b.DimValue(fresh))
	if total[0] == fresh || past.Is(0) {
		before = ends.Lit(0)
	} else { // only a run knows whether it is the first prompt
		first := a.c.b.DimValue(total[0]).Eq(a.c.b.DimValue(fresh))
		before = first.Where(ends.Lit(0), before.Max(before.Lit(0)))
	}
	a.offset = before
	a.rotate()
	if past.Is(0) {
		a.last = true // the present cache is just the new keys and values
		return
	}
	a.k, a.v = a.placed(a.c.x(3), a.k, room), a.placed(a.c.x(4), a.v, room)
}

// rotate applies rotary embeddings to queries and keys, by inputs 7 to 9 of GroupQueryAttention, if do_rotary is set.
func (a *attentionNode) rotate() {
	if !a.c.flag("do_rotary", false) {
		return
	}
	at := a.queries().Reshape(-1, a.k.Dim(2))
	if a.c.has(9) {
		at = a.c.x(9)
	}
	cos, sin := a.c.tablesAt(a.c.x(7), a.c.x(8), at)
	var options []frontend.RopeOption
	if !a.c.flag("rotary_interleaved", false) {
		options = append(options, frontend.RopeHalf())
	}
	a.q = a.q.RopeTables(cos.Unsqueeze(1), sin.Unsqueeze(1), options...)
	a.k = a.k.RopeTables(cos.Unsqueeze(1), sin.Unsqueeze(1), options...)
}

// placed returns the cache `past` with the new positions `fresh` of each sequence from position a.offset on. The result
// has `room` positions.
func (a *attentionNode) placed(past, fresh tensor, room ir.Dim) tensor {
	if fresh.Dim(0).Is(1) {
		if room != past.Dim(2) {
			s := fresh.Shape()
			past = past.Concat(2, a.c.b.Full(past.DType(), 0, s[0], s[1], fresh.Dim(2), s[3]))
		}
		return past.DynamicUpdateSlice(2, castTo(fresh, past.DType()), a.offset.Reshape())
	}
	// Each sequence has its own offset. So each position is gathered from past, or from fresh, which comes after past
	// in all.
	all := past.Concat(2, castTo(fresh, past.DType()))
	at := a.c.b.Iota(ir.I32, 2, 1, 1, room, 1)
	isNew := at.Ge(a.offset).And(at.Lt(a.offset.Add(a.c.b.DimValue(fresh.Dim(2)))))
	from := isNew.Where(at.Sub(a.offset).Add(a.c.b.DimValue(past.Dim(2))), at)
	s := all.Shape()
	return all.Gather(2, from.Broadcast(s[0], s[1], room, s[3]))
}

// roomFor returns the number of positions in the cache after a step: the size of the given cache, `past`, if all
// positions fit, and otherwise `total`, the number of positions. ok is false if that depends on the symbols' values.
func (a *attentionNode) roomFor(past, fresh, total ir.Dim) (room ir.Dim, ok bool) {
	if sum, err := past.Sum(fresh); err == nil && sum == total {
		return total, true
	}
	room, ok = maxDims(a.c, past, total)
	return room, ok && (room == past || past.Is(0))
}

// equal always fails: the op needs total = past+fresh, and the importer cannot prove it. If total is an extent with a
// name, equal records the sum as its value, and the importer then builds the graph again with this value.
func (a *attentionNode) equal(total, past, fresh ir.Dim) {
	if sum, err := past.Sum(fresh); err == nil {
		for _, symbol := range total.Symbols() {
			if name := a.c.spellings[symbol]; name != "" && total == a.c.symbol(name) {
				a.c.derived[name] = sum
			}
		}
	}
	a.c.fail("the total length is %s, the past has %s positions and %s are new: declare the total as their sum "+
		"(--dim), or give numbers", total, past, fresh)
}

// microsoftRotary builds RotaryEmbedding of ONNX Runtime. Unlike in ONNX's op, the positions are input 1 and the tables
// inputs 2 and 3. A single position is the position of the first element of all sequences.
func microsoftRotary(c *call) tensor {
	x, at := c.x(0), c.x(1)
	c.only("is_packed_batching", 0, "sequences of a batch are not joined")
	if scale := c.floatAttr("scale", 1); scale != 1 {
		c.fail("attribute scale is %v, and vkc supports only 1", scale)
	}
	if at.Rank() == 1 && x.Rank() > 2 {
		axis := x.Rank() - 2
		batch, length := x.Shape()[0], x.Shape()[axis]
		at = c.b.Iota(ir.I64, 1, ir.Shape{batch, length}).Add(castTo(at, ir.I64))
	}
	return c.rotatedAs(x, c.x(2), c.x(3), at)
}

// rotaryEmbedding builds RotaryEmbedding of ONNX. Without positions (input 3), the tables are [batch, length, pairs].
func rotaryEmbedding(c *call) tensor {
	at := tensor{}
	if c.has(3) {
		at = c.x(3)
	}
	return c.rotatedAs(c.x(0), c.x(1), c.x(2), at)
}

// tablesAt returns the rows of the tables cos and sin [positions, pairs] at the positions `at`.
func (c *call) tablesAt(cos, sin, at tensor) (cosAt, sinAt tensor) {
	if cos.Rank() != 2 {
		c.fail("the tables are %s: want [positions, pairs]", cos)
	}
	flat := at.Reshape(-1)
	to := append(append(ir.Shape{}, at.Shape()...), cos.Shape()[1])
	return cos.IndexSelect(0, flat).Reshape(to), sin.IndexSelect(0, flat).Reshape(to)
}

// rotatedAs applies rotary embeddings to x, [batch, heads, length, size] or [batch, length, heads*size], as the node's
// attributes say. The tables of cosines and sines are [positions, pairs], of which `at` selects rows. If `at` is the
// zero Tensor, they are [batch, length, pairs].
func (c *call) rotatedAs(x, cos, sin, at tensor) tensor {
	if !at.IsZero() {
		cos, sin = c.tablesAt(cos, sin, at)
	}
	heads := c.intAttr("num_heads", 0)
	if turn := c.intAttr("rotary_embedding_dim", 0); turn > 0 && !cos.Dim(-1).Is(turn/2) {
		c.fail("rotary_embedding_dim is %d for tables %s: want one table column per pair", turn, cos)
	}
	var options []frontend.RopeOption
	if !c.flag("interleaved", false) {
		options = append(options, frontend.RopeHalf())
	}
	if x.Rank() == 4 {
		if heads != 0 && !x.Dim(1).Is(heads) {
			c.fail("num_heads is %d, and x is %s, [batch, heads, length, size]", heads, x)
		}
		return x.RopeTables(cos.Unsqueeze(1), sin.Unsqueeze(1), options...)
	}
	s := x.Shape()
	if x.Rank() != 3 || heads < 1 || !s[2].IsStatic() || s[2].Static()%heads != 0 {
		c.fail("x is %s with num_heads %d: want [batch, heads, length, size] or [batch, length, heads*size]", x, heads)
	}
	y := x.Reshape(s[0], s[1], heads, s[2].Static()/heads)
	return y.RopeTables(cos.Unsqueeze(2), sin.Unsqueeze(2), options...).Reshape(s)
}

// multimodalRotary builds MRotaryEmbedding. Each element has three positions, and attribute mrope_section says how many
// of the rotary pairs take each of these.
func multimodalRotary(c *call) tensor {
	x, at, cos, sin := c.x(0), c.x(1), c.x(2), c.x(3)
	c.only("is_packed_batching", 0, "sequences of a batch are not joined")
	if scale := c.floatAttr("scale", 1); scale != 1 {
		c.fail("attribute scale is %v, and vkc supports only 1", scale)
	}
	sections := c.mustInts("mrope_section")
	pairs := cos.Dim(-1)
	if len(sections) != 3 || !pairs.IsStatic() || slices.Min(sections) < 0 ||
		sections[0]+sections[1]+sections[2] != pairs.Static() {
		c.fail("attribute mrope_section is %v, for tables %s: want three numbers with the sum %s", sections, cos, pairs)
	}
	// By pair: which of the three positions it takes, 0 to 2.
	stream := make([]int32, pairs.Static())
	switch layout := c.intAttr("mrope_layout", 0); layout {
	case 0: // sections follow each other
		stream = slices.Concat(slices.Repeat([]int32{0}, sections[0]), slices.Repeat([]int32{1}, sections[1]),
			slices.Repeat([]int32{2}, sections[2]))
	case 1: // sections alternate: pair i takes position i%3, as far as the section has pairs
		for k := 1; k < 3; k++ {
			for i := k; i < min(3*sections[k], len(stream)); i += 3 {
				stream[i] = int32(k)
			}
		}
	default:
		c.fail("attribute mrope_layout is %d: want 0 or 1", layout)
	}
	pick := c.b.Const(stream, len(stream))
	var cosines, sines [3]tensor
	for k := range 3 {
		cosines[k], sines[k] = c.tablesAt(cos, sin, at.Index(0, k))
	}
	choose := func(of [3]tensor) tensor {
		return pick.Eq(pick.Lit(0)).Where(of[0], pick.Eq(pick.Lit(1)).Where(of[1], of[2]))
	}
	return c.rotatedAs(x, choose(cosines), choose(sines), tensor{})
}

// gemmaRotary builds GemmaRotaryEmbedding: x*cos(angles) + rotated(x)*sin(angles), for queries and keys. The inputs are
// x and rotated(x), x with each rotary pair turned by 90 degrees.
func gemmaRotary(c *call) []*value {
	angles, t := c.x(0), c.x(1).DType()
	sin, cos := castTo(angles.Sin(), t).Unsqueeze(1), castTo(angles.Cos(), t).Unsqueeze(1)
	part := func(i int) tensor { return c.x(i).Mul(cos).Add(c.x(i + 1).Mul(sin)) }
	return several(part(1), part(3))
}

// relativePositionBias builds RelativePositionBias of T5 (Raffel et al. 2020, arXiv:1910.10683): a bias of the scores
// by the distance of a key from its query. Each small distance has a bucket. Larger distances share buckets, with
// limits that grow exponentially up to attribute max_distance.
func relativePositionBias(c *call) tensor {
	bias, most := c.x(0), c.mustInt("max_distance")
	queries, keys := c.dims(1), c.dims(2)
	if bias.Rank() != 2 || !bias.Shape().IsStatic() || len(queries) != 1 || len(keys) != 1 {
		c.fail("table %s for %s queries and %s keys: want [buckets, heads] and two numbers", bias, queries, keys)
	}
	buckets, heads := bias.Dim(0).Static(), bias.Dim(1).Static()
	distance := c.b.Iota(ir.I32, 1, queries[0], keys[0]).Sub(c.b.Iota(ir.I32, 0, queries[0], keys[0]))
	perSide, first := buckets, distance.Lit(0) // the number of buckets of a direction, and the first of these
	if c.flag("is_bidirectional", false) {
		perSide /= 2
		first = distance.Gt(distance.Lit(0)).Cast(ir.I32).MulScalar(float64(perSide))
		distance = distance.Abs()
	} else {
		distance = distance.Neg().Max(distance.Lit(0))
	}
	exact := perSide / 2 // distances below this have a bucket each
	if exact < 1 || most <= exact {
		c.fail("max_distance is %d for %d buckets", most, perSide)
	}
	// far = exact + log(distance/exact) / log(most/exact) * (perSide-exact), rounded down
	far := distance.Max(distance.Lit(1)).Cast(ir.F32).DivScalar(float64(exact)).Log().
		DivScalar(math.Log(float64(most) / float64(exact))).MulScalar(float64(perSide - exact)).Cast(ir.I32)
	far = far.AddScalar(float64(exact)).Min(distance.Lit(float64(perSide - 1)))
	bucket := first.Add(distance.Lt(distance.Lit(float64(exact))).Where(distance, far))
	// The table has the biases of a head next to each other.
	table := bias.Reshape(heads, buckets)
	return table.IndexSelect(1, bucket.Reshape(-1)).Reshape(1, heads, queries[0], keys[0])
}

// gatedRelativePositionBias builds GatedRelativePositionBias of WavLM (Chen et al. 2022, arXiv:2110.13900): a bias
// times a gate that depends on the query.
func gatedRelativePositionBias(c *call) tensor {
	q := c.headsOf(c.x(0).Add(c.x(1)), c.mustInt("num_heads"))
	gates := q.MatMul(c.x(3)).Add(c.x(4)) // [B, H, T, D]
	s := gates.Shape()
	half, ok := s[3].Quo(2)
	if !ok {
		c.fail("weights %s: want an even number of columns", c.x(3))
	}
	both := gates.Reshape(s[0], s[1], s[2], 2, half).Sum(4).Sigmoid()
	u, r := both.Slice(3, 0, 1), both.Slice(3, 1, 2)
	return u.Mul(r.Mul(c.x(5)).SubScalar(1)).AddScalar(2).Mul(c.x(2))
}

// microsoftLinearAttention builds LinearAttention of ONNX Runtime: ONNX's op, but with states of the last position
// alone.
func microsoftLinearAttention(c *call) []*value {
	c.only("state_window", 0, "it returns the state after the last position")
	return linearAttention(c)
}

// linearAttentionGate builds LinearAttentionGate: the decay and beta of LinearAttention.
func linearAttentionGate(c *call) []*value {
	t := c.x(0).DType()
	decay := castTo(castTo(c.x(0), ir.F32).Add(c.x(1)).Softplus().Mul(c.x(2)), t)
	if !c.has(3) {
		return several(decay)
	}
	return several(decay, castTo(castTo(c.x(3), ir.F32).Sigmoid(), t))
}

// microsoftCausalConv builds CausalConvWithState of ONNX Runtime: ONNX's op along one axis, with channels before it.
func microsoftCausalConv(c *call) []*value {
	c.only("ndim", 1, "the convolution is along one axis")
	c.only("dilation", 1, "the weights apply to neighbouring positions")
	c.only("channels_last", 0, "the positions are the last axis")
	c.only("state_window", 0, "it returns the state after the last position")
	return causalConv(c)
}

// engramGate builds EngramGate: a value times a gate, which depends on the match of a key and a query. The second
// result is its RMS norm. Inputs 3 to 5 are the weights of the norms of the key, the query and the result.
func engramGate(c *call) []*value {
	key, query, value, eps := c.x(0), c.x(1), c.x(2), c.floatAttr("epsilon", 1e-5)
	d, t := key.Dim(-1), key.DType()
	if !d.IsStatic() || d.Add < 1 {
		c.fail("keys %s: want a fixed size of a head", key)
	}
	norm := func(x, scale tensor) tensor {
		x = castTo(x, ir.F32)
		return x.Mul(x.Sqr().MeanKeep(-1).AddScalar(eps).Rsqrt()).Mul(castTo(scale, ir.F32))
	}
	dot := norm(key, c.x(3)).Mul(norm(query, c.x(4))).SumKeep(-1).MulScalar(1 / math.Sqrt(float64(d.Add)))
	gate := dot.Sign().Mul(dot.Abs().Max(dot.Lit(1e-6)).Sqrt()).Sigmoid()
	y := gate.Mul(castTo(value, ir.F32).Unsqueeze(2))
	out := castTo(y, t)
	if !c.has(5) {
		return several(out)
	}
	return several(out, castTo(norm(y, c.x(5)), t))
}
