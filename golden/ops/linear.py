"""Cases of Fourier transforms and linear algebra."""

import numpy as np

from support import case, normal


def complexes(f):
    """f as a function of pairs of floats along the innermost axis."""
    return lambda x: pairs(f(x[..., 0] + 1j * x[..., 1]))


def orthonormal(x):
    """q of x = q r, with positive numbers on the diagonal of r."""
    q = np.stack([np.linalg.qr(m)[0] for m in x])
    r = np.swapaxes(q, -1, -2) @ x
    return q * np.sign(np.diagonal(r, 0, -2, -1))[..., None, :]


def vectors(x):
    """The eigenvectors, with positive largest elements."""
    v = np.linalg.eigh(x)[1]
    return v * np.sign(np.take_along_axis(v, np.abs(v).argmax(-2)[..., None, :], -2))


def factors():
    for n in (1, 2, 3, 6):
        near = lambda *dims: normal(*dims, n) * 0.3 + 2 * np.eye(n)
        case("cholesky", [(near(2, n), "f32")], np.linalg.cholesky)
        case("qr", [(normal(2, n + 1, n), "f32")], orthonormal)
        case("eigh", [(normal(2, n, n), "f32")], vectors)
        for lower in (True, False):
            for transpose in (False, True):
                def solve(a, b):
                    a = np.tril(a) if lower else np.triu(a)
                    return np.linalg.solve(np.swapaxes(a, -1, -2) if transpose else a, b)
                case("triangular_solve", [(near(2, n), "f32"), (normal(2, n, 3), "f32")], solve, lower=lower, transpose=transpose)
    case("cholesky", [(np.array([[1.0, 0, 0], [2, 1, 0], [0, 0, 1]]), "f32")], lambda x: np.where(np.tril(np.ones((3, 3))) > 0, np.nan, 0))


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def transforms():
    for n in (1, 2, 3, 5, 8, 12, 59):
        case("fft", [(normal(2, n, 2), "f32")], complexes(np.fft.fft))
        case("fft", [(normal(n, 2), "f32")], complexes(np.fft.ifft), inverse=True)
        case("rfft", [(normal(2, n), "f32")], lambda x: pairs(np.fft.rfft(x)))
        case("irfft", [(normal(2, n // 2 + 1, 2), "f32")], lambda x: np.fft.irfft(x[..., 0] + 1j * x[..., 1], n), n=n)
    case("fft", [(normal(7, 2), "f16")], complexes(np.fft.fft))
