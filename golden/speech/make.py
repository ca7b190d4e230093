"""Writes the golden results of frontend/speech: a tiny model, computed from its definition in float64."""

import json
import math
import sys
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "llm"))
from support import random  # noqa: E402

SIZES = dict(mels=80, audio_context=8, width=32, heads=4, hidden=128, layers=2, context=48, vocab=60)
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
        self.file, self.made, self.part = {}, {}, ""

    def w(self, name, *dims, offset=0.0, scale=None):
        """A weight: offset plus random numbers up to scale, rounded to f32."""
        if scale is None:
            scale = 2.0 ** -round(math.log2(math.sqrt(math.prod(dims[1:]))) - 1)
        name = self.part + name
        if name not in self.made:
            self.file[name] = {"dims": dims, "offset": offset, "scale": scale}
            values = (offset + scale * random(name, math.prod(dims))).astype(np.float32)
            self.made[name] = values.astype(np.float64).reshape(dims)
        return self.made[name]

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

    def aligned(self, x, to, prefix):
        """How each head's attention changes from token to token: its share less the mean of all tokens, over their
        standard deviation, under a median filter of 7 positions."""
        heads = lambda y: y.reshape(len(y), SIZES["heads"], -1).swapaxes(0, 1)
        q = heads(self.linear(x, prefix + "attn_q", SIZES["width"]))
        k = heads(self.linear(to, prefix + "attn_k", SIZES["width"], bias=False))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        e = np.exp(scores - scores.max(-1, keepdims=True))
        share = e / e.sum(-1, keepdims=True)
        share = (share - share.mean(1, keepdims=True)) / share.std(1, keepdims=True)
        padded = np.pad(share, ((0, 0), (0, 0), (3, 3)), mode="reflect")
        return np.median([padded[:, :, i : i + share.shape[2]] for i in range(7)], 0)

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

    def decode(self, tokens, audio, heads=None, frames=None):
        """The logits after each token, and with heads the mean of what aligned makes of them on some frames."""
        self.part, attention = "", []
        table = self.w("token_embd.weight", SIZES["vocab"], SIZES["width"], scale=0.75)
        x = table[tokens] + self.w("position_embd.weight", SIZES["context"], SIZES["width"], scale=2.0)[: len(tokens)]
        for i in range(SIZES["layers"]):
            self.part = f"dec.blk.{i}."
            y = self.norm(x, "attn_norm")
            x = x + self.attention(y, y, causal=True)
            y = self.norm(x, "cross_attn_norm")
            if heads:
                all = self.aligned(y, audio[:frames], "cross_")
                attention += [all[head] for layer, head in heads if layer == i]
            x = x + self.attention(y, audio, prefix="cross_")
            x = self.forward(x)
        self.part = ""
        logits = self.norm(x, "dec.output_norm") @ table.T
        return (logits, np.mean(attention, 0)) if heads else logits


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


# Tokens of the tiny vocabulary: 40 of text, then those that control the model, then a timestamp for each position.
WORDS = (" ! ' ( - a b c d e f g h i l n o r s t u w \xc3 \xa9 th he the _t _the in ing ll lo hell hello _w or \xc3\xa9 er ld")
WORDS = [" "] + [w.replace("_", " ") for w in WORDS.split()]
END, START, EN, ZH, DE, TRANSLATE, TRANSCRIBE, LM, PREVIOUS, SILENCE, PLAIN, TIME = range(40, 52)
# Signs that are no speech are not written. The first token of " -" is the space, and of the note "\u2669" the vocabulary
# has the last byte.
SUPPRESSED = [0, WORDS.index("("), WORDS.index("-"), WORDS.index("\xa9")] + [START, EN, ZH, DE, TRANSLATE, TRANSCRIBE, LM, PREVIOUS, SILENCE, PLAIN]
STRIDE = 2 * HOP  # samples of a position


def log_softmax(x):
    return x - x.max() - np.log(np.sum(np.exp(x - x.max())))


