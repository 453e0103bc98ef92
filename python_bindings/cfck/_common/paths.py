"""Names of files for the library, which takes bytes: not every name is valid UTF-8."""

from __future__ import annotations

import os

from ..errors import InvalidArgumentError

_LONGEST_PATH = 4096  # of Linux


def native_path(filename: str | os.PathLike[str]) -> bytes:
    path = os.fsencode(filename)
    if b"\0" in path:
        if len(path) > _LONGEST_PATH:
            raise InvalidArgumentError(
                f"{len(path)} bytes are not a path; pass the contents of a file to load()"
            )
        raise InvalidArgumentError(f"{filename!r} contains a null byte")
    return path
