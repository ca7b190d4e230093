package llm

// arcee is AFM 4.5B (Arcee AI 2025): Llama with the feed-forward layer of nemotron.
var arcee = architecture{
	name:         "arcee",
	folder:       folder{classes: "ArceeForCausalLM", wants: "hidden_act relu2"},
	layerWeights: nemotron.layerWeights,
	layer:        squaredReluLayer,
}
