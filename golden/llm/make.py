"""Writes the golden logits of frontend/llm: a tiny model of each architecture, computed from its definition."""

import numpy as np
from families import FAMILIES
from recurrent import RECURRENT
from support import (CONTEXT, LAYER_NORM, RMS, TOKENS, Model, angles, attention, gelu, gelu_erf, mixture, projections,
                     rope, silu, swiglu, yarn)

def llama(case="llama", feed_forward=swiglu, turn=angles(500.0, 8), magnitude=1.0, **meta):
    m = Model(case, "llama", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 500.0}, **meta)
    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        q, k = rope(q, turn, True, magnitude), rope(k, turn, True, magnitude)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        x = x + feed_forward(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm"), tied=False))


def mixtral():
    llama("mixtral", lambda m, x: mixture(m, x, 4, 2), **{"expert_count": 4, "expert_used_count": 2})


def llama_yarn():
    turn, magnitude = yarn(500.0, 8, 4.0, 512)
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 512}
    llama("llama-yarn", swiglu, turn, magnitude, **{"rope.scaling." + key: v for key, v in scaling.items()})


def qwen2(case="qwen2", **meta):
    m = Model(case, case, 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 1000000.0}, **meta)
    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"), bias=True)
        turn = angles(1e6, m.head_dim)
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width)
        x = x + swiglu(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm")))


def qwen3(case="qwen3", feed_forward=swiglu, **meta):
    m = Model(case, case, 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 1000000.0}, **meta)
    m.head_dim = 16  # not width/heads
    m.set(**{"attention.key_length": 16, "attention.value_length": 16})
    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        turn = angles(1e6, m.head_dim)
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        x = x + feed_forward(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm")))


def qwen2vl():
    """Text turns by one position in all directions."""
    qwen2("qwen2vl", **{"rope.dimension_sections": [2, 1, 1, 0]})


def qwen3vl():
    qwen3("qwen3vl", **{"rope.dimension_sections": [3, 3, 2, 0], "n_deepstack_layers": 2})


def qwen3moe(case="qwen3moe", **meta):
    meta |= {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24}

    def experts(m, x):
        m.hidden = 24  # of each expert
        return mixture(m, x, 4, 2)

    qwen3(case, experts, **meta)


def qwen3vlmoe():
    qwen3moe("qwen3vlmoe", **{"rope.dimension_sections": [3, 3, 2, 0], "n_deepstack_layers": 2})


def openelm():
    """Layers of different sizes."""
    m = Model("openelm", "openelm", 3, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0})
    heads, kv_heads, hidden = [2, 4, 6], [1, 2, 2], [32, 48, 40]
    m.head_dim = 16
    m.set(**{"attention.key_length": 16, "attention.value_length": 16, "rope.dimension_count": 16})
    m.set(**{"attention.head_count": heads, "attention.head_count_kv": kv_heads, "feed_forward_length": hidden})
    x, turn = m.embed(), angles(1e4, 16)
    for i in range(m.layers):
        m.blk, m.hidden = f"blk.{i}.", hidden[i]
        qkv = m.heads_of(m.linear(m.rms_norm(x, "attn_norm"), "attn_qkv", (heads[i] + 2 * kv_heads[i]) * 16))
        q, k, v = np.split(qkv, [heads[i], heads[i] + kv_heads[i]], 1)
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        x = x + swiglu(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm")))


def phi3(case, window, trained, meta):
    m = Model(case, "phi3", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0, "rope.dimension_count": 6}, **meta)
    m.set(**{"attention.sliding_window": window, "rope.scaling.original_context_length": trained})
    short = m.w("rope_factors_short.weight", 3, offset=1.5, scale=0.5)
    long = m.w("rope_factors_long.weight", 3, offset=4.0, scale=2.0)
    turn = angles(1e4, 6) / (long if CONTEXT > trained else short)
    magnitude = meta.get("rope.scaling.attn_factor", 1.0)
    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        qkv = m.heads_of(m.linear(m.rms_norm(x, "attn_norm"), "attn_qkv", (m.heads + 2 * m.kv_heads) * m.head_dim))
        q, k, v = np.split(qkv, [m.heads, m.heads + m.kv_heads], 1)
        q, k = rope(q, turn, magnitude=magnitude), rope(k, turn, magnitude=magnitude)
        x = x + m.linear(attention(q, k, v, window=window or None), "attn_output", m.width)
        gate, up = np.split(m.linear(m.rms_norm(x, "ffn_norm"), "ffn_up", 2 * m.hidden), 2, 1)
        x = x + m.linear(silu(gate) * up, "ffn_down", m.width)
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm"), tied=False))


