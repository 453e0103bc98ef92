"""Bases that readers do not find by themselves."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

from .._common.callers import level_of_caller
from .._common.text import printable
from ..errors import CfckError
from .archive import Archive


def warn_of_far_base(filename: str | os.PathLike[str], base: Any) -> None:
    """Warns if a file that was written can be read only by who names its base or the folder of
    that. ``base``: the option; tensors of the caller need no warning, since they are in no file."""
    if not isinstance(base, str | os.PathLike):
        return
    name = None
    # The file is saved: no error may take the place of that.
    with contextlib.suppress(CfckError, MemoryError):
        [name] = Archive.open(filename, {}).base_names()
    if name is None:  # nothing is stored against it
        return
    file, other = printable(os.fsdecode(filename)), printable(os.fsdecode(base))
    if not name:
        message = (
            f"{file} is stored against {other}, which readers cannot find: only a single .cfck "
            f"file beside it is found by its name. Read it with load_file({file!r}, base={other!r})"
        )
    elif _are_side_by_side(filename, base):
        return
    else:
        folder = os.path.dirname(other) or os.curdir
        message = (
            f"{file} is stored against {other}, which is in another folder. Put that beside it, or "
            f"read it with load_file({file!r}, base_dirs=[{folder!r}])"
        )
    warnings.warn(message, UserWarning, stacklevel=level_of_caller())


def _are_side_by_side(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    folders = [
        os.path.dirname(os.fsencode(path)) or os.fsencode(os.curdir) for path in (one, other)
    ]
    with contextlib.suppress(OSError):
        return os.path.samefile(*folders)
    return False
