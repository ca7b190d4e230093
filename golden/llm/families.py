"""Tiny models of further families, each computed from its definition, for make.py."""

import numpy as np
from support import (LAYER_NORM, RMS, TOKENS, Model, angles, attention, gelu, gelu_erf, projections, rope, silu,
                     swiglu, yarn)


def through(m, layer, norm=None, tied=True, scale=1.0, x=None):
    """Takes the embedded tokens, or x, through the layers, and writes the logits. layer(i, x) returns x after layer i."""
    x = m.embed() if x is None else x
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        x = layer(i, x)
    m.blk = ""
    m.write(scale * m.unembed((norm or m.rms_norm)(x, "output_norm"), tied))


def attended(m, x, turn, neighbours=False, bias=False, **options):
    """Attention of x with rotary positions, or without if turn is None, and its output matrix."""
    q, k, v = projections(m, x, bias)
    if turn is not None:
        q, k = rope(q, turn, neighbours), rope(k, turn, neighbours)
    return m.linear(attention(q, k, v, **options), "attn_output", m.width)


def head_dim(m, n):
    m.head_dim = n
    m.set(**{"attention.key_length": n, "attention.value_length": n})


def scaled_residuals(case, architecture, feed_forward, **meta):
    scales = {"embedding_scale": 12.0, "residual_scale": 0.25, "attention.scale": 0.125, "logit_scale": 8.0}
    m = Model(case, architecture, 2, 32, 4, 2, 48, **RMS, **scales, **meta, **{"rope.freq_base": 10000.0})
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        x = x + 0.25 * attended(m, m.rms_norm(x, "attn_norm"), turn, True, scale=0.125)
        return x + 0.25 * feed_forward(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, scale=1 / 8, x=12 * m.embed())


def granite():
    scaled_residuals("granite", "granite", swiglu)


def routed(m, x, experts, used, hidden, shared=0, sigmoid=False, bias=False, normalize=True, scale=1.0, gate=False,
           groups=1, best_groups=1):
    """A mixture of experts, and an expert for all tokens: shared hidden units, weighed by a gate if there is one.
    The experts of a token are of its best groups."""
    score = m.linear(x, "ffn_gate_inp", experts)
    stacks = [m.w(m.blk + f"ffn_{name}_exps.weight", experts, hidden, m.width) for name in ("gate", "up")]
    down = m.w(m.blk + "ffn_down_exps.weight", experts, m.width, hidden)
    own = m.w(m.blk + "exp_probs_b.bias", experts, scale=0.5) if bias else 0
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        weights = 1 / (1 + np.exp(-score[t])) if sigmoid else np.exp(score[t]) / np.exp(score[t]).sum()
        chosen = weights + own  # the bias takes part in the choice only
        if groups > 1:
            inside = np.sort(chosen.reshape(groups, -1))
            kept = np.argsort(-(inside[:, -2:].sum(1) if sigmoid else inside[:, -1]))[:best_groups]
            chosen = np.where(np.isin(np.arange(experts) * groups // experts, kept), chosen, -np.inf)
        best = np.argsort(-chosen)[:used]
        share = weights[best] / (weights[best].sum() if normalize else 1) * scale
        for e, part in zip(best, share):
            a, b = (w[e] @ row for w in stacks)
            out[t] += part * (down[e] @ (a / (1 + np.exp(-a)) * b))
    if shared:
        a, b = (m.linear(x, f"ffn_{name}_shexp", shared) for name in ("gate", "up"))
        y = m.linear(a / (1 + np.exp(-a)) * b, "ffn_down_shexp", m.width)
        if gate:
            y = y / (1 + np.exp(-(x @ m.w(m.blk + "ffn_gate_inp_shexp.weight", m.width))))[:, None]
        out = out + y
    return out


def granitemoe():
    meta = {"expert_count": 4, "expert_used_count": 2, "expert_shared_feed_forward_length": 24}
    scaled_residuals("granitemoe", "granitemoe", lambda m, x: routed(m, x, 4, 2, 48, shared=24), **meta)


def smollm3():
    m = Model("smollm3", "smollm3", 5, 32, 4, 2, 32, **RMS, **{"rope.freq_base": 5000000.0})
    turn = angles(5e6, m.head_dim)

    def layer(i, x):  # the fourth layer has no positions
        x = x + attended(m, m.rms_norm(x, "attn_norm"), None if i % 4 == 3 else turn, True)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer)


def joined_swiglu(m, x):
    gate, up = np.split(m.linear(x, "ffn_up", 2 * m.hidden), 2, 1)
    return m.linear(gate / (1 + np.exp(-gate)) * up, "ffn_down", m.width)


def glm4():
    m = Model("glm4", "glm4", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0})
    head_dim(m, 16)
    m.set(**{"rope.dimension_count": 8})
    turn = angles(1e4, 8)

    def layer(i, x):
        y = attended(m, m.rms_norm(x, "attn_norm"), turn, True, bias=True)
        x = x + m.rms_norm(y, "post_attention_norm")
        return x + m.rms_norm(joined_swiglu(m, m.rms_norm(x, "ffn_norm")), "post_ffw_norm")

    through(m, layer, tied=False)


def mistral3():
    """The positions begin to matter for the temperature after 8 tokens, the context of training."""
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 8, "yarn_log_multiplier": 1.0}
    m = Model("mistral3", "mistral3", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0})
    m.set(**{"rope.scaling." + key: v for key, v in scaling.items()}, **{"attention.temperature_scale": 0.25})
    head_dim(m, 16)
    turn, _ = yarn(1e4, 16, 4.0, 8)  # mscale and mscale_all_dim are equal, so that the magnitude stays 1
    warmer = 1 + 0.25 * np.log(1 + np.arange(len(TOKENS)) // 8)

    def layer(i, x):
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        q = rope(q, turn, True) * warmer[:, None, None]
        x = x + m.linear(attention(q, rope(k, turn, True), v), "attn_output", m.width)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer)


def command_r():
    m = Model("command-r", "command-r", 2, 32, 4, 4, 48, **LAYER_NORM, logit_scale=0.25)
    m.set(**{"rope.freq_base": 8000000.0})
    turn = angles(8e6, m.head_dim)
    norm = lambda x, name: m.layer_norm(x, name, bias=False)

    def each_head(x, name):  # each head has its own weights
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * m.w(m.blk + name + ".weight", *x.shape[1:], offset=1.0, scale=0.5)

    def layer(i, x):
        h = norm(x, "attn_norm")
        q, k, v = projections(m, h)
        q, k = rope(each_head(q, "attn_q_norm"), turn, True), rope(each_head(k, "attn_k_norm"), turn, True)
        return x + m.linear(attention(q, k, v), "attn_output", m.width) + swiglu(m, h)

    through(m, layer, norm, scale=0.25)


