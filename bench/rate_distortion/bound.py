"""The Gaussian Shannon bound of a field of scales: no code of such values takes fewer bits.

Coefficients count as independent and normal, each with the variance of a field that is a product of
factors of its band, its row and its column, fitted to the coefficients themselves and charged with
nothing. Bits go where the variance is above a common error: reverse water-filling.
"""

from __future__ import annotations

import numpy as np

from rate_distortion.points import Tensors

ROUNDS = 12
QUARTERS = 2  # steps of log2 variance per unit: scales in quarters of an octave
FLOOR = 1e-30


def cosines(n: int) -> np.ndarray:
    """The orthonormal DCT-II of n values, as a matrix."""
    k, i = np.mgrid[:n, :n]
    matrix = np.sqrt(2 / n) * np.cos(np.pi * k * (2 * i + 1) / (2 * n))
    matrix[0] /= np.sqrt(2)
    return matrix


def coefficients(tensor: np.ndarray) -> np.ndarray:
    """(rows, columns, bands): kernels transformed, matrices as they are."""
    values = tensor.astype(np.float64)
    for axis in range(2, values.ndim):
        matrix = cosines(values.shape[axis])
        values = np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)
    return values.reshape(values.shape[0], values.shape[1], -1)


def variances(values: np.ndarray) -> np.ndarray:
    """The field at every coefficient; its sum is that of the squares."""
    squares = np.square(values) + FLOOR
    columns = bands = np.ones(())
    for _ in range(ROUNDS):
        rows = (squares / (columns * bands)).mean((1, 2), keepdims=True)
        columns = (squares / (rows * bands)).mean((0, 2), keepdims=True)
        bands = (squares / (rows * columns)).mean((0, 1), keepdims=True)
    field = np.ones(values.shape)
    for factor in (rows, columns, bands):
        field = field * 2 ** (np.round(np.log2(factor) * QUARTERS) / QUARTERS)
    return field * (squares.sum() / field.sum())


def field_of(tensors: Tensors) -> np.ndarray:
    """The variances of all coefficients of all tensors."""
    return np.concatenate([variances(coefficients(t)).reshape(-1) for t in tensors.values()])


def bits_at(field: np.ndarray, nmse: float) -> float:
    """Least bits per weight at an NMSE in dB."""
    wanted = 10 ** (nmse / 10) * field.mean()
    low, high = 0.0, float(field.max())
    for _ in range(60):
        level = (low + high) / 2
        if np.minimum(field, level).mean() < wanted:
            low = level
        else:
            high = level
    return float(np.maximum(0, 0.5 * np.log2(field / high)).mean())
