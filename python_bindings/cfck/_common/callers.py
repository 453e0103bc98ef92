"""Who called this package, for warnings."""

from __future__ import annotations

import sys

_PACKAGE = __name__.partition(".")[0]


def level_of_caller() -> int:
    """For warnings.warn: the level of the code that called this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
            break
        frame = frame.f_back
        level += 1
    return level