def rules(scores, text):
    """Log probabilities of the next token by the timestamp rules; those of forbidden ones are -inf."""
    x = scores.copy()
    x[SUPPRESSED] = -np.inf
    if not text:
        x[[0, END]] = -np.inf
        x[:TIME] = -np.inf  # and the latest first timestamp, 50 positions, is beyond the window
        return log_softmax(x)
    times = [t for t in text if t >= TIME]
    if text[-1] >= TIME and (len(text) < 2 or text[-2] >= TIME):
        x[TIME:] = -np.inf
    elif text[-1] >= TIME:
        x[:END] = -np.inf
    if times:
        pair_is_open = text[-1] >= TIME and not (len(text) < 2 or text[-2] >= TIME)
        x[TIME : times[-1] + (0 if pair_is_open else 1)] = -np.inf
    p = log_softmax(x)
    if np.log(np.sum(np.exp(p[TIME:]))) > p[:TIME].max():
        p[:TIME] = -np.inf
        p = log_softmax(p)
    return p


def greedy(m, prompt, audio):
    """The likeliest tokens one by one, and the sum of their log probabilities."""
    text, total = [], 0.0
    while True:
        p = rules(m.decode(prompt + text, audio)[-1], text)
        best = int(p.argmax())
        total += p[best]
        if best == END:
            break
        text.append(best)
        if len(text) == SIZES["context"] // 2 or len(prompt + text) > SIZES["context"]:
            break
    return text, total


def beam_search(m, prompt, audio, beams):
    """Every token after every text, of which the likeliest texts remain, until as many have ended."""
    texts, ended = {(): 0.0}, {}
    while True:
        longer = {}
        for text, total in texts.items():
            p = rules(m.decode(prompt + list(text), audio)[-1], list(text))
            longer |= {text + (t,): total + p[t] for t in range(len(p)) if p[t] > -np.inf}
        texts = {}
        for text in sorted(longer, key=longer.get, reverse=True):
            if text[-1] == END:
                if len(ended) < beams:
                    ended[text[:-1]] = longer[text]
            else:
                texts[text] = longer[text]
                if len(texts) == beams:
                    break
        length = len(next(iter(texts), ()))
        if not texts or len(ended) == beams or length == SIZES["context"] // 2 or len(prompt) + length > SIZES["context"]:
            break
    for text in list(texts)[: beams - len(ended)]:
        ended[text] = texts[text]
    best = max(ended, key=lambda text: ended[text] / max(len(text), 1))
    return list(best), ended[best]