def cohere2():
    m = Model("cohere2", "cohere2", 5, 32, 4, 2, 32, **LAYER_NORM, logit_scale=0.25)
    m.set(**{"rope.freq_base": 50000.0, "attention.sliding_window": 5})
    turn = angles(5e4, m.head_dim)
    norm = lambda x, name: m.layer_norm(x, name, bias=False)

    def layer(i, x):
        h = norm(x, "attn_norm")
        everything = i % 4 == 3
        y = attended(m, h, None if everything else turn, True, window=None if everything else 5)
        return x + y + swiglu(m, h)

    through(m, layer, norm, scale=0.25)


def after(m, x, attend):
    """Norms of what attention and the feed-forward layer return only."""
    x = x + m.rms_norm(attend(x), "post_attention_norm")
    return x + m.rms_norm(swiglu(m, x), "post_ffw_norm")


def exaone4(case="exaone4", window=4):
    m = Model(case, "exaone4", 5, 32, 4, 2, 32, **RMS, **{"rope.freq_base": 1000000.0})
    head_dim(m, 16)
    if window:
        m.set(**{"attention.sliding_window": window})
    turn = angles(1e6, 16)

    def layer(i, x):
        everything = i % 4 == 3

        def attend(x):
            q, k, v = projections(m, x)
            q, k = m.rms_norm(q, "attn_q_norm"), m.rms_norm(k, "attn_k_norm")
            if not (window and everything):
                q, k = rope(q, turn), rope(k, turn)
            return m.linear(attention(q, k, v, window=None if everything else window), "attn_output", m.width)

        return after(m, x, attend)

    through(m, layer)


def exaone4_small():
    exaone4("exaone4-small", None)


def olmo2(case="olmo2", window=None, **scaling):
    m = Model(case, "olmo2", 4, 32, 4, 2, 32, **RMS, **{"rope.freq_base": 500000.0})
    turn, magnitude, local = angles(5e5, m.head_dim), 1.0, angles(5e5, m.head_dim)
    if window:
        m.set(**{"attention.sliding_window": window, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0})
        m.set(**{"rope.scaling.original_context_length": 512})
        turn, magnitude = yarn(5e5, m.head_dim, 4.0, 512)

    def layer(i, x):
        windowed = window and i % 4 != 3

        def attend(x):
            q = m.heads_of(m.rms_norm(m.linear(x, "attn_q", m.heads * m.head_dim), "attn_q_norm"))
            k = m.heads_of(m.rms_norm(m.linear(x, "attn_k", m.kv_heads * m.head_dim), "attn_k_norm"))
            v = m.heads_of(m.linear(x, "attn_v", m.kv_heads * m.head_dim))
            how = (local, False, 1.0) if windowed else (turn, False, magnitude)
            y = attention(rope(q, *how), rope(k, *how), v, window=window if windowed else None)
            return m.linear(y, "attn_output", m.width)

        return after(m, x, attend)

    through(m, layer, tied=False)


def olmo3():
    olmo2("olmo3", 5)


def seed_oss():
    m = Model("seed_oss", "seed_oss", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000000.0})
    head_dim(m, 16)
    turn = angles(1e7, 16)

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn, bias=True)
        return x + swiglu(m, m.rms_norm(x, "post_attention_norm"))

    through(m, layer, tied=False)


def of_experts(case, layers, experts, base=10000.0, **meta):
    meta = {"expert_count": experts, "expert_used_count": 2, "expert_feed_forward_length": 24, **meta}
    return Model(case, case, layers, 32, 4, 2, 48, **RMS, **meta, **{"rope.freq_base": base})


def qwen2moe():
    m = of_experts("qwen2moe", 2, 4, 1000000.0, expert_shared_feed_forward_length=40)
    turn = angles(1e6, m.head_dim)

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn, bias=True)
        return x + routed(m, m.rms_norm(x, "ffn_norm"), 4, 2, 24, shared=40, normalize=False, gate=True)

    through(m, layer, tied=False)


def by_sigmoid(m, x, i):
    """A dense first layer, then experts by sigmoids and a bias, scaled by 2.5, and a shared one."""
    return swiglu(m, x) if i == 0 else routed(m, x, 4, 2, 24, 24, sigmoid=True, bias=True, scale=2.5)


SIGMOID = {"leading_dense_block_count": 1, "expert_shared_count": 1, "expert_weights_scale": 2.5}
SIGMOID |= {"expert_weights_norm": True, "expert_gating_func": 2}


def glm4moe():
    """The file has another layer, which predicts a further token."""
    m = of_experts("glm4moe", 3, 4, **SIGMOID, nextn_predict_layers=1)
    head_dim(m, 16)
    m.set(**{"rope.dimension_count": 8})
    turn = angles(1e4, 8)

    def layer(i, x):
        if i == 2:
            m.vector(m.blk + "nextn.enorm.weight", m.width)
            m.vector(m.blk + "attn_norm.weight", m.width)
            return x
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"), bias=True)
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        return x + by_sigmoid(m, m.rms_norm(x, "post_attention_norm"), i)

    through(m, layer, tied=False)


def dots1():
    m = of_experts("dots1", 2, 4, **SIGMOID)
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        return x + by_sigmoid(m, m.rms_norm(x, "ffn_norm"), i)

    through(m, layer, tied=False)


