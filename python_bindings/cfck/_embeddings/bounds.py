"""How much the rows of a table may change.

The method (error bounds as a fraction of the range of a batch, classes of tables by how many rows
become equal, larger bounds early in training) is that of Feng et al., Accelerating Communication in
Deep Learning Recommendation Model Training with Dual-Level Adaptive Lossy Compression, 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ..errors import InvalidArgumentError

# Factors of ErrorSchedule: of the share of iterations that has passed, and the first factor.
_DECAYS: dict[str, Callable[[float, float], float]] = {
    "constant": lambda t, c: c,
    "linear": lambda t, c: c * (1 - t * (1 - 1 / c)),
    "logarithmic": lambda t, c: c * ((1 - math.log1p(t * (math.e - 1))) * (1 - 1 / c) + 1 / c),
    "stepwise": lambda t, c: c * max(1 - math.floor(10 * t) * (1 - 1 / c) / 10, 1 / c),
    "cosine": lambda t, c: 1 + (c - 1) * (1 + math.cos(math.pi * t)) / 2,
}


def absolute_error(values: torch.Tensor, relative_error: float) -> float:
    """Returns a fraction of the range of the values that are finite; 0.0 where there is none.

    Args:
        values: of any shape, float dtype and device.
        relative_error: 0.0 or more.
    """
    if relative_error == 0 or values.numel() == 0:
        return 0.0
    low, high = map(float, torch.aminmax(values.detach()))
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = values.detach()[values.isfinite()]
        low, high = map(float, torch.aminmax(finite)) if finite.numel() else (0.0, 0.0)
    return relative_error * (high - low)


class ErrorSchedule:
    """By how much bounds are larger early in training: a factor for each iteration.

    Args:
        decay: "constant", "linear", "logarithmic", "stepwise" (ten steps) or "cosine": how the
            factor falls to 1; or a table of factors, each for an equal part of the iterations.
        factor: the first one, at least 1.
        iterations: after which the factor is 1.

    Raises:
        InvalidArgumentError: for another decay, a factor below 1, no iterations.

    The formulas for linear, logarithmic and stepwise decay are those of the method above; with
    "constant" the factor holds until the iterations are over.
    """

    def __init__(
        self,
        decay: str | Sequence[float] = "stepwise",
        *,
        factor: float = 2.0,
        iterations: int = 65536,
    ) -> None:
        if isinstance(decay, str) and decay not in _DECAYS:
            raise InvalidArgumentError(
                f"decay is one of {', '.join(_DECAYS)} or a table of factors, not {decay!r}"
            )
        if not isinstance(decay, str) and (
            not decay or not all(math.isfinite(f) and f > 0 for f in decay)
        ):
            raise InvalidArgumentError("a table of factors has positive numbers, at least one")
        if not (math.isfinite(factor) and factor >= 1):
            raise InvalidArgumentError(f"factor is at least 1, not {factor!r}")
        if iterations < 1:
            raise InvalidArgumentError(f"iterations is at least 1, not {iterations!r}")
        self.decay = decay if isinstance(decay, str) else tuple(decay)
        self.factor = float(factor)
        self.iterations = int(iterations)

    def factor_at(self, iteration: int) -> float:
        """Returns the factor of an iteration, which counts from 0."""
        if iteration >= self.iterations:
            return 1.0
        t = max(iteration, 0) / self.iterations
        if isinstance(self.decay, tuple):
            return float(self.decay[int(t * len(self.decay))])
        return _DECAYS[self.decay](t, self.factor)


def check_mapping(what: str, given: object) -> None:
    """Raises TypeError for what has no names of tables."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dict, by the name of a table, not {type(given).__name__}")


def homogenization_index(rows: torch.Tensor, relative_error: float) -> float:
    """Returns which part of the different rows become equal to others by quantisation.

    (different before - different after) / different before: 0 where none do.

    Args:
        rows: of shape (n_rows, row_elems).
        relative_error: as a fraction of the range of the values.
    """
    before = torch.unique(rows, dim=0)
    error = absolute_error(rows, relative_error)
    if before.shape[0] == 0 or error == 0:
        return 0.0
    codes = torch.round(before.double() / (2 * error))
    n_after = int(torch.unique(codes, dim=0).shape[0])
    return 1 - n_after / int(before.shape[0])


def bounds_by_merging(
    samples: Mapping[str, torch.Tensor],
    *,
    tight: float = 0.01,
    base: float = 0.03,
    loose: float = 0.05,
    merged: tuple[float, float] = (0.05, 0.5),
) -> dict[str, float]:
    """Finds a bound for each table from how many of its rows become equal.

    Args:
        samples: looked-up rows of each table, of shape (n_rows, row_elems).
        tight: the bound, as a fraction of the range of a batch, of tables of which many rows merge.
        base: of the tables in between.
        loose: of tables of which few rows merge.
        merged: the homogenization indices, with the bound ``base``, up to which a table is loose,
            and from which on it is tight.

    Returns:
        A bound for each table.

    Raises:
        TypeError: ``samples`` has no names.
    """
    check_mapping("samples", samples)
    low, high = merged

    def bound_of(rows: torch.Tensor) -> float:
        index = homogenization_index(rows, base)
        return loose if index <= low else tight if index >= high else base

    return {name: bound_of(rows) for name, rows in samples.items()}
