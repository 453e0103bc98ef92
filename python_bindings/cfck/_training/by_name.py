"""The functions of the method's first implementation."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from .. import _native
from .._common.problems import Problems
from .._frameworks.framework import named_tensors
from .._frameworks.torch_tensors import has_plain_storage
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
    """Each tensor of the plain model's state dict, compressed: a message (docs/messages.md).

    Weights in training have their learned steps, which are snapped if that was not done; all else
    keeps every bit. Tied tensors share one object of bytes. decompress_weights() takes them back.

    Raises:
        CfckError: a tensor that cannot be stored, as save_file() would say, among them what a
            module's get_extra_state() returns.
        FloatingPointError: a weight or a step is not finite.
    """
    handle = handle_of(model)
    handle.snap()
    steps, untrained = handle.file_steps(), originals(handle.places)
    problems = Problems()
    state = dict(named_tensors(handle.state_dict(), torch.Tensor, "torch.Tensor", problems))
    problems.check()
    sources = file_sources(state, handle.places)
    distinct: dict[object, str] = {}  # the first name of each tensor, by its memory
    first_names = {
        name: distinct.setdefault(_memory(tensor) or name, name) for name, tensor in state.items()
    }

    def message(name: str) -> bytes:
        learned = steps.get(name)
        original = untrained[name] if learned is not None else None
        return files.message_exactly(name, state[name], sources[name], original, learned)

    with ThreadPoolExecutor(_native.default_thread_count()) as threads:
        made = dict(zip(distinct.values(), threads.map(message, distinct.values()), strict=True))
    return {name: made[first] for name, first in first_names.items()}


def _memory(tensor: torch.Tensor) -> object:
    """Equal for tensors that have the same values since they have them in one place."""
    if tensor.layout != torch.strided or not has_plain_storage(tensor) or not tensor.numel():
        return None
    if tensor.is_meta:
        return None
    views = tensor.is_conj(), tensor.is_neg()
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, views


def decompress_weights(
    model: nn.Module, compressed: Mapping[str, bytes], strict: bool = True
) -> nn.modules.module._IncompatibleKeys:
    """Loads what compress_weights() has returned into a plain model, as load_state_dict() does.

    Files of one tensor without a name, which it returned before there were messages, load as well.

    Raises:
        CfckError: bytes that are not those of a tensor, or are damaged; it names the tensor.
        RuntimeError: tensors are missing or unexpected (with ``strict``), or of other shapes.
    """
    state = {}
    for name, data in compressed.items():
        state[name] = files.decode_one(name, data)
    result: nn.modules.module._IncompatibleKeys = model.load_state_dict(state, strict=strict)
    return result
