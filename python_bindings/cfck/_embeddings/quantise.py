"""What packets of rows do to values, without making one: the same bits, on any device."""

from __future__ import annotations

import math

import torch

from ..errors import InvalidArgumentError

# These are the constants of embeddings/quantise.cpp.
_MAX_CODE = 1 << 22
_ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def quantize_and_dequantize(rows: torch.Tensor, max_abs_error: float) -> torch.Tensor:
    """Changes rows to what a packet of them gives back, in place: the method's simulation.

    Args:
        rows: of shape (n_rows, row_elems), of dtype float32, float16 or bfloat16, on any device.
            All rows of a packet's batch belong in one call.
        max_abs_error: as Rows has it.

    Returns:
        ``rows``.

    Raises:
        InvalidArgumentError: the error is negative or not finite.
        TypeError: of another dtype or number of dimensions.
    """
    if rows.dtype not in _ROUNDING or rows.dim() != 2:
        raise TypeError(
            "rows are a tensor of float32, float16 or bfloat16 with two dimensions, not "
            f"{rows.dtype} of shape {list(rows.shape)}"
        )
    if not (math.isfinite(max_abs_error) and max_abs_error >= 0):
        raise InvalidArgumentError(
            f"max_abs_error is 0.0 or a positive number, not {max_abs_error!r}"
        )
    if max_abs_error == 0 or rows.numel() == 0:
        return rows
    with torch.no_grad():
        values = rows.detach().double()
        error = max_abs_error * (1 - 2.0**-50)
        finite = torch.where(values.isfinite(), values.abs(), values.new_zeros(()))
        largest = float(finite.max())
        step = 2 * max(error - largest * _ROUNDING[rows.dtype], error / 8) * (1 - 2.0**-16)
        if step == 0 or not math.isfinite(1 / step):
            return rows
        codes = torch.round(values * (1 / step)) + 0.0  # no negative zero
        decoded = (codes.float().double() * step).float().to(rows.dtype)
        is_kept = (codes.abs() <= _MAX_CODE) & ((decoded.double() - values).abs() <= error)
        kept_rows = is_kept.all(dim=1, keepdim=True)
        rows.copy_(torch.where(kept_rows, decoded, rows))
    return rows
