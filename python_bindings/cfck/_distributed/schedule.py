"""How many values are sent in the first epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._common.checks import as_integer
from ..errors import InvalidArgumentError
from .arguments import check_numbers, integer


class RatioSchedule:
    """The share of values that are sent in each epoch.

    Args:
        ratio: after the warm-up.
        warmup: the ratios of the first epochs; or how many epochs there are, in which the ratio
            falls by the same factor from each to the next, and from 1 to the first.

    Raises:
        TypeError: no numbers.
        InvalidArgumentError: ratios that are not above 0 and at most 1.
    """

    def __init__(self, ratio: float, warmup: int | Sequence[float] = 0) -> None:
        check_numbers(ratio=ratio)
        if isinstance(warmup, bool) or as_integer(warmup) is not None:
            n_epochs = integer("warmup_epochs", warmup)
            if n_epochs < 0:
                raise InvalidArgumentError(f"warmup_epochs is 0 or more, not {n_epochs}")
            factor = ratio ** (1 / (n_epochs + 1)) if ratio > 0 else 0.0
            self._first = [max(factor ** (epoch + 1), ratio) for epoch in range(n_epochs)]
        elif not isinstance(warmup, Sequence) or isinstance(warmup, str):
            raise TypeError(
                f"warmup_epochs is a number of epochs, or a list of their ratios, not {warmup!r}"
            )
        else:
            for one in warmup:
                check_numbers(warmup_epochs=one)
            self._first = [float(one) for one in warmup]
        self._last = float(ratio)
        for one in (*self._first, self._last):
            if not (math.isfinite(one) and 0 < one <= 1):
                raise InvalidArgumentError(f"a ratio is above 0 and at most 1, not {one!r}")

    def at(self, epoch: int) -> float:
        """The ratio in an epoch; the first one is 0."""
        epoch = integer("epoch", epoch)
        if epoch < 0:
            raise InvalidArgumentError(f"an epoch is 0 or more, not {epoch}")
        return self._first[epoch] if epoch < len(self._first) else self._last
