"""A copy of a model that has the values which a file would decode to."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from .._frameworks.torch_tensors import TorchFramework
from .._io.archive import Archive
from .._io.save import write_and_tell
from .._io.summary import SaveSummary
from .calibration import Calibration
from .tensor import CalibratedTensor
from .weights import Weights

TARGETS = ("nmse", "psnr", "bits_per_weight", "size")


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A file in memory whose values the copy has.

    Attributes:
        summary: what save_file would return.
        data: the file.
        plain: the tensors that have the common step.
    """

    summary: SaveSummary
    data: bytes
    plain: set[str]


class RoundedCopy:
    """The copy, and what gives it values.

    Args:
        model: is copied.
        options: of the file, see cfck.SaveOptions.
        tell: called with the name of a tensor while files are encoded; or None.
        metadata: of the files.
    """

    def __init__(
        self,
        model: nn.Module,
        options: Mapping[str, Any],
        tell: Callable[[str], None] | None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.original = model
        self.model = copy.deepcopy(model)
        self.weights = Weights(model)
        self._live = Weights(self.model).tensors
        self._framework = TorchFramework()
        self._options = dict(options)
        self._metadata = metadata
        self.replaced: dict[str, torch.Tensor] = {}
        if tell is not None:
            self._options["progress"] = lambda done_bytes, total_bytes, name: tell(name)

    def state(self) -> dict[str, torch.Tensor]:
        """The tensors of the original, those in ``replaced`` in place of its own."""
        state = {**self.original.state_dict(), **self.replaced}
        return {name: t for name, t in state.items() if isinstance(t, torch.Tensor)}

    def replace(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Files, and the copy, have these in place of tensors of the original."""
        self.replaced = dict(tensors)
        for name, values in tensors.items():
            self._put(name, values)

    def load(self, calibration: Calibration, **changes: Any) -> Loaded:
        """Gives the copy what a file with this calibration, and these options changed, decodes
        to."""
        options: Any = self._options | changes | {"calibration": calibration}
        data, summary = write_and_tell(self._framework, self.state(), self._metadata, options)
        archive = self._read(data)
        for name, values in archive.load_all(self._framework).items():
            self._put(name, values)
        has_target = any(options.get(name) is not None for name in TARGETS)
        ruled = _names(options.get("rules"))
        plain = {
            name
            for name in archive.names()
            if archive.record(name).codec == "spectral"
            and (archive.record(name).whole_file if has_target else name not in ruled)
        }
        return Loaded(summary, data, plain)

    def round_one(
        self, calibration: Calibration, name: str, corrected: np.ndarray, step: float
    ) -> None:
        """Gives the copy the values of a tensor that a file with this step holds."""
        known = dataclasses.replace(calibration[name], corrected=corrected)
        changes = {"codec": "auto", "calibration": with_tensors(calibration, {name: known}, step)}
        # The calibration's step in place of a target, and so no codec that asks for one.
        options: Any = self._options | dict.fromkeys((*TARGETS, "rules")) | changes
        tensor = self.weights.tensors[name].data
        data, _ = write_and_tell(self._framework, {name: tensor}, None, options)
        self._put(name, self._read(data).load_one(name, self._framework))

    def _read(self, data: bytes) -> Archive:
        threads = self._options.get("threads", 0)
        return Archive.from_bytes(data, {"threads": threads, "verify": False})

    def _put(self, name: str, values: torch.Tensor) -> None:
        live = self._live.get(name)
        if live is not None:
            live.data.copy_(values)


def _names(rules: Any) -> set[str]:
    """The tensors that rules with a full name are for; other patterns reach what has the step."""
    pairs = rules.items() if isinstance(rules, Mapping) else rules or ()
    return {re.sub(r"\[([*?\[])\]", r"\1", name) for name, _ in pairs}


def with_tensors(
    calibration: Calibration, tensors: Mapping[str, CalibratedTensor], step: float | None
) -> Calibration:
    """The calibration with other tensors, for this step."""
    return Calibration(tensors, **(calibration._facts() | {"step": step}))


def at_step(calibration: Calibration, step: float | None) -> Calibration:
    """The calibration for this step."""
    return with_tensors(calibration, dict(calibration.items()), step)


def unrefined(calibration: Calibration) -> Calibration:
    """The calibration without corrected values."""
    tensors = {n: dataclasses.replace(t, corrected=None) for n, t in calibration.items()}
    return with_tensors(calibration, tensors, None)
