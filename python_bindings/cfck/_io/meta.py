"""Memory for tensors of a model that were made on the device meta, which has none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn

from .._frameworks.torch_memory import byte_range
from .._frameworks.torch_tensors import has_plain_storage


@dataclasses.dataclass
class MetaTensor:
    """A parameter or buffer of a model on the device meta.

    Attributes:
        tensor: has a shape and a dtype, and no values.
        places: modules, and its name in each: several where it is tied.
        names: its names in the model.
    """

    tensor: torch.Tensor
    places: list[tuple[nn.Module, str]] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)

    def put(self, tensor: torch.Tensor) -> None:
        """Puts a tensor in its place in all modules, as load_state_dict(assign=True) does."""
        for module, name in self.places:
            setattr(module, name, tensor)


class Materialised:
    """Memory that a model on the device meta has got, and how it was before."""

    def __init__(self) -> None:
        self.tensors: list[MetaTensor] = []

    def take_back(self, names: set[str] | None = None) -> None:
        """Puts tensors of meta back: all, or those of which only these names are known."""
        for one in self.tensors:
            if names is None or names.issuperset(one.names):
                one.put(one.tensor)


def meta_tensors(model: nn.Module) -> list[MetaTensor]:
    """The parameters and buffers of a model that are plain tensors on the device meta."""
    found: dict[int, MetaTensor] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None or not tensor.is_meta or nn.parameter.is_lazy(tensor):
                    continue
                if not has_plain_storage(tensor) or tensor.layout != torch.strided:
                    continue
                one = found.setdefault(id(tensor), MetaTensor(tensor))
                one.names.append(f"{prefix}.{name}" if prefix else name)
                if (module, name) not in one.places:
                    one.places.append((module, name))
    return list(found.values())


def give_memory(
    model: nn.Module, is_wanted: Callable[[str, torch.Tensor], bool], device: torch.device
) -> Materialised:
    """Gives memory, not yet filled, to tensors on the device meta.

    They keep class, attributes, dtype, shape, strides, requires_grad, and what they share memory
    with. ``is_wanted``: whether a tensor with this name will be filled.
    """
    given = Materialised()
    try:
        _give(model, is_wanted, device, given)
    except BaseException:  # such as no memory for the last of them
        given.take_back()
        raise
    return given


def _give(
    model: nn.Module,
    is_wanted: Callable[[str, torch.Tensor], bool],
    device: torch.device,
    given: Materialised,
) -> None:
    by_storage: dict[int, list[MetaTensor]] = {}
    for one in meta_tensors(model):
        by_storage.setdefault(one.tensor.untyped_storage()._cdata, []).append(one)
    for family in by_storage.values():
        wanted = [
            byte_range(one.tensor)
            for one in family
            if any(is_wanted(name, one.tensor) for name in one.names)
        ]
        # Views of what will be filled are filled, too.
        members = [
            one
            for one in family
            if any(start <= byte_range(one.tensor)[0] for start, _ in wanted)
            and any(byte_range(one.tensor)[1] <= stop for _, stop in wanted)
        ]
        for one, memory in zip(members, _memory_of(members, device), strict=True):
            given.tensors.append(one)
            one.put(_as(one.tensor, memory))


def _memory_of(family: list[MetaTensor], device: torch.device) -> list[torch.Tensor]:
    """Tensors of the same geometry that share memory as those of meta would."""
    if len(family) == 1:
        like = family[0].tensor
        if like.untyped_storage().nbytes() <= like.numel() * like.element_size():
            return [torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)]
    made = []
    storage: torch.UntypedStorage | None = None
    for one in family:
        if storage is None:
            n_bytes = one.tensor.untyped_storage().nbytes()
            storage = torch.empty(n_bytes, dtype=torch.uint8, device=device).untyped_storage()
        like = one.tensor
        empty = torch.empty(0, dtype=like.dtype, device=device)
        made.append(empty.set_(storage, like.storage_offset(), like.shape, like.stride()))
    return made


def _as(old: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """``memory`` as a parameter or buffer of the class and with the attributes of another one."""
    if type(old) is torch.Tensor:
        return memory.requires_grad_(old.requires_grad)
    made: torch.Tensor = torch.Tensor._make_subclass(type(old), memory, old.requires_grad)
    made.__dict__.update(old.__dict__)
    return made


def non_persistent_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """The buffers of a model that are not part of its state_dict()."""
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, buffer in module._buffers.items()
        if buffer is not None and name in module._non_persistent_buffers_set
    }
