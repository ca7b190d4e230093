package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// rwkv7 is RWKV-7 (Peng et al. 2025, arXiv:2503.14456): a generalized delta rule over mixtures of a token with the one
// before it, and no attention.
var rwkv7 = architecture{
	name:        "rwkv7",
	norm:        layerNorm,
	rope:        notRotary,
	noAttention: true,
	folder: folder{
		classes: "RWKV7ForCausalLM Rwkv7ForCausalLM",
		weights: `
			token_embd          model.embeddings
			token_embd_norm     model.layers.0.pre_norm
			attn_norm           attn_norm
			attn_norm_2         ffn_norm
			time_mix_lerp_fused attn.x_{r,w,k,v,a,g}
			time_mix_receptance attn.r_proj
			time_mix_key        attn.k_proj
			time_mix_value      attn.v_proj
			time_mix_output     attn.o_proj
			time_mix_w0         attn.w_lora.lora.2.bias
			time_mix_w1         attn.w_lora.lora.0
			time_mix_w2         attn.w_lora.lora.2
			time_mix_a0         attn.a_lora.lora.2.bias
			time_mix_a1         attn.a_lora.lora.0
			time_mix_a2         attn.a_lora.lora.2
			time_mix_v0         attn.v_lora.lora.2.bias
			time_mix_v1         attn.v_lora.lora.0
			time_mix_v2         attn.v_lora.lora.2
			time_mix_g1         attn.g_lora.lora.0
			time_mix_g2         attn.g_lora.lora.2
			time_mix_k_k        attn.k_k
			time_mix_k_a        attn.k_a
			time_mix_r_k        attn.r_k reshaped
			time_mix_ln         attn.g_norm
			channel_mix_lerp_k  ffn.x_k
			channel_mix_key     ffn.key
			channel_mix_value   ffn.value`,
		keys: `
			attention.layer_norm_epsilon*          norm_eps
			attention.key_length
			wkv.head_size                          head_dim
			attention.decay_lora_rank              decay_low_rank_dim
			attention.iclr_lora_rank               a_low_rank_dim
			attention.value_residual_mix_lora_rank v_low_rank_dim
			attention.gate_lora_rank               gate_low_rank_dim`,
		defaults: `
			max_position_embeddings 1048576
			norm_eps 1e-5
			head_dim 64`,
		wants: "hidden_act sqrelu\nnorm_first true\nnorm_bias true\nattn null\nvalue_dim null",
		read:  (*folderConfig).rwkv7,
	},
	read: func(r *metadata, c *Config) {
		c.FeedForward = r.size("feed_forward_length")
		size := r.size("wkv.head_size")
		c.Recurrent = Recurrent{Window: 2, Inner: c.Width, Keys: size, Heads: c.Width / size, Groups: c.Width / size}
		for _, rank := range []string{"decay", "iclr", "value_residual_mix", "gate"} {
			c.Recurrent.Ranks = append(c.Recurrent.Ranks, r.size("attention."+rank+"_lora_rank"))
		}
	},
	onceWeights: func(c Config) []weightSpec { return c.norms("token_embd_norm") },
	layerWeights: func(c Config) []weightSpec {
		list := c.norms("attn_norm", "attn_norm_2", "time_mix_ln")
		for i, part := range []string{"w", "a", "v", "g"} {
			rank := c.Recurrent.Ranks[i]
			if part == "v" && c.layer == 0 {
				rank = c.Recurrent.Ranks[1] // files repeat the rate's weights, and no layer before has values
			}
			list = append(list, weightSpec{name: "time_mix_" + part + "1", shape: ir.ShapeOf(rank, c.Width)},
				weightSpec{name: "time_mix_" + part + "2", shape: ir.ShapeOf(c.Width, rank)})
			if part != "g" {
				list = append(list, vector("time_mix_"+part+"0", c.Width))
			}
		}
		for _, part := range []string{"key", "value", "receptance", "output"} {
			list = append(list, matrix("time_mix_"+part, c.Width, c.Width))
		}
		return append(list, vector("time_mix_k_k", c.Width), vector("time_mix_k_a", c.Width),
			vector("time_mix_r_k", c.Width),
			weightSpec{name: "time_mix_lerp_fused", shape: ir.ShapeOf(6, 1, 1, c.Width)},
			weightSpec{name: "channel_mix_lerp_k", shape: ir.ShapeOf(1, 1, c.Width)},
			matrix("channel_mix_key", c.FeedForward, c.Width), matrix("channel_mix_value", c.Width, c.FeedForward))
	},
	embed: func(m model, x, _ frontend.Tensor) frontend.Tensor { return m.norm(x, m.w.Sub("token_embd_norm")) },
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = x.Add(l.timeMix(l.norm(x, "attn_norm")))
		h := l.norm(x, "attn_norm_2")
		h = h.Add(l.before(h, "shift_channels").Sub(h).Mul(l.float("channel_mix_lerp_k.weight").Reshape(l.Width)))
		h = squaredRelu(nn.Linear(h, l.w.Sub("channel_mix_key")))
		return x.Add(nn.Linear(h, l.w.Sub("channel_mix_value")))
	},
}