def latent_attention(m, x, turn, split, query_rank, rank, fixed, value, factor):
    """Multi-head latent attention in its plain form: each head's keys and values are made of a latent vector. split has
    the matrix of the keys, transposed, and that of the values as two weights, as files for the absorbed form do."""
    heads, turned = m.heads, 2 * len(turn)
    size = fixed + turned
    q = m.rms_norm(m.linear(x, "attn_q_a", query_rank), "attn_q_a_norm") if query_rank else x
    q = m.linear(q, "attn_q_b" if query_rank else "attn_q", heads * size).reshape(len(x), heads, size)
    both = m.linear(x, "attn_kv_a_mqa", rank + turned)
    latent, shared = m.rms_norm(both[:, :rank], "attn_kv_a_norm"), rope(both[:, None, rank:], turn, True)
    if split:
        of_keys = m.w(m.blk + "attn_k_b.weight", heads, rank, fixed).transpose(0, 2, 1)
        of_values = m.w(m.blk + "attn_v_b.weight", heads, value, rank)
    else:
        kv = m.w(m.blk + "attn_kv_b.weight", heads * (fixed + value), rank).reshape(heads, fixed + value, rank)
        of_keys, of_values = kv[:, :fixed], kv[:, fixed:]
    k = np.concatenate([np.einsum("tr,hdr->thd", latent, of_keys), np.repeat(shared, heads, 1)], 2)
    v = np.einsum("tr,hdr->thd", latent, of_values)
    q = np.concatenate([q[..., :fixed], rope(q[..., fixed:], turn, True)], 2)
    y = np.zeros((len(x), heads, value))
    for t in range(len(x)):
        score = np.einsum("hd,shd->hs", q[t], k[: t + 1]) * factor**2 / size**0.5
        share = np.exp(score - score.max(1, keepdims=True))
        y[t] = np.einsum("hs,shd->hd", share / share.sum(1, keepdims=True), v[: t + 1])
    return m.linear(y.reshape(len(x), -1), "attn_output", m.width)


def deepseek2(case, absorbed, query_rank, rank, fixed, value, turn, factor=1.0, **routing):
    meta = {"attention.kv_lora_rank": rank, "rope.dimension_count": 2 * len(turn), "leading_dense_block_count": 1}
    meta |= {"expert_shared_count": 1, "expert_weights_scale": routing["scale"], "expert_count": 8}
    meta |= {"expert_used_count": 3, "expert_feed_forward_length": 32, "rope.freq_base": 10000.0}
    m = Model(case, "deepseek2", 3, 32, 4, 1 if absorbed else 4, 64, **RMS, **meta)
    if query_rank:
        m.set(**{"attention.q_lora_rank": query_rank})
    if routing.get("sigmoid"):
        m.set(expert_gating_func=2, expert_weights_norm=True)
    if routing.get("groups"):
        m.set(expert_group_count=routing["groups"], expert_group_used_count=routing["best_groups"])
    suffix = "_mla" if absorbed else ""
    m.set(**{"attention.key_length" + suffix: fixed + 2 * len(turn), "attention.value_length" + suffix: value})
    if absorbed:
        m.set(**{"attention.key_length": rank + 2 * len(turn), "attention.value_length": rank})

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        x = x + latent_attention(m, h, turn, absorbed, query_rank, rank, fixed, value, factor)
        h = m.rms_norm(x, "ffn_norm")
        return x + (swiglu(m, h) if i == 0 else routed(m, h, 8, 3, 32, 32, **routing))

    if factor != 1:
        scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 512, "yarn_log_multiplier": 0.0707}
        m.set(**{"rope.scaling." + key: v for key, v in scaling.items()})
    through(m, layer, tied=False)


def deepseek_v3():
    deepseek2("deepseek2", True, 32, 64, 32, 32, angles(10000.0, 32), sigmoid=True, bias=True, scale=2.5, groups=4,
              best_groups=2)


def deepseek_v2():
    """V2: the softmax of the scores, not normalized, and groups by their best expert. YaRN scales the scores."""
    turn, _ = yarn(10000.0, 8, 4.0, 512)
    deepseek2("deepseek2-v2", False, 0, 24, 16, 12, turn, 1 + 0.0707 * np.log(4), normalize=False, scale=4.0, groups=4,
              best_groups=2)


def minimax_m2():
    m = of_experts("minimax-m2", 2, 4, 5000000.0, expert_gating_func=2)
    head_dim(m, 16)
    m.set(**{"rope.dimension_count": 8})
    turn = angles(5e6, 8)

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        q = m.heads_of(m.rms_norm(m.linear(h, "attn_q", m.heads * 16), "attn_q_norm"))
        k = m.heads_of(m.rms_norm(m.linear(h, "attn_k", m.kv_heads * 16), "attn_k_norm"))
        v = m.heads_of(m.linear(h, "attn_v", m.kv_heads * 16))
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width)
        return x + routed(m, m.rms_norm(x, "ffn_norm"), 4, 2, 24, sigmoid=True, bias=True)

    through(m, layer, tied=False)


def bailingmoe():
    m = of_experts("bailingmoe", 2, 4, 600000.0, expert_shared_count=2, expert_weights_norm=True)
    like_llama("bailingmoe", lambda m, x: routed(m, x, 4, 2, 24, shared=48), 600000.0, m, tied=False)


def bailingmoe2():
    m = of_experts("bailingmoe2", 3, 8, 600000.0, **SIGMOID, expert_group_count=4, expert_group_used_count=2)
    m.set(expert_shared_feed_forward_length=24)
    head_dim(m, 16)
    m.set(**{"rope.dimension_count": 8})
    turn = angles(6e5, 8)

    def layer(i, x):
        qkv = m.linear(m.rms_norm(x, "attn_norm"), "attn_qkv", (m.heads + 2 * m.kv_heads) * 16)
        q, k, v = np.split(m.heads_of(qkv), [m.heads, m.heads + m.kv_heads], 1)
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        h = m.rms_norm(x, "ffn_norm")
        how = {"sigmoid": True, "bias": True, "scale": 2.5, "groups": 4, "best_groups": 2}
        return x + (swiglu(m, h) if i == 0 else routed(m, h, 8, 2, 24, 24, **how))

    through(m, layer, tied=False)


def sparse_mixer(score, near):
    """The two best experts. The weight of each is its softmax over the scores near it, less those found before."""
    left, found = list(range(len(score))), []
    for _ in range(2):
        best = max(left, key=lambda e: score[e])
        others = [e for e in left if (score[best] - score[e]) / max(abs(score[e]), score[best]) <= near]
        found.append((best, 1 / sum(np.exp(score[e] - score[best]) for e in others)))
        left.remove(best)
    return found


