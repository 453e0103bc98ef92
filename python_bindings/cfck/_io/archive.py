"""Files and folders of shards, opened for reading."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _native
from .._common.near import advice_for_name
from .._common.progress import Progress
from .._frameworks.framework import Framework, TensorT, row_major
from .._options.kinds import LoadBytesOptions, OpenOptions, ReadOptions
from .._options.signatures import complete
from ..errors import LimitExceededError, NotFoundError
from .loading import Loading, bytes_to_decode, shift
from .on_device import DeviceMemory
from .opening import open_bytes, open_path
from .reader import Make, RecordReader, memory_of
from .reading import Reading

if TYPE_CHECKING:
    import torch

_Memory = TypeVar("_Memory")
# Names that are not there for which near ones are looked up: among 10,000 that takes half a second.
_MAX_SEARCHES = 5


class Archive:
    """The tensors of one file, of one byte string, or of a folder of shards. Thread-safe."""

    def __init__(self, native: _native.Archive, reading: Reading) -> None:
        self._native = native
        self._max_attachment_bytes = reading.limits.get("max_attachment_bytes")
        self._reader = RecordReader(native, reading.decode)
        self._n_missed = 0
        self._indexes = {
            record.name: index
            for index, record in enumerate(self._reader.records)
            if not record.hidden
        }

    @classmethod
    def open(cls, filename: str | os.PathLike[str], options: OpenOptions) -> Archive:
        reading = Reading.of(complete(OpenOptions, options))
        return cls(open_path(filename, reading), reading)

    @classmethod
    def from_bytes(
        cls, data: object, options: ReadOptions, target: torch.device | None = None
    ) -> Archive:
        """``target``: where tensors go, so that bytes which are there already may stay."""
        reading = Reading.of(complete(LoadBytesOptions, options))
        return cls(open_bytes(data, reading, target), reading)

    def names(self) -> list[str]:
        """Names of all tensors in file order."""
        return list(self._indexes)

    def base_names(self) -> list[str | None]:
        """For each file the name of the one that it is stored against; empty: it names none; None:
        it stands alone."""
        return self._native.base_names()

    def renamed(self, names: Mapping[str, str]) -> Archive:
        """The same tensors under other names: those that are to be, and those that are."""
        other = copy.copy(self)
        other._indexes = {name: self._index(stored) for name, stored in names.items()}
        return other

    def metadata(self) -> dict[str, str]:
        """User metadata; of shards, the first one that has a key counts."""
        return self._native.metadata()

    def attachment(self, name: str, max_bytes: int) -> bytes | None:
        """A named byte string; of shards, the first one that has it. None if there is none.

        ``max_bytes`` is the most that it may have, unless the limits say otherwise.
        """
        if self._max_attachment_bytes is not None:
            max_bytes = self._max_attachment_bytes
        for file, sizes in enumerate(self._native.attachments()):
            if name not in sizes:
                continue
            if sizes[name] > max_bytes:
                raise LimitExceededError(
                    f"attachment `{name}` has {sizes[name]} bytes, more than the {max_bytes} "
                    "allowed; raise the limit max_attachment_bytes to read it"
                )
            return self._native.attachment(file, name)
        return None

    def shards_with(self, attachment: str) -> int:
        """The number of files that have a named byte string."""
        return sum(attachment in sizes for sizes in self._native.attachments())

    def record(self, name: str) -> _native.Record:
        return self._reader.records[self._index(name)]

    def base(self, name: str) -> _native.Record | None:
        """The record whose stored bytes an alias or a duplicate uses."""
        return self._native.base_of(self._index(name))

    def is_chunked(self, name: str) -> bool:
        """Whether a tensor is decoded by whole chunks; other formats are read from any place."""
        return self.record(name).format == "cfck"

    def source(self, name: str) -> tuple[Any, ...]:
        """Equal for names that are the same elements of one file."""
        index = self._index(name)
        record = self._reader.records[index]
        if record.kind != _native.RecordKind.ALIAS:
            return id(self), index, 0, tuple(record.shape), row_major(record.shape)
        place = record.element_offset, tuple(record.shape), tuple(record.strides)
        return id(self), record.base, *place

    def _index(self, name: str) -> int:
        try:
            return self._indexes[name]
        except KeyError:
            advice = self._advice(name)
            message = f"File does not contain tensor {name}{advice}"
            raise NotFoundError(message, record=name) from None

    def _advice(self, name: str) -> str:
        """What may have been meant; not for callers who try name after name."""
        self._n_missed += 1
        if self._n_missed > _MAX_SEARCHES or not isinstance(name, str):
            return ""
        return advice_for_name(name, self.names())

    def allocate(self, names: Iterable[str], make: Make[_Memory]) -> list[_Memory]:
        """Memory for whole tensors that one call reads, after the limits were asked."""
        return self._reader.allocate([(self._index(name), None) for name in names], make)

    def decoder_of(self, name: str, device: torch.device | None) -> DeviceMemory | None:
        """The device that decodes a tensor which goes to ``device``; None: the host does."""
        return self._reader.decoder(self._index(name), device)

    def check_bytes(self, names: Iterable[str]) -> None:
        """Raises LimitExceededError where these are more than one call may decode."""
        self._reader.check_sizes([(self._index(name), None) for name in names])

    def read_into(self, name: str, address: int, n_bytes: int) -> None:
        """Decodes one tensor, contiguous, into memory."""
        self._reader.read([(self._index(name), address, n_bytes)], None)

    def read_all_into(
        self,
        targets: Iterable[tuple[str, int, int]],
        progress: Progress | None,
        device: torch.device | None = None,
    ) -> None:
        """Decodes tensors into memory: (name, address, bytes) each.

        ``device``: where the memory is, which must be able to decode; None: on the host.
        """
        requests = [(self._index(name), address, n_bytes) for name, address, n_bytes in targets]
        if device is None:
            self._reader.read(requests, progress)
            return
        total_bytes = sum(n_bytes for _, _, n_bytes in requests)
        done_bytes = 0
        for group in self._reader.by_file(requests):
            told = shift(progress, done_bytes, total_bytes)
            self._reader.read(group, told, self._reader.decoder(group[0][0], device))
            done_bytes += sum(n_bytes for _, _, n_bytes in group)

    def start_reading(
        self, batches: Sequence[Sequence[tuple[str, int, int]]], owner: object
    ) -> _native.BackgroundRead:
        """Begins to decode batches of tensors into memory that ``owner`` keeps alive, on the host.

        Each tensor is (name, address, bytes).
        """
        return self._reader.start(
            [[(self._index(name), at, n_bytes) for name, at, n_bytes in b] for b in batches], owner
        )

    def load_box(
        self,
        name: str,
        starts: Sequence[int],
        stops: Sequence[int],
        framework: Framework[TensorT],
        device: torch.device | None,
    ) -> TensorT:
        """The box of a tensor that begins at ``starts`` and ends before ``stops``."""
        index = self._index(name)
        shape = [stop - start for start, stop in zip(starts, stops, strict=True)]
        decoder = self._reader.decoder(index, device)
        [(memory, address, n_bytes)] = self._reader.allocate(
            [(index, shape)], memory_of(decoder or framework)
        )
        self._reader.read_box((index, address, n_bytes, starts, stops), decoder)
        box = framework.finish(memory, self._reader.records[index].dtype, shape)
        if device is None or decoder is not None:
            return box
        return framework.to_device(box, device)

    def load_one(
        self,
        name: str,
        framework: Framework[TensorT],
        device: torch.device | None = None,
        out: TensorT | None = None,
    ) -> TensorT:
        """One tensor; into ``out``, if given."""
        index = self._index(name)
        record = self._reader.records[index]
        if out is not None:
            target = framework.target(out, record.dtype, record.shape, name)
            if target is not None:
                self.read_into(name, target, record.decoded_bytes)
                framework.wrote(out)
                return out
            device = framework.device_of(out)
        if device is not None:
            framework.reach_device(device)
        decoder = self._reader.decoder(index, device)
        if decoder is not None and out is not None and decoder.takes_in_place(out):
            request = (index, framework.address(out), record.decoded_bytes)
            self._reader.read([request], None, decoder)
            framework.wrote(out)
            return out
        [(memory, address, n_bytes)] = self.allocate([name], memory_of(decoder or framework))
        self._reader.read([(index, address, n_bytes)], None, decoder)
        tensor = framework.finish(memory, record.dtype, record.shape)
        if out is not None:
            framework.copy(out, tensor)
            return out
        if device is None or decoder is not None:
            return tensor
        return framework.to_device(tensor, device)

    def load(
        self,
        names: Iterable[str],
        framework: Framework[TensorT],
        device: torch.device | None = None,
        progress: Progress | None = None,
    ) -> dict[str, TensorT]:
        """Several tensors, tied where the file ties them. ``device`` None: the host."""
        wanted = [(name, self._index(name)) for name in names]
        return Loading(self._reader, framework, device, progress).run(wanted)

    def load_all(
        self,
        framework: Framework[TensorT],
        device: torch.device | None = None,
        progress: Progress | None = None,
    ) -> dict[str, TensorT]:
        """All tensors in file order."""
        return self.load(self._indexes, framework, device, progress)

    def bytes_to_load(self, names: Iterable[str]) -> int:
        """The bytes that load() of these names decodes, the total of its progress."""
        return bytes_to_decode(self._reader, [self._index(name) for name in names])
