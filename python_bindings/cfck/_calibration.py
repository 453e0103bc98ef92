"""What was learned about a model: how much each tensor matters (docs/calibration.md)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ._arrays import NumpyFramework
from ._checkpoint import Checkpoint
from ._framework import Framework, framework_of
from ._plain import shown
from ._save import write_bytes, write_file
from .errors import CorruptError, InvalidArgumentError, UnsupportedError

FORMAT = "cfck.calibration"
VERSION = 1
# Tensors that plain lossy options reach; only they say what the flat step is.
MIN_VALUES = 1024

_NUMBERS = ("sigma", "sensitivity", "linearity", "log2_step", "log2_step_uncapped")
_ARRAYS = ("second_moment", "row_frequency", "gradient_energy", "corrected")


@dataclasses.dataclass(frozen=True, eq=False)
class CalibratedTensor:
    """What is known about one tensor.

    Attributes:
        shape: dimensions.
        dtype: as in safetensors: "F32", ...
        digest: hash of its values, as RecordInfo.digest; "" where nothing was measured.
        tied_to: name of the tensor that is the same memory and has the numbers below; or None.
        sigma: root mean square of its finite values.
        sensitivity: how much the distance of the model's outputs grows for each unit of the
            tensor's normalised mean square error, sum(e^2) / sum(w^2), while that is small. NaN
            where it was not measured.
        linearity: the same measured with the larger error over that with the smaller: near 1,
            unless the error is no longer small for this tensor. NaN where there is nothing to say.
        log2_step: by how many octaves its step should be above the flat one, which is the same
            multiple of sigma for all tensors; at most ``cap_octaves`` of the calibration.
        log2_step_uncapped: the same without a limit; inf where the output does not depend on it.
        second_moment: E[x x^T] of the inputs of its layer, (groups, n, n), or only the diagonals,
            (groups, n); None where it was not measured. Order of n: input channel of the group,
            then the taps of the kernel.
        input_axis: axis of the tensor that has the input channels: 1, or 0 where the layer is
            transposed.
        row_frequency: of an embedding, how often each row was looked up; adds up to 1.
        gradient_energy: E[g^2] for each output of its layer, g the gradient of an example's loss.
        n_positions: how many inputs the moments were measured on: each example has some.
        corrected: of a refined calibration, the values that codec "spectral" rounds instead of
            the tensor's own, float32 of its shape: they make up for errors in the layers before.
    """

    shape: tuple[int, ...]
    dtype: str
    digest: str = ""
    tied_to: str | None = None
    sigma: float = math.nan
    sensitivity: float = math.nan
    linearity: float = math.nan
    log2_step: float = 0.0
    log2_step_uncapped: float = 0.0
    second_moment: np.ndarray | None = None
    input_axis: int = 1
    row_frequency: np.ndarray | None = None
    gradient_energy: np.ndarray | None = None
    n_positions: int = 0
    corrected: np.ndarray | None = None

    @property
    def n_elems(self) -> int:
        """Product of the shape."""
        return math.prod(self.shape)

    @property
    def is_measured(self) -> bool:
        """Whether there is a sensitivity."""
        return not math.isnan(self.sensitivity)


class Calibration(Mapping[str, CalibratedTensor]):
    """What was learned about a model, tensor by tensor, under the names of its state_dict().

    Attributes:
        distance: what the sensitivities are of: "kl" (nats), "cosine" (1 - cosine), "mse"
            (relative to the output's energy) or "custom".
        source: what the inputs were: "batches", or what was generated.
        n_examples: on how many inputs the sensitivities were measured.
        n_moment_examples: on how many inputs the second moments were measured; 0: none were.
        seed: of inputs and errors.
        cap_octaves: limit of the steps.
        step: of a refined calibration (cfck.refine), the common step that it is for, as in
            SaveSummary.step; else None.
    """

    def __init__(
        self,
        tensors: Mapping[str, CalibratedTensor],
        *,
        distance: str,
        source: str,
        n_examples: int,
        n_moment_examples: int,
        seed: int,
        cap_octaves: float,
        step: float | None = None,
    ) -> None:
        self._tensors = dict(tensors)
        self.distance = distance
        self.source = source
        self.n_examples = n_examples
        self.n_moment_examples = n_moment_examples
        self.seed = seed
        self.cap_octaves = cap_octaves
        self.step = step

    def __getitem__(self, name: str) -> CalibratedTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        measured = sum(tensor.is_measured for tensor in self._tensors.values())
        moments = sum(tensor.second_moment is not None for tensor in self._tensors.values())
        return (
            f"<cfck.Calibration of {len(self)} tensors: {measured} sensitivities ({self.distance}),"
            f" {moments} second moments; {self.source}>"
        )

    def multipliers(self, capped: bool = True) -> dict[str, float]:
        """Step of each tensor over the flat one: 2 to log2_step."""
        steps = {
            name: tensor.log2_step if capped else tensor.log2_step_uncapped
            for name, tensor in self._tensors.items()
        }
        return {name: 2.0**step if step < 1024 else math.inf for name, step in steps.items()}

    def renamed(self, change: Callable[[str], str]) -> Calibration:
        """The same calibration for a file with other names: change("encoder.w") gives the new
        one, "bert.encoder.w" for example."""
        names = {name: change(name) for name in self._tensors}
        if len(set(names.values())) != len(names):
            raise InvalidArgumentError("two tensors would have the same name")
        tensors = {}
        for name, tensor in self._tensors.items():
            tied_to = None if tensor.tied_to is None else names[tensor.tied_to]
            tensors[names[name]] = dataclasses.replace(tensor, tied_to=tied_to)
        return Calibration(tensors, **self._facts())

    def _facts(self) -> dict[str, Any]:
        names = ("distance", "source", "n_examples", "n_moment_examples", "seed", "cap_octaves")
        refined = () if self.step is None else ("step",)
        return {name: getattr(self, name) for name in (*names, *refined)}

    def check(
        self, tensors: Mapping[str, Any], *, complete: bool = True, values: bool = True
    ) -> None:
        """Raises unless these are the tensors of the model that was calibrated.

        Args:
            tensors: torch tensors or numpy arrays by name.
            complete: also refuse tensors that are missing, not only unknown ones and those of
                other shapes.
            values: also refuse tensors of the same dtype whose values are others.

        Raises:
            InvalidArgumentError: names the first tensor that does not fit.
        """
        for name, tensor in tensors.items():
            known = self._tensors.get(name)
            if known is None:
                raise _misfit(name, "it has no such tensor")
            shape = tuple(int(size) for size in tensor.shape)
            if shape != known.shape:
                raise _misfit(name, f"there it has shape {list(known.shape)}, here {list(shape)}")
            if values and known.digest:
                dtype, digest = fingerprint(framework_of(tensor), tensor)
                if dtype == known.dtype and digest != known.digest:
                    raise _misfit(name, "there it has other values; calibrate this model")
        if complete:
            for name in self._tensors:
                if name not in tensors:
                    raise _misfit(name, "it is missing here")

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes a .cfck file, without loss, which replaces an old one when it is complete."""
        arrays, metadata = self._parts()
        write_file(NumpyFramework(), arrays, filename, metadata, {})

    def file_bytes(self) -> bytes:
        """What save() writes."""
        arrays, metadata = self._parts()
        return write_bytes(NumpyFramework(), arrays, metadata, {})

    def _parts(self) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        table = [_entry(name, tensor) for name, tensor in self._tensors.items()]
        arrays: dict[str, np.ndarray] = {
            number: np.array(
                [getattr(tensor, number) for tensor in self._tensors.values()], np.float64
            )
            for number in _NUMBERS
        }
        for name, tensor in self._tensors.items():
            for kind in _ARRAYS if tensor.tied_to is None else ():
                array = getattr(tensor, kind)
                if array is not None:
                    arrays[f"{kind}/{name}"] = array
        metadata = {
            "format": FORMAT,
            "version": str(VERSION),
            "calibration": _json(self._facts()),
            "tensors": _json(table),
        }
        return arrays, metadata


def load_calibration(
    filename: str | os.PathLike[str],
    *,
    threads: int = 0,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int | str] | None = None,
) -> Calibration:
    """Reads a calibration that Calibration.save() wrote. Needs no torch.

    Args:
        filename: the .cfck file.
        threads: worker threads; 0: the CPUs this process may use.
        max_decoded_bytes: the most this call may decode; 0: max(16 GiB, 64 times the file).
        limits: raises or lowers what the file may make this call hold in memory, by name: a dict
            of "max_decoded_bytes", "max_attachment_bytes", "max_index_bytes",
            "max_metadata_bytes", "max_records"; numbers, or sizes as "60MB". See docs/limits.md.

    Raises:
        CfckError: InvalidArgumentError where the file is no calibration, UnsupportedError where a
            newer version wrote it, CorruptError, and what load_file raises.
    """
    checkpoint = Checkpoint.open(
        filename,
        "pread",
        threads=threads,
        verify=True,
        max_decoded_bytes=max_decoded_bytes,
        limits=limits,
    )
    metadata = checkpoint.metadata()
    if metadata.get("format") != FORMAT:
        raise InvalidArgumentError(f"{os.fsdecode(filename)} is no calibration")
    if metadata.get("version") != str(VERSION):
        raise UnsupportedError(
            f"{os.fsdecode(filename)} is a calibration of version "
            f"{shown(metadata.get('version', ''))}; this is version {VERSION}"
        )
    arrays = checkpoint.load(checkpoint.names(), NumpyFramework(), None, None)
    return _Parser(metadata, arrays).run()


