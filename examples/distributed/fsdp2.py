"""Trains a small language model in shards, with weights and gradients that are sent compressed.

    torchrun --nproc-per-node 4 examples/distributed/fsdp2.py --steps 100 -o gpt.cfck

It learns made-up texts, in which a word follows from the one before. Needs torch 2.8 or newer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from cfck.distributed import compress_fsdp
from cfck.torch import load_model, save_file
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path.insert(0, str(Path(__file__).parents[1]))
from train_small_gpt import Gpt, loss_of

sys.path.insert(0, str(Path(__file__).parent))
from made_up import made_up_texts, new_model

BATCH = 8  # of a rank


def main() -> None:
    """Trains, and saves the whole model as one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument(
        "--max-error", type=float, default=0.0,
        help="of gradients, as a part of their root mean square (default: they lose nothing)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("gpt.cfck"))
    options = parser.parse_args()

    dist.init_process_group("gloo")  # torchrun has set the addresses
    rank = dist.get_rank()
    model = new_model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model.h:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    compression = compress_fsdp(model, options.max_error)  # before the first step

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)  # each rank reads texts of its own
    for step in range(1, options.steps + 1):
        loss = loss_of(model, made_up_texts(BATCH))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step % 10 == 0 or step == options.steps):
            print(f"step {step}: loss {float(loss.detach()):.3f}", flush=True)

    # All ranks gather the shards, and rank 0 gets them.
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=whole)
    if rank == 0:
        print(compression.describe())
        save_file(weights, options.output)
        loaded = Gpt()
        load_model(loaded, options.output)
        with torch.no_grad():
            loss = float(loss_of(loaded, made_up_texts(BATCH)))
        print(f"{options.output}: {options.output.stat().st_size:,} bytes, loss {loss:.3f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
