package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// lfm2 is LFM2 (Liquid AI 2025, arXiv:2511.23404): gated short convolutions in place of most attentions.
var lfm2 = architecture{
	name:         "lfm2",
	rope:         halves,
	hybrid:       true,
	lastNorm:     "token_embd_norm",
	read:         func(r *metadata, c *Config) { c.Recurrent.Window = r.size("shortconv.l_cache") },
	layerWeights: lfm2Weights,
	layer:        lfm2Layer,
}

// lfm2MoE is lfm2 with mixtures of experts that a sigmoid weighs and a bias helps to choose, after some dense layers.
var lfm2MoE = architecture{
	name:     "lfm2moe",
	rope:     halves,
	hybrid:   true,
	experts:  true,
	lastNorm: "token_embd_norm",
	read: func(r *metadata, c *Config) {
		r.mixture(c)
		c.Recurrent.Window = r.size("shortconv.l_cache")
	},
	layerWeights: func(c Config) []weightSpec { return append(lfm2Weights(c), c.routerBias()...) },
	layer:        lfm2Layer,
}

// lfm2Weights lists the weights of a layer, which has either an attention or a short convolution.
func lfm2Weights(c Config) []weightSpec {
	list := append(c.norms("attn_norm", "ffn_norm"), c.gated()...)
	if c.KVHeads > 0 {
		return slices.Concat(list, c.projections(), c.headNorms())
	}
	conv := weightSpec{name: "shortconv.conv", shape: ir.ShapeOf(c.Width, c.Recurrent.Window)}
	return append(list, conv, matrix("shortconv.in_proj", 3*c.Width, c.Width),
		matrix("shortconv.out_proj", c.Width, c.Width))
}

// lfm2Layer builds a layer. The convolution is gated on both sides: in[0] gates what goes in, and in[1] what comes out.
func lfm2Layer(l layer, x frontend.Tensor) frontend.Tensor {
	convolution := func(h frontend.Tensor) frontend.Tensor {
		in := parts(nn.Linear(h, l.w.Sub("shortconv.in_proj")), l.Width, l.Width, l.Width)
		return nn.Linear(in[1].Mul(l.shortConv(in[0].Mul(in[2]), "shortconv.conv")), l.w.Sub("shortconv.out_proj"))
	}
	x = x.Add(l.attentionOr(convolution, l.norm(x, "attn_norm")))
	return x.Add(l.gated(l.norm(x, "ffn_norm")))
}
