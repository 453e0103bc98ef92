"""Several tensors decoded in one call, tied where their file ties them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Generic

from .. import _native
from .._common.progress import Progress
from .._frameworks.framework import Framework, TensorT
from .on_device import DeviceMemory
from .parts import Part, allocate, memory_of

if TYPE_CHECKING:
    import torch

# At most this much is decoded into host memory at once, on its way to another device.
_STAGED_BYTES = 256 << 20

# A name, and where its record is.
Wanted = tuple[str, Part, int]


class Loading(Generic[TensorT]):
    """One call that loads tensors. ``device`` None: the host."""

    def __init__(
        self,
        framework: Framework[TensorT],
        device: torch.device | None,
        progress: Progress | None,
        decode: str,
    ) -> None:
        self.framework = framework
        self.device = device
        self.progress = progress
        self.decode = decode
        self.done_bytes = 0
        self.total_bytes = 0
        self.loaded: dict[tuple[int, int], TensorT] = {}
        self.decoders: dict[int, DeviceMemory | None] = {}

    def run(self, wanted: list[Wanted]) -> dict[str, TensorT]:
        if self.device is not None:
            self.framework.reach_device(self.device)
        sources = _sources(wanted)
        storages = _storages(wanted, sources)
        self.total_bytes = sum(part.records[i].decoded_bytes for part, i in storages)
        self._read(storages)
        result = {}
        for (name, part, index), source in zip(wanted, sources, strict=True):
            tensor = self.loaded[id(part), source]
            if source != index:
                tensor = self._tied(part, index, tensor)
            result[name] = tensor
        return result

    def _tied(self, part: Part, index: int, base: TensorT) -> TensorT:
        record = part.records[index]
        view = self.framework.view(
            base, record.dtype, record.shape, record.strides, record.element_offset
        )
        if view is None:
            self._read([(part, index)])
            view = self.loaded[id(part), index]
        return view

    def _read(self, places: list[tuple[Part, int]]) -> None:
        group: list[tuple[Part, int]] = []
        group_bytes = 0
        for part, index in places:
            n_bytes = part.records[index].decoded_bytes
            other_file = group and group[0][0] is not part
            staged = self._is_staged(part) and group_bytes + n_bytes > _STAGED_BYTES
            if group and (other_file or staged):
                self._read_group(group)
                group, group_bytes = [], 0
            group.append((part, index))
            group_bytes += n_bytes
        if group:
            self._read_group(group)

    def _is_staged(self, part: Part) -> bool:
        """Whether values go through memory of the host."""
        return self.device is not None and self._decoder(part) is None

    def _decoder(self, part: Part) -> DeviceMemory | None:
        if id(part) not in self.decoders:
            self.decoders[id(part)] = part.decoder(self.device, self.decode)
        return self.decoders[id(part)]

    def _read_group(self, group: list[tuple[Part, int]]) -> None:
        part = group[0][0]
        decoder = self._decoder(part)
        boxes = [(part, index, None) for _, index in group]
        memories = allocate(boxes, memory_of(decoder or self.framework))
        requests = [
            (index, address, n_bytes)
            for (_, index), (_, address, n_bytes) in zip(group, memories, strict=True)
        ]
        progress = shift(self.progress, self.done_bytes, self.total_bytes)
        if decoder is None:
            part.read_many(requests, progress)
        else:
            part.read_on_device(decoder, [(*request, (), ()) for request in requests], progress)
        self.done_bytes += sum(n_bytes for _, _, n_bytes in requests)
        for (_, index), (memory, _, _) in zip(group, memories, strict=True):
            record = part.records[index]
            tensor = self.framework.finish(memory, record.dtype, record.shape)
            if self.device is not None and decoder is None:
                tensor = self.framework.to_device(tensor, self.device)
            self.loaded[id(part), index] = tensor


def bytes_to_decode(wanted: list[Wanted]) -> int:
    """The bytes that loading these tensors decodes, each storage once."""
    storages = _storages(wanted, _sources(wanted))
    return sum(part.records[index].decoded_bytes for part, index in storages)


def shift(progress: Progress | None, before: int, total: int) -> Progress | None:
    """``progress`` for a part of a longer job."""
    if progress is None:
        return None
    return lambda done_bytes, _, name: progress(before + done_bytes, total, name)


def _sources(wanted: list[Wanted]) -> list[int]:
    """For each tensor the record to decode: its own, or the base it shares."""
    storages = []
    for _, part, index in wanted:
        record = part.records[index]
        is_alias = record.kind == _native.RecordKind.ALIAS
        storages.append((id(part), record.base if is_alias else index))
    members = Counter(storages)
    return [
        storage[1] if members[storage] > 1 else index
        for storage, (_, _, index) in zip(storages, wanted, strict=True)
    ]


def _storages(wanted: list[Wanted], sources: list[int]) -> list[tuple[Part, int]]:
    """Every record to decode, each once."""
    storages: dict[tuple[int, int], tuple[Part, int]] = {}
    for (_, part, _), source in zip(wanted, sources, strict=True):
        storages[id(part), source] = part, source
    return list(storages.values())
