"""Exit codes of programs for errors; the program `cfck` has the same ones."""

from __future__ import annotations

from ..errors import (
    ExistsError,
    InternalError,
    InvalidArgumentError,
    IoError,
    LimitExceededError,
    MissingBaseError,
    MissingFileError,
    OutOfMemoryError,
    UnsupportedError,
)

_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (MissingFileError, 3),
    (MissingBaseError, 3),
    (ExistsError, 8),
    (InvalidArgumentError, 2),
    (OSError, 3),
    (IoError, 3),
    (UnsupportedError, 6),
    (LimitExceededError, 7),
    (OutOfMemoryError, 7),
    (InternalError, 70),
)
_OF_OTHERS = 4


def exit_code_of(error: Exception) -> int:
    """The code of a CfckError or OSError."""
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), _OF_OTHERS)
