"""Writes the golden logits of frontend/llm: a tiny model of each architecture, computed from its definition."""

import numpy as np
from support import Model, angles, attention, gelu, gelu_erf, rope, silu

RMS = {"attention.layer_norm_rms_epsilon": 1e-5}


def swiglu(m, x):
    gate, up = m.linear(x, "ffn_gate", m.hidden), m.linear(x, "ffn_up", m.hidden)
    return m.linear(silu(gate) * up, "ffn_down", m.width)


def projections(m, x, bias=False):
    q = m.heads_of(m.linear(x, "attn_q", m.heads * m.head_dim, bias))
    k = m.heads_of(m.linear(x, "attn_k", m.kv_heads * m.head_dim, bias))
    return q, k, m.heads_of(m.linear(x, "attn_v", m.kv_heads * m.head_dim, bias))


def mixture(m, x, experts, used):
    """Each token goes to the experts of its best scores, whose softmax weights them."""
    hidden, score = m.hidden, m.linear(x, "ffn_gate_inp", experts)
    gate = m.w(m.blk + "ffn_gate_exps.weight", experts, hidden, m.width)
    up = m.w(m.blk + "ffn_up_exps.weight", experts, hidden, m.width)
    down = m.w(m.blk + "ffn_down_exps.weight", experts, m.width, hidden)
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        best = np.argsort(-score[t])[:used]
        share = np.exp(score[t][best])
        for e, part in zip(best, share / share.sum()):
            out[t] += part * (down[e] @ (silu(gate[e] @ row) * (up[e] @ row)))
    return out


def llama(case="llama", feed_forward=swiglu, **meta):
    m = Model(case, "llama", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 500.0}, **meta)
    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        turn = angles(500.0, m.head_dim)
        x = x + m.linear(attention(rope(q, turn, True), rope(k, turn, True), v), "attn_output", m.width)
        x = x + feed_forward(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "output_norm"), tied=False))


def mixtral():
    llama("mixtral", lambda m, x: mixture(m, x, 4, 2), **{"expert_count": 4, "expert_used_count": 2})


def qwen2():
    m = Model("qwen2", "qwen2", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 1000000.0})
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


def qwen3moe():
    meta = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24}

    def experts(m, x):
        m.hidden = 24  # of each expert
        return mixture(m, x, 4, 2)

    qwen3("qwen3moe", experts, **meta)


for write in (llama, mixtral, qwen2, qwen3, qwen3moe):
    write()
