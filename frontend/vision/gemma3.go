package vision

import (
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// siglipFolder returns the rows of folder.weights for a SigLIP tower: vkc's name and the folder's name of each weight,
// with prefix before the folder's name.
func siglipFolder(prefix string) string {
	return strings.ReplaceAll(`
		v.patch_embd     TOWERembeddings.patch_embedding
		v.position_embd  TOWERembeddings.position_embedding
		v.post_ln        TOWERpost_layernorm
		v.blk.N.ln1      TOWERencoder.layers.N.layer_norm1
		v.blk.N.ln2      TOWERencoder.layers.N.layer_norm2
		v.blk.N.attn_q   TOWERencoder.layers.N.self_attn.q_proj
		v.blk.N.attn_k   TOWERencoder.layers.N.self_attn.k_proj
		v.blk.N.attn_v   TOWERencoder.layers.N.self_attn.v_proj
		v.blk.N.attn_out TOWERencoder.layers.N.self_attn.out_proj
		v.blk.N.ffn_up   TOWERencoder.layers.N.mlp.fc1
		v.blk.N.ffn_down TOWERencoder.layers.N.mlp.fc2`, "TOWER", prefix)
}

// gemma3 is the projector of Gemma 3 (Gemma Team 2025, arXiv:2503.19786): after a SigLIP tower (Zhai et al. 2023,
// arXiv:2303.15343), the mean of each square of patches, a norm, and a matrix.
var gemma3 = projector{
	name:  "gemma3",
	merge: 4,
	marks: Marks{Placeholder: "<start_of_image>", Before: "\n\n<start_of_image>", After: "<end_of_image>\n\n",
		Begin: "\n\n<start_of_image>", End: "<end_of_image>\n\n"},
	folder: folder{
		classes: "Gemma3ForConditionalGeneration",
		weights: siglipFolder("vision_tower.vision_model.") + `
			mm.soft_emb_norm    multi_modal_projector.mm_soft_emb_norm           plus-one
			mm.input_projection multi_modal_projector.mm_input_projection_weight parameter`,
		set: func(c *folderConfig) {
			c.want("hidden_act", "gelu_pytorch_tanh")
			rows := 256.0
			if c.top["mm_tokens_per_image"] != nil {
				rows = c.number(c.top, "mm_tokens_per_image")
			}
			c.set["projector.scale_factor"], c.set["use_gelu"] = uint32(c.merge(rows)), true
			c.set["image_mean"], c.set["image_std"] = []float32{0.5, 0.5, 0.5}, []float32{0.5, 0.5, 0.5}
		},
	},
	weights: func(c Config) []weightSpec {
		return []weightSpec{
			{name: "mm.input_projection", shape: ir.ShapeOf(c.Width, c.Out)}, // from its rows to its columns
			{name: "mm.soft_emb_norm", shape: ir.ShapeOf(c.Width)},
		}
	},
	project: func(t tower, x frontend.Tensor) frontend.Tensor {
		x = x.Reshape(-1, t.Merge*t.Merge, t.Width).Mean(1)
		x = nn.RMSNorm(x, t.w.Sub("mm.soft_emb_norm"), t.NormEps)
		return x.MatMul(t.w.Get("mm.input_projection.weight").Cast(ir.F32))
	},
}
