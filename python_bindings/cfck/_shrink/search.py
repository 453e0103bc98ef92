"""The coarsest step that keeps what is to be kept, in few trials."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

# Steps between these, over the one at hand, differ too little for another trial: 0.02 bits.
_NEAR = 2.0**0.02
# The loss grows with about this power of the step.
_POWER = 2.0
# Ratios further away are not taken at their word.
_MAX_OCTAVES = 2.0
_SMALLEST_RATIO = 2.0**-10
# A loss this near below what is allowed is near enough.
_ENOUGH = 0.97
# Octaves below the step that one ratio tells; towards coarser steps at most this part of them.
_MARGIN, _PART = 0.02, 0.15


@dataclasses.dataclass
class StepSearch:
    """Proposes steps by what earlier ones lost.

    Attributes:
        kept: the largest step known to keep everything, and what it lost over what it may.
        lost: the smallest step known not to.
    """

    first: float
    coarsest: float = math.inf
    finest: float = 0.0
    kept: tuple[float, float] | None = None
    lost: tuple[float, float] | None = None
    # Octaves that the next move has at least, where the last one hardly changed the loss.
    _leap: float = 0.0

    def tell(self, step: float, ratio: float) -> None:
        """``ratio``: the loss at this step over what is allowed."""
        if ratio <= 1:
            if self.kept is None or step > self.kept[0]:
                self._leap = _leap(self.kept, (step, ratio))
                self.kept = step, ratio
        elif self.lost is None or step < self.lost[0]:
            self._leap = _leap(self.lost, (step, ratio))
            self.lost = step, ratio

    def expected(self) -> float:
        """About the step that loses just what is allowed, by the trial that came nearest to it."""
        known = [one for one in (self.kept, self.lost) if one is not None]
        step, ratio = min(known, key=lambda one: abs(_octaves_of(one[1])))
        return step * _factor(ratio)

    def propose(self) -> float | None:
        """The next step; None where another trial would not tell more."""
        if self.kept is None and self.lost is None:
            return self.first
        step = self._wanted()
        step = min(max(step, self.finest), self.coarsest)
        known = [one[0] for one in (self.kept, self.lost) if one is not None]
        return None if step in known else step

    def _wanted(self) -> float:
        if self.kept is None:
            assert self.lost is not None
            return self.lost[0] * min(_factor(self.lost[1]), math.pow(2.0, -self._leap))
        step, ratio = self.kept
        if ratio >= _ENOUGH:
            return step
        if self.lost is None:
            return step * max(_factor(ratio), _NEAR, math.pow(2.0, self._leap))
        limit = self.lost[0]
        if limit < step * _NEAR:
            return step
        octaves = -self._slope() * _octaves_of(ratio) * 0.97
        guess = step * math.pow(2.0, octaves)
        # Inside of what is not known.
        gap = limit / step
        return min(max(guess, step * math.pow(gap, 0.15)), step * math.pow(gap, 0.85))

    def _slope(self) -> float:
        """Octaves of the step for an octave of the loss, between the two ends."""
        assert self.kept is not None and self.lost is not None
        if math.isinf(self.lost[1]):
            return 1 / _POWER
        rise = _octaves_of(self.lost[1]) - _octaves_of(self.kept[1])
        return math.log2(self.lost[0] / self.kept[0]) / max(rise, 0.01)


def _leap(before: tuple[float, float] | None, after: tuple[float, float]) -> float:
    """Twice the octaves from one step to another, if the loss followed by less than half of what
    is usual, as it does where weights are all zeros; else 0."""
    if before is None:
        return 0.0
    octaves = math.log2(after[0] / before[0])
    usual = octaves * _POWER
    if math.isinf(after[1]) or (_octaves_of(after[1]) - _octaves_of(before[1])) / usual < 0.5:
        return 2 * abs(octaves)
    return 0.0


def _octaves_of(ratio: float) -> float:
    return math.log2(max(ratio, _SMALLEST_RATIO))


def _factor(ratio: float) -> float:
    """From a step to the one that loses just what is allowed, as far as one ratio tells."""
    if math.isinf(ratio):
        return math.pow(2.0, -_MAX_OCTAVES)
    octaves = -_octaves_of(ratio) / _POWER
    octaves = min(max(octaves, -_MAX_OCTAVES), _MAX_OCTAVES)
    margin = min(_MARGIN, _PART * octaves) if octaves > 0 else _MARGIN
    return math.pow(2.0, octaves - margin)


Try = Callable[[float], float]


def search(
    found: StepSearch, attempt: Try, most: int, until: Callable[[float], bool] | None = None
) -> None:
    """Tries at most so many steps. ``attempt`` gives the loss over what is allowed, and ``until``
    says which is near enough for now."""
    for _ in range(most):
        step = found.propose()
        if step is None:
            return
        ratio = attempt(step)
        found.tell(step, ratio)
        if until is not None and until(ratio):
            return
