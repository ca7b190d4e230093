#!/usr/bin/python3
"""Makes cases.json: what NumPy and SciPy say the ops of vkc give. Needs python3-numpy and python3-scipy.

Every case computes in float64 and rounds once to the dtype of the result, which is
how ir/interp defines ops. Run it as  ./make.py  and review the difference.
"""

import json
import math
import os
import struct

import numpy as np
from scipy import ndimage, signal, special

rng = np.random.default_rng(20240607)
INF, NAN = math.inf, math.nan
NP = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i64": np.int64, "i32": np.int32,
      "u32": np.uint32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}
cases = []


def round_bf16(x):
    """Nearest bf16, halves to even, found among its two neighbours."""
    x = float(x)
    if math.isnan(x) or math.isinf(x) or x == 0:
        return x
    with np.errstate(over="ignore"):
        bits = struct.unpack("<I", struct.pack("<f", np.float32(x)))[0] & 0xFFFF0000
    near = [struct.unpack("<f", struct.pack("<I", (bits + d) & 0xFFFFFFFF))[0] for d in (-0x10000, 0, 0x10000) if bits + d >= 0]
    apart = lambda v: abs((math.copysign(2.0**128, v) if math.isinf(v) else v) - x)  # infinity stands where the next number would
    best = min(apart(v) for v in near if not math.isnan(v))
    tied = [v for v in near if apart(v) == best]
    return min(tied, key=lambda v: struct.unpack("<I", struct.pack("<f", v))[0] >> 16 & 1)


def f8_values():
    values = []
    for b in range(127):
        e, m = b >> 3, b & 7
        values.append(m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7))
    return values


F8 = f8_values()


def round_f8(x):
    if math.isnan(x):
        return x
    a = min(abs(x), 448.0)
    i = min(range(127), key=lambda i: (abs(F8[i] - a), i & 1))
    return math.copysign(F8[i], x)