def phimoe():
    """The rows of the router are alike, so that scores are near each other."""
    m = Model("phimoe", "phimoe", 2, 32, 4, 2, 24, **RMS, expert_count=6, expert_used_count=2)
    m.set(**{"rope.freq_base": 10000.0, "rope.scaling.type": "longrope", "rope.scaling.attn_factor": 1.1875})
    m.set(**{"rope.scaling.original_context_length": 8})
    m.w("rope_factors_short.weight", 4, offset=1.5, scale=0.5)
    turn = angles(1e4, 8) / m.w("rope_factors_long.weight", 4, offset=4.0, scale=2.0)
    own = m.w("output.bias", 40, scale=0.25)

    def layer(i, x):
        q, k, v = projections(m, m.layer_norm(x, "attn_norm"), bias=True)
        q, k = rope(q, turn, magnitude=1.1875), rope(k, turn, magnitude=1.1875)
        x = x + m.linear(attention(q, k, v), "attn_output", m.width, bias=True)
        h = m.layer_norm(x, "ffn_norm")
        score = h @ m.w(m.blk + "ffn_gate_inp.weight", 6, m.width, offset=0.25, scale=0.015625).T
        gate, up = (m.w(m.blk + f"ffn_{name}_exps.weight", 6, 24, m.width) for name in ("gate", "up"))
        down = m.w(m.blk + "ffn_down_exps.weight", 6, m.width, 24)
        for t, row in enumerate(h):
            for e, share in sparse_mixer(score[t], 0.02):
                a, b = gate[e] @ row, up[e] @ row
                x[t] += share * (down[e] @ (a / (1 + np.exp(-a)) * b))
        return x

    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        x = layer(i, x)
    m.blk = ""
    m.write(m.unembed(m.layer_norm(x, "output_norm"), tied=False) + own)


def like_llama(case, feed_forward=swiglu, base=500000.0, m=None, tied=True):
    m = m or Model(case, case, 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": base})
    turn = angles(base, m.head_dim)

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn, True)
        return x + feed_forward(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, tied=tied)


def ernie4_5():
    like_llama("ernie4_5")


def ernie4_5_moe():
    """Every second layer from the second on has experts; the shared one is as wide as two."""
    m = of_experts("ernie4_5-moe", 4, 4, 500000.0, leading_dense_block_count=1, interleave_moe_layer_step=2)
    m.set(expert_shared_count=2)

    def feed_forward(m, x):
        sparse = m.blk in ("blk.1.", "blk.3.")
        return routed(m, x, 4, 2, 24, shared=48, bias=True) if sparse else swiglu(m, x)

    like_llama("ernie4_5-moe", feed_forward, m=m)


def hunyuan(case="hunyuan-dense", feed_forward=swiglu, m=None):
    m = m or Model(case, case, 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 20000.0})
    head_dim(m, 16)
    turn = angles(2e4, 16)

    def layer(i, x):
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        q, k = m.rms_norm(rope(q, turn), "attn_q_norm"), m.rms_norm(rope(k, turn), "attn_k_norm")
        x = x + m.linear(attention(q, k, v), "attn_output", m.width)
        return x + feed_forward(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer)


def hunyuan_moe():
    m = of_experts("hunyuan-moe", 2, 4, 20000.0, expert_shared_feed_forward_length=48, expert_shared_count=1)
    hunyuan("hunyuan-moe", lambda m, x: routed(m, x, 4, 2, 24, shared=48), m)


def internlm2():
    like_llama("internlm2", base=1000000.0, tied=False)


def fused(m, h, turn=None, bias=True, clamp=None, **options):
    """Attention with one matrix of queries, keys and values."""
    qkv = m.linear(h, "attn_qkv", (m.heads + 2 * m.kv_heads) * m.head_dim, bias)
    if clamp:
        qkv = np.clip(qkv, -clamp, clamp)
    q, k, v = np.split(m.heads_of(qkv), [m.heads, m.heads + m.kv_heads], 1)
    if turn is not None:
        q, k = rope(q, turn), rope(k, turn)
    return m.linear(attention(q, k, v, **options), "attn_output", m.width, bias)


def perceptron(m, h, activation, bias=True):
    return m.linear(activation(m.linear(h, "ffn_up", m.hidden, bias)), "ffn_down", m.width, bias)


def gptneox(case="gptneox", parallel=True):
    m = Model(case, "gptneox", 2, 32, 4, 4, 48, **LAYER_NORM, **{"rope.freq_base": 10000.0})
    del m.meta["gptneox.attention.head_count_kv"]  # files leave it out
    m.set(**{"rope.dimension_count": 4, "use_parallel_residual": parallel})
    turn = angles(1e4, 4)

    def layer(i, x):
        y = x + fused(m, m.layer_norm(x, "attn_norm"), turn)
        return y + perceptron(m, m.layer_norm(x if parallel else y, "ffn_norm"), gelu_erf)

    through(m, layer, m.layer_norm, tied=False)


def gptneox_serial():
    gptneox("gptneox-serial", False)


def phi2():
    m = Model("phi2", "phi2", 2, 32, 4, 4, 48, **LAYER_NORM, **{"rope.freq_base": 10000.0})
    m.set(**{"rope.dimension_count": 4})
    turn = angles(1e4, 4)
    own = m.w("output.bias", 40, scale=0.25)

    def layer(i, x):
        h = m.layer_norm(x, "attn_norm")
        q, k, v = projections(m, h, bias=True)
        y = m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width, bias=True)
        return x + y + perceptron(m, h, gelu)

    x = m.embed()
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        x = layer(i, x)
    m.blk = ""
    m.write(m.unembed(m.layer_norm(x, "output_norm"), tied=False) + own)


def stablelm(case="stablelm", large=False):
    m = Model(case, "stablelm", 2, 32, 4, 2, 48, **LAYER_NORM, **{"rope.freq_base": 10000.0})
    m.set(**{"rope.dimension_count": 2})
    turn = angles(1e4, 2)

    def each_head(x, name):
        if not large:
            return x
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * m.w(m.blk + name + ".weight", *x.shape[1:], offset=1.0, scale=0.5)

    def layer(i, x):
        h = m.layer_norm(x, "attn_norm")
        q, k, v = projections(m, h, bias=not large)
        q, k = rope(each_head(q, "attn_q_norm"), turn), rope(each_head(k, "attn_k_norm"), turn)
        y = x + m.linear(attention(q, k, v), "attn_output", m.width)
        return y + swiglu(m, h if large else m.layer_norm(y, "ffn_norm"))

    through(m, layer, m.layer_norm, tied=False)


def stablelm_large():
    stablelm("stablelm-large", True)


def starcoder():
    m = Model("starcoder", "starcoder", 2, 32, 4, 1, 48, **LAYER_NORM)
    x = m.embed() + m.w("position_embd.weight", 32, m.width, scale=1.0)[: len(TOKENS)]

    def layer(i, x):
        x = x + fused(m, m.layer_norm(x, "attn_norm"))
        return x + perceptron(m, m.layer_norm(x, "ffn_norm"), gelu)

    through(m, layer, m.layer_norm, x=x)


