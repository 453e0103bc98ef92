"""Tensors as those of a network: random, of a spread that differs from row to row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from common.targets import Goal

COLUMNS = 1024


@dataclass(frozen=True)
class Subject:
    """A file: its tensors, its options, and the rate at which a device has to decode it."""

    name: str
    dtype: torch.dtype
    n_bytes: int
    n_tensors: int
    goal: Goal | None = None
    call_goal: Goal | None = None  # for whole calls
    options: Mapping[str, Any] = field(default_factory=dict)


def gigabytes_a_second(must: float, aim: float) -> Goal:
    """A goal for a rate in GB/s."""
    return Goal(must, aim, text="{:.1f} GB/s".format)


def large(scale: float) -> list[Subject]:
    """Files of 1 GB."""
    n_bytes = int(1e9 * scale)
    return [
        Subject("lossless BF16", torch.bfloat16, n_bytes, 8, gigabytes_a_second(600, 800)),
        Subject("lossless F32", torch.float32, n_bytes, 8, gigabytes_a_second(800, 1050)),
        Subject(
            "direct F32, REL 1e-3",
            torch.float32,
            n_bytes,
            8,
            gigabytes_a_second(850, 1050),
            options={"max_rel_error": 1e-3},
        ),
        Subject(
            "direct BF16, REL 1e-2",
            torch.bfloat16,
            n_bytes,
            8,
            gigabytes_a_second(400, 500),
            options={"max_rel_error": 1e-2},
        ),
    ]


def small(scale: float) -> list[Subject]:
    """A model of 45 MB in 100 tensors."""
    n_bytes = int(45e6 * scale)
    return [
        Subject(
            "45 MB of BF16",
            torch.bfloat16,
            n_bytes,
            100,
            gigabytes_a_second(200, 300),
            gigabytes_a_second(60, 90),
        ),
        Subject(
            "45 MB of BF16, chunks of 2^16",
            torch.bfloat16,
            n_bytes,
            100,
            options={"chunk_elems": 1 << 16},
        ),
    ]


def tensors_of(subject: Subject, device: str) -> dict[str, torch.Tensor]:
    """The tensors, on the host; drawn on the device, where that takes no time."""
    row_bytes = subject.dtype.itemsize * COLUMNS
    rows = max(1, subject.n_bytes // (row_bytes * subject.n_tensors))
    generator = torch.Generator(device=device).manual_seed(0)
    tensors = {}
    for i in range(subject.n_tensors):
        spread = torch.exp2(-4 - 2 * torch.rand(rows, 1, generator=generator, device=device))
        values = torch.randn(rows, COLUMNS, generator=generator, device=device)
        tensors[f"layer{i}.weight"] = (values * spread).to(subject.dtype).cpu()
    return tensors


def bytes_of(tensors: Mapping[str, torch.Tensor]) -> int:
    """Bytes of all values."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
