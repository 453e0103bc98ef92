"""What files with neighbouring steps lose, taken together.

Files lose much of a few examples, and each of other ones, since its weights are rounded in another
way; what they lose of all examples there are follows their steps closely. So the mean of several
files, each brought to the same step, tells more of any of them than its own losses do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .confidence import Sample

# Files with steps further away, in octaves, do not count.
_NEAR = 0.5
# The power of the step that the loss grows with, where files tell nothing else, and what it is at
# least and at most.
_POWER, _MIN_POWER, _MAX_POWER = 2.0, 1.0, 3.0
# Files that tell the power have steps that differ by so many octaves.
_FAR_ENOUGH = 0.1


class Measured(NamedTuple):
    """A file's losses.

    Attributes:
        step: of the file.
        held: of examples that judge; the same examples for all files.
        used: of those that files are made with.
    """

    step: float
    held: Sample
    used: Sample


def is_near(step: float, other: float) -> bool:
    """Whether files with these steps are judged together."""
    return abs(math.log2(other / step)) <= _NEAR


def near(files: Sequence[Measured], step: float) -> list[Measured]:
    """Those that count for a file with this step; the nearest one where none is near."""
    finite = [one for one in files if math.isfinite(one.held.mean)]
    found = [one for one in finite if is_near(step, one.step)]
    if found or not finite:
        return found
    return [min(finite, key=lambda one: abs(math.log2(one.step / step)))]


def pooled(files: Sequence[Measured], step: float) -> Sample:
    """The mean over files of what each example would lose with this step.

    Args:
        files: one or more, of losses that are not counted.
        step: near theirs.
    """
    power = _power(files)
    losses = [one.held.losses * (step / one.step) ** power for one in files]
    return Sample(np.mean(losses, axis=0), files[0].held.rows)


def _power(files: Sequence[Measured]) -> float:
    """Of the step, by the examples that files are made with: those that judge are not looked at."""
    known = [one for one in files if one.used.mean > 0 and math.isfinite(one.used.mean)]
    steps = np.array([math.log2(one.step) for one in known])
    if len(known) < 2 or np.ptp(steps) < _FAR_ENOUGH:
        return _POWER
    found = float(np.polyfit(steps, np.log2([one.used.mean for one in known]), 1)[0])
    return min(max(found, _MIN_POWER), _MAX_POWER)
