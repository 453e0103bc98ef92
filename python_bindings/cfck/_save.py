"""Writing, the same for every framework."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _native
from ._checkpoint import native_path
from ._framework import Framework, Prepared, check_metadata
from ._options import SaveFileOptions, SaveOptions, complete, native_options
from ._summary import SaveSummary, summarize, warn_of_no_tensors
from .errors import InvalidArgumentError, MissingFileError, NotFoundError


def write_file(
    framework: Framework,
    tensors: Mapping[str, Any],
    filename: Any,
    metadata: Any,
    options: SaveFileOptions,
    exempt: Mapping[str, str] | None = None,
) -> SaveSummary:
    """Arguments as of write_prepared."""
    return write_prepared(framework.prepare(tensors), filename, metadata, {}, options, exempt)


def write_prepared(
    prepared: Prepared,
    filename: Any,
    metadata: Any,
    attachments: Mapping[str, bytes],
    options: SaveFileOptions,
    exempt: Mapping[str, str] | None = None,
) -> SaveSummary:
    """``exempt``: names that plain maximum errors leave alone, and why."""
    checked = complete(SaveFileOptions, options)
    exempt = exempt or {}
    try:
        summary = _native.write_file(
            native_path(filename),
            prepared.units,
            check_metadata(metadata),
            attachments,
            options=native_options(checked, exempt),
            verify=checked["verify"],
            sync=checked["fsync"],
            progress=checked["progress"],
            total_bytes=prepared.total_bytes,
        )
    except NotFoundError as error:
        raise _missing(filename, error) from None
    result = summarize(summary, prepared.names(), exempt)
    warn_of_no_tensors(filename, result)
    return result


def write_bytes(
    framework: Framework, tensors: Mapping[str, Any], metadata: Any, options: SaveOptions
) -> bytes:
    return write_and_tell(framework, tensors, metadata, options)[0]


def write_and_tell(
    framework: Framework, tensors: Mapping[str, Any], metadata: Any, options: SaveOptions
) -> tuple[bytes, SaveSummary]:
    """A file in memory, and what save_file would return."""
    return write_prepared_bytes(framework.prepare(tensors), metadata, options)


def write_prepared_bytes(
    prepared: Prepared, metadata: Any, options: SaveOptions
) -> tuple[bytes, SaveSummary]:
    checked = complete(SaveOptions, options)
    data, summary = _native.write_bytes(
        prepared.units,
        check_metadata(metadata),
        options=native_options(checked),
        progress=checked["progress"],
        total_bytes=prepared.total_bytes,
    )
    return data, summarize(summary, prepared.names(), {})


def update_file(
    framework: Framework,
    filename: Any,
    tensors: Mapping[str, Any],
    remove: Iterable[str],
    metadata: Any,
    options: SaveOptions,
) -> SaveSummary:
    if os.path.isdir(filename):
        raise InvalidArgumentError(
            f"{os.fspath(filename)} is a folder; update the shard that has the tensor"
        )
    checked = complete(SaveOptions, options)
    prepared = framework.prepare(tensors)
    try:
        summary = _native.update_file(
            native_path(filename),
            framework.on_host(prepared),
            list(remove),
            check_metadata(metadata),
            options=native_options(checked),
            progress=checked["progress"],
            total_bytes=prepared.total_bytes,
        )
    except NotFoundError as error:
        if os.path.exists(filename):
            raise
        raise _missing(filename, error) from None
    return summarize(summary, prepared.names(), {})


def _missing(filename: Any, error: NotFoundError) -> MissingFileError:
    return MissingFileError(str(error), filename=os.fsdecode(filename))
