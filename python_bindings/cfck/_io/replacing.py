"""Files that others are stored against are not overwritten."""

from __future__ import annotations

import os
from typing import Any

from .. import _native
from .._common.paths import native_path
from ..errors import InvalidArgumentError, MissingFileError, NotFoundError

_OTHERWISE = "give another name, or replace_base=True"


def dependents_of(path: str | os.PathLike[str]) -> list[str]:
    """The files that cannot be read any more once a file is removed: those of its folder that are
    stored against it.

    Files of other folders, which find it by ``base_dirs``, are not seen, and those that are stored
    against its dependents are not in the list: ask for these as well.

    Args:
        path: a .cfck file; any other file has no dependents.

    Returns:
        Their names, without the folder, sorted.

    Raises:
        MissingFileError: there is no such file. IoError: its folder cannot be listed.
    """
    try:
        return [os.fsdecode(name) for name in _native.dependents_of(native_path(path))]
    except NotFoundError as error:
        raise MissingFileError(str(error), filename=os.fsdecode(path)) from None


def check_replaceable(
    filename: str | os.PathLike[str],
    base: Any = None,
    replace_base: bool = False,
    otherwise: str = _OTHERWISE,
) -> None:
    """Raises if a file that is to be written to ``filename`` would take values from others that are
    stored against the one which is there, or from itself.

    Args:
        base: what the file is to be stored against.
        replace_base: the word of the caller that the others may be lost.
        otherwise: what the caller can do, besides making the others stand alone.

    Raises:
        ExistsError: files of the folder are stored against it; their names are in the message.
        InvalidArgumentError: the file would need itself.
    """
    path = native_path(filename)
    name = os.path.basename(native_path(base)) if isinstance(base, str | os.PathLike) else None
    if name == os.path.basename(path):
        raise InvalidArgumentError(
            f"{os.fsdecode(filename)} would name itself as its base, since a base is found by its "
            "name beside the file; give it another name than that of its base"
        )
    if name is not None and _is_same_file(path, native_path(base)):
        raise InvalidArgumentError(
            f"{os.fsdecode(filename)} is a link to its base, {os.fsdecode(base)}, which would be "
            "replaced; give another name"
        )
    if not replace_base:
        _native.check_no_dependents(path, otherwise)
    elif name is not None and name in _all_dependents(path):
        raise InvalidArgumentError(
            f"{os.fsdecode(base)} is stored against {os.fsdecode(filename)}, and could not be its "
            "base once that is replaced; make it stand alone first (cfck compact), or give another "
            "name"
        )


def _is_same_file(one: bytes, other: bytes) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False  # one of them is not there


def _all_dependents(path: bytes) -> set[bytes]:
    """The names of the files that are stored against one, against one of these, and so on."""
    folder = os.path.dirname(path)
    found: set[bytes] = set()
    waiting = [os.path.basename(path)] if os.path.exists(path) else []
    while waiting:
        for name in _native.dependents_of(os.path.join(folder, waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found
