"""Records by their indexes: memory for them, and reads into it, by the host or by a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from .. import _native
from .._common.progress import Progress
from .on_device import DeviceMemory, DeviceRequest, decoding_device, read_on_device

if TYPE_CHECKING:
    import torch

_Memory = TypeVar("_Memory")
_Owner = TypeVar("_Owner", covariant=True)

# The index of a record, and the shape of a box of it; None: the whole one.
Box = tuple[int, Sequence[int] | None]

# The index of a record, an address, and the bytes there.
Request = tuple[int, int, int]

# Takes memory for a box of this shape of this record.
Make = Callable[[_native.Record, Sequence[int]], _Memory]


class Allocator(Protocol[_Owner]):
    """A framework, or a device."""

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[_Owner, int, int]: ...


def memory_of(allocator: Allocator[_Owner]) -> Make[tuple[_Owner, int, int]]:
    """Takes the memory of tensors: its owner, its address, its bytes."""
    return lambda record, shape: allocator.allocate(record.dtype, shape)


class RecordReader:
    """The records of an archive. Thread-safe."""

    def __init__(self, archive: _native.Archive, decode: str) -> None:
        self._archive = archive
        self._decode = decode
        self.records = archive.records()

    def decoder(self, index: int, device: torch.device | None) -> DeviceMemory | None:
        """The device that decodes a record which goes to ``device``; None: the host does."""
        return decoding_device(self.records[index].format, device, self._decode)

    def by_file(self, requests: Iterable[Request]) -> list[list[Request]]:
        """Requests in groups, each for records of one file."""
        groups: dict[int, list[Request]] = {}
        for request in requests:
            groups.setdefault(self.records[request[0]].file, []).append(request)
        return list(groups.values())

    def check_sizes(self, boxes: Sequence[Box]) -> None:
        """Raises LimitExceededError for more than one call may decode."""
        sizes = []
        for index, shape in boxes:
            record = self.records[index]
            n_bytes = record.decoded_bytes
            if shape is not None:
                n_bytes = -(-n_bytes * math.prod(shape) // max(1, math.prod(record.shape)))
            sizes.append((index, n_bytes))
        self._archive.check_sizes(sizes)

    def allocate(self, boxes: Sequence[Box], make: Make[_Memory]) -> list[_Memory]:
        """Memory for boxes that one call reads; every allocation for decoded values is made here.

        A small file may claim a huge tensor, so the limits are asked before any memory is taken:
        LimitExceededError where the boxes are more than one call may decode.
        """
        self.check_sizes(boxes)
        memories = []
        for index, shape in boxes:
            record = self.records[index]
            memories.append(make(record, record.shape if shape is None else shape))
        return memories

    def read(
        self,
        requests: Sequence[Request],
        progress: Progress | None,
        memory: DeviceMemory | None = None,
    ) -> None:
        """Decodes whole records.

        ``memory``: of the device that decodes, for records of one file; None: of the host.
        """
        if memory is None:
            self._archive.read_many(requests, progress)
        else:
            boxes: list[DeviceRequest] = [(*request, (), ()) for request in requests]
            read_on_device(self._archive, memory, boxes, progress)

    def start(self, batches: Sequence[Sequence[Request]], owner: object) -> _native.BackgroundRead:
        """Begins to decode whole records on the host, batch by batch, into memory of ``owner``."""
        return self._archive.start_reading(batches, owner)

    def read_box(self, request: DeviceRequest, memory: DeviceMemory | None) -> None:
        """Decodes a box of a record; ``memory`` as in read()."""
        if memory is None:
            index, address, n_bytes, starts, stops = request
            self._archive.read_slice(index, starts, stops, address, n_bytes)
        else:
            read_on_device(self._archive, memory, [request], None)
