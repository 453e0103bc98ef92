"""Writing, the same for every framework."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _native
from ._checkpoint import native_path
from ._framework import Framework, Prepared, Progress, check_metadata
from .errors import InvalidArgumentError, MissingFileError, NotFoundError


def check_threads(threads: int) -> int:
    if not isinstance(threads, int) or not 0 <= threads < 1 << 16:
        raise InvalidArgumentError(f"threads is a number from 0 (all) up, not {threads!r}")
    return threads


def write_file(
    framework: Framework,
    tensors: Mapping[str, Any],
    filename: Any,
    metadata: Any,
    *,
    codec: str,
    threads: int,
    verify: bool,
    progress: Progress | None,
    fsync: bool,
    chunk_elems: int = 0,
) -> None:
    write_prepared(
        framework.prepare(tensors),
        filename,
        metadata,
        {},
        codec=codec,
        threads=threads,
        verify=verify,
        progress=progress,
        fsync=fsync,
        chunk_elems=chunk_elems,
    )


def write_prepared(
    prepared: Prepared,
    filename: Any,
    metadata: Any,
    attachments: Mapping[str, bytes],
    *,
    codec: str,
    threads: int,
    verify: bool,
    progress: Progress | None,
    fsync: bool,
    chunk_elems: int = 0,
) -> None:
    try:
        _native.write_file(
            native_path(filename),
            prepared.units,
            check_metadata(metadata),
            attachments,
            codec=codec,
            threads=check_threads(threads),
            chunk_elems=chunk_elems,
            verify=verify,
            sync=fsync,
            progress=progress,
            total_bytes=prepared.total_bytes,
        )
    except NotFoundError as error:
        raise _missing(filename, error) from None


def write_bytes(
    framework: Framework,
    tensors: Mapping[str, Any],
    metadata: Any,
    *,
    codec: str,
    threads: int,
    progress: Progress | None = None,
) -> bytes:
    prepared = framework.prepare(tensors)
    return _native.write_bytes(
        prepared.units,
        check_metadata(metadata),
        codec=codec,
        threads=check_threads(threads),
        chunk_elems=0,
        progress=progress,
        total_bytes=prepared.total_bytes,
    )


def update_file(
    framework: Framework,
    filename: Any,
    tensors: Mapping[str, Any],
    remove: Iterable[str],
    metadata: Any,
    *,
    codec: str,
    threads: int,
    progress: Progress | None,
) -> None:
    if os.path.isdir(filename):
        raise InvalidArgumentError(
            f"{os.fspath(filename)} is a folder; update the shard that has the tensor"
        )
    prepared = framework.prepare(tensors)
    try:
        _native.update_file(
            native_path(filename),
            framework.on_host(prepared),
            list(remove),
            check_metadata(metadata),
            codec=codec,
            threads=check_threads(threads),
            progress=progress,
            total_bytes=prepared.total_bytes,
        )
    except NotFoundError as error:
        if os.path.exists(filename):
            raise
        raise _missing(filename, error) from None


def _missing(filename: Any, error: NotFoundError) -> MissingFileError:
    return MissingFileError(str(error), filename=os.fsdecode(filename))
