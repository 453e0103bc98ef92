"""Quantised rows as peers send them: integers of one width, and exceptions."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

WIDTHS = (torch.int8, torch.int16, torch.int32)
# A receiver needs more than codes: numbers of rows and of exceptions (4 bytes each), the step
# (8) and the offset (4).
HEADER_BYTES = 20
# Its place and its value.
EXCEPTION_BYTES = 8
# Steps are smaller than twice the error by this, so that rounding to float32 does not exceed it for
# codes up to _FAST_CODES.
_MARGIN = 2.0**-12
_FAST_CODES = 500
_FAST_STEPS = (1e-30, 1e30)


class Codes(NamedTuple):
    """A batch of rows as integers: value = code * step + offset, but for exceptions.

    Attributes:
        values: of the shape of the rows, of one of WIDTHS.
        step: 0.0 where all values are the offset.
        offset: 0.0 but for constant rows.
        places: of the exceptions in the flat rows, int64.
        exact: their values, float32.
    """

    values: torch.Tensor
    step: float
    offset: float
    places: torch.Tensor
    exact: torch.Tensor

    def side_bytes(self) -> int:
        """What is sent beside the codes."""
        return HEADER_BYTES + EXCEPTION_BYTES * self.places.numel()


_NO_PLACES = torch.empty(0, dtype=torch.int64)
_NO_VALUES = torch.empty(0, dtype=torch.float32)


def quantise(rows: torch.Tensor, error: float, width: torch.dtype) -> Codes:
    """Rounds values to multiples of a step, slightly below twice the error.

    Values whose codes do not fit the width, that are not finite, or that would be off by more than
    the error are exceptions: no code wraps.

    Args:
        rows: of dtype float32.
        error: the most by which a value may change; 0.0 for rows without a range.
        width: of the codes.
    """
    if error == 0:
        return _constant(rows, width)
    step = 2 * error * (1 - _MARGIN)
    if _FAST_STEPS[0] < step < _FAST_STEPS[1]:
        codes = torch.mul(rows, 1 / step).round_()
        low, high = torch.aminmax(codes)
        limit = min(_FAST_CODES, torch.iinfo(width).max)
        if -limit <= float(low) and float(high) <= limit:  # false for NaN
            return Codes(codes.to(width), step, 0.0, _NO_PLACES, _NO_VALUES)
    return _checked(rows, error, step, width)


def _constant(rows: torch.Tensor, width: torch.dtype) -> Codes:
    finite = rows[rows.isfinite()]
    offset = float(finite[0]) if finite.numel() else 0.0
    places = (rows.reshape(-1) != offset).nonzero()[:, 0]
    codes = torch.zeros(rows.shape, dtype=width)
    return Codes(codes, 0.0, offset, places, rows.reshape(-1)[places])


def _checked(rows: torch.Tensor, error: float, step: float, width: torch.dtype) -> Codes:
    values = rows.double()
    codes = torch.round(values / step)
    fits = codes.isfinite() & (codes.abs() <= torch.iinfo(width).max)
    codes = torch.where(fits, codes, 0.0)
    fits &= (_scaled(codes, step).double() - values).abs() <= error
    codes = torch.where(fits, codes, 0.0).to(width)
    places = (~fits).reshape(-1).nonzero()[:, 0]
    return Codes(codes, step, 0.0, places, rows.reshape(-1)[places])


def _scaled(codes: torch.Tensor, step: float) -> torch.Tensor:
    if not _FAST_STEPS[0] < step < _FAST_STEPS[1]:
        return (codes.double() * step).float()
    return codes.to(torch.float32).mul_(step)


def dequantise(codes: Codes) -> torch.Tensor:
    """Returns the rows that codes stand for, of dtype float32."""
    if codes.step == 0:
        rows = torch.full(codes.values.shape, codes.offset)
    else:
        rows = _scaled(codes.values, codes.step)
    if codes.places.numel():
        rows.view(-1)[codes.places] = codes.exact
    return rows


def largest_error(before: torch.Tensor, after: torch.Tensor) -> float:
    """The largest error of a finite value; infinity where others did not stay what they were."""
    finite = before.isfinite()
    is_same = (after == before) | (after.isnan() & before.isnan())
    if not bool((finite | is_same).all()):
        return math.inf
    errors = (after.double() - before.double()).abs()[finite]
    return float(errors.max()) if errors.numel() else 0.0
