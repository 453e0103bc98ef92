"""What one rank sends another for a flat tensor: the messages of its pieces (docs/distributed.md).

A frame is one int64 for each piece, the bytes of its message, then the messages one after the
other, and zeros up to a multiple of 8 bytes, at least 8. Both sides know the number of values, and
so that of the pieces.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from .._common.text import with_article
from .._frameworks.torch_tensors import dtype_of, has_plain_storage
from .._io.message import decode_message, encode_message, max_message_bytes, message_info
from .._io.message_on_device import is_encoded_there
from .._io.torch_messages import encode_messages
from .._native import default_thread_count
from .._options.kinds import MessageOptions
from ..errors import CorruptError, OutOfMemoryError, UnsupportedError

# Pieces are what threads share. The size is part of the frame: both sides cut alike.
_PIECE_BYTES = 4 << 20
# Shorter tensors are encoded by the host before a device has begun.
_LEAST_DEVICE_BYTES = 1 << 20
# FSDP hands over tensors of several dtypes as bytes. Of these, pieces are smaller, and each is
# encoded as the dtype that a sample of it says.
_BYTE_PIECE_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 14
_GUESSES = (torch.uint8, torch.bfloat16, torch.float32, torch.float16)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor, contiguous on the host, with one dimension.

    Raises:
        UnsupportedError: it is sparse, nested or without values.
    """
    check_dense(tensor)
    return tensor.detach().to("cpu").contiguous().view(-1)


def for_frame(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor that is sent without loss, contiguous with one dimension: on the CUDA
    device that can encode them, or else on the host.

    Raises:
        UnsupportedError: as on_host().
    """
    check_dense(tensor)
    if tensor.nbytes < _LEAST_DEVICE_BYTES or not is_encoded_there(tensor):
        return on_host(tensor)
    return tensor.detach().contiguous().view(-1)


def check_dense(tensor: torch.Tensor) -> None:
    """Raises UnsupportedError for a tensor whose values are not one after the other in memory."""
    if not has_plain_storage(tensor):  # what is done with a DTensor communicates
        raise UnsupportedError(
            f"the values of {with_article(type(tensor).__name__)} are not in its own memory: send "
            "the plain tensor that it is made of (to_local(), full_tensor())"
        )
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
        what = f"layout {tensor.layout}"
        what = "nested tensors" if tensor.is_nested else "device meta" if tensor.is_meta else what
        raise UnsupportedError(
            f"tensors are sent whose values are dense in memory, and not those of {what}: send the "
            "dense tensors that it is made of"
        )


def pieces_of(flat: torch.Tensor) -> list[torch.Tensor]:
    """The pieces of a tensor with one dimension, as views."""
    n_bytes = _BYTE_PIECE_BYTES if flat.dtype == torch.uint8 else _PIECE_BYTES
    step = max(1, n_bytes // flat.element_size())
    return list(torch.split(flat, step)) if flat.numel() else []


def encode_frame(flat: torch.Tensor, options: MessageOptions) -> torch.Tensor:
    """The frame of a contiguous tensor with one dimension, of the host or as for_frame() gives it:
    bytes where the tensor is, or on the host."""
    pieces = pieces_of(flat)
    parts = _encode_there(pieces, options) if flat.is_cuda else None
    if parts is None:
        on_host = [_as_floats(piece.cpu()) for piece in pieces]
        parts = _each(lambda piece: _encode(piece, options), on_host)
    device = parts[0].device if parts else torch.device("cpu")
    lengths = torch.tensor([part.numel() for part in parts], dtype=torch.int64, device="cpu")
    n_bytes = 8 * len(parts) + int(lengths.sum())
    # It is never empty: gloo sends no tensors without bytes.
    padding = torch.zeros(-n_bytes % 8 if parts else 8, dtype=torch.uint8, device=device)
    return torch.cat([lengths.view(torch.uint8).to(device), *parts, padding])


def decode_frame(frame: torch.Tensor, out: torch.Tensor) -> None:
    """Decodes a frame into a contiguous tensor of the host with one dimension.

    Raises:
        CfckError: CorruptError, ChecksumError, TruncatedError for damage. What is in ``out`` then
            is unspecified.
    """
    pieces = pieces_of(out)
    begin = 8 * len(pieces)
    lengths = frame[:begin].clone().view(torch.int64).tolist() if frame.numel() >= begin else [-1]
    if min(lengths, default=0) < 0 or begin + sum(lengths) > frame.numel():
        raise CorruptError(f"a frame of {frame.numel()} bytes ends before its {len(pieces)} pieces")
    parts = torch.split(frame[begin : begin + sum(lengths)], lengths) if pieces else []
    _each(lambda both: _decode(*both), list(zip(parts, pieces, strict=True)))


def _encode_there(pieces: list[torch.Tensor], options: MessageOptions) -> list[torch.Tensor] | None:
    """The messages of pieces on their device, made at once; None: there is no memory for that."""
    try:
        return encode_messages(pieces, out="device", options=options)
    except (OutOfMemoryError, torch.cuda.OutOfMemoryError):
        return None


def _encode(piece: torch.Tensor, options: MessageOptions) -> torch.Tensor:
    lossless = piece.dtype == torch.uint8 or not piece.dtype.is_floating_point
    chosen: MessageOptions = _without_loss(options) if lossless else options
    memory = torch.empty(max_message_bytes(piece, options=chosen), dtype=torch.uint8, device="cpu")
    return memory[: encode_message(piece, out=memory, options=chosen)]


def _without_loss(options: MessageOptions) -> MessageOptions:
    kept: MessageOptions = {}
    if "entropy" in options:
        kept["entropy"] = options["entropy"]
    if "level" in options:
        kept["level"] = options["level"]
    return kept


def _decode(part: torch.Tensor, out: torch.Tensor) -> None:
    if out.dtype != torch.uint8:
        decode_message(part, out=out)
        return
    dtype = dtype_of(message_info(part).dtype)
    if out.numel() % dtype.itemsize:
        raise CorruptError(f"{out.numel()} bytes are no whole number of values of {dtype}")
    if out.data_ptr() % dtype.itemsize == 0 and out.storage_offset() % dtype.itemsize == 0:
        decode_message(part, out=out.view(dtype))
    else:
        values = torch.empty(out.numel() // dtype.itemsize, dtype=dtype, device="cpu")
        out.copy_(decode_message(part, out=values).view(torch.uint8))


def _as_floats(piece: torch.Tensor) -> torch.Tensor:
    """Bytes as the dtype as which a sample of them is shortest; anything else as it is."""
    if piece.dtype != torch.uint8:
        return piece
    begin = max(0, (piece.numel() - _SAMPLE_BYTES) // 2 // 8 * 8)
    sample = piece[begin : begin + _SAMPLE_BYTES].clone()
    fitting = [
        d for d in _GUESSES if piece.numel() % d.itemsize == sample.numel() % d.itemsize == 0
    ]
    best = min(fitting, key=lambda d: len(encode_message(sample.view(d))))
    is_aligned = piece.storage_offset() % best.itemsize == 0
    return (piece if is_aligned else piece.clone()).view(best)


def _each(work: Callable[[_Item], _Result], items: list[_Item]) -> list[_Result]:
    """The results in order, of the threads that this rank may use."""
    n_threads = min(len(items), _threads_of_rank())
    if n_threads <= 1:
        return list(map(work, items))
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


def _threads_of_rank() -> int:
    """The CPUs of this process, which ranks of one machine share."""
    n_local = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, default_thread_count() // max(1, int(n_local) if n_local.isdigit() else 1))
