"""Dumps of looked-up rows: raw files, npz and pt."""

from __future__ import annotations

import functools
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .._common.text import printable, shown
from ..errors import (
    CorruptError,
    InvalidArgumentError,
    LimitExceededError,
    MissingFileError,
    TruncatedError,
)

_NAME = re.compile(r"(EMB|IDS)_(.+)_iter_([0-9]{1,18})", re.DOTALL)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32)
_MAX_ARRAY_BYTES = 8 << 30
# The name that a line of results has for all tables of an iteration together.
ALL_TABLES = "all"


class Lookup(NamedTuple):
    """Rows that were looked up in one table in one iteration.

    Attributes:
        table: its name.
        iteration: from 0.
        rows: of shape (n_rows, dim), of dtype float32.
        ids: what was looked up, n_rows of dtype int64; None where the dump does not say.
    """

    table: str
    iteration: int
    rows: torch.Tensor
    ids: torch.Tensor | None


class _Array(NamedTuple):
    """One array of a dump, which is read when it is needed."""

    where: str
    is_ids: bool
    table: str
    iteration: int
    read: Callable[[], torch.Tensor]


class Dumps:
    """What is in files and folders of dumps.

    Args:
        paths: files ``EMB_{table}_iter_{i}.bin`` (float32, row after row) and beside them
            ``IDS_{table}_iter_{i}.bin`` (int64); .npz files with arrays of such names; .pt files
            with a dict of such names or of tuples (table, iteration) and (table, iteration, "ids").
            Any other name in an .npz or .pt file is a table of iteration 0. Folders stand for all
            such files in them.
        dim: values of a row.

    Raises:
        CfckError: MissingFileError, CorruptError; InvalidArgumentError where there are no rows, or
            rows of one table and iteration twice.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], dim: int) -> None:
        if dim < 1:
            raise InvalidArgumentError(f"rows have at least one value, not {dim}")
        self._dim = dim
        self._rows: dict[tuple[int, str], _Array] = {}
        self._ids: dict[tuple[int, str], _Array] = {}
        for path in paths:
            for array in _arrays_of(Path(path)):
                self._add(array)
        if not self._rows:
            raise InvalidArgumentError(
                f"no rows in {', '.join(map(str, paths))}; dumps are EMB_TABLE_iter_NUMBER.bin, "
                ".npz or .pt"
            )

    def _add(self, array: _Array) -> None:
        if array.table == ALL_TABLES:
            raise InvalidArgumentError(
                f"{array.where}: no table is named {ALL_TABLES!r}, which results have for all"
            )
        found = self._ids if array.is_ids else self._rows
        key = (array.iteration, array.table)
        if key in found:
            what = "ids" if array.is_ids else "rows"
            raise InvalidArgumentError(
                f"{found[key].where} and {array.where} are both the {what} of table "
                f"{array.table!r} in iteration {array.iteration}"
            )
        found[key] = array

    def tables(self) -> list[str]:
        """The names of all tables, numbers in order."""
        return sorted({table for _, table in self._rows}, key=_natural)

    def iterations(self) -> Iterator[list[Lookup]]:
        """Reads the lookups of one iteration after the other, tables in order.

        Raises:
            CfckError: TruncatedError, CorruptError, InvalidArgumentError for what are no such rows.
        """
        for iteration in sorted({iteration for iteration, _ in self._rows}):
            tables = [table for at, table in self._rows if at == iteration]
            yield [self._lookup(iteration, table) for table in sorted(tables, key=_natural)]

    def _lookup(self, iteration: int, table: str) -> Lookup:
        rows = self._rows[iteration, table]
        values = _dense(rows)
        if values.dim() == 1 and rows.where.endswith(".bin"):
            values = values.reshape(-1, self._dim)
        if values.dtype not in _FLOATS or values.dim() != 2:
            raise InvalidArgumentError(
                f"{rows.where}: rows are float32, float16 or bfloat16 with two dimensions, not "
                f"{values.dtype} of shape {list(values.shape)}"
            )
        if values.shape[1] != self._dim:
            raise InvalidArgumentError(
                f"{rows.where}: rows have {values.shape[1]} values, not {self._dim}; measure "
                "tables of other dimensions apart, with their own --dim"
            )
        ids = None
        if (iteration, table) in self._ids:
            of_rows = self._ids[iteration, table]
            ids = _dense(of_rows)
            if ids.dtype not in _INTEGERS or ids.shape != (values.shape[0],):
                raise InvalidArgumentError(
                    f"{of_rows.where}: ids are int64, one for each of {values.shape[0]} rows, not "
                    f"{ids.dtype} of shape {list(ids.shape)}"
                )
            ids = ids.long()
        return Lookup(table, iteration, values.float().contiguous(), ids)

    def check_sizes(self) -> None:
        """Finds raw files that end within a row before anything is measured.

        Raises:
            TruncatedError: such a file.
        """
        row_bytes = 4 * self._dim
        for array in self._rows.values():
            if array.where.endswith(".bin") and (rest := os.path.getsize(array.where) % row_bytes):
                raise TruncatedError(
                    f"{array.where} ends {rest} bytes into a row of {self._dim} float32 values "
                    f"({row_bytes} bytes): it is truncated, or --dim is another"
                )


def _dense(array: _Array) -> torch.Tensor:
    """Reads an array; raises for a tensor whose values are not in memory, one beside the other."""
    values = array.read()
    if values.layout != torch.strided or values.is_meta:
        raise InvalidArgumentError(f"{array.where} is a sparse tensor, or has no values")
    if values.nbytes > _MAX_ARRAY_BYTES:
        raise LimitExceededError(
            f"{array.where} has {values.nbytes} bytes, more than the {_MAX_ARRAY_BYTES} that are "
            "read"
        )
    return values


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sorts numbers in names by their values: 2 comes before 10."""
    found = []
    for digits, other in re.findall(r"([0-9]+)|([^0-9]+)", name):
        # The longer one of two numbers is the larger one; Python limits the digits of an int.
        number = digits.lstrip("0")
        found.append((1, 0, other) if other else (0, len(number), number))
    return found


