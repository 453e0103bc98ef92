"""Memory for decoded weights, which is used again."""

from __future__ import annotations

import math
import mmap
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import _native
from .._frameworks.torch_tensors import TorchFramework, dtype_of, torch_shape

# A weight in use, and the next one.
_MAX_BUFFERS = 2
# Smaller tensors are left to the allocator.
_FEWEST_BYTES = 1 << 16
# A buffer may be larger than what it is used for by this factor.
_MAX_SPARE = 8
_HUGE_PAGE_BYTES = 4 << 20


class Buffers(TorchFramework):
    """Host memory of tensors that are decoded one after the other.

    Memory from an allocator would either go back to the system with every weight, and to take it
    anew costs as much time as to decode; or stay, in pieces of as many sizes as there are weights.
    Here two buffers are kept, each as long as neither a tensor nor a view of it is left.
    """

    def __init__(self) -> None:
        self._idle: list[mmap.mmap] = []
        # Counts tensors. No lock: memory comes back in whatever the collector interrupts.
        self._lent: set[int] = set()

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[torch.Tensor, int, int]:
        torch_dtype, sizes = dtype_of(dtype), torch_shape(dtype, shape)
        n_bytes = math.prod(sizes) * torch_dtype.itemsize
        if n_bytes < _FEWEST_BYTES:
            return super().allocate(dtype, shape)
        try:
            mapping = self._take(n_bytes)
        except OSError:  # let the allocator say so
            return super().allocate(dtype, shape)
        array = np.frombuffer(mapping, np.uint8, n_bytes)
        self._lent.add(id(mapping))
        weakref.finalize(array, _give_back, weakref.ref(self), mapping).atexit = False
        tensor = torch.from_numpy(array)
        if isinstance(tensor, FakeTensor):
            return super().allocate(dtype, shape)
        return tensor.view(torch_dtype).reshape(sizes), array.ctypes.data, n_bytes

    def _take(self, n_bytes: int) -> mmap.mmap:
        for mapping in sorted(self._idle, key=len):
            if n_bytes <= len(mapping) <= _MAX_SPARE * n_bytes:
                try:
                    self._idle.remove(mapping)
                except ValueError:  # another thread was faster
                    continue
                return mapping
        self._idle.clear()
        # Private: a forked child must not write into the memory of its parent.
        mapping = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if n_bytes >= _HUGE_PAGE_BYTES:
            address = np.frombuffer(mapping, np.uint8).ctypes.data
            _native.advise_huge_pages(address, n_bytes)
        return mapping

    def give_back(self, mapping: mmap.mmap) -> None:
        """Takes the memory of a tensor that is gone."""
        self._lent.discard(id(mapping))
        if len(self._lent) + len(self._idle) < _MAX_BUFFERS:
            self._idle.append(mapping)


def _give_back(owner: weakref.ref[Buffers], mapping: mmap.mmap) -> None:
    buffers = owner()
    if buffers is not None:
        buffers.give_back(mapping)