def slopes(heads, most=8.0):
    """ALiBi's slopes: those of a power of two, and then every second one of the next."""
    whole = 2 ** int(np.log2(heads))
    first = [2 ** (-most * (h + 1) / whole) for h in range(whole)]
    return np.array(first + [2 ** (-most * (h + 0.5) / whole) for h in range(heads - whole)])


def bloom():
    m = Model("bloom", "bloom", 2, 48, 6, 6, 64, **LAYER_NORM)

    def layer(i, x):
        x = x + fused(m, m.layer_norm(x, "attn_norm"), slopes=slopes(6))
        return x + perceptron(m, m.layer_norm(x, "ffn_norm"), gelu)

    through(m, layer, m.layer_norm, x=m.layer_norm(m.embed(), "token_embd_norm"))


def mpt():
    m = Model("mpt", "mpt", 2, 32, 4, 4, 128, **LAYER_NORM)
    del m.meta["mpt.attention.head_count_kv"]
    m.set(**{"attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 0.5})
    norm = lambda x, name: m.layer_norm(x, name, bias=False)

    def layer(i, x):
        x = x + fused(m, norm(x, "attn_norm"), bias=False, clamp=0.5, slopes=slopes(4))
        return x + perceptron(m, norm(x, "ffn_norm"), gelu_erf, bias=False)

    through(m, layer, norm)


def encoder(m, x, layer, norm=None):
    m.set(**{"attention.causal": False})
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        x = layer(i, x)
    m.blk = ""
    m.write_pooled(norm(x, "output_norm") if norm else x)


def joined(m, x, activation):
    gate, up = np.split(m.linear(x, "ffn_up", 2 * m.hidden), 2, 1)
    return activation(gate) * up


def modern_bert(case="modern-bert", **meta):
    """The first layer has no norm, and the first of each three has no window."""
    m = Model(case, "modern-bert", 5, 32, 4, 4, 32, **LAYER_NORM, **{"attention.sliding_window": 6})
    del m.meta["modern-bert.attention.head_count_kv"]
    m.set(**meta)
    m.set(**{"rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0, "attention.sliding_window_pattern": 3})
    norm = lambda x, name: m.layer_norm(x, name, bias=False)

    def layer(i, x):
        everything = i % 3 == 0
        turn = angles(1.6e5 if everything else 1e4, m.head_dim)
        h = x if i == 0 else norm(x, "attn_norm")
        x = x + fused(m, h, turn, False, causal=False, near=None if everything else 3)
        return x + m.linear(joined(m, norm(x, "ffn_norm"), gelu_erf), "ffn_down", m.width)

    encoder(m, norm(m.embed(), "token_embd_norm"), layer, norm)


def modern_bert_ranks():
    modern_bert("modern-rank", pooling_type=4)


def jina_bert_v2(case="jina-bert-v2", code=False):
    m = Model(case, "jina-bert-v2", 2, 32, 4, 4, 48, **{"attention.layer_norm_epsilon": 1e-12})
    del m.meta["jina-bert-v2.attention.head_count_kv"]

    def layer(i, x):
        q, k, v = (m.linear(x, "attn_" + name, m.width, bias=True) for name in "qkv")
        if code:
            q, k = m.layer_norm(q, "attn_q_norm"), m.layer_norm(k, "attn_k_norm")
        y = attention(*(m.heads_of(part) for part in (q, k, v)), causal=False, slopes=slopes(4))
        y = m.layer_norm(x + m.linear(y, "attn_output", m.width, bias=True), "attn_output_norm")
        if code:
            y = m.layer_norm(x + y, "attn_norm_2")
        hidden = joined(m, y, gelu_erf)
        return m.layer_norm(y + m.linear(hidden, "ffn_down", m.width, bias=True), "layer_output_norm")

    x = m.embed() + m.w("token_types.weight", 2, m.width, scale=1.0)[0]
    encoder(m, m.layer_norm(x, "token_embd_norm"), layer)


def jina_bert_code():
    jina_bert_v2("jina-bert-code", True)


def gemma_embedding():
    m = Model("gemma-embedding", "gemma-embedding", 7, 32, 2, 1, 32, **RMS, **{"attention.sliding_window": 6})
    m.set(**{"rope.freq_base": 1000000.0})

    def layer(i, x):
        everything = i % 6 == 5
        turn = angles(1e6 if everything else 1e4, m.head_dim)
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        y = m.linear(attention(q, k, v, causal=False, near=None if everything else 3), "attn_output", m.width)
        x = x + m.rms_norm(y, "post_attention_norm")
        h = m.rms_norm(x, "ffn_norm")
        h = gelu(m.linear(h, "ffn_gate", m.hidden)) * m.linear(h, "ffn_up", m.hidden)
        return x + m.rms_norm(m.linear(h, "ffn_down", m.width), "post_ffw_norm")

    encoder(m, m.embed() * m.width**0.5, layer, m.rms_norm)


def gemma3n():
    """Of six layers the third and the fifth have no window, and the last two have the keys and values of the third and
    the fourth. Gates of the first two layers are sparse."""
    pattern, sparse, scale = [True, True, False, True, False, True], 2, 0.25
    m = Model("gemma3n", "gemma3n", 6, 32, 2, 1, 48, **RMS, **{"attention.sliding_window": 4})
    head_dim(m, 16)
    m.set(**{"attention.sliding_window_pattern": pattern, "attention.shared_kv_layers": 2, "altup.active_idx": 0})
    m.set(**{"altup.num_inputs": 3, "embedding_length_per_layer_input": 8, "rope.freq_base": 1000000.0})
    m.set(**{"rope.freq_base_swa": 10000.0, "final_logit_softcapping": 3.0})
    m.set(activation_sparsity_scale=[scale] * sparse + [float("-inf")] * 4)
    size = lambda v: np.sqrt(np.mean(v * v, -1, keepdims=True))
    x = m.embed() * m.width**0.5
    own = m.w("per_layer_token_embd.weight", 36, 6 * 8, scale=1.0)[np.where(np.array(TOKENS) < 36, TOKENS, 0)]
    inputs = m.linear(x, "per_layer_model_proj", 6 * 8).reshape(-1, 6, 8) / m.width**0.5
    inputs = (own.reshape(-1, 6, 8) * 8**0.5 + m.rms_norm(inputs, "per_layer_proj_norm")) / 2**0.5
    more = [x @ w.T for w in m.w("altup_proj.weight", 2, m.width, m.width)]
    x = np.stack([x, *(y * size(x) / size(y) for y in more)])
    kept = {}

    def modalities(v):
        return np.tanh(m.linear(m.rms_norm(v, "altup_router_norm") / m.width, "altup_router", 3))

    for i in range(m.layers):
        m.blk = f"blk.{i}."
        mixing = m.linear(modalities(x[0]), "altup_predict_coef", 9).reshape(-1, 3, 3)
        predicted = x + np.einsum("tji,itw->jtw", mixing, x)
        h = m.rms_norm(predicted[0], "attn_norm")
        laurel = h + m.rms_norm(m.linear(m.linear(h, "laurel_l", 4), "laurel_r", m.width), "laurel_post_norm")
        turn = angles(1e4 if pattern[i] else 1e6, 16)
        q, k, v = projections(m, h)
        q, k = rope(m.rms_norm(q, "attn_q_norm"), turn), rope(m.rms_norm(k, "attn_k_norm"), turn)
        v = v / np.sqrt(np.mean(v * v, -1, keepdims=True) + 1e-5)
        if i < 4:
            kept[pattern[i]] = k, v
        k, v = kept[pattern[i]]
        y = m.linear(attention(q, k, v, scale=1, window=4 if pattern[i] else None), "attn_output", m.width)
        y = (predicted[0] + m.rms_norm(y, "post_attention_norm") + laurel) / 2**0.5
        h = m.rms_norm(y, "ffn_norm")
        gate = m.linear(h, "ffn_gate", m.hidden)
        if i < sparse:
            gate = np.maximum(gate - gate.mean(-1, keepdims=True) - scale * gate.std(-1, keepdims=True), 0)
        h = m.linear(gelu(gate) * m.linear(h, "ffn_up", m.hidden), "ffn_down", m.width)
        y = y + m.rms_norm(h, "post_ffw_norm")
        share = m.linear(modalities(y), "altup_correct_coef", 3) + 1
        x = predicted + share.T[:, :, None] * (y - predicted[0])
        first = gelu(m.linear(x[0] * m.vector(m.blk + "altup_correct_scale.weight", m.width), "inp_gate", 8))
        x[1:] += m.rms_norm(m.linear(first * inputs[:, i], "proj", m.width), "post_norm")
    m.blk = ""
    more = [y @ w.T for y, w in zip(x[1:], m.w("altup_unembd_proj.weight", 2, m.width, m.width))]
    x = np.mean([x[0], *(y * size(x[0]) / size(y) for y in more)], 0)
    m.write(3 * np.tanh(m.unembed(m.rms_norm(x, "output_norm")) / 3))


def gemma4():
    """Of six layers the third and the fifth have no window, larger heads, and no matrix of values. The last two have the
    keys and values of the third and the fourth, and are wider."""
    pattern = [True, True, False, True, False, True]
    m = Model("gemma4", "gemma4", 6, 32, 4, 2, 48, **RMS, **{"attention.sliding_window": 4})
    m.set(**{"attention.key_length": 16, "attention.value_length": 16, "attention.key_length_swa": 8})
    m.set(**{"rope.dimension_count": 16, "rope.dimension_count_swa": 8, "rope.freq_base": 1000000.0})
    m.set(**{"rope.freq_base_swa": 10000.0, "attention.sliding_window_pattern": pattern, "attention.shared_kv_layers": 2})
    m.set(**{"embedding_length_per_layer_input": 8, "final_logit_softcapping": 3.0})
    m.set(**{"attention.head_count_kv": [2 if w else 1 for w in pattern], "feed_forward_length": [48] * 4 + [96] * 2})
    whole = angles(1e6, 16) / m.given("rope_freqs.weight", [1.0] * 2 + [1e30] * 6)
    x, kept = m.embed() * m.width**0.5, {}
    own = m.w("per_layer_token_embd.weight", 40, 6 * 8, scale=1.0)[TOKENS]
    inputs = m.linear(x, "per_layer_model_proj", 6 * 8).reshape(-1, 6, 8) / m.width**0.5
    inputs = (own.reshape(-1, 6, 8) * 8**0.5 + m.rms_norm(inputs, "per_layer_proj_norm")) / 2**0.5
    for i, windowed in enumerate(pattern):
        m.blk, m.head_dim = f"blk.{i}.", 8 if windowed else 16
        turn, hidden, groups = angles(1e4, 8) if windowed else whole, 96 if i > 3 else 48, 2 if windowed else 1
        h = m.rms_norm(x, "attn_norm")
        q = rope(m.rms_norm(m.heads_of(m.linear(h, "attn_q", m.heads * m.head_dim)), "attn_q_norm"), turn)
        if i < 4:
            k = m.heads_of(m.linear(h, "attn_k", groups * m.head_dim))
            v = m.heads_of(m.linear(h, "attn_v", groups * m.head_dim)) if windowed else k
            v = v / np.sqrt(np.mean(v * v, -1, keepdims=True) + 1e-5)
            kept[windowed] = rope(m.rms_norm(k, "attn_k_norm"), turn), v
        y = attention(q, *kept[windowed], scale=1, window=4 if windowed else None)
        x = x + m.rms_norm(m.linear(y, "attn_output", m.width), "post_attention_norm")
        h = m.rms_norm(x, "ffn_norm")
        h = m.linear(gelu(m.linear(h, "ffn_gate", hidden)) * m.linear(h, "ffn_up", hidden), "ffn_down", m.width)
        x = x + m.rms_norm(h, "post_ffw_norm")
        h = m.linear(gelu(m.linear(x, "inp_gate", 8)) * inputs[:, i], "proj", m.width)
        x = (x + m.rms_norm(h, "post_norm")) * m.vector(m.blk + "layer_output_scale.weight", 1)
    m.blk = ""
    m.write(3 * np.tanh(m.unembed(m.rms_norm(x, "output_norm")) / 3))


def gemma4_moe(case="gemma4-moe", joined=True):
    """Experts next to the feed-forward layer, with norms and a router of their own. The second of three layers has no
    window and no matrix of values."""
    pattern = [True, False, True]
    m = Model(case, "gemma4", 3, 32, 4, 2, 48, **RMS, **{"attention.sliding_window": 4})
    m.set(**{"attention.key_length": 16, "attention.value_length": 16, "attention.key_length_swa": 8})
    m.set(**{"rope.dimension_count": 16, "rope.dimension_count_swa": 8, "rope.freq_base": 1000000.0})
    m.set(**{"rope.freq_base_swa": 10000.0, "attention.sliding_window_pattern": pattern})
    m.set(**{"attention.head_count_kv": [2, 1, 2], "final_logit_softcapping": 3.0})
    m.set(**{"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24})
    x = m.embed() * m.width**0.5
    plain = lambda v: v / np.sqrt(np.mean(v * v, -1, keepdims=True) + 1e-5)
    for i, windowed in enumerate(pattern):
        m.blk, m.head_dim, groups = f"blk.{i}.", 8 if windowed else 16, 2 if windowed else 1
        turn = angles(1e4, 8) if windowed else angles(1e6, 16)
        h = m.rms_norm(x, "attn_norm")
        q = rope(m.rms_norm(m.heads_of(m.linear(h, "attn_q", m.heads * m.head_dim)), "attn_q_norm"), turn)
        k = m.heads_of(m.linear(h, "attn_k", groups * m.head_dim))
        v = plain(m.heads_of(m.linear(h, "attn_v", groups * m.head_dim)) if windowed else k)
        k = rope(m.rms_norm(k, "attn_k_norm"), turn)
        y = attention(q, k, v, scale=1, window=4 if windowed else None)
        x = x + m.rms_norm(m.linear(y, "attn_output", m.width), "post_attention_norm")
        h = m.rms_norm(x, "ffn_norm")
        h = m.linear(gelu(m.linear(h, "ffn_gate", 48)) * m.linear(h, "ffn_up", 48), "ffn_down", m.width)
        scored = plain(x) / m.width**0.5 * m.vector(m.blk + "ffn_gate_inp.scale", m.width)
        score = m.linear(scored, "ffn_gate_inp", 4)
        chance = np.exp(score) / np.exp(score).sum(-1, keepdims=True)
        if joined:
            both = m.w(m.blk + "ffn_gate_up_exps.weight", 4, 48, m.width)
            gates, ups = both[:, :24], both[:, 24:]
        else:
            gates, ups = (m.w(m.blk + f"ffn_{name}_exps.weight", 4, 24, m.width) for name in ("gate", "up"))
        downs = m.w(m.blk + "ffn_down_exps.weight", 4, m.width, 24)
        factor = m.vector(m.blk + "ffn_down_exps.scale", 4)
        out = np.zeros_like(x)
        for t, row in enumerate(m.rms_norm(x, "pre_ffw_norm_2")):
            best = np.argsort(-chance[t])[:2]
            for e in best:
                share = chance[t][e] / chance[t][best].sum() * factor[e]
                out[t] += share * (downs[e] @ (gelu(gates[e] @ row) * (ups[e] @ row)))
        h = m.rms_norm(h, "post_ffw_norm_1") + m.rms_norm(out, "post_ffw_norm_2")
        x = x + m.rms_norm(h, "post_ffw_norm")
        x = x * m.vector(m.blk + "layer_output_scale.weight", 1)
    m.blk = ""
    m.write(3 * np.tanh(m.unembed(m.rms_norm(x, "output_norm")) / 3))


def gemma4_moe_apart():
    gemma4_moe("gemma4-moe-apart", joined=False)


def squared_relu(x):
    return np.maximum(x, 0) ** 2


def olmoe():
    m = Model("olmoe", "olmoe", 2, 32, 4, 2, 24, **RMS, **{"rope.freq_base": 10000.0})
    m.set(expert_count=4, expert_used_count=2)
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        q = m.rms_norm(m.linear(h, "attn_q", m.width), "attn_q_norm")
        k = m.rms_norm(m.linear(h, "attn_k", m.kv_heads * m.head_dim), "attn_k_norm")
        v = m.linear(h, "attn_v", m.kv_heads * m.head_dim)
        q, k, v = (m.heads_of(part) for part in (q, k, v))
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width)
        return x + routed(m, m.rms_norm(x, "ffn_norm"), 4, 2, 24, normalize=False)

    through(m, layer, tied=False)


def nemotron():
    m = Model("nemotron", "nemotron", 2, 32, 4, 2, 48, **LAYER_NORM, **{"rope.freq_base": 10000.0})
    head_dim(m, 16)
    m.set(**{"rope.dimension_count": 8})
    turn = angles(1e4, 8)

    def layer(i, x):
        x = x + attended(m, m.layer_norm(x, "attn_norm"), turn)
        return x + perceptron(m, m.layer_norm(x, "ffn_norm"), squared_relu, bias=False)

    through(m, layer, m.layer_norm, tied=False)


def arcee():
    m = Model("arcee", "arcee", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0})
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn, True)
        return x + perceptron(m, m.rms_norm(x, "ffn_norm"), squared_relu, bias=False)

    through(m, layer, tied=False)


def exaone():
    """Angles that turn fewer than four times in the text of training are slower, and those that turn not once are 8 times
    slower."""
    m = Model("exaone", "exaone", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 500.0})
    turn = angles(500.0, m.head_dim)
    part = np.clip((64 * turn / (2 * np.pi) - 1) / (4 - 1), 0, 1)
    turn = turn / m.given("rope_freqs.weight", list(1 / ((1 - part) / 8 + part)))

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer)


def chatglm(case="chatglm", one=True):
    m = Model(case, "chatglm", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 50000.0, "rope.dimension_count": 4})
    turn = angles(5e4, 4)

    def layer(i, x):
        h = m.rms_norm(x, "attn_norm")
        if one:
            qkv = m.heads_of(m.linear(h, "attn_qkv", (m.heads + 2 * m.kv_heads) * m.head_dim, bias=True))
            q, k, v = np.split(qkv, [m.heads, m.heads + m.kv_heads], 1)
        else:
            q, k, v = projections(m, h, bias=True)
        x = x + m.linear(attention(rope(q, turn, True), rope(k, turn, True), v), "attn_output", m.width)
        return x + joined_swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, tied=False)