def _arrays_of(path: Path) -> Iterator[_Array]:
    if path.is_dir():
        names = [p for p in sorted(path.iterdir()) if p.suffix in (".npz", ".pt", ".bin")]
        for file in names:
            if file.suffix != ".bin" or _NAME.fullmatch(file.stem):
                yield from _arrays_of(file)
    elif path.exists() and not path.is_file():
        raise InvalidArgumentError(f"{path} is neither a file nor a folder")
    elif not path.exists():
        raise MissingFileError(f"{path}: no such file or folder")
    elif path.suffix == ".npz":
        yield from _arrays_of_npz(path)
    elif path.suffix == ".pt":
        yield from _arrays_of_pt(path)
    elif path.suffix == ".bin" and (found := _NAME.fullmatch(path.stem)):
        yield _named(str(path), found, functools.partial(_raw, path, found[1] == "IDS"))
    else:
        raise InvalidArgumentError(
            f"{path}: a dump is EMB_TABLE_iter_NUMBER.bin, .npz, .pt or a folder of these"
        )


def _named(where: str, found: re.Match[str], read: Callable[[], torch.Tensor]) -> _Array:
    return _Array(where, found[1] == "IDS", found[2], int(found[3]), read)


def _raw(path: Path, is_ids: bool) -> torch.Tensor:
    try:
        return torch.from_numpy(np.fromfile(path, "<i8" if is_ids else "<f4"))
    except OSError as error:
        raise CorruptError(f"{path}: {error}") from None


def _arrays_of_npz(path: Path) -> Iterator[_Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
        arrays = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise CorruptError(f"{path} cannot be read as .npz: {error}") from None
    for member, size in sizes.items():
        name = member.removesuffix(".npy")
        where = _place(path, name)
        if size > _MAX_ARRAY_BYTES:
            raise LimitExceededError(
                f"{where} has {size} bytes, more than the {_MAX_ARRAY_BYTES} that are read"
            )
        yield _of_key(where, name, functools.partial(_of_npz, arrays, name, where))


def _of_npz(arrays: Any, name: str, where: str) -> torch.Tensor:
    try:
        found = arrays[name]
        return torch.from_numpy(np.ascontiguousarray(found))
    except Exception as error:  # numpy, zipfile and zlib raise many kinds for damage
        raise CorruptError(f"{where} cannot be read: {shown(printable(str(error)))}") from None


def _arrays_of_pt(path: Path) -> Iterator[_Array]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch documents none; damage raises many kinds
        first = printable(str(error).strip().partition("\n")[0])
        raise CorruptError(f"{path} cannot be read as tensors: {shown(first)}") from None
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"{path} has a {type(found).__name__}, not a dict of rows")
    for key, values in found.items():
        where = _place(path, str(key))
        if not isinstance(values, torch.Tensor):
            raise InvalidArgumentError(f"{where} is of type {type(values).__name__}, no tensor")
        yield _of_key(where, key, values.detach)


def _of_key(where: str, key: Any, read: Callable[[], torch.Tensor]) -> _Array:
    if isinstance(key, str):
        found = _NAME.fullmatch(key)
        return _named(where, found, read) if found else _Array(where, False, key, 0, read)
    is_tuple = isinstance(key, tuple) and len(key) in (2, 3) and isinstance(key[1], int)
    if is_tuple and key[1] >= 0 and key[2:] in ((), ("ids",)):
        return _Array(where, len(key) == 3, str(key[0]), key[1], read)
    raise InvalidArgumentError(
        f'{where}: keys are names, (table, iteration) or (table, iteration, "ids")'
    )


def _place(path: Path, name: str) -> str:
    return f"{path}, {shown(printable(name))!r}"


def padded(lookup: Lookup, how: str, n_rows: int) -> Lookup:
    """Fills a short batch up to a number of rows; others are returned as they are.

    Args:
        lookup: of any number of rows.
        how: "repeat": the batch, again and again; "resample": rows of it, drawn by chance (the
            same ones each time), which do not repeat in the same order.
        n_rows: of the result.
    """
    n = lookup.rows.shape[0]
    if n == 0 or n >= n_rows:
        return lookup
    if how == "repeat":
        chosen = torch.arange(n_rows) % n
    else:
        generator = torch.Generator().manual_seed(lookup.iteration)
        extra = torch.randint(0, n, (n_rows - n,), generator=generator)
        chosen = torch.cat([torch.arange(n), extra])
    ids = None if lookup.ids is None else lookup.ids[chosen]
    return lookup._replace(rows=lookup.rows[chosen], ids=ids)
