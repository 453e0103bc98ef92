"""Who called this package, for warnings."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Iterator

_PACKAGE = __name__.partition(".")[0]
# Packages through which calls come.
_OWN: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "own", default=frozenset({_PACKAGE})
)


@contextlib.contextmanager
def called_through(package: str) -> Iterator[None]:
    """In here ``package`` calls this one, and who called it is meant by warnings."""
    token = _OWN.set(_OWN.get() | {package})
    try:
        yield
    finally:
        _OWN.reset(token)


def level_of_caller() -> int:
    """For warnings.warn: the level of the code that called this package."""
    own = _OWN.get()
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in own:
            break
        frame = frame.f_back
        level += 1
    return level
