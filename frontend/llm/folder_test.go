package llm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
)

// Names of tensors as transformers writes them, with N for a layer and E for an expert, next to GGUF's. The third word
// says how the file's elements are made from GGUF's.
const (
	attentionNames = `
		attn_q model.layers.N.self_attn.q_proj
		attn_k model.layers.N.self_attn.k_proj
		attn_v model.layers.N.self_attn.v_proj
		attn_output model.layers.N.self_attn.o_proj
		attn_q_norm model.layers.N.self_attn.q_norm
		attn_k_norm model.layers.N.self_attn.k_norm
		attn_norm model.layers.N.input_layernorm
		token_embd model.embed_tokens
		output_norm model.norm
		output lm_head`
	llamaNames = attentionNames + `
		ffn_norm model.layers.N.post_attention_layernorm
		ffn_gate model.layers.N.mlp.gate_proj
		ffn_up model.layers.N.mlp.up_proj
		ffn_down model.layers.N.mlp.down_proj`
	expertNames = `
		ffn_gate_inp model.layers.N.mlp.gate
		ffn_gate_exps model.layers.N.mlp.experts.E.gate_proj
		ffn_up_exps model.layers.N.mlp.experts.E.up_proj
		ffn_down_exps model.layers.N.mlp.experts.E.down_proj`
	rotaryNames = `
		attn_q model.layers.N.self_attn.q_proj halves
		attn_k model.layers.N.self_attn.k_proj halves`
	mixtralNames = `
		ffn_gate_inp model.layers.N.block_sparse_moe.gate
		ffn_gate_exps model.layers.N.block_sparse_moe.experts.E.w1
		ffn_up_exps model.layers.N.block_sparse_moe.experts.E.w3
		ffn_down_exps model.layers.N.block_sparse_moe.experts.E.w2`
	gemma2Names = `
		post_attention_norm model.layers.N.post_attention_layernorm
		ffn_norm model.layers.N.pre_feedforward_layernorm
		post_ffw_norm model.layers.N.post_feedforward_layernorm`
	postNames = `
		post_attention_norm model.layers.N.post_attention_layernorm
		post_ffw_norm model.layers.N.post_feedforward_layernorm`
	qwenExpertNames = `
		ffn_gate_inp model.layers.N.mlp.gate
		ffn_gate_exps model.layers.N.mlp.experts.gate_up_proj turned-first
		ffn_up_exps model.layers.N.mlp.experts.gate_up_proj turned-second
		ffn_down_exps model.layers.N.mlp.experts.down_proj turned-stack`
	qwenNames = `
		token_embd transformer.wte
		output_norm transformer.ln_f
		output lm_head
		attn_norm transformer.h.N.ln_1
		attn_qkv transformer.h.N.attn.c_attn
		attn_output transformer.h.N.attn.c_proj
		ffn_norm transformer.h.N.ln_2
		ffn_gate transformer.h.N.mlp.w2
		ffn_up transformer.h.N.mlp.w1
		ffn_down transformer.h.N.mlp.c_proj`
	codeShellNames = qwenNames + `
		ffn_up transformer.h.N.mlp.c_fc`
	llama4Names = attentionNames + `
		ffn_norm model.layers.N.post_attention_layernorm
		ffn_gate model.layers.N.feed_forward.gate_proj
		ffn_up model.layers.N.feed_forward.up_proj
		ffn_down model.layers.N.feed_forward.down_proj
		ffn_gate_inp model.layers.N.feed_forward.router
		ffn_gate_exps model.layers.N.feed_forward.experts.gate_up_proj turned-first
		ffn_up_exps model.layers.N.feed_forward.experts.gate_up_proj turned-second
		ffn_down_exps model.layers.N.feed_forward.experts.down_proj turned-stack
		ffn_gate_shexp model.layers.N.feed_forward.shared_expert.gate_proj
		ffn_up_shexp model.layers.N.feed_forward.shared_expert.up_proj
		ffn_down_shexp model.layers.N.feed_forward.shared_expert.down_proj`
	exaoneNames = `
		token_embd transformer.wte
		output_norm transformer.ln_f
		attn_norm transformer.h.N.ln_1
		attn_q transformer.h.N.attn.attention.q_proj
		attn_k transformer.h.N.attn.attention.k_proj
		attn_v transformer.h.N.attn.attention.v_proj
		attn_output transformer.h.N.attn.attention.out_proj
		ffn_norm transformer.h.N.ln_2
		ffn_gate transformer.h.N.mlp.c_fc_0
		ffn_up transformer.h.N.mlp.c_fc_1
		ffn_down transformer.h.N.mlp.c_proj`
	glm4Names = `
		post_attention_norm model.layers.N.post_self_attn_layernorm
		post_ffw_norm model.layers.N.post_mlp_layernorm
		ffn_up model.layers.N.mlp.gate_up_proj`
	graniteMoENames = `
		ffn_gate_inp model.layers.N.block_sparse_moe.router.layer
		ffn_gate_exps model.layers.N.block_sparse_moe.input_linear first-rows
		ffn_up_exps model.layers.N.block_sparse_moe.input_linear second-rows
		ffn_down_exps model.layers.N.block_sparse_moe.output_linear
		ffn_gate_shexp model.layers.N.shared_mlp.input_linear first-rows
		ffn_up_shexp model.layers.N.shared_mlp.input_linear second-rows
		ffn_down_shexp model.layers.N.shared_mlp.output_linear`
	sharedNames = `
		ffn_gate_inp_shexp model.layers.N.mlp.shared_expert_gate row
		ffn_gate_shexp model.layers.N.mlp.shared_expert.gate_proj
		ffn_up_shexp model.layers.N.mlp.shared_expert.up_proj
		ffn_down_shexp model.layers.N.mlp.shared_expert.down_proj`
	sigmoidNames = `
		exp_probs_b model.layers.N.mlp.gate.e_score_correction_bias bare
		ffn_gate_shexp model.layers.N.mlp.shared_experts.gate_proj
		ffn_up_shexp model.layers.N.mlp.shared_experts.up_proj
		ffn_down_shexp model.layers.N.mlp.shared_experts.down_proj`
	deepSeekNames = llamaNames + expertNames + sigmoidNames + `
		attn_q_a model.layers.N.self_attn.q_a_proj
		attn_q_a_norm model.layers.N.self_attn.q_a_layernorm
		attn_q_b model.layers.N.self_attn.q_b_proj
		attn_kv_a_mqa model.layers.N.self_attn.kv_a_proj_with_mqa
		attn_kv_a_norm model.layers.N.self_attn.kv_a_layernorm
		attn_kv_b model.layers.N.self_attn.kv_b_proj`
	bailingNames = llamaNames + expertNames + sigmoidNames + `
		token_embd model.word_embeddings
		attn_output model.layers.N.attention.dense
		attn_q model.layers.N.attention.query_key_value fused-halves
		attn_k model.layers.N.attention.query_key_value fused-halves
		attn_v model.layers.N.attention.query_key_value fused
		attn_qkv model.layers.N.attention.query_key_value
		attn_q_norm model.layers.N.attention.query_layernorm
		attn_k_norm model.layers.N.attention.key_layernorm
		exp_probs_b model.layers.N.mlp.gate.expert_bias bare`
	gemma3nNames = llamaNames + gemma2Names + `
		per_layer_token_embd model.embed_tokens_per_layer
		per_layer_model_proj model.per_layer_model_projection
		per_layer_proj_norm model.per_layer_projection_norm
		layer_output_scale model.layers.N.layer_scalar bare
		altup_proj model.altup_projections.E
		altup_unembd_proj model.altup_unembed_projections.E
		inp_gate model.layers.N.per_layer_input_gate
		proj model.layers.N.per_layer_projection
		post_norm model.layers.N.post_per_layer_input_norm
		altup_correct_coef model.layers.N.altup.correction_coefs
		altup_correct_scale model.layers.N.altup.correct_output_scale bare
		altup_predict_coef model.layers.N.altup.prediction_coefs
		altup_router model.layers.N.altup.modality_router
		altup_router_norm model.layers.N.altup.router_norm
		laurel_l model.layers.N.laurel.linear_left
		laurel_r model.layers.N.laurel.linear_right
		laurel_post_norm model.layers.N.laurel.post_laurel_norm`
	gemma4ExpertNames = `
		ffn_gate_inp model.layers.N.router.proj
		ffn_gate_inp.scale model.layers.N.router.scale bare
		ffn_gate_up_exps model.layers.N.experts.gate_up_proj stack
		ffn_down_exps model.layers.N.experts.down_proj stack
		ffn_down_exps.scale model.layers.N.router.per_expert_scale bare
		pre_ffw_norm_2 model.layers.N.pre_feedforward_layernorm_2
		post_ffw_norm_1 model.layers.N.post_feedforward_layernorm_1
		post_ffw_norm_2 model.layers.N.post_feedforward_layernorm_2`
	hunyuanNames = `
		attn_q_norm model.layers.N.self_attn.query_layernorm
		attn_k_norm model.layers.N.self_attn.key_layernorm
		ffn_gate_inp model.layers.N.mlp.gate.wg
		ffn_gate_shexp model.layers.N.mlp.shared_mlp.gate_proj
		ffn_up_shexp model.layers.N.mlp.shared_mlp.up_proj
		ffn_down_shexp model.layers.N.mlp.shared_mlp.down_proj`
	internNames = `
		token_embd model.tok_embeddings
		output output
		output_norm model.norm
		attn_norm model.layers.N.attention_norm
		attn_q model.layers.N.attention.wqkv parts
		attn_k model.layers.N.attention.wqkv parts
		attn_v model.layers.N.attention.wqkv parts
		attn_output model.layers.N.attention.wo
		ffn_norm model.layers.N.ffn_norm
		ffn_gate model.layers.N.feed_forward.w1
		ffn_up model.layers.N.feed_forward.w3
		ffn_down model.layers.N.feed_forward.w2`
	neoxNames = `
		token_embd gpt_neox.embed_in
		output embed_out
		output_norm gpt_neox.final_layer_norm
		attn_norm gpt_neox.layers.N.input_layernorm
		attn_qkv gpt_neox.layers.N.attention.query_key_value grouped
		attn_output gpt_neox.layers.N.attention.dense
		ffn_norm gpt_neox.layers.N.post_attention_layernorm
		ffn_up gpt_neox.layers.N.mlp.dense_h_to_4h
		ffn_down gpt_neox.layers.N.mlp.dense_4h_to_h`
	phi2Names = `
		output_norm model.final_layernorm
		attn_output model.layers.N.self_attn.dense
		ffn_up model.layers.N.mlp.fc1
		ffn_down model.layers.N.mlp.fc2`
	starcoderNames = `
		token_embd transformer.wte
		position_embd transformer.wpe
		output_norm transformer.ln_f
		attn_norm transformer.h.N.ln_1
		ffn_norm transformer.h.N.ln_2
		attn_qkv transformer.h.N.attn.c_attn
		attn_output transformer.h.N.attn.c_proj
		ffn_up transformer.h.N.mlp.c_fc
		ffn_down transformer.h.N.mlp.c_proj`
	bloomNames = `
		token_embd transformer.word_embeddings
		token_embd_norm transformer.word_embeddings_layernorm
		output_norm transformer.ln_f
		attn_norm transformer.h.N.input_layernorm
		attn_qkv transformer.h.N.self_attention.query_key_value grouped
		attn_output transformer.h.N.self_attention.dense
		ffn_norm transformer.h.N.post_attention_layernorm
		ffn_up transformer.h.N.mlp.dense_h_to_4h
		ffn_down transformer.h.N.mlp.dense_4h_to_h`
	mptNames = `
		token_embd transformer.wte
		output_norm transformer.norm_f
		attn_norm transformer.blocks.N.norm_1
		attn_qkv transformer.blocks.N.attn.Wqkv
		attn_output transformer.blocks.N.attn.out_proj
		ffn_norm transformer.blocks.N.norm_2
		ffn_up transformer.blocks.N.ffn.up_proj
		ffn_down transformer.blocks.N.ffn.down_proj`
	gpt2Names = `
		token_embd transformer.wte
		position_embd transformer.wpe
		output_norm transformer.ln_f
		attn_norm transformer.h.N.ln_1
		ffn_norm transformer.h.N.ln_2
		attn_qkv transformer.h.N.attn.c_attn turned
		attn_output transformer.h.N.attn.c_proj turned
		ffn_up transformer.h.N.mlp.c_fc turned
		ffn_down transformer.h.N.mlp.c_proj turned`
	falconNames = `
		token_embd transformer.word_embeddings
		output_norm transformer.ln_f
		output lm_head
		attn_norm transformer.h.N.input_layernorm
		attn_qkv transformer.h.N.self_attention.query_key_value grouped
		attn_output transformer.h.N.self_attention.dense
		ffn_up transformer.h.N.mlp.dense_h_to_4h
		ffn_down transformer.h.N.mlp.dense_4h_to_h`
	falconLargeNames = falconNames + `
		attn_norm transformer.h.N.ln_mlp
		attn_norm_2 transformer.h.N.ln_attn`
	phi3Names = llamaNames + `
		attn_qkv model.layers.N.self_attn.qkv_proj
		ffn_up model.layers.N.mlp.gate_up_proj`
	starcoder2Names = llamaNames + `
		ffn_up model.layers.N.mlp.c_fc
		ffn_down model.layers.N.mlp.c_proj`
	gptOSSNames = attentionNames + `
		attn_sinks model.layers.N.self_attn.sinks bare
		post_attention_norm model.layers.N.post_attention_layernorm
		ffn_gate_inp model.layers.N.mlp.router
		ffn_gate_exps model.layers.N.mlp.experts.gate_up_proj first-of-two
		ffn_up_exps model.layers.N.mlp.experts.gate_up_proj second-of-two
		ffn_down_exps model.layers.N.mlp.experts.down_proj blocks`
	bertNames = `
		token_embd embeddings.word_embeddings
		position_embd embeddings.position_embeddings
		token_types embeddings.token_type_embeddings
		token_embd_norm embeddings.LayerNorm
		attn_q encoder.layer.N.attention.self.query
		attn_k encoder.layer.N.attention.self.key
		attn_v encoder.layer.N.attention.self.value
		attn_output encoder.layer.N.attention.output.dense
		attn_output_norm encoder.layer.N.attention.output.LayerNorm
		ffn_up encoder.layer.N.intermediate.dense
		ffn_down encoder.layer.N.output.dense
		layer_output_norm encoder.layer.N.output.LayerNorm`
	rankNames = bertNames + `
		cls bert.pooler.dense
		cls.output classifier`
	robertaNames = bertNames + `
		position_embd embeddings.position_embeddings padded
		cls classifier.dense
		cls.output classifier.out_proj`
	modernNames = `
		cls head.dense
		cls.norm head.norm
		cls.output classifier
		token_embd embeddings.tok_embeddings
		token_embd_norm embeddings.norm
		output_norm final_norm
		attn_norm layers.N.attn_norm
		attn_qkv layers.N.attn.Wqkv
		attn_output layers.N.attn.Wo
		ffn_norm layers.N.mlp_norm
		ffn_up layers.N.mlp.Wi
		ffn_down layers.N.mlp.Wo`
	jinaNames = `
		ffn_up encoder.layer.N.mlp.gated_layers
		ffn_down encoder.layer.N.mlp.wo
		layer_output_norm encoder.layer.N.mlp.layernorm`
	jinaCodeNames = `
		attn_q_norm encoder.layer.N.attention.self.layer_norm_q
		attn_k_norm encoder.layer.N.attention.self.layer_norm_k
		attn_norm_2 encoder.layer.N.layer_norm_1
		ffn_up encoder.layer.N.mlp.up_gated_layer
		ffn_down encoder.layer.N.mlp.down_layer
		layer_output_norm encoder.layer.N.layer_norm_2`
	nomicNames = `
		token_embd embeddings.word_embeddings
		token_types embeddings.token_type_embeddings
		token_embd_norm emb_ln
		attn_qkv encoder.layers.N.attn.Wqkv
		attn_output encoder.layers.N.attn.out_proj
		attn_output_norm encoder.layers.N.norm1
		ffn_up encoder.layers.N.mlp.fc11
		ffn_gate encoder.layers.N.mlp.fc12
		ffn_down encoder.layers.N.mlp.fc2
		layer_output_norm encoder.layers.N.norm2`
)

