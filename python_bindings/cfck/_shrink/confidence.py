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
_MAX_EXAMPLES = 10_000_000


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


@dataclasses.dataclass(frozen=True)
class Hardness:
    """A number of each example that is known without any file, and in proportion to which examples
    are likely to lose.

    Attributes:
        judging: of the examples that judge, in their order.
        others: of other examples of the same kind.
    """

    judging: Sample
    others: Sample

    @property
    def is_known(self) -> bool:
        """Whether these numbers tell anything."""
        means = (self.judging.mean, self.others.mean)
        return self.others.n >= FEWEST_TO_JUDGE and all(0 < mean < math.inf for mean in means)


def upper_bound(
    sample: Sample, confidence: float, seed: int = 0, hardness: Hardness | None = None
) -> float:
    """A number that the mean loss of a row, over all examples there are, exceeds in at most
    1 - ``confidence`` of the draws of so many examples.

    Of the bootstrap, with means in units of their own standard errors: losses have long tails, with
    which intervals of the normal distribution are too short. Losses that are counted have an
    interval that allows for those that happened not to be seen. A confidence of 0.5 gives the mean.
    Infinite for fewer than FEWEST_TO_JUDGE examples and for NaN.

    Args:
        sample: the losses of examples that judge.
        confidence: from 0.5 on.
        seed: of the resamples.
        hardness: of these examples and of more: the mean is then that of examples which are as hard
            as all of them together. Not for losses that are counted.
    """
    counted = sample.rows > 0
    losses, rows = sample.losses[counted], sample.rows[counted]
    n = len(losses)
    if n < FEWEST_TO_JUDGE or not math.isfinite(sample.mean):
        return math.inf
    if sample.is_counted:
        return sample.mean if confidence <= 0.5 else _bound_of_counts(losses, rows, confidence)
    drawn = _Drawn(losses, rows)
    if hardness is not None and hardness.is_known:
        drawn = _Drawn(losses, rows, *_known(hardness.judging, counted), *_known(hardness.others))
    mean, error = (float(one) for one in drawn.estimate())
    if confidence <= 0.5 or error <= 0:
        return mean
    return mean - _low_quantile(drawn, 1 - confidence, seed) * error


def _known(sample: Sample, counted: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    some = sample.rows > 0 if counted is None else counted
    return sample.losses[some], sample.rows[some]


def examples_needed(sample: Sample, allowed: float, confidence: float) -> int | None:
    """About how many examples would show that the mean loss is at most ``allowed``, if it is what
    this sample has; None where none would."""
    counted = sample.rows > 0
    losses, rows = sample.losses[counted], sample.rows[counted]
    if len(losses) < 2 or not sample.mean < allowed:
        return None
    n = len(losses)
    while n < _MAX_EXAMPLES:
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
    return float(_Drawn(losses, rows).estimate()[1])


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """Examples, along the last axis; before it may be one of resamples.

    Attributes:
        losses, rows: of those that judge.
        hard, hard_rows: how hard these are; None: that is not known.
        others, other_rows: how hard others are.
    """

    losses: np.ndarray
    rows: np.ndarray
    hard: np.ndarray | None = None
    hard_rows: np.ndarray | None = None
    others: np.ndarray | None = None
    other_rows: np.ndarray | None = None

    def resampled(self, draw: np.random.Generator, count: int) -> _Drawn:
        """So many resamples, of either kind of examples by themselves."""
        n = len(self.losses)
        chosen = draw.integers(0, n, (count, n))
        losses, rows = self.losses[chosen], self.rows[chosen]
        if self.hard is None or self.hard_rows is None:
            return _Drawn(losses, rows)
        assert self.others is not None and self.other_rows is not None
        n = len(self.others)
        other = draw.integers(0, n, (count, n))
        return _Drawn(
            losses,
            rows,
            self.hard[chosen],
            self.hard_rows[chosen],
            self.others[other],
            self.other_rows[other],
        )

    def estimate(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean loss of a row over all examples there are, and its standard error."""
        mean, rest = _centred(self.losses, self.rows)
        if self.hard is None or self.hard_rows is None:
            return mean, np.sqrt((rest * rest).sum(-1))
        assert self.others is not None and self.other_rows is not None
        hard, hard_rest = _centred(self.hard, self.hard_rows)
        other, other_rest = _centred(self.others, self.other_rows)
        # Losses are in proportion to how hard examples are, and of all examples this part does not
        # judge. Resamples of a few examples may have none that is hard at all.
        hard = np.maximum(hard, 1e-300)
        n_others = self.other_rows.sum(-1)
        part = n_others / (self.hard_rows.sum(-1) + n_others)
        times = (1 - part) + part * other / hard
        share = part * mean / hard
        # To first order in the errors of the three means.
        judging = times[..., None] * rest - (share * other / hard)[..., None] * hard_rest
        squares = (judging * judging).sum(-1)
        squares = squares + np.square(share) * (other_rest * other_rest).sum(-1)
        return times * mean, np.sqrt(squares)


def _centred(losses: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean loss of a row, and what each example adds to its error: the root of the sum of the
    squares of these is the standard error."""
    n = rows.shape[-1]
    mean = losses.sum(-1) / rows.sum(-1)
    rest = losses - rows * mean[..., None]
    return mean, rest / (rows.mean(-1) * math.sqrt(n * (n - 1)))[..., None]


def _low_quantile(drawn: _Drawn, level: float, seed: int) -> float:
    """Of (mean of a resample - mean) / standard error of the resample; below 0."""
    n = len(drawn.losses)
    n_drawn = n if drawn.others is None else n + len(drawn.others)
    draw = np.random.default_rng(seed)
    mean = drawn.estimate()[0]
    found = []
    done = 0
    while done < _RESAMPLES:
        count = min(_RESAMPLES - done, max(1, _PIECE_VALUES // n_drawn))
        means, errors = drawn.resampled(draw, count).estimate()
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
