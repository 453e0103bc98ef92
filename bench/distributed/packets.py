"""The sizes of packets of real gradients, and how long they take, beside operations of torch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from cfck._distributed.accumulation import Accumulated
from cfck.distributed import GradientCodec, SparseGradient, select_largest
from safetensors.torch import load_file

from common import data

REPETITIONS = 11
SPEED_VALUES = 16 << 20  # 64 MB
MOMENTUM = 0.9


def gradients() -> list[torch.Tensor]:
    """Those of the GPT at step 700, as F32."""
    path = data.data_path("gpt_gradients_step00700.safetensors")
    return [tensor.float() for tensor in load_file(path).values()]


def packet_bytes(tensors: list[torch.Tensor], ratio: float) -> int:
    """The bytes of the largest values of matrices, and of all values of vectors."""
    sent = []
    for tensor in tensors:
        flat = tensor.reshape(-1)
        n = flat.numel()
        indices = (
            select_largest(flat, math.ceil(ratio * n)) if tensor.dim() > 1 else torch.arange(n)
        )
        sent.append(SparseGradient(n, indices, flat[indices]))
    packet, _ = GradientCodec().encode(sent)
    return packet.numel()


def times(ratio: float, repetitions: int) -> dict[str, float]:
    """Microseconds for each MB of dense F32: medians, on one thread."""
    torch.set_num_threads(1)
    one = torch.cat([t.reshape(-1) for t in gradients() if t.dim() > 1])
    gradient = one.repeat(SPEED_VALUES // one.numel() + 1)[:SPEED_VALUES].contiguous()
    k = math.ceil(ratio * SPEED_VALUES)
    codec = GradientCodec()
    ours, theirs = _Ours(gradient, ratio, codec), _Torch(gradient, k)
    total = torch.zeros(SPEED_VALUES)
    calls: dict[str, Callable[[], None]] = {
        "select and pack": ours.step,
        "torch operations": theirs.step,
        "unpack and add": lambda: codec.add(ours.packet, [total], 0.25),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    megabytes = 4 * SPEED_VALUES / 1e6
    return {name: 1e6 * sorted(s[1:])[repetitions // 2] / megabytes for name, s in seconds.items()}


class _Ours:
    """What the hook does with one tensor."""

    def __init__(self, gradient: torch.Tensor, ratio: float, codec: GradientCodec) -> None:
        self.gradient, self.ratio, self.codec = gradient, ratio, codec
        self.tensor = Accumulated("gradient", torch.nn.Parameter(gradient.view(1, -1)), True)
        self.packet = torch.empty(0, dtype=torch.uint8)

    def step(self) -> None:
        taken = self.tensor.take(self.gradient, self.ratio, MOMENTUM, nesterov=False)
        self.packet, (decoded,) = self.codec.encode([taken])
        self.tensor.sent(taken, decoded, masks_momentum=True)


class _Torch:
    """What a hook that is written in Python does: values of F16 and places of int32."""

    def __init__(self, gradient: torch.Tensor, k: int) -> None:
        self.gradient, self.k = gradient, k
        self.momentum, self.velocity = torch.zeros_like(gradient), torch.zeros_like(gradient)

    def step(self) -> None:
        self.momentum.mul_(MOMENTUM).add_(self.gradient)
        self.velocity.add_(self.momentum)
        indices = torch.topk(self.velocity.abs(), self.k, sorted=False).indices
        self.packet = torch.cat(
            [
                self.velocity[indices].half().view(torch.uint8),
                indices.to(torch.int32).view(torch.uint8),
            ]
        )
        self.velocity[indices] = 0
        self.momentum[indices] = 0
