package vision

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// gemma3 is Gemma 3's (Gemma Team 2025, arXiv:2503.19786): a SigLIP tower (Zhai et al. 2023, arXiv:2303.15343), the
// mean of each square of patches, a norm, and a matrix.
var gemma3 = projector{
	name:  "gemma3",
	merge: 4,
	marks: Marks{Placeholder: "<start_of_image>", Before: "\n\n<start_of_image>", After: "<end_of_image>\n\n",
		Begin: "\n\n<start_of_image>", End: "<end_of_image>\n\n"},
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
