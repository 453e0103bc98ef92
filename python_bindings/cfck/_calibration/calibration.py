"""The measurements of a model: how much each tensor matters (docs/calibration.md)."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from .. import _native
from .._common.text import shown
from .._frameworks.choose import framework_of
from .._frameworks.framework import AnyTensor, Framework, TensorT
from .._frameworks.numpy_arrays import NumpyFramework
from .._io.archive import Archive
from .._io.save import write_bytes, write_file
from .._options.kinds import LimitOptions, OpenOptions, Unpack
from .._options.signatures import chosen, complete, takes
from ..errors import InvalidArgumentError, UnsupportedError
from .file import FORMAT, VERSION, Parser, to_file
from .tensor import CalibratedTensor, native_tensor


class Calibration(Mapping[str, CalibratedTensor]):
    """The measurements of a model, tensor by tensor, under the names of its state_dict().

    Attributes:
        distance: the distance that sensitivities are measured by: "kl" (nats), "cosine" (1 -
            cosine), "mse" (relative to the output's energy) or "custom".
        source: the kind of inputs: "batches", or a description of generated ones.
        n_examples: on how many inputs the sensitivities were measured.
        n_moment_examples: on how many inputs the second moments were measured; 0: none were.
        seed: the seed of inputs and errors.
        cap_octaves: limit of the steps.
        step: the common step that a refined calibration (cfck.refine) is for, as in
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
        """A copy of the calibration for a file with other names: change("encoder.w") gives the new
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
        """All attributes by name; without ``step`` where it was not refined."""
        names = ("distance", "source", "n_examples", "n_moment_examples", "seed", "cap_octaves")
        refined = () if self.step is None else ("step",)
        return {name: getattr(self, name) for name in (*names, *refined)}

    def check(
        self, tensors: Mapping[str, AnyTensor], *, complete: bool = True, values: bool = True
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
                raise _misfit(name, "it does not have this tensor")
            shape = tuple(int(size) for size in tensor.shape)
            if shape != known.shape:
                raise _misfit(
                    name, f"it has shape {list(known.shape)} there, but {list(shape)} here"
                )
            if values and known.digest:
                dtype, digest = fingerprint(framework_of(tensor), tensor)
                if dtype == known.dtype and digest != known.digest:
                    raise _misfit(name, "it was made with other values; calibrate this model")
        if complete:
            for name in self._tensors:
                if name not in tensors:
                    raise _misfit(name, "it is missing here")

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes a .cfck file, without loss, which replaces an old one when it is complete."""
        arrays, metadata = to_file(self._tensors, self._facts())
        write_file(NumpyFramework(), arrays, filename, metadata, {})

    def _for_library(self) -> _native.Calibration:
        """The calibration for the library, which uses the arrays where they are."""
        tensors = [native_tensor(name, tensor) for name, tensor in self._tensors.items()]
        return _native.Calibration.of_tensors(self.source, self.step, tensors)

    def file_bytes(self) -> bytes:
        """The bytes of the file that save() writes."""
        arrays, metadata = to_file(self._tensors, self._facts())
        return write_bytes(NumpyFramework(), arrays, metadata, {})


@takes(LimitOptions)
def load_calibration(
    filename: str | os.PathLike[str],
    *,
    options: LimitOptions | None = None,
    **fields: Unpack[LimitOptions],
) -> Calibration:
    """Reads a calibration that Calibration.save() wrote. Needs no torch.

    Args:
        filename: the .cfck file.
        options: how to read: a dict, or cfck.LoadOptions.

    Raises:
        CfckError: InvalidArgumentError where the file is no calibration, UnsupportedError where a
            newer version wrote it, CorruptError, and what load_file raises.
    """
    limits = cast(OpenOptions, complete(LimitOptions, chosen(LimitOptions, options, fields)))
    archive = Archive.open(filename, limits)
    metadata = archive.metadata()
    if metadata.get("format") != FORMAT:
        raise InvalidArgumentError(f"{os.fsdecode(filename)} is not a calibration file")
    if metadata.get("version") != str(VERSION):
        raise UnsupportedError(
            f"{os.fsdecode(filename)} is a calibration of version "
            f"{shown(metadata.get('version', ''))}; this is version {VERSION}"
        )
    arrays = archive.load_all(NumpyFramework())
    tensors, facts = Parser(metadata, arrays).run()
    return Calibration(tensors, **facts)


def fingerprint(framework: Framework[TensorT], tensor: TensorT) -> tuple[str, str]:
    """Dtype and digest of a tensor, as a file would give them for its record."""
    data = write_bytes(framework, {"": tensor}, None, {"codec": "raw"})
    record = Archive.from_bytes(data, {"threads": 1, "verify": False}).record("")
    return record.dtype, record.digest


def _misfit(name: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"tensor `{name}`: the calibration belongs to another model: {why}", record=name
    )
