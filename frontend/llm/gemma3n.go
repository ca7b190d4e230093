package llm

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// gemma3n is the language model of Gemma 3n (Google 2025, https://ai.google.dev/gemma/docs/gemma-3n). The residual
// stream has several parts. A layer computes one of them and predicts the others (AltUp, Baykal et al. 2023,
// arXiv:2301.13310). A low-rank matrix runs next to attention, each layer has an embedding of the token, the last
// layers share the keys and values of earlier ones, and gates of the first layers are sparse.
var gemma3n = architecture{
	name:       "gemma3n",
	rope:       halves,
	valueNorms: true,
	folder: folder{
		classes: "Gemma3nForConditionalGeneration Gemma3nForCausalLM",
		wants: `
			hidden_activation   gelu_pytorch_tanh
			altup_active_idx    0
			altup_correct_scale true`,
		keys: `
			altup.num_inputs                 altup_num_inputs
			embedding_length_per_layer_input hidden_size_per_layer_input
			attention.shared_kv_layers       num_kv_shared_layers`,
		weights: gemma2Folder + perLayerFolder + `
			altup_proj          model.altup_projections.E
			altup_unembd_proj   model.altup_unembed_projections.E
			altup_correct_coef  altup.correction_coefs
			altup_correct_scale altup.correct_output_scale
			altup_predict_coef  altup.prediction_coefs
			altup_router        altup.modality_router
			altup_router_norm   altup.router_norm
			laurel_l            laurel.linear_left
			laurel_r            laurel.linear_right
			laurel_post_norm    laurel.post_laurel_norm`,
		read: func(c *folderConfig) {
			c.sparsity()
			if windows := c.windows(); windows != nil {
				c.set["attention.sliding_window_pattern"] = windows
			}
		},
	},
	read: func(r *metadata, c *Config) {
		c.AttentionScale, c.LogitSoftcap = 1, r.floatOr("final_logit_softcapping", 30)
		c.WindowPeriod, c.LocalRopeBase = 5, r.floatOr("rope.freq_base_swa", 10000)
		c.RopeBase = r.floatOr("rope.freq_base", 1e6)
		c.Streams, c.PerLayerWidth = r.size("altup.num_inputs"), r.size("embedding_length_per_layer_input")
		c.SharedKV = int(min(r.intOr("attention.shared_kv_layers", 0), math.MaxInt32))
		if active := r.intOr("altup.active_idx", 0); active != 0 {
			r.fail("altup.active_idx", "is %d, which is not supported: want 0", active)
		}
		c.Sparsity = r.floats("activation_sparsity_scale")
	},
	onceWeights: func(c Config) []weightSpec {
		parts := ir.ShapeOf(c.Streams-1, c.Width, c.Width)
		return append(c.perLayerWeights(), weightSpec{name: "altup_proj", shape: parts},
			weightSpec{name: "altup_unembd_proj", shape: parts})
	},
	layerWeights: func(c Config) []weightSpec {
		n, rank := c.Streams, c.rows("blk.0.laurel_l")
		return slices.Concat(gemma2Parts(c), c.headNorms(), c.perLayerProjections(),
			c.norms("altup_router_norm", "laurel_post_norm"), []weightSpec{matrix("altup_correct_coef", n, n),
				vector("altup_correct_scale", c.Width), matrix("altup_router", n, c.Width),
				matrix("altup_predict_coef", n*n, n), matrix("laurel_l", rank, c.Width),
				matrix("laurel_r", c.Width, rank)})
	},
	embed:    gemmaEmbed,
	perLayer: perLayerInputs,
	split:    altUpStreams,
	layer:    gemma3nLayer,
	join:     altUpJoined,
}

// sparsity converts the share of gates that a layer sets to 0 to a threshold in standard deviations. For example, half
// of a normal distribution is below 0 standard deviations from the mean.
func (c *folderConfig) sparsity() {
	list, _ := c.values["activation_sparsity_pattern"].([]any)
	scales := make([]float32, len(list))
	for i := range list {
		share := c.numberIn(map[string]any{"sparsity": list[i]}, "sparsity")
		scales[i] = float32(math.Sqrt2 * math.Erfinv(float64(2*share)-1))
	}
	if len(scales) > 0 {
		c.set["activation_sparsity_scale"] = scales
	}
}
