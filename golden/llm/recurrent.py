"""Tiny models with recurrent layers, each computed time by time from its definition, for make.py."""

import numpy as np
from families import attended, head_dim, routed, through
from support import CONTEXT, RMS, Model, angles, attention, projections, rope, swiglu


def silu(x):
    return x / (1 + np.exp(-x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def short_conv(m, x, name, window, bias=True):
    """A convolution of each channel over the last positions."""
    w = m.w(m.blk + name + ".weight", x.shape[1], window, scale=0.5)
    z = np.concatenate([np.zeros((window - 1, x.shape[1])), x])
    y = np.stack([(z[t : t + window] * w.T).sum(0) for t in range(len(x))])
    return y + m.w(m.blk + name + ".bias", x.shape[1], scale=0.25) if bias else y


def mamba2_layer(m, x, inner, heads, groups, keys, window, norm=True):
    """Mamba-2's layer, without the residual: in, convolution, scan, gate, norm, out."""
    m.set(**{"ssm.conv_kernel": window, "ssm.inner_size": inner, "ssm.state_size": keys})
    m.set(**{"ssm.time_step_rank": heads, "ssm.group_count": groups})
    both, rows = inner + 2 * groups * keys, inner // heads
    z, xbc, dt = np.split(m.linear(x, "ssm_in", inner + both + heads), [inner, inner + both], 1)
    xbc = silu(short_conv(m, xbc, "ssm_conv1d", window))
    dt = softplus(dt + m.w(m.blk + "ssm_dt.bias", heads, scale=0.5))
    a = m.w(m.blk + "ssm_a", heads, 1, offset=-1.0, scale=0.5)
    d = m.w(m.blk + "ssm_d", heads, 1, offset=1.0, scale=0.5)
    y = np.zeros((len(x), inner))
    state = np.zeros((heads, rows, keys))
    for t in range(len(x)):
        v, b, c = np.split(xbc[t], [inner, inner + groups * keys])
        v, b, c = v.reshape(heads, rows), b.reshape(groups, keys), c.reshape(groups, keys)
        for h in range(heads):
            g = h // (heads // groups)
            state[h] = np.exp(dt[t, h] * a[h]) * state[h] + dt[t, h] * np.outer(v[h], b[g])
            y[t, h * rows : (h + 1) * rows] = state[h] @ c[g] + d[h] * v[h]
    y = y * silu(z)
    if norm:
        w = m.w(m.blk + "ssm_norm.weight", groups, inner // groups, offset=1.0, scale=0.5)
        y = y.reshape(len(x), groups, -1)
        y = (y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-5) * w).reshape(len(x), inner)
    return m.linear(y, "ssm_out", m.width)


def without_attention(case, layers, width):
    m = Model(case, case, layers, width, 1, 1, 1, **RMS)
    for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length"):
        del m.meta[f"{case}.{key}"]
    m.set(**{"attention.head_count": 0, "feed_forward_length": 0})
    return m


def mamba2():
    m = without_attention("mamba2", 2, 32)
    through(m, lambda i, x: x + mamba2_layer(m, m.rms_norm(x, "attn_norm"), 64, 8, 2, 16, 4))


def rms(x, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def mamba(case="mamba", norms=False):
    inner, rank, keys, window = 64, 4, 8, 4
    m = without_attention("mamba", 2, 32)
    m.case = case
    m.set(**{"ssm.conv_kernel": window, "ssm.inner_size": inner, "ssm.state_size": keys, "ssm.time_step_rank": rank})
    if norms:
        m.set(**{"ssm.dt_b_c_rms": True})

    def layer(i, x):
        h, z = np.split(m.linear(m.rms_norm(x, "attn_norm"), "ssm_in", 2 * inner), 2, 1)
        h = silu(short_conv(m, h, "ssm_conv1d", window))
        control = np.split(m.linear(h, "ssm_x", rank + 2 * keys), [rank, rank + keys], 1)
        dt, b, c = (rms(v) for v in control) if norms else control
        dt = softplus(m.linear(dt, "ssm_dt", inner, bias=True))
        a = m.w(m.blk + "ssm_a", inner, keys, offset=-1.0, scale=0.5)
        d = m.w(m.blk + "ssm_d", inner, offset=1.0, scale=0.5)
        state, y = np.zeros((inner, keys)), np.zeros_like(h)
        for t in range(len(x)):
            state = np.exp(dt[t][:, None] * a) * state + np.outer(dt[t] * h[t], b[t])
            y[t] = state @ c[t] + d * h[t]
        return x + m.linear(y * silu(z), "ssm_out", m.width)

    through(m, layer)


def falcon_mamba():
    mamba("falcon-mamba", True)


def falcon_h1():
    m = Model("falcon-h1", "falcon-h1", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 1e11})
    head_dim(m, 16)
    turn = angles(1e11, 16)

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        x = x + attended(m, h, turn) + mamba2_layer(m, h, 64, 8, 1, 16, 4, norm=False)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, tied=False)


def granite_hybrid(case="granitehybrid", feed_forward=swiglu, **meta):
    scales = {"embedding_scale": 12.0, "residual_scale": 0.25, "attention.scale": 0.125, "logit_scale": 8.0}
    m = Model(case, "granitehybrid", 4, 32, 4, 2, 48, **RMS, **scales, **meta, **{"rope.freq_base": 10000.0})
    m.set(**{"attention.head_count_kv": [0, 0, 2, 0], "rope.scaling.finetuned": False})

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        x = x + 0.25 * (attended(m, h, None, scale=0.125) if i == 2 else mamba2_layer(m, h, 64, 8, 1, 16, 4))
        return x + 0.25 * feed_forward(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, scale=1 / 8, x=12 * m.embed())


def granite_hybrid_moe():
    meta = {"expert_count": 4, "expert_used_count": 2, "expert_shared_feed_forward_length": 24}
    granite_hybrid("granitehybrid-moe", lambda m, x: routed(m, x, 4, 2, 48, shared=24), **meta)


def nemotron_h():
    m = Model("nemotron_h", "nemotron_h", 5, 32, 4, 2, 48, **RMS)
    head_dim(m, 16)
    m.set(**{"attention.head_count_kv": [0, 0, 2, 0, 0], "feed_forward_length": [0, 48, 0, 48, 0]})

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        if i in (1, 3):
            return x + m.linear(np.maximum(m.linear(h, "ffn_up", 48), 0) ** 2, "ffn_down", m.width)
        return x + (attended(m, h, None) if i == 2 else mamba2_layer(m, h, 64, 8, 2, 16, 4))

    through(m, layer, tied=False)


def lfm2_layers(case, feed_forward, **meta):
    m = Model(case, case, 4, 32, 4, 2, 48, **RMS, **meta, **{"rope.freq_base": 1000000.0, "shortconv.l_cache": 3})
    m.set(**{"attention.head_count_kv": [0, 0, 2, 0]})
    turn = angles(1e6, m.head_dim)

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        if i == 2:
            q, k, v = projections(m, h)
            q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
            x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        else:
            b, c, v = np.split(m.linear(h, "shortconv.in_proj", 3 * m.width), 3, 1)
            y = c * short_conv(m, b * v, "shortconv.conv", 3, bias=False)
            x = x + m.linear(y, "shortconv.out_proj", m.width)
        return x + feed_forward(m, i, m.rms_norm(x, "ffn_norm"))

    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        x = layer(i, x)
    m.blk = ""
    m.write(m.unembed(m.rms_norm(x, "token_embd_norm")))


def lfm2():
    lfm2_layers("lfm2", lambda m, i, x: swiglu(m, x))


def lfm2moe():
    meta = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24, "expert_gating_func": 2,
            "leading_dense_block_count": 1}
    experts = lambda m, x: routed(m, x, 4, 2, 24, sigmoid=True, bias=True)
    lfm2_layers("lfm2moe", lambda m, i, x: swiglu(m, x) if i < 1 else experts(m, x), **meta)


