"""All that is wrong with what a caller gave, in one error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import CfckError, ChecksumError, CorruptError, TruncatedError, UnsupportedError
from .text import printable

_MAX_LISTED = 20


class Problems:
    """Errors that are gathered, and raised together."""

    def __init__(self) -> None:
        self._first: list[Exception] = []
        self._n_errors = 0
        self._advice: dict[str, None] = {}

    def __bool__(self) -> bool:
        return self._n_errors > 0

    def add(self, error: Exception, advice: str = "") -> None:
        """``error``: a CfckError or a TypeError. ``advice``: a sentence, which comes once, at the
        end, for all that it is of."""
        if advice:
            self._advice[advice] = None
        self._n_errors += 1
        if self._n_errors <= _MAX_LISTED:
            self._first.append(error)

    def check(self) -> None:
        """Raises what was gathered: a single error as it is; of several one of the kind of the
        first, with the messages of all, a line each."""
        if not self._n_errors:
            return
        first = self._first[0]
        if self._n_errors == 1:
            if self._advice and isinstance(first, CfckError):
                text = ". ".join([str(first), *self._advice])
                raise type(first)(text, record=first.record) from None
            raise first from None
        lines = [f"{self._n_errors} values cannot be stored:", *map(str, self._first)]
        if self._n_errors > len(self._first):
            lines.append(f"and {self._n_errors - len(self._first)} more")
        message = "\n  ".join(lines) + "".join(f"\n{advice}" for advice in self._advice)
        if isinstance(first, CfckError):
            raise type(first)(message, record=first.record) from None
        raise TypeError(message) from None


@contextlib.contextmanager
def without_name() -> Iterator[None]:
    """Errors say "the tensor" of one that has no name, since it is the only one of the call."""
    try:
        yield
    except CfckError as error:
        text = str(error)
        if "``" in text:
            unnamed = text.replace("tensor ``", "the tensor").replace("Key `` is invalid, ", "")
            error.args = (unnamed,)
        raise


@contextlib.contextmanager
def with_path(path: str | None) -> Iterator[None]:
    """Errors of bytes that came from a file name it. ``path``: None: they came from none."""
    try:
        yield
    except (ChecksumError, CorruptError, TruncatedError, UnsupportedError) as error:
        if path is not None:
            text, name = str(error), printable(path)
            named = text.replace("'<memory>'", f"'{name}'")
            error.args = (named if name in named else f"{name}: {text}",)
        raise
