"""A size that training is to reach: the weight of the rate is found on the way."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..errors import InvalidArgumentError

# The multiplier changes by this power of (rate / wanted rate) at each step, and what is returned
# differs from it by the other power: without it the rate would swing about the target.
_GAIN = 0.02
_DAMPING = 8
_LEAST = 1e-6
_MOST = 1e3
_MIN_RATE = 1e-6
_MIN_EXCESS = 0.5


@dataclasses.dataclass
class Target:
    """The multiplier of a rate: a dual variable, in the logarithm (Platt and Barr 1987).

    The wanted rate goes geometrically from that at the start to the target, in ``by`` steps. The
    multiplier grows while the rate is above what is wanted, and shrinks while it is below.
    """

    bits_per_weight: float
    by: int
    start: float = 0.0
    step: int = 0
    multiplier: float = 0.05

    def __post_init__(self) -> None:
        if not _MIN_RATE <= self.bits_per_weight <= 64:
            raise InvalidArgumentError(
                f"bits_per_weight is from {_MIN_RATE:g} to 64, not {self.bits_per_weight}"
            )
        if isinstance(self.by, bool) or not isinstance(self.by, int) or self.by < 1:
            raise InvalidArgumentError(f"by is a number of training steps, not {self.by!r}")
        numbers = (self.start, self.step, self.multiplier)
        if not all(0 <= x < math.inf for x in numbers) or self.multiplier == 0:
            raise InvalidArgumentError(f"the state of a target makes no sense: {numbers}")

    def wanted(self) -> float:
        done = min(1.0, self.step / self.by)
        return float(self.start * (self.bits_per_weight / self.start) ** done)

    def advance(self, rate: float) -> float:
        """Returns the weight of the rate for this step of training, at which it is ``rate``."""
        if not math.isfinite(rate):
            raise FloatingPointError("the bits per weight are not finite; was the loss finite?")
        if self.start == 0:
            self.start = rate if rate > 0 else self.bits_per_weight
        self.step += 1
        # Weights that have all become zero shall not take the multiplier with them.
        excess = max(rate / self.wanted(), _MIN_EXCESS)
        self.multiplier = min(max(self.multiplier * excess**_GAIN, _LEAST), _MOST)
        return self.multiplier * min(excess, 2.0) ** _DAMPING

    def state_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
