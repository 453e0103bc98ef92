"""Single files, opened, of whichever format their contents are."""

from __future__ import annotations

import dataclasses
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from .. import _native
from .._common.callers import level_of_caller
from .._common.paths import native_path
from .._common.progress import Progress
from .._options.native import check_limits, check_threads
from ..errors import (
    DeviceError,
    InvalidArgumentError,
    IoError,
    MissingFileError,
    NotFoundError,
)
from .on_device import (
    DeviceMemory,
    DeviceRequest,
    decoding_device,
    device_of_bytes,
    read_on_device,
)

if TYPE_CHECKING:
    import torch

_Memory = TypeVar("_Memory")
_Owner = TypeVar("_Owner", covariant=True)


@dataclasses.dataclass(frozen=True)
class Reading:
    """How files are read: the options of a call, checked."""

    threads: int
    verify: bool
    max_decoded_bytes: int
    limits: dict[str, int]
    map: bool = False
    decode: str = "auto"
    only_tensors: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Reading:
        """``options``: the complete options of a call that reads."""
        threads = check_threads(options["threads"])
        backend = options.get("backend", "pread")
        if backend not in ("pread", "mmap"):
            raise InvalidArgumentError(f"backend {backend} is invalid; it may be pread or mmap")
        return cls(
            threads=threads,
            verify=options["verify"],
            max_decoded_bytes=options["max_decoded_bytes"],
            limits=check_limits(options["limits"]),
            map=backend == "mmap",
            decode=_check_decode(options["decode"]),
            only_tensors=_check_only_tensors(options.get("only_tensors", False)),
        )

    def native(self) -> dict[str, Any]:
        """The arguments of the extension module."""
        return {
            "threads": self.threads,
            "verify": self.verify,
            "max_decoded_bytes": self.max_decoded_bytes,
            "limits": self.limits,
        }


class LeftOutWarning(UserWarning):
    """A file has more than tensors, and ``only_tensors`` left that out."""


# Device, inode, bytes, and the times of the last change of contents and of status. Programs that
# copy set the first one back; nobody can set the second one.
_Stamp = tuple[int, int, int, int, int]
# The longest time for which the clock of a file system stands still.
_LONGEST_TICK_SECONDS = 0.02


