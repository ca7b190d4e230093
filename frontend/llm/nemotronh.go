package llm

import (
	"cmp"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// nemotronH is Nemotron-H (NVIDIA 2025, arXiv:2504.03624): a layer is Mamba-2's, or attention without positions, or
// feed-forward with the square of relu.
var nemotronH = architecture{
	name:   "nemotron_h",
	rope:   notRotary,
	hybrid: true,
	folder: folder{
		classes: "NemotronHForCausalLM",
		layers:  "backbone.layers.N.",
		weights: `
			token_embd  backbone.embeddings
			output_norm backbone.norm_f
			attn_norm   norm
			attn_q      mixer.q_proj
			attn_k      mixer.k_proj
			attn_v      mixer.v_proj
			attn_output mixer.o_proj
			ffn_up      mixer.up_proj
			ffn_down    mixer.down_proj` + mixerFolder,
		keys: scanKeys + `
			attention.key_length head_dim attention_head_dim`,
		wants:  scanWants + "mlp_hidden_act relu2",
		mixers: "linear_attention mamba mlp",
		read:   (*folderConfig).nemotronH,
	},
	read: func(r *metadata, c *Config) { r.scan(c) },
	layerWeights: func(c Config) []weightSpec {
		list := c.norms("attn_norm")
		switch {
		case c.FeedForward > 0:
			return append(list, c.feedForward()...)
		case c.KVHeads > 0:
			return append(list, c.projections()...)
		}
		return append(list, c.mamba2Weights()...)
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		if l.FeedForward > 0 {
			return x.Add(nn.FeedForward(h, l.w, squaredRelu))
		}
		return x.Add(l.attentionOr(l.mamba2, h))
	},
}

// nemotronKinds are the kinds of layers by the letters of "hybrid_override_pattern".
var nemotronKinds = map[rune]string{'M': "mamba", '*': "attention", '-': "mlp", 'E': "moe"}

// nemotronH sets the size of the scan, the kind of each layer, and the width of each feed-forward layer. The width is
// 0 for a layer of another kind.
func (c *folderConfig) nemotronH() {
	c.setInner("mamba_head_dim")
	c.values["layer_types"] = c.nemotronLayers()
	kinds := c.strings("layer_types")
	widths := make([]uint32, len(kinds))
	for i, kind := range kinds {
		if kind == "mlp" {
			widths[i] = uint32(c.size("feed_forward_length", 0))
		}
	}
	c.set["feed_forward_length"] = widths
}

// nemotronLayers returns the kinds of the layers. Older folders have one letter for each layer. An unknown letter
// stays, so that the error for an unknown kind names it.
func (c *folderConfig) nemotronLayers() any {
	letters, ok := c.values["hybrid_override_pattern"].(string)
	if !ok {
		return c.values["layers_block_type"]
	}
	var kinds []any
	for _, letter := range letters {
		kinds = append(kinds, cmp.Or(nemotronKinds[letter], string(letter)))
	}
	return kinds
}
