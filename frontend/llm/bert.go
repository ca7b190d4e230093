package llm

import (
	"slices"
	"strings"

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
		classes: `BertModel BertForMaskedLM BertForSequenceClassification
			RobertaModel RobertaForMaskedLM RobertaForSequenceClassification
			XLMRobertaModel XLMRobertaForMaskedLM XLMRobertaForSequenceClassification`,
		layers: "encoder.layer.N.",
		wants: `
			hidden_act              gelu
			position_embedding_type absolute`,
		weights: `
			token_embd        embeddings.word_embeddings
			token_types       embeddings.token_type_embeddings
			position_embd     embeddings.position_embeddings after-padding
			token_embd_norm   embeddings.LayerNorm
			attn_q            attention.self.query
			attn_k            attention.self.key
			attn_v            attention.self.value
			attn_output       attention.output.dense
			attn_output_norm  attention.output.LayerNorm
			ffn_up            intermediate.dense
			ffn_down          output.dense
			layer_output_norm output.LayerNorm
			cls               classifier.dense
			cls               pooler.dense
			cls.output        classifier.out_proj
			cls.output        classifier`,
		read: func(c *folderConfig) {
			c.rank()
			if strings.Contains(c.strings("architectures")[0], "Roberta") { // positions begin after the padding
				c.padding = int(c.number("pad_token_id")) + 1
				c.setSize("context_length", float64(c.size("context_length", 0)-c.padding))
			}
		},
	},
	onceWeights: func(c Config) []weightSpec {
		return append(c.encoderWeights(), weightSpec{name: "position_embd", shape: ir.ShapeOf(c.Context, c.Width)})
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.projections(), c.feedForward(), c.norms("attn_output_norm", "layer_output_norm"))
	},
	embed: func(m model, x, positions frontend.Tensor) frontend.Tensor {
		return m.inSegments(x.Add(nn.Embedding(positions, m.w.Sub("position_embd"), ir.F32)))
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = l.norm(x.Add(l.attention(x)), "attn_output_norm")
		return l.norm(x.Add(nn.FeedForward(x, l.w, frontend.Tensor.GeluErf)), "layer_output_norm")
	},
}

// encoderWeights lists the weights that inSegments and a ranking head use. The file determines the number of segments.
func (c Config) encoderWeights() []weightSpec {
	segments := 2
	if t := c.Types["token_types.weight"]; len(t.Shape) == 2 {
		segments = max(t.Shape[0].Static(), 1)
	}
	return slices.Concat(c.norms("token_embd_norm"), c.rankingHead(),
		[]weightSpec{{name: "token_types", shape: ir.ShapeOf(segments, c.Width)}})
}

// inSegments adds to each token the embedding of its segment, and normalizes the result. A single text is segment 0. In
// a pair of texts, the second one is segment 1.
func (m model) inSegments(x frontend.Tensor) frontend.Tensor {
	segments := m.segments
	if segments.IsZero() {
		segments = x.Builder().Const([]int32{0})
	}
	return m.norm(x.Add(nn.Embedding(segments, m.w.Sub("token_types"), ir.F32)), m.w.Sub("token_embd_norm"))
}

// rank sets the pooling to PoolRank in a folder of class NAMEForSequenceClassification.
func (c *folderConfig) rank() {
	if strings.HasSuffix(c.strings("architectures")[0], "ForSequenceClassification") {
		c.setSize("pooling_type", float64(slices.Index(poolings, PoolRank)))
	}
}
