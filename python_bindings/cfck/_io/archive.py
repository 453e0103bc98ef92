"""Files and folders of shards, opened for reading."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _native
from .._common.progress import Progress
from .._frameworks.framework import Framework, TensorT, row_major
from .._options.kinds import OpenOptions, ReadOptions
from .._options.signatures import complete
from ..errors import CfckError, CorruptError, IoError, LimitExceededError, NotFoundError
from .folders import find_in_folder, read_index, watch
from .loading import Loading, Wanted, bytes_to_decode, shift
from .on_device import DeviceMemory
from .parts import Make, Part, Reading, allocate, memory_of

if TYPE_CHECKING:
    import torch

_MAX_OPEN_ATTEMPTS = 5

_Memory = TypeVar("_Memory")


def _base_of(part: Part, index: int) -> int:
    """The record that has the memory of a tensor."""
    record = part.records[index]
    return record.base if record.kind == _native.RecordKind.ALIAS else index


class Archive:
    """The tensors of one file, of one byte string, or of a folder of shards. Thread-safe."""

    def __init__(
        self,
        parts: Sequence[Part],
        limits: Mapping[str, int],
        decode: str,
        shards: Mapping[str, Part] | None = None,
    ) -> None:
        self._parts = list(parts)
        self._limits = limits
        self._decode = decode
        self._places: dict[str, tuple[Part, int]] = {}
        for part in self._parts:
            for index, record in enumerate(part.records):
                if not record.hidden and (shards is None or shards.get(record.name) is part):
                    self._places[record.name] = part, index

    @classmethod
    def open(cls, filename: str | os.PathLike[str], options: OpenOptions) -> Archive:
        reading = Reading.of(complete(OpenOptions, options))
        path = os.fsdecode(filename)
        if os.path.isdir(path):
            path = find_in_folder(path)
        if not path.endswith(".json"):
            return cls([Part.open_path(path, reading)], reading.limits, reading.decode)
        for _ in range(_MAX_OPEN_ATTEMPTS):
            folder = watch(path)
            try:
                archive = cls._open_shards(path, reading)
                folder.check()
                return archive
            except CfckError:
                if not folder.changed():
                    raise
        raise IoError(f"{path} was replaced repeatedly while it was read; try again")

    @classmethod
    def from_bytes(
        cls, data: object, options: ReadOptions, target: torch.device | None = None
    ) -> Archive:
        """``target``: where tensors go, so that bytes which are there already may stay."""
        reading = Reading.of(complete(ReadOptions, options))
        return cls([Part.open_bytes(data, reading, target)], reading.limits, reading.decode)

    @classmethod
    def _open_shards(cls, index_path: str, reading: Reading) -> Archive:
        folder = os.path.dirname(index_path)
        weight_map = read_index(index_path, reading.limits.get("max_index_bytes"))
        parts = {
            shard: Part.open_path(os.path.join(folder, shard), reading)
            for shard in dict.fromkeys(weight_map.values())
        }
        shards = {name: parts[shard] for name, shard in weight_map.items()}
        archive = cls(list(parts.values()), reading.limits, reading.decode, shards)
        archive._add_tied(weight_map)
        for name, shard in weight_map.items():
            if name not in archive._places:
                raise CorruptError(
                    f"{index_path}: tensor `{name}` should be in {shard}, but is not", record=name
                )
        return archive

    def _add_tied(self, weight_map: Mapping[str, str]) -> None:
        """Adds names that the index does not have, but that are tied to tensors which it has."""
        bases = {(id(part), _base_of(part, index)) for part, index in self._places.values()}
        for part in self._parts:
            for index, record in enumerate(part.records):
                if record.hidden or record.name in weight_map or record.name in self._places:
                    continue
                if (id(part), _base_of(part, index)) in bases:
                    self._places[record.name] = part, index

    def names(self) -> list[str]:
        """Names of all tensors in file order."""
        return list(self._places)

    def metadata(self) -> dict[str, str]:
        """User metadata; of shards, the first one that has a key counts."""
        merged: dict[str, str] = {}
        for part in self._parts:
            merged = {**part.metadata, **merged}
        return merged

    def attachment(self, name: str, max_bytes: int) -> bytes | None:
        """A named byte string; of shards, the first one that has it. None if there is none.

        ``max_bytes`` is the most that it may have, unless the limits say otherwise.
        """
        max_bytes = self._limits.get("max_attachment_bytes", max_bytes)
        for part in self._parts:
            n_bytes = part.file.attachments().get(name)
            if n_bytes is None:
                continue
            if n_bytes > max_bytes:
                raise LimitExceededError(
                    f"attachment `{name}` has {n_bytes} bytes, more than the {max_bytes} allowed; "
                    "raise the limit max_attachment_bytes to read it"
                )
            return part.file.attachment(name)
        return None

    def shards_with(self, attachment: str) -> int:
        """The number of files that have a named byte string."""
        return sum(attachment in part.file.attachments() for part in self._parts)

    def record(self, name: str) -> _native.Record:
        part, index = self._find(name)
        return part.records[index]

    def base(self, name: str) -> _native.Record | None:
        """The record whose stored bytes an alias or a duplicate uses."""
        part, index = self._find(name)
        record = part.records[index]
        shares = record.kind in (_native.RecordKind.ALIAS, _native.RecordKind.DUPLICATE)
        return part.records[record.base] if shares else None

    def is_chunked(self, name: str) -> bool:
        """Whether a tensor is decoded by whole chunks; other formats are read from any place."""
        return self._find(name)[0].file.format == "cfck"

    def source(self, name: str) -> tuple[Any, ...]:
        """Equal for names that are the same elements of one file."""
        part, index = self._find(name)
        record = part.records[index]
        if record.kind != _native.RecordKind.ALIAS:
            return id(part), index, 0, tuple(record.shape), row_major(record.shape)
        place = record.element_offset, tuple(record.shape), tuple(record.strides)
        return id(part), record.base, *place

    def _find(self, name: str) -> tuple[Part, int]:
        try:
            return self._places[name]
        except KeyError:
            raise NotFoundError(f"File does not contain tensor {name}", record=name) from None

    def _wanted(self, names: Iterable[str]) -> list[Wanted]:
        return [(name, *self._find(name)) for name in names]

    def allocate(self, names: Iterable[str], make: Make[_Memory]) -> list[_Memory]:
        """Memory for whole tensors that one call reads, after the limits were asked."""
        return allocate([(*self._find(name), None) for name in names], make)

    def read_into(self, name: str, address: int, n_bytes: int) -> None:
        """Decodes one tensor, contiguous, into memory."""
        part, index = self._find(name)
        part.read_many([(index, address, n_bytes)], None)

    def read_all_into(
        self,
        targets: Iterable[tuple[str, int, int]],
        progress: Progress | None,
        device: torch.device | None = None,
    ) -> None:
        """Decodes tensors into memory: (name, address, bytes) each.

        ``device``: where the memory is, which must be able to decode; None: on the host.
        """
        by_part: dict[int, tuple[Part, list[tuple[int, int, int]]]] = {}
        for name, address, n_bytes in targets:
            part, index = self._find(name)
            by_part.setdefault(id(part), (part, []))[1].append((index, address, n_bytes))
        total_bytes = sum(n for _, requests in by_part.values() for _, _, n in requests)
        done_bytes = 0
        for part, requests in by_part.values():
            told = shift(progress, done_bytes, total_bytes)
            decoder = part.decoder(device, self._decode) if device else None
            if decoder is None:
                part.read_many(requests, told)
            else:
                part.read_on_device(decoder, [(*request, (), ()) for request in requests], told)
            done_bytes += sum(n_bytes for _, _, n_bytes in requests)

    def decoder_of(self, name: str, device: torch.device | None) -> DeviceMemory | None:
        """The device that decodes a tensor which goes to ``device``; None: the host does."""
        return self._find(name)[0].decoder(device, self._decode)

    def load_box(
        self,
        name: str,
        starts: Sequence[int],
        stops: Sequence[int],
        framework: Framework[TensorT],
        device: torch.device | None,
    ) -> TensorT:
        """The box of a tensor that begins at ``starts`` and ends before ``stops``."""
        part, index = self._find(name)
        shape = [stop - start for start, stop in zip(starts, stops, strict=True)]
        decoder = part.decoder(device, self._decode)
        [(memory, address, n_bytes)] = allocate(
            [(part, index, shape)], memory_of(decoder or framework)
        )
        if decoder is None:
            part.read_slice(index, starts, stops, address, n_bytes)
        else:
            request = (index, address, n_bytes, starts, stops)
            part.read_on_device(decoder, [request], None)
        box = framework.finish(memory, part.records[index].dtype, shape)
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
        part, index = self._find(name)
        record = part.records[index]
        if out is not None:
            target = framework.target(out, record.dtype, record.shape, name)
            if target is not None:
                self.read_into(name, target, record.decoded_bytes)
                return out
            device = framework.device_of(out)
        if device is not None:
            framework.reach_device(device)
        decoder = part.decoder(device, self._decode)
        if decoder is not None and out is not None and decoder.takes_in_place(out):
            request = (index, framework.address(out), record.decoded_bytes, (), ())
            part.read_on_device(decoder, [request], None)
            return out
        [(memory, address, n_bytes)] = self.allocate([name], memory_of(decoder or framework))
        if decoder is None:
            self.read_into(name, address, n_bytes)
        else:
            part.read_on_device(decoder, [(index, address, n_bytes, (), ())], None)
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
        return Loading(framework, device, progress, self._decode).run(self._wanted(names))

    def load_all(
        self,
        framework: Framework[TensorT],
        device: torch.device | None = None,
        progress: Progress | None = None,
    ) -> dict[str, TensorT]:
        """All tensors in file order."""
        return self.load(self._places, framework, device, progress)

    def bytes_to_load(self, names: Iterable[str]) -> int:
        """The bytes that load() of these names decodes, the total of its progress."""
        return bytes_to_decode(self._wanted(names))
