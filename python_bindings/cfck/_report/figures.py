"""Numbers of tensors before and after, for pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._io.records import RecordInfo
from .._io.safe_open import safe_open
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHOWN_DEVIATIONS = 4


def real_values(values: np.ndarray) -> NDArray[np.float64]:
    """The values as one row of doubles; of complex numbers both parts."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return flat.astype(np.float64)


def nmse_decibels(before: NDArray[np.float64], after: NDArray[np.float64]) -> float | None:
    """The squared errors relative to the squares of ``before``, in dB; None without errors."""
    finite = np.isfinite(before) & np.isfinite(after)
    errors, values = after[finite] - before[finite], before[finite]
    if not errors.any():
        return None
    power = float(values @ values)
    return 10 * math.log10(float(errors @ errors) / power) if power else math.inf


def errors_of(
    file: safe_open[np.ndarray], ref: safe_open[np.ndarray] | None, record: RecordInfo
) -> float | None:
    """The NMSE of a tensor in dB, measured or as the file records it; None if it is lossless."""
    if ref is None:
        return record.nmse_db
    original = ref.get_record(record.name)
    if original.shape != record.shape or original.dtype != record.dtype:
        raise InvalidArgumentError(
            f"{record.dtype} {list(record.shape)} here, {original.dtype} {list(original.shape)} "
            "in the reference: not comparable",
            record=record.name,
        )
    before, after = (real_values(f.get_tensor(record.name)) for f in (ref, file))
    return nmse_decibels(before, after)


def histogram_range(values: NDArray[np.float64]) -> tuple[float, float]:
    """The range of a histogram: four standard deviations around the mean, but no empty ends."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        raise InvalidArgumentError("the tensor has no finite values to draw")
    mean, margin = float(finite.mean()), _SHOWN_DEVIATIONS * float(finite.std())
    low, high = max(float(finite.min()), mean - margin), min(float(finite.max()), mean + margin)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def bands_of(report: dict[str, Any], name: str) -> Sequence[dict[str, Any]]:
    """The codings with several bands of a tensor, from what ``cfck bands --json`` prints."""
    # A name may be a shell pattern for other names too.
    records = [record for record in report["records"] if record["name"] == name]
    codings: list[dict[str, Any]] = [coding for record in records for coding in record["codings"]]
    found = [coding for coding in codings if len(coding["bands"]) > 1]
    if not found:
        why = (
            "has one band only: it is coded without a transform"
            if codings
            else ("is not of codec spectral, which alone has bands")
        )
        raise InvalidArgumentError(f"the tensor {why}", record=name)
    return found
