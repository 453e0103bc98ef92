"""The datasets: weights of a model, and a smooth field that is made here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common import data

SIDE = 160
CHUNK_VALUES = 1 << 18


@dataclass(frozen=True)
class Subject:
    """Datasets that are measured together, each with the shape of its chunks."""

    name: str
    arrays: list[np.ndarray]
    chunks: list[tuple[int, ...]]

    def nbytes(self) -> int:
        """Of all values."""
        return sum(array.nbytes for array in self.arrays)


def weights() -> Subject:
    """The matrices of MiniLM, in chunks of whole rows, about 1 MiB each."""
    arrays = [np.ascontiguousarray(t) for t in data.matrices(data.minilm()).values()]
    chunks = [
        (min(len(array), max(1, CHUNK_VALUES // array[0].size)), *array.shape[1:])
        for array in arrays
    ]
    return Subject("MiniLM, matrices", arrays, chunks)


def smooth_field(side: int = SIDE) -> Subject:
    """A field as a turbulent fluid that diffuses has it, in cubes of 32.

    Random modes whose energy falls as k^(-5/3), with a Gaussian end at an eighth of the sampling
    frequency, around 300.
    """
    noise = np.random.Generator(np.random.PCG64(1)).standard_normal((side,) * 3)
    modes = np.fft.rfftn(noise)
    sides = [np.fft.fftfreq(side)] * 2 + [np.fft.rfftfreq(side)]
    k = np.sqrt(sum(axis**2 for axis in np.meshgrid(*sides, indexing="ij")))
    k[0, 0, 0] = 1
    modes *= k ** (-11 / 6) * np.exp(-((k / 0.125) ** 2))
    modes[0, 0, 0] = 0
    field = np.fft.irfftn(modes, s=(side,) * 3, axes=(0, 1, 2))
    values = (300 + 10 * field / field.std()).astype(np.float32)
    return Subject(f"smooth field, {side}^3", [values], [(32, 32, 32)])
