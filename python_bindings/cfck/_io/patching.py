"""Patches: made of two versions of the same tensors, and applied where the first one lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import _native
from .._common.checks import check_metadata
from .._common.files import read_file
from .._common.paths import native_path
from .._common.problems import with_path
from .._common.progress import byte_listener
from .._frameworks.choose import framework_of
from .._frameworks.framework import Framework
from .._options.bases import tensors_of
from .._options.kinds import LoadBytesOptions, SaveBytesOptions, Unpack
from .._options.native import native_options
from .._options.signatures import chosen, complete, split_progress, takes
from ..errors import InvalidArgumentError, MissingFileError, NotFoundError
from .opening import readable
from .patch_targets import PatchTargets
from .reading import Reading
from .save import write_prepared_bytes
from .summary import warn_of_losses


@takes(SaveBytesOptions)
def patch(
    old: Any,
    new: Any,
    metadata: Mapping[str, str] | None = None,
    *,
    options: SaveBytesOptions | None = None,
    **fields: Unpack[SaveBytesOptions],
) -> bytes:
    """Makes a patch: the tensors of ``new`` for somebody who has those of ``old``.

    Args:
        old: what the receiver has: names to tensors, a model, or the path of a file or folder of
            any format.
        new: likewise. Tensors without one of their name, dtype and shape in ``old`` are stored
            whole.
        metadata: str to str, kept beside the tensors; a path has its own.
        options: how to store the tensors: a dict, or cfck.SaveOptions.

    Returns:
        The bytes of a .cfck file, which apply(), load() with ``base``, ``cfck apply`` and
        ``cfck inspect`` read.

    Raises:
        CfckError: what save() and load_file() raise.
    """
    chosen_options = chosen(SaveBytesOptions, options, fields)
    if chosen_options.get("base") is not None:
        raise InvalidArgumentError("the base of a patch is its first argument; leave out base")
    against: SaveBytesOptions = {**chosen_options, "base": old}
    if isinstance(new, str | os.PathLike):
        return _patch_of_path(new, metadata, against)
    tensors = tensors_of(new, "new")
    if not tensors:
        raise InvalidArgumentError("there are no tensors to make a patch of")
    framework: Framework[Any] = framework_of(next(iter(tensors.values())))
    return write_prepared_bytes(framework.prepare(tensors), metadata, against)[0]


@takes(LoadBytesOptions)
def apply(
    tensors: Any,
    patch: Any,
    *,
    options: LoadBytesOptions | None = None,
    **fields: Unpack[LoadBytesOptions],
) -> list[str]:
    """Gives tensors the values of a patch, in place: all of them or none.

    Everything is decoded and proven by its digest, chunk by chunk, without a second copy of the
    tensors. Values change meanwhile, and are put back where something turns out to be wrong.
    Tensors of other devices, and those that are not contiguous, are copied to the host and, where
    they changed, back. Nobody else may read or write the tensors meanwhile.

    Args:
        tensors: what patch() was given as ``old``: names to tensors, or a model.
        patch: its bytes, or the path of a file with them. A file that is stored against nothing
            will do too.
        options: how to read: a dict, or cfck.LoadOptions.

    Returns:
        The names of the tensors that have other values than before, and of those that share
        elements with one of them.

    Raises:
        CfckError: MissingBaseError, with ``record``, the name of the tensor, where names, dtypes,
            shapes or values are not those that the patch was made for; ChecksumError, CorruptError,
            TruncatedError for damage; InvalidArgumentError for tensors that share memory, but not
            in the patch; MissingFileError, IoError. Nothing has changed then. Where a device fails
            while values are copied back to it, some tensors have their new values already.
    """
    reading, progress = split_progress(chosen(LoadBytesOptions, options, fields))
    checked = Reading.of(complete(LoadBytesOptions, reading))
    if checked.base is not None:
        raise InvalidArgumentError("the base of a patch is what it changes; leave out base")
    targets = PatchTargets(_targets_of(tensors))
    is_path = isinstance(patch, str | os.PathLike)
    path = os.fsdecode(native_path(patch)) if is_path else None
    data = readable(patch if path is None else read_file(path))
    try:
        with with_path(path):
            _native.apply_patch(
                data.ctypes.data,
                data.nbytes,
                targets.described,
                copies=targets.copies,
                targets=targets,
                threads=checked.threads,
                verify=checked.verify,
                max_decoded_bytes=checked.max_decoded_bytes,
                limits=checked.limits,
                progress=progress,
                total_bytes=targets.total_bytes,
            )
    finally:  # an interrupt may come as soon as everything is written
        if targets.is_written:
            targets.finish()
    return targets.changed


def _patch_of_path(
    new: str | os.PathLike[str], metadata: Mapping[str, str] | None, options: SaveBytesOptions
) -> bytes:
    if check_metadata(metadata):
        raise InvalidArgumentError("a file has its own metadata; leave out metadata")
    checked = complete(SaveBytesOptions, options)
    native = native_options(checked)
    try:
        data, summary = _native.write_archive(
            native_path(new), options=native, progress=byte_listener(checked["progress"], "patch")
        )
    except NotFoundError as error:
        raise _missing(new, error) from None
    warn_of_losses(summary, native)
    return data


def _targets_of(tensors: Any) -> Mapping[str, Any]:
    what = "the first argument of apply()"
    if isinstance(tensors, str | os.PathLike):
        raise TypeError(
            f"{what} is a dict of tensors or a model, whose memory is changed, not a path; load "
            "the file first, or change it with `cfck apply`"
        )
    return tensors_of(tensors, what, takes_path=False)


def _missing(path: str | os.PathLike[str], error: Exception) -> MissingFileError:
    name = os.fsdecode(path)
    what = error if os.path.exists(name) else name
    return MissingFileError(f"No such file or directory: {what}", filename=name)
