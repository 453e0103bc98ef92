"""States of ranks, looked at before anything of them is taken."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import InvalidArgumentError


def check_state(state: Any, parts: Sequence[str], count: str) -> None:
    """Looks at a state of a rank: whether it has all parts, of flat tensors, and a number.

    Args:
        state: what a state_dict() was.
        parts: each has a tensor for each parameter.
        count: the name of an integer of at least 0.

    Raises:
        InvalidArgumentError: it has not; the error says what is wrong.
    """
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(f"a state is what state_dict() returns, not {_kind(state)}")
    if missing := [name for name in (count, *parts) if name not in state]:
        raise InvalidArgumentError(
            f"the state has no {' and no '.join(missing)}: it is not whole, or of something else"
        )
    _check_count(count, state[count])
    for part in parts:
        if not isinstance(state[part], Mapping):
            raise InvalidArgumentError(
                f"{part} of the state has a tensor for each parameter, and is no "
                f"{_kind(state[part])}"
            )
        for name, tensor in state[part].items():
            _check_tensor(f"{name} in {part} of the state", tensor)


def check_states(states: Sequence[Any], parts: Sequence[str], count: str) -> None:
    """Looks at states of several ranks, likewise, and whether they are of one time and model."""
    sizes: dict[tuple[str, str], int] = {}
    for state in states:
        check_state(state, parts, count)
        if state[count] != states[0][count]:
            raise InvalidArgumentError(
                f"{count} is {states[0][count]} in one state and {state[count]} in another: give "
                "states of all ranks that were saved together"
            )
        for part in parts:
            for name, tensor in state[part].items():
                n = sizes.setdefault((part, name), tensor.numel())
                if tensor.numel() != n:
                    raise InvalidArgumentError(
                        f"{name} in {part} has {n} values in one state and {tensor.numel()} in "
                        "another: give the states of all ranks of one model"
                    )


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 0:
        raise InvalidArgumentError(f"{name} of the state is an integer, 0 or more, not {value!r}")


def _check_tensor(what: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{what} is a tensor, not {_kind(tensor)}")
    is_dense = tensor.layout == torch.strided and not tensor.is_meta
    if tensor.dim() != 1 or not tensor.dtype.is_floating_point or not is_dense:
        raise InvalidArgumentError(
            f"{what} is a dense tensor of one dimension, of floats, not one of {tensor.dtype} and "
            f"shape {list(tensor.shape)} with layout {tensor.layout} on {tensor.device}"
        )


def _kind(value: object) -> str:
    return type(value).__name__
