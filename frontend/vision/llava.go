package vision

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// llava is the projector of LLaVA 1.5 (Liu et al. 2023, arXiv:2310.03744): after a CLIP tower (Radford et al. 2021,
// arXiv:2103.00020), two matrices with GELU between them. Files leave out the tower's last layer, which LLaVA does not
// use. LLaVA 1.6 also reads squares of large pictures.
var llava = projector{
	name:   "mlp",
	merge:  1,
	square: Padded,
	cubic:  true,
	tile:   splitLLaVA,
	marks:  Marks{Placeholder: "<image>", End: "\n"},
	weights: func(c Config) []weightSpec {
		hidden := c.Out
		if t := c.Types["mm.0.weight"]; len(t.Shape) == 2 {
			hidden = t.Shape[0].Static()
		}
		list := []weightSpec{matrix("mm.0", hidden, c.Width*max(len(c.Features), 1))}
		if len(c.Pinpoints) > 0 {
			list = append(list, weightSpec{name: Newline, shape: ir.ShapeOf(c.Out), bare: true})
		}
		if _, two := c.Types["mm.2.weight"]; two {
			list = append(list, matrix("mm.2", c.Out, hidden))
		}
		return list
	},
	project: func(t tower, x frontend.Tensor) frontend.Tensor {
		x = nn.Linear(x, t.w.Sub("mm.0"))
		if t.w.Sub("mm.2").Has("weight") {
			x = nn.Linear(x.GeluErf(), t.w.Sub("mm.2"))
		}
		return x
	},
}
