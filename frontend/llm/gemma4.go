package llm

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// gemma4 is the language model of Gemma 4 (Google 2026, https://ai.google.dev/gemma/docs), without experts: Gemma 3n
// with one residual stream. Layers with a window have smaller heads than others, and layers without an attn_v have the
// keys as values, before their norm and rotation.
var gemma4 = architecture{
	name:       "gemma4",
	rope:       halves,
	valueNorms: true,
	folder: folder{
		classes: "Gemma4ForConditionalGeneration Gemma4ForCausalLM",
		wants: `
			hidden_activation gelu_pytorch_tanh
			enable_moe_block  false`,
		keys: `
			attention.key_length             global_head_dim head_dim
			attention.key_length_swa         head_dim
			embedding_length_per_layer_input hidden_size_per_layer_input
			attention.shared_kv_layers       num_kv_shared_layers`,
		weights: gemma2Folder + perLayerFolder + "layer_output_scale layer_scalar",
		read:    (*folderConfig).gemma4,
	},
	read: func(r *metadata, c *Config) {
		c.AttentionScale, c.LocalRopeBase = 1, r.floatOr("rope.freq_base_swa", 10000)
		c.RopeBase = r.floatOr("rope.freq_base", 1e6)
		c.LocalHeadDim = r.sizeOr("attention.key_length_swa", c.HeadDim)
		c.LocalRopeDims = r.sizeOr("rope.dimension_count_swa", c.LocalHeadDim)
		c.PerLayerWidth = int(min(r.intOr("embedding_length_per_layer_input", 0), math.MaxInt32))
		c.SharedKV = int(min(r.intOr("attention.shared_kv_layers", 0), math.MaxInt32))
	},
	onceWeights: Config.perLayerWeights,
	layerWeights: func(c Config) []weightSpec {
		keys := []weightSpec{matrix("attn_k", c.KVHeads*c.HeadDim, c.Width), vector("attn_k_norm", c.HeadDim)}
		if c.sharesKeys {
			keys = optional(keys...)
		}
		list := slices.Concat(c.norms("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), c.gated(), keys,
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
		x = gemma2Layer(l, x)
		if l.PerLayerWidth > 0 {
			x = x.Add(l.perLayerInput(x))
		}
		if scale := l.w.Sub("layer_output_scale"); scale.Has("weight") {
			x = x.Mul(scale.Get("weight").Cast(ir.F32))
		}
		return x
	},
}

// gemma4 sets what differs between layers with and without a window.
func (c *folderConfig) gemma4() {
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
		if !windowed && c.flag("attention_k_eq_v", false) && c.values["num_global_key_value_heads"] != nil {
			heads[i] = uint32(c.number("num_global_key_value_heads"))
		}
		if c.flag("use_double_wide_mlp", false) && i >= len(windows)-c.size("attention.shared_kv_layers", 0) {
			hidden[i] *= 2
		}
	}
	c.set["attention.head_count_kv"], c.set["feed_forward_length"] = heads, hidden
}
