"""Lists what the file of a model in training is made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._common.naming import naming
from .names import plain_name
from .places import Place
from .weight import FileSteps


def plain_state(model: nn.Module, places: Iterable[Place]) -> dict[str, Any]:
    """The state dict of the plain model, weights as a file has them."""
    by_original = {id(place.original()): place for place in places}
    values: dict[int, torch.Tensor] = {}
    state: dict[str, Any] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        plain = plain_name(name)
        if plain is None:
            continue
        if not isinstance(tensor, torch.Tensor):  # of get_extra_state()
            state[plain] = tensor
            continue
        place = by_original.get(id(tensor))
        if place is None:
            state[plain] = tensor.detach()
            continue
        if id(tensor) not in values:
            with torch.no_grad(), naming(place.names[0], "weight"):
                values[id(tensor)] = place.weight(tensor).detach()
        state[plain] = values[id(tensor)]
    return state


def plain_tensors(model: nn.Module, places: Iterable[Place]) -> dict[str, torch.Tensor]:
    """The tensors of plain_state()."""
    state = plain_state(model, places)
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}


def originals(places: Iterable[Place]) -> dict[str, torch.Tensor]:
    """Returns what the weights are quantised from, by name."""
    return {name: place.original().detach() for place in places for name in place.names}


def file_sources(state: dict[str, Any], places: Iterable[Place]) -> dict[str, Any]:
    """Returns what an encoder makes the file of: the values of plain_state(), or, for a trellis,
    the originals."""
    of_trellises = [place for place in places if place.weight.trellised is not None]
    return state | originals(of_trellises)


def file_steps(places: Iterable[Place]) -> dict[str, FileSteps]:
    """The steps of each weight as the file has them, by name. Requires: they are snapped."""
    steps = {}
    for place in places:
        with naming(place.names[0], "weight"):
            of_weight = place.weight.file_steps(place.original().shape)
        steps.update(dict.fromkeys(place.names, of_weight))
    return steps
