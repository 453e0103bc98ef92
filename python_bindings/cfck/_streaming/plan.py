"""Which parameters of a model stay in the file, and under which names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .._common.text import with_article
from .._frameworks.framework import unsupported
from .._frameworks.torch_modules import refuse_quantised_modules
from .._frameworks.torch_tensors import TorchFramework, has_plain_storage, torch_shape
from .._io.archive import Archive
from ..errors import InvalidArgumentError, UnsupportedError
from .placeholder import Placeholder

# Smaller parameters are loaded: to decode them takes longer than their memory is worth.
_FEWEST_VALUES = 4096
# Containers within containers that are searched for parameters.
_MAX_DEPTH = 4


@dataclasses.dataclass
class Group:
    """A parameter that a model has in one place or, tied, in several.

    Attributes:
        parameter: of one of the places.
        places: modules, and the name of the parameter in each.
        names: those in state_dict().
        stored: the name in the file.
    """

    parameter: torch.Tensor
    places: list[tuple[nn.Module, str]] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)
    stored: str = ""

    def is_streamed(self) -> bool:
        """Whether it stays in the file."""
        shape = self.parameter.shape
        if len(shape) < 2 or self.parameter.numel() < _FEWEST_VALUES:
            return False
        return all(_may_stream(module, self.parameter) for module, _ in self.places)


def groups_of(model: nn.Module) -> list[Group]:
    """All parameters of the model.

    Raises:
        UnsupportedError: there are some that are not plain tensors.
    """
    _check(model)
    groups: dict[Any, Group] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            full_name = f"{prefix}.{name}" if prefix else name
            _check_parameter(full_name, parameter)
            group = groups.setdefault(_place(parameter), Group(parameter))
            group.names.append(full_name)
            group.places.append((module, name))
    return list(groups.values())


def _check(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InvalidArgumentError(f"expected a torch.nn.Module, not {type(model).__name__}")
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise UnsupportedError(
                f"module `{name}` is a script of torch.jit, whose weights cannot be replaced; pass "
                "the model that it was made of"
            )
    refuse_quantised_modules(model)


def _check_parameter(name: str, parameter: torch.Tensor) -> None:
    if isinstance(parameter, Placeholder):
        raise InvalidArgumentError(f"parameter `{name}` is compressed already", record=name)
    if torch.nn.parameter.is_lazy(parameter):
        what = "is an uninitialised parameter of a lazy module: it has no shape yet"
        raise unsupported(name, what, "run the model once on an input before")
    if type(parameter) is not nn.Parameter or not has_plain_storage(parameter):
        what = (
            f"is {with_article(type(parameter).__name__)}, whose values are not in its own memory"
        )
        raise unsupported(name, what, "pass a model of plain parameters")
    if parameter.layout != torch.strided:
        raise unsupported(name, f"is sparse ({parameter.layout})", "pass a dense one")


def _place(parameter: torch.Tensor) -> Any:
    """Equal for parameters that are the same values."""
    if parameter.is_meta or not parameter.untyped_storage().nbytes():
        return id(parameter)
    address = parameter.untyped_storage().data_ptr(), parameter.storage_offset()
    return parameter.device, address, parameter.shape, parameter.stride()


def _may_stream(module: nn.Module, parameter: torch.Tensor) -> bool:
    """Whether a module asks for the parameter by its name, and does not change it."""
    if getattr(module, "max_norm", None) is not None and isinstance(
        module, nn.Embedding | nn.EmbeddingBag
    ):
        return False
    if isinstance(module, nn.RNNBase):
        return True
    known = ("_parameters", "_buffers", "_modules")
    return not any(
        _holds(value, parameter) for name, value in module.__dict__.items() if name not in known
    )


def _holds(value: object, parameter: torch.Tensor, depth: int = 0) -> bool:
    """Whether an attribute is the parameter or, in containers, has it."""
    if depth == _MAX_DEPTH:
        return False
    if isinstance(value, list | tuple | set):
        return any(_holds(one, parameter, depth + 1) for one in value)
    if isinstance(value, dict):
        return any(_holds(one, parameter, depth + 1) for one in value.values())
    return value is parameter


def match(groups: list[Group], archive: Archive, framework: TorchFramework) -> dict[str, str]:
    """Finds the groups in the file, and sets ``stored`` where it has them.

    Returns:
        Names of the file whose values the model does not get, since it ties them to the name here,
        whose values are others. As in load_model the first name counts.
    """
    known = set(archive.names())
    conflicts = {}
    for group in groups:
        found = sorted(known & set(group.names))
        if not found:
            continue
        group.stored = found[0]
        for other in found[1:]:
            if not _are_equal(archive, group.stored, other, group, framework):
                conflicts[other] = group.stored
    return conflicts


def _are_equal(
    archive: Archive, one: str, other: str, group: Group, framework: TorchFramework
) -> bool:
    """Whether two tensors of a file have the same values."""
    if archive.source(one) == archive.source(other):
        return True
    first, second = archive.record(one), archive.record(other)
    if first.digest and second.digest and first.dtype == second.dtype:
        return first.digest == second.digest and first.shape == second.shape
    dtype = group.parameter.dtype
    a, b = (archive.load_one(name, framework).to(dtype).contiguous() for name in (one, other))
    return a.shape == b.shape and torch.equal(_bytes(a), _bytes(b))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def mismatches(groups: list[Group], archive: Archive) -> Iterator[str]:
    """PyTorch's words for tensors of other shapes."""
    for group in groups:
        if not group.stored:
            continue
        record = archive.record(group.stored)
        shape = torch.Size(torch_shape(record.dtype, record.shape))
        if shape != group.parameter.shape:
            yield (
                f"size mismatch for {group.stored}: copying a param with shape {shape} from "
                f"checkpoint, the shape in current model is {group.parameter.shape}."
            )
