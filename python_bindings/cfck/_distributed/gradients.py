"""The largest values of gradients, as packets (spec/gradients.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from .. import _native
from .._io.opening import readable
from ..errors import InvalidArgumentError, LimitExceededError
from .arguments import check_numbers, check_tensor
from .selection import is_on_host

# So much is allocated for a packet without being told to.
_MAX_VALUES = 1 << 24
_MAX_RATIO = 64  # values for each byte


class SparseGradient(NamedTuple):
    """Some values of a tensor.

    Attributes:
        n_elems: of the tensor.
        indices: flat and ascending, of dtype int32 or int64, on the host.
        values: as many, of dtype float32, on the host.
    """

    n_elems: int
    indices: torch.Tensor
    values: torch.Tensor


class GradientCodec:
    """Packs the largest values of gradients into few bytes, and unpacks them.

    Args:
        value_error: the most by which a value may change, as a fraction of the root mean square of
            those that are sent of its tensor; 0.0: no bit is lost. NaN and infinities are sent as
            they are.

    Raises:
        InvalidArgumentError: value_error is negative or not finite.
        TypeError: it is no number.

    May be used by several threads at once.
    """

    def __init__(self, value_error: float = 0.1) -> None:
        check_numbers(value_error=value_error)
        if not (math.isfinite(value_error) and value_error >= 0):
            raise InvalidArgumentError(
                f"value_error is 0.0 or a positive number, not {value_error!r}"
            )
        self.value_error = float(value_error)

    def encode(self, tensors: Sequence[SparseGradient]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Packs the values of a step.

        Returns:
            The packet, of dtype uint8 on the host, and the values of each tensor as who decodes the
            packet gets them: what was lost stays to be sent.

        Raises:
            CfckError: InvalidArgumentError for indices that do not ascend or are out of range;
                LimitExceededError for tensors of 2^32 values.
            TypeError: of another dtype, or not contiguous on the host.
        """
        for tensor in tensors:
            if not isinstance(tensor, tuple):
                raise TypeError(
                    "tensors is a list of SparseGradient(n_elems, indices, values), with indices "
                    f"of select_largest() for instance, and not of {type(tensor).__name__}"
                )
        held = [(n, _indices(indices), _floats(values)) for n, indices, values in tensors]
        places = []
        for n_elems, indices, values in held:
            if not 0 <= n_elems < 1 << 32:
                raise LimitExceededError(f"a tensor of {n_elems} values: at most 2^32 - 1 are sent")
            if indices.numel() != values.numel():
                raise InvalidArgumentError(
                    f"there are {indices.numel()} indices and {values.numel()} values"
                )
            places.append((n_elems, indices.data_ptr(), values.data_ptr(), values.numel()))
        packet = torch.empty(
            _native.max_gradient_packet_bytes(places), dtype=torch.uint8, device="cpu"
        )
        counts = [values.numel() for _, _, values in held]
        decoded = torch.empty(sum(counts), dtype=torch.float32, device="cpu")
        n_bytes = _native.encode_gradients(
            places,
            self.value_error,
            packet.data_ptr(),
            packet.numel(),
            decoded.data_ptr(),
            decoded.numel(),
        )
        return packet[:n_bytes].clone(), list(torch.split(decoded, counts))

    def decode(self, packet: torch.Tensor | bytes) -> list[SparseGradient]:
        """Verifies and unpacks a packet; indices have dtype int64.

        Raises:
            CfckError: ChecksumError, CorruptError, TruncatedError for damaged bytes;
                UnsupportedError for those of a newer version; LimitExceededError for more than 2^24
                values and 64 for each byte.
        """
        data = readable(packet)
        shapes = _native.gradient_packet_shapes(data.ctypes.data, data.nbytes)
        total = sum(n_values for _, n_values in shapes)
        if total > max(_MAX_VALUES, _MAX_RATIO * data.nbytes):
            raise LimitExceededError(f"a packet of {data.nbytes} bytes says that it has {total}")
        return _decoded(data, shapes)

    def add(
        self, packet: torch.Tensor | bytes, tensors: Sequence[torch.Tensor], weight: float = 1.0
    ) -> None:
        """Verifies a packet, and adds ``weight`` times its values to the tensors that it is of.

        Args:
            packet: what encode() made.
            tensors: contiguous, of dtype float32. To those on other devices than the host the
                decoded values and their places are copied, and added there.
            weight: rounded to float32.

        Raises:
            CfckError: as decode(); InvalidArgumentError for tensors of other sizes. Nothing was
                added then.
            TypeError: of another dtype, or not contiguous.
        """
        data = readable(packet)
        sums = [_floats(tensor, may_be_away=True) for tensor in tensors]
        if all(map(is_on_host, sums)):
            places = [(t.data_ptr(), t.numel()) for t in sums]
            _native.add_gradients(data.ctypes.data, data.nbytes, weight, places)
            return
        shapes = _native.gradient_packet_shapes(data.ctypes.data, data.nbytes)
        if [n for n, _ in shapes] != [t.numel() for t in sums]:
            raise InvalidArgumentError(
                f"a packet of {len(shapes)} tensors is not of these {len(sums)}, or they have other"
                " sizes"
            )
        for total, given in zip(sums, _decoded(data, shapes), strict=True):
            at = given.indices.to(total.device)
            total.view(-1)[at] += given.values.to(total.device) * weight


