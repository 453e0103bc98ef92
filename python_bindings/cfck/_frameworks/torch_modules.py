"""What is asked of PyTorch modules before anything of them is changed."""

from __future__ import annotations

import torch
from torch import nn

from .framework import unsupported

_EXTRA_STATE = "_extra_state"


def refuse_quantised_modules(model: nn.Module) -> None:
    """Raises UnsupportedError for models with quantised modules, whose weights are packed."""
    for name, value in model.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            quantised = value.is_quantized
        else:
            quantised = not name.endswith(_EXTRA_STATE)
        if quantised:
            what = "belongs to a quantised module"
            raise unsupported(name, what, "pass the model as it is before it is quantised")


def extra_states(model: nn.Module) -> list[str]:
    """Names in the state dict of what get_extra_state() returns, but for tensors."""
    return [
        name
        for name, value in model.state_dict(keep_vars=True).items()
        if name.endswith(_EXTRA_STATE) and not isinstance(value, torch.Tensor)
    ]
