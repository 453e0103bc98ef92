"""What one rank of the benchmark does: it trains the small GPT under FSDP2."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.nn import functional

from common import data, models

RANKS = 4
BATCH, LENGTH = 8, 64


@dataclass(frozen=True)
class Kind:
    """How ranks communicate.

    Attributes:
        name: in tables.
        weights: whether all-gathers are compressed.
        gradients: the max_error of reduce-scatters; None: they are not compressed.
    """

    name: str
    weights: bool
    gradients: float | None


def train(rank: int, store: str, kind: Kind, out: str, steps: int) -> None:
    """Trains from the checkpoint at step 950; rank 0 writes what happened to the file `out`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    model = load_model()
    gather, reduce = compress(model, kind)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
    with np.load(data.data_path("wikitext2_tokens.npz")) as stored:
        tokens = torch.from_numpy(stored["train"].astype(np.int64))
    generator = torch.Generator().manual_seed(rank)
    losses, seconds = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        at = torch.randint(len(tokens) - LENGTH - 1, (BATCH,), generator=generator)
        rows = torch.stack([tokens[i : i + LENGTH + 1] for i in at.tolist()])
        logits = model(rows[:, :-1]).float()
        loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
        losses.append(float(loss.detach()))
    sums = [float(p.full_tensor().detach().double().sum()) for p in model.parameters()]
    if rank == 0:
        result = {
            "losses": losses,
            "sums": sums,
            "seconds": statistics.median(seconds[1:]),
            "weights": [gather.sent_bytes, gather.dense_bytes],
            "gradients": [sum(t.sent_bytes for t in reduce), sum(t.dense_bytes for t in reduce)],
        }
        Path(out).write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()  # a process that ends at once may abort (docs/distributed.md)
    dist.destroy_process_group()


def load_model() -> torch.nn.Module:
    """The GPT of the checkpoint at step 950, in shards, with forward passes in BF16."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = models.Gpt()
    state = load_file(data.data_path("gpt_step00950.safetensors"))
    begin = "model."
    model.load_state_dict({n[len(begin) :]: t for n, t in state.items() if n.startswith(begin)})
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model.h:
        fully_shard(layer, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def compress(model: torch.nn.Module, kind: Kind) -> tuple[Any, list[Any]]:
    """Compresses what ranks send; returns what is sent of weights, and of gradients."""
    from cfck.distributed import CompressedAllGather, CompressedReduceScatter, Traffic
    from torch.distributed.fsdp import FSDPModule

    gather, reduce = CompressedAllGather(), []
    for module in model.modules():
        if not isinstance(module, FSDPModule):
            continue
        if kind.weights:
            module.set_custom_all_gather(gather)
        if kind.gradients is not None:
            reduce.append(CompressedReduceScatter(kind.gradients))
            module.set_custom_reduce_scatter(reduce[-1])
    return gather.traffic if kind.weights else Traffic(), [one.traffic for one in reduce]
