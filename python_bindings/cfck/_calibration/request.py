"""The arguments of calibrate(), checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._evaluation.outputs import DISTANCES, POOLS, check_choice, check_integer
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of calibrate()."""

    inputs: Callable[[Any], Any] | None
    output: Callable[[Any], torch.Tensor] | None
    distance: Any
    pool: str
    moments: bool | None
    loss: Any
    input_shape: Sequence[int] | None
    n_examples: int
    seed: int
    cap_octaves: float
    max_dim: int
    max_moment_bytes: int

    def check(self, has_batches: bool) -> None:
        if not callable(self.distance):
            check_choice("distance", self.distance, DISTANCES)
        check_choice("pool", self.pool, POOLS)
        check_integer("n_examples", self.n_examples, 1)
        check_integer("seed", self.seed, None)
        check_integer("max_dim", self.max_dim, 0)
        check_integer("max_moment_bytes", self.max_moment_bytes, 0)
        if not (math.isfinite(self.cap_octaves) and self.cap_octaves >= 0):
            raise InvalidArgumentError(f"cap_octaves is finite and not below 0: {self.cap_octaves}")
        if self.loss is not None and not has_batches:
            raise InvalidArgumentError("a loss needs batches: gradients for noise are meaningless")
        if self.loss is not None and self.moments is False:
            raise InvalidArgumentError("loss needs moments=True")
        if self.inputs is not None and not has_batches:
            raise InvalidArgumentError("inputs= splits batches, but there are none")
        if isinstance(self.loss, str) and self.loss != "sampled":
            raise InvalidArgumentError(f'loss is a function or "sampled", not {self.loss!r}')
        if has_batches and self.input_shape is not None:
            raise InvalidArgumentError("input_shape is for generated inputs, but there are batches")
