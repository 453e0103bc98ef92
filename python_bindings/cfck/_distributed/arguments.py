"""Arguments of what ranks do together, looked at before anything is sent."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .._common.checks import as_integer
from .._frameworks.torch_tensors import has_plain_storage
from ..errors import InvalidArgumentError, UnsupportedError

_TRAINED = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


def check_group(group: dist.ProcessGroup | None) -> None:
    """Raises InvalidArgumentError without a default group, and on ranks outside of ``group``."""
    if not dist.is_initialized():
        raise InvalidArgumentError(
            "there is no process group: call torch.distributed.init_process_group() first"
        )
    if group is None or isinstance(group, dist.ProcessGroup):
        return
    if group == dist.GroupMember.NON_GROUP_MEMBER:
        raise InvalidArgumentError(
            f"rank {dist.get_rank()} does not belong to the group: only its members make this call"
        )
    raise TypeError(f"a group is a torch.distributed.ProcessGroup, not {type(group).__name__}")


def check_tensor(tensor: object) -> None:
    """Raises TypeError for what is no tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"tensor is a torch.Tensor, not {type(tensor).__name__}")


def check_model(model: object) -> None:
    """Raises TypeError for what is no module."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a torch.nn.Module, not {type(model).__name__}")


def trained_parameters(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The parameters that require gradients, by name.

    Raises:
        UnsupportedError: one of them is neither F32 nor BF16 nor F16, or has its values
            elsewhere, as a DTensor.
    """
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    for name, parameter in trained.items():
        if not has_plain_storage(parameter):
            raise UnsupportedError(
                f"{name} is a {type(parameter.data).__name__}, whose values are not in its own "
                "memory: each rank has a whole replica here; compress_fsdp() is for models of "
                "fully_shard()"
            )
        if parameter.dtype not in _TRAINED:
            raise UnsupportedError(
                f"{name} is {parameter.dtype}: parameters of {', '.join(_TRAINED.values())} are "
                "trained with compressed gradients; freeze it, or convert it"
            )
    return trained


def check_word(name: str, word: str | None, words: Sequence[str | None]) -> None:
    """Raises InvalidArgumentError for a word that is none of ``words``."""
    if word not in words:
        known = ", ".join(str(one) for one in words)
        raise InvalidArgumentError(f"{name} is one of {known}, not {word!r}")


def check_numbers(**given: Any) -> None:
    """Raises TypeError for what is no number, with its name."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} is a number, not {type(value).__name__}: {value!r}")


def integer(name: str, value: Any) -> int:
    """An integer of any type; raises TypeError for anything else, with its name."""
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} is an int, not {type(value).__name__}: {value!r}")
    return number


def check_flags(**given: Any) -> None:
    """Raises TypeError for what is neither True nor False, with its name."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} is a bool, not {type(value).__name__}: {value!r}")
