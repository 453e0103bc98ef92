"""The functions of the method's first implementation."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from ..errors import InvalidArgumentError
from . import files
from .contents import file_sources, originals
from .model import SpectralModel


def handle_of(model: nn.Module) -> SpectralModel:
    """The handle of a model that cfck.train.spectral has changed."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch.nn.Module, not {type(model).__name__}")
    return SpectralModel(model)


def quantization_loss(model: nn.Module) -> torch.Tensor:
    """The mean bits per weight of the model, differentiable: SpectralModel.bits_per_weight()."""
    return handle_of(model).bits_per_weight()


def compress_weights(model: nn.Module) -> dict[str, bytes]:
    """Each tensor of the plain model's state dict, compressed: a small file of its own.

    Weights in training have their learned steps, which are snapped if that was not done; all else
    keeps every bit. Tied tensors share one object of bytes. decompress_weights() takes them back.
    """
    handle = handle_of(model)
    handle.snap()
    steps, untrained = handle.file_steps(), originals(handle.places)
    compressed: dict[str, bytes] = {}
    known: dict[object, bytes] = {}
    state = handle.state_dict()
    sources = file_sources(state, handle.places)
    for name, tensor in state.items():
        memory = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        data = known.get(memory) if tensor.numel() else None
        if data is None:
            is_learned = name in steps
            exact = files.encode_exactly(
                {"": tensor},
                {"": sources[name]},
                {"": untrained[name]} if is_learned else {},
                {"": steps[name]} if is_learned else {},
            )
            data = exact.data
            known[memory] = data
        compressed[name] = data
    return compressed


def decompress_weights(
    model: nn.Module, compressed: Mapping[str, bytes], strict: bool = True
) -> nn.modules.module._IncompatibleKeys:
    """Loads what compress_weights() has returned into a plain model, as load_state_dict() does.

    Raises:
        CfckError: bytes that are not those of a tensor, or are damaged.
        RuntimeError: tensors are missing or unexpected (with ``strict``), or of other shapes.
    """
    state = {}
    for name, data in compressed.items():
        tensors = files.decode(data)
        if set(tensors) != {""}:
            raise InvalidArgumentError(f"`{name}` is not what compress_weights() returns")
        state[name] = tensors[""]
    result: nn.modules.module._IncompatibleKeys = model.load_state_dict(state, strict=strict)
    return result
