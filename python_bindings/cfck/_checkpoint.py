"""Files and sharded folders, opened for reading."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _native
from ._folders import find_in_folder
from ._framework import Framework, Progress, row_major
from ._options import check_limits
from .errors import (
    CfckError,
    CorruptError,
    InvalidArgumentError,
    IoError,
    LimitExceededError,
    MissingFileError,
    NotFoundError,
    TruncatedError,
    UnsupportedError,
)

# Is in a folder while cfck-convert --force replaces its files one by one, and after it was
# interrupted in that (model/replace_folder.hpp).
_UNFINISHED_MARK = ".cfck-convert-unfinished"
_MAX_OPEN_ATTEMPTS = 5
_MAX_INDEX_BYTES = 64 << 20
_MAX_SAFETENSORS_HEADER = 100_000_000  # bytes that safetensors allows
_LONGEST_PATH = 4096  # of Linux
# What is decoded into host memory at once, on its way to another device.
_STAGED_BYTES = 256 << 20


def native_path(filename: Any) -> bytes:
    path = os.fsencode(filename)
    if b"\0" in path:
        if len(path) > _LONGEST_PATH:
            raise InvalidArgumentError(
                f"{len(path)} bytes are no path; the contents of a file go to load()"
            )
        raise InvalidArgumentError(f"{filename!r} contains a null byte")
    return path


class _Part:
    """One file, opened, with its records."""

    def __init__(self, file: _native.File | _native.SafetensorsFile) -> None:
        self.file = file
        self.records = file.records()
        self.metadata = file.metadata()


class Checkpoint:
    """The tensors of one file, of one byte string, or of a folder of shards.

    Thread-safe. ``options`` are threads, verify, max_decoded_bytes and limits, as in load_file.
    """

    def __init__(self, parts: Sequence[_Part], shards: Mapping[str, _Part] | None = None) -> None:
        self._parts = list(parts)
        self._limits: dict[str, int] = {}
        self._places: dict[str, tuple[_Part, int]] = {}
        for part in self._parts:
            for index, record in enumerate(part.records):
                if not record.hidden and (shards is None or shards.get(record.name) is part):
                    self._places[record.name] = part, index

    @classmethod
    def open(cls, filename: Any, backend: str = "pread", **options: Any) -> Checkpoint:
        if backend not in ("pread", "mmap"):
            raise InvalidArgumentError(f"backend {backend} is invalid; it may be pread or mmap")
        path = os.fsdecode(filename)
        options["map"] = backend == "mmap"
        options["limits"] = check_limits(options.get("limits"))
        if os.path.isdir(path):
            _check_unmarked(path)
            path = find_in_folder(path)
        if not path.endswith(".json"):
            return cls([_open_part(path, options)])._limited(options)
        for _ in range(_MAX_OPEN_ATTEMPTS):
            before = _folder_state(path)
            try:
                checkpoint = cls._open_shards(path, options)
                _check_unmarked(os.path.dirname(path))
            except CfckError:
                if _folder_state(path) == before:
                    raise
                continue
            if _folder_state(path) == before:
                return checkpoint
        raise IoError(f"{path} was replaced again and again while it was read; try again")

    @classmethod
    def from_bytes(cls, data: Any, **options: Any) -> Checkpoint:
        try:
            view = np.frombuffer(data, np.uint8)
        except (TypeError, ValueError) as error:
            raise TypeError(f"expected bytes, not {type(data).__name__}: {error}") from None
        options["limits"] = check_limits(options.get("limits"))
        memory = view, view.ctypes.data, view.nbytes
        try:
            return cls([_Part(_native.File.open_memory(*memory, **options))])._limited(options)
        except (CorruptError, TruncatedError) as error:
            head = view[:64].tobytes()
            _explain_other_format(head, "these bytes are", error)
            if not _is_safetensors(head):
                raise
        options = _for_safetensors(options)
        return cls([_Part(_native.SafetensorsFile.open_memory(*memory, **options))])

    def _limited(self, options: Mapping[str, Any]) -> Checkpoint:
        self._limits = options["limits"]
        return self

    @classmethod
    def _open_shards(cls, index_path: str, options: dict[str, Any]) -> Checkpoint:
        _check_unmarked(os.path.dirname(index_path))
        weight_map = _read_index(
            index_path, options["limits"].get("max_index_bytes", _MAX_INDEX_BYTES)
        )
        folder = os.path.dirname(index_path)
        parts = {
            shard: _open_part(os.path.join(folder, shard), options)
            for shard in dict.fromkeys(weight_map.values())
        }
        shards = {name: parts[shard] for name, shard in weight_map.items()}
        checkpoint = cls(list(parts.values()), shards)
        for name, shard in weight_map.items():
            if name not in checkpoint._places:
                raise CorruptError(
                    f"{index_path}: tensor `{name}` should be in {shard}, but is not", record=name
                )
        return checkpoint._limited(options)

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

    def record(self, name: str) -> _native.Record:
        part, index = self._find(name)
        return part.records[index]

    def base(self, name: str) -> _native.Record | None:
        """The record whose stored bytes an alias or a duplicate uses."""
        part, index = self._find(name)
        record = part.records[index]
        shares = record.kind in (_native.RecordKind.ALIAS, _native.RecordKind.DUPLICATE)
        return part.records[record.base] if shares else None

    def source(self, name: str) -> tuple[Any, ...]:
        """Equal for names that are the same elements of one file."""
        part, index = self._find(name)
        record = part.records[index]
        if record.kind != _native.RecordKind.ALIAS:
            return id(part), index, 0, tuple(record.shape), row_major(record.shape)
        place = record.element_offset, tuple(record.shape), tuple(record.strides)
        return id(part), record.base, *place

    def _find(self, name: str) -> tuple[_Part, int]:
        try:
            return self._places[name]
        except KeyError:
            raise NotFoundError(f"File does not contain tensor {name}", record=name) from None

    def read_into(self, name: str, address: int, n_bytes: int) -> None:
        """Decodes one tensor, contiguous, into memory."""
        part, index = self._find(name)
        part.file.read_many([(index, address, n_bytes)], None)

    def read_all_into(
        self, targets: Iterable[tuple[str, int, int]], progress: Progress | None
    ) -> None:
        """Decodes tensors into memory: (name, address, bytes) each."""
        by_part: dict[int, tuple[_Part, list[tuple[int, int, int]]]] = {}
        for name, address, n_bytes in targets:
            part, index = self._find(name)
            by_part.setdefault(id(part), (part, []))[1].append((index, address, n_bytes))
        total_bytes = sum(n for _, requests in by_part.values() for _, _, n in requests)
        done_bytes = 0
        for part, requests in by_part.values():
            part.file.read_many(requests, shift(progress, done_bytes, total_bytes))
            done_bytes += sum(n_bytes for _, _, n_bytes in requests)

    def read_slice_into(
        self, name: str, starts: Sequence[int], stops: Sequence[int], address: int, n_bytes: int
    ) -> None:
        part, index = self._find(name)
        part.file.read_slice(index, starts, stops, address, n_bytes)

    def check_size(self, name: str, shape: Sequence[int]) -> None:
        """LimitExceededError for a box of a tensor that is larger than one call may return.

        To be called before there is memory for it: a small file may claim a huge tensor.
        """
        part, index = self._find(name)
        record = part.records[index]
        n_elems, whole = math.prod(shape), max(1, math.prod(record.shape))
        n_bytes = -(-record.decoded_bytes * n_elems // whole)
        part.file.check_sizes([(index, n_bytes)])

    def load_one(self, name: str, framework: Framework, device: Any, out: Any = None) -> Any:
        """One tensor; into ``out``, if given."""
        record = self.record(name)
        if out is not None:
            address = framework.target(out, record.dtype, record.shape, name)
            if address is not None:
                self.read_into(name, address, record.decoded_bytes)
                return out
        self.check_size(name, record.shape)
        if device is not None:
            framework.reach_device(device)
        memory, address, n_bytes = framework.allocate(record.dtype, record.shape)
        self.read_into(name, address, n_bytes)
        tensor = framework.finish(memory, record.dtype, record.shape)
        if out is not None:
            framework.copy(out, tensor)
            return out
        return tensor if device is None else framework.to_device(tensor, device)

    def load(
        self,
        names: Iterable[str],
        framework: Framework,
        device: Any = None,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Several tensors, tied where the file ties them. ``device`` None: the host."""
        wanted = [(name, *self._find(name)) for name in names]
        return _Loading(framework, device, progress).run(wanted)

    def bytes_to_load(self, names: Iterable[str]) -> int:
        """What load() of these names decodes, and reports as the total of its progress."""
        wanted = [(name, *self._find(name)) for name in names]
        storages = _storages(wanted, _sources(wanted))
        return sum(part.records[index].decoded_bytes for part, index in storages)


