"""Decoding a checkpoint straight into the tensors of a model."""

from __future__ import annotations

from typing import Any

import torch

from ._checkpoint import Checkpoint
from ._framework import Progress
from ._tensors import (
    TorchFramework,
    byte_range,
    dtype_of,
    has_plain_storage,
    takes_in_place,
    torch_shape,
)

Geometry = tuple[Any, ...]


def load_into(
    model: torch.nn.Module,
    checkpoint: Checkpoint,
    framework: TorchFramework,
    progress: Progress | None,
) -> tuple[set[str], list[str]]:
    """Loads the checkpoint into the model. Returns (missing, unexpected).

    Tensors that fit are decoded in place. load_state_dict() then sees the model's own tensors,
    for which copying is nothing, and the few that did not fit; so hooks, version rules and error
    messages are torch's own.
    """
    own = {
        name: tensor
        for name, tensor in model.state_dict(keep_vars=True).items()
        if isinstance(tensor, torch.Tensor)
    }
    plan = _plan(own, checkpoint)
    with torch.no_grad():
        checkpoint.read_all_into(plan.in_place, progress)
        for name in plan.copied:
            own[name].copy_(checkpoint.load_one(name, framework, None))
    state: dict[str, Any] = {name: own[name] for name in plan.done}
    for name in plan.others:
        if name in own or _renames_keys(model):
            state[name] = checkpoint.load_one(name, framework, None)
        else:
            # Only its name is looked at.
            state[name] = torch.empty(0, device="meta")
    state = {name: state[name] for name in checkpoint.names()}
    result = model.load_state_dict(state, strict=False)
    missing = set(result.missing_keys)
    return missing - _tied_names(own, set(state)), list(result.unexpected_keys)


class _Plan:
    """How each tensor of the file gets into the model."""

    def __init__(self) -> None:
        self.in_place: list[tuple[str, int, int]] = []
        self.copied: list[str] = []
        self.done: list[str] = []
        self.others: list[str] = []


def _plan(own: dict[str, torch.Tensor], checkpoint: Checkpoint) -> _Plan:
    plan = _Plan()
    stored_at: dict[Geometry, Geometry] = {}
    planned: dict[Geometry, list[tuple[int, int]]] = {}
    for name in checkpoint.names():
        record = checkpoint.record(name)
        tensor = own.get(name)
        if tensor is None or not _fits(tensor, record.dtype, record.shape):
            plan.others.append(name)
            continue
        plan.done.append(name)
        place, source = _place(tensor), checkpoint.source(name)
        if stored_at.get(place) == source:
            continue  # tied in the model and in the file
        stored_at[place] = source
        start, stop = byte_range(tensor)
        ranges = planned.setdefault(place[:2], [])
        alone = all(stop <= begin or end <= start for begin, end in ranges)
        ranges.append((start, stop))
        if alone and takes_in_place(tensor) and tensor.dtype == dtype_of(record.dtype):
            plan.in_place.append((name, tensor.data_ptr(), record.decoded_bytes))
        else:
            plan.copied.append(name)
    return plan


def _fits(tensor: torch.Tensor, dtype: str, shape: Any) -> bool:
    return (
        has_plain_storage(tensor)
        and tensor.layout == torch.strided
        and not tensor.is_meta
        and not torch.nn.parameter.is_lazy(tensor)
        and tuple(tensor.shape) == torch_shape(dtype, shape)
    )


def _place(tensor: torch.Tensor) -> Geometry:
    return (
        tensor.device,
        tensor.untyped_storage().data_ptr(),
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )


def _tied_names(own: dict[str, torch.Tensor], loaded: set[str]) -> set[str]:
    """Names whose memory was filled under another name."""
    filled: dict[Geometry, list[tuple[int, int]]] = {}
    for name in loaded:
        if name in own and _has_memory(own[name]) and own[name].is_contiguous():
            filled.setdefault(_place(own[name])[:2], []).append(byte_range(own[name]))
    tied = set()
    for name, tensor in own.items():
        if not _has_memory(tensor) or not tensor.numel():
            continue
        start, stop = byte_range(tensor)
        ranges = filled.get(_place(tensor)[:2], [])
        if any(begin <= start and stop <= end for begin, end in ranges):
            tied.add(name)
    return tied


def _has_memory(tensor: torch.Tensor) -> bool:
    return has_plain_storage(tensor) and tensor.layout == torch.strided and not tensor.is_meta


def _renames_keys(model: torch.nn.Module) -> bool:
    """Whether some module looks for names that are not its own."""
    for module in model.modules():
        load = type(module)._load_from_state_dict
        if module._load_state_dict_pre_hooks or not load.__module__.startswith("torch.nn."):
            return True
    return False
