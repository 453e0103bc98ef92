"""Ways to save a model without knowing codecs: qualities, bits per weight, with a calibration."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cfck
import cfck.numpy
import numpy as np

from rate_distortion.points import Tensors, n_weights

QUALITIES = ("near-lossless", "high", "balanced", "small")
BITS = (4.0, 3.0, 2.5, 2.0)


@dataclass(frozen=True)
class Setting:
    """Options of save(), and the curve that the point belongs to."""

    curve: str
    label: str
    options: dict[str, Any]
    is_calibrated: bool = False


BY_QUALITY, CALIBRATED, BY_BITS, BY_RULE, FLAT = (
    "cfck, quality=",
    "cfck, quality= with model=",
    "cfck, bits_per_weight=",
    "cfck, rule for *.weight",
    "cfck, steps=flat",
)
SETTINGS = [
    *(Setting(BY_QUALITY, word, {"quality": word}) for word in QUALITIES),
    *(Setting(CALIBRATED, word, {"quality": word}, True) for word in QUALITIES),
    *(Setting(BY_BITS, f"{bits:g} bits", {"bits_per_weight": bits}) for bits in BITS),
    Setting(BY_RULE, "3 bits each", {"rules": {"*.weight": {"bits_per_weight": 3.0}}}),
    *(Setting(FLAT, f"{bits:g} bits", {"bits_per_weight": bits, "steps": "flat"}) for bits in BITS),
]


@dataclass(frozen=True)
class Saved:
    """A file has a size, and gives tensors back."""

    bits: float  # per value of the float tensors of two or more dimensions
    bits_of_all: float  # of the whole file, per value of all float tensors
    tensors: Tensors


def save(state: Tensors, setting: Setting, calibration: cfck.Calibration | None) -> Saved:
    """Saves all tensors of a model, and loads them."""
    options = dict(setting.options)
    if setting.is_calibrated:
        options["calibration"] = calibration
    floats = {name: values for name, values in state.items() if values.dtype == np.float32}
    matrices = {name: values for name, values in floats.items() if values.ndim >= 2}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cfck"
        cfck.numpy.save_file(state, path, fsync=False, **options)
        n_bytes = path.stat().st_size
        with cfck.safe_open(path, framework="np") as file:
            decoded = {name: file.get_tensor(name) for name in floats}
            n_bits = sum(8 * file.get_record(name).stored_bytes for name in matrices)
    return Saved(n_bits / n_weights(matrices), 8 * n_bytes / n_weights(floats), decoded)
