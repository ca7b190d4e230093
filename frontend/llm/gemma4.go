package llm

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// gemma4 is the language model of Gemma 4 (Google 2026, https://ai.google.dev/gemma/docs): Gemma 3n with one residual
// stream. Layers with a window have smaller heads than others, and layers without an attn_v have the keys as values,
// before their norm and rotation. Models with experts have them next to the feed-forward layer.
var gemma4 = architecture{
	name:       "gemma4",
	rope:       halves,
	valueNorms: true,
	experts:    true,
	folder: folder{
		classes: "Gemma4ForConditionalGeneration Gemma4ForCausalLM",
		wants:   "hidden_activation gelu_pytorch_tanh",
		keys: `
			attention.key_length             global_head_dim head_dim
			attention.key_length_swa         head_dim
			embedding_length_per_layer_input hidden_size_per_layer_input
			attention.shared_kv_layers       num_kv_shared_layers
			expert_used_count                top_k_experts
			expert_feed_forward_length       moe_intermediate_size expert_intermediate_size`,
		weights: gemma2Folder + perLayerFolder + `
			layer_output_scale  layer_scalar
			ffn_gate_inp        router.proj
			ffn_gate_inp.scale  router.scale
			ffn_gate_up_exps    experts.gate_up_proj
			ffn_down_exps       experts.down_proj
			ffn_down_exps.scale router.per_expert_scale
			pre_ffw_norm_2      pre_feedforward_layernorm_2
			post_ffw_norm_1     post_feedforward_layernorm_1
			post_ffw_norm_2     post_feedforward_layernorm_2`,
		read: (*folderConfig).gemma4,
	},
	read: func(r *metadata, c *Config) {
		c.AttentionScale, c.LocalRopeBase = 1, r.floatOr("rope.freq_base_swa", 10000)
		c.RopeBase = r.floatOr("rope.freq_base", 1e6)
		c.LocalHeadDim = r.sizeOr("attention.key_length_swa", c.HeadDim)
		c.LocalRopeDims = r.sizeOr("rope.dimension_count_swa", c.LocalHeadDim)
		c.PerLayerWidth = int(min(r.intOr("embedding_length_per_layer_input", 0), math.MaxInt32))
		c.SharedKV = int(min(r.intOr("attention.shared_kv_layers", 0), math.MaxInt32))
		if c.Experts > 0 {
			c.DenseFeedForward = r.size("feed_forward_length")
		}
	},
	onceWeights: Config.perLayerWeights,
	layerWeights: func(c Config) []weightSpec {
		keys := []weightSpec{matrix("attn_k", c.KVHeads*c.HeadDim, c.Width), vector("attn_k_norm", c.HeadDim)}
		if c.sharesKeys {
			keys = optional(keys...)
		}
		list := slices.Concat(c.norms("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), c.besides(),
			keys,
			[]weightSpec{matrix("attn_q", c.Heads*c.HeadDim, c.Width), vector("attn_q_norm", c.HeadDim),
				matrix("attn_output", c.Width, c.Heads*c.HeadDim)},
			optional(matrix("attn_v", c.KVHeads*c.HeadDim, c.Width), vector("layer_output_scale", 1)))
		if c.PerLayerWidth > 0 {
			list = append(list, c.perLayerProjections()...)
		}
		return list
	},
	embed:    gemmaEmbed,
	perLayer: perLayerInputs,
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = x.Add(l.norm(l.attention(l.norm(x, "attn_norm")), "post_attention_norm"))
		h := nn.GeGLU(l.norm(x, "ffn_norm"), l.w)
		if l.Experts > 0 {
			h = l.norm(h, "post_ffw_norm_1").Add(l.norm(l.gemma4Experts(x), "post_ffw_norm_2"))
		}
		x = x.Add(l.norm(h, "post_ffw_norm"))
		if l.PerLayerWidth > 0 {
			x = x.Add(l.perLayerInput(x))
		}
		if scale := l.w.Sub("layer_output_scale"); scale.Has("weight") {
			x = x.Mul(scale.Get("weight").Cast(ir.F32))
		}
		return x
	},
}

// besides lists the weights of a feed-forward layer and, if there are experts, of the experts that work next to it.
func (c Config) besides() []weightSpec {
	if c.Experts == 0 {
		return c.gated()
	}
	dense := c
	dense.Experts, dense.FeedForward = 0, c.DenseFeedForward
	experts := c.gated() // the router, and the gate, up and down matrices
	// Some files have the gate and up matrices of an expert in one tensor.
	if _, apart := c.Types["blk.0.ffn_gate_exps.weight"]; !apart {
		experts = []weightSpec{experts[0], {name: "ffn_gate_up_exps",
			shape: ir.ShapeOf(c.Experts, 2*c.FeedForward, c.Width), linear: true}, experts[3]}
	}
	return slices.Concat(dense.gated(), experts, c.norms("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"),
		[]weightSpec{{name: "ffn_gate_inp.scale", shape: ir.ShapeOf(c.Width), bare: true},
			{name: "ffn_down_exps.scale", shape: ir.ShapeOf(c.Experts), bare: true}})
}

// gemma4Experts computes a mixture of experts with a norm before it. The router has a norm of its own, and the share of
// each expert is multiplied by a factor.
func (l layer) gemma4Experts(x frontend.Tensor) frontend.Tensor {
	scored := x.RMSNorm(frontend.Tensor{}, l.NormEps).MulScalar(1 / math.Sqrt(float64(l.Width))).
		Mul(l.float("ffn_gate_inp.scale"))
	share, ids := l.routing().Choose(scored, l.w)
	share = share.Mul(l.float("ffn_down_exps.scale").Unsqueeze(1).Embedding(ids, ir.F32).Squeeze(2))
	return nn.ChosenExperts(l.norm(x, "pre_ffw_norm_2"), l.w, share, ids,
		func(gate, up frontend.Tensor) frontend.Tensor { return gate.Gelu().Mul(up) })
}

// gemma4 sets the sizes of layers. Layers with and without a window differ in rotary sizes and heads, and the last ones
// in the feed-forward layer.
func (c *folderConfig) gemma4() {
	if !c.flag("enable_moe_block", false) { // without experts, the folder may still give their sizes
		maps.DeleteFunc(c.set, func(key string, _ any) bool { return strings.HasPrefix(key, "expert_") })
	}
	windows := c.windows()
	if windows == nil {
		return
	}
	c.set["attention.sliding_window_pattern"] = windows
	if rope, ok := c.values["rope_parameters"].(map[string]any); ok {
		local, _ := rope["sliding_attention"].(map[string]any)
		if local["partial_rotary_factor"] != nil {
			dims := float64(c.size("attention.key_length_swa", 0)) * c.numberIn(local, "partial_rotary_factor")
			c.setSize("rope.dimension_count_swa", math.Trunc(dims))
		}
	}
	heads, hidden := make([]uint32, len(windows)), make([]uint32, len(windows))
	for i, windowed := range windows {
		heads[i], hidden[i] = uint32(c.size("attention.head_count_kv", 0)), uint32(c.size("feed_forward_length", 0))
		// Layers that see the whole text may have another number of key heads.
		if !windowed && c.flag("attention_k_eq_v", false) && c.values["num_global_key_value_heads"] != nil {
			heads[i] = uint32(c.number("num_global_key_value_heads"))
		}
		if c.flag("use_double_wide_mlp", false) && i >= len(windows)-c.size("attention.shared_kv_layers", 0) {
			hidden[i] *= 2
		}
	}
	c.set["attention.head_count_kv"], c.set["feed_forward_length"] = heads, hidden
}