def chatglm_apart():
    chatglm("chatglm-apart", one=False)


def deepseek():
    m = of_experts("deepseek", 3, 4, leading_dense_block_count=1, expert_shared_count=2)
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn, True)
        h = m.rms_norm(x, "ffn_norm")
        return x + (swiglu(m, h) if i == 0 else routed(m, h, 4, 2, 24, shared=48, normalize=False))

    through(m, layer, tied=False)


def minicpm(case="minicpm", embedding=6.0, depth=0.75, base=16, **meta):
    m = Model(case, "minicpm", 4, 32, 4, 2, 48, **RMS, **meta, **{"rope.freq_base": 10000.0})
    turn, scale = angles(1e4, m.head_dim), depth / m.layers**0.5

    def layer(i, x):
        x = x + scale * attended(m, m.rms_norm(x, "attn_norm"), turn, True)
        return x + scale * swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, scale=base / m.width, x=embedding * m.embed())


def minicpm_named():
    minicpm(embedding_scale=6.0, residual_scale=0.375, logit_scale=2.0)


def minicpm_old():
    """Old files lack the scales: they are those of the first models."""
    minicpm("minicpm-old", 12.0, 1.4, 256)


def qwen():
    """The file has twice the hidden units."""
    m = Model("qwen", "qwen", 2, 32, 4, 4, 96, **RMS, **{"rope.freq_base": 10000.0})
    del m.meta["qwen.attention.head_count_kv"]
    m.hidden, turn = 48, angles(1e4, m.head_dim)

    def layer(i, x):
        qkv = m.linear(m.rms_norm(x, "attn_norm"), "attn_qkv", 3 * m.width, bias=True)
        q, k, v = (m.heads_of(part) for part in np.split(qkv, 3, 1))
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, tied=False)