def gated_delta(m, x, groups, heads, keys, window, near, joined=False):
    """A layer of the gated delta rule, without the residual. Heads that share a key are near, or groups apart."""
    each, inner = heads // groups, heads * keys
    m.set(**{"ssm.conv_kernel": window, "ssm.inner_size": inner, "ssm.state_size": keys})
    m.set(**{"ssm.time_step_rank": heads, "ssm.group_count": groups})
    if joined:
        all = m.linear(x, "ssm_in", 2 * groups * keys + 2 * inner).reshape(len(x), groups, -1)
        split = np.split(all, [keys, 2 * keys, 2 * keys + each * keys], 2)
        q, k, v, z = (part.reshape(len(x), -1) for part in split)
        qkv = np.concatenate([q, k, v], 1)
    else:
        qkv, z = m.linear(x, "attn_qkv", 2 * groups * keys + inner), m.linear(x, "attn_gate", inner)
    if near:
        ba = m.linear(x, "ssm_ba", 2 * heads).reshape(len(x), groups, 2, each)
        beta, alpha = ba[:, :, 0].reshape(len(x), heads), ba[:, :, 1].reshape(len(x), heads)
    else:
        beta, alpha = m.linear(x, "ssm_beta", heads), m.linear(x, "ssm_alpha", heads)
    a, bias = m.w(m.blk + "ssm_a", heads, offset=-1.0, scale=0.5), m.w(m.blk + "ssm_dt.bias", heads, scale=0.5)
    decay, beta = np.exp(a * softplus(alpha + bias)), sigmoid(beta)
    qkv = silu(short_conv(m, qkv, "ssm_conv1d", window, bias=False))
    q, k, v = np.split(qkv, [groups * keys, 2 * groups * keys], 1)
    unit = lambda v: v / np.sqrt((v * v).sum(-1, keepdims=True) + 1e-6)
    q, k = unit(q.reshape(len(x), groups, keys)) / keys**0.5, unit(k.reshape(len(x), groups, keys))
    v, y, state = v.reshape(len(x), heads, keys), np.zeros((len(x), heads, keys)), np.zeros((heads, keys, keys))
    for t in range(len(x)):
        for h in range(heads):
            g = h // each if near else h % groups
            state[h] *= decay[t, h]
            state[h] += np.outer(beta[t, h] * (v[t, h] - state[h] @ k[t, g]), k[t, g])
            y[t, h] = state[h] @ q[t, g]
    y = m.rms_norm(y, "ssm_norm") * silu(z.reshape(len(x), heads, keys))
    return m.linear(y.reshape(len(x), inner), "ssm_out", m.width)


