package llm

import "slices"

// qwen2VL is the language model of Qwen2-VL and Qwen2.5-VL (Wang et al. 2024, arXiv:2409.12191): Qwen 2 with rotary
// positions in three directions for the tokens of pictures.
var qwen2VL = architecture{
	name: "qwen2vl",
	rope: halves,
	folder: folder{
		classes: "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
		wants:   qwenWants,
		read:    (*folderConfig).noWindow,
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// qwen3VL is the language model of Qwen3-VL (Bai et al. 2025, arXiv:2511.21631): Qwen 3 with positions of three
// directions, as in Qwen2-VL. Neighbouring pairs of elements turn by different directions, in a cycle. The first layers
// add further elements of pictures.
var qwen3VL = architecture{
	name:     "qwen3vl",
	rope:     halves,
	sections: takingTurns,
	folder: folder{
		classes: "Qwen3VLForConditionalGeneration",
		wants:   qwenWants,
		read:    (*folderConfig).deepstack,
	},
	read:         (*metadata).deepstack,
	layerWeights: qwen3.layerWeights,
	layer:        llamaLayer,
}

// qwen3VLMoE is qwen3VL with experts.
var qwen3VLMoE = architecture{
	name:     "qwen3vlmoe",
	rope:     halves,
	sections: takingTurns,
	experts:  true,
	folder: folder{
		classes: "Qwen3VLMoeForConditionalGeneration",
		wants:   qwenWants + "\nnorm_topk_prob true",
		weights: `
			ffn_gate_exps mlp.experts.gate_up_proj transposed first-half
			ffn_up_exps   mlp.experts.gate_up_proj transposed second-half
			ffn_down_exps mlp.experts.down_proj transposed`,
		read: (*folderConfig).deepstack,
	},
	read:         (*metadata).deepstack,
	layerWeights: qwen3.layerWeights,
	layer:        llamaLayer,
}

// deepstack reads how many layers get elements of pictures.
func (r *metadata) deepstack(c *Config) {
	c.Deepstack = int(r.intOr("n_deepstack_layers", 0))
	if c.Deepstack < 0 || c.Deepstack > c.Layers {
		r.fail("n_deepstack_layers", "is %d: want 0 to %d, the layers there are", c.Deepstack, c.Layers)
		c.Deepstack = 0
	}
}

// deepstack sets the number of layers that get elements of pictures, and removes the window.
func (c *folderConfig) deepstack() {
	c.noWindow()
	if vision, ok := c.values["vision_config"].(map[string]any); ok {
		list, _ := vision["deepstack_visual_indexes"].([]any)
		c.setSize("n_deepstack_layers", float64(len(list)))
	}
}

// sections says which direction of a picture's position turns a pair of elements of a head.
type sections int

const (
	inRow       sections = iota // first the pairs of the first direction, then of the next
	takingTurns                 // one pair of each direction after the other
)

// directions returns for each rotary pair the direction that turns it: 0 is time, 1 the row and 2 the column.
func (c Config) directions(how sections) []int {
	list := make([]int, c.RopeDims/2)
	for i := range list {
		switch s := c.Sections; {
		case how == takingTurns:
			if at := i % 3; i < 3*s[at] { // further pairs turn by time
				list[i] = at
			}
		case i >= s[0] && i < s[0]+s[1]:
			list[i] = 1
		case i >= s[0]+s[1] && i < s[0]+s[1]+s[2]:
			list[i] = 2
		}
	}
	return list
}

// sections reads Config.Sections, the number of rotary pairs for each direction: time, row and column. A fourth number
// must be 0.
func (r *metadata) sections(c *Config) {
	const key = "rope.dimension_sections"
	r.known[key] = true
	if _, ok := r.f.Lookup(r.prefix + key); !ok {
		return
	}
	list, err := r.f.Ints(r.prefix + key)
	sum := int64(0)
	for _, n := range list {
		sum += min(max(n, 0), 1<<20) // a hostile number must not overflow the sum
	}
	threeNumbers := len(list) == 3 || len(list) == 4 && list[3] == 0
	if err != nil || !threeNumbers || slices.Min(list) < 0 || sum > int64(c.RopeDims/2) {
		r.fail(key, "is %v: want a number of pairs for time, row and column, %d at most in all", list, c.RopeDims/2)
		return
	}
	for _, n := range list[:3] {
		c.Sections = append(c.Sections, int(n))
	}
}
