"""Inverse transforms of blocks and Morton order: spectral/transforms.md, whose sections the
comments name."""

from __future__ import annotations

import decimal
import functools
import itertools
import math

import numpy as np

SINGLE_BANDS = 16  # that are ranges of their own
DIGITS = decimal.Context(prec=60)
PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


@functools.cache
def c(m: int, n: int) -> float:
    """Section 1: the binary64 number nearest to cos(pi m / 2n), 0 <= m <= n, by its series."""
    if m == n:
        return 0.0
    with decimal.localcontext(DIGITS):
        square = (PI * m / (2 * n)) ** 2
        term = total = decimal.Decimal(1)
        for k in range(1, 60):
            term = -term * square / (2 * k * (2 * k - 1))
            total += term
        return float(total)


@functools.cache
def matrix(n: int, real) -> np.ndarray:
    """Section 1: C, frequencies by places."""

    def cosine(p: int) -> float:
        p = min(p, 4 * n - p)
        return -c(2 * n - p, n) if p > n else c(p, n)

    scale = [math.sqrt(1 / n)] + [math.sqrt(2 / n)] * (n - 1)
    entries = [[scale[k] * cosine((2 * i + 1) * k % (4 * n)) for i in range(n)] for k in range(n)]
    return np.array(entries).astype(real)


def inverse_transform(coefficients: np.ndarray, sides) -> np.ndarray:
    """Sections 2 and 3, of a whole region in its shape."""
    values = coefficients
    for axis in reversed(range(values.ndim)):
        side = sides[axis]
        if side == 1 or not values.size:
            continue
        lines = np.moveaxis(values, axis, 0)
        blocks = [inverse_lines(lines[at : at + side]) for at in range(0, len(lines), side)]
        values = np.moveaxis(np.concatenate(blocks), 0, axis)
    return values


def inverse_lines(block: np.ndarray) -> np.ndarray:
    n = len(block)
    x = block.reshape(n, -1)
    of_values = matrix(n, block.dtype).T
    y = of_values[:, :1] * x[:1]
    for j in range(1, n):
        y = y + of_values[:, j : j + 1] * x[j : j + 1]
    return y.reshape(block.shape)


def morton_code(index, bits) -> int:
    """Section 4."""
    code = at = 0
    for j in range(max(bits, default=0)):
        for a in reversed(range(len(index))):
            if j < bits[a]:
                code |= (index[a] >> j & 1) << at
                at += 1
    return code


def bands_of_places(sides) -> np.ndarray:
    """Section 4: the band of every place of a block, in row-major order."""
    bits = [(side - 1).bit_length() for side in sides]
    codes = [morton_code(index, bits) for index in itertools.product(*map(range, sides))]
    bands = np.empty(len(codes), np.int64)
    bands[np.argsort(codes)] = np.arange(len(codes))
    return bands


def ranges_of_bands(n_bands: int) -> np.ndarray:
    """Section 5: the Morton range of each of so many bands."""
    ranges = np.arange(n_bands)
    for band in range(SINGLE_BANDS, n_bands):
        octave = band.bit_length() - 1
        ranges[band] = SINGLE_BANDS + 8 * (octave - 4) + (band >> octave - 3) - 8
    return ranges
