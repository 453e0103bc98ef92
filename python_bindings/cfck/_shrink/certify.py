"""Which files keep everything, as far as the examples held back show."""

from __future__ import annotations

import math
from collections.abc import Callable

from .judge import Judge
from .pooled import is_near
from .trial import Trial, coarsest, finest, octaves_to

# Steps beyond these are not tried: 16 bits per weight, and hardly any.
FINEST_STEP, COARSEST_STEP = 2.0**-14, 8.0
# Files that are made at most once the search is over.
_MAX_JUDGED = 8
# A ratio of what is lost to what is allowed that is near enough below 1, and one to aim at.
_NEAR_ENOUGH, _AIM = 0.95, 0.98
# The least change of a step, in octaves, and what it may lie below the one that is likely to do.
_SMALLEST_MOVE, _TOLERANCE = 0.02, 0.04
_ITERATIONS = 8

# Makes a file with a step, which is then the last one of those that were judged.
Make = Callable[[float], Trial]


def judge_together(
    judged: list[Trial], refined: bool, judge: Judge, make: Make, fewest: int
) -> list[Trial]:
    """Files that keep everything, judged together with those of neighbouring steps.

    The more files there are, the nearer is the bound of what any of them loses, and none is chosen
    for its luck with the examples held back.

    Args:
        judged: all files so far, one or more of the kind that counts; gets those that are made, and
            new verdicts.
        refined: the kind.
        judge: whose examples judge.
        make: appends to ``judged``.
        fewest: files near the one that is chosen, as far as _MAX_JUDGED allow.
    """

    def anew() -> list[Trial]:
        places = [i for i, trial in enumerate(judged) if trial.told.refined == refined]
        known = [(judged[i].step, judged[i].outcome) for i in places]
        for i in places:
            verdict = judge.verdict(judged[i].outcome, judged[i].step, known)
            judged[i] = judged[i].judged_anew(verdict)
        return [judged[i] for i in places]

    tried = anew()
    for _ in range(_MAX_JUDGED):
        wanted = _likely_step(tried, judge)
        met = [trial for trial in tried if trial.told.met]
        at_hand = coarsest(met).step if met else 0.0
        if at_hand >= COARSEST_STEP:
            break
        is_known = sum(is_near(wanted, trial.step) for trial in tried) >= fewest
        if is_known and at_hand >= wanted * 2.0**-_TOLERANCE:
            break
        step = _apart(wanted, [trial.step for trial in tried])
        if step < FINEST_STEP:
            break
        make(step)
        tried = anew()
    return [trial for trial in tried if trial.told.met]


def _likely_step(tried: list[Trial], judge: Judge) -> float:
    """The coarsest step that is likely to keep everything."""
    known = [(trial.step, trial.outcome) for trial in tried]
    step = _start(tried).step
    for _ in range(_ITERATIONS):
        octaves = octaves_to(judge.ratio_at(step, known) / _AIM)
        step = min(max(step * 2.0**octaves, FINEST_STEP), COARSEST_STEP)
        if abs(octaves) < _SMALLEST_MOVE / 4:
            break
    return step


def _apart(wanted: float, steps: list[float]) -> float:
    """A step that none of these is: the same one would give the same file."""
    step = wanted
    while any(abs(math.log2(step / other)) < _SMALLEST_MOVE / 2 for other in steps):
        step *= 2.0**-_SMALLEST_MOVE
    return step


def judge_in_turn(tried: list[Trial], make: Make) -> list[Trial]:
    """Files that keep everything, in the order in which they were judged, each by itself.

    From one that is likely to keep everything to coarser ones, up to the first that does not: so a
    file is not chosen for its luck with the examples held back, and the confidence of one bound is
    that of the choice. If the first does not, finer steps follow.
    """
    at_hand = _start(tried)
    kept: list[Trial] = []
    for number in range(_MAX_JUDGED):
        ratio = at_hand.verdict.ratio
        if at_hand.told.met:
            kept.append(at_hand)
            if ratio >= _NEAR_ENOUGH or at_hand.step >= COARSEST_STEP:
                break
            octaves = max(_SMALLEST_MOVE, 0.9 * octaves_to(ratio))
        elif kept:
            break
        else:
            # Further and further: counted losses hardly follow the step.
            octaves = octaves_to(ratio) - _SMALLEST_MOVE * 2.0**number
        step = min(max(at_hand.step * 2.0**octaves, FINEST_STEP), COARSEST_STEP)
        if step == at_hand.step:
            break
        at_hand = make(step)
    return kept


def _start(tried: list[Trial]) -> Trial:
    likely = [trial for trial in tried if trial.predicted <= 1]
    return coarsest(likely) if likely else finest(tried)
