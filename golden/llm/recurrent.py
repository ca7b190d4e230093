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


RECURRENT = (mamba2,)
