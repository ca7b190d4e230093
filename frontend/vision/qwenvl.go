package vision

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// qwen2VL is Qwen2-VL's (Wang et al. 2024, arXiv:2409.12191): pictures of any size, rotary positions in two directions,
// and an MLP over squares of patches.
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
}

// qwen25VL is Qwen2.5-VL's (Bai et al. 2025, arXiv:2502.13923): Qwen2-VL with RMS norms, gated feed-forward layers, and
// attention in windows.
var qwen25VL = func() projector {
	p := qwen2VL
	p.name, p.rms = "qwen2.5vl_merger", true
	return p
}()

// qwen3VL is Qwen3-VL's (Bai et al. 2025, arXiv:2511.21631): Qwen2-VL with learned positions besides the rotary ones,
// and outputs of further layers.
var qwen3VL = func() projector {
	p := qwen2VL
	p.name = "qwen3vl_merger"
	p.minPixels, p.maxPixels = 256*256, 4096*4096
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
