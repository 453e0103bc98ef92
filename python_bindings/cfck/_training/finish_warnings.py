"""What somebody who finished a training should be told."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from .._common.callers import level_of_caller
from .._io.summary import LossWarning
from .places import Place
from .target import Target

# Rates that are further from the target are reported.
_MISSED = 0.05
# So are weights of whose squares less than this part is left.
_LEAST_SQUARES = 0.01


def warn_of_result(places: Sequence[Place], rate: float, target: Target | None) -> None:
    """For finish(): a rate beside the target, and weights that have lost their values."""
    _warn_of_rate(rate, target)
    _warn_of_lost_weights(places)


def _warn_of_rate(rate: float, target: Target | None) -> None:
    if target is None or abs(rate / target.bits_per_weight - 1) <= _MISSED:
        return
    if rate > target.bits_per_weight:
        advice = (
            "call snap() while weights are trained on, or train longer, with step_lr higher, "
            "or from a rate (bits) nearer to it"
        )
    else:
        advice = "start from a higher rate (bits), or call snap() later: weights lose bits too"
    warnings.warn(
        f"the file has {rate:.3f} bits per weight where target() asked for "
        f"{target.bits_per_weight:g}: {advice}",
        stacklevel=level_of_caller(),
    )


@torch.no_grad()
def _has_lost_its_values(place: Place) -> bool:
    original = place.original()
    left = place.weight(original).double().square().sum()
    return bool(left < _LEAST_SQUARES * original.double().square().sum())


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
