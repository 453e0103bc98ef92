"""Where the memory of torch tensors is, and which share it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .framework import CudaMemory


def is_host(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory can be read through its address."""
    return tensor.device.type == "cpu"


def may_be_given(tensor: torch.Tensor) -> bool:
    """Whether the native writer can be given the memory of a tensor of a CUDA device."""
    return tensor.is_contiguous() and tensor.numel() > 0


def memory_on_cuda(
    families: list[list[tuple[str, torch.Tensor]]], moved: Mapping[str, torch.Tensor]
) -> list[CudaMemory]:
    """What each family has on a CUDA device. ``moved``: tensors that are copied to the host."""
    found = []
    for family in families:
        name, first = family[0]
        if first.device.type == "cuda":
            is_given = all(may_be_given(t) and n not in moved for n, t in family)
            n_bytes = first.nbytes if len(family) == 1 and is_given else _bytes_of(family)
            found.append(CudaMemory(first.device.index or 0, name, n_bytes, is_given))
    return found


def _bytes_of(family: list[tuple[str, torch.Tensor]]) -> int:
    """The bytes of values of tensors that share memory: equal views count once, and those between
    their elements only where the views differ."""
    ranges = [byte_range(tensor) for _, tensor in family]
    views = {
        (begin, tensor.dtype, tensor.shape, tensor.stride()): tensor.nbytes
        for (begin, _), (_, tensor) in zip(ranges, family, strict=True)
    }
    return min(max(stop for _, stop in ranges) - min(ranges)[0], sum(views.values()))


def moved_to_host(families: list[list[tuple[str, torch.Tensor]]]) -> dict[str, torch.Tensor]:
    """Copies in host memory of those tensors that share memory in a way that can be stored from
    there alone."""
    moved: dict[str, torch.Tensor] = {}
    for family in families:
        is_shared = len(family) > 1 or _repeats_memory(family[0][1])
        if is_shared and not is_host(family[0][1]) and not _are_tied_in_place(family):
            moved.update(_moved(family))
    return moved


def _repeats_memory(tensor: torch.Tensor) -> bool:
    """Whether some elements have the same memory, as those of an expanded tensor."""
    start, stop = byte_range(tensor)
    return tensor.numel() * tensor.element_size() > stop - start


def _are_tied_in_place(family: list[tuple[str, torch.Tensor]]) -> bool:
    """Whether the native writer can tie them where they are: one of them has all of the memory."""
    ranges = [byte_range(tensor) for _, tensor in family]
    whole = (min(ranges)[0], max(stop for _, stop in ranges))
    return whole in ranges and all(
        tensor.device.type == "cuda"
        and tensor.dtype == family[0][1].dtype
        and tensor.is_contiguous()
        for _, tensor in family
    )


def families_of(
    tensors: list[tuple[str, torch.Tensor]],
) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """Groups tensors whose ranges of one storage overlap, by the first of each."""
    by_storage: dict[Any, list[int]] = {}
    for position, (_, tensor) in enumerate(tensors):
        key = (tensor.device, tensor.untyped_storage().data_ptr())
        by_storage.setdefault(key if tensor.numel() else position, []).append(position)
    families: dict[int, list[int]] = {}
    for positions in by_storage.values():
        end = -1
        family: list[int] = []
        for position in sorted(positions, key=lambda p: byte_range(tensors[p][1])):
            start, stop = byte_range(tensors[position][1])
            if start >= end:
                family = []
            family.append(position)
            families[id(family)] = family
            end = max(end, stop)
    for family in sorted((sorted(family) for family in families.values()), key=min):
        yield [tensors[position] for position in family]


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    size = tensor.element_size()
    start = int(tensor.storage_offset()) * size
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * size if tensor.numel() else start


def _moved(family: list[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    """The family in host memory, its memory still shared."""
    if is_host(family[0][1]):
        return family
    ranges = [byte_range(tensor) for _, tensor in family]
    # Rounded down, so that members of any dtype stay aligned.
    start, stop = min(ranges)[0] // 16 * 16, max(stop for _, stop in ranges)
    storage = family[0][1].untyped_storage()
    device_bytes = torch.empty(0, dtype=torch.uint8, device=family[0][1].device).set_(storage)
    host_bytes = device_bytes[start:stop].to("cpu", copy=True)
    moved = []
    for (name, tensor), (first, _) in zip(family, ranges, strict=True):
        size = tensor.element_size()
        host = torch.empty(0, dtype=tensor.dtype).set_(
            host_bytes.untyped_storage(), (first - start) // size, tensor.shape, tensor.stride()
        )
        moved.append((name, host))
    return moved


def storage_ptr(tensor: torch.Tensor) -> int:
    """Address of the memory that ``tensor`` is a view of; 0 if it has none (meta)."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper of other tensors
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Bytes of the memory that ``tensor`` is a view of."""
    return tensor.untyped_storage().nbytes()
