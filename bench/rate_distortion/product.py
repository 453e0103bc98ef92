"""cfck on rate-distortion curves, as its users meet it: files of tensors, saved and loaded."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rate_distortion.points import Coded, Tensors, energy, n_weights

LEAST_VALUES = 1024  # what a plain target reaches
SMALL_BITS = 8  # of tensors below that, where bits are asked for: few, and often sensitive
Options = dict[str, Any]


class MissingPreset(Exception):
    """The installed cfck does not know an option; the message says which."""


@dataclass(frozen=True)
class Preset:
    """A named way to save: what stands beside the target in the call of save_file.

    `prepare` makes options from a Subject, such as a calibration. With `flattens`
    kernels become rows of matrices, so that nothing is transformed.
    """

    name: str
    options: Options = field(default_factory=dict)
    prepare: Callable[[Any], Options] | None = None
    flattens: bool = False
    only_kernels: bool = False  # says nothing of models without convolutions
    uses_data: bool = False
    # Options that depend on the target too, made from a Subject and all others.
    complete: Callable[[Any, Options], Options] | None = None
    in_bits: bool = False  # asks for bits per weight, not for errors


FLAT = Preset("cfck spectral")
# What level archive takes.
MOST_STATES = Preset("cfck spectral, 64 states", {"trellis_states": 64})
# What each part of the codec is worth is the difference to FLAT.
PARTS = [
    Preset("cfck spectral, 4 states", {"trellis_states": 4}),
    Preset("cfck spectral, 1 state", {"trellis_states": 1}),
    Preset("cfck spectral, kernels as matrices", flattens=True),
]


def version() -> str:
    """Of the installed cfck; raises ImportError without one."""
    import cfck

    return f"cfck {cfck.__version__}"


def common_error(tensors: Tensors, nmse: float) -> float:
    """The mean squared error of a value at an NMSE in dB over all tensors."""
    return 10 ** (nmse / 10) * energy(tensors.values()) / n_weights(tensors)


def target_options(tensors: Tensors, nmse: float) -> Options:
    """A plain target for all tensors it reaches, and rules for those that are too small for it.

    Small tensors would be kept without loss. Their rules ask for the mean squared error that the
    others get.
    """
    error = common_error(tensors, nmse)

    def target(chosen: Tensors) -> float:
        return min(0.5, error * n_weights(chosen) / energy(chosen.values()))

    small = {name: values for name, values in tensors.items() if values.size < LEAST_VALUES}
    large = {name: values for name, values in tensors.items() if name not in small}
    rules = {name: {"codec": "spectral", "nmse": target({name: small[name]})} for name in small}
    return {"nmse": target(large), "rules": rules} if rules else {"nmse": target(large)}


def rate_options(tensors: Tensors, bits: float) -> Options:
    """Bits per weight for all tensors that a plain target reaches, SMALL_BITS for the others."""
    small = [name for name, values in tensors.items() if values.size < LEAST_VALUES]
    rules = {name: {"codec": "spectral", "bits_per_weight": SMALL_BITS} for name in small}
    return {"bits_per_weight": bits, "rules": rules}


def save_and_load(tensors: Tensors, setting: str, options: Options) -> Coded:
    """One file: the stored bytes of all its records, and the tensors that come back."""
    import cfck.numpy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cfck")
        try:
            summary = cfck.numpy.save_file(tensors, path, threads=1, **options)
        except TypeError as error:
            raise MissingPreset(str(error).split(";")[0]) from None
        loaded = cfck.numpy.load_file(path, threads=1)
    return Coded(setting, summary.stored_bytes, loaded)


def as_matrices(tensors: Tensors) -> Tensors:
    """Kernels become rows, one for each output channel."""
    return {name: values.reshape(values.shape[0], -1) for name, values in tensors.items()}


def spectral(
    preset: Preset,
    prepared: Options,
    tensors: Tensors,
    levels: Sequence[float],
    has_small: bool,
    subject: Any = None,
) -> Iterator[Coded]:
    """Codec spectral at each NMSE (dB) over all tensors, or bits per weight where the preset asks
    for them; of a subject, where it is completed."""
    given = as_matrices(tensors) if preset.flattens else tensors
    for level in levels:
        name, value = ("bits_per_weight", level) if preset.in_bits else ("nmse", 10 ** (level / 10))
        target = {name: value}
        if has_small:
            choose = rate_options if preset.in_bits else target_options
            target = choose(tensors, level)
        options = {"codec": "spectral", **target, **preset.options, **prepared}
        if preset.complete is not None:
            options |= preset.complete(subject, options)
        setting = f"bits_per_weight={level:g}" if preset.in_bits else f"nmse={level:g}dB"
        coded = save_and_load(given, setting, options)
        decoded = {name: coded.tensors[name].reshape(tensors[name].shape) for name in tensors}
        yield Coded(coded.setting, coded.n_bytes, decoded)


def direct(tensors: Tensors, levels: Sequence[float]) -> Iterator[Coded]:
    """Codec direct with one bound for all tensors, which gives about each NMSE (dB)."""
    for level in levels:
        bound = math.sqrt(3 * common_error(tensors, level))
        rules = {"*": {"max_abs_error": bound, "force": True}}
        yield save_and_load(tensors, f"max_abs_error={bound:.3g}", {"rules": rules})


def float_matrices(tensors: dict[str, np.ndarray]) -> Tensors:
    """The float32 tensors of two or more dimensions."""
    return {
        name: np.ascontiguousarray(values)
        for name, values in tensors.items()
        if values.ndim >= 2 and values.dtype == np.float32
    }
