package speech

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// whisper is Whisper (Radford et al. 2022, arXiv:2212.04356): an encoder of a spectrogram, and a decoder that writes
// text and timestamps. Its folders have the class of the distilled models too.
var whisper = architecture{
	name:  "whisper",
	class: "WhisperForConditionalGeneration",
	norm:  1e-5,
	keys: `
		encoder.mel_bins             num_mel_bins
		encoder.context_length       max_source_positions
		encoder.attention.head_count encoder_attention_heads
		encoder.block_count          encoder_layers
		context_length               max_target_positions
		embedding_length             d_model
		attention.head_count         decoder_attention_heads
		block_count                  decoder_layers
		feed_forward_length          encoder_ffn_dim
		vocab_size                   vocab_size`,
	wants: `
		activation_function  "gelu"
		scale_embedding      false
		is_encoder_decoder   true
		tie_word_embeddings  true`,
	names: `
		enc.conv1d.1        model.encoder.conv1                    encoder.conv1
		enc.conv1d.2        model.encoder.conv2                    encoder.conv2
		enc.position_embd   model.encoder.embed_positions          encoder.positional_embedding bare
		enc.output_norm     model.encoder.layer_norm               encoder.ln_post
		enc.blk.N.attn_norm   model.encoder.layers.N.self_attn_layer_norm encoder.blocks.N.attn_ln
		enc.blk.N.attn_q      model.encoder.layers.N.self_attn.q_proj     encoder.blocks.N.attn.query
		enc.blk.N.attn_k      model.encoder.layers.N.self_attn.k_proj     encoder.blocks.N.attn.key
		enc.blk.N.attn_v      model.encoder.layers.N.self_attn.v_proj     encoder.blocks.N.attn.value
		enc.blk.N.attn_output model.encoder.layers.N.self_attn.out_proj   encoder.blocks.N.attn.out
		enc.blk.N.ffn_norm    model.encoder.layers.N.final_layer_norm     encoder.blocks.N.mlp_ln
		enc.blk.N.ffn_up      model.encoder.layers.N.fc1                  encoder.blocks.N.mlp.0
		enc.blk.N.ffn_down    model.encoder.layers.N.fc2                  encoder.blocks.N.mlp.2
		token_embd          model.decoder.embed_tokens             decoder.token_embedding
		position_embd       model.decoder.embed_positions          decoder.positional_embedding bare
		dec.output_norm     model.decoder.layer_norm               decoder.ln
		dec.blk.N.attn_norm   model.decoder.layers.N.self_attn_layer_norm decoder.blocks.N.attn_ln
		dec.blk.N.attn_q      model.decoder.layers.N.self_attn.q_proj     decoder.blocks.N.attn.query
		dec.blk.N.attn_k      model.decoder.layers.N.self_attn.k_proj     decoder.blocks.N.attn.key
		dec.blk.N.attn_v      model.decoder.layers.N.self_attn.v_proj     decoder.blocks.N.attn.value
		dec.blk.N.attn_output model.decoder.layers.N.self_attn.out_proj   decoder.blocks.N.attn.out
		dec.blk.N.cross_attn_norm   model.decoder.layers.N.encoder_attn_layer_norm decoder.blocks.N.cross_attn_ln
		dec.blk.N.cross_attn_q      model.decoder.layers.N.encoder_attn.q_proj     decoder.blocks.N.cross_attn.query
		dec.blk.N.cross_attn_k      model.decoder.layers.N.encoder_attn.k_proj     decoder.blocks.N.cross_attn.key
		dec.blk.N.cross_attn_v      model.decoder.layers.N.encoder_attn.v_proj     decoder.blocks.N.cross_attn.value
		dec.blk.N.cross_attn_output model.decoder.layers.N.encoder_attn.out_proj   decoder.blocks.N.cross_attn.out
		dec.blk.N.ffn_norm    model.decoder.layers.N.final_layer_norm     decoder.blocks.N.mlp_ln
		dec.blk.N.ffn_up      model.decoder.layers.N.fc1                  decoder.blocks.N.mlp.0
		dec.blk.N.ffn_down    model.decoder.layers.N.fc2                  decoder.blocks.N.mlp.2`,
	weights: whisperWeights,
}

