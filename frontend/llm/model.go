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

	remat bool // whether layers are recomputed for their gradients

	rope, localRope []frontend.RopeOption // for layers without and with a window
}

// newModel returns the model for a graph that handles up to that many positions.
func newModel(b *frontend.Builder, cfg Config, positions int64) model {
	arch, err := findArchitecture(cfg.Architecture)
	if err != nil {
		b.Fail("llm", err)
	}
	m := model{Config: cfg, arch: arch, w: nn.NewWeights(b, cfg.Types)}
	m.w.Shard(shardAxis)
	factors := cfg.RopeFactors
	if len(cfg.LongRopeFactors) > 0 && positions > int64(cfg.LongRopeFrom) {
		factors = cfg.LongRopeFactors
	}
	m.rope = m.ropeOptions(b, cfg.RopeBase, factors)
	m.localRope = m.rope
	if cfg.LocalRopeBase != 0 {
		m.localRope = m.ropeOptions(b, cfg.LocalRopeBase, nil)
	}
	return m
}

// shardAxis returns the axis along which devices that share the model may split a weight, or -1 for none (tensor
// parallelism: Shoeybi et al., "Megatron-LM", 2019). The first matmuls of attention and of the feed-forward layer are
// split by rows, which are heads or hidden units. The matmuls after them are split by columns, so that each device
// computes a term of a sum. If rows are not whole heads, or a split would cut blocks, the compiler gathers the whole
// tensor.
func shardAxis(name string) int {
	part := name[strings.LastIndex(strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias"), ".")+1:]
	switch part {
	case "attn_q.weight", "attn_q.bias", "attn_k.weight", "attn_k.bias", "attn_v.weight", "attn_v.bias",
		"attn_sinks.weight", "ffn_gate.weight", "ffn_gate.bias", "ffn_up.weight", "ffn_up.bias", output + ".weight":
		return 0
	case "attn_output.weight", "ffn_down.weight":
		return 1
	}
	return -1
}

// ropeOptions returns the options for rotary angles with a base, each divided by its factor. No factors means 1.
func (m model) ropeOptions(b *frontend.Builder, base float64, factors []float64) []frontend.RopeOption {
	options := []frontend.RopeOption{frontend.RopeDims(m.RopeDims)}
	if m.arch.rope == halves {
		options = append(options, frontend.RopeHalf())
	}
	if len(factors) == 0 {
		return append(options, frontend.RopeBase(base))
	}
	return append(options, frontend.RopeTurns(b.RopeScaled(m.RopeDims, base, factors)))
}

// history computes a layer's attention. q [Heads, T, HeadDim], and k and v [KVHeads, T, HeadDim], belong to the
// current tokens. A history knows where the keys and values of earlier tokens are, and adds the current ones. It
// returns [T, Heads*HeadDim].
type history func(l layer, q, k, v frontend.Tensor, o []frontend.AttentionOption) frontend.Tensor

// layers applies all layers to the tokens. The result is [T, Width].
func (m model) layers(tokens, positions frontend.Tensor, past history) frontend.Tensor {
	x := nn.Embedding(tokens, m.w.Sub(tokenTable), ir.F32)
	if m.arch.embed != nil {
		x = m.arch.embed(m, x, positions)
	}
	for i := range m.Layers {
		l := m.layer(i, positions)
		l.past = past
		if m.remat {
			x = x.Builder().Remat(func() []frontend.Tensor { return []frontend.Tensor{m.arch.layer(l, x)} })[0]
		} else {
			x = m.arch.layer(l, x)
		}
	}
	return x
}

// forward returns the logits after the tokens that rows selects.
func (m model) forward(tokens, positions frontend.Tensor, past history, rows Rows) frontend.Tensor {
	if m.arch.encoder {
		tokens.Builder().Fail("llm", fmt.Errorf("architecture %q predicts no token: it makes an embedding of a whole "+
			"text", m.arch.name))
	}
	x := m.layers(tokens, positions, past)
	if rows == LastToken {
		x = lastRow(x)
	}
	x = m.norm(x, m.w.Sub(outputNorm))
	if m.w.Sub(output).Has("weight") {
		x = nn.Linear(x, m.w.Sub(output))
	} else {
		x = nn.Unembed(x, m.w.Sub(tokenTable))
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
}

// layer returns layer i, with the sizes of that layer.
func (m model) layer(i int, positions frontend.Tensor) layer {
	m.Config = m.at(i)
	return layer{model: m, index: i, w: m.w.Sub(fmt.Sprintf("blk.%d", i)), positions: positions}
}

func (l layer) norm(x frontend.Tensor, name string) frontend.Tensor {
	return l.model.norm(x, l.w.Sub(name))
}

// attention is self-attention over x [T, Width], with separate weights attn_q, attn_k and attn_v.
func (l layer) attention(x frontend.Tensor) frontend.Tensor {
	q := l.rotate(l.heads(x, "attn_q", l.Heads))
	k := l.rotate(l.heads(x, "attn_k", l.KVHeads))
	return l.attend(q, k, l.heads(x, "attn_v", l.KVHeads))
}

// heads projects x [T, Width] by a weight to [heads, T, HeadDim]. If the file has a norm NAME_norm, it applies the norm
// to each head.
func (l layer) heads(x frontend.Tensor, name string, heads int) frontend.Tensor {
	y := l.split(nn.Linear(x, l.w.Sub(name)), heads)
	if norm := l.w.Sub(name + "_norm"); norm.Has("weight") {
		y = l.model.norm(y, norm)
	}
	return y
}

// split reshapes [T, heads*HeadDim] to [heads, T, HeadDim].
func (l layer) split(x frontend.Tensor, heads int) frontend.Tensor {
	return x.Reshape(x.Dim(0), heads, l.HeadDim).SwapAxes(0, 1)
}

// fused computes queries, keys and values of x [T, Width] with one matrix, attn_qkv.
func (l layer) fused(x frontend.Tensor) (q, k, v frontend.Tensor) {
	all := nn.Linear(x, l.w.Sub("attn_qkv"))
	queries, keys := l.Heads*l.HeadDim, (l.Heads+l.KVHeads)*l.HeadDim
	return l.split(all.Slice(1, 0, ir.D(queries)), l.Heads), l.split(all.Slice(1, queries, ir.D(keys)), l.KVHeads),
		l.split(all.Slice(1, keys, all.Dim(1)), l.KVHeads)
}

// rotate applies rotary embeddings to queries or keys [heads, T, HeadDim], if the architecture has them.
func (l layer) rotate(x frontend.Tensor) frontend.Tensor {
	if l.arch.rope == notRotary {
		return x
	}
	if l.windowed() {
		return x.Rope(l.positions, l.localRope...)
	}
	return x.Rope(l.positions, l.rope...)
}

// windowed reports whether the layer attends only to a window of positions.
func (l layer) windowed() bool { return l.Config.windowed(l.index) }

// windowed reports whether layer number `layer` attends only to a window of positions.
func (c Config) windowed(layer int) bool {
	if layer < len(c.WindowLayers) {
		return c.Window > 0 && c.WindowLayers[layer]
	}
	return c.Window > 0 && (c.WindowPeriod == 0 || (layer+1)%c.WindowPeriod != 0)
}

// attend computes attention of the queries to current and earlier keys, and projects the result, [T, Heads*HeadDim], by
// attn_output.
func (l layer) attend(q, k, v frontend.Tensor) frontend.Tensor {
	var options []frontend.AttentionOption
	scale := l.AttentionScale
	if l.RopeMagnitude != 0 {
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
	return nn.Linear(l.past(l, q, k, v, options), l.w.Sub("attn_output"))
}

// attendText computes attention for queries of the last tokens of one text. The text's keys and values are [KVHeads, S,
// HeadDim]. A query attends to keys up to its own position or, in an encoder, to all.
func (l layer) attendText(q, keys, values frontend.Tensor, options []frontend.AttentionOption) frontend.Tensor {
	if !l.arch.encoder {
		options = append(options, frontend.Causal())
	}
	if l.windowed() {
		options = append(options, frontend.Window(l.Window))
	}
	y := q.Attention(keys, values, options...)
	return y.SwapAxes(0, 1).Reshape(y.Dim(1), l.Heads*l.HeadDim)
}

// magnify applies RopeMagnitude to the scores, as if it multiplied the rotated elements of queries and keys. If whole
// heads are rotated, it multiplies the scale of the scores by RopeMagnitude squared. Otherwise it multiplies the
// rotated elements of the queries by it. It returns the queries and the scale.
func (l layer) magnify(q frontend.Tensor, scale float64) (frontend.Tensor, float64) {
	square := l.RopeMagnitude * l.RopeMagnitude
	if l.RopeDims == l.HeadDim {
		return q, cmp.Or(scale, 1/math.Sqrt(float64(l.HeadDim))) * square
	}
	factors := make([]float32, l.HeadDim)
	for i := range factors {
		factors[i] = 1
		if i < l.RopeDims {
			factors[i] = float32(square)
		}
	}
	return q.Mul(q.Builder().Const(factors)), scale
}

// gated is the feed-forward layer SwiGLU or, in models with experts, a mixture of SwiGLU experts.
func (l layer) gated(x frontend.Tensor) frontend.Tensor {
	if l.Experts > 0 {
		return nn.Experts(x, l.w, l.ExpertsUsed, true)
	}
	return nn.SwiGLU(x, l.w)
}
