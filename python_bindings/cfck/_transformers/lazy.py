"""Tensors of a file that are decoded when transformers asks for their values."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._frameworks.torch_tensors import TorchFramework, dtype_of, torch_shape
from .._io.archive import Archive
from .._io.slices import Index, TensorSlice
from .._native import BackgroundRead, RecordKind, default_thread_count

_FRAMEWORK = TorchFramework()
# At most this much is decoded before it is asked for.
_AHEAD_BYTES = 256 << 20
# Whoever asks for a tensor waits until so much is decoded, and not for all.
_BATCH_BYTES = 16 << 20
_ALIGNMENT = 64


# Weights of which some may be decoded when the interpreter ends, and its memory with it.
_started: weakref.WeakSet[Weights] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for weights in list(_started):
        weights.stop()


class Weights:
    """The tensors of a file, an index or a folder.

    The first ones, up to 256 MiB, are decoded in a thread while transformers makes the model; all
    others when they are asked for.

    Attributes:
        path: what was opened.
        archive: it, open.
        was_read: whether they were asked for.
        n_decoded: how many tensors were asked for their values.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        # One thread is busy with the model while these decode.
        self.archive = Archive.open(path, {"threads": max(1, default_thread_count() - 1)})
        self._late = self.archive
        self.was_read = False
        self.n_decoded = 0
        self._ahead: dict[str, tuple[int, torch.Tensor]] = {}
        self._reading: BackgroundRead | None = None

    def start(self) -> Weights:
        """Begins to decode, and returns itself."""
        names: list[str] = []
        sizes: list[int] = []
        left_bytes = _AHEAD_BYTES
        for name in self.archive.names():
            record = self.archive.record(name)
            left_bytes -= record.decoded_bytes
            if left_bytes < 0:
                self._late = Archive.open(self.path, {})
                break
            # Tensors that share memory in the file are decoded apart: models may change one.
            if record.kind != RecordKind.ALIAS:
                names.append(name)
                sizes.append(record.decoded_bytes)
        self.archive.check_bytes(names)
        memory = _memory(sizes)
        batches: list[list[tuple[str, int, int]]] = []
        left_bytes = 0
        for name, values, n_bytes in zip(names, memory, sizes, strict=True):
            if left_bytes <= 0:
                batches.append([])
                left_bytes = _BATCH_BYTES
            left_bytes -= n_bytes
            batches[-1].append((name, values.data_ptr(), n_bytes))
            self._ahead[name] = len(batches) - 1, values
        self._reading = self.archive.start_reading(batches, memory)
        _started.add(self)
        return self

    def take(self, name: str) -> torch.Tensor:
        """The values of a tensor, in memory of its own."""
        self.n_decoded += 1
        batch, values = self._ahead.pop(name, (0, None))
        # Tensors of a batch that is damaged are decoded one by one: each has its own error.
        if values is None or self._reading is None or not self._reading.wait(batch):
            return self._late.load_one(name, _FRAMEWORK)
        record = self.archive.record(name)
        return values.view(dtype_of(record.dtype)).reshape(torch_shape(record.dtype, record.shape))

    def stop(self) -> None:
        """Decodes nothing more ahead."""
        if self._reading is not None:
            self._reading.stop()

    def lazy(self) -> dict[str, LazyTensor]:
        """All tensors, which decode themselves when their values are asked for."""
        return {name: LazyTensor(self, name) for name in self.archive.names()}

    def on_meta(self) -> dict[str, torch.Tensor]:
        """All tensors on the device meta: shapes and dtypes without values."""
        return {name: tensor.on_meta() for name, tensor in self.lazy().items()}

    def decoded(self) -> dict[str, torch.Tensor]:
        """All tensors on the host."""
        return {name: self.take(name) for name in self.archive.names()}


def _memory(sizes: list[int]) -> list[torch.Tensor]:
    """Tensors of bytes in one piece of memory, so that it is made of huge pages.

    Each has a storage of its own. Page by page the system takes longer than decoding does.
    """
    rounded = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
    # numpy asks for huge pages.
    whole = np.empty(sum(rounded) + _ALIGNMENT, np.uint8)
    begin = -whole.ctypes.data % _ALIGNMENT
    tensors = []
    for size, step in zip(sizes, rounded, strict=True):
        tensors.append(torch.from_numpy(whole[begin : begin + size]))
        begin += step
    return tensors


class LazyTensor:
    """A tensor of a file, which stands for its values wherever a tensor is expected.

    ``lazy[...]`` decodes it, as a slice of safetensors is read. So does whatever else needs values:
    methods of tensors, and functions of PyTorch. Nothing that was decoded is kept. May be used by
    several threads.
    """

    def __init__(self, weights: Weights, name: str) -> None:
        self._weights = weights
        self._name = name
        self._slice = TensorSlice(weights.archive, name, _FRAMEWORK, None)
        record = weights.archive.record(name)
        self.dtype: torch.dtype = dtype_of(record.dtype)
        self.shape = torch.Size(torch_shape(record.dtype, record.shape))

    def get_shape(self) -> list[int]:
        """As that of a slice of safetensors."""
        return self._slice.get_shape()

    def get_dtype(self) -> str:
        """As that of a slice of safetensors."""
        return self._slice.get_dtype()

    def is_floating_point(self) -> bool:
        """As that of a tensor, without decoding it."""
        return self.dtype.is_floating_point

    def on_meta(self) -> torch.Tensor:
        """The same tensor without values."""
        return torch.empty(self.shape, dtype=self.dtype, device="meta")

    def __getitem__(self, index: Index) -> torch.Tensor:
        if index is Ellipsis:
            return self._weights.take(self._name)
        self._weights.n_decoded += 1
        return self._slice[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self[...], name)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return function(*map(_value, args), **{k: _value(v) for k, v in (kwargs or {}).items()})


def _value(given: Any) -> Any:
    """Decoded tensors in place of those that are not, also in lists."""
    if isinstance(given, LazyTensor):
        return given[...]
    if type(given) in (list, tuple):
        return type(given)(map(_value, given))
    return given
