package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// jinaBERT is Jina Embeddings 2 (Günther et al. 2023, arXiv:2310.19923): BERT with ALiBi to both sides in place of
// positions, and a gated feed-forward layer. The model of code has norms of queries and keys, and another norm after
// attention. Its GELU uses erf.
var jinaBERT = architecture{
	name:    "jina-bert-v2",
	norm:    layerNorm,
	rope:    notRotary,
	encoder: true,
	folder: folder{
		classes: "JinaBertModel JinaBertForMaskedLM JinaBertForSequenceClassification",
		layers:  "encoder.layer.N.",
		wants: `
			hidden_act              gelu
			feed_forward_type       geglu
			position_embedding_type alibi`,
		weights: bert.folder.weights + `
			attn_q_norm       attention.self.layer_norm_q
			attn_k_norm       attention.self.layer_norm_k
			attn_norm_2       layer_norm_1
			ffn_up            mlp.gated_layers
			ffn_up            mlp.up_gated_layer
			ffn_down          mlp.wo
			ffn_down          mlp.down_layer
			layer_output_norm mlp.layernorm
			layer_output_norm layer_norm_2`,
		read: (*folderConfig).rank,
	},
	read:        func(_ *metadata, c *Config) { c.MaxALiBi = 8 },
	onceWeights: Config.encoderWeights,
	layerWeights: func(c Config) []weightSpec {
		heads := optional(c.wholeNorms()...)
		for i := range heads {
			heads[i].norm = true
		}
		return slices.Concat(c.projections(), heads, c.joined(), c.norms("attn_output_norm", "layer_output_norm"),
			optional(c.norms("attn_norm_2")...))
	},
	embed: func(m model, x, _ frontend.Tensor) frontend.Tensor { return m.inSegments(x) },
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		y := l.norm(x.Add(l.attention(x)), "attn_output_norm")
		if l.w.Sub("attn_norm_2").Has("weight") {
			y = l.norm(x.Add(y), "attn_norm_2")
		}
		return l.norm(y.Add(l.joined(y, frontend.Tensor.GeluErf)), "layer_output_norm")
	},
}
