"""Writes the golden results of frontend/speech: a tiny model, computed from its definition in float64."""

import json
import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "llm"))
from support import random  # noqa: E402

SIZES = dict(mels=80, audio_context=8, width=32, heads=4, hidden=128, layers=2, context=24, vocab=60)
TOKENS = [41, 50, 3, 17, 8, 8, 31, 0, 25, 12]
RATE, FRAME, HOP, EPS = 16000, 400, 160, 1e-5


def samples():
    """Noise that becomes louder, and a tone."""
    n = SIZES["audio_context"] * 2 * HOP
    t = np.arange(n)
    wave = random("samples", n) * t / n * 0.25 + 0.5 * np.sin(2 * np.pi * 440 * t / RATE)
    return np.round(wave * 2**15) / 2**15


def mel_of(hertz):
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)


def hertz_of(mel):
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def filters(mels):
    """[mels, 201]: triangles with corners at equal distances in mel (Slaney 1998), each of area 1."""
    corners = [hertz_of(mel_of(RATE / 2) * i / (mels + 1)) for i in range(mels + 2)]
    bins = np.linspace(0, RATE / 2, FRAME // 2 + 1)
    rows = [np.interp(bins, corners[i : i + 3], [0, 2 / (corners[i + 2] - corners[i]), 0]) for i in range(mels)]
    return np.array(rows)


def log_mel(x, mels):
    """[mels, frames]."""
    padded = np.pad(x, FRAME // 2, mode="reflect")
    window = 0.5 * (1 - np.cos(2 * np.pi * np.arange(FRAME) / FRAME))
    frames = np.array([padded[i * HOP :][:FRAME] * window for i in range(len(x) // HOP)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    log = np.log10(np.maximum(filters(mels) @ power.T, 1e-10))
    return (np.maximum(log, log.max() - 8) + 4) / 4


class Model:
    def __init__(self):
        self.file, self.part = {}, ""

    def w(self, name, *dims, offset=0.0, scale=None):
        """A weight: offset plus random numbers up to scale, rounded to f32."""
        if scale is None:
            scale = 2.0 ** -round(math.log2(math.sqrt(math.prod(dims[1:]))) - 1)
        name = self.part + name
        self.file[name] = {"dims": dims, "offset": offset, "scale": scale}
        values = (offset + scale * random(name, math.prod(dims))).astype(np.float32)
        return values.astype(np.float64).reshape(dims)

    def linear(self, x, name, out, bias=True):
        y = x @ self.w(name + ".weight", out, x.shape[-1]).T
        return y + self.w(name + ".bias", out, scale=0.25) if bias else y

    def norm(self, x, name):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
        return y * self.w(name + ".weight", x.shape[-1], offset=1.0, scale=0.5) + self.w(name + ".bias", x.shape[-1], scale=0.25)

    def conv(self, x, name, stride):
        """x [channels, T] under windows of three."""
        w, bias = self.w(name + ".weight", SIZES["width"], len(x), 3), self.w(name + ".bias", SIZES["width"], scale=0.25)
        padded = np.pad(x, ((0, 0), (1, 1)))
        columns = [np.sum(w * padded[:, i : i + 3], (1, 2)) + bias for i in range(0, x.shape[1], stride)]
        return gelu(np.array(columns).T)

    def attention(self, x, to, causal=False, prefix=""):
        heads = lambda y: y.reshape(len(y), SIZES["heads"], -1).swapaxes(0, 1)
        q = heads(self.linear(x, prefix + "attn_q", SIZES["width"]))
        k = heads(self.linear(to, prefix + "attn_k", SIZES["width"], bias=False))
        v = heads(self.linear(to, prefix + "attn_v", SIZES["width"]))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(x), -1)
        return self.linear(y, prefix + "attn_output", SIZES["width"])

    def forward(self, x):
        return x + self.linear(gelu(self.linear(self.norm(x, "ffn_norm"), "ffn_up", SIZES["hidden"])), "ffn_down", SIZES["width"])

    def encode(self, mel):
        x = self.conv(self.conv(mel, "enc.conv1d.1", 1), "enc.conv1d.2", 2).T
        x = x + self.w("enc.position_embd.weight", *x.shape, scale=0.5)
        for i in range(SIZES["layers"]):
            self.part = f"enc.blk.{i}."
            y = self.norm(x, "attn_norm")
            x = self.forward(x + self.attention(y, y))
        self.part = ""
        return self.norm(x, "enc.output_norm")

    def decode(self, tokens, audio):
        self.part = ""
        table = self.w("token_embd.weight", SIZES["vocab"], SIZES["width"], scale=1.0)
        x = table[tokens] + self.w("position_embd.weight", SIZES["context"], SIZES["width"], scale=0.5)[: len(tokens)]
        for i in range(SIZES["layers"]):
            self.part = f"dec.blk.{i}."
            y = self.norm(x, "attn_norm")
            x = x + self.attention(y, y, causal=True)
            x = x + self.attention(self.norm(x, "cross_attn_norm"), audio, prefix="cross_")
            x = self.forward(x)
        self.part = ""
        return self.norm(x, "dec.output_norm") @ table.T


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def main():
    m, s = Model(), SIZES
    wave = samples()
    mels = {n: log_mel(wave, n) for n in (80, 128)}
    encoded = m.encode(mels[s["mels"]])
    logits = m.decode(TOKENS, encoded)
    meta = {"general.architecture": "whisper", "whisper.encoder.mel_bins": s["mels"],
            "whisper.encoder.context_length": s["audio_context"], "whisper.encoder.attention.head_count": s["heads"],
            "whisper.encoder.block_count": s["layers"], "whisper.context_length": s["context"],
            "whisper.embedding_length": s["width"], "whisper.attention.head_count": s["heads"],
            "whisper.block_count": s["layers"], "whisper.feed_forward_length": s["hidden"],
            "whisper.vocab_size": s["vocab"], "whisper.attention.layer_norm_epsilon": EPS}
    lines = lambda items: "\n" + ",\n".join(items) + "\n"
    rows = lambda a: "[" + lines(json.dumps([float(f"{v:.7g}") for v in row]) for row in a) + "]"
    parts = {"meta": json.dumps(meta), "weights": "{" + lines(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in m.file.items()) + "}",
             "samples": json.dumps([int(v * 2**15) for v in wave]), "tokens": json.dumps(TOKENS),
             "mel80": rows(mels[80].T), "mel128": rows(mels[128].T), "encoded": rows(encoded), "logits": rows(logits)}
    text = "{" + ",\n".join(f'"{k}": {v}' for k, v in parts.items()) + "}\n"
    Path(__file__).with_name("whisper.json").write_text(text)


main()
