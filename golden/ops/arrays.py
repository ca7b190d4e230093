"""Cases of norms, scans, sorts, triangles, scatters and moves."""

import numpy as np
from scipy import special

from support import INF, NAN, case, ints, normal, rng


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
    y = np.array([[1.5, -2, 0.25], [0.5, -0.125, 3]])
    case("norm_p", [(y, "f32")], lambda x: np.sum(np.abs(x) ** 3, 1) ** (1 / 3), axes=[1], p=3.0)
    case("norm_p", [(y, "f32")], lambda x: np.sum(np.abs(x) ** 0.5) ** 2, p=0.5)
    case("norm_p", [(np.array([[INF, 1], [NAN, 1], [0, -0.0], [-INF, 2]]), "f32")], lambda x: np.array([INF, NAN, 0, INF]), axes=[-1], p=2.5)
    case("norm_p", [(np.zeros((2, 0)), "f32")], lambda x: np.zeros(2), axes=[1], p=3.0)
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
    some = np.array([[2, -3, 0.5, 4, -1], [1, 0, 7, 0, 2], [-INF, 5, 6, -7, INF]])
    case("cumprod", [(some[:2], "f32")], lambda x: np.cumprod(x, 1))
    case("cumprod", [(some[:2], "f32")], lambda x: np.array([[6, -2, -4, -1, 1], [0, 0, 0, 2, 1]]), exclusive=True, reverse=True)
    case("cummax", [(some, "f32")], lambda x: np.maximum.accumulate(x, 0), axis=0)
    case("cummax", [(np.array([-4, -9, NAN, 3]), "f32")], lambda x: np.array([-INF, -4, -4, NAN]), exclusive=True)
    case("cummin", [(np.array([7, -3, 5, -128]), "i8")], lambda x: np.array([127, 7, -3, -3]), exclusive=True)
    case("cummin", [(some, "f16")], lambda x: np.minimum.accumulate(x, 1))
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
