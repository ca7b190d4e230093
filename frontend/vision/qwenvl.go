package vision

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// qwen2VL is the projector of Qwen2-VL (Wang et al. 2024, arXiv:2409.12191), with its tower: pictures of any size,
// rotary positions in two directions, and an MLP over squares of patches.
var qwen2VL = projector{
	name:      "qwen2vl_merger",
	merge:     2,
	manySizes: true,
	minPixels: 56 * 56,
	maxPixels: 3584 * 3584,
	cubic:     true,
	rotary:    true,
	frames:    true,
	marks:     Marks{Placeholder: "<|image_pad|>", Begin: "<|vision_start|>", End: "<|vision_end|>"},
	weights:   mergerWeights,
	project:   merger,
	folder: folder{
		classes: "Qwen2VLForConditionalGeneration",
		keys:    "embedding_length embed_dim",
		weights: qwenFolder + `
			v.blk.N.ffn_up       visual.blocks.N.mlp.fc1
			v.blk.N.ffn_down     visual.blocks.N.mlp.fc2
			v.post_ln            visual.merger.ln_q
			mm.0                 visual.merger.mlp.0
			mm.2                 visual.merger.mlp.2`,
		set: func(c *folderConfig) {
			c.want("hidden_act", "quick_gelu")
			ratio := 4.0
			if c.vision["mlp_ratio"] != nil {
				ratio = c.number(c.vision, "mlp_ratio")
			}
			c.set["feed_forward_length"] = uint32(c.number(c.vision, "embed_dim") * ratio)
			c.qwen(clipMean, clipDeviation)
		},
	},
}

// The colors of CLIP's pictures.
var (
	clipMean      = []float32{0.48145466, 0.4578275, 0.40821073}
	clipDeviation = []float32{0.26862954, 0.26130258, 0.27577711}
)

// qwenFolder are the weights that the towers share in folders.
const qwenFolder = `
v.patch_embd          visual.patch_embed.proj  first-frame
v.patch_embd.weight.1 visual.patch_embed.proj  second-frame
v.blk.N.ln1           visual.blocks.N.norm1
v.blk.N.ln2           visual.blocks.N.norm2
v.blk.N.attn_qkv      visual.blocks.N.attn.qkv
v.blk.N.attn_out      visual.blocks.N.attn.proj`

// qwen sets the metadata that the towers share.
func (c *folderConfig) qwen(mean, deviation []float32) {
	c.set["image_mean"], c.set["image_std"] = mean, deviation
	if c.set["image_size"] == nil {
		c.set["image_size"] = uint32(560) // it has no meaning, but files have one
	}
	if c.set["patch_size"] == nil {
		c.set["patch_size"] = uint32(14)
	}
	if c.vision["spatial_merge_size"] != nil {
		c.set["spatial_merge_size"] = uint32(c.number(c.vision, "spatial_merge_size"))
	}
	c.pixels()
}

// qwen25VL is the projector of Qwen2.5-VL (Bai et al. 2025, arXiv:2502.13923): qwen2VL with RMS norms, gated
// feed-forward layers, and attention in windows.
var qwen25VL = func() projector {
	p := qwen2VL
	p.name, p.rms = "qwen2.5vl_merger", true
	p.folder = folder{
		classes: "Qwen2_5_VLForConditionalGeneration",
		weights: qwenFolder + `
			v.blk.N.ffn_gate     visual.blocks.N.mlp.gate_proj
			v.blk.N.ffn_up       visual.blocks.N.mlp.up_proj
			v.blk.N.ffn_down     visual.blocks.N.mlp.down_proj
			v.post_ln            visual.merger.ln_q
			mm.0                 visual.merger.mlp.0
			mm.2                 visual.merger.mlp.2`,
		set: func(c *folderConfig) {
			c.want("hidden_act", "silu")
			c.qwen(clipMean, clipDeviation)
			c.set["use_silu"] = true
			if c.vision["window_size"] != nil {
				c.set["window_size"] = uint32(c.number(c.vision, "window_size"))
			}
			full := c.integers("fullatt_block_indexes")
			if len(full) == 0 {
				full = []int{7, 15, 23, 31}
			}
			for i, layer := range full {
				if layer != (i+1)*(full[0]+1)-1 {
					c.fail("fullatt_block_indexes is %v: want the last layer of each period", full)
				}
			}
			c.set["n_wa_pattern"] = uint32(full[0] + 1)
		},
	}
	return p
}()

// qwen3VL is the projector of Qwen3-VL (Bai et al. 2025, arXiv:2511.21631): qwen2VL with learned positions besides the
// rotary ones, and outputs of further layers.
var qwen3VL = func() projector {
	p := qwen2VL
	p.name = "qwen3vl_merger"
	p.minPixels, p.maxPixels = 256*256, 4096*4096
	p.folder = folder{
		classes: "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
		weights: qwenFolder + `
			v.position_embd      visual.pos_embed
			v.blk.N.ffn_up       visual.blocks.N.mlp.linear_fc1
			v.blk.N.ffn_down     visual.blocks.N.mlp.linear_fc2
			v.post_ln            visual.merger.norm
			mm.0                 visual.merger.linear_fc1
			mm.2                 visual.merger.linear_fc2
			v.deepstack.D.norm   visual.deepstack_merger_list.D.norm
			v.deepstack.D.fc1    visual.deepstack_merger_list.D.linear_fc1
			v.deepstack.D.fc2    visual.deepstack_merger_list.D.linear_fc2`,
		set: func(c *folderConfig) {
			c.want("hidden_act", "gelu_pytorch_tanh")
			c.qwen([]float32{0.5, 0.5, 0.5}, []float32{0.5, 0.5, 0.5})
			c.set["use_gelu"] = true
			c.deepstack = c.integers("deepstack_visual_indexes")
			flags := make([]bool, int(min(c.number(c.vision, "depth"), 1024)))
			for _, layer := range c.deepstack {
				if layer < 0 || layer >= len(flags) {
					c.fail("deepstack_visual_indexes is %v: want layers of %d", c.deepstack, len(flags))
					return
				}
				flags[layer] = true
			}
			c.set["is_deepstack_layers"] = flags
		},
	}
	p.weights = func(c Config) []weightSpec {
		list := mergerWeights(c)
		for _, i := range c.Deepstack {
			name, n := fmt.Sprintf("v.deepstack.%d.", i), c.Merge*c.Merge*c.Width
			list = append(list, norm(name+"norm", n), matrix(name+"fc1", n, n), matrix(name+"fc2", c.Out, n))
		}
		return list
	}
	return p
}()

func mergerWeights(c Config) []weightSpec {
	n := c.Merge * c.Merge * c.Width
	return []weightSpec{matrix("mm.0", n, n), matrix("mm.2", c.Out, n)}
}

// merger makes a row of each square of patches.
func merger(t tower, x frontend.Tensor) frontend.Tensor {
	return nn.Linear(nn.Linear(t.merged(x), t.w.Sub("mm.0")).GeluErf(), t.w.Sub("mm.2"))
}
