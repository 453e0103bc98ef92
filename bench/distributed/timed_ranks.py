"""What one rank of the benchmark does: it times steps of the small GPT, in a network of its own."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from common import data
from distributed import gpt_ranks, network, replica_ranks

# DistributedDataParallel makes its buckets anew after the first step, and PowerSGD begins then.
WARM_ROUNDS = 1
# Ranks meet so often, to be timed; what they need between meetings is computed from that.
TIMED_EVERY = 4
MOMENTUM = 0.9
POWER_SGD_RANK = 4
# With two buckets PowerSGD starts collectives in an order that depends on timing, and gloo aborts.
ONE_BUCKET = 100  # MB


@dataclass(frozen=True)
class Timed:
    """A step.

    Attributes:
        seconds: of a step.
        sent: bytes that rank 0 sends in a step, with the headers of TCP and IP.
    """

    seconds: float
    sent: float


# A model as it is called, and what follows a backward pass.
Training = tuple[torch.nn.Module, Callable[[], object]]


def train(
    rank: int, store: str, ways: list[str], out: str, spaces: list[str], limits: list[int],
    n_rounds: int,
) -> None:  # fmt: skip
    """Times a step of each way at each limit, and so in turns; rank 0 writes the file `out`.

    What else the machine does then slows all of them alike. The file has, for each limit in Mbit/s,
    Timed as a dict by way.
    """
    torch.set_num_threads(1)
    network.enter(spaces[rank])
    os.environ["GLOO_SOCKET_IFNAME"] = network.INTERFACE
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=len(spaces)
    )
    trainings = {way: WAYS[way]() for way in ways}
    with np.load(data.data_path("wikitext2_tokens.npz")) as stored:
        tokens = torch.from_numpy(stored["train"].astype(np.int64))
    generator = torch.Generator().manual_seed(rank)
    steps: list[tuple[int, str, Timed]] = []
    for megabits in limits * (WARM_ROUNDS + n_rounds):
        dist.barrier()
        if rank == 0:
            network.limit(spaces, megabits)
        for way, (called, finish) in trainings.items():
            rows = replica_ranks.texts(tokens, generator)
            dist.barrier()
            sent, begin = network.sent_bytes(), time.perf_counter()
            replica_ranks.loss_of(called, rows).backward()
            finish()
            seconds = time.perf_counter() - begin
            steps.append((megabits, way, Timed(seconds, network.sent_bytes() - sent)))
    if rank == 0:
        found = typical(steps, limits)
        Path(out).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def typical(
    steps: list[tuple[int, str, Timed]], limits: list[int]
) -> dict[int, dict[str, dict[str, float]]]:
    """A step of each way at each limit, of all that were timed, warm-up included."""
    found: dict[int, dict[str, dict[str, float]]] = {limit: {} for limit in limits}
    for way in dict.fromkeys(way for _, way, _ in steps):
        own = [(limit, step) for limit, one, step in steps if one == way]
        for limit in limits:
            alone, meetings = [], []
            for at, (other, step) in enumerate(own):
                if other == limit and at >= WARM_ROUNDS * len(limits):
                    is_meeting = way == LOCAL and (at + 1) % TIMED_EVERY == 0
                    (meetings if is_meeting else alone).append(step)
            one = _usual(alone)
            if meetings:
                one = _mixed(one, _usual(meetings), 1 / replica_ranks.EVERY)
            found[limit][way] = asdict(one)
    return found


def _usual(steps: list[Timed]) -> Timed:
    """Others on the machine only ever slow a step, so that a quarter of them are faster."""
    seconds = sorted(step.seconds for step in steps)
    return Timed(seconds[len(seconds) // 4], statistics.median(step.sent for step in steps))


def _mixed(one: Timed, other: Timed, share: float) -> Timed:
    return Timed(
        one.seconds + share * (other.seconds - one.seconds),
        one.sent + share * (other.sent - one.sent),
    )


def _sgd(model: torch.nn.Module, momentum: float) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), replica_ranks.LEARNING_RATE, momentum)

    def finish() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return finish


def _replicas(
    hook: Callable[..., Any] | None = None, state: Any = None, megabytes: int | None = None
) -> Training:
    model = replica_ranks.load_model(replica_ranks.Kind("timed"))
    ddp = DistributedDataParallel(model, bucket_cap_mb=megabytes)
    if hook is not None:
        ddp.register_comm_hook(state, hook)
    return ddp, _sgd(model, MOMENTUM)


def _power_sgd() -> Training:
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=POWER_SGD_RANK, start_powerSGD_iter=2
    )
    return _replicas(powerSGD_hook.powerSGD_hook, state, ONE_BUCKET)


def _sparse(ratio: float) -> Training:
    from cfck.distributed import GradientCompression

    model = replica_ranks.load_model(replica_ranks.Kind("timed"))
    state = GradientCompression(model, ratio, momentum=MOMENTUM)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    return ddp, _sgd(model, 0.0)


def _local() -> Training:
    from cfck.distributed import LocalSteps

    model = replica_ranks.load_model(replica_ranks.Kind("timed"))
    local, optimize = LocalSteps(model, TIMED_EVERY), _sgd(model, MOMENTUM)

    def finish() -> None:
        optimize()
        local.step()

    return model, finish


def _fsdp(is_compressed: bool) -> Training:
    model = gpt_ranks.load_model()
    gradients = 0.0 if is_compressed else None
    gpt_ranks.compress(model, gpt_ranks.Kind("timed", is_compressed, gradients))
    return model, _sgd(model, MOMENTUM)


DENSE, F16, POWER_SGD = "dense", "torch's F16 hook", f"torch's PowerSGD, rank {POWER_SGD_RANK}"
SPARSE, SPARSER = "sparse, 1 %", "sparse, 0.1 %"
LOCAL = f"local steps, {replica_ranks.EVERY}"
SHARDED, LOSSLESS = "FSDP2 in BF16", "FSDP2 in BF16, lossless"
WAYS: dict[str, Callable[[], Training]] = {
    DENSE: _replicas,
    F16: lambda: _replicas(default_hooks.fp16_compress_hook),
    POWER_SGD: _power_sgd,
    SPARSE: lambda: _sparse(0.01),
    SPARSER: lambda: _sparse(0.001),
    LOCAL: _local,
    SHARDED: lambda: _fsdp(is_compressed=False),
    LOSSLESS: lambda: _fsdp(is_compressed=True),
}
