"""cfck under error bounds, as its users meet it: whole files, and one tensor with one thread."""

from __future__ import annotations

import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np


def is_installed() -> bool:
    """Whether the package cfck is there."""
    return importlib.util.find_spec("cfck") is not None


@dataclass(frozen=True)
class FileTally:
    """What a file of tensors, all under one bound, came to."""

    bits_per_weight: float
    worst: float  # largest |x - y| in float64, as a part of the bound of its tensor
    beyond: int
    version: str


def deviation(tensor: np.ndarray) -> float:
    """The standard deviation, in float64."""
    return float(tensor.astype(np.float64).std())


def tally(tensors: dict[str, np.ndarray], kind: str, value: float, **options: str) -> FileTally:
    """Saves tensors with a rule for all of them, loads them, and compares.

    `kind` is "abs", "rel" or "sigma"; a value of 0 saves without loss. `options` are those of
    the whole file.
    """
    import cfck
    import cfck.numpy

    rules = {"*": {f"max_{kind}_error": value, "force": True}} if value else None
    worst, beyond = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cfck")
        cfck.numpy.save_file(tensors, path, rules=rules, **options)
        with cfck.safe_open(path, framework="np") as file:
            records = file.records()
        loaded = cfck.numpy.load_file(path)
    for name, tensor in tensors.items():
        error = np.abs(loaded[name].astype(np.float64) - tensor.astype(np.float64))
        unit = {"abs": lambda t: 1.0, "rel": value_range, "sigma": deviation}[kind](tensor)
        bound = value * unit
        worst = max(worst, float(error.max()) / bound if bound else float(error.max()))
        beyond += int(np.count_nonzero(error > bound))
    stored = sum(record.stored_bytes for record in records)
    n_elems = sum(tensor.size for tensor in tensors.values())
    return FileTally(8 * stored / n_elems, worst, beyond, f"cfck {cfck.__version__}")


def value_range(tensor: np.ndarray) -> float:
    """The greatest value minus the least, in float64."""
    return float(tensor.max()) - float(tensor.min())


def encode(tensor: np.ndarray, bound: float) -> bytes:
    """One tensor under an absolute bound, planned and encoded by one thread."""
    import cfck

    return cfck.compress(tensor, max_abs_error=bound, threads=1)


def decode(blob: bytes) -> np.ndarray:
    """The tensor of such bytes, by one thread."""
    import cfck

    return cfck.decompress(blob, threads=1)