def fingerprint(framework: Framework, tensor: Any) -> tuple[str, str]:
    """Dtype and digest of a tensor, as a file would give them for its record."""
    data = write_bytes(framework, {"": tensor}, None, {"codec": "raw"})
    checkpoint = Checkpoint.from_bytes(data, threads=1, verify=False, max_decoded_bytes=0)
    record = checkpoint.record("")
    return record.dtype, record.digest


def with_steps(
    tensors: Mapping[str, CalibratedTensor], cap_octaves: float
) -> dict[str, CalibratedTensor]:
    """The tensors with log2_step set from their sensitivities.

    A step of m_t times the flat one, which is a multiple of sigma_t, costs the distance s_t m_t^2
    and saves n_t log2(m_t) bits. At equal slopes m_t^2 is in proportion to n_t / s_t; the factor is
    such that the mean of 1 / m_t^2 over all values is 1.
    """
    counted = [
        tensor
        for tensor in tensors.values()
        if tensor.is_measured
        and tensor.tied_to is None
        and len(tensor.shape) >= 2
        and tensor.n_elems >= MIN_VALUES
    ]
    n_elems = math.fsum(tensor.n_elems for tensor in counted)
    sensitivity = math.fsum(tensor.sensitivity for tensor in counted)
    result = {}
    for name, tensor in tensors.items():
        octaves = 0.0
        if tensor.is_measured and sensitivity > 0:
            octaves = math.inf
            if tensor.sensitivity > 0:
                share = tensor.sensitivity / sensitivity
                octaves = 0.5 * (math.log2(tensor.n_elems / n_elems) - math.log2(share))
        capped = min(max(octaves, -cap_octaves), cap_octaves)
        result[name] = dataclasses.replace(tensor, log2_step=capped, log2_step_uncapped=octaves)
    return result


def _misfit(name: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"tensor `{name}`: the calibration is of another model: {why}", record=name
    )


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
    return CorruptError(f"the calibration is damaged or not of this program: {what}")


class _Parser:
    """A calibration out of what a file holds, which may be anything."""

    def __init__(self, metadata: Mapping[str, str], arrays: dict[str, np.ndarray]) -> None:
        self._metadata = metadata
        self._arrays = arrays

    def run(self) -> Calibration:
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
        return Calibration(
            tensors,
            distance=_get(facts, "distance", str),
            source=_get(facts, "source", str),
            n_examples=_get(facts, "n_examples", int),
            n_moment_examples=_get(facts, "n_moment_examples", int),
            seed=_get(facts, "seed", int),
            cap_octaves=cap,
            step=self._step(facts),
        )

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
            raise _bad(f"{key!r} in its metadata is no {kind.__name__}")
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
            raise _bad("an entry of 'tensors' is no object")
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
    raise ValueError(f"{text} is no JSON")


def _get(entry: Mapping[str, Any], key: str, kind: type) -> Any:
    value = entry.get(key)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise _bad(f"{key!r} in its metadata is no {kind.__name__}")
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
