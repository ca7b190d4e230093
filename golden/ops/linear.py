"""Cases of Fourier transforms and linear algebra."""

import numpy as np

from support import case, normal


def complexes(f):
    """f as a function of pairs of floats along the innermost axis."""
    return lambda x: pairs(f(x[..., 0] + 1j * x[..., 1]))


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def transforms():
    for n in (1, 2, 3, 5, 8, 12, 59):
        case("fft", [(normal(2, n, 2), "f32")], complexes(np.fft.fft))
        case("fft", [(normal(n, 2), "f32")], complexes(np.fft.ifft), inverse=True)
        case("rfft", [(normal(2, n), "f32")], lambda x: pairs(np.fft.rfft(x)))
        case("irfft", [(normal(2, n // 2 + 1, 2), "f32")], lambda x: np.fft.irfft(x[..., 0] + 1j * x[..., 1], n), n=n)
    case("fft", [(normal(7, 2), "f16")], complexes(np.fft.fft))
