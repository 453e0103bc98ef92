"""Calibration as a part of saving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._options.kinds import SaveFileOptions, SaveOptions
from ..errors import InvalidArgumentError
from .calibrate import calibrate

if TYPE_CHECKING:
    import torch

_USED_BY = ("quality", "bits_per_weight", "size")


def calibrated(model: torch.nn.Module | None, options: SaveOptions | SaveFileOptions) -> None:
    """Adds to the options of a call a calibration of the model, made without data, where that
    would be used.

    Raises:
        InvalidArgumentError: no option says how much may be lost, or a calibration was given; and
            what calibrate() raises.
    """
    if model is None:
        return
    if not any(options.get(name) is not None for name in _USED_BY):
        raise InvalidArgumentError(
            "model is calibrated for quality, bits_per_weight or size; give one of them"
        )
    if options.get("calibration") is not None:
        raise InvalidArgumentError("give either model or calibration")
    if options.get("steps") is None and not _takes_tokens(model):
        return
    options["calibration"] = calibrate(model)


def _takes_tokens(model: torch.nn.Module) -> bool:
    """Whether inputs can be made up that say something: a calibration of noise would not be used,
    since names and sizes of tensors say more."""
    from torch import nn

    if not isinstance(model, nn.Module):
        return True  # which calibrate() refuses
    return any(isinstance(module, nn.Embedding) for module in model.modules())
