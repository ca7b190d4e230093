package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// modernBERT is ModernBERT (Warner et al. 2024, arXiv:2412.13663): an encoder with norms before attention, which the
// first layer lacks, and before a gated feed-forward layer. All but every third layer have a window, and a rotary base
// of their own. Its GELU uses erf.
var modernBERT = architecture{
	name:    "modern-bert",
	norm:    layerNorm,
	rope:    halves,
	encoder: true,
	folder: folder{
		classes: "ModernBertModel ModernBertForMaskedLM ModernBertForSequenceClassification",
		layers:  "layers.N.",
		keys: `
			attention.layer_norm_epsilon*    norm_eps
			attention.sliding_window         local_attention
			attention.sliding_window_pattern global_attn_every_n_layers
			rope.freq_base*                  global_rope_theta
			rope.freq_base_swa*              local_rope_theta`,
		wants: `
			hidden_activation     gelu
			classifier_activation gelu
			classifier_pooling    mean`,
		weights: `
			token_embd      embeddings.tok_embeddings
			token_embd_norm embeddings.norm
			output_norm     final_norm
			attn_norm       attn_norm
			attn_qkv        attn.Wqkv
			attn_output     attn.Wo
			ffn_norm        mlp_norm
			ffn_up          mlp.Wi
			ffn_down        mlp.Wo
			cls             head.dense
			cls.norm        head.norm
			cls.output      classifier`,
		read: (*folderConfig).rank,
	},
	ranked: PoolMean,
	read: func(r *metadata, c *Config) {
		c.WindowPeriod, c.FullFirst = 3, true
		c.LocalRopeBase = r.floatOr("rope.freq_base_swa", 10000)
	},
	onceWeights: func(c Config) []weightSpec {
		return append(c.norms("token_embd_norm", outputNorm), c.rankingHead()...)
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(optional(c.norms("attn_norm")...), c.norms("ffn_norm"), c.fusedProjections(), c.joined())
	},
	embed: func(m model, x, _ frontend.Tensor) frontend.Tensor { return m.norm(x, m.w.Sub("token_embd_norm")) },
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := x
		if l.w.Sub("attn_norm").Has("weight") {
			h = l.norm(x, "attn_norm")
		}
		x = x.Add(l.attention(h))
		return x.Add(l.joined(l.norm(x, "ffn_norm"), frontend.Tensor.GeluErf))
	},
}
