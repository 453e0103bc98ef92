"""Tensors that travel between ranks, compressed, on torch.distributed (docs/distributed.md)."""

from __future__ import annotations

from ._distributed.collectives import all_gather, broadcast
from ._distributed.compression import GradientCompression, MomentumWarning
from ._distributed.fsdp import CompressedAllGather, CompressedReduceScatter
from ._distributed.gradients import GradientCodec, SparseGradient
from ._distributed.install import FsdpCompression, compress_fsdp
from ._distributed.local_steps import LocalSteps
from ._distributed.measures import Energy, Measures
from ._distributed.selection import select_largest
from ._distributed.traffic import Traffic

__all__ = [
    "CompressedAllGather",
    "CompressedReduceScatter",
    "Energy",
    "FsdpCompression",
    "GradientCodec",
    "GradientCompression",
    "LocalSteps",
    "Measures",
    "MomentumWarning",
    "SparseGradient",
    "Traffic",
    "all_gather",
    "broadcast",
    "compress_fsdp",
    "select_largest",
]
