#!/usr/bin/python3
"""Makes cases.json: what NumPy and SciPy say the ops of vkc give. Needs python3-numpy and python3-scipy.

Every case computes in float64 and rounds once to the dtype of the result, which is
how ir/interp defines ops. Run it as  ./make.py  and review the difference.
"""

import json
import math
import os

import numpy as np

from arrays import channel_norms, moves, norms, scans, scatters, triangles
from experts import experts
from linear import factors, transforms
from randoms import randoms
from recurrences import recurrences
from support import INF, NAN, NP, case, cases, each, edges, ints, normal, rounded, wide
from windows import convolutions, pools, resizes


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def unary():
    ops = {
        "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
        "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x,
        "sqr": np.square, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
        "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "softsign": lambda x: x / (1 + np.abs(x)),
        "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sigmoid": sigmoid,
        "relu": lambda x: np.maximum(x, 0), "erf": each(math.erf), "softplus": softplus,
        "gelu_erf": each(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))) if v != -INF else NAN),
        "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
    }
    for op, f in ops.items():
        case(op, [(edges(), "f32")], f)
    finite = edges()[:10]
    case("sign", [(edges()[:12], "f32")], np.sign)
    case("silu", [(finite, "f32")], lambda x: x * sigmoid(x))
    case("mish", [(finite, "f32")], lambda x: x * np.tanh(softplus(x)))
    case("gelu", [(finite, "f32")], lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    case("elu", [(edges(), "f32")], lambda x: np.where(x < 0, 0.5 * np.expm1(x), x), alpha=0.5)
    case("celu", [(edges(), "f32")], lambda x: np.where(x < 0, 0.5 * np.expm1(x / 0.5), x), alpha=0.5)
    case("leaky_relu", [(edges(), "f32")], lambda x: np.where(x < 0, 0.25 * x, x), alpha=0.25)
    case("hardsigmoid", [(finite, "f32")], lambda x: np.clip(x / 6 + 0.5, 0, 1))
    case("hardswish", [(finite, "f32")], lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
    case("selu", [(finite, "f32")], lambda x: 1.0507009873554804934193349852946 * np.where(x > 0, x, 1.6732632423543772848170429916717 * np.expm1(x)))
    case("is_nan", [(edges(), "f32")], np.isnan, "bool")
    case("is_inf", [(edges(), "f32")], np.isinf, "bool")
    case("clamp", [(edges(), "f32")], lambda x: np.clip(x, -1.5, 2), min=-1.5, max=2)
    case("affine", [(normal(5), "f32")], lambda x: x * 3 - 0.25, mul=3, add=-0.25)
    case("powf", [(np.abs(normal(5)), "f32")], lambda x: x**1.5, exponent=1.5)
    case("neg", [(np.array([0, 5, -128, 127]), "i8")], lambda x: -x)
    case("abs", [(np.array([0, 5, -2147483648, 2147483647]), "i32")], np.abs)
    case("sqr", [(np.array([0, 300, 65537]), "u32")], np.square)
    case("not", [(np.array([0, 1, -1, 127]), "i32")], np.invert)
    case("not", [(np.array([0, 1, 255]), "u8")], np.invert)
    case("not", [(np.array([True, False]), "bool")], np.logical_not)
    case("exp", [(np.array([-20, -9.7, 0, 1, 11, 12]), "f16")], np.exp)
    case("tanh", [(normal(4, 3), "bf16")], np.tanh)


def binary():
    a, b = normal(3, 4), normal(4)
    for dtype in ("f32", "f16", "bf16", "f64"):
        case("add", [(a, dtype), (b, dtype)], np.add)
        case("mul", [(a, dtype), (normal(3, 1), dtype)], np.multiply)
    case("sub", [(normal(2, 1, 3), "f32"), (normal(4, 1), "f32")], np.subtract)
    case("div", [(np.array([1, -1, 0, 7.5, INF]), "f32"), (np.array([0, 0, 0, 2, INF]), "f32")], np.divide)
    case("mul", [(normal(3), "f8e4m3"), (normal(2, 3) * 100, "f8e4m3")], np.multiply)
    x = np.array([7, -7, 7, -7, 7.5, -7.5, 0, 5, -5, INF, 3, NAN])
    y = np.array([3, 3, -3, -3, 2, 2, 3, INF, INF, 3, 0, 1])
    case("mod", [(x, "f32"), (y, "f32")], np.mod)
    case("rem", [(x, "f32"), (y, "f32")], np.fmod)
    i, j = np.array([7, -7, 7, -7, 0, 100]), np.array([3, 3, -3, -3, 3, 7])
    case("mod", [(i, "i32"), (j, "i32")], np.mod)
    case("rem", [(i, "i32"), (j, "i32")], np.fmod)
    case("div", [(i, "i32"), (j, "i32")], lambda a, b: np.trunc(a / b))
    m = np.array([1, NAN, 3, -INF, NAN]), np.array([2, 2, NAN, 5, NAN])
    case("max", [(m[0], "f32"), (m[1], "f32")], np.maximum)
    case("min", [(m[0], "f32"), (m[1], "f32")], np.minimum)
    case("after", [(m[0], "f32"), (m[1], "f32")], lambda a, b: a)
    case("pow", [(np.array([2, -2, -2, 0, 9, 1]), "f32"), (np.array([10, 3, 0.5, 0, 0.5, NAN]), "f32")], np.power)
    case("atan2", [(np.array([1, -1, 0, 0, 3]), "f32"), (np.array([1, -1, -1, 1, -4]), "f32")], np.arctan2)
    for op, f in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
        case(op, [(np.array([1, 2, NAN, -0.0]), "f32"), (np.array([[1], [NAN], [0]]), "f32")], f, "bool")
        case(op, [(ints(-3, 3, 8), "i64"), (ints(-3, 3, 8), "i64")], f, "bool")
    p, q = ints(0, 2**32, 6), ints(0, 2**32, 6)
    case("and", [(p, "u32"), (q, "u32")], np.bitwise_and)
    case("or", [(p, "u32"), (q, "u32")], np.bitwise_or)
    case("xor", [(p, "u32"), (q, "u32")], np.bitwise_xor)
    case("xor", [(np.array([0, 0, 1, 1]), "bool"), (np.array([0, 1, 0, 1]), "bool")], np.logical_xor)
    case("add", [(p, "u32"), (q, "u32")], np.add)
    case("mul", [(ints(-2**31, 2**31, 5), "i32"), (ints(-2**31, 2**31, 5), "i32")], np.multiply)
    case("shl", [(p, "u32"), (ints(0, 32, 6), "u32")], np.left_shift)
    case("shr", [(ints(-2**31, 2**31, 6), "i32"), (ints(0, 32, 6), "i32")], np.right_shift)
    case("where", [(np.array([[True], [False]]), "bool"), (normal(3), "f32"), (normal(2, 1), "f32")], np.where, "f32")
    case("where", [(ints(0, 2, 5), "bool"), (ints(-9, 9, 5), "i8"), (ints(-9, 9, 5), "i8")], np.where, "i8")
    case("lerp", [(normal(4), "f32"), (normal(4), "f32"), (np.array(0.25), "f32")], lambda a, b, t: a + (b - a) * t)


def casts():
    def saturate(lo, hi):
        return lambda x: np.where(np.isnan(x), 0, np.clip(np.trunc(np.nan_to_num(x, nan=0, posinf=1e300, neginf=-1e300)), lo, hi))
    x = np.array([0, -0.9, 1.9, -1.9, 127.5, 128, -129, 255.5, 300, 3e9, -3e9, 5e9, INF, -INF, NAN])
    for dtype in ("i8", "u8", "i32", "u32"):
        info = np.iinfo(NP[dtype])
        case("cast", [(x, "f32")], saturate(info.min, info.max), dtype, dtype=dtype)
    case("cast", [(x, "f32")], lambda x: x != 0, "bool", dtype="bool")
    case("cast", [(np.array([0, 1, -1, 300, -129, 70000]), "i32")], lambda x: x, "i8", dtype="i8")
    case("cast", [(np.array([0, 2, 4, -1]), "i32")], lambda x: x != 0, "bool", dtype="bool")
    case("cast", [(np.array([True, False]), "bool")], lambda x: x, "f32", dtype="f32")
    big = np.array([2**24 + 1, 2**53 + 1, 2**62 + 2**38 + 1, -(2**62) - 2**38 - 1, 2**62 + 3 * 2**38 - 1, 1 - 2**62 - 3 * 2**38, 2**63 - 1, -(2**63)])
    case("cast", [(big, "i64")], lambda x: x, "f32", dtype="f32")
    halves = np.array([65504, 65519.99, 65520, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 2.0**-25, 2.0**-25 * 1.001, 6e-8, NAN, -INF])
    case("cast", [(halves, "f64")], lambda x: x, "f16", dtype="f16")
    case("cast", [(np.array([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 1.01171875, 3e38, -1e-40, NAN]), "f64")], lambda x: x, "bf16", dtype="bf16")
    case("cast", [(np.array([0.3, 447, 449, 1e9, -0.001, 0.0009, 17, 19, 2.0**-10, 3 * 2.0**-10, NAN]), "f32")], lambda x: x, "f8e4m3", dtype="f8e4m3")
    case("cast", [(normal(6), "f16")], lambda x: x, "f32", dtype="f32")
    floats = np.array([0, -0.0, 1, -2.5, 1e-40, 3e38, INF, -INF])
    case("bitcast", [(floats, "f32")], lambda x: x.astype(np.float32).view(np.uint32), "u32", dtype="u32")
    case("bitcast", [(floats, "f64")], lambda x: x.view(np.int64), "i64", dtype="i64")
    case("bitcast", [(np.array([1, 2.0**-24, -65504, INF]), "f16")], lambda x: (x.astype(np.float16).view(np.uint16).astype(np.uint32) << 16).view(np.float32), "bf16", dtype="bf16")
    case("bitcast", [(np.array([0, 1, 0x3F800000, -(2**31), 0x7F800000]), "i32")], lambda x: x.astype(np.int32).view(np.float32), "f32", dtype="f32")
    case("bitcast", [(np.array([-1, -128, 0, 127]), "i8")], lambda x: x.astype(np.int8).view(np.uint8), "u8", dtype="u8")


def views():
    x = normal(2, 3, 4)
    case("reshape", [(x, "f32")], lambda x: x.reshape(4, 6), shape=[4, 6])
    case("transpose", [(x, "f32")], lambda x: x.transpose(2, 0, 1), perm=[2, 0, 1])
    case("slice", [(normal(7, 5), "f32")], lambda x: x[1:6:2, 0:5:3], starts=[1, 0], limits=[6, 5], steps=[2, 3])
    case("slice", [(normal(4, 4), "f32")], lambda x: x[2:2, 1:3], starts=[2, 1], limits=[2, 3])
    case("broadcast", [(normal(3, 1), "f32")], lambda x: np.broadcast_to(x, (2, 3, 4)), shape=[2, 3, 4])
    case("squeeze", [(normal(1, 3, 1), "f32")], lambda x: x.reshape(3), axes=[0, -1])
    case("unsqueeze", [(normal(2, 3), "f32")], lambda x: x.reshape(1, 2, 3, 1), axes=[0, -1])
    case("flip", [(x, "f32")], lambda x: np.flip(x, (0, 2)), axes=[0, 2])
    case("flip", [(ints(0, 100, 5), "u8")], np.flip, axes=[-1])


def reductions():
    x = normal(3, 4, 5)
    for op, f in {"sum": np.sum, "mean": np.mean, "prod": np.prod, "reduce_max": np.max, "reduce_min": np.min}.items():
        case(op, [(x, "f32")], lambda x: f(x, (0, 2)), axes=[0, 2])
        case(op, [(x, "f16")], lambda x: f(x, 1, keepdims=True), axes=[-2], keepdims=True)
        case(op, [(x, "bf16")], lambda x: f(x))
    case("sum", [(ints(-128, 128, 4, 6), "i8")], lambda x: np.sum(x, 1), axes=[1])
    case("prod", [(ints(1, 1000, 3, 5), "u32")], lambda x: np.prod(x, 0), axes=[0])
    case("reduce_max", [(ints(-99, 99, 3, 5), "i32")], lambda x: np.max(x, 0), axes=[0])
    case("reduce_max", [(np.array([[1, NAN, 3], [1, 2, INF]]), "f32")], lambda x: np.max(x, 1), axes=[1])
    case("reduce_min", [(np.array([[1, NAN, 3], [1, 2, -INF]]), "f32")], lambda x: np.min(x, 1), axes=[1])
    case("sum", [(np.array([[INF, 1], [INF, -INF], [NAN, 0]]), "f32")], lambda x: np.sum(x, 1), axes=[1])
    case("sum", [(np.zeros((0, 3)), "f32")], lambda x: np.sum(x, 0), axes=[0])
    case("prod", [(np.zeros((3, 0)), "f32")], lambda x: np.prod(x, 1), axes=[1])
    case("mean", [(np.zeros((2, 0)), "f32")], lambda x: np.array([NAN, NAN]), axes=[1])
    ties = np.array([[3, 1, 3], [2, NAN, NAN], [1, 1, 0], [-INF, -INF, -INF], [5, INF, INF]])
    case("argmax", [(ties, "f32")], lambda x: np.argmax(x, 1), "i32", axis=1)
    case("argmin", [(ties, "f32")], lambda x: np.argmin(x, 1), "i32", axis=-1)
    case("argmax", [(ints(0, 3, 4, 3), "u8")], lambda x: np.argmax(x, 0)[None], "i32", axis=0, keepdims=True)
    bools = np.array([[True, False], [False, False], [True, True]])
    case("any", [(bools, "bool")], lambda x: np.any(x, 1), axes=[1])
    case("all", [(bools, "bool")], lambda x: np.all(x, 1), axes=[1])


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis, keepdims=True))
    return e / np.sum(e, axis, keepdims=True)


