package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// graniteHybrid is Granite 4 (IBM 2025, https://github.com/ibm-granite/granite-4.0-language-models): granite or
// granitemoe in which Mamba-2's layers take the place of most attentions.
var graniteHybrid = architecture{
	name:    "granitehybrid",
	experts: true,
	hybrid:  true,
	folder: folder{
		classes: "GraniteMoeHybridForCausalLM",
		weights: graniteMoE.folder.weights + mambaFolder + `
			ffn_gate shared_mlp.input_linear first-half
			ffn_up   shared_mlp.input_linear second-half
			ffn_down shared_mlp.output_linear`,
		keys:   scanKeys,
		wants:  scanWants + "hidden_act silu\nnormalization_function rmsnorm\nmamba_n_groups 1",
		mixers: "mamba linear_attention",
		read: func(c *folderConfig) {
			c.setInner("mamba_d_head")
			c.set["rope.scaling.finetuned"] = c.values["position_embedding_type"] == "rope"
			if c.size("expert_count", 0) == 0 { // the expert that all tokens use is the feed-forward layer
				c.set["feed_forward_length"] = c.set["expert_shared_feed_forward_length"]
				delete(c.set, "expert_shared_feed_forward_length")
			}
		},
	},
	read: func(r *metadata, c *Config) {
		graniteRead(r, c)
		if c.Experts > 0 {
			r.mixture(c)
		}
		r.scan(c)
	},
	layerWeights: func(c Config) []weightSpec {
		if c.KVHeads > 0 {
			return llamaWeights(c)
		}
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.gated(), c.mamba2Weights())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = l.add(x, l.attentionOr(l.mamba2, l.norm(x, "attn_norm")))
		return l.add(x, l.gated(l.norm(x, "ffn_norm")))
	},
}
