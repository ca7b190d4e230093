"""Cases of convolutions, pooling and resizing."""

import math

import numpy as np
from scipy import ndimage, signal

from support import INF, NAN, case, ints, normal


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
