"""Points of rate-distortion curves, and what stands between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Coded:
    """The outcome of a codec for tensors at one setting."""

    setting: str
    n_bytes: int
    tensors: Tensors


@dataclass
class Point:
    """A codec at one setting: rate, error, and what a model did with it, if that was measured."""

    data: str
    codec: str
    setting: str
    bits: float  # per weight
    nmse: float  # dB
    effects: dict[str, float] = field(default_factory=dict)


def energy(tensors: Iterable[np.ndarray]) -> float:
    """The sum of the squares, in float64."""
    return sum(float(np.square(values, dtype=np.float64).sum()) for values in tensors)


def nmse(before: Tensors, after: Tensors) -> float:
    """Sum of squared errors over sum of squares, all tensors together, in dB."""
    errors = energy(after[name].astype(np.float64) - values for name, values in before.items())
    return 10 * math.log10(errors / energy(before.values()))


def n_weights(tensors: Tensors) -> int:
    """How many values there are."""
    return sum(values.size for values in tensors.values())


def between(
    points: Iterable[Point],
    of: Callable[[Point], float],
    level: float,
    to: Callable[[Point], float],
) -> float | None:
    """`to` where `of` is `level`, on the straight line between the two points around it.

    None where no two points are around it. Along the curve `of` may turn back a little, as
    measured effects do: of several places the one with the most bits counts.
    """
    along = sorted(points, key=lambda point: -point.bits)
    for upper, lower in itertools.pairwise(along):
        low, high = of(upper), of(lower)
        if min(low, high) <= level <= max(low, high) and low != high:
            part = (level - low) / (high - low)
            return to(upper) + part * (to(lower) - to(upper))
    return None


def bits_at_nmse(points: Iterable[Point], level: float) -> float | None:
    """Bits per weight at an error in dB."""
    return between(points, lambda point: point.nmse, level, lambda point: point.bits)


def bits_at_effect(points: Iterable[Point], name: str, level: float) -> float | None:
    """Bits per weight at the value of an effect; divergences and the like count by logarithm."""
    measured = [point for point in points if name in point.effects]
    scale = math.log if level > 0 else lambda value: value
    least = 1e-12

    def of(point: Point) -> float:
        value = point.effects[name]
        return scale(max(value, least)) if level > 0 else value

    return between(measured, of, scale(level), lambda point: point.bits)
