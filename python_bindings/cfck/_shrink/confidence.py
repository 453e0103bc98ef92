"""What examples tell about all other ones: bounds of a mean loss that hold with a confidence."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist

import numpy as np

# Resamples of the bootstrap; the levels that can be asked for are coarser.
_RESAMPLES = 2000
# Values of a piece of resamples.
_PIECE_VALUES = 1 << 20
# With fewer examples no resampling tells more than a guess.
FEWEST_TO_JUDGE = 4
# Long tails make an interval so much longer than that of a normal distribution, about.
_TAILS = 1.25
_MOST_EXAMPLES = 10_000_000


@dataclasses.dataclass(frozen=True)
class Sample:
    """The losses of examples.

    Attributes:
        losses: of each example, float64, added up over the rows of output that it has.
        rows: how many these are, float64.
        is_counted: whether a row is lost or not, as with labels, and has a loss of -1, 0 or 1.
    """

    losses: np.ndarray
    rows: np.ndarray
    is_counted: bool = False

    @property
    def mean(self) -> float:
        """The loss of a row; NaN without rows."""
        total = float(self.rows.sum())
        return float(self.losses.sum()) / total if total > 0 else math.nan

    @property
    def n(self) -> int:
        """Examples that have rows."""
        return int((self.rows > 0).sum())


def upper_bound(sample: Sample, confidence: float, seed: int = 0) -> float:
    """A number that the mean loss of a row, over all examples there are, exceeds in at most
    1 - ``confidence`` of the draws of so many examples.

    Of the bootstrap, with means in units of their own standard errors: losses have long tails, with
    which intervals of the normal distribution are too short. Losses that are counted have an
    interval that allows for those that happened not to be seen. A confidence of 0.5 gives the mean.
    Infinite for fewer than FEWEST_TO_JUDGE examples and for NaN.
    """
    counted = sample.rows > 0
    losses, rows = sample.losses[counted], sample.rows[counted]
    n = len(losses)
    if n < FEWEST_TO_JUDGE or not math.isfinite(sample.mean):
        return math.inf
    if confidence <= 0.5:
        return sample.mean
    if sample.is_counted:
        return _bound_of_counts(losses, rows, confidence)
    error = _standard_error(losses, rows)
    if error <= 0:
        return sample.mean
    return sample.mean - _low_quantile(losses, rows, 1 - confidence, seed) * error


def examples_needed(sample: Sample, allowed: float, confidence: float) -> int | None:
    """About how many examples would show that the mean loss is at most ``allowed``, if it is what
    this sample has; None where none would."""
    counted = sample.rows > 0
    losses, rows = sample.losses[counted], sample.rows[counted]
    if len(losses) < 2 or not sample.mean < allowed:
        return None
    n = len(losses)
    while n < _MOST_EXAMPLES:
        # As if the same examples had come several times.
        scale = math.sqrt(len(losses) / n)
        if sample.is_counted:
            times = n / len(losses)
            above = _bound_of_counts(losses, rows, confidence, times) - sample.mean
        else:
            z = NormalDist().inv_cdf(confidence)
            above = _TAILS * z * _standard_error(losses, rows) * scale
        if sample.mean + above <= allowed:
            return n
        n = math.ceil(n * 1.1)
    return None


def _standard_error(losses: np.ndarray, rows: np.ndarray) -> float:
    """Of the loss of a row, from example to example."""
    n = len(losses)
    rest = losses - rows * (losses.sum() / rows.sum())
    return math.sqrt(float((rest * rest).sum()) / (n * (n - 1))) / float(rows.mean())


def _low_quantile(losses: np.ndarray, rows: np.ndarray, level: float, seed: int) -> float:
    """Of (mean of a resample - mean) / standard error of the resample; below 0."""
    n = len(losses)
    draw = np.random.default_rng(seed)
    mean = losses.sum() / rows.sum()
    found = []
    done = 0
    while done < _RESAMPLES:
        count = min(_RESAMPLES - done, max(1, _PIECE_VALUES // n))
        chosen = draw.integers(0, n, (count, n))
        some, weights = losses[chosen], rows[chosen]
        means = some.sum(1) / weights.sum(1)
        rest = some - weights * means[:, None]
        errors = np.sqrt((rest * rest).sum(1) / (n * (n - 1))) / weights.mean(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = (means - mean) / errors
        # A resample without any spread lies as far off as can be, on its side of the mean.
        found.append(np.where(np.isnan(scaled), 0.0, scaled))
        done += count
    quantile = float(np.quantile(np.concatenate(found), level, method="lower"))
    # Never closer than Student's: resamples of few examples are too much alike.
    return min(quantile, -_student(1 - level, n - 1))


def _student(level: float, freedom: int) -> float:
    """A quantile of Student's distribution, to a hundredth from 3 degrees of freedom on."""
    z = NormalDist().inv_cdf(level)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + (z**3 + z) / (4 * freedom) + second / freedom**2


def _bound_of_counts(
    losses: np.ndarray, rows: np.ndarray, confidence: float, times: float = 1.0
) -> float:
    """Within 4 % of the bound of Clopper and Pearson for few losses among many examples of a row,
    and valid for examples of many rows and where there are gains too.

    Args:
        times: how often the examples are taken to have come.
    """
    n = len(losses) * times
    parts = np.abs(losses) / float(rows.mean())
    largest = float(parts.max()) or 1.0
    z = NormalDist().inv_cdf(confidence)
    seen = times * float(np.square(parts / largest).sum())
    above = largest * (z * math.sqrt(seen + 1) + (z * z + 2) / 3) / n
    return float(losses.sum()) / float(rows.sum()) + above