class _Loading:
    """One call of Checkpoint.load."""

    def __init__(self, framework: Framework, device: Any, progress: Progress | None) -> None:
        self.framework = framework
        self.device = device
        self.progress = progress
        self.done_bytes = 0
        self.total_bytes = 0
        self.loaded: dict[tuple[int, int], Any] = {}

    def run(self, wanted: list[tuple[str, _Part, int]]) -> dict[str, Any]:
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

    def _tied(self, part: _Part, index: int, base: Any) -> Any:
        record = part.records[index]
        view = self.framework.view(
            base, record.dtype, record.shape, record.strides, record.element_offset
        )
        if view is None:
            self._read([(part, index)])
            view = self.loaded[id(part), index]
        return view

    def _read(self, places: list[tuple[_Part, int]]) -> None:
        group: list[tuple[_Part, int]] = []
        group_bytes = 0
        for part, index in places:
            n_bytes = part.records[index].decoded_bytes
            other_file = group and group[0][0] is not part
            staged = self.device is not None and group_bytes + n_bytes > _STAGED_BYTES
            if group and (other_file or staged):
                self._read_group(group)
                group, group_bytes = [], 0
            group.append((part, index))
            group_bytes += n_bytes
        if group:
            self._read_group(group)

    def _read_group(self, group: list[tuple[_Part, int]]) -> None:
        part = group[0][0]
        requests = []
        memories = []
        part.file.check_sizes([(index, part.records[index].decoded_bytes) for _, index in group])
        for _, index in group:
            record = part.records[index]
            memory, address, n_bytes = self.framework.allocate(record.dtype, record.shape)
            memories.append(memory)
            requests.append((index, address, n_bytes))
        part.file.read_many(requests, shift(self.progress, self.done_bytes, self.total_bytes))
        self.done_bytes += sum(n_bytes for _, _, n_bytes in requests)
        for (_, index), memory in zip(group, memories, strict=True):
            record = part.records[index]
            tensor = self.framework.finish(memory, record.dtype, record.shape)
            if self.device is not None:
                tensor = self.framework.to_device(tensor, self.device)
            self.loaded[id(part), index] = tensor


