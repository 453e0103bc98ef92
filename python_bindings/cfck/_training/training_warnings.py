"""What somebody who trains should be told."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from .._common.callers import level_of_caller
from .._io.summary import LossWarning
from .choose import Chosen
from .places import Place
from .target import Target

# Rates that are further from the target are reported.
_MISSED = 0.05
# So are weights of whose squares less than this part is left.
_MIN_SQUARES = 0.01


def warn_of_zeros(chosen: Sequence[Chosen]) -> None:
    """For spectral(): weights that have no values yet."""
    zeros = [known.name for known in chosen if not known.parameter.detach().any()]
    if zeros:
        others = f", and so do {len(zeros) - 1} more" if len(zeros) > 1 else ""
        warnings.warn(
            f"`{zeros[0]}` holds nothing but zeros{others}: each bit of a value that leaves zero "
            "counts at once, so that the rate may keep it there. Train it before spectral(), or "
            "exclude it",
            stacklevel=level_of_caller(),
        )


def warn_of_dead_weights(places: Sequence[Place], bits_before: Sequence[float]) -> None:
    """For a fit of the rate: weights that had values when it was fitted last, and have none now."""
    dead = [
        place.name
        for place, before in zip(places, bits_before, strict=True)
        if before > 0 and float(place.weight.fitted_bits) == 0
    ]
    if dead:
        warnings.warn(
            f"all values of weight `{dead[0]}` have become zero{_and_others(dead)}: the rate has "
            "more weight in the loss than the task. Ask for more bits per weight, or exclude it",
            LossWarning,
            stacklevel=level_of_caller(),
        )


def _and_others(names: Sequence[str]) -> str:
    return f", and those of {len(names) - 1} more" if len(names) > 1 else ""


def warn_of_early_snap(target: Target) -> None:
    """For snap(), which meets the target only from the step on in which it is to be reached."""
    if target.step < target.by:
        warnings.warn(
            f"snap() was called at step {target.step} of the {target.by} in which target() is to "
            f"reach {target.bits_per_weight:g} bits per weight: steps now stay those of "
            f"{target.wanted():.3g} bits. Call it later, or set an earlier target",
            stacklevel=level_of_caller(),
        )


def warn_of_result(
    places: Sequence[Place], rate: float, target: Target | None, *, snapped_before: bool
) -> None:
    """For finish(): a rate beside the target, and weights that have lost their values."""
    _warn_of_rate(places, rate, target, snapped_before)
    _warn_of_lost_weights(places)


def _warn_of_rate(
    places: Sequence[Place], rate: float, target: Target | None, snapped_before: bool
) -> None:
    if target is None or abs(rate / target.bits_per_weight - 1) <= _MISSED:
        return
    learns_steps = any(place.weight.learns_steps for place in places)
    if rate < target.bits_per_weight:
        advice = "start from a higher rate (bits), or call snap() later: weights lose bits too"
    elif not learns_steps:
        advice = "start from a rate (bits) nearer to it, or let steps be learned (learn)"
    elif snapped_before:
        advice = (
            "call snap() later, or train longer before it, with step_lr higher, or from a rate "
            "(bits) nearer to it"
        )
    else:
        advice = (
            "call snap() while weights are trained on, or train longer, with step_lr higher, "
            "or from a rate (bits) nearer to it"
        )
    warnings.warn(
        f"the file has {rate:.3f} bits per weight where target() asked for "
        f"{target.bits_per_weight:g}: {advice}",
        stacklevel=level_of_caller(),
    )


@torch.no_grad()
def _has_lost_its_values(place: Place) -> bool:
    original = place.original()
    left = place.weight(original).double().square().sum()
    return bool(left < _MIN_SQUARES * original.double().square().sum())


def _warn_of_lost_weights(places: Sequence[Place]) -> None:
    lost = [place.name for place in places if _has_lost_its_values(place)]
    if not lost:
        return
    weights = "1 weight has" if len(lost) == 1 else f"{len(lost)} weights have"
    warnings.warn(
        f"{weights} almost no values left, `{lost[0]}` the first: its steps are too large for it, "
        "or too small for the levels of a file. Ask for more bits, lower step_lr, or exclude it",
        LossWarning,
        stacklevel=level_of_caller(),
    )
