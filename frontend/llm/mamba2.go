package llm

import "github.com/vkc-go/vkc/frontend"

// mamba2 is Mamba-2 (Dao and Gu 2024, arXiv:2405.21060): layers of selective scans, and no attention.
var mamba2 = architecture{
	name:        "mamba2",
	rope:        notRotary,
	noAttention: true,
	read:        func(r *metadata, c *Config) { r.scan(c) },
	layerWeights: func(c Config) []weightSpec {
		return append(c.norms("attn_norm"), c.mamba2Weights()...)
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor { return l.add(x, l.mamba2(l.norm(x, "attn_norm"))) },
}
