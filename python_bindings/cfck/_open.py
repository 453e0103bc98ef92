"""Lazy access to the tensors of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ._checkpoint import Checkpoint
from ._framework import Framework, find_framework
from ._options import check_threads
from ._records import RecordInfo, record_info
from .errors import CfckError, InvalidArgumentError, OutOfBoundsError


class safe_open:
    """Opens a file, and reads tensors from it when asked for; as safetensors.safe_open.

    Args:
        filename: a .cfck file, a safetensors file, a folder with either, or the index of a
            folder of shards (model.cfck.index.json, model.safetensors.index.json). What a file is
            is seen by its contents. In a folder, names that model libraries use come first
            (model, pytorch_model, diffusion_pytorch_model, adapter_model, ...), then the same
            with a variant (model.fp16.safetensors), then any other; of one name, .cfck before
            .safetensors, and the index of shards before a single file. Where that leaves
            several, InvalidArgumentError names them.
        framework: "pt" for torch, "np" or "numpy".
        device: where torch tensors go, None: the host; they are decoded there and copied.
        backend: "pread" reads private copies; "mmap" maps the file, which kills the process
            if another one truncates it meanwhile.
        threads: worker threads of each read; 0: the CPUs this process may use.
        verify: check the hash of every chunk that is read; safetensors files have none.
        max_decoded_bytes: the most one call may decode; 0: max(16 GiB, 64 times the file).
        limits: raises or lowers what the file may make this call hold in memory, by name: a dict
            of "max_decoded_bytes", "max_attachment_bytes", "max_index_bytes",
            "max_metadata_bytes", "max_records"; numbers, or sizes as "60MB". See docs/limits.md.

    Opening reads the index alone. All methods may be called from several threads, and in forked
    children.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), CorruptError, TruncatedError,
            ChecksumError, UnsupportedError, LimitExceededError, IoError (an OSError).
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: Any = "cpu",
        *,
        backend: str = "pread",
        threads: int = 0,
        verify: bool = True,
        max_decoded_bytes: int = 0,
        limits: Mapping[str, int | str] | None = None,
    ) -> None:
        self._framework = find_framework(framework)
        self._device = self._framework.check_device(device)
        self._checkpoint: Checkpoint | None = Checkpoint.open(
            filename,
            backend,
            threads=check_threads(threads),
            verify=verify,
            max_decoded_bytes=max_decoded_bytes,
            limits=limits,
        )

    def __enter__(self) -> safe_open:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._checkpoint = None

    def _opened(self) -> Checkpoint:
        if self._checkpoint is None:
            raise CfckError("File is not open")
        return self._checkpoint

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return sorted(self._opened().names())

    def offset_keys(self) -> list[str]:
        """Names of the tensors, in the order in which they were saved."""
        return self._opened().names()

    def metadata(self) -> dict[str, str] | None:
        """What was saved as metadata; None if that was nothing."""
        return self._opened().metadata() or None

    def get_record(self, name: str) -> RecordInfo:
        """What the file says about a tensor: shape, codec, bytes, errors. Decodes nothing.

        Raises:
            NotFoundError: there is no tensor of that name.
        """
        checkpoint = self._opened()
        return record_info(checkpoint.record(name), checkpoint.base(name))

    def records(self) -> list[RecordInfo]:
        """get_record() of all tensors, in the order in which they were saved."""
        return [self.get_record(name) for name in self.offset_keys()]

    def get_tensor(self, name: str, *, out: Any = None) -> Any:
        """One tensor, in memory of its own.

        Args:
            name: one of keys().
            out: a tensor of the same dtype and shape, to be filled and returned. Contiguous
                memory of the host is filled in place, other memory by a copy.

        Raises:
            CfckError: NotFoundError; InvalidArgumentError if ``out`` does not fit; ChecksumError
                and CorruptError for damage. After an error ``out`` is unspecified.
        """
        return self._opened().load_one(name, self._framework, self._device, out)

    def get_tensors(self) -> dict[str, Any]:
        """All tensors, in the order in which they were saved, tied where they were tied."""
        checkpoint = self._opened()
        return checkpoint.load(checkpoint.names(), self._framework, self._device)

    def get_slice(self, name: str) -> TensorSlice:
        """A tensor to be indexed: only the chunks an index touches are decoded."""
        checkpoint = self._opened()
        checkpoint.record(name)
        return TensorSlice(checkpoint, name, self._framework, self._device)


