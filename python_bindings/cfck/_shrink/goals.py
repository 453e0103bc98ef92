"""Goals say what a file has to keep, and how far an outcome is from that."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from .._evaluation.result import Evaluation
from .._options.signatures import instead
from ..errors import InvalidArgumentError

# The name under which the result of a caller's function is reported.
SCORE = "score"
# Outcomes of which a row is lost or not.
COUNTED = ("agreement", "top1")
# Outcomes that are the better the smaller they are.
COSTS = ("kl", "perplexity")


@dataclasses.dataclass(frozen=True)
class Goal:
    """A number that is to be kept.

    Attributes:
        name: "cosine", "kl", ...
        value: the limit, as the caller gave it.
        needs_labels: whether labels or next tokens are needed.
        is_logits: whether the outputs have to be logits.
        allowed: the largest loss that keeps it.
        measured: the number itself.
        limit_of: the loss of a row that loses ``allowed``, on the scale of the losses of examples
            (perplexities are compared by their logarithms).
        outcome_of: the number for such a loss of a row.
    """

    name: str
    value: float
    needs_labels: bool
    is_logits: bool
    allowed: float
    measured: Callable[[Evaluation], float]
    limit_of: Callable[[float], float]
    outcome_of: Callable[[float], float]

    @property
    def is_counted(self) -> bool:
        """Whether a row is lost or not."""
        return self.name in COUNTED

    @property
    def row_limit(self) -> float:
        """The largest mean loss of a row that keeps it."""
        return self.limit_of(self.allowed)

    def ratio(self, row_loss: float) -> float:
        """The loss of a row over what is allowed: kept up to 1. Infinite for NaN."""
        return ratio_of(row_loss, self.row_limit)


def exact(value: float) -> str:
    """The number with six digits; near 1 with as many as tell it from 1."""
    distance = abs(1 - value)
    if not 0 < distance < 1e-4:
        return f"{value:.6g}"
    return f"{value:.{2 - math.floor(math.log10(distance))}f}".rstrip("0")


def ratio_of(loss: float, allowed: float) -> float:
    if math.isnan(loss):
        return math.inf
    if loss <= 0:
        return 0.0
    return loss / allowed if allowed > 0 else math.inf


@dataclasses.dataclass(frozen=True)
class _Kind:
    is_logits: bool
    needs_labels: bool
    check: Callable[[float], bool]
    range: str
    allowed: Callable[[float], float]
    measured: Callable[[Evaluation], float]
    limit_of: Callable[[float], float]
    outcome_of: Callable[[float], float]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _times(evaluation: Evaluation) -> float:
    """Perplexity after over perplexity before."""
    before, after = _number(evaluation.perplexity_a), _number(evaluation.perplexity_b)
    return after / before if before > 0 and math.isfinite(before) else math.nan


def _same(value: float) -> float:
    return value


_KINDS: dict[str, _Kind] = {
    "cosine": _Kind(
        False,
        False,
        lambda v: 0 < v < 1,
        "the least mean cosine between the outputs before and after, between 0 and 1, such as 0.99",
        lambda v: 1 - v,
        lambda e: e.cosine_mean,
        _same,
        lambda loss: 1 - loss,
    ),
    "kl": _Kind(
        True,
        False,
        lambda v: 0 < v < math.inf,
        "the largest mean divergence of the distributions in nats, above 0, such as 0.05",
        lambda v: v,
        lambda e: _number(e.kl),
        _same,
        _same,
    ),
    "agreement": _Kind(
        True,
        False,
        lambda v: 0 < v < 1,
        "the least part of the outputs with the same largest entry, between 0 and 1, such as 0.98",
        lambda v: 1 - v,
        lambda e: _number(e.agreement),
        _same,
        lambda loss: 1 - loss,
    ),
    "top1": _Kind(
        True,
        True,
        lambda v: -100 < v < 0,
        "the change of top-1 in percentage points, below 0, such as -1.0",
        lambda v: -v,
        lambda e: 100 * _number(e.top1_change),
        lambda allowed: allowed / 100,
        lambda loss: -100 * loss,
    ),
    "perplexity": _Kind(
        True,
        True,
        lambda v: 1 < v < math.inf,
        "the perplexity after over that before, above 1, such as 1.02",
        lambda v: v - 1,
        _times,
        math.log1p,
        lambda loss: math.exp(min(loss, 700.0)),
    ),
}


def goals_of(keep: Mapping[str, Any]) -> list[Goal]:
    """The goals that a caller's dict names. Raises InvalidArgumentError for what makes no sense."""
    if not keep:
        raise InvalidArgumentError(f"keep is empty; there are {', '.join(_KINDS)}")
    goals = []
    for name, value in keep.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise InvalidArgumentError(f"keep has no {name!r}{instead(name, tuple(_KINDS))}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not kind.check(value):
            raise InvalidArgumentError(f"keep={{{name!r}: ...}} is {kind.range}, not {value!r}")
        goals.append(
            Goal(
                name,
                float(value),
                kind.needs_labels,
                kind.is_logits,
                kind.allowed(float(value)),
                kind.measured,
                kind.limit_of,
                kind.outcome_of,
            )
        )
    return goals
