package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// gemma2 is Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with further norms after attention and feed-forward
// layers, soft caps on scores and logits, and a window in every second layer, beginning with the first.
var gemma2 = architecture{
	name: "gemma2",
	rope: halves,
	folder: folder{
		classes: "Gemma2ForCausalLM",
		wants:   "hidden_activation gelu_pytorch_tanh",
		weights: gemma2Folder,
		lessOne: true,
		read: func(c *folderConfig) {
			c.queryScale()
			for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
				if v, ok := c.values[key]; ok && v == nil {
					c.setFloat(key, 0)
				}
			}
		},
	},
	read: func(r *metadata, c *Config) {
		c.AttentionSoftcap = r.floatOr("attn_logit_softcapping", 50)
		c.LogitSoftcap = r.floatOr("final_logit_softcapping", 30)
		c.Window, c.WindowPeriod = r.sizeOr("attention.sliding_window", 4096), 2
		if c.Layers == 46 {
			c.wideQueries() // 27B
		}
	},
	layerWeights: gemma2Parts,
	embed:        gemmaEmbed,
	layer:        gemma2Layer,
}

func gemma2Parts(c Config) []weightSpec {
	return append(llamaWeights(c), c.norms("post_attention_norm", "post_ffw_norm")...)
}

func gemma2Layer(l layer, x frontend.Tensor) frontend.Tensor {
	return sandwich(l, x, func(h frontend.Tensor) frontend.Tensor { return nn.GeGLU(h, l.w) })
}

// sandwich computes a layer with norms before and after attention and a feed-forward layer.
func sandwich(l layer, x frontend.Tensor, feedForward func(frontend.Tensor) frontend.Tensor) frontend.Tensor {
	x = x.Add(l.norm(l.attention(l.norm(x, "attn_norm")), "post_attention_norm"))
	return x.Add(l.norm(feedForward(l.norm(x, "ffn_norm")), "post_ffw_norm"))
}

// wideQueries sets the scale of scores to 1/sqrt(Width/Heads) instead of 1/sqrt(HeadDim), as in the largest models of
// Gemma 2 and 3. Their files do not say so, and the callers identify them by the number of layers.
func (c *Config) wideQueries() {
	c.AttentionScale = 1 / math.Sqrt(float64(c.Width)/float64(c.Heads))
}

// gemma2Folder are the names of the norms in folders of Gemma 2 and 3.
const gemma2Folder = `
post_attention_norm post_attention_layernorm
ffn_norm            pre_feedforward_layernorm
post_ffw_norm       post_feedforward_layernorm`

// queryScale sets the scale of the scores if config.json has one that does not follow from the size of heads.
func (c *folderConfig) queryScale() {
	if c.values["query_pre_attn_scalar"] == nil {
		return
	}
	if v := c.number("query_pre_attn_scalar"); v > 0 && v != float64(c.size("attention.key_length", 0)) {
		c.setFloat("attention.scale", 1/math.Sqrt(v))
	}
}
