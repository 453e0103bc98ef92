"""Models for these tests, and what is compared."""

from __future__ import annotations

import copy

import torch
from cfck.torch import compressed, load_model, save_model
from conftest import assert_same
from torch import nn


def loaded(model: nn.Module, path, **options) -> nn.Module:
    """A copy of a model with the values of a file, as load_model loads them."""
    other = copy.deepcopy(model)
    load_model(other, path, **options)
    return other.requires_grad_(False)


def scrambled(model: nn.Module) -> nn.Module:
    """A copy of a model with other values."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in {id(p): p for p in other.parameters()}.values():
            tensor.fill_(0.123)
    return other


def pair(model: nn.Module, path, options=None, **save_options) -> tuple[nn.Module, nn.Module]:
    """A model that runs from a file, and the model that was loaded from it."""
    save_model(model, path, **save_options)
    return compressed(scrambled(model), path, **(options or {})), loaded(model, path)


def assert_equal_outputs(model: nn.Module, expected: nn.Module, *inputs, runs: int = 3) -> None:
    """The outputs have the same bits, in the first run and later."""
    for _ in range(runs):
        for actual, wanted in zip(flat(model(*inputs)), flat(expected(*inputs)), strict=True):
            assert_same(actual, wanted)


def flat(output) -> list[torch.Tensor]:
    """The tensors of an output."""
    if isinstance(output, torch.Tensor):
        return [output]
    return [tensor for part in output if part is not None for tensor in flat(part)]


def two_layers() -> nn.Sequential:
    """Two weights that stay in the file, and some that do not."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.LayerNorm(64))
