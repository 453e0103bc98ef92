"""Weights are decoded outside of what PyTorch compiles or traces."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from ..errors import UnsupportedError

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Functions that torch.compile leaves alone, by those that they were made of.
_left_alone: dict[Callable[..., Any], Callable[..., Any]] = {}


def outside_graphs(function: _Function) -> _Function:
    """Marks a function that decodes: graphs of torch.compile break there, traces are refused."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch._C._is_tracing():
            raise UnsupportedError(
                "torch.jit.trace would record a decoded weight without its values; trace the model "
                "that load_model loads"
            )
        # To import the compiler takes a second and more memory than many models.
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if function not in _left_alone:
            _left_alone[function] = cast(Any, torch.compiler).disable(function)
        return _left_alone[function](*args, **kwargs)

    return cast(_Function, call)