def _sources(wanted: list[tuple[str, _Part, int]]) -> list[int]:
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


def _storages(wanted: list[tuple[str, _Part, int]], sources: list[int]) -> list[tuple[_Part, int]]:
    """What is to be decoded, each once."""
    storages: dict[tuple[int, int], tuple[_Part, int]] = {}
    for (_, part, _), source in zip(wanted, sources, strict=True):
        storages[id(part), source] = part, source
    return list(storages.values())


def shift(progress: Progress | None, before: int, total: int) -> Progress | None:
    """``progress`` for a part of a longer job."""
    if progress is None:
        return None
    return lambda done_bytes, _, name: progress(before + done_bytes, total, name)


def _open_part(path: str, options: dict[str, Any]) -> _Part:
    try:
        return _Part(_native.File.open_path(native_path(path), **options))
    except NotFoundError:
        raise MissingFileError(f"No such file or directory: {path}", filename=path) from None
    except (CorruptError, TruncatedError) as error:
        try:
            with open(path, "rb") as file:
                head = file.read(64)
        except OSError:
            raise error from None
        _explain_other_format(head, f"{path} is", error)
        if not _is_safetensors(head):
            raise
    options = _for_safetensors(options)
    return _Part(_native.SafetensorsFile.open_path(native_path(path), **options))


def _is_safetensors(head: bytes) -> bool:
    """By what a file begins with: the length of a header, and the header."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= _MAX_SAFETENSORS_HEADER


def _explain_other_format(head: bytes, what: str, cause: Exception) -> None:
    """Raises a better error for bytes of a format that people mistake for this one."""
    if head.startswith(b"PK\x03\x04"):
        form, instead = "a zip archive, perhaps of torch.save", "load it with torch.load"
    elif head.startswith(b"GGUF"):
        form, instead = "a GGUF file", "load it with gguf"
    elif head.startswith(b"\x89HDF"):
        form, instead = "an HDF5 file", "load it with h5py"
    else:
        return
    raise CorruptError(f"{what} {form}, not a cfck file: {instead}") from cause


def _folder_state(index_path: str) -> list[tuple[int, int] | None]:
    """Changes when the folder or the index in it is replaced."""
    state: list[tuple[int, int] | None] = []
    for path in (os.path.dirname(index_path) or ".", index_path):
        try:
            info = os.stat(path)
            state.append((info.st_dev, info.st_ino))
        except OSError:
            state.append(None)
    return state


def _check_unmarked(folder: str) -> None:
    if os.path.lexists(os.path.join(folder, _UNFINISHED_MARK)):
        raise CorruptError(
            f"{folder or '.'} may have files of two checkpoints: cfck-convert is replacing them, "
            "or was interrupted. Wait for it, or run the same conversion with --force again "
            f"(the mark is {_UNFINISHED_MARK})"
        )


def _for_safetensors(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for a file in which nothing but the header could be limited."""
    rest = dict(options)
    limits = rest.pop("limits")
    if "max_decoded_bytes" in limits:
        rest["max_decoded_bytes"] = limits["max_decoded_bytes"]
    return rest


def _read_index(path: str, max_bytes: int) -> dict[str, str]:
    """The map from tensor to shard, with names checked to stay in the folder."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise UnsupportedError(f"{path} is not a regular file")
        n_bytes = os.path.getsize(path)
        if n_bytes > max_bytes:
            raise LimitExceededError(
                f"{path} has {n_bytes} bytes, more than the {max_bytes} allowed; "
                "raise the limit max_index_bytes to read it"
            )
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
    except FileNotFoundError:
        raise MissingFileError(f"No such file or directory: {path}", filename=path) from None
    except OSError as error:
        raise IoError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{path} is not valid JSON: {error}") from None
    weight_map = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(weight_map, Mapping):
        raise CorruptError(f'{path} has no "weight_map" from tensors to files')
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _stays_in_folder(shard):
            raise CorruptError(
                f"{path}: tensor `{name}` is in {shard!r}, which is not a file of this folder",
                record=name,
            )
    return dict(weight_map)


def _stays_in_folder(shard: str) -> bool:
    parts = shard.replace("\\", "/").split("/")
    return all(part not in ("", ".", "..") for part in parts) and "\0" not in shard
