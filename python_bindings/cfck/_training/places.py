"""The weights of a model that are compressed in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from ..errors import InvalidArgumentError
from .choose import DTYPES
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

    def parametrized_owners(self) -> list[tuple[nn.Module, str]]:
        """Those of the owners that have the parametrisation still."""
        return [
            (module, attribute)
            for module, attribute in self.owners
            if parametrize.is_parametrized(module, attribute)
        ]

    def remove(self) -> None:
        """Makes the weight a plain one with the values of a file, which is trained on."""
        left = self.parametrized_owners()
        if not left:
            return
        original = self.original()
        values = original.detach()
        with modules_unchanged_if_failing(module for module, _ in left):
            for module, attribute in left:
                original.data = values  # which the owner before has quantised in place
                make_plain(module, attribute)
            if self.weight.holds_original:
                original.requires_grad_(True)

    def plain_error(self) -> InvalidArgumentError:
        """The error of weights that are not in training any more."""
        return InvalidArgumentError(
            f"weight `{self.name}` is no longer parametrised: what removed that has made it a "
            "plain weight",
            record=self.name,
        )

    def original(self) -> torch.Tensor:
        """The values that the optimizer changes."""
        left = self.parametrized_owners()
        if not left:
            raise self.plain_error()
        module, attribute = left[0]
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


def check_present(places: Sequence[Place]) -> None:
    """Raises InvalidArgumentError after remove(), which leaves no weight in training."""
    if not places:
        raise InvalidArgumentError("the model is a plain one again: remove() was called")


def check_places(model: nn.Module, places: Sequence[Place]) -> None:
    """Raises InvalidArgumentError where the model is no longer what spectral() made of it."""
    for place in places:
        if len(place.parametrized_owners()) < len(place.owners):
            raise place.plain_error()
        for module, attribute in place.owners:
            lists: Any = module.parametrizations
            if len(lists[attribute]) > 1:
                raise InvalidArgumentError(
                    f"weight `{place.name}` was parametrised again after spectral(): a file would "
                    "not have what that makes of it",
                    record=place.name,
                )
        dtype = place.original().dtype
        if dtype not in DTYPES:
            raise InvalidArgumentError(
                f"weight `{place.name}` is {dtype} since the model was converted; only float32, "
                "bfloat16 and float16 are compressed in training: convert it back",
                record=place.name,
            )
        if bool(place.weight.is_snapped) and not place.weight.are_of_a_file():
            raise InvalidArgumentError(
                f"the steps of weight `{place.name}` are no longer those of snap(): were buffers "
                "averaged? (AveragedModel has use_buffers=False for that)",
                record=place.name,
            )
    known = {id(place.weight): place.names for place in places}
    if {id(place.weight): place.names for place in find_places(model)} != known:
        raise InvalidArgumentError(
            "layers of the model were replaced, or have other names, since spectral(): take a "
            "handle of the model as it is, SpectralModel(model)"
        )


def check_finite(places: Sequence[Place]) -> None:
    """Raises FloatingPointError for weights or steps that are NaN or infinite."""
    for place in places:
        if not torch.isfinite(place.original()).all():
            raise FloatingPointError(f"weight `{place.name}` holds NaN or infinities")
        if not all(torch.isfinite(steps).all() for steps in place.weight.log2_in_use()):
            raise FloatingPointError(f"steps of weight `{place.name}` are NaN or infinite")


def make_plain(module: nn.Module, attribute: str) -> None:
    """Gives a module the values of a weight in place of its parametrisation.

    PyTorch changes the class for that, which copies of the module share: they keep theirs.
    """
    shared = type(module)
    members = {k: v for k, v in vars(shared).items() if k not in ("__dict__", "__weakref__")}
    module.__class__ = type(shared.__name__, shared.__bases__, members)
    parametrize.remove_parametrizations(module, attribute)


@contextmanager
def modules_unchanged_if_failing(modules: Iterable[nn.Module]) -> Iterator[None]:
    """For parametrisations that are registered or removed, in several steps that PyTorch does not
    undo where one fails or is interrupted."""
    kept = [_Kept(module) for module in modules]
    try:
        yield
    except BaseException:
        for module in kept:
            module.restore()
        raise


class _Kept:
    """What a parametrisation changes in a module. Values are not copied."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self._class = module, type(module)
        self._tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (table, dict(table)) for table in (module._parameters, module._modules)
        ]
        lists = module._modules.get("parametrizations")
        if lists is not None:
            self._tables.append((lists._modules, dict(lists._modules)))
        self._parameters = [(p, p.detach(), p.requires_grad) for p in module.parameters()]

    def restore(self) -> None:
        self._module.__class__ = self._class
        for table, entries in self._tables:
            table.clear()
            table.update(entries)
        for parameter, values, requires_grad in self._parameters:
            parameter.data = values
            parameter.requires_grad_(requires_grad)


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
