"""Copies of tensors on the host, tied where the tensors are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .._common.checks import as_integer
from .._frameworks.choose import framework_of
from .._frameworks.framework import Framework
from ..errors import InvalidArgumentError

# dtype and shape by name.
Layout = dict[str, tuple[str, tuple[int, ...]]]


def at_least_one(what: str, number: object) -> int:
    """An argument that counts something."""
    checked = as_integer(number)
    if checked is None:
        raise TypeError(f"{what} is int, not {type(number).__name__}: {number!r}")
    if checked < 1:
        raise InvalidArgumentError(f"{what} is {checked}; it is at least 1")
    return checked


def framework_of_all(tensors: object) -> Framework[Any]:
    """The framework of a dict of tensors, by its first one."""
    if not isinstance(tensors, Mapping):
        advice = "; pass its state_dict()" if hasattr(tensors, "state_dict") else ""
        raise InvalidArgumentError(
            f"expected a dict of names and tensors, not {type(tensors).__name__}{advice}"
        )
    if not tensors:
        raise InvalidArgumentError("there are no tensors to publish")
    return framework_of(next(iter(tensors.values())))


def layout_of(framework: Framework[Any], tensors: Mapping[str, Any]) -> Layout:
    """Raises for tensors that files cannot hold, as save_file does."""
    layout: Layout = {}
    for unit in framework.prepare(tensors).units:
        for tensor in unit:
            layout[tensor[0]] = (tensor[1], tuple(tensor[2]))
    return layout


class HostTensors:
    """Tensors, all of them on the host.

    Attributes:
        tensors: by name. The same object where tensors were the same elements.
        ours: names of those that are copies, which nobody else has.
    """

    def __init__(self, tensors: dict[str, Any], ours: frozenset[str]) -> None:
        self.tensors = tensors
        self.ours = ours


def on_host(framework: Framework[Any], tensors: Mapping[str, Any], *, copy: bool) -> HostTensors:
    """``copy``: copies of all; else of what is on devices alone."""
    found: dict[object, Any] = {}
    result, ours = {}, set()
    for name, tensor in tensors.items():
        # Tensors without elements may all be in one place.
        place = id(tensor) if 0 in tensor.shape else place_of(tensor)
        if copy or framework.device_of(tensor) is not None:
            if place not in found:
                found[place] = _copied(framework, tensor)
            ours.add(name)
        else:
            found.setdefault(place, tensor)
        result[name] = found[place]
    return HostTensors(result, frozenset(ours))


def overwrite(framework: Framework[Any], old: dict[str, Any], new: HostTensors) -> dict[str, Any]:
    """Copies of ``new``, in the memory of ``old`` where it can be used: a copy of tensors of the
    same names, dtypes and shapes, made by on_host(), which is worth nothing after an error."""
    result: dict[str, Any] = {}
    copies: dict[int, Any] = {}  # by the tensor that was copied
    used: set[int] = set()
    for name, tensor in new.tensors.items():
        if name in new.ours:
            result[name] = tensor
            continue
        if id(tensor) not in copies:
            memory = old[name]
            if id(memory) in used:  # what was tied is no longer
                memory = framework.contiguous(tensor)
            else:
                framework.copy(memory, tensor)
            used.add(id(memory))
            copies[id(tensor)] = memory
        result[name] = copies[id(tensor)]
    return result


def place_of(tensor: Any) -> object:
    """Equal for tensors that are the same elements, while they are there."""
    if hasattr(tensor, "data_ptr"):
        address, strides, device = tensor.data_ptr(), tensor.stride(), str(tensor.device)
    elif hasattr(tensor, "ctypes"):
        address, strides, device = tensor.ctypes.data, tensor.strides, "cpu"
    else:  # a scalar of numpy
        return id(tensor)
    return device, address, tensor.dtype, tuple(tensor.shape), strides


def _copied(framework: Framework[Any], tensor: Any) -> Any:
    if framework.device_of(tensor) is None:
        return framework.contiguous(tensor)
    return cast(Any, tensor).detach().to("cpu", copy=True).contiguous()
