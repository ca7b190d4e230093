package llm

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// falconH1 is Falcon-H1 (Zuo et al. 2025, arXiv:2507.22448): attention and Mamba-2's layer side by side, and a gated
// feed-forward layer. Its files have the model's multipliers in the weights.
var falconH1 = architecture{
	name: "falcon-h1",
	rope: halves,
	folder: folder{
		classes: "FalconH1ForCausalLM",
		factors: true,
		weights: mambaFolder + `
			output_norm model.final_layernorm
			ffn_norm    pre_ff_layernorm
			ffn_gate    feed_forward.gate_proj
			ffn_up      feed_forward.up_proj
			ffn_down    feed_forward.down_proj`,
		keys:     scanKeys + "embedding_scale*\nssm.inner_size mamba_d_ssm",
		defaults: "mamba_rms_norm false",
		wants:    scanWants + "hidden_act silu\nattention_bias false\nmlp_bias false\nprojectors_bias false",
		read:     (*folderConfig).falconH1,
	},
	read: func(r *metadata, c *Config) { r.scan(c) },
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(llamaWeights(c), c.mamba2Weights())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		x = x.Add(l.attention(h).Add(l.mamba2(h)))
		return x.Add(l.gated(l.norm(x, "ffn_norm")))
	},
}

// falconH1 sets the factors by which weights are multiplied when a folder is read. Folders of Falcon H1 have them in
// config.json and not in the weights, for a parametrization in which models of all sizes train alike (Yang et al. 2022,
// arXiv:2203.03466).
func (c *folderConfig) falconH1() {
	if c.values["mamba_d_ssm"] == nil {
		c.setInner("mamba_d_head")
	}
	if c.flag("mamba_rms_norm", false) {
		c.want("mamba_norm_before_gate", []string{"false"})
	}
	one := func(key string) float64 { // the factor at a key; 1 if config.json lacks it
		if c.values[key] == nil {
			return 1
		}
		return c.number(key)
	}
	list := func(key string, n int) []float64 { // the n factors at a key
		all := slices.Repeat([]float64{1}, n)
		if given, ok := c.values[key].([]any); ok && len(given) == n {
			for i, v := range given {
				all[i] = c.numberIn(map[string]any{key: v}, key)
			}
		} else if c.values[key] != nil {
			c.fail("%q is %.40s: want %d numbers", key, fmt.Sprint(c.values[key]), n)
		}
		return all
	}
	c.times = map[string]func(int) float64{} // by weight: the factor of a row
	hidden, in := list("mlp_multipliers", 2), one("attention_in_multiplier")
	for name, factor := range map[string]float64{"token_embd": one("embedding_multiplier"),
		"output": one("lm_head_multiplier"), "attn_q": in, "attn_k": in * one("key_multiplier"), "attn_v": in,
		"attn_output": one("attention_out_multiplier"), "ssm_out": one("ssm_out_multiplier"), "ffn_gate": hidden[0],
		"ffn_down": hidden[1]} {
		if factor != 1 {
			c.times[name] = func(int) float64 { return factor }
		}
	}
	// ssm_in has the rows of the gate, of the values, of both groups of keys, and of the steps.
	inner, keys := c.size("ssm.inner_size", 0), c.size("ssm.group_count", 1)*c.size("ssm.state_size", 0)
	parts, ssm := list("ssm_multipliers", 5), one("ssm_in_multiplier")
	c.times["ssm_in"] = func(row int) float64 {
		for i, n := range []int{inner, inner, keys, keys} {
			if row < n {
				return ssm * parts[i]
			}
			row -= n
		}
		return ssm * parts[4]
	}
	// The output shares the embedding's tensor, but not its factor: it becomes a weight of its own.
	if head := one("lm_head_multiplier"); c.flag("tie_word_embeddings", false) {
		c.more = append(c.more, Origin{Name: "output.weight", From: []string{"model.embed_tokens.weight"},
			Change: func(_ int, v float64) float64 { return v * head }})
	}
}
