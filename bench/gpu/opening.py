"""Row `opening`: what a chunk costs before its first group, and in its last."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from cfck.torch import save

from common.targets import Goal
from gpu import clocks, subjects
from gpu.context import DEVICE, Context
from gpu.decoding import from_device
from gpu.subjects import Subject

GOAL = Goal(8, 5, smaller=True, text="{:.1f} µs".format)
# All have four lane sets, and one segment.
SIZES = (1 << 15, 3 << 14, 1 << 16)


def is_decoder(kernel: str) -> bool:
    """Whether a kernel decodes chunks."""
    return "cfck_lossless" in kernel


def line_through(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The value at 0, and the slope, of the line with the least squares of errors."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
    slope /= sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def measure(context: Context) -> None:
    """Decodes single chunks of different lengths: the fixed part is what one without a group would
    take."""
    points = []
    for n_values in SIZES:
        subject = Subject("a chunk", torch.bfloat16, 2 * n_values, 1)
        data = save(subjects.tensors_of(subject, DEVICE), chunk_elems=n_values)
        blob = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(DEVICE)
        time = clocks.device_time(
            lambda blob=blob: from_device(blob, verify=False),  # type: ignore[misc]
            is_decoder,
            4 * context.repeat,
        )
        if not time.kernels:
            raise RuntimeError(f"kernels cannot be timed: {time.clock}")
        points.append((n_values / 128, time.chosen * 1e6))
    fixed, slope = line_through(points)
    told = f"and {slope * 1e3:.0f} ns a group of 128 values, by one chunk alone"
    context.targets.judge("opening", "a chunk of BF16", "fixed part", fixed, GOAL, told)
