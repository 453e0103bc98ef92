"""The memory of CUDA devices, as torch gives it out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .. import _native
from ..errors import OutOfMemoryError
from .torch_tensors import dtype_of, has_plain_storage, torch_shape


class TorchDevice:
    """One CUDA device, for loads that it decodes and files that it encodes."""

    def __init__(self, device: torch.device) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        self.number = index
        self.device = torch.device("cuda", index)

    @classmethod
    def of_number(cls, number: int) -> TorchDevice:
        """The device of this number."""
        return cls(torch.device("cuda", number))

    def why_not(self) -> str | None:
        """Why the device cannot be used; None where it can."""
        if torch.version.cuda is None:
            return "this torch is not built for CUDA"
        return _native.why_not_cuda(self.number)

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[torch.Tensor, int, int]:
        """Memory of the device for a tensor: its owner, its address, its bytes."""
        memory = self._empty(torch_shape(dtype, shape), dtype_of(dtype))
        return memory, memory.data_ptr(), memory.nbytes

    def workspace(self, n_bytes: int) -> torch.Tensor:
        """Bytes of the device, at a multiple of 256."""
        memory = self._empty((n_bytes + 256,), torch.uint8)
        return memory[-memory.data_ptr() % 256 :][:n_bytes]

    def staging(self, n_bytes: int, least_bytes: int) -> torch.Tensor:
        """Bytes of the host that the device copies from or to, at a multiple of 256: pinned where
        that is possible, and fewer where there are not as many.

        Raises:
            OutOfMemoryError: there are not even ``least_bytes``, pinned or not.
        """
        sizes = [n_bytes]
        while sizes[-1] > least_bytes:
            sizes.append(max(sizes[-1] // 2, least_bytes))
        for is_pinned in (True, False):
            for size in sizes:
                try:
                    return self._on_host(size, is_pinned)
                except RuntimeError as error:
                    reason = error
        raise OutOfMemoryError(
            f"no memory of the host for {least_bytes} bytes to copy to or from cuda:{self.number}: "
            f"{reason}"
        ) from reason

    def stream(self) -> int:
        """The address of the stream that is current on the device."""
        return torch.cuda.current_stream(self.device).cuda_stream

    def wait(self) -> None:
        """Waits for what the current stream has to do."""
        torch.cuda.current_stream(self.device).synchronize()

    def takes_in_place(self, tensor: Any) -> bool:
        """Whether the device can decode straight into this tensor."""
        return (
            has_plain_storage(tensor)
            and tensor.layout == torch.strided
            and tensor.device == self.device
            and tensor.is_contiguous()
            and not tensor.is_conj()
            and not tensor.is_neg()
        )

    def _on_host(self, n_bytes: int, is_pinned: bool) -> torch.Tensor:
        memory = torch.empty(n_bytes + 256, dtype=torch.uint8, device="cpu", pin_memory=is_pinned)
        return memory[-memory.data_ptr() % 256 :][:n_bytes]

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        try:
            return torch.empty(shape, dtype=dtype, device=self.device)
        except torch.cuda.OutOfMemoryError as error:
            n_bytes = math.prod(shape) * dtype.itemsize
            raise OutOfMemoryError(
                f"no memory for {n_bytes} bytes on {self.device}, free some there: {error}"
            ) from error