// groupNormEps is the epsilon of the norm of each head. Files do not have it.
const groupNormEps = 64e-5

// before returns the rows [T, W] of the tokens before x: row t-1 of x for row t. State `name` keeps the last row for
// the next run.
func (l layer) before(x frontend.Tensor, name string) frontend.Tensor {
	b := x.Builder()
	// A convolution over two rows that takes the first of them moves rows by one.
	taps := b.Full(ir.F32, 1, l.Width, 1).Concat(1, b.Full(ir.F32, 0, l.Width, 1))
	return l.goAlong(name, []int{1, l.Width}, []frontend.Tensor{x},
		func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor) {
			return xs[0].CausalConv1D(taps, state)
		})
}

// timeMix computes the layer of RWKV-7 that mixes tokens (section 4 of the paper).
func (l layer) timeMix(x frontend.Tensor) frontend.Tensor {
	times, heads, size := x.Dim(0), l.Recurrent.Heads, l.Recurrent.Keys
	// Each of six inputs mixes a token with the one before it, by its own row of lerp.
	shift, lerp := l.before(x, "shift_times").Sub(x), l.float("time_mix_lerp_fused.weight").Reshape(6, l.Width)
	mixed := func(i int) frontend.Tensor { return x.Add(shift.Mul(lerp.Index(0, i))) }
	weight := func(name string) frontend.Tensor { return l.float("time_mix_" + name + ".weight") }
	linear := func(x frontend.Tensor, name string) frontend.Tensor { return nn.Linear(x, l.w.Sub("time_mix_"+name)) }
	perHead := func(x frontend.Tensor) frontend.Tensor { return x.Reshape(times, heads, size) }
	r, k, v := linear(mixed(0), "receptance"), linear(mixed(2), "key"), linear(mixed(3), "value")
	decay := linear(linear(mixed(1), "w1").Tanh(), "w2").Add(weight("w0")).Sigmoid().MulScalar(-math.Exp(-0.5))
	rate := linear(linear(mixed(4), "a1"), "a2").Add(weight("a0")).Sigmoid()
	// Later layers mix their values with those of layer 0.
	if l.index == 0 {
		*l.firstValues = v
	} else {
		share := linear(linear(mixed(3), "v1"), "v2").Add(weight("v0")).Sigmoid()
		v = v.Add(l.firstValues.Sub(v).Mul(share))
	}
	removed := perHead(k.Mul(weight("k_k"))).L2Normalize(-1, 1e-12)
	k = k.Add(k.Mul(rate.SubScalar(1)).Mul(weight("k_a")))
	y := l.goAlong("scan", []int{heads, size, size}, []frontend.Tensor{perHead(r), perHead(k), perHead(v),
		perHead(decay), removed.Neg(), removed.Mul(perHead(rate))},
		func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor) {
			return xs[0].DeltaRule(xs[1], xs[2], xs[3], state, frontend.Correction{A: xs[4], B: xs[5]})
		}).LayerNorm(frontend.Tensor{}, frontend.Tensor{}, groupNormEps).Reshape(times, l.Width)
	y = y.Mul(weight("ln")).Add(l.float("time_mix_ln.bias"))
	bonus := perHead(r.Mul(k).Mul(weight("r_k"))).SumKeep(-1).Mul(perHead(v)).Reshape(times, l.Width)
	return linear(y.Add(bonus).Mul(linear(linear(mixed(5), "g1").Sigmoid(), "g2")), "output")
}

// rwkv7 sets the default width of feed-forward layers. It also makes the weights of layer 0 that mix values: no layer
// before has any, and files repeat the rate's tensors.
func (c *folderConfig) rwkv7() {
	c.set["token_shift_count"] = uint32(2)
	if eps := float64(c.number("norm_eps") * c.number("head_dim")); math.Abs(eps-groupNormEps) > 1e-9 {
		c.fail("norm_eps times head_dim is %v, which is not supported: want %v", eps, groupNormEps)
	}
	if ratio := "hidden_ratio"; c.values["intermediate_size"] == nil && c.values[ratio] != nil {
		n := math.Trunc(float64(c.size("embedding_length", 0)) * c.number(ratio))
		c.setSize("feed_forward_length", math.Ceil(n/32)*32)
	}
	for part, from := range map[string]string{"v0": "2.bias", "v1": "0.weight", "v2": "2.weight"} {
		c.more = append(c.more, Origin{Name: "blk.0.time_mix_" + part + ".weight",
			From: []string{"model.layers.0.attn.a_lora.lora." + from}})
	}
}
