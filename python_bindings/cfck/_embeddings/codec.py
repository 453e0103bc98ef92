"""Looked-up rows as packets (spec/embeddings.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from .. import _native
from .._distributed.arguments import check_numbers
from .._frameworks.torch_tensors import dtype_of
from .._io.opening import readable
from ..errors import InvalidArgumentError, LimitExceededError

_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
_MAX_DECODED_BYTES = 1 << 30
# Memory of the decoder for a row that has no values.
_ROW_NUMBER_BYTES = 4


class Rows(NamedTuple):
    """Rows that were looked up in one table.

    Attributes:
        values: of shape (n_rows, row_elems), of dtype float32, float16 or bfloat16; on the host, or
            copied there.
        max_abs_error: the most by which a value may change; 0.0: no bit is lost. Rows with NaN or
            infinities are kept bit for bit.
        keys: n_rows of dtype int64, or None. Rows with equal keys are equal, and who decodes the
            packet has the keys as well: which rows are equal is not sent then.
    """

    values: torch.Tensor
    max_abs_error: float = 0.0
    keys: torch.Tensor | None = None


class RowShape(NamedTuple):
    """What a packet says of a batch of rows.

    Attributes:
        dtype: of its values.
        n_rows: of the batch.
        row_elems: values of a row.
        n_unique: rows of it that the packet holds.
        needs_keys: whether they are decoded with the keys of the sender.
    """

    dtype: torch.dtype
    n_rows: int
    row_elems: int
    n_unique: int
    needs_keys: bool


class RowCodec:
    """Packs looked-up rows of embedding tables into few bytes, and unpacks them.

    Rows that repeat are sent once, with ids where that pays, and ids that follow from those of
    another table not at all.

    Args:
        bytes_per_second: the rate of the network. Repeated rows are sent once where the time on the
            wire that this saves is more than the time that it takes.

    Raises:
        InvalidArgumentError: the rate is not positive.
        TypeError: it is no number.

    May be used by several threads at once.
    """

    def __init__(self, bytes_per_second: float = 1.25e9) -> None:
        check_numbers(bytes_per_second=bytes_per_second)
        if not bytes_per_second > 0:
            raise InvalidArgumentError(
                f"bytes_per_second is a positive number, not {bytes_per_second!r}"
            )
        self.bytes_per_second = float(bytes_per_second)

    def encode(self, batches: Sequence[Rows | torch.Tensor]) -> torch.Tensor:
        """Packs batches of rows, one for each table.

        Args:
            batches: a tensor stands for rows of which no bit is lost.

        Returns:
            The packet, of dtype uint8 on the host.

        Raises:
            CfckError: InvalidArgumentError for an error that is negative or not finite, and for
                rows with equal keys that differ; LimitExceededError for more than 2^21 rows.
            TypeError: of another dtype or number of dimensions.
        """
        if isinstance(batches, (torch.Tensor, Rows)):
            raise TypeError("batches is a list, with the rows of each table: encode([rows])")
        held = [_on_host(batch if isinstance(batch, Rows) else Rows(batch)) for batch in batches]
        given = [
            (
                _NAMES[values.dtype],
                *values.shape,
                values.data_ptr(),
                float(error),
                0 if keys is None else keys.data_ptr(),
            )
            for values, error, keys in held
        ]
        packet = torch.empty(_native.max_row_packet_bytes(given), dtype=torch.uint8, device="cpu")
        n_bytes = _native.encode_rows(
            given, self.bytes_per_second, packet.data_ptr(), packet.numel()
        )
        return packet[:n_bytes].clone()

    def shapes(self, packet: torch.Tensor | bytes) -> list[RowShape]:
        """Reads what a packet says of its batches, unverified.

        Raises:
            CfckError: CorruptError, TruncatedError, UnsupportedError.
        """
        data = readable(packet)
        return [
            RowShape(dtype_of(name), n_rows, row_elems, n_unique, needs_keys)
            for name, n_rows, row_elems, n_unique, needs_keys in _native.row_packet_shapes(
                data.ctypes.data, data.nbytes
            )
        ]

    def decode(
        self,
        packet: torch.Tensor | bytes,
        keys: Sequence[torch.Tensor | None] | None = None,
        *,
        max_decoded_bytes: int = _MAX_DECODED_BYTES,
    ) -> list[torch.Tensor]:
        """Verifies and unpacks a packet.

        Args:
            packet: what encode() made.
            keys: of the batches that were encoded with keys, None for the others.
            max_decoded_bytes: of all batches together; a row without values counts as 4 bytes.

        Returns:
            The rows of each batch, of shape (n_rows, row_elems), on the host.

        Raises:
            CfckError: ChecksumError, CorruptError, TruncatedError for damaged bytes;
                UnsupportedError for those of a newer version; LimitExceededError for more bytes
                than max_decoded_bytes; InvalidArgumentError for keys that are missing, or are not
                those of the sender, as far as their number of different values tells.
        """
        data = readable(packet)
        shapes = self.shapes(packet)
        n_bytes = sum(
            s.n_rows * (s.row_elems * s.dtype.itemsize or _ROW_NUMBER_BYTES) for s in shapes
        )
        if n_bytes > max_decoded_bytes:
            raise LimitExceededError(
                f"the rows of the packet take {n_bytes} bytes, more than the {max_decoded_bytes} "
                "allowed; raise max_decoded_bytes"
            )
        given = _keys_of(shapes, keys)
        decoded = [torch.empty(s.n_rows, s.row_elems, dtype=s.dtype, device="cpu") for s in shapes]
        rooms = [
            (
                values.data_ptr(),
                values.nbytes,
                0 if of_batch is None else of_batch.data_ptr(),
                0 if of_batch is None else of_batch.numel(),
            )
            for values, of_batch in zip(decoded, given, strict=True)
        ]
        _native.decode_rows(data.ctypes.data, data.nbytes, rooms)
        return decoded


def _on_host(rows: Rows) -> Rows:
    values, error, keys = rows
    if not isinstance(values, torch.Tensor) or values.dtype not in _NAMES or values.dim() != 2:
        what = (
            f"{values.dtype} of shape {list(values.shape)}"
            if isinstance(values, torch.Tensor)
            else type(values).__name__
        )
        raise TypeError(
            "rows are a tensor of float32, float16 or bfloat16 with two dimensions, not " + what
        )
    if not math.isfinite(error) or error < 0:
        raise InvalidArgumentError(f"max_abs_error is 0.0 or a positive number, not {error!r}")
    if keys is not None:
        keys = _checked_keys(keys, values.shape[0])
    return Rows(values.detach().to("cpu").contiguous(), error, keys)


def _checked_keys(keys: torch.Tensor, n_rows: int) -> torch.Tensor:
    if not isinstance(keys, torch.Tensor) or keys.dtype != torch.int64:
        raise TypeError("keys are a tensor of dtype int64, one for each row")
    if keys.numel() != n_rows:
        raise InvalidArgumentError(f"there are {keys.numel()} keys for {n_rows} rows")
    return keys.detach().to("cpu").contiguous()


def _keys_of(
    shapes: list[RowShape], keys: Sequence[torch.Tensor | None] | None
) -> list[torch.Tensor | None]:
    if keys is None:
        keys = [None] * len(shapes)
    if len(keys) != len(shapes):
        raise InvalidArgumentError(
            f"the packet has {len(shapes)} batches of rows, and keys for {len(keys)} were given"
        )
    # Keys that a packet does not need are left alone.
    return [
        _checked_keys(of_batch, shape.n_rows) if shape.needs_keys and of_batch is not None else None
        for shape, of_batch in zip(shapes, keys, strict=True)
    ]
