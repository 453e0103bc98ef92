"""Weights are decoded outside of what PyTorch compiles or traces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from .._frameworks.torch_graphs import outside_compiled_graphs
from ..errors import UnsupportedError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def outside_graphs(function: _Function) -> _Function:
    """Marks a function that decodes: graphs of torch.compile break there, traces are refused."""
    left_alone = outside_compiled_graphs(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch._C._is_tracing():
            raise UnsupportedError(
                "torch.jit.trace would record a decoded weight without its values; trace the model "
                "that load_model loads"
            )
        return left_alone(*args, **kwargs)

    return cast(_Function, call)