class TensorSlice:
    """A tensor that is read by parts: ``part = f.get_slice("w")[10:20, ..., ::2]``.

    Integers, slices with positive steps and one ellipsis decode only what lies between the first
    and the last element of each axis. Any other index of the framework (None, lists, masks) reads
    the whole tensor and indexes that.
    """

    def __init__(
        self, checkpoint: Checkpoint, name: str, framework: Framework, device: Any
    ) -> None:
        self._checkpoint = checkpoint
        self._name = name
        self._framework = framework
        self._device = device
        self._record = checkpoint.record(name)

    def get_shape(self) -> list[int]:
        """Dimensions of the whole tensor, in elements."""
        return list(self._record.shape)

    def get_dtype(self) -> str:
        """The dtype's name in safetensors: "F32", "BF16", ..."""
        return self._record.dtype

    def __getitem__(self, index: Any) -> Any:
        if self._device is not None:
            self._framework.reach_device(self._device)
        items = _full_index(index, self._name, len(self._record.shape))
        sub_byte = self._record.dtype in ("F4", "F6_E2M3", "F6_E3M2")
        if items is None or sub_byte or not items:
            whole = self._checkpoint.load_one(self._name, self._framework, None)
            part = whole[index]
        else:
            part = self._read_box(items)
        if not hasattr(part, "shape") or self._device is None:
            return part
        return self._framework.to_device(part, self._device)

    def _read_box(self, items: list[Any]) -> Any:
        starts: list[int] = []
        stops: list[int] = []
        rest: list[int | slice] = []
        for axis, (item, size) in enumerate(zip(items, self._record.shape, strict=True)):
            if not isinstance(item, slice):
                position = item + size if item < 0 else item
                if not 0 <= position < size:
                    raise OutOfBoundsError(
                        f"index {item} is out of bounds for dimension {axis} with size {size}",
                        record=self._name,
                    )
                starts.append(position)
                stops.append(position + 1)
                rest.append(0)
                continue
            start, stop, step = item.indices(size)
            if step < 0:
                raise InvalidArgumentError("step must be greater than zero", record=self._name)
            starts.append(start)
            stops.append(max(start, stop))
            rest.append(slice(None, None, step))
        shape = [stop - start for start, stop in zip(starts, stops, strict=True)]
        self._checkpoint.check_size(self._name, shape)
        memory, address, n_bytes = self._framework.allocate(self._record.dtype, shape)
        self._checkpoint.read_slice_into(self._name, starts, stops, address, n_bytes)
        return self._framework.finish(memory, self._record.dtype, shape)[tuple(rest)]


def _is_integer(item: Any) -> bool:
    if isinstance(item, bool) or getattr(item, "ndim", False):
        return False
    return hasattr(item, "__index__") and not hasattr(item, "dim")


def _full_index(index: Any, name: str, n_dims: int) -> list[Any] | None:
    """One integer or slice for each dimension; None if the index has anything else."""
    items: list[Any] = []
    given = index if isinstance(index, tuple) else (index,)
    ellipses = 0
    for item in given:
        if item is Ellipsis:
            ellipses += 1
            items.extend([slice(None)] * (n_dims - len(given) + 1))
        elif isinstance(item, slice):
            items.append(item)
        elif _is_integer(item):
            items.append(item.__index__())
        else:
            return None
    if ellipses > 1:
        return None
    if len(items) > n_dims:
        raise OutOfBoundsError(f"too many indices for tensor of dimension {n_dims}", record=name)
    return items + [slice(None)] * (n_dims - len(items))