def phi3_short():
    phi3("phi3", 5, CONTEXT, {})


def phi3_long():
    phi3("phi3-long", 0, CONTEXT // 4, {"rope.scaling.attn_factor": 1.1875})


def geglu(m, x):
    gate, up = m.linear(x, "ffn_gate", m.hidden), m.linear(x, "ffn_up", m.hidden)
    return m.linear(gelu(gate) * up, "ffn_down", m.width)


def gemma():
    m = Model("gemma", "gemma", 2, 32, 4, 1, 48, **RMS, **{"attention.key_length": 16, "attention.value_length": 16})
    m.head_dim = 16
    x = m.embed() * m.width**0.5
    turn = angles(1e4, m.head_dim)
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width)
        x = x + geglu(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm")))


def gemma2():
    caps = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
    m = Model("gemma2", "gemma2", 4, 32, 4, 2, 48, **RMS, **caps, **{"attention.sliding_window": 4})
    m.head_dim = 16
    m.set(**{"attention.key_length": 16, "attention.value_length": 16})
    x = m.embed() * m.width**0.5
    turn = angles(1e4, m.head_dim)
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        window = 4 if i % 2 == 0 else None
        y = attention(rope(q, turn), rope(k, turn), v, window=window, softcap=2.0)
        x = x + m.rms_norm(m.linear(y, "attn_output", m.width), "post_attention_norm")
        x = x + m.rms_norm(geglu(m, m.rms_norm(x, "ffn_norm")), "post_ffw_norm")
    m.blk = ""
    m.write(3 * np.tanh(m.unembed(m.rms_norm(x, "output_norm")) / 3))


def gemma3():
    m = Model("gemma3", "gemma3", 7, 32, 2, 1, 32, **RMS, **{"attention.sliding_window": 6})
    m.set(**{"rope.freq_base": 1000000.0, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
    x = m.embed() * m.width**0.5
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        everything = i % 6 == 5
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        turn = angles(1e6, m.head_dim) / 8 if everything else angles(1e4, m.head_dim)
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        y = attention(q, k, v, window=None if everything else 6)
        x = x + m.rms_norm(m.linear(y, "attn_output", m.width), "post_attention_norm")
        x = x + m.rms_norm(geglu(m, m.rms_norm(x, "ffn_norm")), "post_ffw_norm")
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm")))


def gpt2():
    m = Model("gpt2", "gpt2", 2, 32, 4, 4, 48, **LAYER_NORM)
    del m.meta["gpt2.attention.head_count_kv"]  # files leave it out
    x = m.embed() + m.w("position_embd.weight", CONTEXT, m.width, scale=1.0)[: len(TOKENS)]
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        qkv = m.linear(m.layer_norm(x, "attn_norm"), "attn_qkv", 3 * m.width, bias=True)
        q, k, v = (m.heads_of(part) for part in np.split(qkv, 3, 1))
        x = x + m.linear(attention(q, k, v), "attn_output", m.width, bias=True)
        hidden = gelu(m.linear(m.layer_norm(x, "ffn_norm"), "ffn_up", m.hidden, bias=True))
        x = x + m.linear(hidden, "ffn_down", m.width, bias=True)
    m.blk = ""
    m.write(m.unembed(m.layer_norm(x, "output_norm")))


def starcoder2():
    m = Model("starcoder2", "starcoder2", 2, 32, 4, 2, 48, **LAYER_NORM, **{"rope.freq_base": 100000.0})
    x, turn = m.embed(), angles(1e5, m.head_dim)
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.layer_norm(x, "attn_norm"), bias=True)
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width, bias=True)
        hidden = gelu(m.linear(m.layer_norm(x, "ffn_norm"), "ffn_up", m.hidden, bias=True))
        x = x + m.linear(hidden, "ffn_down", m.width, bias=True)
    m.blk = ""
    m.write(m.unembed(m.layer_norm(x, "output_norm")))


def falcon(case="falcon", kv_heads=1, norms=1):
    m = Model(case, "falcon", 2, 32, 4, kv_heads, 64, **LAYER_NORM)
    x, turn = m.embed(), angles(1e4, m.head_dim)
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        own = m.layer_norm(x, "attn_norm")  # of the feed-forward layer
        first = own if norms == 1 else m.layer_norm(x, "attn_norm_2")
        qkv = m.heads_of(m.linear(first, "attn_qkv", (m.heads + 2 * m.kv_heads) * m.head_dim))
        q, k, v = np.split(qkv, [m.heads, m.heads + m.kv_heads], 1)
        y = m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width)
        x = x + y + m.linear(gelu_erf(m.linear(own, "ffn_up", m.hidden)), "ffn_down", m.width)
    m.blk = ""
    m.write(m.unembed(m.layer_norm(x, "output_norm"), tied=False))


