"""The weights of a model that are compressed in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from .names import without_compiler
from .weight import SpectralWeight


@dataclasses.dataclass
class Place:
    """A weight: its names in the state dict of the plain model, and the modules that have it."""

    weight: SpectralWeight
    names: list[str]
    owners: list[tuple[nn.Module, str]]

    @property
    def name(self) -> str:
        return self.names[0]

    def original(self) -> torch.Tensor:
        """The values that the optimizer changes."""
        module, attribute = self.owners[0]
        lists: Any = module.parametrizations
        original: torch.Tensor = lists[attribute].original
        return original


def find_places(model: nn.Module) -> list[Place]:
    """In the order of the model; weights that modules share once."""
    found: dict[int, Place] = {}
    # Shared modules have a name for each place, as in the state dict.
    for prefix, module in model.named_modules(remove_duplicate=False):
        # What torch.compile wraps around a module shows the attributes of that module as its own.
        if without_compiler(module) is not module or not parametrize.is_parametrized(module):
            continue
        lists: Any = module.parametrizations
        for attribute, parametrizations in lists.items():
            weight = parametrizations[0]
            if not isinstance(weight, SpectralWeight):
                continue
            place = found.setdefault(id(parametrizations.original), Place(weight, [], []))
            place.names.append(f"{prefix}.{attribute}" if prefix else attribute)
            if not any(owner is module for owner, of in place.owners if of == attribute):
                place.owners.append((module, attribute))
    return list(found.values())


def make_plain(module: nn.Module, attribute: str) -> None:
    """Gives a module the values of a weight in place of its parametrisation.

    PyTorch changes the class for that, which copies of the module share: they keep theirs.
    """
    shared = type(module)
    members = {k: v for k, v in vars(shared).items() if k not in ("__dict__", "__weakref__")}
    module.__class__ = type(shared.__name__, shared.__bases__, members)
    parametrize.remove_parametrizations(module, attribute)


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict with memory of its own."""
    return {name: t.clone() if isinstance(t, torch.Tensor) else t for name, t in state.items()}


@contextmanager
def unchanged_if_failing(model: nn.Module) -> Iterator[None]:
    """Gives the model the state dict of before, if what is done with it fails."""
    before = copied(model.state_dict())
    try:
        yield
    except BaseException:
        # The error tells more than one of the state dict would, if remove() was called meanwhile.
        with suppress(RuntimeError):
            model.load_state_dict(before)
        raise


def check_kinds(model: nn.Module, state: Mapping[str, Any]) -> None:
    """Raises TypeError where a state has no real numbers for those of the model."""
    for name, tensor in model.state_dict().items():
        given = state.get(name)
        if isinstance(tensor, torch.Tensor) and isinstance(given, torch.Tensor):
            if given.is_floating_point() != tensor.is_floating_point():
                raise TypeError(f"`{name}` is {given.dtype} in place of {tensor.dtype}")
