"""The report of a call that wrote."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence

from .. import _native
from .._common.callers import level_of_caller
from .._common.near import listed, nearest_to_pattern

# Rules for which near names are looked up: among 10,000 names that takes half a second each.
_MAX_SEARCHES = 5


class RuleWarning(UserWarning):
    """A rule had no effect: no tensor has a name that it matches first. All else was written."""


class SharedMemoryWarning(UserWarning):
    """Tensors that share memory were stored apart: loaded again, they share it no longer."""


class LossWarning(UserWarning):
    """A file was saved that may be useless: its errors are large, nothing was compressed, or a rule
    left lossless what it matches."""


class EmptyFileWarning(UserWarning):
    """A file was saved that holds no tensor."""


@dataclasses.dataclass(frozen=True)
class SaveSummary:
    """The report of a call that wrote.

    Attributes:
        n_records: tensors in the file.
        decoded_bytes: bytes of all of them in memory.
        stored_bytes: bytes of all of them in the file, without index and metadata.
        file_bytes: length of the file.
        step: what plain targets came to: the step of all tensors they reach, over what the
            calibration, if there is one, says of each. 0: there were none.
        kept_lossless: tensors that a maximum error was meant for and that kept every bit all the
            same, in the order of the file, and why: "not_float", "few_dimensions" (fewer than 2),
            "few_values" (fewer than 1024), "optimizer_state", "buffer" (of a model), "near_zero"
            (root mean square below the absolute bound), "constant" (no range or deviation),
            "shared_memory" (tied to tensors with other options, or to a part of one),
            "not_smaller", "out_of_range" (squares of its values too large or too small for a
            target).
        unmatched_rules: patterns of rules that had no effect, in the order given.
        stored_apart: names of tensors that share memory with others and were stored apart from
            them, such as ``x[::2]`` and ``x[::3]``: without the elements that no tensor has, no
            strides say how they lie in what is stored.
        device_bytes: bytes of values that a CUDA device has encoded (``encode``), of equal tensors
            those of the first.
        host_bytes: bytes of values of tensors of CUDA devices that the host has encoded all the
            same, all of them where no device did (docs/devices.md says which are the host's).
            Memory that tensors share counts once in both.
    """

    n_records: int
    decoded_bytes: int
    stored_bytes: int
    file_bytes: int
    step: float = 0.0
    kept_lossless: dict[str, str] = dataclasses.field(default_factory=dict)
    unmatched_rules: tuple[str, ...] = ()
    stored_apart: tuple[str, ...] = ()
    device_bytes: int = 0
    host_bytes: int = 0


def summarize(
    native: _native.WriteSummary,
    names: Sequence[str],
    exempt: Mapping[str, str],
    on_device: tuple[int, int] = (0, 0),
) -> SaveSummary:
    """The summary for the caller, who is warned of rules without effect and of lost ties.

    Args:
        names: names of the tensors written.
        exempt: names that the caller exempted, and the reason of each.
        on_device: bytes of values of CUDA devices that one has encoded, and that the host has.
    """
    summary = SaveSummary(
        n_records=native.n_records,
        decoded_bytes=native.decoded_bytes,
        stored_bytes=native.stored_bytes,
        file_bytes=native.file_bytes,
        step=native.step,
        kept_lossless={
            name: exempt.get(name, reason) if reason == "exempt" else reason
            for name, reason in native.kept_lossless
        },
        unmatched_rules=tuple(native.unmatched_rules),
        stored_apart=tuple(native.stored_apart),
        device_bytes=on_device[0],
        host_bytes=on_device[1],
    )
    if summary.stored_apart:
        message = (
            "stored separately from the tensors that they share memory with, since no strides can "
            f"tie them without elements that belong to no tensor: {listed(summary.stored_apart)}"
        )
        warnings.warn(message, SharedMemoryWarning, stacklevel=level_of_caller())
    for position, pattern in enumerate(summary.unmatched_rules):
        reason = _why_unmatched(pattern, names, position < _MAX_SEARCHES)
        message = f"rule {pattern!r} has no effect: {reason}"
        warnings.warn(message, RuleWarning, stacklevel=level_of_caller())
    return summary


def warn_of_losses(summary: _native.WriteSummary, options: _native.EncodeOptions) -> None:
    for message in _native.loss_warnings(summary, options):
        warnings.warn(message, LossWarning, stacklevel=level_of_caller())


def warn_of_no_tensors(filename: str | os.PathLike[str], summary: SaveSummary) -> None:
    """Somebody may have lost them on the way here, by a filter that nothing passed."""
    if summary.n_records == 0:
        message = f"{os.fsdecode(filename)} was saved without tensors: there were none to save"
        warnings.warn(message, EmptyFileWarning, stacklevel=level_of_caller())


def _why_unmatched(pattern: str, names: Sequence[str], search: bool) -> str:
    matched = [name for name in names if _native.matches_glob(pattern, name)]
    if matched:
        return f"earlier rules match all of its tensors, {listed(matched)}"
    near = nearest_to_pattern(pattern, names) if search else []
    return "it matches no tensor" + (f"; the closest names are {listed(near)}" if near else "")
