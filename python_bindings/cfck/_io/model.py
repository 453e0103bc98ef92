"""Decoding a checkpoint straight into the tensors of a model."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .._common.progress import Progress
from .._common.text import printable
from .._frameworks.torch_memory import byte_range
from .._frameworks.torch_tensors import (
    TorchFramework,
    device_of,
    dtype_of,
    has_plain_storage,
    takes_in_place,
    torch_shape,
)
from .archive import Archive
from .loading import shift
from .meta import Materialised, give_memory, meta_tensors, non_persistent_buffers
from .module_versions import versioned
from .prefixes import advice_on_names

Geometry = tuple[Any, ...]


@dataclasses.dataclass
class Outcome:
    """The names of the model and of the file that did not find each other."""

    missing: set[str]
    unexpected: list[str]
    # Entries whose values are not in the model, since it ties them to the entry named here, which
    # has others.
    conflicts: dict[str, str]
    # Buffers on the device meta that are not part of state_dict(), among those that are missing.
    without_values: set[str] = dataclasses.field(default_factory=set)

    def check(self, model: torch.nn.Module) -> None:
        """Raises torch's error if anything is missing or unexpected."""
        missing = self.missing - self.without_values
        if not missing and not self.unexpected:
            return
        message = f"Error(s) in loading state_dict for {type(model).__name__}:"
        for kind, names in (("Missing", missing), ("Unexpected", self.unexpected)):
            if names:
                quoted = ", ".join(f'"{printable(name)}"' for name in sorted(names))
                message += f"\n    {kind} key(s) in state_dict: {quoted}"
        for name, kept in sorted(self.conflicts.items()):
            message += (
                f'\n    "{printable(kept)}" and "{printable(name)}" share memory in the model, '
                "but their values in the file differ"
            )
        advice = advice_on_names(self.unexpected, missing)
        if advice is not None:
            message += f"\n    {advice}"
        raise RuntimeError(message)


def load_into(
    model: torch.nn.Module,
    archive: Archive,
    framework: TorchFramework,
    progress: Progress | None,
    device: torch.device | None = None,
) -> Outcome:
    """Loads the checkpoint into the model.

    Tensors that fit are decoded in place. load_state_dict() then sees the model's own tensors,
    for which copying is nothing, and the few that did not fit; so hooks, version rules and error
    messages are torch's own. Tensors on meta are given memory before, on ``device`` (None: host).
    """
    names = set(archive.names())
    # Modules may look for other names than theirs.
    loadable = set(_own(model)) if renames_keys(model) else set()

    def is_wanted(name: str, tensor: torch.Tensor) -> bool:
        if name not in names:
            return name in loadable
        record = archive.record(name)
        return tuple(tensor.shape) == torch_shape(record.dtype, record.shape)

    given = give_memory(model, is_wanted, device or torch.device("cpu"))
    try:
        outcome = _load_into(model, archive, framework, progress, given)
    except BaseException:
        given.take_back()
        raise
    given.take_back(outcome.missing)
    still = {name for one in meta_tensors(model) for name in one.names}
    others = {name for name, t in _own(model).items() if t.is_meta}
    outcome.missing |= still | others
    outcome.without_values = still & set(non_persistent_buffers(model))
    return outcome


