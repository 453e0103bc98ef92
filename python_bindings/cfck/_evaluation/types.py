"""Types that the signatures of evaluate, calibrate and refine share.

Functions that take what a model returned are ``Callable[..., T]``, since nothing is known of that.
"""

from __future__ import annotations

from typing import Literal, TypeVar

# A batch of the caller, from which inputs and labels are taken.
Batch = TypeVar("Batch")

Pool = Literal["auto", "mean", "first", "none"]
