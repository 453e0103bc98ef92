"""Several tensors decoded in one call, tied where their file ties them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Generic

from .. import _native
from .._common.progress import Progress
from .._frameworks.framework import Framework, TensorT
from .on_device import DeviceMemory
from .reader import RecordReader, memory_of

if TYPE_CHECKING:
    import torch

# At most this much is decoded into host memory at once, on its way to another device.
_STAGED_BYTES = 256 << 20


class Loading(Generic[TensorT]):
    """One call that loads tensors. ``device`` None: the host."""

    def __init__(
        self,
        reader: RecordReader,
        framework: Framework[TensorT],
        device: torch.device | None,
        progress: Progress | None,
    ) -> None:
        self.reader = reader
        self.framework = framework
        self.device = device
        self.progress = progress
        self.done_bytes = 0
        self.total_bytes = 0
        self.loaded: dict[int, TensorT] = {}
        self.decoders: dict[int, DeviceMemory | None] = {}  # by file

    def run(self, wanted: list[tuple[str, int]]) -> dict[str, TensorT]:
        """``wanted``: names, and the indexes of their records."""
        if self.device is not None:
            self.framework.reach_device(self.device)
        sources = _sources(self.reader, [index for _, index in wanted])
        storages = list(dict.fromkeys(sources))
        self.total_bytes = sum(self.reader.records[index].decoded_bytes for index in storages)
        self._read(storages)
        result = {}
        for (name, index), source in zip(wanted, sources, strict=True):
            tensor = self.loaded[source]
            result[name] = tensor if source == index else self._tied(index, tensor)
        return result

    def _tied(self, index: int, base: TensorT) -> TensorT:
        record = self.reader.records[index]
        view = self.framework.view(
            base, record.dtype, record.shape, record.strides, record.element_offset
        )
        if view is None:
            self._read([index])
            view = self.loaded[index]
        return view

    def _read(self, indexes: list[int]) -> None:
        group: list[int] = []
        group_bytes = 0
        for index in indexes:
            n_bytes = self.reader.records[index].decoded_bytes
            if group and self._ends_group(group[0], index, group_bytes + n_bytes):
                self._read_group(group)
                group, group_bytes = [], 0
            group.append(index)
            group_bytes += n_bytes
        if group:
            self._read_group(group)

    def _ends_group(self, first: int, index: int, n_bytes: int) -> bool:
        """Whether a record is not read together with those from ``first`` on."""
        if self.device is None:
            return False
        decoder = self._decoder(index)
        if self._decoder(first) is not decoder:
            return True
        return decoder is None and n_bytes > _STAGED_BYTES

    def _decoder(self, index: int) -> DeviceMemory | None:
        file = self.reader.records[index].file
        if file not in self.decoders:
            self.decoders[file] = self.reader.decoder(index, self.device)
        return self.decoders[file]

    def _read_group(self, group: list[int]) -> None:
        decoder = self._decoder(group[0])
        memories = self.reader.allocate(
            [(index, None) for index in group], memory_of(decoder or self.framework)
        )
        requests = [
            (index, address, n_bytes)
            for index, (_, address, n_bytes) in zip(group, memories, strict=True)
        ]
        self.reader.read(requests, shift(self.progress, self.done_bytes, self.total_bytes), decoder)
        self.done_bytes += sum(n_bytes for _, _, n_bytes in requests)
        if decoder is not None:  # which made tensors
            self.loaded.update(
                (i, memory) for i, (memory, _, _) in zip(group, memories, strict=True)
            )
            return
        for index, (memory, _, _) in zip(group, memories, strict=True):
            record = self.reader.records[index]
            tensor = self.framework.finish(memory, record.dtype, record.shape)
            if self.device is not None:
                tensor = self.framework.to_device(tensor, self.device)
            self.loaded[index] = tensor


def bytes_to_decode(reader: RecordReader, indexes: list[int]) -> int:
    """The bytes that loading these records decodes, each storage once."""
    return sum(reader.records[index].decoded_bytes for index in set(_sources(reader, indexes)))


def shift(progress: Progress | None, before: int, total: int) -> Progress | None:
    """``progress`` for a part of a longer job."""
    if progress is None:
        return None
    return lambda done_bytes, _, name: progress(before + done_bytes, total, name)


def _sources(reader: RecordReader, indexes: list[int]) -> list[int]:
    """For each record the one to decode: itself, or the base it shares with others of these."""
    storages = []
    for index in indexes:
        record = reader.records[index]
        storages.append(record.base if record.kind == _native.RecordKind.ALIAS else index)
    members = Counter(storages)
    return [
        storage if members[storage] > 1 else index
        for storage, index in zip(storages, indexes, strict=True)
    ]
