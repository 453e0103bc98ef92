"""Files in memory that were tried."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from .._calibration.rounded import Loaded
from .judge import Outcome, Verdict
from .result import ShrinkTrial


@dataclasses.dataclass(frozen=True)
class Trial:
    """A file in memory that was judged.

    Attributes:
        predicted: the ratio that the examples tell with which files are made.
    """

    loaded: Loaded
    outcome: Outcome
    verdict: Verdict
    told: ShrinkTrial
    predicted: float

    @property
    def step(self) -> float:
        """The common step of its tensors."""
        return self.told.step

    def judged_anew(self, verdict: Verdict) -> Trial:
        """The same file with another verdict."""
        told = dataclasses.replace(
            self.told, outcome=verdict.kept, bounds=verdict.bounds, met=verdict.ratio <= 1
        )
        return dataclasses.replace(self, verdict=verdict, told=told)


def smallest(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.told.bits_per_weight)


def finest(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.step)


def coarsest(trials: Sequence[Trial]) -> Trial:
    return max(trials, key=lambda trial: trial.step)


def octaves_to(ratio: float) -> float:
    """Of the step, to what loses just what is allowed."""
    return -math.log2(min(max(ratio, 2.0**-10), 2.0**4)) / 2
