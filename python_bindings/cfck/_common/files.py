"""Whole files, read into memory."""

from __future__ import annotations

import errno
import os
import stat
import sys

from ..errors import IoError, LimitExceededError, MissingFileError, OutOfMemoryError


def failure(what: str, path: str, error: OSError) -> IoError | MissingFileError:
    """The error for what the system refused: "read", "write to"..."""
    message = f"cannot {what} {path}: {error.strerror or error}"
    if isinstance(error, FileNotFoundError):
        return MissingFileError(message, filename=path)
    result = IoError(message)
    result.errno, result.filename = error.errno, path
    return result


def read_file(path: str, most_bytes: int | None = None) -> bytes:
    """The contents of a regular file. Waits for nobody: not for the other end of a pipe.

    Raises:
        MissingFileError: there is none.
        IoError: it is something else, or cannot be read.
        LimitExceededError: it has more than ``most_bytes``.
        OutOfMemoryError: there is no memory for so much.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if most_bytes is not None and found.st_size > most_bytes:
                raise LimitExceededError(
                    f"{path} has {found.st_size} bytes, more than the {most_bytes} that it may have"
                )
            # One more, which says whether it became longer meanwhile.
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(min(found.st_size + 1, sys.maxsize))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise failure("read", path, error) from error
    except MemoryError as error:
        raise OutOfMemoryError(f"no memory for the {found.st_size} bytes of {path}") from error
    if most_bytes is not None and len(data) > most_bytes:
        raise LimitExceededError(f"{path} becomes longer while it is read")
    return data
