"""Calibration as a part of saving."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import _native
from .._io.save import MakeCalibration
from .._options.kinds import SaveBytesOptions, SaveOptions
from .._options.native import rule_pairs
from ..errors import InvalidArgumentError
from .calibrate import calibrate
from .calibration import Calibration
from .tensor import MIN_VALUES

if TYPE_CHECKING:
    import torch

_USED_BY = ("quality", "bits_per_weight", "size")
# By how much a root mean square may be another one's, as in a calibration.
_TOLERANCE = 0.01


def calibration_of(
    model: torch.nn.Module | None, options: SaveBytesOptions | SaveOptions
) -> MakeCalibration | None:
    """Returns a function that calibrates the model, without data, when the tensors are at hand that
    are to be saved with these options, and turn out to be the model's. None without a model.

    The function gives None where noise is all that the model could be calibrated with: that
    would not be used, since names and sizes of tensors say more. It raises InvalidArgumentError,
    which names the first tensor that is to be lossy and is not the model's.

    Raises:
        InvalidArgumentError: no option says how much may be lost, or a calibration was given.
    """
    if model is None:
        return None
    if not any(options.get(name) is not None for name in _USED_BY):
        raise InvalidArgumentError(
            "model is calibrated for quality, bits_per_weight or size; give one of them"
        )
    if options.get("calibration") is not None:
        raise InvalidArgumentError("give either model or calibration")

    def make(tensors: Mapping[str, Any]) -> Calibration | None:
        from torch import nn

        if isinstance(model, nn.Module):
            # What rules match has options of its own.
            patterns = [pattern for pattern, _ in rule_pairs(options.get("rules"))]
            _check_tensors(model, tensors, patterns)
        if options.get("steps") is None and not _takes_tokens(model):
            return None
        return calibrate(model)

    return make


def _check_tensors(model: torch.nn.Module, tensors: Mapping[str, Any], patterns: list[str]) -> None:
    own: dict[str, Any] = model.state_dict()
    for name, tensor in tensors.items():
        is_ruled = any(_native.matches_glob(pattern, name) for pattern in patterns)
        if is_ruled or not _is_lossy(name, tensor):
            continue
        known: Any = own.get(name)
        if not _is_dense(known):
            raise _misfit(name, "the model does not have this tensor")
        if known.shape != tensor.shape:
            raise _misfit(
                name,
                f"it has shape {list(known.shape)} in the model, but {list(tensor.shape)} here",
            )
        before, now = _root_mean_square(known), _root_mean_square(tensor)
        if not abs(now - before) <= _TOLERANCE * before:
            raise _misfit(name, "it has other values in the model")


def _is_lossy(name: str, tensor: Any) -> bool:
    """Whether plain options reach a tensor."""
    from .weights import FLOATS

    return (
        _is_dense(tensor)
        and tensor.dtype in FLOATS
        and tensor.dim() >= 2
        and tensor.numel() >= MIN_VALUES
        and not _native.is_optimizer_state(name)
    )


def _is_dense(tensor: Any) -> bool:
    """Others are refused, each with its reason, by what saves or calibrates them."""
    import torch

    return (
        isinstance(tensor, torch.Tensor)
        and tensor.layout == torch.strided
        and not torch.nn.parameter.is_lazy(tensor)
        and not tensor.is_quantized
        and not tensor.is_meta
        and not tensor.is_complex()
    )


def _root_mean_square(tensor: torch.Tensor) -> float:
    from .weights import root_mean_square

    found = root_mean_square(tensor.detach())
    return found if math.isfinite(found) else 0.0


def _misfit(name: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"tensor `{name}` is not one of model=: {reason}; give the model that the tensors are of",
        record=name,
    )


def _takes_tokens(model: torch.nn.Module) -> bool:
    """Whether inputs can be made up that say something: a calibration of noise would not be used,
    since names and sizes of tensors say more."""
    from torch import nn

    if not isinstance(model, nn.Module):
        return True  # which calibrate() refuses
    return any(isinstance(module, nn.Embedding) for module in model.modules())
