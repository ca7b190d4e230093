package llm

import "slices"

// dots1 is dots.llm1 (rednote-hilab 2025, arXiv:2506.05767): Qwen 3's attention, first some dense layers, then mixtures
// of experts with a shared expert. The router weighs experts by a sigmoid, and adds a bias to choose them.
var dots1 = architecture{
	name:    "dots1",
	rope:    halves,
	experts: true,
	folder: folder{
		classes: "Dots1ForCausalLM",
		wants:   qwenWants,
		read:    (*folderConfig).noWindow,
	},
	read: glm4MoE.read,
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(llamaWeights(c), c.headNorms(), c.routerBias())
	},
	layer: llamaLayer,
}
