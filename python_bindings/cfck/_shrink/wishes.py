"""What a caller asks of shrink(), checked without PyTorch: before a program imports it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import _native
from .._common.checks import check_utf8
from ..errors import InvalidArgumentError

# Fewer examples cannot be split in any useful way.
FEWEST_EXAMPLES = 8


def targets_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The target in bytes or bits, checked; none where something is to be kept.

    Raises InvalidArgumentError for anything but one of keep, size and bits_per_weight.
    """
    named = [name for name in ("keep", "size", "bits_per_weight") if given[name] is not None]
    if len(named) != 1:
        found = " and ".join(named) if named else "none of them"
        were = "were" if named else "was"
        raise InvalidArgumentError(
            f"shrink takes keep, size or bits_per_weight, and {found} {were} given"
        )
    targets = {name: given[name] for name in named if name != "keep"}
    if isinstance(targets.get("size"), str):
        targets["size"] = _native.parse_size(check_utf8(targets["size"]))
    for name, value in targets.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            raise InvalidArgumentError(f"{name} is a finite number above 0, not {value!r}")
    return targets


def check_confidence(value: Any) -> float:
    """The confidence as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value <= 0.999:
        raise InvalidArgumentError(
            "confidence is a number from 0.5 (what is measured counts as it is) to 0.999, such as "
            f"0.95, not {value!r}"
        )
    return float(value)
