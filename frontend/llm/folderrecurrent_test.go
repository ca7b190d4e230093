package llm_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/ir"
)

// Names of the tensors of recurrent layers as transformers and FLA write them; see attentionNames. The words of
// reorders may come before the last one.
const (
	mixerNames = `
		ssm_in PREFIX.in_proj
		ssm_conv1d PREFIX.conv1d channels
		ssm_dt PREFIX.dt_bias bare
		ssm_a PREFIX.A_log log flat bare
		ssm_d PREFIX.D flat bare
		ssm_norm PREFIX.norm flat
		ssm_out PREFIX.out_proj`
	backboneNames = `
		token_embd backbone.embeddings
		output_norm backbone.norm_f
		output lm_head
		attn_norm backbone.layers.N.norm`
	mambaNames = backboneNames + `
		ssm_in backbone.layers.N.mixer.in_proj
		ssm_conv1d backbone.layers.N.mixer.conv1d channels
		ssm_x backbone.layers.N.mixer.x_proj
		ssm_dt backbone.layers.N.mixer.dt_proj
		ssm_a backbone.layers.N.mixer.A_log log bare
		ssm_d backbone.layers.N.mixer.D bare
		ssm_out backbone.layers.N.mixer.out_proj`
	nemotronNames = backboneNames + `
		attn_q backbone.layers.N.mixer.q_proj
		attn_k backbone.layers.N.mixer.k_proj
		attn_v backbone.layers.N.mixer.v_proj
		attn_output backbone.layers.N.mixer.o_proj
		ffn_up backbone.layers.N.mixer.up_proj
		ffn_down backbone.layers.N.mixer.down_proj`
	sharedMLPNames = `
		ffn_gate model.layers.N.shared_mlp.input_linear first-rows
		ffn_up model.layers.N.shared_mlp.input_linear second-rows
		ffn_down model.layers.N.shared_mlp.output_linear`
	lfm2Names = attentionNames + `
		token_embd_norm model.embedding_norm
		attn_norm model.layers.N.operator_norm
		attn_output model.layers.N.self_attn.out_proj
		attn_q_norm model.layers.N.self_attn.q_layernorm
		attn_k_norm model.layers.N.self_attn.k_layernorm
		shortconv.conv model.layers.N.conv.conv channels
		shortconv.in_proj model.layers.N.conv.in_proj
		shortconv.out_proj model.layers.N.conv.out_proj
		ffn_norm model.layers.N.ffn_norm
		ffn_gate model.layers.N.feed_forward.w1
		ffn_up model.layers.N.feed_forward.w3
		ffn_down model.layers.N.feed_forward.w2
		ffn_gate_inp model.layers.N.feed_forward.gate
		ffn_gate_exps model.layers.N.feed_forward.experts.E.w1
		ffn_up_exps model.layers.N.feed_forward.experts.E.w3
		ffn_down_exps model.layers.N.feed_forward.experts.E.w2
		exp_probs_b model.layers.N.feed_forward.expert_bias bare`
	falconH1Names = llamaNames + `
		token_embd model.embed_tokens over=2
		output lm_head over=0.25
		output_norm model.final_layernorm
		attn_q model.layers.N.self_attn.q_proj over=0.5
		attn_k model.layers.N.self_attn.k_proj over=2
		attn_v model.layers.N.self_attn.v_proj over=0.5
		attn_output model.layers.N.self_attn.o_proj over=8
		ssm_in model.layers.N.mamba.in_proj over-parts
		ssm_out model.layers.N.mamba.out_proj over=0.125
		ffn_norm model.layers.N.pre_ff_layernorm
		ffn_gate model.layers.N.feed_forward.gate_proj over=0.5
		ffn_up model.layers.N.feed_forward.up_proj
		ffn_down model.layers.N.feed_forward.down_proj over=4`
	deltaNames = `
		attn_gate model.layers.N.linear_attn.in_proj_z near
		attn_qkv model.layers.N.linear_attn.in_proj_qkv near-values
		ssm_beta model.layers.N.linear_attn.in_proj_b near
		ssm_alpha model.layers.N.linear_attn.in_proj_a near
		ssm_conv1d model.layers.N.linear_attn.conv1d near-values channels
		ssm_dt model.layers.N.linear_attn.dt_bias near bare
		ssm_a model.layers.N.linear_attn.A_log near log bare
		ssm_norm model.layers.N.linear_attn.norm
		ssm_out model.layers.N.linear_attn.out_proj near-columns
		post_attention_norm model.layers.N.post_attention_layernorm`
	deltaGroupNames = deltaNames + `
		attn_qkv model.layers.N.linear_attn.in_proj_qkvz#qkv
		attn_gate model.layers.N.linear_attn.in_proj_qkvz#gate
		ssm_ba model.layers.N.linear_attn.in_proj_ba
		ssm_conv1d model.layers.N.linear_attn.conv1d channels
		ssm_dt model.layers.N.linear_attn.dt_bias bare
		ssm_a model.layers.N.linear_attn.A_log log bare
		ssm_out model.layers.N.linear_attn.out_proj`
	stackNames = `
		ffn_gate_exps model.layers.N.mlp.experts.gate_up_proj stack-first
		ffn_up_exps model.layers.N.mlp.experts.gate_up_proj stack-second
		ffn_down_exps model.layers.N.mlp.experts.down_proj stack`
	rwkvNames = `
		token_embd model.embeddings
		token_embd_norm model.layers.0.pre_norm
		output_norm model.norm
		output lm_head
		attn_norm model.layers.N.attn_norm
		attn_norm_2 model.layers.N.ffn_norm
		time_mix_lerp_fused model.layers.N.attn.x_ each=rwkvag
		time_mix_receptance model.layers.N.attn.r_proj
		time_mix_key model.layers.N.attn.k_proj
		time_mix_value model.layers.N.attn.v_proj
		time_mix_output model.layers.N.attn.o_proj
		time_mix_w0 model.layers.N.attn.w_lora.lora.2.bias bare
		time_mix_w1 model.layers.N.attn.w_lora.lora.0
		time_mix_w2 model.layers.N.attn.w_lora.lora.2
		time_mix_a0 model.layers.N.attn.a_lora.lora.2.bias bare
		time_mix_a1 model.layers.N.attn.a_lora.lora.0
		time_mix_a2 model.layers.N.attn.a_lora.lora.2
		time_mix_v0 model.layers.N.attn.v_lora.lora.2.bias bare
		time_mix_v1 model.layers.N.attn.v_lora.lora.0
		time_mix_v2 model.layers.N.attn.v_lora.lora.2
		time_mix_g1 model.layers.N.attn.g_lora.lora.0
		time_mix_g2 model.layers.N.attn.g_lora.lora.2
		time_mix_k_k model.layers.N.attn.k_k bare
		time_mix_k_a model.layers.N.attn.k_a bare
		time_mix_r_k model.layers.N.attn.r_k per-head bare
		time_mix_ln model.layers.N.attn.g_norm
		channel_mix_lerp_k model.layers.N.ffn.x_k flat bare
		channel_mix_key model.layers.N.ffn.key
		channel_mix_value model.layers.N.ffn.value`
)

