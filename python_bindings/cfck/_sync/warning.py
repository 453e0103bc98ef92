"""What is wrong and mends itself."""

from __future__ import annotations

import warnings

from .._common.callers import level_of_caller


class SyncWarning(UserWarning):
    """Something in a folder is damaged or missing, and work goes on without it."""


def warn(message: str) -> None:
    warnings.warn(message, SyncWarning, stacklevel=level_of_caller())
