package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// deci is DeciLM and the Llama-Nemotron models (Bercovich et al. 2024, arXiv:2411.19146): Llama with layers of
// different sizes. A layer may lack attention, or the feed-forward layer, or have one matrix in place of attention.
var deci = architecture{
	name:   "deci",
	hybrid: true,
	folder: folder{
		classes: "DeciLMForCausalLM",
		wants:   "hidden_act silu",
		weights: "attn_output self_attn.o_proj\nattn_output self_attn.linear_attn",
		read:    (*folderConfig).deci,
	},
	layerWeights: func(c Config) (list []weightSpec) {
		if c.Heads > 0 {
			list = c.norms("attn_norm")
		}
		switch {
		case c.KVHeads > 0:
			list = append(list, c.projections()...)
		case c.Heads > 0:
			list = append(list, matrix("attn_output", c.Width, c.Width))
		}
		if c.FeedForward > 0 {
			list = append(append(list, c.norms("ffn_norm")...), c.gated()...)
		}
		return list
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		if l.Heads > 0 {
			replaced := func(x frontend.Tensor) frontend.Tensor { return nn.Linear(x, l.w.Sub("attn_output")) }
			x = x.Add(l.attentionOr(replaced, l.norm(x, "attn_norm")))
		}
		if l.FeedForward > 0 {
			x = x.Add(l.gated(l.norm(x, "ffn_norm")))
		}
		return x
	},
}

// deci sets the sizes of the layers, which folders have in "block_configs".
func (c *folderConfig) deci() {
	heads, width := c.size("attention.head_count", 1), c.size("embedding_length", 0)
	c.setSize("attention.key_length", float64(width/max(heads, 1)))
	var all [3][]uint32 // query heads, key heads and hidden units of each layer
	blocks, _ := c.values["block_configs"].([]any)
	for _, block := range blocks {
		b, _ := block.(map[string]any)
		attention, _ := b["attention"].(map[string]any)
		ffn, _ := b["ffn"].(map[string]any)
		sizes := [3]int{heads, 0, 0}
		switch {
		case attention["no_op"] == true:
			sizes[0] = 0
		case attention["replace_with_linear"] != true:
			sizes[1] = heads / max(int(c.numberIn(attention, "n_heads_in_group")), 1)
		}
		if ffn["replace_with_linear"] == true || attention["window_length"] != nil || attention["sparsify"] != nil {
			c.fail("block_configs has a matrix in place of a feed-forward layer, or attention to a part of the text: " +
				"neither is supported")
		} else if ffn["no_op"] != true { // 2/3 of ffn_mult*width, rounded up to a multiple of 256
			sizes[2] = (int(2*c.numberIn(ffn, "ffn_mult")*float64(width)/3) + 255) / 256 * 256
		}
		for i, n := range sizes {
			all[i] = append(all[i], uint32(min(max(n, 0), math.MaxInt32)))
		}
	}
	c.set["attention.head_count"], c.set["attention.head_count_kv"] = all[0], all[1]
	c.set["feed_forward_length"] = all[2]
}
