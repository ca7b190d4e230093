package vision

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// idefics3 is the vision tower of Idefics 3 and SmolVLM (Laurençon et al. 2024, arXiv:2408.12637): a SigLIP tower. Its
// projector joins each square of 4x4 neighbouring patches to one row, and multiplies the row by a matrix.
var idefics3 = projector{
	name:  "idefics3",
	merge: 4,
	cubic: true,
	tile:  splitIdefics3,
	marks: Marks{Placeholder: "<image>", Before: "<fake_token_around_image><global-img>",
		After: "<fake_token_around_image>", Begin: "<fake_token_around_image><global-img>",
		End: "<fake_token_around_image>"},
	folder: folder{
		classes: "Idefics3ForConditionalGeneration SmolVLMForConditionalGeneration",
		weights: siglipFolder("vision_model.") + `
			mm.model.fc connector.modality_projection.proj`,
		set: func(c *folderConfig) {
			c.want("hidden_act", "gelu_pytorch_tanh")
			c.set["projector.scale_factor"], c.set["use_gelu"] = uint32(4), true
			if c.top["scale_factor"] != nil {
				c.set["projector.scale_factor"] = uint32(c.number(c.top, "scale_factor"))
			}
			if size, _ := c.preprocessor["size"].(map[string]any); size["longest_edge"] != nil {
				if split, ok := c.preprocessor["do_image_splitting"].(bool); split || !ok {
					c.set["preproc_image_size"] = uint32(c.number(size, "longest_edge"))
				}
			}
			c.set["image_mean"], c.set["image_std"] = []float32{0.5, 0.5, 0.5}, []float32{0.5, 0.5, 0.5}
		},
	},
	weights: func(c Config) []weightSpec {
		return []weightSpec{matrix("mm.model.fc", c.Out, c.Width*c.Merge*c.Merge)}
	},
	project: func(t tower, x frontend.Tensor) frontend.Tensor {
		return nn.Linear(t.merged(x), t.w.Sub("mm.model.fc"))
	},
}
