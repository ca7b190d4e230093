#!/usr/bin/env python3
"""Trains in PyTorch what examples/train trains, from the same weights on the same batches.

usage: train.py FOLDER [--dtype f32|f64] [--mode eager|compile|graphs] [--tf32] [--deterministic] [--steps N]
                [--rate R] [--head N] [--device cuda|cpu] [--losses FILE.json]

FOLDER is what `go run ./examples/train -export FOLDER -steps N` writes: the first weights and the batches of N steps.
The model is Llama's, the optimizer AdamW, with the rates, the decay and the clipping of examples/train. Products of f32
are in f32, without --tf32. Printed are tokens a second by the wall clock, without the first tenth of the steps, the
most memory that tensors took, and the mean loss of the last 20 steps. FILE.json gets the loss of every step.
"""
import argparse
import json
import math
import struct
import time

import torch
from torch.nn import functional as F

DTYPES = {"F32": torch.float32, "I32": torch.int32, "F64": torch.float64}


def load(path):
    """Reads a safetensors file (https://huggingface.co/docs/safetensors)."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    out = {}
    for name, t in head.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        dtype = DTYPES[t["dtype"]]
        flat = torch.frombuffer(data, dtype=dtype, offset=begin, count=math.prod(t["shape"])) if end > begin else torch.empty(0, dtype=dtype)
        out[name] = flat.reshape(t["shape"]).clone()
    return out


def attend(q, k, v):
    """Causal attention of [B, H, T, D] to keys and values of as many heads."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[2]
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    later = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(later, -math.inf), -1) @ v


class Llama(torch.nn.Module):
    """A Llama (Touvron et al. 2023) whose weights have their names in GGUF files, with _ for the dots."""

    def __init__(self, weights, head, eps, base):
        super().__init__()
        self.head, self.eps = head, eps
        self.layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("blk."))
        for name, w in weights.items():
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(w))
        some = next(iter(weights.values()))
        turns = base ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
        self.register_buffer("turns", turns.to(some))

    def norm(self, x, w):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * w

    def turn(self, x, cos, sin):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, tokens):
        batch, t = tokens.shape[0], tokens.shape[1] - 1
        p = lambda name: getattr(self, name)
        x = F.embedding(tokens[:, :-1], self.token_embd_weight)
        angles = torch.arange(t, device=x.device, dtype=x.dtype)[:, None] * self.turns
        cos, sin = angles.cos(), angles.sin()
        for i in range(self.layers):
            w = lambda name: p(f"blk_{i}_{name}_weight")
            heads = lambda y: y.reshape(batch, t, -1, self.head).transpose(1, 2)
            y = self.norm(x, w("attn_norm"))
            q, k, v = heads(y @ w("attn_q").T), heads(y @ w("attn_k").T), heads(y @ w("attn_v").T)
            q, k, groups = self.turn(q, cos, sin), self.turn(k, cos, sin), q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            x = x + attend(q, k, v).transpose(1, 2).reshape(batch, t, -1) @ w("attn_output").T
            y = self.norm(x, w("ffn_norm"))
            x = x + (F.silu(y @ w("ffn_gate").T) * (y @ w("ffn_up").T)) @ w("ffn_down").T
        table = self.output_weight if hasattr(self, "output_weight") else self.token_embd_weight
        logits = self.norm(x, self.output_norm_weight) @ table.T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten().long())


def rate(step, steps, top):
    """The rate of a step, of which the first is 1: warm-up, then a cosine down to a tenth."""
    warm = max(1, steps // 20)
    after = max(step - warm, 1)
    part = min(max((after - 1) / max(1, steps - warm), 0), 1)
    return min(step / warm, 1) * (top - top / 10) / 2 * math.cos(math.pi * part) + min(step / warm, 1) * (top + top / 10) / 2


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("folder")
    flags.add_argument("--dtype", choices=["f32", "f64"], default="f32")
    flags.add_argument("--mode", choices=["eager", "compile", "graphs"], default="eager")
    flags.add_argument("--tf32", action="store_true")
    flags.add_argument("--deterministic", action="store_true")
    flags.add_argument("--steps", type=int, help="so many of the exported steps; the rates are those of all")
    flags.add_argument("--rate", type=float, default=1e-3)
    flags.add_argument("--head", type=int, default=64, help="elements of a head")
    flags.add_argument("--device", default="cuda")
    flags.add_argument("--losses")
    o = flags.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = o.tf32
    torch.use_deterministic_algorithms(o.deterministic)
    dtype = {"f32": torch.float32, "f64": torch.float64}[o.dtype]
    batches = load(f"{o.folder}/batches.safetensors")["tokens"].to(o.device)
    states = load(f"{o.folder}/weights.safetensors")
    weights = {n: w.to(o.device, dtype) for n, w in states.items() if n.endswith(".weight")}
    model = Llama(weights, o.head, 1e-5, 10000.0)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    more = {"fused": True} if o.device == "cuda" else {}
    adam = torch.optim.AdamW(groups, lr=o.rate, betas=(0.9, 0.95), eps=1e-8, **more)
    forward = model
    if o.mode != "eager":
        forward = torch.compile(model, mode="reduce-overhead" if o.mode == "graphs" else "default")
    wait = torch.cuda.synchronize if o.device == "cuda" else lambda: None
    all_steps = batches.shape[0]
    steps = min(o.steps or all_steps, all_steps)
    losses, begin = [], None
    first = max(1, steps // 10)
    for step in range(1, steps + 1):
        if step == first + 1:
            wait()
            begin = time.perf_counter()
        for g in adam.param_groups:
            g["lr"] = rate(step, all_steps, o.rate)
        loss = forward(batches[step - 1])
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(loss.detach().clone())
    wait()
    taken = time.perf_counter() - begin if begin else float("nan")
    losses = [x.item() for x in losses]
    tokens = (steps - first) * batches.shape[1] * (batches.shape[2] - 1)
    most = torch.cuda.max_memory_allocated() / 1e6 if o.device == "cuda" else float("nan")
    last = losses[-20:]
    print(f"{o.mode} {o.dtype}{' tf32' if o.tf32 else ''}{' deterministic' if o.deterministic else ''}: "
          f"{tokens / taken:.0f} tokens/s, {most:.0f} MB, loss {losses[-1]:.4f}, "
          f"mean of the last {len(last)} {sum(last) / len(last):.4f}", flush=True)
    if o.losses:
        with open(o.losses, "w") as f:
            json.dump(losses, f)


if __name__ == "__main__":
    main()
