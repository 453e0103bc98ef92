"""What is asked of PyTorch modules before anything of them is changed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from .framework import unsupported

_EXTRA_STATE = "_extra_state"


def check_module(model: object, function: str, for_tensors: str) -> None:
    """Raises TypeError for what is no module; of a state dict it names the function to use."""
    if isinstance(model, nn.Module):
        return
    advice = f"; for a state_dict there is {for_tensors}" if isinstance(model, Mapping) else ""
    raise TypeError(f"{function}() takes a torch.nn.Module, not {type(model).__name__}{advice}")


def refuse_not_contiguous(state_dict: Mapping[str, object]) -> None:
    """Raises ValueError for tensors with strides of their own."""
    for name, tensor in state_dict.items():
        if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous():
            raise ValueError(
                f"tensor `{name}` is not contiguous; "
                "use save_model(..., force_contiguous=True) to store it as if it were"
            )


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
