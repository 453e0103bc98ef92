"""Exceptions. Every one that cfck raises for a file or a tensor is a CfckError."""

from __future__ import annotations

import errno
import re
from typing import Any

__all__ = [
    "CfckError",
    "InvalidArgumentError",
    "DeviceError",
    "OutOfBoundsError",
    "ExistsError",
    "NotFoundError",
    "MissingBaseError",
    "MissingFileError",
    "TruncatedError",
    "CorruptError",
    "ChecksumError",
    "UnsupportedError",
    "LimitExceededError",
    "IoError",
    "OutOfMemoryError",
    "InternalError",
]


# Names come from files of strangers, and messages go to terminals: characters that cannot be seen
# or that change how others are shown, as in base/text.cpp, and what is not text at all. Newlines
# stay: some messages have lines of code.
_INVISIBLE = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    r"\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)


def _visible(message: str) -> str:
    return _INVISIBLE.sub(lambda found: ascii(found[0])[1:-1], message)


class CfckError(Exception):
    """Base of all errors of cfck. Can be pickled.

    Characters of the message that a terminal would obey or not show are escaped.

    Attributes:
        code: kind of error, as in the C++ library: ``"checksum"``, ``"truncated"``, ...
        record: name of the tensor concerned, or None.
        byte_offset: where in the file, in bytes from its start, or None.
    """

    code: str = "internal"

    def __init__(
        self, message: str = "", *, record: str | None = None, byte_offset: int | None = None
    ) -> None:
        super().__init__(_visible(message))
        self.record = record
        self.byte_offset = byte_offset

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.__dict__.copy())


# The name of safetensors.
SafetensorError = CfckError


class InvalidArgumentError(CfckError, ValueError):
    """The call is wrong: a shape, a dtype, a name, or an option."""

    code = "invalid_argument"


class DeviceError(InvalidArgumentError, RuntimeError):
    """There is no such device, or torch cannot use it. Also a RuntimeError, as torch's."""


class OutOfBoundsError(InvalidArgumentError, IndexError):
    """An index is beyond the tensor. Also an IndexError."""


class NotFoundError(CfckError, KeyError):
    """There is no tensor of that name."""

    code = "not_found"


class MissingFileError(NotFoundError, FileNotFoundError):
    """There is no such file. Also a FileNotFoundError."""

    def __init__(
        self,
        message: str = "",
        *,
        filename: str | None = None,
        record: str | None = None,
        byte_offset: int | None = None,
    ) -> None:
        super().__init__(message, record=record, byte_offset=byte_offset)
        self.errno = errno.ENOENT
        self.filename = filename

    def __reduce__(self) -> tuple[Any, ...]:
        # OSError keeps these two outside of __dict__.
        attributes = {**self.__dict__, "errno": self.errno, "filename": self.filename}
        return _rebuild, (type(self), str(self), attributes)


class ExistsError(InvalidArgumentError, FileExistsError):
    """The output exists already, and is not to be replaced, or files are stored against it. Also a
    FileExistsError."""

    code = "exists"


class TruncatedError(CfckError):
    """The file ends before it should: fetch it again, or repair it."""

    code = "truncated"


class CorruptError(CfckError):
    """Bytes that no writer produces; perhaps no .cfck file at all."""

    code = "corrupt"


class ChecksumError(CfckError):
    """Bytes changed after they were written."""

    code = "checksum"


class UnsupportedError(CfckError, NotImplementedError):
    """Written by a newer version, or a tensor that cannot be stored or loaded this way.

    Also a NotImplementedError, and so a RuntimeError, as torch raises for tensors without data.
    """

    code = "unsupported"


class LimitExceededError(CfckError):
    """Valid, but larger than the caller allowed: raise the limit."""

    code = "limit_exceeded"


class IoError(CfckError, OSError):
    """The operating system refused. Also an OSError."""

    code = "io"


class OutOfMemoryError(CfckError, MemoryError):
    """Memory ran out. Also a MemoryError."""

    code = "out_of_memory"


class MissingBaseError(CfckError):
    """What a file is stored against is not there, or has other values now: give the right one."""

    code = "missing_base"


class InternalError(CfckError):
    """A bug in cfck."""


_BY_CODE: dict[str, type[CfckError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        ExistsError,
        NotFoundError,
        TruncatedError,
        CorruptError,
        ChecksumError,
        UnsupportedError,
        LimitExceededError,
        IoError,
        OutOfMemoryError,
        MissingBaseError,
        InternalError,
    )
}
_BY_CODE["cancelled"] = InvalidArgumentError


def from_native(code: str, message: str, record: str, byte_offset: int | None) -> CfckError:
    """The exception for an error of the C++ library."""
    error = _BY_CODE.get(code, InternalError)
    return error(message, record=record or None, byte_offset=byte_offset)


def _rebuild(error: type[CfckError], message: str, attributes: dict[str, Any]) -> CfckError:
    exception = error(message)
    for name, value in attributes.items():
        setattr(exception, name, value)
    return exception