// modernRankNames are the names of a model with a head: the others have a prefix.
var modernRankNames = strings.NewReplacer(" embeddings.", " model.embeddings.", " layers.", " model.layers.",
	" final_norm", " model.final_norm").Replace(modernNames)

// folderCase has the names of a golden model's folder, and the config.json that transformers writes for it.
type folderCase struct {
	names   string
	lessOne bool
	rename  [2]string // a prefix of the names, and another that models also have
	without names     // weights that the folder lacks and no graph reads, less .weight
	config  string
}

// names has names of weights less .weight, separated by spaces.
type names string

func (n names) has(name string) bool {
	return slices.Contains(strings.Fields(string(n)), strings.TrimSuffix(name, ".weight"))
}

// folderCases has a case for each golden model.
var folderCases = map[string]folderCase{
	"llama":           {names: llamaNames + rotaryNames, config: `{"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 500.0, "hidden_act": "silu", "rope_scaling": null, "vocab_size": 40}`},
	"llama-yarn":      {names: llamaNames + rotaryNames, config: `{"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500, "rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 512}}`},
	"mixtral":         {names: llamaNames + rotaryNames + mixtralNames, config: `{"architectures": ["MixtralForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 500, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": null}`},
	"qwen2":           {names: llamaNames, rename: [2]string{"model.", ""}, config: `{"architectures": ["Qwen2Model"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": 8, "use_sliding_window": false}`},
	"qwen3":           {names: llamaNames, config: `{"architectures": ["Qwen3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "tie_word_embeddings": true}`},
	"qwen3moe":        {names: llamaNames + expertNames, config: `{"architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": true, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "mlp_only_layers": [], "decoder_sparse_step": 1}`},
	"gemma":           {names: llamaNames, lessOne: true, config: `{"architectures": ["GemmaForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05}`},
	"gemma2":          {names: llamaNames + gemma2Names, lessOne: true, config: `{"architectures": ["Gemma2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "sliding_window": 4, "query_pre_attn_scalar": 16, "hidden_activation": "gelu_pytorch_tanh"}`},
	"gemma3":          {names: llamaNames + gemma2Names, lessOne: true, rename: [2]string{"model.", "language_model.model."}, config: `{"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"hidden_size": 32, "num_hidden_layers": 7, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "sliding_window": 6, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}, "vision_config": {"hidden_size": 1152}}`},
	"gemma3n":         {names: gemma3nNames, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Gemma3nForConditionalGeneration"], "text_config": {"hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": [48, 48, 48, 48, 48, 48], "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "sliding_window": 4, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "final_logit_softcapping": 3.0, "hidden_activation": "gelu_pytorch_tanh", "altup_num_inputs": 3, "altup_active_idx": 0, "altup_correct_scale": true, "altup_coef_clip": 120.0, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 36, "laurel_rank": 4, "num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.5987063256829237, 0.5987063256829237, 0.0, 0.0, 0.0, 0.0], "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention"]}, "vision_config": {"hidden_size": 64}}`},
	"gemma4":          {names: gemma3nNames, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Gemma4ForConditionalGeneration"], "text_config": {"hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "head_dim": 8, "global_head_dim": 16, "intermediate_size": 48, "use_double_wide_mlp": true, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "sliding_window": 4, "final_logit_softcapping": 3.0, "hidden_activation": "gelu_pytorch_tanh", "enable_moe_block": false, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 40, "num_kv_shared_layers": 2, "rope_parameters": {"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}, "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention"]}}`},
	"gemma4-moe":      {names: gemma3nNames + gemma4ExpertNames, config: `{"architectures": ["Gemma4ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "head_dim": 8, "global_head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "sliding_window": 4, "final_logit_softcapping": 3.0, "hidden_activation": "gelu_pytorch_tanh", "enable_moe_block": true, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 24, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}`},
	"gpt2":            {names: gpt2Names, rename: [2]string{"transformer.", ""}, config: `{"architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 32, "n_ctx": 32, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"}`},
	"falcon":          {names: falconNames, config: `{"architectures": ["FalconForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "multi_query": true, "new_decoder_architecture": false, "num_kv_heads": 4, "ffn_hidden_size": 64, "max_position_embeddings": 32, "layer_norm_epsilon": 1e-05, "alibi": false, "parallel_attn": true}`},
	"falcon-large":    {names: falconLargeNames, config: `{"architectures": ["FalconForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": true, "ffn_hidden_size": 64, "max_position_embeddings": 32, "layer_norm_epsilon": 1e-05}`},
	"phi3":            {names: phi3Names, config: `{"architectures": ["Phi3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "original_max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "partial_rotary_factor": 0.75, "sliding_window": 5, "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}}`},
	"phi3-long":       {names: phi3Names, config: `{"architectures": ["Phi3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "original_max_position_embeddings": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "partial_rotary_factor": 0.75, "sliding_window": null, "rope_scaling": {"type": "su", "attention_factor": 1.1875, "short_factor": SHORT, "long_factor": LONG}}`},
	"olmoe":           {names: llamaNames + expertNames, config: `{"architectures": ["OlmoeForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": false, "clip_qkv": null, "hidden_act": "silu"}`},
	"nemotron":        {names: llamaNames, lessOne: true, config: `{"architectures": ["NemotronForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "head_dim": 16, "norm_eps": 1e-05, "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "hidden_act": "relu2"}`},
	"arcee":           {names: llamaNames + rotaryNames, config: `{"architectures": ["ArceeForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "relu2"}`},
	"exaone":          {names: exaoneNames, config: `{"architectures": ["ExaoneForCausalLM"], "hidden_size": 32, "num_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "layer_norm_epsilon": 1e-05, "rope_theta": 500.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}, "activation_function": "silu"}`},
	"chatglm-apart":   {names: llamaNames + glm4Names, config: `{"architectures": ["GlmForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 50000.0, "partial_rotary_factor": 0.5, "attention_bias": true, "hidden_act": "silu"}`},
	"deci":            {names: llamaNames + rotaryNames, config: `{"architectures": ["DeciLMForCausalLM"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": null, "intermediate_size": null, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu", "block_configs": [{"attention": {"n_heads_in_group": 2, "no_op": false, "replace_with_linear": false}, "ffn": {"ffn_mult": 12, "no_op": false, "replace_with_linear": false}}, {"attention": {"n_heads_in_group": null, "no_op": true, "replace_with_linear": false}, "ffn": {"ffn_mult": 23.5, "no_op": false, "replace_with_linear": false}}, {"attention": {"n_heads_in_group": null, "no_op": false, "replace_with_linear": true}, "ffn": {"ffn_mult": 12.0, "no_op": false, "replace_with_linear": false}}, {"attention": {"n_heads_in_group": 1, "no_op": false, "replace_with_linear": false}, "ffn": {"ffn_mult": null, "no_op": true, "replace_with_linear": false}}, {"attention": {"n_heads_in_group": 4, "no_op": false, "replace_with_linear": false}, "ffn": {"ffn_mult": 12, "no_op": false, "replace_with_linear": false}}]}`},
	"deepseek":        {names: llamaNames + rotaryNames + expertNames + sigmoidNames, config: `{"architectures": ["DeepseekForCausalLM"], "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "moe_intermediate_size": 24, "n_routed_experts": 4, "n_shared_experts": 2, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "norm_topk_prob": false, "scoring_func": "softmax", "hidden_act": "silu"}`},
	"minicpm":         {names: llamaNames + rotaryNames, config: `{"architectures": ["MiniCPMForCausalLM"], "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "scale_emb": 6, "scale_depth": 0.75, "dim_model_base": 16, "hidden_act": "silu"}`},
	"llama4":          {names: llama4Names, rename: [2]string{"model.", "language_model.model."}, config: `{"architectures": ["Llama4ForConditionalGeneration"], "text_config": {"hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 24, "intermediate_size_mlp": 48, "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "attention_chunk_size": 5, "attn_scale": 0.25, "floor_scale": 3, "attn_temperature_tuning": true, "use_qk_norm": true, "no_rope_layers": [1, 1, 1, 0, 1], "layer_types": ["chunked_attention", "chunked_attention", "chunked_attention", "full_attention", "chunked_attention"], "hidden_act": "silu"}}`},
	"qwen3vl":         {names: llamaNames, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Qwen3VLForConditionalGeneration"], "text_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "hidden_act": "silu", "head_dim": 16, "rope_theta": 1000000.0, "rope_scaling": {"mrope_section": [3, 3, 2], "rope_type": "default", "mrope_interleaved": true}}, "vision_config": {"deepstack_visual_indexes": [0, 1]}}`},
	"qwen3vlmoe":      {names: llamaNames + qwenExpertNames, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Qwen3VLMoeForConditionalGeneration"], "text_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "hidden_act": "silu", "head_dim": 16, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "rope_theta": 1000000.0, "rope_scaling": {"mrope_section": [3, 3, 2], "rope_type": "default", "mrope_interleaved": true}}, "vision_config": {"deepstack_visual_indexes": [0, 1]}}`},
	"qwen":            {names: qwenNames, config: `{"architectures": ["QWenLMHeadModel"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "seq_length": 32, "layer_norm_epsilon": 1e-05, "rotary_emb_base": 10000, "rotary_pct": 1.0, "kv_channels": 8, "no_bias": true, "use_dynamic_ntk": true, "use_logn_attn": true}`},
	"orion":           {names: llamaNames, config: `{"architectures": ["OrionForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32, "num_key_value_heads": 2, "intermediate_size": 48, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu"}`},
	"xverse":          {names: llamaNames, config: `{"architectures": ["XverseForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32, "num_key_value_heads": 2, "intermediate_size": 48, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "hidden_act": "silu"}`},
	"codeshell":       {names: codeShellNames, config: `{"architectures": ["CodeShellForCausalLM"], "n_embd": 32, "n_layer": 2, "n_head": 4, "num_query_groups": 2, "group_query_attention": true, "n_inner": 48, "n_positions": 32, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_pytorch_tanh", "position_embedding_type": "rope"}`},
	"starcoder2":      {names: starcoder2Names, config: `{"architectures": ["Starcoder2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "norm_epsilon": 1e-05, "rope_theta": 100000.0, "hidden_act": "gelu_pytorch_tanh"}`},
	"gpt-oss":         {names: gptOSSNames, config: `{"architectures": ["GptOssForCausalLM"], "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 150.0, "sliding_window": 5, "swiglu_limit": 7.0, "quantization_config": {"quant_method": "mxfp4"}, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 256}, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}`},
	"bert":            {names: bertNames, rename: [2]string{"", "bert."}, config: `{"architectures": ["BertModel"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 32, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 2}`},
	"bert-ranks":      {names: rankNames, rename: [2]string{"e", "bert.e"}, config: `{"architectures": ["BertForSequenceClassification"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 32, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 2}`},
	"xlm-roberta":     {names: robertaNames, rename: [2]string{"e", "roberta.e"}, config: `{"architectures": ["XLMRobertaForSequenceClassification"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 34, "pad_token_id": 1, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "type_vocab_size": 1}`},
	"granite":         {names: llamaNames + rotaryNames, config: `{"architectures": ["GraniteForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "embedding_multiplier": 12.0, "residual_multiplier": 0.25, "attention_multiplier": 0.125, "logits_scaling": 8.0, "attention_bias": false, "hidden_act": "silu"}`},
	"granitemoe":      {names: llamaNames + rotaryNames + graniteMoENames, config: `{"architectures": ["GraniteMoeSharedForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "shared_intermediate_size": 24, "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "embedding_multiplier": 12.0, "residual_multiplier": 0.25, "attention_multiplier": 0.125, "logits_scaling": 8.0}`},
	"smollm3":         {names: llamaNames + rotaryNames, config: `{"architectures": ["SmolLM3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 5000000.0, "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0, 1], "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention", "full_attention"], "sliding_window": null, "use_sliding_window": false}`},
	"glm4":            {names: llamaNames + glm4Names, config: `{"architectures": ["Glm4ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "attention_bias": true, "hidden_act": "silu"}`},
	"mistral3":        {names: llamaNames + rotaryNames, rename: [2]string{"model.", "model.language_model."}, config: `{"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {"model_type": "ministral3", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.25}}, "vision_config": {"hidden_size": 64}}`},
	"command-r":       {names: llamaNames, config: `{"architectures": ["CohereForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 48, "max_position_embeddings": 16, "model_max_length": 32, "layer_norm_eps": 1e-05, "rope_theta": 8000000.0, "logit_scale": 0.25, "use_qk_norm": true}`},
	"cohere2":         {names: llamaNames, config: `{"architectures": ["Cohere2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32, "layer_norm_eps": 1e-05, "rope_theta": 50000.0, "logit_scale": 0.25, "sliding_window": 5, "sliding_window_pattern": 4, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"], "rotary_pct": 1.0}`},
	"exaone4":         {names: llamaNames + postNames, config: `{"architectures": ["Exaone4ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 1000000, "sliding_window": 4, "sliding_window_pattern": "LLLG", "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}`},
	"exaone4-small":   {names: llamaNames + postNames, config: `{"architectures": ["Exaone4ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 1000000, "sliding_window": null, "sliding_window_pattern": null}`},
	"olmo2":           {names: llamaNames + postNames, config: `{"architectures": ["Olmo2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 500000}`},
	"olmo3":           {names: llamaNames + postNames, config: `{"architectures": ["Olmo3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 500000, "sliding_window": 5, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "attention_factor": 1.138629436111989, "beta_fast": 32.0, "beta_slow": 1.0}, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]}`},
	"seed_oss":        {names: llamaNames + "\npost_attention_norm model.layers.N.post_attention_layernorm", config: `{"architectures": ["SeedOssForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000000.0, "attention_bias": true}`},
	"qwen2moe":        {names: llamaNames + expertNames + sharedNames, config: `{"architectures": ["Qwen2MoeForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "intermediate_size": 48, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": false, "rope_theta": 1000000.0, "use_sliding_window": false, "sliding_window": 32, "decoder_sparse_step": 1}`},
	"deepseek2-v2":    {names: deepSeekNames, config: `{"architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": null, "kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12, "intermediate_size": 64, "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "norm_topk_prob": false, "routed_scaling_factor": 4.0, "scoring_func": "softmax", "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 512}}`},
	"minimax-m2":      {names: llamaNames + mixtralNames + "\nexp_probs_b model.layers.N.block_sparse_moe.e_score_correction_bias bare", config: `{"architectures": ["MiniMaxM2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rotary_dim": 8, "intermediate_size": 24, "num_local_experts": 4, "num_experts_per_tok": 2, "scoring_func": "sigmoid", "use_routing_bias": true, "use_qk_norm": true, "qk_norm_type": "per_layer", "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 5000000}`},
	"bailingmoe":      {names: bailingNames, config: `{"architectures": ["BailingMoeForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 2, "norm_topk_prob": true, "norm_head": false, "first_k_dense_replace": 0, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 600000, "use_qkv_bias": false}`},
	"bailingmoe2":     {names: bailingNames, config: `{"architectures": ["BailingMoeV2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 2, "num_shared_experts": 1, "n_group": 4, "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "score_function": "sigmoid", "moe_router_enable_expert_bias": true, "first_k_dense_replace": 1, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "rope_theta": 600000, "partial_rotary_factor": 0.5, "rotary_dim": 8, "use_qk_norm": true}`},
	"phimoe":          {names: llamaNames + mixtralNames, config: `{"architectures": ["PhiMoEForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "num_local_experts": 6, "num_experts_per_tok": 2, "router_jitter_noise": 0.01, "input_jitter_noise": 0.01, "max_position_embeddings": 32, "original_max_position_embeddings": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "rope_scaling": {"type": "longrope", "long_mscale": 1.1875, "short_mscale": 1.1875, "original_max_position_embeddings": 8, "short_factor": SHORT, "long_factor": LONG}, "sliding_window": 131072, "attention_bias": true, "lm_head_bias": true}`},
	"glm4moe":         {names: llamaNames + expertNames + sigmoidNames + "\npost_attention_norm model.layers.N.post_attention_layernorm\nnextn model.layers.N.nextn", config: `{"architectures": ["Glm4MoeForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "num_nextn_predict_layers": 1, "head_dim": 16, "intermediate_size": 48, "moe_intermediate_size": 24, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "rope_theta": 10000.0, "use_qk_norm": true, "attention_bias": true}`},
	"dots1":           {names: llamaNames + expertNames + sigmoidNames, config: `{"architectures": ["Dots1ForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "intermediate_size": 48, "moe_intermediate_size": 24, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "scoring_func": "sigmoid", "rope_theta": 10000.0, "sliding_window": null}`},
	"ernie4_5":        {names: llamaNames, config: `{"architectures": ["Ernie4_5ForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "intermediate_size": 48, "rope_theta": 500000.0, "use_bias": false, "hidden_act": "silu", "tie_word_embeddings": true}`},
	"ernie4_5-moe":    {names: llamaNames + expertNames + sigmoidNames + "\nexp_probs_b model.layers.N.mlp.moe_statics.e_score_correction_bias row", config: `{"architectures": ["Ernie4_5_MoeForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 4, "intermediate_size": 48, "moe_intermediate_size": 24, "moe_num_experts": 4, "moe_num_shared_experts": 2, "moe_k": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 3, "moe_layer_interval": 2, "rope_theta": 500000.0}`},
	"hunyuan-dense":   {names: llamaNames + hunyuanNames, config: `{"architectures": ["HunYuanDenseV1ForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "head_dim": 16, "intermediate_size": 48, "num_experts": 1, "moe_topk": 1, "use_qk_norm": true, "use_cla": false, "rope_theta": 20000.0, "rope_scaling": {"alpha": 1.0, "type": "dynamic", "factor": 1.0}}`},
	"hunyuan-moe":     {names: llamaNames + expertNames + hunyuanNames, config: `{"architectures": ["HunYuanMoEV1ForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "head_dim": 16, "intermediate_size": 48, "moe_intermediate_size": [24, 24], "num_experts": 4, "moe_topk": [2, 2], "num_shared_expert": [1, 1], "use_qk_norm": true, "rope_theta": 20000.0}`},
	"internlm2":       {names: internNames, config: `{"architectures": ["InternLM2ForCausalLM"], "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "num_hidden_layers": 2, "intermediate_size": 48, "rope_theta": 1000000.0, "bias": false, "rope_scaling": {"type": "dynamic", "factor": 2.0}}`},
	"gptneox":         {names: neoxNames, config: `{"architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 2, "max_position_embeddings": 32, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "layer_norm_eps": 1e-05, "rotary_pct": 0.5, "rotary_emb_base": 10000, "hidden_act": "gelu", "use_parallel_residual": true}`},
	"gptneox-serial":  {names: neoxNames, config: `{"architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 2, "max_position_embeddings": 32, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "layer_norm_eps": 1e-05, "rotary_pct": 0.5, "rotary_emb_base": 10000, "hidden_act": "gelu", "use_parallel_residual": false}`},
	"phi2":            {names: llamaNames + phi2Names, config: `{"architectures": ["PhiForCausalLM"], "num_hidden_layers": 2, "max_position_embeddings": 32, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_key_value_heads": 4, "layer_norm_eps": 1e-05, "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "qk_layernorm": false, "hidden_act": "gelu_new"}`},
	"stablelm":        {names: llamaNames, config: `{"architectures": ["StableLmForCausalLM"], "num_hidden_layers": 2, "max_position_embeddings": 32, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_key_value_heads": 2, "layer_norm_eps": 1e-05, "partial_rotary_factor": 0.25, "rope_theta": 10000, "use_qkv_bias": true, "use_parallel_residual": false, "hidden_act": "silu"}`},
	"starcoder":       {names: starcoderNames, config: `{"architectures": ["GPTBigCodeForCausalLM"], "n_layer": 2, "n_embd": 32, "n_head": 4, "n_inner": 48, "n_positions": 32, "layer_norm_epsilon": 1e-05, "multi_query": true, "activation_function": "gelu_pytorch_tanh"}`},
	"bloom":           {names: bloomNames, config: `{"architectures": ["BloomForCausalLM"], "n_layer": 2, "n_embed": 48, "n_head": 6, "seq_length": 32, "layer_norm_epsilon": 1e-05, "n_inner": 64, "apply_residual_connection_post_layernorm": false}`},
	"mpt":             {names: mptNames, config: `{"architectures": ["MPTForCausalLM"], "n_layers": 2, "d_model": 32, "n_heads": 4, "max_seq_len": 32, "expansion_ratio": 4, "no_bias": true, "attn_config": {"alibi": true, "alibi_bias_max": 8, "clip_qkv": 0.5, "qk_ln": false, "prefix_lm": false, "softmax_scale": null}}`},
	"modern-bert":     {names: modernNames, rename: [2]string{"", "model."}, config: `{"architectures": ["ModernBertForMaskedLM"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 32, "max_position_embeddings": 32, "norm_eps": 1e-05, "local_attention": 6, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "hidden_activation": "gelu"}`},
	"modern-rank":     {names: modernRankNames, config: `{"architectures": ["ModernBertForSequenceClassification"], "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 32, "max_position_embeddings": 32, "norm_eps": 1e-05, "local_attention": 6, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "hidden_activation": "gelu", "classifier_pooling": "mean", "classifier_activation": "gelu"}`},
	"jina-bert-v2":    {names: bertNames + jinaNames, config: `{"architectures": ["JinaBertForMaskedLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 32, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "feed_forward_type": "geglu", "position_embedding_type": "alibi", "type_vocab_size": 2}`},
	"jina-bert-code":  {names: bertNames + jinaCodeNames, config: `{"architectures": ["JinaBertForMaskedLM"], "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 32, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "feed_forward_type": "geglu", "position_embedding_type": "alibi", "type_vocab_size": 2}`},
	"gemma-embedding": {names: llamaNames + gemma2Names, lessOne: true, rename: [2]string{"model.", ""}, config: `{"architectures": ["Gemma3TextModel"], "hidden_size": 32, "num_hidden_layers": 7, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 32, "max_position_embeddings": 32, "rms_norm_eps": 1e-05, "sliding_window": 6, "rope_theta": 1000000.0, "use_bidirectional_attention": true, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}`},
	"nomic-bert":      {names: nomicNames, config: `{"architectures": ["NomicBertModel"], "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 32, "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "activation_function": "swiglu", "causal": false}`},
}

// TestFolder writes each golden model as a Hugging Face folder, with the names and the order of transformers. Opened,
// the folder has the configuration and the weights of the GGUF file. TestGolden checks the logits of these.
func TestFolder(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			c, ok := folderCases[name]
			if !ok {
				t.Skip("the architecture has no folder in this test")
			}
			want := readGolden(t, path).file(t)
			folder := t.TempDir()
			writeFolder(t, folder, want, c)
			got, err := huggingface.Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			sameModel(t, got, want, c.without)
		})
	}
}

