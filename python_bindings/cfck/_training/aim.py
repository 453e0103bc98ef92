"""Steps of a whole model that are scaled so that a rate is met."""

from __future__ import annotations

import math
from collections.abc import Callable

# Of the logarithm of the rate, by octaves of the steps: low rates halve with each.
_FIRST_SLOPE = -0.7
_MAX_OCTAVES = 2.0
_CLOSE = 0.002
_MAX_TRIALS = 8
_MIN_RATE = 1e-9  # weights that are all zero have none


def octaves_to_rate(rate_at: Callable[[float], float], wanted: float) -> float:
    """Returns by how many octaves all steps are to grow for a rate of ``wanted``.

    ``rate_at`` is called with that last. Secants through the logarithm of the rate. Where the rate
    is out of reach, at the ends of two octaves, or jumps, this is the trial that came nearest.

    Args:
        rate_at: the rate where steps are larger by so many octaves.
    """
    shift, slope = 0.0, _FIRST_SLOPE
    trials: list[tuple[float, float]] = []  # octaves, and the logarithm of rate / wanted
    for _ in range(_MAX_TRIALS):
        rate = max(rate_at(shift), _MIN_RATE)
        trials.append((shift, math.log(rate / wanted)))
        if abs(trials[-1][1]) < _CLOSE:
            break
        if len(trials) > 1:
            (before, excess_before), (now, excess) = trials[-2:]
            secant = (excess - excess_before) / (now - before)
            slope = min(max(secant, 4 * _FIRST_SLOPE), _FIRST_SLOPE / 8)
        shift = min(max(shift - trials[-1][1] / slope, -_MAX_OCTAVES), _MAX_OCTAVES)
        if any(abs(shift - tried) < 1e-6 for tried, _ in trials):
            break
    best = min(trials, key=lambda trial: abs(trial[1]))
    if best != trials[-1]:
        rate_at(best[0])
    return best[0]
