"""Rows of a matrix in a file, for embeddings."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import torch

from .. import _native
from .._frameworks.torch_tensors import TorchFramework, torch_shape
from .._io.archive import Archive

_FRAMEWORK = TorchFramework()

# Rows that were read stay in memory of at most this size, for each matrix.
_KEPT_BYTES = 2 << 20
# Files without chunks are read in pieces of about this size.
_PIECE_BYTES = 1 << 16
# Writers align chunks to whole rows, and some to blocks of this many.
_BLOCK_ROWS = 64

_Ids = np.ndarray


class Rows:
    """A matrix of which rows are read by number. Thread-safe.

    A chunk of the file is decoded as a whole, whatever part of it is wanted. So the rows of a call
    are sorted, each chunk is decoded once, and the rows that were read last are kept.
    """

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name
        record = archive.record(name)
        self.n_rows, self._width = torch_shape(record.dtype, record.shape)
        self._piece = _rows_per_piece(archive, name)
        row_bytes = max(1, record.decoded_bytes // max(1, self.n_rows))
        self._n_slots = min(self.n_rows, _KEPT_BYTES // row_bytes)
        self._forget()
        _CACHES.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        # Kept rows, used in turn: the row in each slot, and the slot of each row; -1: none.
        self._kept: torch.Tensor | None = None
        self._row_in = np.full(self._n_slots, -1, np.int64)
        self._slot_of = np.full(self.n_rows, -1, np.int32)
        self._turn = 0

    def after_fork_in_child(self) -> None:
        """Begins anew: another thread may have been at it."""
        self._forget()

    def read(self, ids: _Ids) -> torch.Tensor:
        """The rows of these numbers, which are in range, on the host in the dtype of the file."""
        with self._lock, torch.inference_mode(False), torch.no_grad():
            slots = self._slot_of[ids]
            missing = np.flatnonzero(slots < 0)
            if self._kept is not None and not len(missing):
                return self._kept.index_select(0, torch.from_numpy(slots))
            rows = self._decode(ids, missing)
            if self._kept is not None and len(missing) < len(ids):
                known = np.flatnonzero(slots >= 0)
                kept = self._kept.index_select(0, torch.from_numpy(slots[known]))
                rows.index_copy_(0, torch.from_numpy(known), kept)
            self._keep(ids, missing, rows)
            return rows

    def _decode(self, ids: _Ids, missing: _Ids) -> torch.Tensor:
        """Memory for all rows, of which the missing ones are filled."""
        record = self._archive.record(self._name)
        rows, _, _ = _FRAMEWORK.allocate(record.dtype, (len(ids), *record.shape[1:]))
        by_row = missing[np.argsort(ids[missing], kind="stable")]
        for places in _groups(by_row, ids[by_row] // self._piece):
            wanted = ids[places]
            first, last = int(wanted[0]), int(wanted[-1])
            part = self._archive.load_box(
                self._name, [first, 0], [last + 1, record.shape[1]], _FRAMEWORK, None
            )
            found = part.index_select(0, torch.from_numpy(wanted - first))
            rows.index_copy_(0, torch.from_numpy(places), found)
        return rows

    def _keep(self, ids: _Ids, missing: _Ids, rows: torch.Tensor) -> None:
        """Keeps the rows that were missing, in place of those kept for longest."""
        new, where = np.unique(ids[missing], return_index=True)
        new, where = new[: self._n_slots], missing[where[: self._n_slots]]
        if not len(new):
            return
        if self._kept is None:
            self._kept = torch.empty((self._n_slots, self._width), dtype=rows.dtype, device="cpu")
        slots = (self._turn + np.arange(len(new))) % self._n_slots
        self._turn = int(slots[-1]) + 1
        replaced = self._row_in[slots]
        self._slot_of[replaced[replaced >= 0]] = -1
        self._row_in[slots] = new
        self._slot_of[new] = slots
        found = rows.index_select(0, torch.from_numpy(where))
        self._kept.index_copy_(0, torch.from_numpy(slots), found)


def _groups(places: _Ids, keys: _Ids) -> Iterator[_Ids]:
    """The places of equal keys, which are sorted."""
    if len(places):
        yield from np.split(places, np.flatnonzero(np.diff(keys)) + 1)


def _rows_per_piece(archive: Archive, name: str) -> int:
    """How many rows are decoded together.

    A wrong guess costs time and nothing else: files say how many chunks a tensor has, and not how
    large they are.
    """
    record = archive.base(name) or archive.record(name)
    n_rows, width = record.shape[0], max(1, record.n_elems // max(1, record.shape[0]))
    if not archive.is_chunked(name):
        return max(1, _PIECE_BYTES * n_rows // max(1, record.decoded_bytes))
    if record.n_chunks <= 1 or record.kind == _native.RecordKind.PACKED:
        return max(1, n_rows)
    for log2_chunk in range(25, 9, -1):
        whole = (1 << log2_chunk) // width
        for rows in (whole, whole - whole % _BLOCK_ROWS):
            if rows and -(-n_rows // rows) == record.n_chunks:
                return rows
    return -(-n_rows // record.n_chunks)


_CACHES: weakref.WeakSet[Rows] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for rows in list(_CACHES):
        rows.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