def chosen(values: torch.Tensor, indices: torch.Tensor) -> SparseGradient:
    """Some values of a flat tensor of any device, of which these alone are copied to the host."""
    return SparseGradient(values.numel(), indices.to("cpu"), values[indices].to("cpu"))


def _decoded(data: np.ndarray, shapes: Sequence[tuple[int, int]]) -> list[SparseGradient]:
    counts = [n_values for _, n_values in shapes]
    total = sum(counts)
    indices = torch.empty(total, dtype=torch.int32, device="cpu")
    values = torch.empty(total, dtype=torch.float32, device="cpu")
    _native.decode_gradients(
        data.ctypes.data, data.nbytes, indices.data_ptr(), values.data_ptr(), total
    )
    wide = indices.to(torch.int64) & 0xFFFFFFFF
    return [
        SparseGradient(n_elems, *both)
        for (n_elems, _), *both in zip(
            shapes, torch.split(wide, counts), torch.split(values, counts), strict=True
        )
    ]


def add_packets(
    codec: GradientCodec, packets: Sequence[torch.Tensor], sums: Sequence[torch.Tensor]
) -> None:
    """Adds the mean of what packets say to the tensors that each of them is of.

    They are added in their order, so that all ranks with the same packets get the same bits.
    """
    for packet in packets:
        codec.add(packet, sums, 1 / len(packets))


def unsent(values: torch.Tensor, decoded: torch.Tensor) -> torch.Tensor:
    """Returns what is left of values that others got as ``decoded``; 0 where it is not finite."""
    return (values - decoded).nan_to_num_(0.0, 0.0, 0.0)


def _floats(tensor: torch.Tensor, may_be_away: bool = False) -> torch.Tensor:
    check_tensor(tensor)
    is_away = tensor.is_meta if may_be_away else tensor.device.type != "cpu"
    if tensor.dtype != torch.float32 or is_away or not tensor.is_contiguous():
        where = "with data" if may_be_away else "on the host"
        raise TypeError(
            f"gradients are contiguous tensors of float32 {where}, not {tensor.dtype} of "
            f"shape {list(tensor.shape)} on {tensor.device}"
        )
    return tensor.detach()


def _indices(tensor: torch.Tensor) -> torch.Tensor:
    check_tensor(tensor)
    if tensor.dtype not in (torch.int32, torch.int64) or tensor.device.type != "cpu":
        raise TypeError(f"indices are int32 or int64 on the host, not {tensor.dtype}")
    if tensor.dtype == torch.int32 and tensor.is_contiguous():
        return tensor  # the library refuses what is negative, since that is out of range
    wide = tensor.to(torch.int64)
    if wide.numel() and not (0 <= int(wide.min()) and int(wide.max()) < 1 << 32):
        raise InvalidArgumentError("an index is negative, or 2^32 or more")
    return wide.to(torch.int32).contiguous()  # their low halves, as the library has them
