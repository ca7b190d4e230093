"""Writes golden logits of language models that read a picture between texts, each computed in one pass, in float64."""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "llm"))
from support import RMS, Model, angles, gelu, projections, random, silu, swiglu  # noqa: E402

BEFORE, GRID, AFTER = [3, 17, 8, 8, 31], (2, 3), [25, 12, 39, 5, 22]
ROWS = GRID[0] * GRID[1]


def start(m, scale=1.0, deep=0):
    """The embedded texts, with the picture's rows between. deep more rows are for the first layers."""
    table = m.w("token_embd.weight", 40, m.width, scale=1.0)
    rows = random("picture", ROWS * m.width * (1 + deep)).reshape(ROWS, -1)
    parts = np.split(rows, 1 + deep, 1)
    x = np.concatenate([table[BEFORE] * scale, parts[0], table[AFTER] * scale])
    more = []
    for part in parts[1:]:
        full = np.zeros_like(x)
        full[len(BEFORE) : len(BEFORE) + ROWS] = part
        more.append(full)
    return x, more


def attention(q, k, v, sees):
    """Attention of q [T, H, D], where sees [T, T] says which keys a token attends to."""
    y = np.zeros_like(q)
    for h in range(q.shape[1]):
        g = h * k.shape[1] // q.shape[1]
        score = np.where(sees, q[:, h] @ k[:, g].T / q.shape[2] ** 0.5, -np.inf)
        share = np.exp(score - score.max(1, keepdims=True))
        y[:, h] = share / share.sum(1, keepdims=True) @ v[:, g]
    return y.reshape(len(q), -1)


def masks(n, window=None, both=False):
    row, column = np.arange(n)[:, None], np.arange(n)[None]
    sees = column <= row
    if window:
        sees &= column > row - window
    if both:
        inside = lambda i: (i >= len(BEFORE)) & (i < len(BEFORE) + ROWS)
        sees |= inside(row) & inside(column)
    return sees


def turn(x, angle):
    """Turns pairs i and i+D/2 of x [T, H, D] by angle [T, D/2]."""
    a, b = np.split(x, 2, -1)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def places():
    """Time, row and column of each token. After a picture the text goes on at the picture's larger side."""
    n = len(BEFORE)
    before = np.tile(np.arange(n), (3, 1))
    row, column = np.divmod(np.arange(ROWS), GRID[1])
    picture = np.stack([np.full(ROWS, n), n + row, n + column])
    after = np.tile(n + max(GRID) + np.arange(len(AFTER)), (3, 1))
    return np.concatenate([before, picture, after], 1)


def write(m, logits):
    logits = np.delete(logits, np.arange(len(BEFORE), len(BEFORE) + ROWS), 0)
    lines = lambda items: "\n" + ",\n".join(items) + "\n"
    meta = json.dumps({"general.architecture": m.architecture, **m.meta})
    weights = lines(f"{json.dumps(name)}: {json.dumps(made)}" for name, made in m.file.items())
    rows = lines(json.dumps([float(f"{v:.7g}") for v in row]) for row in logits)
    picture = json.dumps({"before": len(BEFORE), "grid": GRID})
    text = (f'{{"meta": {meta},\n"weights": {{{weights}}},\n"tokens": {BEFORE + AFTER},\n"picture": {picture},\n'
            f'"logits": [{rows}]}}\n')
    Path(__file__).with_name(f"mixed-{m.case}.json").write_text(text)


def llama():
    """The picture is like text."""
    m = Model("llama", "llama", 2, 32, 4, 2, 48, **RMS, **{"rope.freq_base": 500.0})
    x, _ = start(m)
    angle = np.arange(len(x))[:, None] * angles(500.0, 8)
    order = np.concatenate([np.arange(0, 8, 2), np.arange(1, 8, 2)])  # the file has pairs next to each other
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        q, k = turn(q[..., order], angle), turn(k[..., order], angle)
        x = x + m.linear(attention(q, k, v, masks(len(x))), "attn_output", m.width)
        x = x + swiglu(m, m.rms_norm(x, "ffn_norm"))
    m.blk = ""
    write(m, m.unembed(m.rms_norm(x, "output_norm"), tied=False))


def gemma3():
    """The picture's tokens see each other, also in layers with a window. Only text is scaled."""
    m = Model("gemma3", "gemma3", 7, 32, 2, 1, 32, **RMS, **{"attention.sliding_window": 4})
    m.set(**{"rope.freq_base": 1000000.0})
    x, _ = start(m, scale=m.width**0.5)
    at = np.arange(len(x))[:, None]
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        everything = i % 6 == 5
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"))
        angle = at * angles(1e6 if everything else 1e4, m.head_dim)
        q, k = turn(m.rms_norm(q, "attn_q_norm"), angle), turn(m.rms_norm(k, "attn_k_norm"), angle)
        y = attention(q, k, v, masks(len(x), None if everything else 4, both=True))
        x = x + m.rms_norm(m.linear(y, "attn_output", m.width), "post_attention_norm")
        h = m.rms_norm(x, "ffn_norm")
        h = gelu(m.linear(h, "ffn_gate", m.hidden)) * m.linear(h, "ffn_up", m.hidden)
        x = x + m.rms_norm(m.linear(h, "ffn_down", m.width), "post_ffw_norm")
    m.blk = ""
    write(m, m.unembed(m.rms_norm(x, "output_norm")))


def qwen(name, axis, sections, deep=0, **meta):
    """Pair i of a head turns by the time, the row or the column: axis[i]."""
    m = Model(name, name, 3, 32, 2, 1, 48, **RMS, **{"rope.freq_base": 1000.0}, **meta)
    m.set(**{"rope.dimension_sections": sections})
    x, more = start(m, deep=deep)
    angle = places()[axis].T * angles(1000.0, 16)
    for i in range(m.layers):
        m.blk = f"blk.{i}."
        q, k, v = projections(m, m.rms_norm(x, "attn_norm"), bias=deep == 0)
        if deep:
            q, k = m.rms_norm(q, "attn_q_norm"), m.rms_norm(k, "attn_k_norm")
        y = attention(turn(q, angle), turn(k, angle), v, masks(len(x)))
        x = x + m.linear(y, "attn_output", m.width)
        x = x + swiglu(m, m.rms_norm(x, "ffn_norm"))
        if i < deep:
            x = x + more[i]
    m.blk = ""
    write(m, m.unembed(m.rms_norm(x, "output_norm")))


def qwen2vl():
    qwen("qwen2vl", [0, 0, 1, 1, 1, 2, 2, 2], [2, 3, 3, 0])


def qwen3vl():
    qwen("qwen3vl", [0, 1, 2, 0, 1, 2, 0, 1], [3, 3, 2, 0], deep=2, n_deepstack_layers=2)


for make in (llama, gemma3, qwen2vl, qwen3vl):
    make()
