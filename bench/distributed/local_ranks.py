"""What one rank of the benchmark does: it trains the small GPT with few rounds of communication."""

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
        local: the options of LocalSteps; None: dense DistributedDataParallel.
    """

    name: str
    local: dict[str, Any] | None


def train(rank: int, store: str, kind: Kind, steps: int, out: str) -> None:
    """Trains from the checkpoint at step 950; rank 0 writes what happened to the file `out`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    from cfck.distributed import LocalSteps

    model: torch.nn.Module = models.Gpt()
    state = load_file(data.data_path("gpt_step00950.safetensors"))
    begin = "model."
    model.load_state_dict({n[len(begin) :]: t for n, t in state.items() if n.startswith(begin)})
    local = None if kind.local is None else LocalSteps(model, EVERY, **kind.local)
    called = DistributedDataParallel(model) if local is None else model
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, betas=(0.9, 0.95))
    with np.load(data.data_path("wikitext2_tokens.npz")) as stored:
        tokens = torch.from_numpy(stored["train"].astype(np.int64))
        valid = torch.from_numpy(stored["valid"].astype(np.int64))
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        at = torch.randint(len(tokens) - LENGTH - 1, (BATCH,), generator=generator)
        rows = torch.stack([tokens[i : i + LENGTH + 1] for i in at.tolist()])
        loss = _loss(called, rows)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if local is not None:
            local.step()
    if rank == 0:
        result: dict[str, Any] = {"loss": _validation_loss(model, valid)}
        if local is not None:
            result["traffic"] = [local.traffic.sent_bytes, local.traffic.dense_bytes]
        Path(out).write_text(json.dumps(result), encoding="utf-8")
    dist.destroy_process_group()


def _loss(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


@torch.no_grad()
def _validation_loss(model: torch.nn.Module, tokens: torch.Tensor) -> float:
    n = (len(tokens) - 1) // LENGTH
    rows = torch.stack([tokens[i * LENGTH : i * LENGTH + LENGTH + 1] for i in range(n)])
    losses = [float(_loss(model, part)) * len(part) for part in rows.split(64)]
    return sum(losses) / n
