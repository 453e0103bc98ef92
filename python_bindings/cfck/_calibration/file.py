"""The file of a calibration: arrays, and metadata in JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._common.text import shown, with_article
from ..errors import CorruptError
from .tensor import CalibratedTensor

FORMAT = "cfck.calibration"
VERSION = 1

_NUMBERS = ("sigma", "sensitivity", "linearity", "log2_step", "log2_step_uncapped")
_ARRAYS = ("second_moment", "row_frequency", "gradient_energy", "corrected")


def to_file(
    tensors: Mapping[str, CalibratedTensor], facts: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata of the file of a calibration."""
    table = [_entry(name, tensor) for name, tensor in tensors.items()]
    arrays: dict[str, np.ndarray] = {
        number: np.array([getattr(tensor, number) for tensor in tensors.values()], np.float64)
        for number in _NUMBERS
    }
    for name, tensor in tensors.items():
        for kind in _ARRAYS if tensor.tied_to is None else ():
            array = getattr(tensor, kind)
            if array is not None:
                arrays[f"{kind}/{name}"] = array
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "calibration": _json(facts),
        "tensors": _json(table),
    }
    return arrays, metadata


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _entry(name: str, tensor: CalibratedTensor) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "dtype": tensor.dtype}
    if tensor.digest:
        entry["digest"] = tensor.digest
    if tensor.tied_to is not None:
        entry["tied_to"] = tensor.tied_to
    if tensor.n_positions:
        entry["n_positions"] = tensor.n_positions
    if tensor.second_moment is not None:
        entry["input_axis"] = tensor.input_axis
    return entry


def _bad(what: str) -> CorruptError:
    return CorruptError(f"the calibration is damaged or was not written by cfck: {what}")


class Parser:
    """A calibration out of what a file holds, which may be anything."""

    def __init__(self, metadata: Mapping[str, str], arrays: dict[str, np.ndarray]) -> None:
        self._metadata = metadata
        self._arrays = arrays

    def run(self) -> tuple[dict[str, CalibratedTensor], dict[str, Any]]:
        """The tensors, and the other arguments of Calibration."""
        table = self._parse("tensors", list)
        facts = self._parse("calibration", dict)
        numbers = {number: self._numbers(number, len(table)) for number in _NUMBERS}
        tensors: dict[str, CalibratedTensor] = {}
        for position, entry in enumerate(table):
            name, tensor = self._tensor(entry, tensors)
            if name in tensors:
                raise _bad(f"two tensors `{shown(name)}`")
            own: dict[str, Any] = {
                number: float(values[position]) for number, values in numbers.items()
            }
            tensors[name] = dataclasses.replace(tensor, **own)
        for name in self._arrays:
            raise _bad(f"record `{shown(name)}` belongs to no tensor")
        cap = _get(facts, "cap_octaves", float)
        if not cap >= 0 or any(not abs(tensor.log2_step) <= cap for tensor in tensors.values()):
            raise _bad("steps beyond the cap")
        return tensors, {
            "distance": _get(facts, "distance", str),
            "source": _get(facts, "source", str),
            "n_examples": _get(facts, "n_examples", int),
            "n_moment_examples": _get(facts, "n_moment_examples", int),
            "seed": _get(facts, "seed", int),
            "cap_octaves": cap,
            "step": self._step(facts),
        }

    def _step(self, facts: Mapping[str, Any]) -> float | None:
        if "step" not in facts:
            return None
        step: float = _get(facts, "step", float)
        if not 0 < step < math.inf:
            raise _bad("the step is not a positive number")
        return step

    def _parse(self, key: str, kind: type) -> Any:
        try:
            value = json.loads(self._metadata[key], parse_constant=_no_constant)
        except (KeyError, ValueError, RecursionError):
            raise _bad(f"no JSON in its metadata under {key!r}") from None
        if not isinstance(value, kind):
            raise _bad(f"{key!r} in its metadata is not {with_article(kind.__name__)}")
        return value

    def _numbers(self, name: str, count: int) -> np.ndarray:
        array = self._arrays.pop(name, None)
        if array is None or array.dtype != np.float64 or array.shape != (count,):
            raise _bad(f"record `{name}` is not {count} F64")
        return array

    def _tensor(
        self, entry: Any, before: Mapping[str, CalibratedTensor]
    ) -> tuple[str, CalibratedTensor]:
        if not isinstance(entry, dict):
            raise _bad("an entry of 'tensors' is not an object")
        name = _get(entry, "name", str)
        shape = _get(entry, "shape", list)
        if any(type(size) is not int or size < 0 for size in shape):
            raise _bad(f"shape of `{shown(name)}`")
        tied_to = _get(entry, "tied_to", str) if "tied_to" in entry else None
        tensor = CalibratedTensor(
            tuple(shape),
            _get(entry, "dtype", str),
            digest=_get(entry, "digest", str) if "digest" in entry else "",
            tied_to=tied_to,
            n_positions=_get(entry, "n_positions", int) if "n_positions" in entry else 0,
            input_axis=_get(entry, "input_axis", int) if "input_axis" in entry else 1,
        )
        if tied_to is not None:
            base = before.get(tied_to)
            if base is None or base.tied_to is not None or base.shape != tensor.shape:
                raise _bad(f"`{shown(name)}` is tied to `{shown(tied_to)}`")
            arrays = {kind: getattr(base, kind) for kind in _ARRAYS}
        else:
            arrays = {kind: self._arrays.pop(f"{kind}/{name}", None) for kind in _ARRAYS}
            for kind, array in arrays.items():
                if array is not None:
                    _check_array(kind, name, array, tensor)
        return name, dataclasses.replace(tensor, **arrays)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _get(entry: Mapping[str, Any], key: str, kind: type) -> Any:
    value = entry.get(key)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise _bad(f"{key!r} in its metadata is not {with_article(kind.__name__)}")
    return value


def _check_array(kind: str, name: str, array: np.ndarray, tensor: CalibratedTensor) -> None:
    """Its dtype, and that it fits the tensor."""
    if kind == "second_moment":
        fits = array.dtype == np.float32 and _fits_layer(array, tensor)
    elif kind == "row_frequency":
        fits = array.dtype == np.float64 and array.shape == tensor.shape[:1]
    elif kind == "corrected":
        fits = array.dtype == np.float32 and array.shape == tensor.shape
        fits = fits and bool(np.isfinite(array).all())
    else:
        fits = array.dtype == np.float64 and array.ndim == 1
    if not fits:
        raise _bad(f"record `{kind}/{shown(name)}` is {array.dtype} of {list(array.shape)}")


def _fits_layer(array: np.ndarray, tensor: CalibratedTensor) -> bool:
    """Whether these are the moments of a layer with this weight."""
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[1] != array.shape[2]):
        return False
    if len(tensor.shape) < 2 or not array.shape[0]:
        return False
    groups, columns = array.shape[:2]
    if tensor.input_axis == 1:
        return not tensor.shape[0] % groups and bool(columns == math.prod(tensor.shape[1:]))
    # The tensor has the input channels of all groups.
    inputs = tensor.shape[0] * math.prod(tensor.shape[2:])
    return tensor.input_axis == 0 and bool(groups * columns == inputs)
