"""Turning a model into one that runs from a file."""

from __future__ import annotations

import os
from typing import Any, TypeVar, cast

import torch
from torch import nn

from .._common.text import printable
from .._frameworks.torch_tensors import TorchFramework, torch_shape
from .._io.archive import Archive
from .._io.meta import non_persistent_buffers
from .._io.model import Outcome, renames_keys
from .._io.module_versions import versioned
from .._io.prefixes import advice_on_names
from .._options.kinds import OpenOptions, StreamOptions
from .._options.signatures import complete, for_bytes
from ..errors import UnsupportedError
from .modules import stream
from .placeholder import placeholder_of
from .plan import Group, groups_of, match, mismatches
from .supply import Supply
from .weight import Weight

_Model = TypeVar("_Model", bound=nn.Module)


def open_and_convert(
    model: _Model,
    source: str | os.PathLike[str] | bytes | torch.Tensor,
    framework: TorchFramework,
    strict: bool,
    options: StreamOptions,
) -> _Model:
    """Converts a model with the tensors of a file or of bytes, and returns it."""
    reading: dict[str, Any] = complete(StreamOptions, options)
    prefetch = reading.pop("prefetch")
    if not isinstance(prefetch, bool):
        raise TypeError(f"prefetch is a bool, not {type(prefetch).__name__}")
    if isinstance(source, str | os.PathLike):
        archive = Archive.open(source, cast(OpenOptions, reading))
    else:
        archive = Archive.from_bytes(source, for_bytes(cast(OpenOptions, reading)))
    convert(model, archive, framework, strict, prefetch)
    return model


def convert(
    model: nn.Module, archive: Archive, framework: TorchFramework, strict: bool, prefetch: bool
) -> list[str]:
    """Replaces the large parameters of the model by placeholders, and loads all else.

    Returns the names of the file that the model does not have, or has no use for.
    """
    groups = groups_of(model)
    conflicts = match(groups, archive, framework)
    _check_buffers(model, archive)
    _check_names(model, groups, archive, strict)
    streamed = [group for group in groups if group.is_streamed()]
    loaded = [group for group in groups if not group.is_streamed()]
    empty = _fill_meta(model, loaded)
    missing, unexpected = _load(model, archive, framework, groups, conflicts, empty)
    outcome = Outcome(missing if strict else missing & empty, unexpected, conflicts)
    if not strict:
        outcome.unexpected = []
    outcome.check(model)
    _stream(streamed, Supply(archive, prefetch))
    model.requires_grad_(False)
    return unexpected


def _check_buffers(model: nn.Module, archive: Archive) -> None:
    """Raises UnsupportedError for buffers without values that the file has not either."""
    lost = [
        name
        for name, buffer in non_persistent_buffers(model).items()
        if buffer.is_meta and not _has_values_of(archive, name, buffer)
    ]
    if lost:
        names = ", ".join(f"`{name}`" for name in sorted(lost))
        raise UnsupportedError(
            f"buffers on the device meta have no values, and are not part of files: {names}; make "
            "the model on the host"
        )


def _has_values_of(archive: Archive, name: str, buffer: torch.Tensor) -> bool:
    if name not in archive.names():
        return False
    record = archive.record(name)
    return torch_shape(record.dtype, record.shape) == tuple(buffer.shape)


def _check_names(model: nn.Module, groups: list[Group], archive: Archive, strict: bool) -> None:
    """Raises PyTorch's error where the file is not of this model."""
    lost = {name for group in groups if not group.stored for name in group.names}
    wrong = list(mismatches(groups, archive))
    if not lost and not wrong:
        return
    lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
    if lost:
        lines.append(f"Missing key(s) in state_dict: {_quoted(lost)}")
    known, stored = set(model.state_dict(keep_vars=True)), set(archive.names())
    others = stored - known - set(non_persistent_buffers(model))
    if others and (strict or lost):
        lines.append(f"Unexpected key(s) in state_dict: {_quoted(others)}")
    advice = advice_on_names(others, known - stored)
    raise RuntimeError("\n    ".join([*lines, *wrong, *([advice] if advice else [])]))


def _quoted(names: set[str]) -> str:
    return ", ".join(f'"{printable(name)}"' for name in sorted(names))


def _fill_meta(model: nn.Module, loaded: list[Group]) -> set[str]:
    """Gives memory to small parameters and buffers on the device meta; returns their names."""
    names = set()
    for group in loaded:
        if group.parameter.is_meta:
            memory = torch.zeros_like(group.parameter, device="cpu")
            parameter = nn.Parameter(memory, requires_grad=False)
            for module, name in group.places:
                module._parameters[name] = parameter
            names.update(group.names)
    made: dict[int, torch.Tensor] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                memory = made.setdefault(id(buffer), torch.zeros_like(buffer, device="cpu"))
                made[id(memory)] = memory
                module._buffers[name] = memory
                names.add(f"{prefix}.{name}" if prefix else name)
    return names


def _load(
    model: nn.Module,
    archive: Archive,
    framework: TorchFramework,
    groups: list[Group],
    conflicts: dict[str, str],
    empty: set[str],
) -> tuple[set[str], list[str]]:
    """Loads what does not stay in the file; returns the names that are missing and unexpected."""
    done = {name for group in groups if group.is_streamed() for name in group.names}
    own = set(model.state_dict(keep_vars=True))
    # Names that are not the model's own matter to modules that rename them, and else as names.
    wanted = own if not renames_keys(model) else set(archive.names())
    names = [name for name in archive.names() if name not in done and name not in conflicts]
    values = archive.load([name for name in names if name in wanted], framework)
    state: dict[str, Any] = {
        name: values[name] if name in values else torch.empty(0, device="meta") for name in names
    }
    optional = non_persistent_buffers(model)
    with torch.no_grad():
        for name, buffer in optional.items():
            if name in empty and name in state:
                buffer.copy_(archive.load_one(name, framework))
    result = model.load_state_dict(versioned(state, archive.metadata(), model), strict=False)
    found = {name for group in groups for name in group.names if group.stored}
    unexpected = [name for name in result.unexpected_keys if name not in optional]
    return set(result.missing_keys) - found, [*unexpected, *conflicts]


def _stream(groups: list[Group], supply: Supply) -> None:
    """Puts placeholders into the modules."""
    by_module: dict[int, tuple[nn.Module, dict[str, Any]]] = {}
    for group in groups:
        placeholder = placeholder_of(Weight(supply, group.stored, group.parameter))
        for module, name in group.places:
            by_module.setdefault(id(module), (module, {}))[1][name] = placeholder
    for module, placeholders in by_module.values():
        stream(module, placeholders, supply)