def _stamp_of(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _wait_for_clock(stamp: _Stamp | None) -> None:
    """Waits until a change of the file would change its stamp."""
    end = time.monotonic() + _LONGEST_TICK_SECONDS
    while stamp is not None and stamp[-1] == _file_clock_ns() and time.monotonic() < end:
        time.sleep(0.001)


def _file_clock_ns() -> int:
    """The time that a file gets when it is written to now."""
    clock = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time_ns() if clock is None else time.clock_gettime_ns(clock)


# The index of a record, an address, and the bytes there.
Request = tuple[int, int, int]


class Part:
    """One file, opened, with its records."""

    def __init__(self, file: _native.File) -> None:
        self.file = file
        self.records = file.records()
        self.metadata = file.metadata()
        # Where nothing in the file would show that it was written to: its path and its stamp.
        self._unproven: tuple[str, _Stamp | None] | None = None

    @classmethod
    def open_path(cls, path: str, reading: Reading) -> Part:
        native = native_path(path)
        stamp = _stamp_of(path)
        try:
            part = cls(
                _native.File.open_path(
                    native,
                    map=reading.map,
                    only_tensors=reading.only_tensors,
                    **reading.native(),
                )
            )
        except NotFoundError:
            raise MissingFileError(f"No such file or directory: {path}", filename=path) from None
        if reading.only_tensors:
            for note in part.file.notes():
                warnings.warn(f"{path}: {note}", LeftOutWarning, stacklevel=level_of_caller())
        if part.file.format != "cfck" or not reading.verify:
            part._unproven = path, stamp
            _wait_for_clock(stamp)
        return part

    def read_many(self, requests: Sequence[Request], progress: Progress | None) -> None:
        """Decodes whole tensors into memory of the host: (index, address, bytes) each."""
        self.file.read_many(requests, progress)
        self.check_unchanged()

    def read_slice(
        self, index: int, starts: Sequence[int], stops: Sequence[int], address: int, n_bytes: int
    ) -> None:
        """Decodes the box of a tensor into memory of the host."""
        self.file.read_slice(index, starts, stops, address, n_bytes)
        self.check_unchanged()

    def decoder(self, device: torch.device | None, decode: str) -> DeviceMemory | None:
        """The device that decodes the tensors which go there; None: the host does."""
        return decoding_device(self.file.format, device, decode)

    def read_on_device(
        self, memory: DeviceMemory, requests: list[DeviceRequest], progress: Progress | None
    ) -> None:
        """Decodes boxes of tensors into memory of a device."""
        read_on_device(self.file, memory, requests, progress)
        self.check_unchanged()

    def check_unchanged(self) -> None:
        """Raises IoError where the file was written to and no hash of what was read says so.

        All reads ask afterwards. A file that another one has replaced is still open, and as it was.
        """
        if self._unproven is None:
            return
        path, before = self._unproven
        now = _stamp_of(path)
        if before is not None and now is not None and now[:2] == before[:2] and now != before:
            raise IoError(f"{path} was changed after it was opened; open it again")

    @classmethod
    def open_bytes(cls, data: Any, reading: Reading, target: torch.device | None = None) -> Part:
        """``target``: where tensors go. A tensor of bytes that is there already may stay."""
        if hasattr(data, "untyped_storage"):
            data = flat_bytes(data)
            device = device_of_bytes(data, target, reading.decode)
            if device is not None:
                device.wait()
                return cls(
                    _native.File.open_device(
                        data, device.number, data.data_ptr(), data.numel(), **reading.native()
                    )
                )
            data = data.cpu().numpy()
        try:
            view = np.frombuffer(data, np.uint8)
        except (TypeError, ValueError) as error:
            raise TypeError(f"expected bytes, not {type(data).__name__}: {error}") from None
        return cls(
            _native.File.open_memory(view, view.ctypes.data, view.nbytes, **reading.native())
        )


def flat_bytes(tensor: Any) -> Any:
    """The bytes in a torch.Tensor, contiguous."""
    import torch

    if tensor.dtype != torch.uint8 or tensor.dim() != 1:
        raise TypeError(
            "expected bytes, or a torch.Tensor of dtype torch.uint8 with one dimension, not of "
            f"{tensor.dtype} with {tensor.dim()} dimensions"
        )
    if tensor.is_meta:
        raise DeviceError("a tensor on the device meta has no bytes")
    return tensor.detach().contiguous()


# A part, the index of a record in it, and the shape of a box of that record; None: the whole one.
Box = tuple[Part, int, Sequence[int] | None]


# Takes memory for a box of this shape of this record.
Make = Callable[[_native.Record, Sequence[int]], _Memory]


def allocate(boxes: Iterable[Box], make: Make[_Memory]) -> list[_Memory]:
    """Memory for boxes that one call reads; every allocation for decoded values is made here.

    A small file may claim a huge tensor, so the limits are asked before any memory is taken:
    LimitExceededError where the boxes of one file are more than one call may return.
    """
    boxes = list(boxes)
    sizes: dict[int, tuple[Part, list[tuple[int, int]]]] = {}
    for part, index, shape in boxes:
        n_bytes = part.records[index].decoded_bytes
        if shape is not None:
            whole = max(1, math.prod(part.records[index].shape))
            n_bytes = -(-n_bytes * math.prod(shape) // whole)
        sizes.setdefault(id(part), (part, []))[1].append((index, n_bytes))
    for part, wanted in sizes.values():
        part.file.check_sizes(wanted)
    memories = []
    for part, index, shape in boxes:
        record = part.records[index]
        memories.append(make(record, record.shape if shape is None else shape))
    return memories


def _check_decode(decode: object) -> str:
    if decode not in ("auto", "device", "host"):
        raise InvalidArgumentError(f"decode {decode!r} is invalid; it may be auto, device or host")
    return str(decode)


def _check_only_tensors(only_tensors: object) -> bool:
    if not isinstance(only_tensors, bool):
        raise TypeError(f"only_tensors is a bool, not {type(only_tensors).__name__}")
    return only_tensors


class Allocator(Protocol[_Owner]):
    """A framework, or a device."""

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[_Owner, int, int]: ...


def memory_of(allocator: Allocator[_Owner]) -> Make[tuple[_Owner, int, int]]:
    """Takes the memory of tensors: its owner, its address, its bytes."""
    return lambda record, shape: allocator.allocate(record.dtype, shape)
