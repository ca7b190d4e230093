"""Tiny models of random weights, and the parts that language models are made of, in NumPy and float64."""

import json
import math
from pathlib import Path

import numpy as np

VOCAB, CONTEXT = 40, 32
RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
LAYER_NORM = {"attention.layer_norm_epsilon": 1e-5}
TOKENS = [3, 17, 8, 8, 31, 0, 25, 12, 39, 5, 22, 17, 6, 30]


def words(name, n):
    """n numbers of 64 bits: splitmix64 from the FNV-1a hash of a name."""
    mask, seed = 2**64 - 1, 0xCBF29CE484222325
    for c in name.encode():
        seed = (seed ^ c) * 0x100000001B3 & mask
    out = []
    for i in range(n):
        z = seed + (i + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        out.append(z ^ z >> 31)
    return out


def random(name, n):
    """n numbers in [-1, 1) that f32 holds exactly."""
    return np.array([w >> 40 for w in words(name, n)]) * 2.0**-23 - 1


class Model:
    """A model whose weights come to be as they are asked for, and whose file is described beside its logits."""

    def __init__(self, case, architecture, layers, width, heads, kv_heads, hidden, **meta):
        self.case, self.architecture = case, architecture
        self.layers, self.width, self.heads, self.kv_heads, self.hidden = layers, width, heads, kv_heads, hidden
        self.head_dim, self.meta, self.weights, self.file = width // heads, {}, {}, {}
        self.blk = ""
        self.set(block_count=layers, embedding_length=width, context_length=CONTEXT, feed_forward_length=hidden)
        self.set(**{"attention.head_count": heads, "attention.head_count_kv": kv_heads})
        self.set(**meta)

    def set(self, **meta):
        for key, value in meta.items():
            self.meta[f"{self.architecture}.{key}"] = value

    def w(self, name, *dims, offset=0.0, scale=None):
        """A weight: offset plus random numbers up to scale, rounded to f32."""
        if name not in self.weights:
            if scale is None:
                scale = 2.0 ** -round(math.log2(math.sqrt(dims[-1])) - 1)
            values = (offset + scale * random(name, math.prod(dims))).astype(np.float32)
            self.weights[name] = values.astype(np.float64).reshape(dims)
            self.file[name] = {"dims": dims, "offset": offset, "scale": scale}
        return self.weights[name]

    def given(self, name, values):
        """A vector that is stored."""
        self.weights[name] = np.array(values, np.float32).astype(np.float64)
        self.file[name] = {"dims": [len(values)], "values": values}
        return self.weights[name]

    def mxfp4(self, name, *dims):
        """A weight in blocks of 32: a byte with the exponent of the scale, and 16 bytes of two numbers each."""
        if name not in self.weights:
            blocks = np.array([w & 255 for w in words(name, math.prod(dims) // 32 * 17)]).reshape(-1, 17)
            scale = 2.0 ** (122 + blocks[:, :1] % 3 - 128)
            numbers = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])  # twice the FP4
            values = numbers[np.concatenate([blocks[:, 1:] & 15, blocks[:, 1:] >> 4], 1)] * scale
            self.weights[name] = values.reshape(dims)
            self.file[name] = {"dims": dims, "dtype": "mxfp4"}
        return self.weights[name]

    def vector(self, name, n):
        return self.w(name, n, offset=1.0, scale=0.5)

    def linear(self, x, name, out, bias=False):
        """x w^T + bias, of a layer's matrix."""
        y = x @ self.w(self.blk + name + ".weight", out, x.shape[-1]).T
        return y + self.w(self.blk + name + ".bias", out, scale=0.25) if bias else y

    def rms_norm(self, x, name):
        eps = self.meta[self.architecture + ".attention.layer_norm_rms_epsilon"]
        scale = self.vector(self.blk + name + ".weight", x.shape[-1])
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * scale

    def layer_norm(self, x, name, bias=True):
        key = self.architecture + ".attention.layer_norm_"
        eps = self.meta.get(key + "epsilon") or self.meta[key + "rms_epsilon"]
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        y = y * self.vector(self.blk + name + ".weight", x.shape[-1])
        return y + self.w(self.blk + name + ".bias", x.shape[-1], scale=0.25) if bias else y

    def embed(self):
        return self.w("token_embd.weight", VOCAB, self.width, scale=1.0)[TOKENS]

    def unembed(self, x, tied=True):
        self.blk = ""
        return x @ (self.w("token_embd.weight", VOCAB, self.width) if tied else self.w("output.weight", VOCAB, self.width)).T

    def heads_of(self, x):
        """[T, heads*D] to [T, heads, D]."""
        return x.reshape(len(x), -1, self.head_dim)

    def write_pooled(self, x):
        """The vectors that stand for the text, in place of logits."""
        round_ = lambda row: [float(f"{v:.7g}") for v in row]
        if f"{self.architecture}.pooling_type" in self.meta:  # a head rates the text, which is a pair
            return self.write([], {"rank": round_(self.rank(x))})
        self.write([], {"mean": round_(x.mean(0)), "cls": round_(x[0]), "last": round_(x[-1])})

    def rank(self, x):
        """The head of a classifier: of the first token or, in ModernBERT, of the mean of all."""
        modern = self.architecture == "modern-bert"
        h = self.linear(x.mean(0)[None] if modern else x[:1], "cls", self.width, bias=not modern)
        h = self.layer_norm(gelu_erf(h), "cls.norm", bias=False) if modern else np.tanh(h)
        return self.linear(h, "cls.output", 1, bias=True)[0]

    def write(self, logits, pooled=None):
        lines = lambda items: "\n" + ",\n".join(items) + "\n"
        finite = {k: [None if e == -math.inf else e for e in v] if isinstance(v, list) else v for k, v in self.meta.items()}
        meta = json.dumps({"general.architecture": self.architecture, **finite})
        weights = lines(f"{json.dumps(name)}: {json.dumps(made)}" for name, made in self.file.items())
        rows = lines(json.dumps([float(f"{v:.7g}") for v in row]) for row in logits)
        text = f'{{"meta": {meta},\n"weights": {{{weights}}},\n"tokens": {TOKENS},\n"logits": [{rows}]}}\n'
        if pooled:
            text = text[: text.index('"logits"')] + '"pooled": {' + lines(f'"{k}": {v}' for k, v in pooled.items()) + "}}\n"
        Path(__file__).with_name(self.case + ".json").write_text(text)


def angles(base, dims):
    """What each pair of rotary positions turns by at a position."""
    return base ** (-np.arange(0, dims, 2) / dims)


def rope(x, radians, neighbours=False, magnitude=1.0):
    """Turns the first elements of x [T, heads, D], two for each angle, by position*radians."""
    turns = np.arange(len(x))[:, None, None] * radians
    cos, sin = np.cos(turns) * magnitude, np.sin(turns) * magnitude
    n = len(radians)
    first, second = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if neighbours else (slice(0, n), slice(n, 2 * n))
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def attention(q, k, v, scale=None, window=None, softcap=None, sinks=None, causal=True, slopes=None, near=None):
    """Attention of q [T, H, D] over k and v [T, G, D], to [T, H*D]. A token sees the last window ones, or, if
    not causal, all."""
    rows, heads, size = q.shape
    out = np.zeros_like(q)
    for h in range(heads):
        g = h * k.shape[1] // heads
        for t in range(rows):
            first = 0 if window is None else max(0, t + 1 - window)
            end = t + 1 if causal else rows
            if near is not None:  # so many to each side
                first, end = max(0, t - near), min(rows, t + near + 1)
            score = k[first:end, g] @ q[t, h] * (size**-0.5 if scale is None else scale)
            if slopes is not None:  # linear biases: a key counts less the further it is
                score = score - slopes[h] * np.abs(t - np.arange(first, end))
            if softcap:
                score = softcap * np.tanh(score / softcap)
            if sinks is not None:  # a score that takes its share and brings nothing
                score = np.append(score, sinks[h])
            share = np.exp(score - score.max())
            share /= share.sum()
            out[t, h] = share[: end - first] @ v[first:end, g]
    return out.reshape(rows, -1)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


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


def yarn(base, dims, factor, trained, whole=True):
    """The angles of YaRN: as before where a text turns 32 times, slower by the factor where not once."""
    bounds = [dims * np.log(trained / (turns * 2 * np.pi)) / (2 * np.log(base)) for turns in (32, 1)]
    low, high = (np.floor(bounds[0]), np.ceil(bounds[1])) if whole else bounds
    low, high = max(low, 0), min(high, dims - 1)
    slowed = np.clip((np.arange(dims // 2) - low) / (high - low), 0, 1)
    turn = angles(base, dims)
    return turn / factor * slowed + turn * (1 - slowed), 0.1 * np.log(factor) + 1