def transcribe(m, wave, language=None, beams=1):
    """The segments of a sound, written at temperature 0, or None if the definition asks for another temperature."""
    window, at, past, out = s_window(), 0, [], []
    while at + HOP <= len(wave):
        size = min(window, len(wave) - at)
        sound = np.zeros(window)
        sound[:size] = wave[at : at + size]
        audio = m.encode(log_mel(sound, SIZES["mels"]))
        language = language or max((EN, ZH, DE), key=lambda l: m.decode([START], audio)[-1][l])
        before = ([PREVIOUS] + past[-(SIZES["context"] // 2 - 1) :] if past else []) + [START]
        silence = math.exp(log_softmax(m.decode(before, audio)[-1])[SILENCE])
        prompt = before + [language, TRANSCRIBE]
        text, total = greedy(m, prompt, audio) if beams == 1 else beam_search(m, prompt, audio, beams)
        mean = total / (len(text) + 1)
        spoken = b"".join(w.encode("latin-1") if any(ord(c) > 127 for c in w) else w.encode() for w in (WORDS[t] for t in text if t < END))
        ratio = len(spoken) / len(zlib.compress(spoken)) if spoken else 0
        if ratio > 2.4 or (mean < -1 and silence <= 0.6):
            return None
        if silence > 0.6 and mean < -1:
            at += size
            continue
        ends = [i for i in range(1, len(text)) if text[i] >= TIME and text[i - 1] >= TIME]
        alone = len(text) > 1 and text[-1] >= TIME > text[-2]
        step, parts = size, []
        if ends:
            cuts = [0] + ends + ([len(text)] if alone else [])
            parts = [(text[a:b], (text[a] - TIME) * STRIDE, (text[b - 1] - TIME) * STRIDE) for a, b in zip(cuts, cuts[1:])]
            last = (text[ends[-1] - 1] - TIME) * STRIDE
            if not alone and 0 < last < size:
                step = last
        elif text:
            later = [t for t in text[1:] if t > TIME]
            end = (later[-1] - TIME) * STRIDE if later else size
            parts = [(text, (text[0] - TIME) * STRIDE if (text[0] - TIME) * STRIDE < end else 0, end)]
        for tokens, start, end in parts:
            end = min(end, size)
            words = b"".join(w.encode("latin-1") for w in (WORDS[t] for t in tokens if t < END)).decode(errors="replace")
            if end > start and words.strip():
                out.append({"start": at + start, "end": at + end, "text": words, "tokens": tokens, "logprob": mean, "silence": silence})
                past = past + tokens
        at += step
    return {"language": language, "segments": out}


def warped(gains):
    """The column in which the best path of gains enters each row (dynamic time warping)."""
    rows, columns = gains.shape
    cost, trace = np.full((rows + 1, columns + 1), np.inf), np.full((rows + 1, columns + 1), -1)
    cost[0, 0] = 0
    for j in range(1, columns + 1):
        for i in range(1, rows + 1):
            before = [cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1]]
            if before[0] < before[1] and before[0] < before[2]:
                t = 0
            elif before[1] < before[0] and before[1] < before[2]:
                t = 1
            else:
                t = 2
            cost[i, j], trace[i, j] = before[t] - gains[i - 1, j - 1], t
    trace[0, :], trace[:, 0] = 2, 1
    i, j, path = rows, columns, []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        i, j = i - (trace[i, j] != 2), j - (trace[i, j] != 1)
    path.reverse()
    return [int(next(c for r, c in path if r == row)) for row in range(rows)]


def alignment(m, encoded):
    """Words of the golden tokens: the first three control the model, and a token ends the text."""
    tokens, frames = [START, EN, TRANSCRIBE, PLAIN] + TOKENS[2:] + [END], 7
    last = SIZES["layers"] // 2
    heads = [(i, h) for i in range(last, SIZES["layers"]) for h in range(SIZES["heads"])]
    logits, attention = m.decode(tokens, encoded, heads, frames)
    some = m.decode(tokens, encoded, [(0, 1), (1, 2)], frames)[1]
    chances = [float(log_softmax(row[:END])[t]) for row, t in zip(logits[3:], tokens[4:-1])]
    return {"tokens": tokens, "frames": frames, "attention": attention.tolist(), "some": some.tolist(),
            "chances": chances, "starts": warped(attention[3:-1])}


def s_window():
    return SIZES["audio_context"] * STRIDE


def find_sounds(m):
    """Sounds of several windows that temperature 0 suffices for, with different numbers of segments."""
    found = []
    for seed in range(20):
        n = int(s_window() * (1.3 + seed % 5 / 2))
        wave = np.round(random(f"sound {seed}", n) * np.abs(np.sin(np.arange(n) / (200 + 37 * seed))) * 2**13) / 2**15
        made = transcribe(m, wave)
        if made and len(made["segments"]) > 2 and len(made["segments"]) not in [len(f["segments"]) for f in found]:
            beams = {str(n): transcribe(m, wave, beams=n) for n in (2, 3)}
            found.append({"seed": seed, "samples": n, **made, "beams": {n: b["segments"] for n, b in beams.items() if b}})
        if len(found) == 3:
            break
    return found


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
             "mel80": rows(mels[80].T), "mel128": rows(mels[128].T), "encoded": rows(encoded), "logits": rows(logits),
             "alignment": json.dumps(alignment(m, encoded)),
             "sounds": "[" + lines(json.dumps(one, default=float) for one in find_sounds(m)) + "]"}
    text = "{" + ",\n".join(f'"{k}": {v}' for k, v in parts.items()) + "}\n"
    Path(__file__).with_name("whisper.json").write_text(text)


main()