def gated_attention(m, x, turn):
    both = m.linear(x, "attn_q", 2 * m.heads * m.head_dim).reshape(len(x), m.heads, 2, m.head_dim)
    q, gate = both[:, :, 0], both[:, :, 1].reshape(len(x), -1)
    k, v = (m.heads_of(m.linear(x, "attn_" + name, m.kv_heads * m.head_dim)) for name in "kv")
    q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
    return m.linear(attention(q, k, v) * sigmoid(gate), "attn_output", m.width)


def qwen35_layers(case, architecture, feed_forward, near=False, joined=False, **meta):
    m = Model(case, architecture, 4, 32, 4, 2, 48, **RMS, **meta, **{"rope.freq_base": 10000000.0})
    head_dim(m, 16)
    m.set(**{"rope.dimension_count": 4})
    turn = angles(1e7, 4)

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        x = x + (gated_attention(m, h, turn) if i == 3 else gated_delta(m, h, 2, 4, 8, 4, near, joined))
        return x + feed_forward(m, m.rms_norm(x, "post_attention_norm"))

    through(m, layer, tied=False)


QWEN_EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24,
                "expert_shared_feed_forward_length": 40}


def qwen_experts(m, x):
    return routed(m, x, 4, 2, 24, shared=40, gate=True)


def qwen3next():
    qwen35_layers("qwen3next", "qwen3next", qwen_experts, near=True, **QWEN_EXPERTS)


def qwen3next_joined():
    qwen35_layers("qwen3next-joined", "qwen3next", qwen_experts, near=True, joined=True, **QWEN_EXPERTS)


def qwen35():
    qwen35_layers("qwen35", "qwen35", swiglu)


