"""Reads that a device decodes: which, and how."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .. import _native
from .._common.callers import level_of_caller
from .._common.progress import Progress
from ..errors import UnsupportedError

if TYPE_CHECKING:
    import torch


class DeviceWarning(UserWarning):
    """Tensors for a device are decoded on the host, or those of a device encoded there, and why."""


# Record index, address, bytes; where the box starts and stops, or two empty lists.
DeviceRequest = tuple[int, int, int, Sequence[int], Sequence[int]]


class DeviceMemory(Protocol):
    """A device that can decode, and its memory."""

    number: int

    def why_not(self) -> str | None: ...

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int, int]: ...

    def workspace(self, n_bytes: int) -> Any: ...

    def staging(self, n_bytes: int, least_bytes: int) -> Any: ...

    def stream(self) -> int: ...

    def wait(self) -> None: ...

    def takes_in_place(self, tensor: Any) -> bool: ...


def decoding_device(
    file_format: str, device: torch.device | None, decode: str
) -> DeviceMemory | None:
    """The device that decodes the tensors of a file of this format which go there; None: the host
    does.

    Raises:
        UnsupportedError: the device cannot, and ``decode`` is "device".
    """
    if decode == "host":
        return None
    if device is None or device.type != "cuda":
        if decode == "device":
            name = "the host" if device is None else f"devices of type {device.type}"
            raise UnsupportedError(f'decode="device" is for CUDA devices, and not for {name}')
        return None
    if file_format != "cfck":
        if decode == "device":
            raise UnsupportedError(
                f"files of the format {file_format} are decoded on the host; "
                'convert the file to .cfck, or use decode="auto"'
            )
        return None
    from .._frameworks.torch_device import TorchDevice

    memory = TorchDevice(device)
    reason = memory.why_not()
    if reason is None:
        return memory
    if decode == "device":
        raise UnsupportedError(f"cuda:{memory.number} cannot decode: {reason}")
    warn_once(f"tensors for cuda:{memory.number} are decoded on the host: {reason}")
    return None


def device_of_bytes(
    tensor: torch.Tensor, target: torch.device | None, decode: str
) -> DeviceMemory | None:
    """The device that has compressed bytes and decodes them there; None: they go to the host."""
    from .._frameworks import torch_device, torch_tensors

    place = torch_tensors.device_of(tensor)
    if decode == "host" or place is None or place.type != "cuda":
        return None
    if target is None or target.type != "cuda":
        return None
    memory = torch_device.TorchDevice(place)
    is_target = torch_device.TorchDevice(target).number == memory.number
    return memory if is_target and memory.why_not() is None else None


def read_on_device(
    archive: _native.Archive,
    memory: DeviceMemory,
    requests: list[DeviceRequest],
    progress: Progress | None,
) -> None:
    """Reads boxes of records of one file into the memory of a device.

    The values are there when this returns.
    """
    load = _native.DeviceLoad(archive, requests, memory.number, progress)
    workspace = memory.workspace(load.workspace_bytes)
    staging = memory.staging(load.staging_bytes, load.least_staging_bytes)
    load.run(workspace.data_ptr(), staging.data_ptr(), staging.nbytes, memory.stream())


def warn_of_host(number: int, reason: str | Exception) -> None:
    """Warns that the host encodes tensors of a device, and why; of each lack of memory once."""
    kind = f"no memory on cuda:{number}" if isinstance(reason, Exception) else None
    warn_once(f"tensors of cuda:{number} are encoded on the host: {reason}", kind)


_warned: set[str] = set()


def warn_once(message: str, kind: str | None = None) -> None:
    """Warns, unless it has done so; ``kind`` stands for messages that are never quite the same."""
    if (kind or message) in _warned:
        return
    _warned.add(kind or message)
    warnings.warn(message, DeviceWarning, stacklevel=level_of_caller())
