"""Parameters that no rank has a gradient of in a step.

DistributedDataParallel leaves the gradients of these as they are, so that nothing may be sent for
them: it would not be applied.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from .agreement import gather_numbers


def absent_gradients(bucket: GradBucket, ratio: float) -> list[bool]:
    """Which parameters of a bucket may have no gradient on this rank.

    Where gradients are zeroed, and not set to None, those of parameters that were not used are
    zeros as others may be. With a ratio below 1 nothing is lost where these wait.
    """
    pairs = zip(bucket.gradients(), bucket.parameters(), strict=True)
    return [
        (parameter.grad is None or ratio < 1) and _is_zero(gradient)
        for gradient, parameter in pairs
    ]


def absent_on_all(
    own: list[bool], group: dist.ProcessGroup | None, device: torch.device
) -> tuple[list[bool], int]:
    """Which parameters have no gradient on any rank, and how many bytes it took to tell it."""
    rows = gather_numbers(own, group, device)
    return [all(of_ranks) for of_ranks in zip(*rows, strict=True)], 8 * len(own)


def _is_zero(values: torch.Tensor) -> bool:
    return not values.numel() or all(float(one) == 0 for one in values.detach().aminmax())
