"""Writing, the same for every framework."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _native
from .._common.checks import check_metadata
from .._common.near import advice_for_name
from .._common.paths import native_path
from .._common.progress import byte_listener
from .._frameworks.framework import Framework, Prepared, TensorT
from .._options.kinds import NativeCalibration, SaveBytesOptions, SaveOptions, UpdateOptions
from .._options.native import check_threads, native_options
from .._options.signatures import complete
from ..errors import InvalidArgumentError, MissingFileError, NotFoundError
from .archive import Archive
from .encode_on_device import encoded_bytes, with_device
from .far_bases import warn_of_far_base
from .replacing import check_replaceable
from .summary import SaveSummary, summarize, warn_of_losses, warn_of_no_tensors

StrPath = str | os.PathLike[str]
# Makes the calibration for tensors that are saved; None: there is no use for one.
MakeCalibration = Callable[[Mapping[str, Any]], NativeCalibration | None]


def write_file(
    framework: Framework[TensorT],
    tensors: Mapping[str, TensorT],
    filename: StrPath,
    metadata: Mapping[str, str] | None,
    options: SaveOptions,
    exempt: Mapping[str, str] | None = None,
    make_calibration: MakeCalibration | None = None,
) -> SaveSummary:
    """Arguments as of write_prepared. ``make_calibration``: is called when the tensors and the
    options have been looked at, since it may take minutes, for the option ``calibration``."""
    prepared = framework.prepare(tensors)
    if make_calibration is not None:
        _check_place(filename)
        checked = complete(SaveOptions, options)
        _check_before(metadata, checked)
        check_replaceable(filename, checked["base"], checked["replace_base"])
        options = {**options, "calibration": make_calibration(tensors)}
    return write_prepared(prepared, filename, metadata, {}, options, exempt)


def write_prepared(
    prepared: Prepared,
    filename: StrPath,
    metadata: Mapping[str, str] | None,
    attachments: Mapping[str, bytes],
    options: SaveOptions,
    exempt: Mapping[str, str] | None = None,
    learned: Mapping[str, _native.LearnedSteps] | None = None,
) -> SaveSummary:
    """``exempt``: names that plain maximum errors leave alone, and why; ``learned``: steps of
    tensors."""
    checked = complete(SaveOptions, options)
    exempt = exempt or {}
    path = native_path(filename)
    entries = check_metadata(metadata)
    _check_flags(checked)
    check_replaceable(filename, checked["base"], checked["replace_base"])
    native = native_options(checked, exempt, learned)

    def write(device: _native.WriterDevice | None) -> _native.WriteSummary:
        return _native.write_file(
            path,
            prepared.units,
            entries,
            attachments,
            options=native,
            verify=checked["verify"],
            sync=checked["fsync"],
            progress=byte_listener(checked["progress"], "save"),
            total_bytes=prepared.total_bytes,
            device=device,
        )

    try:
        summary, device = with_device(prepared, checked, write)
    except NotFoundError as error:
        raise _missing(filename, error) from None
    result = summarize(summary, prepared.names(), exempt, encoded_bytes(prepared, device))
    warn_of_losses(summary, native)
    warn_of_no_tensors(filename, result)
    warn_of_far_base(filename, checked["base"])
    return result


def write_stored(
    data: bytes,
    filename: StrPath,
    metadata: Mapping[str, str] | None,
    options: Mapping[str, Any],
) -> int:
    """Writes a file that is in memory, with this metadata in place of its own, as write_prepared
    would have; nothing is encoded again.

    Args:
        options: threads, verify, fsync and replace_base; others were for the encoder.

    Returns:
        The bytes of the file.
    """
    checked = complete(SaveOptions, options)
    _check_flags(checked)
    check_replaceable(filename, None, checked["replace_base"])
    try:
        return _native.write_stored(
            native_path(filename),
            data,
            check_metadata(metadata),
            threads=check_threads(checked["threads"]),
            verify=checked["verify"],
            sync=checked["fsync"],
        )
    except NotFoundError as error:
        raise _missing(filename, error) from None


def write_bytes(
    framework: Framework[TensorT],
    tensors: Mapping[str, TensorT],
    metadata: Mapping[str, str] | None,
    options: SaveBytesOptions,
    make_calibration: MakeCalibration | None = None,
) -> bytes:
    prepared = framework.prepare(tensors)
    if make_calibration is not None:
        _check_before(metadata, complete(SaveBytesOptions, options))
        options = {**options, "calibration": make_calibration(tensors)}
    return write_prepared_bytes(prepared, metadata, options)[0]


def write_and_tell(
    framework: Framework[TensorT],
    tensors: Mapping[str, TensorT],
    metadata: Mapping[str, str] | None,
    options: SaveBytesOptions,
) -> tuple[bytes, SaveSummary]:
    """A file in memory, and what save_file would return."""
    return write_prepared_bytes(framework.prepare(tensors), metadata, options)


def write_prepared_bytes(
    prepared: Prepared,
    metadata: Mapping[str, str] | None,
    options: SaveBytesOptions,
    learned: Mapping[str, _native.LearnedSteps] | None = None,
) -> tuple[bytes, SaveSummary]:
    checked = complete(SaveBytesOptions, options)
    native = native_options(checked, learned=learned)
    entries = check_metadata(metadata)

    def write(device: _native.WriterDevice | None) -> tuple[bytes, _native.WriteSummary]:
        return _native.write_bytes(
            prepared.units,
            entries,
            options=native,
            progress=byte_listener(checked["progress"], "save"),
            total_bytes=prepared.total_bytes,
            device=device,
        )

    (data, summary), device = with_device(prepared, checked, write)
    warn_of_losses(summary, native)
    return data, summarize(summary, prepared.names(), {}, encoded_bytes(prepared, device))


def update_file(
    framework: Framework[TensorT],
    filename: StrPath,
    tensors: Mapping[str, TensorT],
    remove: Iterable[str],
    metadata: Mapping[str, str] | None,
    options: UpdateOptions,
) -> SaveSummary:
    if os.path.isdir(filename):
        raise InvalidArgumentError(
            f"{os.fspath(filename)} is a folder; update the shard that has the tensor"
        )
    checked = complete(UpdateOptions, options)
    _check_flags(checked)
    prepared = framework.prepare(tensors)
    path = native_path(filename)
    entries = check_metadata(metadata)
    native = native_options(checked)
    gone = list(remove)

    def write(device: _native.WriterDevice | None) -> _native.WriteSummary:
        return _native.update_file(
            path,
            prepared.units,
            gone,
            entries,
            options=native,
            force=checked["replace_base"],
            progress=byte_listener(checked["progress"], "save"),
            total_bytes=prepared.total_bytes,
            device=device,
        )

    try:
        summary, device = with_device(prepared, checked, write)
    except NotFoundError as error:
        if not os.path.exists(filename):
            raise _missing(filename, error) from None
        if error.record is None:
            raise
        advice = advice_for_name(error.record, Archive.open(filename, {}).names())
        message = f"{os.fsdecode(filename)} has no tensor {error.record!r} to remove{advice}"
        raise NotFoundError(message, record=error.record) from None
    warn_of_losses(summary, native)
    return summarize(summary, prepared.names(), {}, encoded_bytes(prepared, device))


def _check_before(metadata: Mapping[str, str] | None, checked: Mapping[str, Any]) -> None:
    """Raises what is wrong with the arguments of a call, but for a calibration that is to come."""
    check_metadata(metadata)
    _check_flags(checked)
    byte_listener(checked["progress"], "save")
    native_options(checked)


def _check_flags(checked: Mapping[str, Any]) -> None:
    for name in ("verify", "fsync", "replace_base"):
        if name in checked and not isinstance(checked[name], bool):
            raise TypeError(f"{name} is a bool, not {type(checked[name]).__name__}")


def _check_place(filename: StrPath) -> None:
    """Raises if there is no folder to write to; what else may be wrong with it shows in the end."""
    folder = os.path.dirname(os.fspath(filename)) or os.curdir
    if not os.path.isdir(folder):
        name = os.fsdecode(filename)
        message = f"there is no folder {os.fsdecode(folder)} to write {name} to"
        raise MissingFileError(message, filename=name)


def _missing(filename: StrPath, error: NotFoundError) -> MissingFileError:
    return MissingFileError(str(error), filename=os.fsdecode(filename))