def rms(x, eps, w=1.0):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * w


def layer(x, eps, w=1.0, b=0.0):
    return (x - np.mean(x, -1, keepdims=True)) / np.sqrt(np.var(x, -1, keepdims=True) + eps) * w + b


def rope(x, positions, base, mode, turn):
    """By complex numbers, x [..., T, D]."""
    turn = turn or x.shape[-1]
    return turned(x, np.exp(1j * positions[:, None] * base ** (-2 * np.arange(turn // 2) / turn)), mode)


def turned(x, by, mode):
    """Pairs of x times the complex numbers by [..., pairs]."""
    turn = 2 * by.shape[-1]
    head, rest = x[..., :turn], x[..., turn:]
    if mode == "half":
        z = head[..., : turn // 2] + 1j * head[..., turn // 2:]
    else:
        z = head[..., 0::2] + 1j * head[..., 1::2]
    z = z * by
    if mode == "half":
        y = np.concatenate([z.real, z.imag], -1)
    else:
        y = np.stack([z.real, z.imag], -1).reshape(head.shape)
    return np.concatenate([y, rest], -1)


def row_ops():
    x = normal(2, 3, 6)
    case("softmax", [(x, "f32")], softmax)
    case("softmax", [(x, "f16")], lambda x: softmax(x, 1), axis=1)
    case("softmax", [(np.array([[1000, 1001], [-INF, 0], [-INF, -INF], [INF, 0]]), "f32")], softmax)
    case("log_softmax", [(x * 10, "f32")], lambda x: np.log(softmax(x, 0)), axis=0)
    case("rms_norm", [(x, "f32")], lambda x: rms(x, 1e-5))
    case("rms_norm", [(x, "f16"), (normal(6), "f32")], lambda x, w: rms(x, 0.5, w), eps=0.5)
    case("layer_norm", [(x, "f32")], lambda x: layer(x, 1e-5))
    case("layer_norm", [(x, "f32"), (normal(6), "f32"), (normal(6), "f32")], lambda x, w, b: layer(x, 1e-3, w, b), eps=1e-3)
    pos = np.array([0, 3, 1000])
    for mode in ("interleaved", "half"):
        case("rope", [(normal(2, 3, 6), "f32"), (pos, "i32")], lambda x, p: rope(x, p, 10000.0, mode, 0), mode=mode)
        case("rope", [(normal(3, 8), "f32"), (pos, "i64")], lambda x, p: rope(x, p, 500.0, mode, 4), base=500, dims=4, mode=mode)
    case("rope", [(normal(3, 2, 4), "f16"), (pos, "u32")],
         lambda x, p: rope(x.swapaxes(0, 1), p, 10000.0, "half", 0).swapaxes(0, 1), axis=0, mode="half")


def matmuls():
    def mm(ta, tb):
        return lambda a, b: (a.swapaxes(-1, -2) if ta else a) @ (b.swapaxes(-1, -2) if tb else b)
    for ta in (False, True):
        for tb in (False, True):
            a = normal(*((5, 6) if ta else (6, 5)))
            b = normal(*((7, 5) if tb else (5, 7)))
            case("matmul", [(a, "f32"), (b, "f32")], mm(ta, tb), transpose_a=ta, transpose_b=tb)
    case("matmul", [(normal(2, 1, 3, 4), "f32"), (normal(3, 4, 2), "f32")], np.matmul)
    case("matmul", [(normal(3, 4), "f16"), (normal(2, 4, 5), "f16")], np.matmul)
    case("matmul", [(normal(2, 3, 4), "bf16"), (normal(1, 5, 4), "bf16")], mm(False, True), transpose_b=True)
    whole = np.rint(normal(1, 33) * 100), np.rint(normal(17, 33) * 100)  # sums are exact in any order
    case("matmul", [(whole[0], "f64"), (whole[1], "f64")], mm(False, True), transpose_b=True)
    case("matmul", [(normal(2, 0), "f32"), (normal(0, 3), "f32")], np.matmul)
    case("matmul", [(np.array([[INF, 0], [1, 0]]), "f32"), (np.array([[1, 0], [NAN, 1]]), "f32")], np.matmul)


def attend(q, k, v, mask=None, causal=False, scale=0.0):
    group = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    s = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if mask is not None:
        s = s + mask
    if causal:
        t, keys = s.shape[-2:]
        s = np.where(np.arange(keys) <= np.arange(t)[:, None] + keys - t, s, -INF)
    return softmax(s) @ v


def attentions():
    q, k, v = normal(2, 4, 3, 6), normal(2, 2, 5, 6), normal(2, 2, 5, 4)
    f32 = [(q, "f32"), (k, "f32"), (v, "f32")]
    case("attention", f32, attend)
    case("attention", f32, lambda q, k, v: attend(q, k, v, causal=True), causal=True)
    case("attention", f32, lambda q, k, v: attend(q, k, v, scale=0.7), scale=0.7)
    case("attention", f32 + [(normal(2, 1, 3, 5), "f32")], attend)
    mask = np.where(ints(0, 3, 4, 3, 5) > 0, 0, -INF)
    mask[..., 0] = 0
    case("attention", f32 + [(mask, "f32")], lambda q, k, v, m: attend(q, k, v, m, True), causal=True)
    case("attention", [(normal(3, 4, 8), "f16"), (normal(1, 4, 8), "f16"), (normal(1, 4, 8), "f16")],
         lambda q, k, v: attend(q, k, v, causal=True), causal=True)
    case("attention", [(normal(1, 1, 8), "f32"), (normal(1, 9, 8), "f32"), (normal(1, 9, 8), "f32")],
         lambda q, k, v: attend(q, k, v, causal=True), causal=True)


def attend_with_grads(q, k, v, g, lse=None, delta=None, causal=False, scale=0.0, softcap=0.0):
    """The logarithms of the sums that attention divides by, and by the chain rule the gradients for q, k and v, of each query head."""
    group, scale = q.shape[-3] // k.shape[-3], scale or q.shape[-1] ** -0.5
    k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    s = q @ k.swapaxes(-1, -2) * scale
    slope = np.ones_like(s)
    if softcap:
        slope = 1 - np.tanh(s / softcap) ** 2
        s = softcap * np.tanh(s / softcap)
    if causal:
        t, keys = s.shape[-2:]
        s = np.where(np.arange(keys) <= np.arange(t)[:, None] + keys - t, s, -INF)
    lse = np.log(np.exp(s).sum(-1)) if lse is None else lse
    p = np.exp(s - lse[..., None])
    dp = g @ v.swapaxes(-1, -2)
    delta = (dp * p).sum(-1) if delta is None else delta
    ds = p * (dp - delta[..., None]) * slope * scale
    return {"lse": lse, "delta": delta, "q": ds @ k, "k": ds.swapaxes(-1, -2) @ q, "v": p.swapaxes(-1, -2) @ g}


def attention_grads():
    for attrs in ({}, {"causal": True, "scale": 0.7}, {"softcap": 1.5}):
        q, k, v, g = normal(2, 4, 3, 6), normal(2, 2, 5, 6), normal(2, 2, 5, 4), normal(2, 4, 3, 4)
        case("attention_lse", [(q, "f32"), (k, "f32")], lambda q, k: attend_with_grads(q, k, k, q, **attrs)["lse"], **attrs)
        parts = attend_with_grads(*(wide(rounded(x, "f32")) for x in (q, k, v, g)), **attrs)
        for of in "qkv":
            case("attention_grad", [(x, "f32") for x in (q, k, v, g, parts["lse"], parts["delta"])],
                 lambda q, k, v, g, lse, delta: attend_with_grads(q, k, v, g, lse, delta, **attrs)[of], of=of, **attrs)


def update(base, upd, start, axis):
    y = base.copy()
    n = upd.shape[axis]
    at = [slice(None)] * y.ndim
    first = min(max(int(start), 0), base.shape[axis] - n)
    at[axis] = slice(first, first + n)
    y[tuple(at)] = upd
    return y


def indexing():
    x = normal(4, 3)
    idx = np.array([[0, 3, 1], [2, -5, 99]])
    case("gather", [(x, "f32"), (idx, "i32")], lambda x, i: np.take_along_axis(x, np.clip(i, 0, 3), 0))
    case("gather", [(x, "f32"), (ints(0, 3, 4, 5), "u8")], lambda x, i: np.take_along_axis(x, i.astype(np.int64), 1), axis=1)
    case("index_select", [(normal(2, 4, 3), "f16"), (np.array([3, 0, 0, -1, 7]), "i64")],
         lambda x, i: np.take(x, i, 1, mode="clip"), axis=-2)
    case("index_select", [(ints(0, 99, 4, 2), "i32"), (np.array([], np.int64), "i32")], lambda x, i: np.take(x, i, 0))
    case("embedding", [(normal(5, 4), "f32"), (np.array([[4, 0], [-1, 5]]), "i32")], lambda t, i: np.take(t, i, 0, mode="clip"))
    case("embedding", [(normal(5, 4), "f16"), (np.array(2), "u32")], lambda t, i: t[i])
    case("concat", [(normal(2, 3), "f32"), (normal(2, 1), "f32"), (normal(2, 2), "f32")], lambda *a: np.concatenate(a, 1), axis=-1)
    case("concat", [(ints(0, 9, 1, 3), "i8"), (ints(0, 9, 0, 3), "i8"), (ints(0, 9, 2, 3), "i8")], lambda *a: np.concatenate(a, 0))
    case("pad", [(normal(2, 3), "f32")], lambda x: np.pad(x, ((1, 0), (2, 1)), constant_values=-1.5), low=[1, 2], high=[0, 1], value=-1.5)
    case("pad", [(ints(0, 9, 3), "i32")], lambda x: np.pad(x, ((0, 2),)), low=[0], high=[2])
    for start in (1, -4, 9):
        case("dynamic_update_slice", [(normal(5, 3), "f32"), (normal(2, 3), "f32"), (np.array(start), "i32")],
             lambda b, u, s: update(b, u, s, 0))
    case("dynamic_update_slice", [(ints(0, 9, 2, 4), "i8"), (ints(10, 19, 2, 2), "i8"), (np.array(2), "i64")],
         lambda b, u, s: update(b, u, s, 1), axis=1)


def cast_pairs():
    """Every dtype to every other."""
    floats = {"f64": [0.0, -0.0, 1.5, -2.5, 0.1, 448, 464, 465, 65519, 65520, 2.0**24 + 1, 3e9, -3e9, 1e300, 2.0**-149, 2.0**-151, INF, -INF, NAN],
              "f32": [0.0, -0.0, 1.5, -2.5, 0.1, 448, 464, 465, 65519, 65520, 3e9, -3e9, 3e38, 2.0**-149, INF, -INF, NAN],
              "f16": [0.0, -0.0, 1.5, -2.5, 0.1, 448, 464, 465, 65504, -129, 256, 2.0**-24, INF, -INF, NAN],
              "bf16": [0.0, -0.0, 1.5, -2.5, 0.1, 448, 464, 65280, 65536, -129, 256, 3e38, INF, -INF, NAN],
              "f8e4m3": [0.0, -0.0, 1.5, -2.5, 0.1, 448, -448, 2.0**-9, 128, 256, -256, NAN]}
    whole = {"i64": [0, 1, -1, 127, 128, -129, 255, 256, 449, 65520, -2**31, 2**31, 2**32, 2**40 + 1],
             "i32": [0, 1, -1, 127, 128, -129, 255, 256, 449, 65520, 2**24 + 1, -2**31, 2**31 - 1],
             "u32": [0, 1, 127, 128, 255, 256, 449, 65520, 2**31, 2**32 - 1],
             "i8": [0, 1, -1, 127, -128], "u8": [0, 1, 127, 128, 255], "bool": [0, 1]}
    for source, values in {**floats, **whole}.items():
        for to in [*floats, *whole]:
            def convert(x):
                if to == "bool":
                    return x != 0
                if to in whole and source in floats:
                    info = np.iinfo(NP[to])
                    return np.array([0 if math.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x.tolist()], NP[to])
                return x
            case("cast", [(np.array(values), source)], convert, to, dtype=to)


def ropes_by_tables():
    for mode in ("interleaved", "half"):
        def turn(x, cos, sin):
            return turned(x, cos + 1j * sin, mode)
        case("rope_tables", [(normal(2, 3, 6), "f32"), (normal(3, 3), "f32"), (normal(2, 1, 3), "f32")], turn, mode=mode)
        case("rope_tables", [(normal(3, 7), "f16"), (normal(2), "f32"), (normal(2), "f32")], turn, mode=mode)


for make in (unary, binary, casts, views, reductions, row_ops, matmuls, attentions, indexing,
             norms, scans, channel_norms, triangles,
             convolutions, pools, resizes, scatters, moves, randoms, cast_pairs, experts, ropes_by_tables, attention_grads,
             transforms, factors, recurrences):
    make()
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json")
with open(path, "w") as f:
    f.write('{"cases": [\n' + ",\n".join(json.dumps(c, allow_nan=False) for c in cases) + "\n]}\n")
print(f"{len(cases)} cases in {path}")
