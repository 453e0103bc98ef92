"""Gradients of each tensor, clipped before they are accumulated."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
import torch.distributed as dist

from ..errors import InvalidArgumentError
from .arguments import check_numbers
from .transport import sum_of_ranks


@dataclasses.dataclass(frozen=True)
class Clipping:
    """How gradients are clipped; at most one may be given.

    Attributes:
        value: the largest magnitude of a value.
        norm: the largest norm of a tensor, of its gradient on this rank.
        global_norm: the largest norm of a tensor, the root of the mean of its squared norms on all
            ranks: all scale it alike.
    """

    value: float | None = None
    norm: float | None = None
    global_norm: float | None = None

    def __post_init__(self) -> None:
        parts = {f"clip_{name}": one for name, one in dataclasses.asdict(self).items()}
        check_numbers(**{name: one for name, one in parts.items() if one is not None})
        given = [one for one in parts.values() if one is not None]
        if len(given) > 1:
            raise InvalidArgumentError(
                "give one of clip_value, clip_norm and clip_global_norm, not several"
            )
        if not all(math.isfinite(one) and one > 0 for one in given):
            raise InvalidArgumentError(f"gradients are clipped at a positive number, not {given}")

    @property
    def communicates(self) -> bool:
        """Whether apply() is something that ranks do together."""
        return self.global_norm is not None

    def apply(self, gradients: Sequence[torch.Tensor], group: dist.ProcessGroup | None) -> None:
        """Clips the gradients of one bucket, in place. They may have values that are not finite,
        which stay so."""
        if self.value is not None:
            for gradient in gradients:
                clipped = gradient.clamp(-self.value, self.value)
                torch.where(gradient.isinf(), gradient, clipped, out=gradient)
        elif self.norm is not None:
            for gradient in gradients:
                # Squares of large values are infinite in F32.
                norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
                _scale(gradient, float(norm), self.norm)
        elif self.global_norm is not None and gradients:
            squares = torch.stack([g.double().square().sum() for g in gradients])
            means = sum_of_ranks(squares, group) / dist.get_world_size(group)
            norms = means.sqrt().tolist()
            for gradient, norm in zip(gradients, norms, strict=True):
                _scale(gradient, norm, self.global_norm)


def _scale(gradient: torch.Tensor, norm: float, most: float) -> None:
    if math.isfinite(norm) and norm > most:
        gradient.mul_(most / norm)