def orion():
    m = Model("orion", "orion", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0})
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        x = x + attended(m, m.layer_norm(x, "attn_norm"), turn)
        return x + swiglu(m, m.layer_norm(x, "ffn_norm"))

    through(m, layer, m.layer_norm, tied=False)


def xverse():
    m = Model("xverse", "xverse", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 10000.0})
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        x = x + attended(m, m.rms_norm(x, "attn_norm"), turn)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm"))

    through(m, layer, tied=False)


def codeshell():
    m = Model("codeshell", "codeshell", 2, 32, 4, 2, 48, **LAYER_NORM, **{"rope.freq_base": 10000.0})
    turn = angles(1e4, m.head_dim)

    def layer(i, x):
        qkv = m.linear(m.layer_norm(x, "attn_norm"), "attn_qkv", (m.heads + 2 * m.kv_heads) * m.head_dim, bias=True)
        q, k, v = np.split(m.heads_of(qkv), [m.heads, m.heads + m.kv_heads], 1)
        x = x + m.linear(attention(rope(q, turn), rope(k, turn), v), "attn_output", m.width, bias=True)
        return x + perceptron(m, m.layer_norm(x, "ffn_norm"), gelu)

    through(m, layer, m.layer_norm)


def llama4():
    """Three of four layers see a chunk of five tokens. The others see all, without positions, and their queries grow from
    the second token on, each three tokens. Every second layer has experts."""
    m = Model("llama4", "llama4", 5, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 500000.0})
    m.set(expert_count=4, expert_used_count=1, expert_feed_forward_length=24, interleave_moe_layer_step=2)
    m.set(**{"attention.sliding_window": 5, "attention.temperature_length": 3, "attention.temperature_scale": 0.25})
    turn = angles(5e5, m.head_dim)
    unit = lambda v: v / np.sqrt(np.mean(v * v, -1, keepdims=True) + 1e-5)
    warmer = 1 + 0.25 * np.log1p((np.arange(len(TOKENS)) + 1) // 3)

    def experts(x):
        score = m.linear(x, "ffn_gate_inp", 4)
        gates, ups = (m.w(m.blk + f"ffn_{name}_exps.weight", 4, 24, m.width) for name in ("gate", "up"))
        downs = m.w(m.blk + "ffn_down_exps.weight", 4, m.width, 24)
        gate, up = (m.linear(x, f"ffn_{name}_shexp", 24) for name in ("gate", "up"))
        out = m.linear(silu(gate) * up, "ffn_down_shexp", m.width)
        for t, e in enumerate(score.argmax(1)):
            row = x[t] / (1 + np.exp(-score[t, e]))
            out[t] += downs[e] @ (silu(gates[e] @ row) * (ups[e] @ row))
        return out

    def layer(i, x):
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        if i % 4 == 3:
            y = attention(q * warmer[:, None, None], k, v)
        else:
            q, k = unit(rope(q, turn, True)), unit(rope(k, turn, True))
            y = np.concatenate([attention(*(part[at : at + 5] for part in (q, k, v))) for at in range(0, len(x), 5)])
        x = x + m.linear(y, "attn_output", m.width)
        h = m.rms_norm(x, "ffn_norm")
        return x + (experts(h) if i % 2 else swiglu(m, h))

    through(m, layer, tied=False)


def deci():
    """Layers without attention, with a matrix in its place, and without a feed-forward layer."""
    m = Model("deci", "deci", 5, 32, 4, 2, 256, **RMS, **{"rope.freq_base": 10000.0})
    heads, kv_heads, hidden = [4, 0, 4, 4, 4], [2, 0, 0, 4, 1], [256, 512, 256, 0, 256]
    m.set(**{"attention.head_count": heads, "attention.head_count_kv": kv_heads, "feed_forward_length": hidden})
    m.set(**{"attention.key_length": 8, "attention.value_length": 8, "rope.dimension_count": 8})
    turn = angles(1e4, 8)

    def layer(i, x):
        m.heads, m.kv_heads, m.hidden = heads[i], kv_heads[i], hidden[i]
        if m.kv_heads:
            x = x + attended(m, m.rms_norm(x, "attn_norm"), turn, True)
        elif m.heads:
            x = x + m.linear(m.rms_norm(x, "attn_norm"), "attn_output", m.width)
        return x + swiglu(m, m.rms_norm(x, "ffn_norm")) if m.hidden else x

    through(m, layer, tied=False)


FAMILIES = [granite, granitemoe, smollm3, glm4, mistral3, command_r, cohere2, exaone4, exaone4_small, olmo2, olmo3,
            seed_oss, qwen2moe, glm4moe, dots1, ernie4_5, ernie4_5_moe, hunyuan, hunyuan_moe, internlm2,
            gptneox, gptneox_serial, phi2, stablelm, stablelm_large, starcoder, bloom, mpt, modern_bert, modern_bert_ranks,
            jina_bert_v2, jina_bert_code, gemma_embedding, deepseek_v3, deepseek_v2,
            minimax_m2, bailingmoe, bailingmoe2, phimoe, gemma3n, gemma4, gemma4_moe, gemma4_moe_apart,
            olmoe, nemotron, arcee, exaone, chatglm, chatglm_apart, deepseek, minicpm_named, minicpm_old, deci,
            llama4, qwen, orion, xverse, codeshell]
