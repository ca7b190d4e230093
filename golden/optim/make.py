#!/usr/bin/env python3
"""Writes steps.json: training steps as NumPy computes them in float64, from the published formulas.

Each case has its constants, the first values of parameters and memory, the gradients of a few steps, and what
parameters and memory are after each step.
"""
import json
import os

import numpy as np

rng = np.random.default_rng(20240817)


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32).astype(np.float64)


def flat(a):
    return [float(x) for x in np.asarray(a).reshape(-1)]


def adamw(p, g, m, v, t, lr, b1, b2, eps, wd):
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    mhat, vhat = m / (1 - b1**t), v / (1 - b2**t)
    return p - lr * wd * p - lr * mhat / (np.sqrt(vhat) + eps), m, v


def sgd(p, g, buf, lr, mu, wd, nesterov):
    g = g + wd * p
    buf = mu * buf + g
    return p - lr * (g + mu * buf if nesterov else buf), buf


def newton_schulz(x, steps):
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.T
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def muon(p, g, m, lr, mu, wd, steps, plain):
    m = mu * m + (1 - mu) * g
    u = m if plain else (1 - mu) * g + mu * m
    scale = max(1.0, p.shape[0] / p.shape[1]) ** 0.5
    return p * (1 - lr * wd) - lr * scale * newton_schulz(u, steps), m


def lion(p, g, m, lr, b1, b2, wd):
    return p * (1 - lr * wd) - lr * np.sign(b1 * m + (1 - b1) * g), b2 * m + (1 - b2) * g


cases = []
step_rules = {"sgd": sgd, "muon": muon, "lion": lion}
for name, shape, args in [
    ("adamw", (5, 7), dict(lr=1e-3, b1=0.9, b2=0.999, eps=1e-8, wd=0.01)),
    ("adamw", (64,), dict(lr=0.1, b1=0.8, b2=0.95, eps=1e-3, wd=0.0)),
    ("sgd", (3, 4), dict(lr=0.1, mu=0.9, wd=0.0, nesterov=False)),
    ("sgd", (3, 4), dict(lr=0.05, mu=0.9, wd=0.1, nesterov=True)),
    ("muon", (8, 12), dict(lr=0.02, mu=0.95, wd=0.01, steps=5, plain=False)),
    ("muon", (12, 6), dict(lr=0.02, mu=0.9, wd=0.0, steps=5, plain=True)),
    ("lion", (4, 5), dict(lr=0.01, b1=0.9, b2=0.99, wd=0.1)),
]:
    p = f32(*shape)
    memory = [np.zeros(shape)] * (2 if name == "adamw" else 1)
    case = {"op": name, "shape": list(shape), "constants": args, "p": flat(p), "steps": []}
    for t in range(1, 4):
        g = f32(*shape, scale=0.3)
        if name == "adamw":
            p, *memory = adamw(p, g, *memory, t, **args)
        else:
            p, *memory = step_rules[name](p, g, *memory, **args)
        case["steps"].append({"grad": flat(g), "p": flat(p), "memory": [flat(m) for m in memory]})
    cases.append(case)

clip = []
for bound in (1.0, 100.0):
    grads = [f32(6, 5), f32(9), f32()]
    norm = float(np.sqrt(sum(float((g * g).sum()) for g in grads)))
    factor = min(1.0, bound / (norm + 1e-6))
    clip.append({"max": bound, "shapes": [list(g.shape) for g in grads], "grads": [flat(g) for g in grads], "norm": norm,
                 "clipped": [flat(g * factor) for g in grads]})

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.json"), "w") as f:
    json.dump({"steps": cases, "clip": clip}, f)
    f.write("\n")
