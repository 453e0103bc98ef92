"""Files, folders and bytes, opened by the extension module."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _native
from .._common.callers import level_of_caller
from .._common.paths import native_path
from ..errors import DeviceError, MissingFileError, NotFoundError
from .on_device import device_of_bytes
from .reading import LeftOutWarning, Reading

if TYPE_CHECKING:
    import torch


def open_path(filename: str | os.PathLike[str], reading: Reading) -> _native.Archive:
    """Opens a file, an index of shards, or a folder with one model.

    Raises:
        MissingFileError: there is no such file, the folder has no model, or a shard is missing.
        InvalidArgumentError: the folder has several models, and none comes first.
        CorruptError: the folder may have files of two checkpoints; or as a file is damaged.
    """
    path = os.fsdecode(filename)
    try:
        archive = _native.Archive.open_path(
            native_path(path),
            map=reading.map,
            only_tensors=reading.only_tensors,
            **reading.native(),
        )
    except NotFoundError as error:
        what = error if os.path.exists(path) else path
        message = f"No such file or directory: {what}"
        raise MissingFileError(message, filename=path) from None
    if reading.only_tensors:
        for left_out_of, note in archive.notes():
            message = f"{os.fsdecode(left_out_of)}: {note}"
            warnings.warn(message, LeftOutWarning, stacklevel=level_of_caller())
    return archive


def open_bytes(data: Any, reading: Reading, target: torch.device | None = None) -> _native.Archive:
    """``target``: where tensors go. A tensor of bytes that is there already may stay."""
    if hasattr(data, "untyped_storage"):
        data = flat_bytes(data)
        device = device_of_bytes(data, target, reading.decode)
        if device is not None:
            device.wait()
            return _native.Archive.open_device(
                data, device.number, data.data_ptr(), data.numel(), **reading.native()
            )
    view = readable(data)
    return _native.Archive.open_memory(view, view.ctypes.data, view.nbytes, **reading.native())


def readable(data: Any) -> np.ndarray:
    """The bytes of a caller, in memory of the host."""
    if hasattr(data, "untyped_storage"):
        data = flat_bytes(data).cpu().numpy()
    try:
        return np.frombuffer(data, np.uint8)
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected bytes, not {type(data).__name__}: {error}") from None


def flat_bytes(tensor: Any) -> Any:
    """The bytes in a torch.Tensor, contiguous."""
    import torch

    if tensor.dtype != torch.uint8 or tensor.dim() != 1:
        raise TypeError(
            "expected bytes, or a torch.Tensor of dtype torch.uint8 with one dimension, not of "
            f"{tensor.dtype} with {tensor.dim()} dimensions"
        )
    if tensor.is_meta:
        raise DeviceError("a tensor on the device meta has no bytes")
    return tensor.detach().contiguous()
