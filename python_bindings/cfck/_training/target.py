"""A size that training is to reach: the weight of the rate is found on the way."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..errors import InvalidArgumentError

# How fast the multiplier follows: it changes by this power of (rate / wanted rate) at each step.
_GAIN = 0.02
_LEAST = 1e-6
_MOST = 1e3


@dataclasses.dataclass
class Target:
    """The multiplier of a rate: a dual variable, in the logarithm (Platt and Barr 1987).

    The wanted rate falls geometrically from that at the start to the target, in ``by`` steps. The
    multiplier grows while the rate is above what is wanted, and shrinks while it is below.
    """

    bits_per_weight: float
    by: int
    start: float = 0.0
    step: int = 0
    multiplier: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.bits_per_weight < 64:
            raise InvalidArgumentError(f"bits_per_weight is above 0, not {self.bits_per_weight}")
        if isinstance(self.by, bool) or not isinstance(self.by, int) or self.by < 1:
            raise InvalidArgumentError(f"by is a number of training steps, not {self.by!r}")

    def wanted(self) -> float:
        done = min(1.0, self.step / self.by)
        return self.start * (self.bits_per_weight / self.start) ** done

    def advance(self, rate: float) -> float:
        """Returns the multiplier for this step of training, at which the rate is ``rate``."""
        if not math.isfinite(rate):
            raise FloatingPointError("the bits per weight are not finite; was the loss finite?")
        if self.start == 0:
            self.start = max(rate, self.bits_per_weight)
        self.step += 1
        change = (rate / self.wanted()) ** _GAIN
        self.multiplier = min(max(self.multiplier * change, _LEAST), _MOST)
        return self.multiplier

    def state_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