func configOf(t *testing.T, f *gguf.File) llm.Config {
	t.Helper()
	c, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sameModel compares the configuration and the weights of two models, except some weights.
func sameModel(t *testing.T, got, want *gguf.File, without names) {
	t.Helper()
	a, b := configOf(t, got), configOf(t, want)
	a.Name, b.Name = "", ""
	draft := fmt.Sprintf("blk.%d.", b.Layers) // folders leave out layers that predict further tokens
	maps.DeleteFunc(b.Types, func(name string, _ ir.Type) bool { return strings.HasPrefix(name, draft) })
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the configuration is\n%+v, want\n%+v", a, b)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Types)) {
		if without.has(name) {
			continue
		}
		have, err := got.Weight(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wanted, err := want.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(have.Bytes, wanted.Bytes) || !slices.Equal(have.Dims, wanted.Dims) {
			t.Errorf("%s: another tensor, %s, want %s", name, have, wanted)
		}
	}
}

// writeFolder writes a model as a folder, in two files with an index.
func writeFolder(t *testing.T, folder string, f *gguf.File, of folderCase) {
	t.Helper()
	c, config, rename := configOf(t, f), of.config, of.rename
	table := map[string][]string{}
	for line := range strings.Lines(of.names) {
		if words := strings.Fields(line); len(words) > 1 {
			table[words[0]] = words[1:]
		}
	}
	tensors := map[string]*ir.Data{}
	for _, name := range f.Names() {
		if of.without.has(name) {
			continue
		}
		d, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		factors := map[string]string{"rope_factors_short.weight": "SHORT", "rope_factors_long.weight": "LONG"}
		if key, ok := factors[name]; ok {
			text, err := json.Marshal(must(d.Floats()))
			if err != nil {
				t.Fatal(err)
			}
			config = strings.ReplaceAll(config, key, string(text))
			continue
		}
		if name == "rope_freqs.weight" { // follows from the configuration
			continue
		}
		layer, part := "", name
		if rest, ok := strings.CutPrefix(name, "blk."); ok {
			layer, part, _ = strings.Cut(rest, ".")
		}
		part, suffix, _ := strings.Cut(part, ".")
		if more, last, ok := strings.Cut(suffix, "."); ok && table[part+"."+more] != nil {
			part, suffix = part+"."+more, last
		} else if table[part+"."+suffix] != nil {
			part, suffix = part+"."+suffix, ""
		}
		line := table[part]
		if line == nil {
			t.Fatalf("the case does not name %s", part)
		}
		if of.lessOne && strings.HasSuffix(part, "norm") && suffix == "weight" && part != "ssm_norm" {
			d = changed(t, d, func(v float64) float64 { return v - 1 })
		}
		full := strings.ReplaceAll(line[0], ".N.", "."+layer+".")
		if rest, ok := strings.CutPrefix(full, rename[0]); ok && rename != [2]string{} {
			full = rename[1] + rest
		}
		d, words := reordered(t, c, d, line[1:])
		how := ""
		if len(words) > 0 {
			how = words[0]
		}
		if how == "parts" || strings.HasPrefix(how, "fused") {
			if how == "fused-halves" || how == "parts" && part != "attn_v" {
				toFolder(tensors, c, d, "part", suffix, "halves")
				d = tensors["part."+suffix]
				delete(tensors, "part."+suffix)
			}
			full += "#" + part
			if how != "parts" {
				full += "#fused"
			}
			how = ""
		}
		toFolder(tensors, c, d, full, suffix, how)
	}
	joinDelta(tensors, c)
	for key, d := range tensors { // elements that two weights share, in one tensor
		if base, ok := strings.CutSuffix(key, "#1"); ok {
			tensors[base] = interleaved(d, tensors[base+"#2"])
			delete(tensors, key)
			delete(tensors, base+"#2")
		}
	}
	for key, d := range tensors { // queries, keys and values by groups of heads, in one tensor
		if base, ok := strings.CutSuffix(key, "#attn_q.weight"); ok {
			q, k, v := d, tensors[base+"#attn_k.weight"], tensors[base+"#attn_v.weight"]
			all := &ir.Data{DType: d.DType, Dims: []int{q.Dims[0] + k.Dims[0] + v.Dims[0], q.Dims[1]}}
			n := len(k.Bytes) / c.KVHeads
			per := len(q.Bytes) / c.KVHeads
			for g := range c.KVHeads {
				all.Bytes = slices.Concat(all.Bytes, q.Bytes[g*per:][:per], k.Bytes[g*n:][:n], v.Bytes[g*n:][:n])
			}
			tensors[base+".weight"] = all
			for _, part := range []string{"q", "k", "v"} {
				delete(tensors, base+"#attn_"+part+".weight")
			}
		}
	}
	for key, d := range tensors { // queries, keys and values one after the other, in one tensor
		if base, ok := strings.CutSuffix(key, "#attn_q#fused.weight"); ok {
			k, v := tensors[base+"#attn_k#fused.weight"], tensors[base+"#attn_v#fused.weight"]
			tensors[base+".weight"] = &ir.Data{DType: d.DType,
				Dims:  []int{d.Dims[0] + k.Dims[0] + v.Dims[0], d.Dims[1]},
				Bytes: slices.Concat(d.Bytes, k.Bytes, v.Bytes)}
			for _, part := range []string{"q", "k", "v"} {
				delete(tensors, base+"#attn_"+part+"#fused.weight")
			}
		}
	}
	for key, d := range tensors { // rows of two weights, one after the other in one tensor
		if base, ok := strings.CutSuffix(key, "#first"); ok {
			tensors[base] = stacked(d, tensors[base+"#second"])
			delete(tensors, key)
			delete(tensors, base+"#second")
		}
	}
	for key, d := range tensors { // stacks of transposed matrices
		if base, ok := strings.CutSuffix(key, "#turned"); ok {
			rows, columns := d.Dims[1], d.Dims[2]
			turned := &ir.Data{DType: d.DType, Dims: []int{d.Dims[0], columns, rows}}
			for i := range d.Elems() {
				matrix, column, row := i/rows/columns, i/rows%columns, i%rows
				turned.Bytes = append(turned.Bytes, d.Bytes[4*((matrix*rows+row)*columns+column):][:4]...)
			}
			tensors[base] = turned
			delete(tensors, key)
		}
	}
	for key, d := range tensors {
		if base, ok := strings.CutSuffix(key, "#blocks"); ok {
			tensors[base+"_blocks"], tensors[base+"_scales"] = unpacked(d)
			delete(tensors, key)
		}
	}
	order := slices.Sorted(maps.Keys(tensors))
	index := map[string]string{}
	for i, half := range [][]string{order[:len(order)/2], order[len(order)/2:]} {
		file := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
		var list []safetensors.Named
		for _, name := range half {
			list = append(list, safetensors.Named{Name: name, Data: tensors[name]})
			index[name] = file
		}
		if err := safetensors.WriteFile(filepath.Join(folder, file), nil, list); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "model.safetensors.index.json"), string(text))
	write(t, filepath.Join(folder, "config.json"), config)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// changed returns a tensor of f32 with changed elements.
func changed(t *testing.T, d *ir.Data, f func(float64) float64) *ir.Data {
	t.Helper()
	values := must(d.Floats())
	for i, v := range values {
		values[i] = f(v)
	}
	return must(ir.FromFloats(ir.F32, values, d.Dims...))
}

// rowsOf returns the tensor with row to[i] of d as row i.
func rowsOf(d *ir.Data, from []int) *ir.Data {
	size := len(d.Bytes) / d.Dims[0]
	out := &ir.Data{DType: d.DType, Dims: slices.Clone(d.Dims)}
	for _, r := range from {
		out.Bytes = append(out.Bytes, d.Bytes[r*size:][:size]...)
	}
	return out
}

// toFolder adds the tensors of one of GGUF's weights.
func toFolder(tensors map[string]*ir.Data, c llm.Config, d *ir.Data, name, suffix, how string) {
	var rows []int
	switch how {
	case "halves": // GGUF's row 2i of a head is row i here, and row 2i+1 is row i + half
		for i := range d.Dims[0] {
			head, at, half := i/c.HeadDim, i%c.HeadDim, c.HeadDim/2
			rows = append(rows, head*c.HeadDim+at%half*2+at/half)
		}
		d = rowsOf(d, rows)
	case "grouped": // of each group of heads the queries, the key and the value
		per := c.Heads / c.KVHeads
		for g := range c.KVHeads {
			for j := range per + 2 {
				head := g*per + j
				if j >= per {
					head = c.Heads + (j-per)*c.KVHeads + g
				}
				for i := range c.HeadDim {
					rows = append(rows, head*c.HeadDim+i)
				}
			}
		}
		d = rowsOf(d, rows)
	case "turned":
		if suffix == "weight" {
			turned := &ir.Data{DType: d.DType, Dims: []int{d.Dims[1], d.Dims[0]}}
			for column := range d.Dims[1] {
				for row := range d.Dims[0] {
					turned.Bytes = append(turned.Bytes, d.Bytes[4*(row*d.Dims[1]+column):][:4]...)
				}
			}
			d = turned
		}
	case "padded": // two rows that no position has come first
		d = &ir.Data{DType: d.DType, Dims: []int{d.Dims[0] + 2, d.Dims[1]}, Bytes: slices.Concat(
			make([]byte, 2*len(d.Bytes)/d.Dims[0]), d.Bytes)}
	case "first-rows", "second-rows":
		tensors[name+"."+suffix+"#"+strings.TrimSuffix(how, "-rows")] = d
		return
	case "row": // a vector as a matrix of one row
		if suffix == "weight" {
			name += ".weight"
		}
		tensors[name] = &ir.Data{DType: d.DType, Dims: append([]int{1}, d.Dims...), Bytes: d.Bytes}
		return
	case "bare", "stack":
		tensors[name] = d
		return
	case "each=rwkvag":
		eachPart(tensors, d, name, "rwkvag")
		return
	case "turned-stack", "turned-first", "turned-second":
		tensors[strings.TrimSuffix(name+"#turned#"+strings.TrimPrefix(how, "turned-"), "#stack")] = d
		return
	case "stack-first", "stack-second":
		tensors[name+"#"+strings.TrimPrefix(how, "stack-")] = d
		return
	case "first-of-two", "second-of-two", "blocks":
		end := map[string]string{"first-of-two": "#1", "second-of-two": "#2"}[how]
		if suffix == "bias" {
			name += "_bias"
		} else if how == "blocks" {
			end = "#blocks"
		} else {
			name += "#blocks"
		}
		tensors[name+end] = d
		return
	}
	if name += "." + suffix; !strings.Contains(name, ".E.") {
		tensors[name] = d
		return
	}
	for e := range d.Dims[0] {
		size := len(d.Bytes) / d.Dims[0]
		tensors[strings.Replace(name, ".E.", fmt.Sprintf(".%d.", e), 1)] = &ir.Data{DType: d.DType,
			Dims: d.Dims[1:], Bytes: d.Bytes[e*size:][:size]}
	}
}

// interleaved returns the tensor with the rows of two tensors [E, N, ...] in turns.
func interleaved(a, b *ir.Data) *ir.Data {
	out := &ir.Data{DType: a.DType, Dims: slices.Clone(a.Dims)}
	out.Dims[1] *= 2
	size := len(a.Bytes) / a.Dims[0] / a.Dims[1]
	for i := range a.Dims[0] * a.Dims[1] {
		out.Bytes = append(append(out.Bytes, a.Bytes[i*size:][:size]...), b.Bytes[i*size:][:size]...)
	}
	return out
}

// stacked returns the tensor with the rows of a, and then those of b: for each expert, if there are three axes.
func stacked(a, b *ir.Data) *ir.Data {
	out, parts := &ir.Data{DType: a.DType, Dims: slices.Clone(a.Dims)}, 1
	if out.Dims[len(out.Dims)-2] *= 2; len(a.Dims) == 3 {
		parts = a.Dims[0]
	}
	n := len(a.Bytes) / parts
	for i := range parts {
		out.Bytes = slices.Concat(out.Bytes, a.Bytes[i*n:][:n], b.Bytes[i*n:][:n])
	}
	return out
}

// unpacked returns the numbers of blocks of mxfp4, in order, and the scales of the blocks.
func unpacked(d *ir.Data) (numbers, scales *ir.Data) {
	dims := slices.Clone(d.Dims)
	dims[len(dims)-1] /= 32
	scales = &ir.Data{DType: ir.U8, Dims: dims}
	numbers = &ir.Data{DType: ir.U8, Dims: append(slices.Clone(dims), 16)}
	for block := range slices.Chunk(d.Bytes, 17) {
		scales.Bytes = append(scales.Bytes, block[0])
		at := func(i int) byte { return block[1+i%16] >> (i / 16 * 4) & 15 }
		for i := 0; i < 32; i += 2 {
			numbers.Bytes = append(numbers.Bytes, at(i)|at(i+1)<<4)
		}
	}
	return numbers, scales
}