def falcon_large():
    falcon("falcon-large", 2, 2)


def gptoss():
    meta = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32, "attention.sliding_window": 5}
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 256}
    m = Model("gpt-oss", "gpt-oss", 3, 32, 4, 2, 32, **RMS, **meta, **{"rope.freq_base": 150.0})
    m.head_dim = 16
    m.set(**{"attention.key_length": 16, "attention.value_length": 16})
    m.set(**{"rope.scaling." + key: v for key, v in scaling.items()})
    turn, magnitude = yarn(150.0, 16, 4.0, 256, whole=False)
    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"), bias=True)
        q, k = rope(q, turn, magnitude=magnitude), rope(k, turn, magnitude=magnitude)
        sinks = m.w(m.blk + "attn_sinks.weight", m.heads, scale=2.0)
        y = attention(q, k, v, window=5 if i % 2 == 0 else None, sinks=sinks)
        x = x + m.linear(y, "attn_output", m.width, bias=True)
        h = m.rms_norm(x, "post_attention_norm")
        score = m.linear(h, "ffn_gate_inp", 4, bias=True)
        stack = lambda name: m.mxfp4(m.blk + name + ".weight", 4, 32, 32)
        bias = lambda name: m.w(m.blk + name + ".bias", 4, 32, scale=10.0)  # some reach the bounds
        names = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
        (gates, ups, downs), biases = (stack(n) for n in names), [bias(n) for n in names]
        for t, row in enumerate(h):
            best = np.argsort(-score[t])[:2]
            share = np.exp(score[t][best])
            for e, part in zip(best, share / share.sum()):
                gate = np.minimum(gates[e] @ row + biases[0][e], 7)
                up = np.clip(ups[e] @ row + biases[1][e], -7, 7)
                x[t] += part * (downs[e] @ (gate / (1 + np.exp(-1.702 * gate)) * (up + 1)) + biases[2][e])
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm"), tied=False))


def bert(case="bert", segments=2, first=None):
    m = Model(case, "bert", 2, 32, 4, 4, 48, **{"attention.layer_norm_epsilon": 1e-12}, **{"attention.causal": False})
    del m.meta["bert.attention.head_count_kv"]  # files leave it out
    x = m.embed() + m.w("position_embd.weight", CONTEXT, m.width, scale=1.0)[: len(TOKENS)]
    segment = np.arange(len(TOKENS)) >= (first if first and segments > 1 else len(TOKENS))
    x = m.layer_norm(x + m.w("token_types.weight", segments, m.width, scale=1.0)[segment * 1], "token_embd_norm")
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        y = m.linear(attention(*projections(m, x, bias=True), causal=False), "attn_output", m.width, bias=True)
        x = m.layer_norm(x + y, "attn_output_norm")
        hidden = gelu_erf(m.linear(x, "ffn_up", m.hidden, bias=True))
        x = m.layer_norm(x + m.linear(hidden, "ffn_down", m.width, bias=True), "layer_output_norm")
    m.blk = ""
    if first:  # the length of the first text of a pair, which the model rates
        m.set(pooling_type=4)
    m.write_pooled(x)


def bert_ranks():
    bert("bert-ranks", first=6)


def xlm_roberta():
    bert("xlm-roberta", segments=1, first=6)


def nomic_bert():
    m = Model("nomic-bert", "nomic-bert", 2, 32, 4, 4, 48, **{"attention.layer_norm_epsilon": 1e-12})
    m.set(**{"attention.causal": False, "rope.freq_base": 1000.0})
    x = m.embed() + m.w("token_types.weight", 2, m.width, scale=1.0)[0]
    x, turn = m.layer_norm(x, "token_embd_norm"), angles(1e3, m.head_dim)
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = (m.heads_of(part) for part in np.split(m.linear(x, "attn_qkv", 3 * m.width), 3, 1))
        y = m.linear(attention(rope(q, turn), rope(k, turn), v, causal=False), "attn_output", m.width)
        x = m.layer_norm(x + y, "attn_output_norm")
        x = m.layer_norm(x + swiglu(m, x), "layer_output_norm")
    m.write_pooled(x)


for write in (llama, llama_yarn, mixtral, qwen2, qwen2vl, qwen3, qwen3vl, qwen3vlmoe, qwen3moe, openelm, phi3_short,
              phi3_long, gemma, gemma2, gemma3, gpt2, starcoder2, falcon, falcon_large, gptoss, bert, bert_ranks, xlm_roberta,
              nomic_bert, *FAMILIES, *RECURRENT):
    write()
