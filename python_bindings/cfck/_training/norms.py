"""Statistics of batch norms, measured anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .._evaluation.outputs import model_device, prepared, run_model
from ..errors import InvalidArgumentError


@torch.no_grad()
def reestimate_norms(model: nn.Module, batches: Sequence[Any]) -> None:
    """Sets running means and variances to the means over ``batches``, inputs of the model.

    Everything else runs in evaluation mode. Without batch norms with statistics nothing changes.
    Where a batch fails, or leads to NaN or infinities, the caller puts the statistics back:
    unchanged_if_failing().
    """
    if not batches:
        raise InvalidArgumentError(
            "norm_batches are empty: statistics of batch norms cannot be measured (None: they stay)"
        )
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not norms:
        return
    modes = {module: module.training for module in model.modules()}
    momenta = [norm.momentum for norm in norms]
    model.eval()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all
            norm.train()
        for batch in batches:
            run_model(model, prepared(batch, None, model_device(model)))
        if not all(torch.isfinite(t).all() for norm in norms for t in norm.buffers()):
            raise FloatingPointError("statistics of batch norms over norm_batches are not finite")
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, mode in modes.items():
            module.training = mode
