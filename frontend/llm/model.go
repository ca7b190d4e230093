package llm

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Weight names, without ".weight", that every architecture has.
const (
	tokenTable = "token_embd"
	outputNorm = "output_norm"
	output     = "output"
)

// model is a Config while a graph is built, with references to its weights.
type model struct {
	Config
	arch architecture
	w    nn.Weights

	segments frontend.Tensor // the segment of each token, i32[T], or the zero Tensor if all are in segment 0

	inputs frontend.Tensor               // of architecture.perLayer
	ends   frontend.Tensor               // of someTokens
	kept   map[keptBy][2]frontend.Tensor // keys and values, for layers that share them

	firstValues *frontend.Tensor // the values of the first layer, which later layers of some architectures read

	picture *picture // what is read in place of tokens; nil for tokens

	remat    bool // whether layers are recomputed for their gradients
	adapters *adapters

	rope, localRope []frontend.RopeOption // for layers without and with a window
}

// keptBy identifies the keys and values of a layer for a group of rows.
type keptBy struct{ layer, group int }

// newModel returns the model for a graph of b. positions is the largest number of positions of a text, which selects
// the rotary factors.
func newModel(b *frontend.Builder, cfg Config, positions int64) model {
	arch, err := findArchitecture(cfg.Architecture)
	if err != nil {
		b.Fail("llm", err)
	}
	m := model{Config: cfg, arch: arch, w: nn.NewWeights(b, cfg.Types)}
	// All copies of the model share what its layers leave for later layers.
	m.firstValues = new(frontend.Tensor)
	m.adapters = &adapters{used: map[string]bool{}}
	m.kept = map[keptBy][2]frontend.Tensor{}
	m.w.Shard(cfg.shardAxis)
	factors := cfg.RopeFactors
	if len(cfg.LongRopeFactors) > 0 && positions > int64(cfg.LongRopeFrom) {
		factors = cfg.LongRopeFactors
	}
	m.rope = m.ropeOptions(b, cfg.RopeDims, cfg.RopeBase, factors)
	m.localRope = m.rope
	if cfg.LocalRopeBase != 0 {
		m.localRope = m.ropeOptions(b, cmp.Or(cfg.LocalRopeDims, cfg.RopeDims), cfg.LocalRopeBase, nil)
	}
	return m
}

