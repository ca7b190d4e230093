package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// bert is BERT (Devlin et al. 2018, arXiv:1810.04805) as in embedding models: learned positions, and norms over the
// residual sums after attention and feed-forward layers.
var bert = architecture{
	name:    "bert",
	norm:    layerNorm,
	rope:    notRotary,
	encoder: true,
	folder: folder{
		classes: "BertModel BertForMaskedLM BertForSequenceClassification",
		layers:  "encoder.layer.N.",
		wants: `
			hidden_act              gelu
			position_embedding_type absolute`,
		weights: `
			token_embd        embeddings.word_embeddings
			token_types       embeddings.token_type_embeddings
			position_embd     embeddings.position_embeddings
			token_embd_norm   embeddings.LayerNorm
			attn_q            attention.self.query
			attn_k            attention.self.key
			attn_v            attention.self.value
			attn_output       attention.output.dense
			attn_output_norm  attention.output.LayerNorm
			ffn_up            intermediate.dense
			ffn_down          output.dense
			layer_output_norm output.LayerNorm`,
	},
	onceWeights: func(c Config) []weightSpec {
		return append(c.encoderWeights(), weightSpec{name: "position_embd", shape: ir.ShapeOf(c.Context, c.Width)})
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.projections(), c.feedForward(), c.norms("attn_output_norm", "layer_output_norm"))
	},
	embed: func(m model, x, positions frontend.Tensor) frontend.Tensor {
		return m.firstSegment(x.Add(nn.Embedding(positions, m.w.Sub("position_embd"), ir.F32)))
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = l.norm(x.Add(l.attention(x)), "attn_output_norm")
		return l.norm(x.Add(nn.FeedForward(x, l.w, frontend.Tensor.GeluErf)), "layer_output_norm")
	},
}

// encoderWeights lists the weights that firstSegment uses. The file determines the number of segments.
func (c Config) encoderWeights() []weightSpec {
	segments := 2
	if t := c.Types["token_types.weight"]; len(t.Shape) == 2 {
		segments = max(t.Shape[0].Static(), 1)
	}
	return append(c.norms("token_embd_norm"), weightSpec{name: "token_types", shape: ir.ShapeOf(segments, c.Width)})
}

// firstSegment adds to each token the embedding of segment 0, and normalizes the result. BERT numbers the segments of a
// pair of texts; here there is always one text.
func (m model) firstSegment(x frontend.Tensor) frontend.Tensor {
	first := x.Builder().Const([]int32{0})
	return m.norm(x.Add(nn.Embedding(first, m.w.Sub("token_types"), ir.F32)), m.w.Sub("token_embd_norm"))
}