def qwen35moe():
    qwen35_layers("qwen35moe", "qwen35moe", qwen_experts, **QWEN_EXPERTS)


def rwkv7():
    m = Model("rwkv7", "rwkv7", 2, 128, 1, 1, 48, **{"attention.layer_norm_epsilon": 1e-5})
    del m.meta["rwkv7.attention.head_count_kv"]
    size, ranks = 64, {"decay": 6, "iclr": 5, "value_residual_mix": 4, "gate": 7}
    heads = m.width // size
    m.set(**{"attention.head_count": 0, "wkv.head_size": size, "token_shift_count": 2})
    m.set(**{f"attention.{name}_lora_rank": rank for name, rank in ranks.items()})
    before = lambda x: np.concatenate([np.zeros((1, m.width)), x[:-1]])
    first = {}

    def time_mix(i, x):
        lerp = m.w(m.blk + "time_mix_lerp_fused.weight", 6, 1, 1, m.width, offset=0.5, scale=0.5)[:, 0, 0]
        xr, xw, xk, xv, xa, xg = (x + (before(x) - x) * part for part in lerp)
        weight = lambda name, **how: m.w(m.blk + f"time_mix_{name}.weight", m.width, **how)
        linear = lambda x, name, out=m.width: m.linear(x, "time_mix_" + name, out)
        lora = lambda x, name, rank, f=lambda v: v: linear(f(linear(x, name + "1", rank)), name + "2")
        r, k, v = linear(xr, "receptance"), linear(xk, "key"), linear(xv, "value")
        w = np.exp(-np.exp(-0.5) * sigmoid(weight("w0", scale=1.0) + lora(xw, "w", 6, np.tanh)))
        a = sigmoid(weight("a0", scale=1.0) + lora(xa, "a", 5))
        v0, share = weight("v0", scale=1.0), lora(xv, "v", 4 if i else 5)
        if i == 0:
            first["v"] = v
        else:
            v = v + (first["v"] - v) * sigmoid(v0 + share)
        g = lora(xg, "g", 7, sigmoid)
        split = lambda x: x.reshape(len(x), heads, size)
        kk = split(k * weight("k_k", offset=0.8, scale=0.25))
        kk = kk / np.maximum(np.sqrt((kk * kk).sum(-1, keepdims=True)), 1e-12)
        k = k * (1 + (a - 1) * weight("k_a", offset=1.0, scale=0.25))
        r, k, v, w, a = (split(part) for part in (r, k, v, w, a))
        y, state = np.zeros_like(v), np.zeros((heads, size, size))
        for t in range(len(x)):
            for h in range(heads):
                s = state[h]
                removed = np.outer(s @ kk[t, h], a[t, h] * kk[t, h])
                state[h] = s * w[t, h] - removed + np.outer(v[t, h], k[t, h])
                y[t, h] = state[h] @ r[t, h]
        y = ((y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 64e-5)).reshape(len(x), m.width)
        y = y * m.vector(m.blk + "time_mix_ln.weight", m.width) + m.w(m.blk + "time_mix_ln.bias", m.width, scale=0.25)
        bonus = (r * k * weight("r_k", scale=0.5).reshape(heads, size)).sum(-1, keepdims=True) * v
        return linear((y + bonus.reshape(len(x), m.width)) * g, "output")

    def layer(i, x):
        x = x + time_mix(i, m.layer_norm(x, "attn_norm"))
        h = m.layer_norm(x, "attn_norm_2")
        h = h + (before(h) - h) * m.w(m.blk + "channel_mix_lerp_k.weight", 1, 1, m.width, offset=0.5, scale=0.5)[0, 0]
        h = np.maximum(m.linear(h, "channel_mix_key", m.hidden), 0) ** 2
        return x + m.linear(h, "channel_mix_value", m.width)

    through(m, layer, m.layer_norm, tied=False, x=m.layer_norm(m.embed(), "token_embd_norm"))


RECURRENT = (mamba2, mamba, falcon_mamba, falcon_h1, granite_hybrid, granite_hybrid_moe, nemotron_h, lfm2, lfm2moe,
             qwen3next, qwen3next_joined, qwen35, qwen35moe, rwkv7)
