"""Messages of tensors of a CUDA device, which encodes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .._common.text import with_article
from ..errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from .on_device import warn_of_host

if TYPE_CHECKING:
    import torch

# A tensor, with its dtype in files and its shape there.
Described = tuple["torch.Tensor", str, Sequence[int]]

# The blocks that encode share this memory, which is enough for those of BF16 that a device of 132
# multiprocessors holds; a message of fewer chunks takes less.
_SCRATCH_BYTES = 240 << 20
# Values of tensors whose messages are made at once, unless one alone has more.
_BATCH_BYTES = 256 << 20
# Shorter tensors are encoded by the host before a device has begun, unless the message stays there.
_LEAST_BYTES = 1 << 20


def is_on_device(tensor: Any) -> bool:
    """Whether it is a torch.Tensor of a CUDA device."""
    return bool(getattr(tensor, "is_cuda", False))


def check_wants_device(out: object) -> bool:
    """Whether ``out`` is "device". Raises where it is neither that nor None."""
    if isinstance(out, str) and out == "device":
        return True
    if out is not None:
        given = repr(out) if isinstance(out, str) else with_article(type(out).__name__)
        raise InvalidArgumentError(f'out is "device", or None, not {given}')
    return False


def not_on_device(tensor: Any) -> UnsupportedError:
    """A result on a device was asked for, of a tensor that is on none."""
    device = getattr(tensor, "device", "cpu")
    return UnsupportedError(
        f"a result on a device is made of a tensor of that CUDA device, and this one is on {device}"
    )


def upload(data: bytes, like: torch.Tensor) -> torch.Tensor:
    """Bytes as a tensor of uint8 on the device of another tensor.

    Raises:
        OutOfMemoryError: there is no memory for them.
    """
    import torch

    from .._frameworks.torch_device import TorchDevice

    memory, _, _ = TorchDevice(like.device).allocate("U8", [len(data)])
    return memory.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))


def is_encoded_there(tensor: torch.Tensor) -> bool:
    """Whether the device of a tensor, if it has one, encodes messages of its dtype without loss."""
    import torch

    from .._frameworks.torch_device import TorchDevice

    floats = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    if not is_on_device(tensor) or tensor.dtype not in floats:
        return False
    return TorchDevice(tensor.device).why_not() is None


def encode_there(
    tensor: torch.Tensor,
    dtype: str,
    shape: Sequence[int],
    native: _native.EncodeOptions,
    out: torch.Tensor | None,
) -> torch.Tensor | int:
    """The message of a tensor in the memory of its device: a new tensor of uint8, or how many bytes
    of ``out`` it has.

    Raises:
        UnsupportedError: the device cannot be used.
    """
    messages = _Messages([(tensor, dtype, shape)], native)
    messages.check_device()
    if out is None:
        return messages.encode()[0]
    _check_out(out, tensor)
    return messages.encode_into(out)[0]


def encode_for_host(
    tensor: torch.Tensor,
    dtype: str,
    shape: Sequence[int],
    native: _native.EncodeOptions,
) -> bytes | None:
    """The message as bytes, encoded by the device; None: the host encodes it."""
    return encode_all_for_host([(tensor, dtype, shape)], native)[0]


def encode_all_there(
    tensors: Sequence[Described], native: _native.EncodeOptions
) -> list[torch.Tensor]:
    """Messages of tensors in the memory of their device.

    Raises:
        UnsupportedError: the device cannot be used.
    """
    made: list[torch.Tensor] = []
    for batch in _batches(tensors):
        messages = _Messages(batch, native)
        messages.check_device()
        made += messages.encode()
    return made


def encode_all_for_host(
    tensors: Sequence[Described], native: _native.EncodeOptions
) -> list[bytes | None]:
    """The messages as bytes, encoded by the device; None: the host encodes it. Warns where that is
    so since the device cannot be used, or has no memory."""
    import torch

    if sum(tensor.nbytes for tensor, _, _ in tensors) < _LEAST_BYTES:
        return [None] * len(tensors)
    made: list[bytes | None] = []
    for batch in _batches(tensors):
        messages = _Messages(batch, native)
        reason: str | Exception | None = messages.reason
        if reason is None and messages.encoder.tries_device:
            try:
                made += messages.encode_for_host()
                continue
            except (OutOfMemoryError, torch.cuda.OutOfMemoryError) as error:
                reason = error
        if reason is not None:
            warn_of_host(messages.memory.number, reason)
        made += [None] * len(batch)
    return made


def _batches(tensors: Sequence[Described]) -> Iterator[list[Described]]:
    """Tensors whose messages are made at once, with memory for the longest these may get."""
    batch: list[Described] = []
    n_bytes = 0
    for described in tensors:
        if batch and n_bytes + described[0].nbytes > _BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
        batch.append(described)
        n_bytes += described[0].nbytes
    yield batch


class _Messages:
    """Messages that are to be made of tensors of one device, and why they cannot be."""

    def __init__(self, tensors: Sequence[Described], native: _native.EncodeOptions) -> None:
        from .._frameworks.torch_device import TorchDevice

        self.memory = TorchDevice(tensors[0][0].device)
        self.reason = self.memory.why_not()
        if self.reason is None:
            self.tensors = [_in_order(tensor, dtype) for tensor, dtype, _ in tensors]
            described = [(dtype, list(shape)) for _, dtype, shape in tensors]
            self.encoder = _native.MessageEncoder(
                described, native, self.memory.number, _SCRATCH_BYTES
            )

    def check_device(self) -> None:
        """Raises UnsupportedError where the device cannot be used."""
        if self.reason is not None:
            raise UnsupportedError(f"cuda:{self.memory.number} cannot encode: {self.reason}")

    def encode(self) -> list[torch.Tensor]:
        """Tensors of uint8, of exactly the lengths of the messages."""
        import torch

        packed, lengths = self._packed()
        return list(torch.split(packed, lengths))

    def encode_for_host(self) -> list[bytes]:
        """The messages in the memory of the host."""
        packed, lengths = self._packed()
        data = packed.cpu().numpy()
        ends = list(itertools.accumulate(lengths))
        return [bytes(data[end - n : end]) for end, n in zip(ends, lengths, strict=True)]

    def _packed(self) -> tuple[torch.Tensor, list[int]]:
        """The messages without what is between them, in memory of their own, and their lengths."""
        import torch

        out = self.memory.workspace(self.encoder.out_bytes)
        lengths = self.encode_into(out)
        # Gaps between messages are cut out like them: one call for all takes a third of the time
        # of a slice for each.
        begins = self.encoder.offsets
        ends = [*begins[1:], out.nbytes]
        cuts = [
            n_bytes
            for begin, n, end in zip(begins, lengths, ends, strict=True)
            for n_bytes in (n, end - begin - n)
        ]
        packed, _, _ = self.memory.allocate("U8", [sum(lengths)])
        return torch.cat(torch.split(out, cuts)[::2], out=packed), lengths

    def encode_into(self, out: torch.Tensor) -> list[int]:
        """How many bytes of ``out`` each message has, from its offset on."""
        encoder = self.encoder
        workspace = self.memory.workspace(encoder.workspace_bytes)
        staging = self.memory.staging(encoder.staging_bytes, encoder.staging_bytes)
        return encoder.run(
            [tensor.data_ptr() for tensor in self.tensors],
            out.data_ptr(),
            out.nbytes,
            workspace.data_ptr(),
            staging.data_ptr(),
            staging.nbytes,
            self.memory.stream(),
        )


def _in_order(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """A tensor whose memory has the values as a file has them: itself, if its own does."""
    import torch

    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return tensor
    plain = tensor.detach().resolve_conj().resolve_neg()
    # A byte of F4 has two values, and torch can do little with them.
    return (plain.view(torch.uint8) if dtype == "F4" else plain).contiguous()


def _check_out(out: torch.Tensor, tensor: torch.Tensor) -> None:
    import torch

    if out.dtype != torch.uint8 or out.dim() != 1 or not out.is_contiguous():
        raise InvalidArgumentError("out is not a contiguous torch.uint8 tensor of one dimension")
    if out.device != tensor.device:
        raise InvalidArgumentError(
            f"out is on {out.device}, and the tensor on {tensor.device}; they must be on one device"
        )
