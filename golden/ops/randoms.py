"""Cases of random numbers."""

import math

import numpy as np

from support import case


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