def _own(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and persistent buffers of a model, as it has them."""
    state = model.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}


def _load_into(
    model: torch.nn.Module,
    archive: Archive,
    framework: TorchFramework,
    progress: Progress | None,
    given: Materialised,
) -> Outcome:
    own = _own(model)
    optional = non_persistent_buffers(model)
    for one in given.tensors:
        own |= {name: optional[name] for name in one.names if name in optional}
    plan = _plan(own, archive)
    archive.check_bytes(plan.read())
    with torch.no_grad():
        _fill(own, plan, archive, framework, progress)
        conflicts = _conflicts(own, archive, framework, plan)
    state: dict[str, Any] = {name: own[name] for name in plan.done}
    for name in plan.others:
        if name in own and _is_part(name, own, archive, plan):
            continue
        if name not in optional and (name in own or renames_keys(model)):
            state[name] = archive.load_one(name, framework, None)
        else:
            # Only its name is looked at.
            state[name] = torch.empty(0, device="meta")
    state = {name: state[name] for name in archive.names() if name in state}
    result = model.load_state_dict(versioned(state, archive.metadata(), model), strict=False)
    missing = set(result.missing_keys) - _tied_names(own, set(state))
    unexpected = [name for name in result.unexpected_keys if name not in optional]
    return Outcome(missing, [*unexpected, *conflicts], conflicts)


def _fill(
    own: dict[str, torch.Tensor],
    plan: _Plan,
    archive: Archive,
    framework: TorchFramework,
    progress: Progress | None,
) -> None:
    """Decodes what goes straight into the model, by the host, then by each device; then the rest,
    which is converted."""
    on_host = [(name, own[name].data_ptr(), n_bytes) for name, n_bytes in plan.in_place]
    on_devices = {
        device: [(name, own[name].data_ptr(), n_bytes) for name, n_bytes in targets]
        for device, targets in plan.on_device.items()
    }
    total = sum(archive.record(name).decoded_bytes for name in plan.read())
    done = 0
    for device, targets in ((None, on_host), *on_devices.items()):
        if targets:
            archive.read_all_into(targets, shift(progress, done, total), device)
            done += sum(n_bytes for _, _, n_bytes in targets)
    for name in plan.copied:
        through = _copied_through(own[name], archive, name)
        own[name].copy_(archive.load_one(name, framework, through))
        done += archive.record(name).decoded_bytes
        if progress is not None:
            progress(done, total, name)


def _copied_through(tensor: torch.Tensor, archive: Archive, name: str) -> torch.device | None:
    """Where a tensor is decoded before it is copied; None: on the host."""
    device = device_of(tensor)
    return None if device is None or archive.decoder_of(name, device) is None else device


class _Plan:
    """How each tensor of the file gets into the model."""

    def __init__(self) -> None:
        # Names, and bytes.
        self.in_place: list[tuple[str, int]] = []
        self.on_device: dict[torch.device | None, list[tuple[str, int]]] = {}
        self.copied: list[str] = []
        self.done: list[str] = []
        self.others: list[str] = []
        # Entries that share memory in the model, but not in the file, with the entry named here.
        self.shared: dict[str, str] = {}

    def read(self) -> list[str]:
        """Names of all tensors that are decoded for the model."""
        in_place = [name for name, _ in self.in_place]
        on_device = [name for targets in self.on_device.values() for name, _ in targets]
        return [*in_place, *on_device, *self.copied]


@dataclasses.dataclass
class _Filled:
    """Memory of the model that an entry of the file fills."""

    name: str
    start: int
    stop: int
    dense: bool


def _plan(own: dict[str, torch.Tensor], archive: Archive) -> _Plan:
    plan = _Plan()
    fitting: list[str] = []
    for name in archive.names():
        record = archive.record(name)
        fits = name in own and _fits(own[name], record.dtype, record.shape)
        (fitting if fits else plan.others).append(name)
    position = {name: i for i, name in enumerate(fitting)}
    sources: dict[Geometry, Geometry] = {}
    filled: dict[Geometry, list[_Filled]] = {}
    # Entries that cover others come first; of equals the first name, as in safetensors.
    for name in sorted(fitting, key=lambda name: (-_span(own[name]), name)):
        tensor = own[name]
        plan.done.append(name)
        place, source = _place(tensor), archive.source(name)
        if place in sources and sources[place] == source:
            continue  # tied in the model and in the file
        sources.setdefault(place, source)
        start, stop = byte_range(tensor)
        earlier = filled.setdefault(place[:2], [])
        overlapping = [other for other in earlier if other.start < stop and start < other.stop]
        earlier.append(_Filled(name, start, stop, tensor.is_contiguous()))
        if overlapping:
            plan.shared[name] = overlapping[0].name
            if any(o.dense and o.start <= start and stop <= o.stop for o in overlapping):
                continue  # filled already
            plan.copied.append(name)
            for other in overlapping:
                plan.shared.setdefault(other.name, name)
            continue
        target = (name, archive.record(name).decoded_bytes)
        if tensor.dtype != dtype_of(archive.record(name).dtype):
            plan.copied.append(name)
        elif takes_in_place(tensor):
            plan.in_place.append(target)
        elif _decodes_in_place(tensor, archive, name):
            plan.on_device.setdefault(device_of(tensor), []).append(target)
        else:
            plan.copied.append(name)
    for targets in (plan.in_place, *plan.on_device.values()):
        targets.sort(key=lambda target: position[target[0]])
    plan.copied.sort(key=position.__getitem__)
    return plan


def _decodes_in_place(tensor: torch.Tensor, archive: Archive, name: str) -> bool:
    decoder = archive.decoder_of(name, device_of(tensor))
    return decoder is not None and decoder.takes_in_place(tensor)


def _conflicts(
    own: dict[str, torch.Tensor],
    archive: Archive,
    framework: TorchFramework,
    plan: _Plan,
) -> dict[str, str]:
    """Finds the entries that share memory in the model and whose values it does not have."""
    conflicts = {}
    for name, kept in plan.shared.items():
        one, other = archive.record(name), archive.record(kept)
        if _place(own[name]) == _place(own[kept]) and one.dtype == other.dtype and one.digest:
            if one.digest != other.digest:
                conflicts[name] = kept
            continue
        if not _same_bytes(own[name], archive.load_one(name, framework, None)):
            conflicts[name] = kept
    return conflicts


def _is_part(name: str, own: dict[str, torch.Tensor], archive: Archive, plan: _Plan) -> bool:
    """Whether the model has this name for a part of a tensor that was loaded.

    Metadata of safetensors.torch.save_model say what a name shares memory with, not its shape;
    a conversion takes that for all of the tensor.
    """
    kept = archive.metadata().get(name)
    return (
        kept in plan.done
        and archive.source(name) == archive.source(kept)
        and name in _tied_names(own, {kept})
    )


def _same_bytes(tensor: torch.Tensor, stored: torch.Tensor) -> bool:
    one, other = (
        part.detach().to("cpu", tensor.dtype).contiguous().reshape(-1).view(torch.uint8)
        for part in (tensor, stored)
    )
    return torch.equal(one, other)


def _span(tensor: torch.Tensor) -> int:
    start, stop = byte_range(tensor)
    return stop - start


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


def renames_keys(model: torch.nn.Module) -> bool:
    """Whether some module looks for names that are not its own."""
    for module in model.modules():
        load = type(module)._load_from_state_dict
        if module._load_state_dict_pre_hooks or not load.__module__.startswith("torch.nn."):
            return True
    return False
