"""CUDA devices: whether they can encode and decode. See docs/devices.md."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import _native
from .errors import DeviceError

if TYPE_CHECKING:
    import torch

__all__ = ["why_not"]


def why_not(device: int | str | torch.device = 0) -> str | None:
    """Says why a device can neither encode nor decode; None where it can.

    The first call for a device starts NVIDIA's driver in this process, which cannot be forked
    afterwards for work on the device.

    Args:
        device: the number of a CUDA device, "cuda:1", or a torch.device. "cuda" is the device that
            is current in PyTorch, as everywhere, or 0 where PyTorch is not imported.

    Raises:
        DeviceError: `device` is neither the name nor the number of a CUDA device.
    """
    return _native.why_not_cuda(_number(device))


def _number(device: int | str | torch.device) -> int:
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    kind, _, number = str(device).partition(":")
    if kind != "cuda" or (number and not number.isdecimal()):
        raise DeviceError(f"device {device!r} is invalid; it may be a number, or a str like cuda:0")
    return int(number) if number else _current()


def _current() -> int:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_device())
