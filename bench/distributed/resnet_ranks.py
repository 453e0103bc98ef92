"""What one rank of the benchmark does: it trains a replica of ResNet-20 on CIFAR-10."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from common import cifar_resnet, models
from training.images import varied

RANKS = 4
BATCH = 32  # of a rank
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 1e-4
JUDGED_EPOCHS = 3


@dataclass(frozen=True)
class Kind:
    """A training.

    Attributes:
        compression: the options of GradientCompression; None: communication is dense.
        seed: of the random weights, the order of the images and how they are varied.
        epochs: how many there are.
        most_steps: of an epoch.
    """

    compression: dict[str, Any] | None
    seed: int
    epochs: int
    most_steps: int = 1 << 30


def train(
    rank: int, store: str, kind: Kind, out: str, images: torch.Tensor, labels: torch.Tensor
) -> None:
    """Rank 0 writes what happened to the file `out`.

    Images are uint8 [n, 3, 32, 32], and like their labels in memory that all ranks share. Forward
    passes are in BF16, for which CPUs need two thirds of the time; weights, gradients and test
    passes are in F32.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(kind.seed)
    model = _model()
    ddp = DistributedDataParallel(model)
    state, optimizer = _communication(model, ddp, kind)
    n_steps = min(len(labels) // (RANKS * BATCH), kind.most_steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: _rate(step / n_steps, kind.epochs)
    )
    begin = time.monotonic()
    scores, epochs = [], []
    for epoch in range(kind.epochs):
        if state is not None:
            state.set_epoch(epoch)
        for batch, wanted in _batches(rank, kind.seed, epoch, n_steps, images, labels):
            with torch.autocast("cpu", torch.bfloat16):
                logits = ddp(batch)
            functional.cross_entropy(logits.float(), wanted).backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        epochs.append(round(time.monotonic() - begin, 1))
        if epoch >= kind.epochs - JUDGED_EPOCHS:
            scores.append(_top1(rank, model))
    if rank == 0:
        found: dict[str, Any] = {"top1": scores, "seconds": epochs}
        if state is not None:
            found["sent"] = [state.traffic.sent_bytes, state.traffic.dense_bytes]
        Path(out).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()  # a process that ends at once may abort (docs/distributed.md)
    dist.destroy_process_group()


def _model() -> nn.Module:
    model = cifar_resnet.CifarResNet(20)
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight)
    return model.to(memory_format=torch.channels_last)


def _communication(
    model: nn.Module, ddp: DistributedDataParallel, kind: Kind
) -> tuple[Any, torch.optim.Optimizer]:
    from cfck.distributed import GradientCompression

    if kind.compression is None:
        decay = {"momentum": MOMENTUM, "weight_decay": WEIGHT_DECAY}
        return None, torch.optim.SGD(model.parameters(), LEARNING_RATE, **decay)
    state = GradientCompression(
        model, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, **kind.compression
    )
    ddp.register_comm_hook(state, GradientCompression.hook)
    return state, torch.optim.SGD(model.parameters(), LEARNING_RATE)


def _rate(epoch: float, epochs: int) -> float:
    """The learning rate rises in the first epoch, and falls as a cosine to 0."""
    if epoch < 1:
        return max(epoch, 0.01)
    return 0.5 * (1 + math.cos(math.pi * (epoch - 1) / max(1, epochs - 1)))


def _batches(
    rank: int, seed: int, epoch: int, n_steps: int, images: torch.Tensor, labels: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Those of a rank: all ranks have the same order, and each varies its images on its own."""
    order = torch.randperm(len(labels), generator=_random(seed, epoch, RANKS))
    random = _random(seed, epoch, rank)
    for at in range(n_steps):
        begin = (at * RANKS + rank) * BATCH
        places = order[begin : begin + BATCH]
        batch = varied(images[places], random)
        yield batch.contiguous(memory_format=torch.channels_last), labels[places]


def _random(seed: int, epoch: int, what: int) -> torch.Generator:
    return torch.Generator().manual_seed((1000 * seed + epoch) * (RANKS + 1) + what)


@torch.no_grad()
def _top1(rank: int, model: nn.Module) -> float:
    """Percent of the test images, of which each rank takes a part.

    Statistics of batch norms are those of rank 0, as in the next forward pass.
    """
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)
    model.eval()
    batches = list(zip(*models.image_batches(), strict=True))
    right, n = torch.zeros(1), sum(len(labels) for _, labels in batches)
    for images, labels in batches[rank::RANKS]:
        logits = model(images.to(memory_format=torch.channels_last))
        right += (logits.argmax(1) == labels).sum()
    dist.all_reduce(right)
    model.train()
    return 100 * float(right) / n
