"""Functions that torch.compile leaves alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Functions that torch.compile leaves alone, by those that they were made of.
_left_alone: dict[Callable[..., Any], Callable[..., Any]] = {}


def outside_compiled_graphs(function: _Function) -> _Function:
    """Marks a function where graphs of torch.compile break; with fullgraph=True it raises."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # To import the compiler takes a second and more memory than many models.
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if function not in _left_alone:
            _left_alone[function] = cast(Any, torch.compiler).disable(function)
        return _left_alone[function](*args, **kwargs)

    return cast(_Function, call)
