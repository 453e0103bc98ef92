"""Messages of tensors of a CUDA device, which encodes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from ..errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError

if TYPE_CHECKING:
    import torch

# The blocks that encode share this memory; a message of fewer chunks takes less.
_SCRATCH_BYTES = 160 << 20
# Shorter tensors are encoded by the host before a device has begun, unless the message stays there.
_LEAST_BYTES = 1 << 20


def is_on_device(tensor: Any) -> bool:
    """Whether it is a torch.Tensor of a CUDA device."""
    return bool(getattr(tensor, "is_cuda", False))


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
    message = _Message(tensor, dtype, shape, native)
    if message.reason is not None:
        raise UnsupportedError(f"cuda:{message.memory.number} cannot encode: {message.reason}")
    if out is None:
        return message.encode()
    _check_out(out, tensor)
    return message.encode_into(out)


def encode_for_host(
    tensor: torch.Tensor,
    dtype: str,
    shape: Sequence[int],
    native: _native.EncodeOptions,
) -> bytes | None:
    """The message as bytes, encoded by the device; None: the host encodes it."""
    import torch

    if tensor.nbytes < _LEAST_BYTES:
        return None
    message = _Message(tensor, dtype, shape, native)
    if message.reason is not None or not message.encoder.tries_device:
        return None
    try:
        return message.encode_for_host()
    except (OutOfMemoryError, torch.cuda.OutOfMemoryError):
        return None


class _Message:
    """A message that is to be made, and why it cannot be."""

    def __init__(
        self,
        tensor: torch.Tensor,
        dtype: str,
        shape: Sequence[int],
        native: _native.EncodeOptions,
    ) -> None:
        import torch

        from .._frameworks.torch_device import TorchDevice

        self.memory = TorchDevice(tensor.device)
        self.reason = self.memory.why_not()
        if self.reason is None:
            plain = tensor.detach().resolve_conj().resolve_neg()
            # A byte of F4 has two values, and torch can do little with them.
            self.tensor = plain.view(torch.uint8) if dtype == "F4" else plain
            self.encoder = _native.MessageEncoder(
                dtype, list(shape), native, self.memory.number, _SCRATCH_BYTES
            )

    def encode(self) -> torch.Tensor:
        """A tensor of uint8 of exactly the length of the message."""
        out = self.memory.workspace(self.encoder.most_bytes)
        return out[: self.encode_into(out)].clone()

    def encode_for_host(self) -> bytes:
        """The message in the memory of the host."""
        out = self.memory.workspace(self.encoder.most_bytes)
        return bytes(out[: self.encode_into(out)].cpu().numpy())

    def encode_into(self, out: torch.Tensor) -> int:
        """How many bytes of ``out`` the message has."""
        encoder = self.encoder
        values = self.tensor.contiguous()
        workspace = self.memory.workspace(encoder.workspace_bytes)
        staging = self.memory.staging(encoder.staging_bytes, encoder.staging_bytes)
        return encoder.run(
            values.data_ptr(),
            out.data_ptr(),
            out.nbytes,
            workspace.data_ptr(),
            staging.data_ptr(),
            staging.nbytes,
            self.memory.stream(),
        )


def _check_out(out: torch.Tensor, tensor: torch.Tensor) -> None:
    import torch

    if out.dtype != torch.uint8 or out.dim() != 1 or not out.is_contiguous():
        raise InvalidArgumentError("out is not a contiguous torch.uint8 tensor of one dimension")
    if out.device != tensor.device:
        raise InvalidArgumentError(
            f"out is on {out.device}, and the tensor on {tensor.device}; they must be on one device"
        )