// mixer returns mixerNames for layers with a prefix.
func mixer(prefix string) string { return strings.ReplaceAll(mixerNames, "PREFIX", prefix) }

func init() {
	const lfm2 = `"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "norm_eps": 1e-05, "conv_L_cache": 3, "conv_bias": false`
	const granite = `"architectures": ["GraniteMoeHybridForCausalLM"], "hidden_size": 32, "num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"], "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000, "position_embedding_type": "nope", "embedding_multiplier": 12, "residual_multiplier": 0.25, "attention_multiplier": 0.125, "logits_scaling": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_expand": 2, "tie_word_embeddings": true`
	const qwen = `"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "hidden_act": "silu", "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"]`
	const experts = `, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40`
	const mamba = `"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "state_size": 8, "conv_kernel": 4, "expand": 2, "time_step_rank": 4, "layer_norm_epsilon": 1e-05, "hidden_act": "silu", "use_conv_bias": true, "max_position_embeddings": 32`
	for name, c := range map[string]folderCase{
		"mamba":             {names: mambaNames, config: `{"architectures": ["MambaForCausalLM"], ` + mamba + `}`},
		"falcon-mamba":      {names: mambaNames, config: `{"architectures": ["FalconMambaForCausalLM"], ` + mamba + `, "mixer_rms_eps": 1e-05}`},
		"mamba2":            {names: backboneNames + mixer("backbone.layers.N.mixer"), config: `{"architectures": ["Mamba2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 2, "conv_kernel": 4, "expand": 2, "layer_norm_epsilon": 1e-05, "rms_norm": true, "hidden_act": "silu", "max_position_embeddings": 32, "time_step_limit": [0.0, Infinity], "tie_word_embeddings": true}`},
		"nemotron_h":        {names: nemotronNames + mixer("backbone.layers.N.mixer"), config: `{"architectures": ["NemotronHForCausalLM"], "hidden_size": 32, "num_hidden_layers": 5, "hybrid_override_pattern": "M-*-M", "num_attention_heads": 4, "num_key_value_heads": 2, "attention_head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "layer_norm_epsilon": 1e-05, "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4, "mlp_hidden_act": "relu2", "time_step_limit": [0.0, Infinity]}`},
		"granitehybrid":     {names: llamaNames + rotaryNames + mixer("model.layers.N.mamba") + sharedMLPNames, config: `{` + granite + `, "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 48}`},
		"granitehybrid-moe": {names: llamaNames + rotaryNames + graniteMoENames + mixer("model.layers.N.mamba"), config: `{` + granite + `, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 24}`},
		"lfm2":              {names: lfm2Names, config: `{"architectures": ["Lfm2ForCausalLM"], ` + lfm2 + `, "theta": 1000000.0, "block_ff_dim": 72, "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 16, "full_attn_idxs": [2], "tie_embedding": true}`},
		"lfm2moe":           {names: lfm2Names, config: `{"architectures": ["Lfm2MoeForCausalLM"], ` + lfm2 + `, "rope_theta": 1000000.0, "intermediate_size": 48, "layer_types": ["conv", "conv", "full_attention", "conv"], "num_dense_layers": 1, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "use_expert_bias": true, "norm_topk_prob": true}`},
		"qwen3next":         {names: llamaNames + expertNames + sharedNames + deltaGroupNames, lessOne: true, config: `{"architectures": ["Qwen3NextForCausalLM"], ` + qwen + experts + `, "rope_theta": 10000000, "partial_rotary_factor": 0.25, "full_attention_interval": 4, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": []}`},
		"qwen35":            {names: llamaNames + deltaNames, lessOne: true, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": {` + qwen + `, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}}, "vision_config": {}}`},
		"qwen35moe":         {names: llamaNames + expertNames + sharedNames + deltaNames + stackNames, lessOne: true, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": {` + qwen + experts + `, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}}, "vision_config": {}}`},
		"falcon-h1":         {names: mixer("model.layers.N.mamba") + falconH1Names, config: `{"architectures": ["FalconH1ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 100000000000.0, "mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_rms_norm": false, "mamba_norm_before_gate": true, "embedding_multiplier": 2, "lm_head_multiplier": 0.25, "attention_in_multiplier": 0.5, "attention_out_multiplier": 8, "key_multiplier": 4, "ssm_in_multiplier": 0.5, "ssm_out_multiplier": 0.125, "ssm_multipliers": [1, 2, 4, 8, 16], "mlp_multipliers": [0.5, 4]}`},
		"rwkv7":             {names: rwkvNames, without: "blk.0.time_mix_v0 blk.0.time_mix_v1 blk.0.time_mix_v2", config: `{"architectures": ["RWKV7ForCausalLM"], "hidden_size": 128, "num_hidden_layers": 2, "head_dim": 64, "intermediate_size": 48, "hidden_ratio": 4.0, "max_position_embeddings": 32, "norm_eps": 1e-05, "norm_first": true, "norm_bias": true, "hidden_act": "sqrelu", "decay_low_rank_dim": 6, "a_low_rank_dim": 5, "v_low_rank_dim": 4, "gate_low_rank_dim": 7, "attn": null}`},
	} {
		folderCases[name] = c
	}
}

// reorders make a folder's tensor of a weight: the inverse of a row's changes.
var reorders = map[string]func(t *testing.T, c llm.Config, d *ir.Data) *ir.Data{
	"log": func(_ *testing.T, _ llm.Config, d *ir.Data) *ir.Data { // in f64, whose exponential is the weight to the bit
		values := must(d.Floats())
		for i, v := range values {
			values[i] = math.Log(-v)
		}
		return must(ir.FromFloats(ir.F64, values, d.Dims...))
	},
	"flat": func(_ *testing.T, _ llm.Config, d *ir.Data) *ir.Data {
		return &ir.Data{DType: d.DType, Dims: []int{d.Elems()}, Bytes: d.Bytes}
	},
	"channels": func(_ *testing.T, _ llm.Config, d *ir.Data) *ir.Data {
		if len(d.Dims) != 2 {
			return d // the bias
		}
		return &ir.Data{DType: d.DType, Dims: []int{d.Dims[0], 1, d.Dims[1]}, Bytes: d.Bytes}
	},
	"per-head": func(_ *testing.T, c llm.Config, d *ir.Data) *ir.Data {
		return &ir.Data{DType: d.DType, Dims: []int{c.Recurrent.Heads, c.Recurrent.Keys}, Bytes: d.Bytes}
	},
	"near": func(_ *testing.T, c llm.Config, d *ir.Data) *ir.Data { return rowsOf(d, nearHeads(c, 0, d.Dims[0])) },
	"near-values": func(_ *testing.T, c llm.Config, d *ir.Data) *ir.Data {
		return rowsOf(d, nearHeads(c, 2*c.Recurrent.Groups*c.Recurrent.Keys, d.Dims[0]))
	},
	"near-columns": func(_ *testing.T, c llm.Config, d *ir.Data) *ir.Data {
		out := &ir.Data{DType: d.DType, Dims: d.Dims}
		for r := range d.Dims[0] {
			for _, column := range nearHeads(c, 0, d.Dims[1]) {
				out.Bytes = append(out.Bytes, d.Bytes[4*(r*d.Dims[1]+column):][:4]...)
			}
		}
		return out
	},
	"over-parts": func(t *testing.T, c llm.Config, d *ir.Data) *ir.Data { // by half of 1, 2, 4, 8 and 16
		s := c.Recurrent
		var factors []float64
		for i, n := range []int{s.Inner, s.Inner, s.Groups * s.Keys, s.Groups * s.Keys, s.Heads} {
			factors = append(factors, slices.Repeat([]float64{math.Ldexp(0.5, i)}, n)...)
		}
		values := must(d.Floats())
		for i := range values {
			values[i] /= factors[i/d.Dims[1]]
		}
		return must(ir.FromFloats(ir.F32, values, d.Dims...))
	},
}

// nearHeads returns the rows of a weight, after the first ones, in the order in which heads that share a key are next
// to each other.
func nearHeads(c llm.Config, first, n int) (rows []int) {
	s := c.Recurrent
	for i := range first {
		rows = append(rows, i)
	}
	size := (n - first) / s.Heads
	for group := range s.Groups {
		for place := range s.Heads / s.Groups {
			for i := range size {
				rows = append(rows, first+(place*s.Groups+group)*size+i)
			}
		}
	}
	return rows
}

// reordered applies words of reorders, and returns the other ones.
func reordered(t *testing.T, c llm.Config, d *ir.Data, words []string) (_ *ir.Data, others []string) {
	t.Helper()
	for _, word := range words {
		if by, ok := strings.CutPrefix(word, "over="); ok {
			factor := must(strconv.ParseFloat(by, 64))
			d = changed(t, d, func(v float64) float64 { return v / factor })
		} else if f, ok := reorders[word]; ok {
			d = f(t, c, d)
		} else {
			others = append(others, word)
		}
	}
	return d, others
}

// eachPart adds a tensor for each letter, of a row of d each.
func eachPart(tensors map[string]*ir.Data, d *ir.Data, name, letters string) {
	size := len(d.Bytes) / d.Dims[0]
	for i, letter := range letters {
		tensors[name+string(letter)] = &ir.Data{DType: d.DType, Dims: d.Dims[1:], Bytes: d.Bytes[i*size:][:size]}
	}
}

// joinDelta joins queries, keys and values, and gates, of a delta rule by groups.
func joinDelta(tensors map[string]*ir.Data, c llm.Config) {
	s := c.Recurrent
	values := s.Inner / max(s.Groups, 1)
	for key, qkv := range tensors {
		base, ok := strings.CutSuffix(key, "#qkv.weight")
		if !ok {
			continue
		}
		gate := tensors[base+"#gate.weight"]
		size := len(qkv.Bytes) / qkv.Dims[0]
		all := &ir.Data{DType: qkv.DType, Dims: []int{qkv.Dims[0] + gate.Dims[0], qkv.Dims[1]}}
		for g := range s.Groups {
			for _, part := range []struct {
				of       *ir.Data
				first, n int
			}{{qkv, g * s.Keys, s.Keys}, {qkv, (s.Groups + g) * s.Keys, s.Keys},
				{qkv, 2*s.Groups*s.Keys + g*values, values}, {gate, g * values, values}} {
				all.Bytes = append(all.Bytes, part.of.Bytes[part.first*size:][:part.n*size]...)
			}
		}
		tensors[base+".weight"] = all
		delete(tensors, key)
		delete(tensors, base+"#gate.weight")
	}
}

// TestRefusedRecurrentFolders changes a setting of a folder so that no graph computes it.
func TestRefusedRecurrentFolders(t *testing.T) {
	for _, c := range []struct{ model, from, to, want string }{
		{"mamba2", "[0.0, Infinity]", "[0.0, 0.1]", "time_step_limit"},
		{"falcon-mamba", `"mixer_rms_eps": 1e-05`, `"mixer_rms_eps": 1e-06`, "mixer_rms_eps"},
		{"nemotron_h", "M-*-M", "M-*EM", `"moe"`},
		{"granitehybrid", `"mamba_n_groups": 1`, `"mamba_n_groups": 2`, "mamba_n_groups"},
		{"granitehybrid", `["mamba", `, `[`, "one for each of 4 layers"},
		{"lfm2", `"conv_bias": false`, `"conv_bias": true`, "conv_bias"},
		{"qwen35", `["linear_attention", `, `["full_attention", `, "layer_types"},
		{"falcon-h1", `[0.5, 4]`, `[0.5]`, "mlp_multipliers"},
		{"falcon-h1", `"mamba_rms_norm": false`, `"mamba_rms_norm": true`, "mamba_norm_before_gate"},
		{"rwkv7", `"norm_eps": 1e-05`, `"norm_eps": 2e-05`, "norm_eps times head_dim"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.model, c.want), func(t *testing.T) {
			config := folderCases[c.model].config
			changed := strings.Replace(strings.ReplaceAll(config, "Infinity", `"Infinity"`), strings.ReplaceAll(c.from,
				"Infinity", `"Infinity"`), c.to, 1)
			if changed == config {
				t.Fatal("the case changes nothing")
			}
			if _, err := llm.FromFolder([]byte(changed), nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %s", err, c.want)
			}
		})
	}
}
