"""Which values of a tensor have the largest magnitudes, on the device where the tensor is."""

from __future__ import annotations

import torch

from .. import _native
from ..errors import InvalidArgumentError
from .arguments import check_tensor, integer

# The bits of a value without its sign order values by magnitude, NaN above infinity.
_MAGNITUDES = {
    torch.float32: (torch.int32, 0x7FFFFFFF),
    torch.bfloat16: (torch.int16, 0x7FFF),
    torch.float16: (torch.int16, 0x7FFF),
}


def is_on_host(tensor: torch.Tensor) -> bool:
    """Whether native code can read a tensor where it is."""
    return tensor.device.type == "cpu"


def select_largest(values: torch.Tensor, k: int) -> torch.Tensor:
    """Returns the flat indices of the k values with the largest magnitudes, ascending, as int64.

    Exact and deterministic, and the same on all devices: of equal magnitudes those with lower
    indices count, and a NaN is larger than infinity, by its bits.

    Args:
        values: contiguous, of dtype float32, bfloat16 or float16. On another device than the host
            they are chosen by torch operations there, and nothing is copied to the host.
        k: at most as many as there are.

    Returns:
        The indices, on the device of the values.

    Raises:
        InvalidArgumentError: k is negative, or larger than the number of values.
        TypeError: of another dtype, not contiguous, or without data (on the device meta).
    """
    check_tensor(values)
    if values.dtype not in _MAGNITUDES or values.is_meta or not values.is_contiguous():
        raise TypeError(
            "the largest values are those of contiguous tensors of float32, bfloat16 or float16 "
            f"with data, not of {values.dtype} of shape {list(values.shape)} on {values.device}"
        )
    flat = values.detach().view(-1)
    k = integer("k", k)
    if not 0 <= k <= flat.numel():
        raise InvalidArgumentError(f"k is {k}, and there are {flat.numel()} values")
    if not is_on_host(flat):
        return largest_of_rows(flat.unsqueeze(0), k)
    if flat.dtype != torch.float32:
        # Floats in the same order.
        flat = (_magnitudes(flat).to(torch.int32) << 16).view(torch.float32)
    indices = torch.empty(k, dtype=torch.int32, device="cpu")
    _native.select_largest(flat.data_ptr(), flat.numel(), indices.data_ptr(), k)
    return indices.to(torch.int64) & 0xFFFFFFFF


def largest_of_rows(rows: torch.Tensor, k: int) -> torch.Tensor:
    """Returns the flat indices of the k largest values of each row, ascending, as int64.

    As select_largest(), by torch operations on the device of the tensor, which has two dimensions.
    """
    n = rows.shape[1]
    if k == 0 or k == n:
        return torch.arange(rows.numel() if k else 0, device=rows.device)
    keys = _magnitudes(rows)
    lowest = keys.topk(k, dim=1, sorted=False).values.amin(1, keepdim=True)
    above, equal = keys > lowest, keys == lowest
    n_left = k - above.sum(1, keepdim=True)
    counted = equal.cumsum(1, dtype=torch.int32 if n < 1 << 31 else torch.int64)
    return (above | (equal & (counted <= n_left))).view(-1).nonzero().view(-1)


def _magnitudes(values: torch.Tensor) -> torch.Tensor:
    dtype, mask = _MAGNITUDES[values.dtype]
    return values.view(dtype) & mask
