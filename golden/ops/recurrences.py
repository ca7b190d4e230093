"""Cases of the ops that go along time with a state, by plain loops over their definitions."""

import numpy as np

from support import case, normal


def convolved(x, w, state):
    """Both results of causal_conv1d, for x [T, C]."""
    z = np.concatenate([state, x])
    size = w.shape[1]
    y = np.array([[sum(w[c, k] * z[t + k, c] for k in range(size)) for c in range(x.shape[1])] for t in range(len(x))])
    return {"y": y, "state": z[len(x):]}


def selected(x, dt, a, b, c, state):
    """Both results of ssm_scan, for x [T, H, P]."""
    heads = x.shape[1]
    state, y = state.copy(), np.zeros_like(x)
    for t in range(len(x)):
        for h in range(heads):
            g = h * b.shape[1] // heads
            state[h] = np.exp(dt[t, h] * a[h]) * state[h] + dt[t, h] * np.outer(x[t, h], b[t, g])
            y[t, h] = state[h] @ c[t, g]
    return {"y": y, "state": state}


def corrected(q, k, v, decay, state, a=None, b=None):
    """Both results of delta_rule, for v [T, H, V]."""
    heads = v.shape[1]
    state, y = state.copy(), np.zeros_like(v)
    of = lambda vectors, t, h: vectors[t, h * vectors.shape[1] // heads]
    for t in range(len(v)):
        for h in range(heads):
            s = state[h].copy()
            state[h] = s @ np.diag(np.exp(np.broadcast_to(decay[t, h], s.shape[1]))) + np.outer(v[t, h], of(k, t, h))
            if a is not None:
                state[h] += np.outer(s @ of(a, t, h), of(b, t, h))
            y[t, h] = state[h] @ of(q, t, h)
    return {"y": y, "state": state}


def recurrences():
    f32 = lambda *arrays: [(a, "f32") for a in arrays]
    for of in ("y", "state"):
        def result(f):
            return lambda *args: f(*args)[of]
        case("causal_conv1d", f32(normal(5, 2), normal(2, 3), normal(2, 2)), result(convolved), of=of)
        case("causal_conv1d", f32(normal(1, 3), normal(3, 4), normal(3, 3)), result(convolved), of=of)
        for a in (-np.abs(normal(4, 1)), -np.abs(normal(4, 3))):
            case("ssm_scan", f32(normal(4, 4, 2), np.abs(normal(4, 4)), a, normal(4, 2, 3), normal(4, 2, 3), normal(4, 2, 3)),
                 result(selected), of=of)
        vectors = lambda groups: normal(5, groups, 4)
        for width in (1, 4):
            args = [vectors(1), vectors(2), normal(5, 2, 3), -np.abs(normal(5, 2, width)), normal(2, 3, 4)]
            case("delta_rule", f32(*args), result(corrected), of=of)
            case("delta_rule", f32(*args, vectors(2), vectors(1)), result(corrected), of=of)