// shardAxis returns the axis along which devices that share the model may split a weight, or -1 for none (tensor
// parallelism: Shoeybi et al., "Megatron-LM", 2019). The first matmuls of attention and of the feed-forward layer are
// split by rows, which are heads or hidden units. The matmuls after them are split by columns, so that each device
// computes a term of a sum. If rows are not whole heads, or a split would cut blocks, the compiler gathers the whole
// tensor. A matrix with an order of columns, or with scales of groups of columns, is not split by columns. The scales
// of rows are split with the rows.
func (c Config) shardAxis(name string) int {
	if matrix, ok := strings.CutSuffix(name, scaleSuffix); ok {
		if c.shardAxis(matrix+".weight") == 0 {
			return 0
		}
		return -1
	}
	// The name without its layer, such as attn_q.weight.
	part := name[strings.LastIndex(strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias"), ".")+1:]
	switch part {
	case "attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias", "attn_v.weight", "attn_v.bias",
		"attn_q_b.weight", "attn_k_b.weight", "attn_v_b.weight", "attn_kv_b.weight", "attn_sinks.weight",
		"ffn_gate.weight", "ffn_gate.bias", "ffn_up.weight", "ffn_up.bias", output + ".weight":
		return 0
	case "attn_output.weight", "ffn_down.weight":
		matrix := strings.TrimSuffix(name, ".weight")
		_, ordered := c.Types[matrix+orderSuffix]
		scale, scaled := c.Types[matrix+scaleSuffix]
		if !ordered && (!scaled || scale.Shape[len(scale.Shape)-1].Is(1)) {
			return 1
		}
	}
	return -1
}

// ropeOptions returns the options for a rotation of dims elements. Its angles follow from the base. Angle i is divided
// by factors[i], or by 1 if there are no factors.
func (m model) ropeOptions(b *frontend.Builder, dims int, base float64, factors []float64) []frontend.RopeOption {
	options := []frontend.RopeOption{frontend.RopeDims(dims)}
	if m.arch.rope == halves {
		options = append(options, frontend.RopeHalf())
	}
	if len(factors) == 0 {
		return append(options, frontend.RopeBase(base))
	}
	return append(options, frontend.RopeTurns(b.RopeScaled(dims, base, factors)))
}

// history knows the keys, values and recurrent states of earlier tokens.
type history struct {
	// attend computes a layer's attention for the current tokens: queries q [Heads, T, HeadDim], and keys k and values
	// v [KVHeads, T, HeadDim]. It adds the current keys and values to the earlier ones, and returns [T, Heads*width of
	// a value].
	attend func(l layer, q, k, v frontend.Tensor, o []frontend.AttentionOption) frontend.Tensor

	// perText is the largest number of current tokens of one text, or 0 if there are no earlier tokens.
	perText int64

	// states has the recurrent states of earlier tokens; nil if there are none.
	states *states
}

// layers applies all layers to the tokens. The result is [T, Width].
func (m model) layers(tokens, positions frontend.Tensor, past history) frontend.Tensor {
	var x frontend.Tensor
	if m.picture != nil {
		x = m.picture.part(0, m.Width)
	} else {
		x = m.embedded(tokens, positions)
	}
	if m.arch.perLayer != nil {
		m.inputs = m.arch.perLayer(m, x, tokens)
	}
	if m.arch.split != nil {
		x = m.arch.split(m, x)
	}
	for i := range m.Layers {
		l := m.layer(i, positions)
		l.past = past
		// Layers that share keys and values keep them outside of their results. So these layers cannot be recomputed
		// one by one.
		if m.remat && m.SharedKV == 0 {
			x = x.Builder().Remat(func() []frontend.Tensor { return []frontend.Tensor{m.arch.layer(l, x)} })[0]
		} else {
			x = m.arch.layer(l, x)
		}
		if m.picture != nil && i < m.Deepstack {
			x = x.Add(m.picture.part(i+1, m.Width))
		}
	}
	if m.arch.join != nil {
		x = m.arch.join(m, x)
	}
	return x
}

// embedded returns the embedded tokens, [T, Width].
func (m model) embedded(tokens, positions frontend.Tensor) frontend.Tensor {
	x := m.adapters.embed(tokens, nn.Embedding(tokens, m.w.Sub(tokenTable), ir.F32))
	if m.arch.embed != nil {
		x = m.arch.embed(m, x, positions)
	}
	if m.EmbeddingScale != 0 {
		x = x.MulScalar(m.EmbeddingScale)
	}
	return x
}

// forward returns the logits after the tokens that rows selects.
func (m model) forward(tokens, positions frontend.Tensor, past history, rows Rows) frontend.Tensor {
	if err := m.CheckLogits(); err != nil {
		tokens.Builder().Fail("llm", err)
	}
	x := m.layers(tokens, positions, past)
	switch rows {
	case LastToken:
		x = lastRow(x)
	case someTokens:
		x = x.IndexSelect(0, m.ends)
	}
	x = m.norm(x, m.w.Sub(m.arch.finalNorm()))
	// Without a matrix for the output, the token embeddings are used for it.
	if m.w.Sub(output).Has("weight") {
		x = nn.Linear(x, m.w.Sub(output))
	} else {
		x = nn.Unembed(x, m.w.Sub(tokenTable))
	}
	m.adapters.check(x.Builder(), m.Layers)
	if m.LogitScale != 0 {
		x = x.MulScalar(m.LogitScale)
	}
	if m.LogitSoftcap != 0 {
		x = x.DivScalar(m.LogitSoftcap).Tanh().MulScalar(m.LogitSoftcap)
	}
	return x
}

// norm applies the architecture's kind of normalization.
func (m model) norm(x frontend.Tensor, w nn.Weights) frontend.Tensor {
	if m.arch.norm == layerNorm {
		return nn.LayerNorm(x, w, m.NormEps)
	}
	return nn.RMSNorm(x, w, m.NormEps)
}

// lastRow returns the last row of x [T, W], as [1, W].
func lastRow(x frontend.Tensor) frontend.Tensor {
	t := x.Dim(0)
	if t.IsStatic() {
		return x.Slice(0, t.Static()-1, t)
	}
	last := x.Builder().DimValue(t).SubScalar(1)
	return x.IndexSelect(0, last.Reshape(1))
}

// layer is one layer of the model while a graph is built. The architectures build their layers from its methods. Weight
// names are relative to the layer.
type layer struct {
	model
	index     int
	w         nn.Weights
	positions frontend.Tensor
	past      history
	group     int // of rows, while attention is built: see batch

	// unfold makes keys and values of the elements that are cached per position, if they are not the keys and values
	// themselves; see latent.go.
	unfold func(cached frontend.Tensor) (keys, values frontend.Tensor)
}

// layer returns layer i, with the sizes of that layer.
func (m model) layer(i int, positions frontend.Tensor) layer {
	m.Config = m.at(i)
	return layer{model: m, index: i, w: m.w.Sub(fmt.Sprintf("blk.%d", i)), positions: positions}
}

func (l layer) norm(x frontend.Tensor, name string) frontend.Tensor {
	return l.model.norm(x, l.w.Sub(name))
}

// add returns the residual stream with the output y of attention or of a feed-forward layer.
func (l layer) add(x, y frontend.Tensor) frontend.Tensor {
	if l.ResidualScale != 0 {
		y = y.MulScalar(l.ResidualScale)
	}
	return x.Add(y)
}

// attention computes self-attention over x [T, Width], with separate weights attn_q, attn_k and attn_v or, if the file
// has it, one weight attn_qkv.
func (l layer) attention(x frontend.Tensor) frontend.Tensor {
	if l.Latent > 0 {
		return l.latentAttention(x)
	}
	if l.w.Sub("attn_qkv").Has("weight") {
		q, k, v := l.fused(x)
		return l.attend(l.normAndRotate(q, "attn_q_norm"), l.normAndRotate(k, "attn_k_norm"), v)
	}
	q := l.normAndRotate(l.heads(x, "attn_q", l.Heads), "attn_q_norm")
	if l.sharesKeys { // attend takes the keys and values of an earlier layer
		return l.attend(q, frontend.Tensor{}, frontend.Tensor{})
	}
	k := l.heads(x, "attn_k", l.KVHeads)
	v := k // unless the layer has a matrix of values
	if l.w.Sub("attn_v").Has("weight") {
		v = l.heads(x, "attn_v", l.KVHeads)
	}
	k = l.normAndRotate(k, "attn_k_norm")
	if l.arch.valueNorms {
		v = v.RMSNorm(frontend.Tensor{}, l.NormEps)
	}
	return l.attend(q, k, v)
}

// heads projects x [T, Width] by a weight to [heads, T, HeadDim].
func (l layer) heads(x frontend.Tensor, name string, heads int) frontend.Tensor {
	return l.split(l.clamp(nn.Linear(x, l.w.Sub(name))), heads)
}

// clamp applies ClampQKV.
func (l layer) clamp(x frontend.Tensor) frontend.Tensor {
	if l.ClampQKV == 0 {
		return x
	}
	return x.Clamp(-l.ClampQKV, l.ClampQKV)
}

// normAndRotate applies the norm, if the file has it, and rotary embeddings to queries or keys [heads, T, HeadDim].
func (l layer) normAndRotate(x frontend.Tensor, norm string) frontend.Tensor {
	if l.PlainHeadNorms && l.rotates() {
		x = x.RMSNorm(frontend.Tensor{}, l.NormEps)
	}
	if l.arch.lateHeadNorms {
		return l.headNorm(l.rotate(x), norm)
	}
	return l.rotate(l.headNorm(x, norm))
}

// headNorm applies a norm to queries or keys x [heads, T, HeadDim], if the file has it. The shape of its weight says
// what is normalized: [HeadDim] and [heads, HeadDim] each head, by the same or by its own weights, and [heads*HeadDim]
// all heads of a token together.
func (l layer) headNorm(x frontend.Tensor, name string) frontend.Tensor {
	w := l.w.Sub(name)
	if !w.Has("weight") {
		return x
	}
	heads, shape := int(x.Dim(0).Max()), l.Types[fmt.Sprintf("blk.%d.%s.weight", l.index, name)].Shape
	switch {
	case len(shape) == 2: // a weight for each head
		scale := w.Get("weight").Cast(ir.F32).Unsqueeze(1)
		if l.arch.norm == layerNorm {
			return x.LayerNorm(frontend.Tensor{}, frontend.Tensor{}, l.NormEps).Mul(scale)
		}
		return x.RMSNorm(frontend.Tensor{}, l.NormEps).Mul(scale)
	case heads > 1 && shape[0].Is(heads*l.HeadDim): // one norm of all heads
		return l.split(l.model.norm(x.SwapAxes(0, 1).Reshape(x.Dim(1), heads*l.HeadDim), w), heads)
	}
	return l.model.norm(x, w)
}

// split reshapes [T, heads*HeadDim] to [heads, T, HeadDim].
func (l layer) split(x frontend.Tensor, heads int) frontend.Tensor {
	return x.Reshape(x.Dim(0), heads, l.HeadDim).SwapAxes(0, 1)
}

// fused computes queries, keys and values of x [T, Width] with one matrix, attn_qkv.
func (l layer) fused(x frontend.Tensor) (q, k, v frontend.Tensor) {
	all := l.clamp(nn.Linear(x, l.w.Sub("attn_qkv")))
	queries, keys := l.Heads*l.HeadDim, (l.Heads+l.KVHeads)*l.HeadDim
	return l.split(all.Slice(1, 0, ir.D(queries)), l.Heads), l.split(all.Slice(1, queries, ir.D(keys)), l.KVHeads),
		l.split(all.Slice(1, keys, all.Dim(1)), l.KVHeads)
}

// rotate applies rotary embeddings to queries or keys [heads, T, HeadDim], if the architecture has them.
func (l layer) rotate(x frontend.Tensor) frontend.Tensor {
	if !l.rotates() {
		return x
	}
	options := l.rope
	if l.windowed() {
		options = l.localRope
	}
	if l.picture != nil && len(l.picture.places) > 0 {
		return nn.RopeAxes(x, l.picture.places, l.directions(l.arch.sections), options...)
	}
	return x.Rope(l.positions, options...)
}

// rotates reports whether the layer has rotary embeddings.
func (l layer) rotates() bool {
	return l.arch.rope != notRotary && (l.NoRopePeriod == 0 || (l.index+1)%l.NoRopePeriod != 0) &&
		(!l.RopeInWindows || l.windowed())
}

// windowed reports whether the layer attends only to a window of positions.
func (l layer) windowed() bool { return l.Config.windowed(l.index) }

// windowed reports whether layer number `layer` attends only to a window of positions.
func (c Config) windowed(layer int) bool {
	if layer < len(c.WindowLayers) {
		return c.Window > 0 && c.WindowLayers[layer]
	}
	if c.FullFirst {
		layer--
	}
	return c.Window > 0 && (c.WindowPeriod == 0 || (layer+1)%c.WindowPeriod != 0)
}

// attend computes attention of the queries to current and earlier keys, and projects the result by attn_output.
func (l layer) attend(q, k, v frontend.Tensor) frontend.Tensor {
	return nn.Linear(l.attended(q, k, v), l.w.Sub("attn_output"))
}

// attended returns the result of attention before attn_output, [T, Heads*width of a value].
func (l layer) attended(q, k, v frontend.Tensor) frontend.Tensor {
	var options []frontend.AttentionOption
	scale := l.AttentionScale
	// Llama 4 has a temperature only in the layers that do not rotate.
	if l.TemperatureScale != 0 && !(l.TemperatureAfter && l.rotates()) {
		q = q.Mul(l.temperature())
	}
	// Layers with a window that rotate by a base of their own have no magnitude.
	if l.RopeMagnitude != 0 && !(l.LocalRopeBase != 0 && l.windowed()) {
		q, scale = l.magnify(q, scale)
	}
	if scale != 0 {
		options = append(options, frontend.Scale(scale))
	}
	if l.AttentionSoftcap != 0 {
		options = append(options, frontend.Softcap(l.AttentionSoftcap))
	}
	if sinks := l.w.Sub("attn_sinks"); sinks.Has("weight") {
		options = append(options, frontend.Sinks(sinks.Get("weight")))
	}
	return l.past.attend(l, q, k, v, options)
}

// attendText computes attention for queries of the last tokens of one text. The text's keys and values are [KVHeads, S,
// HeadDim]. A query attends to keys up to its own position or, in an encoder, to all.
func (l layer) attendText(q, keys, values frontend.Tensor, options []frontend.AttentionOption) frontend.Tensor {
	if l.arch.encoder {
		return joinHeads(q.Attention(keys, values, append(options, l.bothSides(keys.Dim(1))...)...))
	}
	if l.picture != nil && l.arch.pictureSeesItself {
		return joinHeads(q.Attention(keys, values, append(options, l.insidePicture(q.Dim(1), keys.Dim(1))...)...))
	}
	options = append(options, frontend.Causal())
	if l.windowed() {
		options = append(options, l.window(l.positions, keys.Dim(1)))
	}
	if l.MaxALiBi != 0 {
		last := q.Builder().DimValue(keys.Dim(1)).SubScalar(1)
		// Key positions minus the last one, from -(S-1) to 0.
		back := q.Builder().Iota(ir.I32, 1, ir.D(1), keys.Dim(1)).Sub(last)
		options = append(options, frontend.Mask(l.alibi(back).Unsqueeze(1)))
	}
	return joinHeads(q.Attention(keys, values, options...))
}

// extended returns the keys and values of the earlier and the current tokens. It calls extend, which appends x, the k
// or v of the current tokens, to the state of that name, and returns the whole state. If the layer makes keys and
// values of one cached tensor, there is only state "cache_k". A layer that uses the keys and values of another layer
// has none.
func (l layer) extended(k, v frontend.Tensor, extend func(name string, x frontend.Tensor) frontend.Tensor) (keys,
	values frontend.Tensor) {
	if l.sharesKeys {
		shared := l.kept[keptBy{l.keysOf(l.index), l.group}] // of an earlier layer
		return shared[0], shared[1]
	}
	if l.unfold != nil {
		return l.unfold(extend("cache_k", k))
	}
	keys, values = extend("cache_k", k), extend("cache_v", v)
	if l.SharedKV > 0 {
		l.kept[keptBy{l.index, l.group}] = [2]frontend.Tensor{keys, values}
	}
	return keys, values
}

// joinHeads reshapes [heads, T, width] to [T, heads*width].
func joinHeads(x frontend.Tensor) frontend.Tensor {
	return x.SwapAxes(0, 1).Reshape(x.Dim(1), ir.D(int(x.Dim(0).Max()*x.Dim(2).Max())))
}

// bothSides returns the options of attention in an encoder, in which tokens also attend to later ones: the mask of the
// layer's window, or linear biases. length is the number of positions.
func (l layer) bothSides(length ir.Dim) (options []frontend.AttentionOption) {
	b := l.positions.Builder()
	back := func() frontend.Tensor { // [1, T, S]: 0 minus the distance
		return b.Iota(ir.I32, 2, ir.D(1), ir.D(1), length).Sub(l.positions.Reshape(1, -1, 1)).Abs().Neg()
	}
	switch {
	case l.windowed():
		near := back()
		options = append(options, frontend.Mask(near.Ge(near.Lit(float64(-l.Window/2)))))
	case l.MaxALiBi != 0:
		options = append(options, frontend.Mask(l.alibi(back())))
	}
	return options
}

// window returns the attention option that hides keys before the layer's window. positions i32[T] are the positions of
// the queries, and length is the number of keys.
func (l layer) window(positions frontend.Tensor, length ir.Dim) frontend.AttentionOption {
	if !l.Chunked {
		return frontend.Window(l.Window)
	}
	keys := positions.Builder().Iota(ir.I32, 2, ir.D(1), ir.D(1), length)
	return frontend.Mask(keys.Ge(l.firstSeen(positions.Reshape(1, -1, 1))))
}

// firstSeen returns, for queries at some positions, the first position in the window of each. It may be negative.
func (l layer) firstSeen(positions frontend.Tensor) frontend.Tensor {
	if l.Chunked {
		return positions.Sub(positions.Mod(positions.Lit(float64(l.Window))))
	}
	return positions.SubScalar(float64(l.Window - 1))
}

// temperature returns the factors of the queries at the layer's positions, [T, 1]; see Config.TemperatureScale.
func (l layer) temperature() frontend.Tensor {
	positions := l.positions
	if l.TemperatureAfter {
		positions = positions.AddScalar(1)
	}
	steps := positions.Div(positions.Lit(float64(l.TemperatureLength))).Cast(ir.F32)
	return steps.Log1p().MulScalar(l.TemperatureScale).AddScalar(1).Unsqueeze(1)
}

// alibi returns ALiBi's biases [Heads, ...] of scores. back [1, ...] has the distance of each key from its query, times
// -1. A bias that all keys of a query share changes nothing, so the distances from the text's last query serve all
// queries.
func (l layer) alibi(back frontend.Tensor) frontend.Tensor {
	slopes, power := make([]float32, l.Heads), 1 // power is the largest power of two up to Heads
	for power*2 <= l.Heads {
		power *= 2
	}
	for h := range slopes { // the heads after the last power of two take every second slope of the next power
		slope := -l.MaxALiBi / float64(power) * float64(h+1)
		if h >= power {
			slope = -l.MaxALiBi / float64(2*power) * float64(2*(h-power)+1)
		}
		slopes[h] = float32(math.Exp2(slope))
	}
	shape := []any{l.Heads}
	for range back.Rank() - 1 {
		shape = append(shape, 1)
	}
	return back.Cast(ir.F32).Mul(back.Builder().Const(slopes).Reshape(shape...))
}

// magnify applies RopeMagnitude to the scores, as if it multiplied the rotated elements of queries and keys. If whole
// heads are rotated, it multiplies the scale of the scores by RopeMagnitude squared. Otherwise it multiplies the
// rotated elements of the queries by RopeMagnitude squared: once for the queries and once for the keys. It returns the
// queries and the scale.
func (l layer) magnify(q frontend.Tensor, scale float64) (queries frontend.Tensor, magnified float64) {
	square := l.RopeMagnitude * l.RopeMagnitude
	if l.RopeDims == l.HeadDim {
		return q, cmp.Or(scale, 1/math.Sqrt(float64(l.HeadDim))) * square
	}
	factors := make([]float32, q.Dim(2).Max())
	for i := range factors {
		factors[i] = 1
		if i < l.RopeDims {
			factors[i] = float32(square)
		}
	}
	return q.Mul(q.Builder().Const(factors)), scale
}

// gated computes the feed-forward layer SwiGLU or, in layers with experts, a mixture of SwiGLU experts. If the file has
// no ffn_gate, ffn_up has the rows of both.
func (l layer) gated(x frontend.Tensor) frontend.Tensor {
	switch {
	case l.Experts > 0:
		return l.shared(x, nn.ExpertsOf(x, l.w, l.routing(), swiGLU))
	case !l.w.Sub("ffn_gate").Has("weight"):
		return l.joined(x, frontend.Tensor.Silu)
	}
	return nn.SwiGLU(x, l.w)
}

// joined computes a gated feed-forward layer with an activation of the gate. Its ffn_up has the rows of the gate matrix
// and then the rows of the up matrix.
func (l layer) joined(x frontend.Tensor, activation func(frontend.Tensor) frontend.Tensor) frontend.Tensor {
	both := nn.Linear(x, l.w.Sub("ffn_up"))
	gate, up := both.Slice(1, 0, ir.D(l.FeedForward)), both.Slice(1, l.FeedForward, both.Dim(1))
	return nn.Linear(activation(gate).Mul(up), l.w.Sub("ffn_down"))
}

// routing returns how the layer's mixture chooses experts.
func (l layer) routing() nn.Routing {
	return nn.Routing{Used: l.ExpertsUsed, Normalize: !l.KeepShares, Sigmoid: l.SigmoidExperts, Scale: l.ExpertScale,
		Groups: l.ExpertGroups, GroupsUsed: l.ExpertGroupsUsed, SparseMixer: l.SparseMixer,
		ScaleInputs: l.ScaleInputs}
}

// shared adds the output of the shared expert, if there is one, to the output y of the mixture. If the file has
// ffn_gate_inp_shexp, that weighs the shared expert for each token.
func (l layer) shared(x, y frontend.Tensor) frontend.Tensor {
	if l.SharedFeedForward == 0 {
		return y
	}
	gate, up := nn.Linear(x, l.w.Sub("ffn_gate_shexp")), nn.Linear(x, l.w.Sub("ffn_up_shexp"))
	own := nn.Linear(swiGLU(gate, up), l.w.Sub("ffn_down_shexp"))
	if share := l.w.Sub("ffn_gate_inp_shexp"); share.Has("weight") {
		own = own.Mul(x.Mul(share.Get("weight").Cast(x.DType())).SumKeep(-1).Sigmoid())
	}
	return y.Add(own)
}

// swiGLU returns silu(gate)*up.
func swiGLU(gate, up frontend.Tensor) frontend.Tensor { return gate.Silu().Mul(up) }