// whisperWeights lists the weights of Whisper: of the encoder, and then of the decoder. Only the keys have no bias.
func whisperWeights(c Config) (list []weightSpec) {
	add := func(name string, bias bool, dims ...int) {
		list = append(list, weightSpec{name: name + ".weight", dims: dims,
			matrix: len(dims) == 2 && !strings.HasSuffix(name, "position_embd")})
		if bias {
			list = append(list, weightSpec{name: name + ".bias", dims: dims[:1]})
		}
	}
	attention := func(prefix string) {
		add(prefix+"attn_norm", true, c.Width)
		add(prefix+"attn_q", true, c.Width, c.Width)
		add(prefix+"attn_k", false, c.Width, c.Width)
		add(prefix+"attn_v", true, c.Width, c.Width)
		add(prefix+"attn_output", true, c.Width, c.Width)
	}
	forward := func(prefix string) {
		add(prefix+"ffn_norm", true, c.Width)
		add(prefix+"ffn_up", true, c.Hidden, c.Width)
		add(prefix+"ffn_down", true, c.Width, c.Hidden)
	}
	const kernel = 3 // of both convolutions
	add("enc.conv1d.1", true, c.Width, c.Mels, kernel)
	add("enc.conv1d.2", true, c.Width, c.Width, kernel)
	add("enc.position_embd", false, c.AudioContext, c.Width)
	for i := range c.Encoders {
		attention(fmt.Sprintf("enc.blk.%d.", i))
		forward(fmt.Sprintf("enc.blk.%d.", i))
	}
	add("enc.output_norm", true, c.Width)
	add("token_embd", false, c.Vocab, c.Width)
	add("position_embd", false, c.Context, c.Width)
	for i := range c.Decoders {
		attention(fmt.Sprintf("dec.blk.%d.", i))
		attention(fmt.Sprintf("dec.blk.%d.cross_", i))
		forward(fmt.Sprintf("dec.blk.%d.", i))
	}
	add("dec.output_norm", true, c.Width)
	return list
}

// model is a Config while a graph is built.
type model struct {
	Config
	w nn.Weights
}

func newModel(b *frontend.Builder, c Config) model { return model{c, nn.NewWeights(b, c.Types)} }

// encode returns the encoder's output, [AudioContext, Width], for a spectrogram [Mels, Frames].
func (m model) encode(mel frontend.Tensor) frontend.Tensor {
	x := m.conv(mel.Unsqueeze(0), "enc.conv1d.1", 1)
	x = m.conv(x, "enc.conv1d.2", framesPerPosition)
	x = x.Squeeze(0).T().Add(m.w.Get("enc.position_embd.weight").Cast(ir.F32))
	for i := range m.Encoders {
		l := m.w.Sub(fmt.Sprintf("enc.blk.%d", i))
		y := nn.LayerNorm(x, l.Sub("attn_norm"), m.NormEps)
		q, k, v := m.heads(y, l.Sub("attn_q"), m.EncoderHeads), m.heads(y, l.Sub("attn_k"), m.EncoderHeads),
			m.heads(y, l.Sub("attn_v"), m.EncoderHeads)
		x = x.Add(nn.Linear(m.joined(q.Attention(k, v)), l.Sub("attn_output")))
		x = m.forward(x, l)
	}
	return nn.LayerNorm(x, m.w.Sub("enc.output_norm"), m.NormEps)
}

// conv computes a convolution over time with windows of 3 frames, and GELU.
func (m model) conv(x frontend.Tensor, name string, stride int) frontend.Tensor {
	w := m.w.Sub(name)
	return x.Conv(w.Get("weight").Cast(ir.F32), frontend.Bias(w.Get("bias").Cast(ir.F32)), frontend.Padding(1),
		frontend.Stride(stride)).GeluErf()
}

// forward computes a feed-forward layer with its norm.
func (m model) forward(x frontend.Tensor, l nn.Weights) frontend.Tensor {
	return x.Add(nn.FeedForward(nn.LayerNorm(x, l.Sub("ffn_norm"), m.NormEps), l, frontend.Tensor.GeluErf))
}