def rounded(x, dtype):
    """x as an array of the dtype, or of float64 holding such values."""
    x = np.asarray(x)
    if dtype in ("bf16", "f8e4m3"):
        f = round_bf16 if dtype == "bf16" else round_f8
        return np.array([f(v) for v in x.astype(np.float64).ravel()], np.float64).reshape(x.shape)
    with np.errstate(over="ignore"):
        return x.astype(NP[dtype])


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def scalar(v, dtype):
    if dtype == "bool":
        return bool(v)
    if NP.get(dtype, np.float32)(0).dtype.kind in "iu":
        return int(v)
    v = float(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return int(v) if v == int(v) and abs(v) < 2**53 and math.copysign(1, v) > 0 else v


def tensor(x, dtype):
    return {"dtype": dtype, "dims": list(x.shape), "data": [scalar(v, dtype) for v in x.ravel()]}


def case(op, args, want, out=None, **attrs):
    """args are (array, dtype); want is a function of them as float64 or integers."""
    arrays = [rounded(a, t) for a, t in args]
    out = out or args[0][1]
    with np.errstate(all="ignore"):
        y = np.asarray(want(*[wide(a) for a in arrays]))
    name = op + "/" + ",".join(t + "x".join(map(str, a.shape)).join("[]") for a, (_, t) in zip(arrays, args))
    for k, v in attrs.items():
        name += f" {k}={v}"
    cases.append({"name": name, "op": op, "attrs": attrs,
                  "args": [tensor(a, t) for a, (_, t) in zip(arrays, args)],
                  "want": tensor(rounded(y, out), out)})


def normal(*dims):
    return np.round(rng.normal(size=dims), 3)


def ints(lo, hi, *dims):
    return rng.integers(lo, hi, size=dims)


def edges(extra=()):
    return np.array([0.0, -0.0, 1, -1, 0.5, -2.5, 3.75, 1e-6, 30, -30, INF, -INF, NAN, *extra])


def each(f):
    return lambda x: np.array([f(v) for v in x.ravel()]).reshape(x.shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


def unary():
    ops = {
        "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
        "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x,
        "sqr": np.square, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
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
    head, rest = x[..., :turn], x[..., turn:]
    if mode == "half":
        z = head[..., : turn // 2] + 1j * head[..., turn // 2:]
    else:
        z = head[..., 0::2] + 1j * head[..., 1::2]
    z = z * np.exp(1j * positions[:, None] * base ** (-2 * np.arange(turn // 2) / turn))
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


def norms():
    x = normal(3, 4, 5)
    logsumexp = lambda axis, keep=False: lambda x: special.logsumexp(x, axis=axis, keepdims=keep)
    case("norm1", [(x, "f32")], lambda x: np.sum(np.abs(x), (0, 2)), axes=[0, 2])
    case("norm1", [(x, "f16")], lambda x: np.sum(np.abs(x), 1, keepdims=True), axes=[1], keepdims=True)
    case("norm1", [(np.array([-INF, 1, -2]), "f32")], lambda x: np.linalg.norm(x, 1))
    case("norm2", [(x, "f32")], lambda x: np.linalg.norm(x, 2, 1), axes=[1])
    case("norm2", [(x, "bf16")], lambda x: np.linalg.norm(x.ravel()))
    case("norm2", [(np.array([[3 * 2.0**700, 4 * 2.0**700], [3 * 2.0**-700, 4 * 2.0**-700]]), "f64")], lambda x: np.array([5 * 2.0**700, 5 * 2.0**-700]), axes=[1])
    case("norm2", [(np.array([[INF, 1], [NAN, 1], [0, -0.0]]), "f32")], lambda x: np.linalg.norm(x, 2, 1), axes=[-1])
    case("norm2", [(np.zeros((2, 0)), "f32")], lambda x: np.linalg.norm(x, 2, 1), axes=[1])
    case("logsumexp", [(x, "f32")], logsumexp(2), axes=[2])
    case("logsumexp", [(x * 100, "f32")], logsumexp((0, 1), True), axes=[0, 1], keepdims=True)
    case("logsumexp", [(x, "f16")], logsumexp(None))
    case("logsumexp", [(np.array([[1000, 1000], [-INF, 0], [-INF, -INF], [INF, 0], [NAN, 0]]), "f32")], logsumexp(1), axes=[1])
    for correction in (0, 1, 2):
        case("variance", [(x, "f32")], lambda x: np.var(x, 1, ddof=correction), correction=correction, axes=[1])
    case("variance", [(x + 100, "f16")], lambda x: np.var(x, (0, 2), keepdims=True), axes=[0, 2], keepdims=True)
    case("variance", [(normal(3, 1), "f32")], lambda x: np.full(3, NAN), correction=1, axes=[1])
    case("variance", [(normal(2, 2), "f32")], lambda x: np.full(2, INF), correction=2, axes=[1])
    case("variance", [(np.zeros((2, 0)), "f32")], lambda x: np.full(2, NAN), axes=[1])


def running(x, axis, exclusive=False, reverse=False):
    if reverse:
        return np.flip(running(np.flip(x, axis), axis, exclusive), axis)
    y = np.cumsum(x, axis)
    return y - x if exclusive else y


def scans():
    x = normal(3, 4, 5)
    whole = ints(-99, 99, 3, 4)
    case("cumsum", [(x, "f32")], lambda x: np.cumsum(x, -1))
    case("cumsum", [(x, "f16")], lambda x: np.cumsum(x, 1), axis=1)
    case("cumsum", [(ints(-128, 128, 9), "i8")], np.cumsum)
    case("cumsum", [(ints(0, 2**32, 2, 3), "u32")], lambda x: np.cumsum(x.astype(np.uint64), 0), axis=0)
    for exclusive in (False, True):
        for reverse in (False, True):
            case("cumsum", [(whole, "f32")], lambda x: running(x, 1, exclusive, reverse), exclusive=exclusive, reverse=reverse)
    case("cumsum", [(np.array([1, INF, 2, -INF, 3]), "f32")], np.cumsum)
    ties = np.array([[2, 1, 2, 1, 2], [NAN, 1, -INF, NAN, INF], [0.0, -0.0, 0.0, -0.0, -1], [5, 4, 3, 2, 1]])
    down = lambda x, axis: np.flip(np.flip(x, axis).shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    for dtype in ("f32", "f16"):
        case("sort", [(ties, dtype)], lambda x: np.sort(x, -1, kind="stable"))
        case("argsort", [(ties, dtype)], lambda x: np.argsort(x, -1, kind="stable"), "i32")
    case("sort", [(ties, "f32")], lambda x: np.take_along_axis(x, down(x, 1), 1), axis=1, descending=True)
    case("argsort", [(ties, "f32")], lambda x: down(x, 1), "i32", descending=True)
    case("argsort", [(ties, "f32")], lambda x: down(x, 0), "i32", axis=0, descending=True)
    case("sort", [(ints(-9, 9, 4, 7), "i32")], lambda x: np.sort(x, 0), axis=0)
    case("sort", [(ints(0, 2**32, 6), "u32")], lambda x: np.sort(x)[::-1], descending=True)
    case("argsort", [(ints(0, 4, 3, 8), "u8")], lambda x: down(x.astype(np.int64), 1), "i32", descending=True)
    case("top_k_indices", [(ties, "f32")], lambda x: down(x, 1)[:, :2], "i32", k=2)
    case("top_k_indices", [(ties, "f32")], lambda x: np.argsort(x, 1, kind="stable")[:, :3], "i32", k=3, largest=False)
    case("top_k_indices", [(x, "f32")], lambda x: down(x, 0)[:1], "i32", k=1, axis=0)
    case("top_k_indices", [(ints(-3, 3, 9), "i64")], lambda x: down(x, 0)[:5], "i32", k=5)


def group_norm(x, groups, eps=1e-5, w=None, b=None):
    g = x.reshape(x.shape[0], groups, -1)
    y = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + eps)).reshape(x.shape)
    return per_channel(y, 1.0 if w is None else w, 0.0 if b is None else b)


def per_channel(x, w, b):
    """x*w+b, with w and b along axis 1."""
    w, b = (np.reshape(p, (-1,) + (1,) * (x.ndim - 2)) for p in (w, b))
    return x * w + b


def batch_norm(x, mean, var, w=1.0, b=0.0, eps=1e-5):
    return per_channel(per_channel(x, np.ones_like(mean), -mean), w / np.sqrt(var + eps), b)


def channel_norms():
    x, w, b = normal(2, 6, 3, 2), normal(6), normal(6)
    var = np.abs(normal(6))
    case("group_norm", [(x, "f32")], lambda x: group_norm(x, 3), groups=3)
    case("group_norm", [(x, "f32"), (w, "f32")], lambda x, w: group_norm(x, 1, w=w), groups=1)
    case("group_norm", [(x, "f32"), (w, "f32"), (b, "f32")], lambda x, w, b: group_norm(x, 6, 0.25, w, b), groups=6, eps=0.25)
    case("group_norm", [(normal(3, 4), "f16"), (normal(4), "f32"), (normal(4), "f32")], lambda x, w, b: group_norm(x, 2, 1e-5, w, b), groups=2)
    case("batch_norm", [(x, "f32"), (b, "f32"), (var, "f32")], batch_norm)
    case("batch_norm", [(x, "f32"), (b, "f32"), (var, "f32"), (w, "f32")], batch_norm)
    case("batch_norm", [(x, "bf16"), (b, "f32"), (var, "f32"), (w, "f32"), (b, "f32")], lambda *a: batch_norm(*a, eps=1e-3), eps=1e-3)
    case("batch_norm", [(normal(4, 3), "f32")] + [(normal(3) ** 2, "f32")] * 4, batch_norm)
    for axis in (0, -1):
        case("l2_normalize", [(normal(3, 4), "f32")], lambda x: x / np.linalg.norm(x, 2, axis, keepdims=True), axis=axis)
    case("l2_normalize", [(np.array([[0.0, 0], [1e-3, 0], [3, 4]]), "f32")], lambda x: x / np.maximum(np.linalg.norm(x, 2, 1, keepdims=True), 0.5), eps=0.5)


def triangles():
    x = normal(2, 4, 3)
    for k in (-2, 0, 1, 5):
        case("tril", [(x, "f32")], lambda x: np.tril(x, k), k=k)
        case("triu", [(x, "f16")], lambda x: np.triu(x, k), k=k)
    case("tril", [(np.full((3, 3), INF), "f32")], np.tril)
    case("triu", [(ints(-9, 9, 2, 3), "i8")], np.triu)
    case("tril", [(ints(0, 2, 3, 3), "bool")], np.tril)
    hot = lambda depth: lambda i: (i[..., None] == np.arange(depth)).astype(np.int64)
    case("one_hot", [(np.array([[0, 2], [-1, 3]]), "i32")], hot(3), "f32", depth=3)
    case("one_hot", [(ints(0, 5, 4), "u8")], hot(5), "i8", depth=5, dtype="i8")
    case("one_hot", [(np.array(1), "i64")], hot(2), "bool", depth=2, dtype="bool")


def windows(x, kernel, stride, low, high, dilation):
    """x [..., spatial] padded and cut into windows [..., positions, kernel]."""
    n = len(kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + list(zip(low, high)))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    w = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(x.ndim - n, x.ndim)))
    return w[(...,) + tuple(slice(None, None, s) for s in stride) + tuple(slice(None, None, d) for d in dilation)]


def conv(x, w, stride=None, padding_low=None, padding_high=None, dilation=None, groups=1):
    n = x.ndim - 2
    one, zero = [1] * n, [0] * n
    v = windows(x, w.shape[2:], stride or one, padding_low or zero, padding_high or zero, dilation or one)
    outs = []
    for part, filters in zip(np.split(v, groups, 1), np.split(w, groups, 0)):
        y = np.tensordot(part, filters, ([1] + list(range(2 + n, 2 + 2 * n)), list(range(1, 2 + n))))
        outs.append(np.moveaxis(y, -1, 1))
    return np.concatenate(outs, 1)


def conv_transpose(x, w, stride=None, padding_low=None, padding_high=None, output_padding=None, dilation=None, groups=1):
    n = x.ndim - 2
    one, zero = [1] * n, [0] * n
    stride, low, high = stride or one, padding_low or zero, padding_high or zero
    extra, dilation = output_padding or zero, dilation or one
    full = [(d - 1) * s + t * (k - 1) + 1 for d, s, t, k in zip(x.shape[2:], stride, dilation, w.shape[2:])]
    per = w.shape[1]
    y = np.zeros([x.shape[0], per * groups] + [f + e for f, e in zip(full, extra)])
    for c in range(x.shape[1]):
        outs = slice(c // (x.shape[1] // groups) * per, (c // (x.shape[1] // groups) + 1) * per)
        for at in np.ndindex(x.shape[2:]):
            place = tuple(slice(i * s, i * s + t * (k - 1) + 1, t) for i, s, t, k in zip(at, stride, dilation, w.shape[2:]))
            y[(slice(None), outs) + place] += x[(slice(None), c) + at].reshape((-1, 1) + (1,) * n) * w[c]
    return y[(slice(None), slice(None)) + tuple(slice(l, y.shape[i + 2] - h) for i, (l, h) in enumerate(zip(low, high)))]


def convolutions():
    def both(x, w, dtype="f32", **attrs):
        case("conv", [(x, dtype), (w, dtype)], lambda x, w: conv(x, w, **attrs), **attrs)
    both(normal(2, 3, 9), normal(4, 3, 3))
    both(normal(1, 2, 8), normal(3, 2, 3), stride=[2], padding_low=[1], padding_high=[2])
    both(normal(1, 4, 11), normal(6, 2, 3), dilation=[3], groups=2)
    both(normal(2, 3, 6, 5), normal(4, 3, 3, 2))
    both(normal(1, 3, 7, 6), normal(2, 3, 3, 3), "f16", stride=[2, 3], padding_low=[1, 0], padding_high=[1, 2])
    both(normal(1, 4, 5, 5), normal(8, 1, 3, 3), padding_low=[1, 1], padding_high=[1, 1], groups=4)
    both(normal(2, 5, 3, 3), normal(7, 5, 1, 1))
    both(normal(1, 2, 9, 9), normal(2, 2, 2, 3), "bf16", stride=[2, 1], dilation=[2, 3])
    both(normal(1, 2, 4, 5, 6), normal(3, 2, 2, 3, 2), stride=[1, 2, 2], padding_low=[0, 1, 0], padding_high=[1, 0, 0])
    both(normal(0, 2, 4), normal(3, 2, 2))
    both(np.array([[[INF, 1, 0, NAN, 2]]]), np.array([[[1, 0.0]]]))
    case("conv", [(normal(1, 1, 6, 7), "f32"), (normal(1, 1, 3, 4), "f32")],
         lambda x, w: signal.correlate(x[0, 0], w[0, 0], "valid", "direct")[None, None])
    case("conv", [(normal(1, 1, 10), "f32"), (normal(1, 1, 4), "f32")],
         lambda x, w: signal.correlate(x[0, 0], w[0, 0], "full", "direct")[None, None], padding_low=[3], padding_high=[3])

    def back(x, w, dtype="f32", **attrs):
        case("conv_transpose", [(x, dtype), (w, dtype)], lambda x, w: conv_transpose(x, w, **attrs), **attrs)
    back(normal(2, 3, 5), normal(3, 4, 3))
    back(normal(1, 2, 5), normal(2, 3, 4), stride=[3], padding_low=[1], padding_high=[2], output_padding=[2])
    back(normal(1, 4, 4), normal(4, 1, 3), stride=[2], dilation=[2], groups=4)
    back(normal(2, 3, 3, 4), normal(3, 2, 2, 3), stride=[2, 2], padding_low=[0, 1], padding_high=[1, 1])
    back(normal(1, 4, 3, 3), normal(4, 3, 2, 2), "f16", stride=[1, 2], output_padding=[0, 1], groups=2)
    back(normal(1, 2, 2, 3, 2), normal(2, 2, 2, 1, 3), stride=[2, 1, 1])
    case("conv_transpose", [(normal(1, 1, 6), "f32"), (normal(1, 1, 4), "f32")], lambda x, w: np.convolve(x[0, 0], w[0, 0])[None, None])


def pool(x, f, kernel, stride=None, padding_low=None, padding_high=None, dilation=None, ceil_mode=False):
    """f of the window's elements inside x and of its count inside x and its padding."""
    n = len(kernel)
    stride, dilation = stride or kernel, dilation or [1] * n
    low, high = padding_low or [0] * n, padding_high or [0] * n
    counts = []
    for d, k, s, l, h, t in zip(x.shape[-n:], kernel, stride, low, high, dilation):
        steps = (d + l + h - t * (k - 1) - 1) / s
        last = math.ceil(steps) if ceil_mode else math.floor(steps)
        if last * s >= d + l:
            last -= 1
        counts.append(last + 1)
    y = np.empty(x.shape[:-n] + tuple(counts))
    for at in np.ndindex(*counts):
        sets = [[i * s - l + j * t for j in range(k)] for i, s, l, k, t in zip(at, stride, low, kernel, dilation)]
        inside = [[i for i in axis if 0 <= i < d] for axis, d in zip(sets, x.shape[-n:])]
        total = math.prod(sum(i < d + h for i in axis) for axis, d, h in zip(sets, x.shape[-n:], high))
        y[(...,) + at] = f(x[(...,) + np.ix_(*inside)], tuple(range(-n, 0)), total)
    return y


def pools():
    mean = lambda include: lambda v, axes, total: v.sum(axes) / (total if include else math.prod(v.shape[a] for a in axes))
    top = lambda v, axes, total: v.max(axes)

    def avg(x, dtype="f32", count_include_pad=True, **attrs):
        case("avg_pool", [(x, dtype)], lambda x: pool(x, mean(count_include_pad), **attrs), count_include_pad=count_include_pad, **attrs)

    def most(x, dtype="f32", **attrs):
        case("max_pool", [(x, dtype)], lambda x: pool(x, top, **attrs), **attrs)
    avg(normal(2, 3, 8), kernel=[3])
    avg(normal(1, 2, 7), "f16", kernel=[3], stride=[2], ceil_mode=True)
    for include in (True, False):
        avg(normal(1, 2, 6, 5), count_include_pad=include, kernel=[3, 2], stride=[2, 2], padding_low=[1, 1], padding_high=[1, 0])
        avg(normal(1, 6, 6), count_include_pad=include, kernel=[3, 3], stride=[2, 2], padding_low=[1, 1], padding_high=[1, 1], ceil_mode=True)
    avg(normal(2, 2, 3, 4, 4), kernel=[2, 2, 2])
    avg(normal(5, 5), kernel=[5, 5])
    most(normal(2, 3, 8), kernel=[2])
    most(normal(1, 2, 6, 5), kernel=[3, 3], stride=[2, 2], padding_low=[1, 1], padding_high=[1, 1])
    most(-np.abs(normal(1, 7, 7)), "f16", kernel=[3, 2], stride=[2, 2], padding_low=[1, 0], padding_high=[1, 1], ceil_mode=True)
    most(normal(1, 1, 9, 9), kernel=[3, 2], stride=[2, 1], dilation=[2, 3])
    most(np.array([[1, NAN, 3, INF, -INF, -INF]]), kernel=[2])
    most(ints(-128, 128, 2, 9), "i8", kernel=[3], stride=[2], padding_low=[1], padding_high=[1])
    most(ints(0, 2**32, 4, 4), "u32", kernel=[2, 2], stride=[1, 1])


def source(to, size, align):
    i = np.arange(to)
    if align:
        return i * (size - 1) / max(to - 1, 1)
    return (2 * i + 1) * size / (2 * to) - 0.5


def keys(d, a=-0.75):
    d = np.abs(d)
    return np.where(d <= 1, (a + 2) * d**3 - (a + 3) * d**2 + 1, np.where(d < 2, a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, 0))


def linear(x, size, align):
    """By SciPy's spline interpolation of order 1 at explicit coordinates."""
    n = len(size)
    grid = np.meshgrid(*[source(t, d, align) for t, d in zip(size, x.shape[-n:])], indexing="ij")
    planes = x.reshape((-1,) + x.shape[-n:])
    return np.stack([ndimage.map_coordinates(p, grid, order=1, mode="nearest") for p in planes]).reshape(x.shape[:-n] + tuple(size))


def cubic(x, size, align):
    for axis, to in zip(range(-len(size), 0), size):
        d = x.shape[axis]
        wide = np.pad(np.eye(d), ((0, 0), (3, 3)), mode="edge")  # columns are the coordinates -3 to d+2
        share = wide @ keys(source(to, d, align)[None, :] - np.arange(-3, d + 3)[:, None])
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ share, -1, axis)
    return x


def resizes():
    dyadic = lambda x: np.rint(x * 64) / 64  # no result lies between two f32, where SciPy's last f64 bit would decide
    near = lambda *size: lambda x: x[(...,) + np.ix_(*[np.arange(t) * d // t for t, d in zip(size, x.shape[-len(size):])])]
    for x, size in ((normal(1, 2, 5), [10]), (normal(2, 3, 4), [5, 7]), (normal(1, 9, 7), [4, 3]), (normal(2, 2, 3), [4, 2, 3])):
        case("resize_nearest", [(x, "f32")], near(*size), size=size)
    case("resize_nearest", [(ints(-9, 9, 3, 3), "i8")], near(6, 9), size=[6, 9])
    for align in (False, True):
        case("resize_linear", [(dyadic(normal(1, 2, 5)), "f32")], lambda x: linear(x, [9], align), size=[9], align_corners=align)
        case("resize_linear", [(dyadic(normal(2, 4, 3)), "f32")], lambda x: linear(x, [7, 5], align), size=[7, 5], align_corners=align)
        case("resize_linear", [(dyadic(normal(1, 6, 8)), "f16")], lambda x: linear(x, [4, 3], align), size=[4, 3], align_corners=align)
        case("resize_linear", [(dyadic(normal(3, 1, 2)), "f32")], lambda x: linear(x, [1, 4], align), size=[1, 4], align_corners=align)
        case("resize_linear", [(dyadic(normal(2, 2, 3)), "f32")], lambda x: linear(x, [3, 4, 4], align), size=[3, 4, 4], align_corners=align)
        case("resize_cubic", [(normal(1, 2, 4, 5), "f32")], lambda x: cubic(x, [8, 7], align), size=[8, 7], align_corners=align)
        case("resize_cubic", [(normal(1, 9, 7), "f16")], lambda x: cubic(x, [4, 5], align), size=[4, 5], align_corners=align)
        case("resize_cubic", [(normal(2, 1), "f32")], lambda x: cubic(x, [3], align), size=[3], align_corners=align)


def scatter(base, idx, upd, axis, add=False):
    y = base.copy()
    for at in np.ndindex(*upd.shape):
        i = int(idx[at])
        if 0 <= i < base.shape[axis]:
            to = at[:axis] + (i,) + at[axis + 1:]
            y[to] = y[to] + upd[at] if add else upd[at]
    return y


def scatter_nd(base, idx, upd, add=False):
    y = base.copy()
    for at in np.ndindex(*idx.shape[:-1]):
        to = tuple(int(i) for i in idx[at])
        if all(0 <= i < n for i, n in zip(to, base.shape)):
            y[to] = y[to] + upd[at] if add else upd[at]
    return y


def scatters():
    base, upd = normal(4, 3), normal(6, 3)
    idx = np.array([[0, 3, 1], [2, 3, 1], [0, 0, -1], [1, 4, 1], [0, 3, 2], [99, 3, 1]])
    for op, add in (("scatter", False), ("scatter_add", True)):
        case(op, [(base, "f32"), (idx, "i32"), (upd, "f32")], lambda b, i, u: scatter(b, i, u, 0, add))
        case(op, [(base, "f16"), (ints(0, 3, 4, 5), "u8"), (normal(4, 5), "f16")], lambda b, i, u: scatter(b, i, u, 1, add), axis=-1)
        case(op, [(ints(-99, 99, 2, 3, 2), "i8"), (ints(0, 3, 2, 4, 2), "i64"), (ints(-99, 99, 2, 4, 2), "i8")], lambda b, i, u: scatter(b, i, u, 1, add), axis=1)
        case(op, [(base, "f32"), (np.zeros((0, 3)), "i32"), (np.zeros((0, 3)), "f32")], lambda b, i, u: b)
    case("scatter", [(np.zeros(4), "bool"), (np.array([2, 0, 2]), "i32"), (np.array([True, True, False]), "bool")], lambda b, i, u: scatter(b, i, u, 0))
    unique = np.stack([rng.permutation(4) for _ in range(3)], 1)
    def put(b, i, u):
        y = b.copy()
        np.put_along_axis(y, i, u, 0)
        return y
    case("scatter", [(base, "f32"), (unique, "i32"), (normal(4, 3), "f32")], put)
    def add_at(b, i, u):
        y = b.copy()
        np.add.at(y, i, u)
        return y
    case("index_add", [(base, "f32"), (np.array([1, 1, 3, 0, 1, 3]), "i32"), (upd, "f32")], add_at)
    case("index_add", [(normal(2, 5), "bf16"), (np.array([4, 4, 0]), "u32"), (normal(2, 3), "bf16")],
         lambda b, i, u: add_at(b.T, i, u.T).T, axis=1)
    case("index_add", [(ints(0, 2**32, 3, 2), "u32"), (np.array([2, -1, 2, 3]), "i64"), (ints(0, 2**32, 4, 2), "u32")],
         lambda b, i, u: add_at(b, np.array([2, 2]), u[[0, 2]]))
    x = normal(3, 4, 2)
    clip = lambda x, i: tuple(np.clip(i[..., a], 0, x.shape[a] - 1) for a in range(i.shape[-1]))
    case("gather_nd", [(x, "f32"), (np.array([[2, 0], [-1, 3], [0, 9]]), "i32")], lambda x, i: x[clip(x, i)])
    case("gather_nd", [(x, "f16"), (ints(0, 2, 2, 2, 3), "i64")], lambda x, i: x[clip(x, i)])
    case("gather_nd", [(ints(0, 99, 5, 2), "i32"), (np.array([3]), "u8")], lambda x, i: x[3])
    where = np.array([[[1, 3], [0, 0]], [[1, 3], [2, 4]]])
    for op, add in (("scatter_nd", False), ("scatter_nd_add", True)):
        case(op, [(x, "f32"), (where, "i32"), (normal(2, 2, 2), "f32")], lambda b, i, u: scatter_nd(b, i, u, add))
        case(op, [(ints(-99, 99, 4), "i32"), (np.array([[3], [3], [-1], [0]]), "i32"), (ints(-99, 99, 4), "i32")], lambda b, i, u: scatter_nd(b, i, u, add))
        case(op, [(x, "f16"), (np.array([2, 1, 1]), "i32"), (np.array(0.5), "f16")], lambda b, i, u: scatter_nd(b, i, u, add))


def moves():
    x = normal(3, 5)
    case("roll", [(x, "f32")], lambda x: np.roll(x, (1, -2), (0, 1)), shifts=[1, -2])
    case("roll", [(ints(0, 99, 2, 3, 4), "u8")], lambda x: np.roll(x, (0, 7, -9), (0, 1, 2)), shifts=[0, 7, -9])
    case("roll", [(np.zeros((0, 2)), "f32")], lambda x: x, shifts=[1, 1])
    for mode, name in (("reflect", "reflect"), ("replicate", "edge")):
        case("pad", [(x, "f32")], lambda x: np.pad(x, ((1, 2), (0, 3)), name), low=[1, 0], high=[2, 3], mode=mode)
        case("pad", [(ints(0, 9, 3), "i8")], lambda x: np.pad(x, (8, 9), name), low=[8], high=[9], mode=mode)
        case("pad", [(normal(1, 2), "f16")], lambda x: np.pad(x, ((2, 1), (1, 0)), name), low=[2, 1], high=[1, 0], mode=mode)
    case("pad", [(np.zeros((0, 2)), "f32")], lambda x: np.zeros((0, 4)), low=[0, 1], high=[0, 1], mode="replicate")
    for start in (1, -4, 9):
        case("dynamic_slice", [(x, "f32"), (np.array(start), "i32")], lambda x, s: x[:, min(max(int(s), 0), 3):][:, :2], axis=1, size=[2])
    case("dynamic_slice", [(ints(0, 99, 4, 2), "i8"), (np.array(3), "u8")], lambda x, s: x[1:], size=[3])


def philox(counter, key):
    """Philox-4x32-10 (Salmon et al. 2011), on Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# The known answers of Random123 (tests/kat_vectors).
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([2**32 - 1] * 4, [2**32 - 1] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def words(seed, offset, n):
    seed, offset = int(seed) % 2**64, int(offset) % 2**64
    stream = []
    for b in range(offset, offset + (n + 3) // 4):
        b %= 2**64
        stream += philox([b % 2**32, b >> 32, 0, 0], [seed % 2**32, seed >> 32])
    return np.array(stream[:(n + 3) // 4 * 4], np.uint64)


def randoms():
    def uniform(shape, bits):
        n = math.prod(shape)
        return lambda s, o: ((words(s, o, n)[:n] >> np.uint64(32 - bits)).astype(np.float64) / 2**bits).reshape(shape)

    def gauss(shape):
        n = math.prod(shape)

        def f(s, o):
            u = (words(s, o, n) >> np.uint64(8)).astype(np.float64) / 2**24
            z = np.sqrt(-2 * np.log1p(-u[0::2])) * np.exp(2j * np.pi * u[1::2])
            return np.stack([z.real, z.imag], -1).ravel()[:n].reshape(shape)
        return f
    scalars = lambda s, o, ts="u32", to="u32": [(np.array(s), ts), (np.array(o), to)]
    case("random_uniform", scalars(0, 0), uniform([9], 24), "f32", shape=[9])
    case("random_uniform", scalars(0xDEADBEEF, 2**32 - 1), uniform([2, 3], 24), "f32", shape=[2, 3])
    case("random_uniform", scalars(-2, 2**40 + 5, "i64", "i64"), uniform([3, 2], 11), "f16", shape=[3, 2], dtype="f16")
    case("random_uniform", scalars(2**62 + 77, -1, "i64", "i64"), uniform([6], 8), "bf16", shape=[6], dtype="bf16")
    case("random_uniform", scalars(7, 3, "u32", "i64"), uniform([], 24), "f64", shape=[], dtype="f64")
    case("random_uniform", scalars(7, 3), uniform([0, 4], 24), "f32", shape=[0, 4])
    case("random_normal", scalars(0, 0), gauss([7]), "f32", shape=[7])
    case("random_normal", scalars(-1, 2**33, "i64", "i64"), gauss([3, 5]), "f32", shape=[3, 5])
    case("random_normal", scalars(12345, 1), gauss([2, 4]), "f16", shape=[2, 4], dtype="f16")
    case("random_normal", scalars(12345, 2), gauss([5]), "bf16", shape=[5], dtype="bf16")
    for p in (0, 0.3, 1):
        case("random_bernoulli", scalars(99, 4), lambda s, o: uniform([11], 24)(s, o) < p, "bool", p=p, shape=[11])
    exact = 0x6627E8 / 2**24  # the first uniform of seed and offset 0, which is not below itself
    case("random_bernoulli", scalars(0, 0), lambda s, o: uniform([2], 24)(s, o) < exact, "bool", p=exact, shape=[2])


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


for make in (unary, binary, casts, views, reductions, row_ops, matmuls, attentions, indexing,
             norms, scans, channel_norms, triangles,
             convolutions, pools, resizes, scatters, moves, randoms, cast_pairs):
    make()
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.json")
with open(path, "w") as f:
    f.write('{"cases": [\n' + ",\n".join(json.dumps(c, allow_nan=False) for c in cases) + "\n]}\n")
print(f"{len(cases)} cases in {path}")
