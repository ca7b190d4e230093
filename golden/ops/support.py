"""What the parts of make.py share: dtypes and their rounding, sample values, and the list of cases."""

import math
import struct

import numpy as np

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