// heads projects x [T, Width] to [heads, T, Width/heads].
func (m model) heads(x frontend.Tensor, w nn.Weights, heads int) frontend.Tensor {
	return nn.Linear(x, w).Reshape(x.Dim(0), heads, m.Width/heads).SwapAxes(0, 1)
}

// joined reshapes [heads, T, Width/heads] to [T, Width].
func (m model) joined(x frontend.Tensor) frontend.Tensor {
	return x.SwapAxes(0, 1).Reshape(x.Dim(1), m.Width)
}

// crossStates returns the states with the keys and values that layer i of the decoder makes of the encoder's output.
func (m model) crossStates(b *frontend.Builder, i int, t ir.DType) (keys, values frontend.Tensor) {
	return m.state(b, "cross_k", i, t, m.AudioContext), m.state(b, "cross_v", i, t, m.AudioContext)
}

func (m model) state(b *frontend.Builder, name string, layer int, t ir.DType, positions int) frontend.Tensor {
	return b.State(fmt.Sprintf("%s.%d", name, layer), t, m.Heads, positions, m.Width/m.Heads)
}

// decode returns the logits [1, Vocab] of the token after tokens i32[T], the last tokens of a text of length positions.
// It adds the keys and values of tokens to the caches, of dtype cache.
func (m model) decode(b *frontend.Builder, tokens frontend.Tensor, length ir.Dim, cache ir.DType) frontend.Tensor {
	t := tokens.Dim(0)
	start := b.DimValue(length).Sub(b.DimValue(t))
	positions := b.Iota(ir.I32, 0, t).Add(start)
	x := m.decoder(b, m.embed(tokens, positions), cache, func(i int, l nn.Weights, y frontend.Tensor) frontend.Tensor {
		extended := func(name string, x frontend.Tensor) frontend.Tensor {
			state := m.state(b, name, i, cache, m.Context)
			all := state.DynamicUpdateSlice(1, x.Cast(cache), start)
			b.Update(state, all)
			return all.Cast(ir.F32).Slice(1, 0, length)
		}
		k := extended("cache_k", m.heads(y, l.Sub("attn_k"), m.Heads))
		v := extended("cache_v", m.heads(y, l.Sub("attn_v"), m.Heads))
		return m.heads(y, l.Sub("attn_q"), m.Heads).Attention(k, v, frontend.Causal())
	}, nil)
	last := b.DimValue(t).SubScalar(1).Reshape(1) // the index of the last token
	x = nn.LayerNorm(x.IndexSelect(0, last), m.w.Sub("dec.output_norm"), m.NormEps)
	return nn.Unembed(x, m.w.Sub("token_embd"))
}

// embed returns the embedded tokens at their positions.
func (m model) embed(tokens, positions frontend.Tensor) frontend.Tensor {
	return nn.Embedding(tokens, m.w.Sub("token_embd"), ir.F32).
		Add(nn.Embedding(positions, m.w.Sub("position_embd"), ir.F32))
}

// decoder applies the decoder's layers to embedded tokens x [T, Width]. attend returns the attention of layer i to the
// tokens, [Heads, T, D], for the layer's normalized input y. hear, if not nil, gets the queries [Heads, T, D] and the
// keys [Heads, AudioContext, D] of a layer's attention to the sound.
func (m model) decoder(b *frontend.Builder, x frontend.Tensor, cache ir.DType,
	attend func(i int, l nn.Weights, y frontend.Tensor) frontend.Tensor,
	hear func(i int, q, keys frontend.Tensor)) frontend.Tensor {
	for i := range m.Decoders {
		l := m.w.Sub(fmt.Sprintf("dec.blk.%d", i))
		y := attend(i, l, nn.LayerNorm(x, l.Sub("attn_norm"), m.NormEps))
		x = x.Add(nn.Linear(m.joined(y), l.Sub("attn_output")))
		keys, values := m.crossStates(b, i, cache)
		q := m.heads(nn.LayerNorm(x, l.Sub("cross_attn_norm"), m.NormEps), l.Sub("cross_attn_q"), m.Heads)
		if hear != nil {
			hear(i, q, keys.Cast(ir.F32))
		}
		y = q.Attention(keys.Cast(ir.F32), values.Cast(ir.F32))
		x = m.forward(x.Add(nn.Linear(m.joined(y), l.Sub("cross_attn_output"))), l)
	}
	return x
}
