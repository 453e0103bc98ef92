"""What one rank of the benchmark does: it trains a replica of the small GPT."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from common import data, models

RANKS = 4
EVERY = 30
BATCH, LENGTH = 8, 64
LEARNING_RATE = 3e-4


@dataclass(frozen=True)
class Kind:
    """How ranks communicate.

    Attributes:
        name: in tables.
        local: the options of LocalSteps; None: DistributedDataParallel.
        compression: the options of its GradientCompression; None: it is dense.
        is_adam: AdamW, and otherwise SGD with momentum, which GradientCompression has, if there is
            one.
        rate: the learning rate.
        is_new: training begins with random weights, and not with the checkpoint at step 950.
        seed: of the random weights and the order of the data.
        betas: of AdamW.
        every: the steps between two meetings of LocalSteps.
        epoch_steps: the steps of an epoch of the warm-up of GradientCompression; 0: it is in none.
    """

    name: str
    local: dict[str, Any] | None = None
    compression: dict[str, Any] | None = None
    is_adam: bool = True
    rate: float = LEARNING_RATE
    is_new: bool = False
    seed: int = 0
    betas: tuple[float, float] = (0.9, 0.95)
    every: int = EVERY
    epoch_steps: int = 0


def train(rank: int, store: str, kind: Kind, out: str, steps: int) -> None:
    """Rank 0 writes what happened to the file `out`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    from cfck.distributed import GradientCompression, LocalSteps

    model = load_model(kind)
    local = None if kind.local is None else LocalSteps(model, kind.every, **kind.local)
    called = DistributedDataParallel(model) if local is None else model
    state = None
    if kind.compression is not None:
        state = GradientCompression(model, **kind.compression)
        called.register_comm_hook(state, GradientCompression.hook)
    optimizer = _optimizer(model, kind)
    with np.load(data.data_path("wikitext2_tokens.npz")) as stored:
        tokens = torch.from_numpy(stored["train"].astype(np.int64))
        valid = torch.from_numpy(stored["valid"].astype(np.int64))
    generator = torch.Generator().manual_seed(1000 * kind.seed + rank)
    for step in range(steps):
        if state is not None and kind.epoch_steps != 0 and step % kind.epoch_steps == 0:
            state.set_epoch(step // kind.epoch_steps)
        loss = loss_of(called, texts(tokens, generator))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if local is not None:
            local.step()
    if rank == 0:
        traffic = local.traffic if local is not None else state.traffic if state else None
        result: dict[str, Any] = {"loss": _validation_loss(model, valid)}
        if traffic is not None:
            result["traffic"] = [traffic.sent_bytes, traffic.dense_bytes]
        Path(out).write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()  # a process that ends at once may abort (docs/distributed.md)
    dist.destroy_process_group()


def load_model(kind: Kind) -> torch.nn.Module:
    """The GPT, of random weights or of the checkpoint at step 950."""
    torch.manual_seed(kind.seed)
    model: torch.nn.Module = models.Gpt()
    if kind.is_new:
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(parameter)
        return model
    stored = load_file(data.data_path("gpt_step00950.safetensors"))
    begin = "model."
    model.load_state_dict({n[len(begin) :]: t for n, t in stored.items() if n.startswith(begin)})
    return model


def _optimizer(model: torch.nn.Module, kind: Kind) -> torch.optim.Optimizer:
    if kind.is_adam:
        return torch.optim.AdamW(model.parameters(), kind.rate, betas=kind.betas)
    momentum = 0.9 if kind.compression is None else 0.0
    return torch.optim.SGD(model.parameters(), kind.rate, momentum=momentum)


def texts(tokens: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A batch from random places, int64 [BATCH, LENGTH + 1]."""
    at = torch.randint(len(tokens) - LENGTH - 1, (BATCH,), generator=generator)
    return torch.stack([tokens[i : i + LENGTH + 1] for i in at.tolist()])


def loss_of(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the next tokens; `rows` are of int64, [n, LENGTH + 1]."""
    return functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def _validation_loss(model: torch.nn.Module, tokens: torch.Tensor) -> float:
    n = (len(tokens) - 1) // LENGTH
    rows = torch.stack([tokens[i * LENGTH : i * LENGTH + LENGTH + 1] for i in range(n)])
    losses = [float(loss_of(model, part)) * len(part) for part in rows.split(64)]
    return sum(losses) / n
