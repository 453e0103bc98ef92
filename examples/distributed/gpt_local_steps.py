"""Trains a small language model on several ranks that meet once in 30 steps.

    torchrun --nproc-per-node 4 examples/distributed/gpt_local_steps.py --steps 300 -o run

It learns made-up texts, in which a word follows from the one before; or goes on with a model and
texts of DATA, a folder with gpt_step01000.safetensors and wikitext2_tokens.npz (bench/README.md
says what these are). Each rank saves run-RANK.cfck, with what it has not sent yet. Needs torch and
safetensors.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from cfck.distributed import LocalSteps
from cfck.torch import save_checkpoint
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parents[1]))
from train_small_gpt import LENGTH, Gpt, loss_of, perplexity, texts

sys.path.insert(0, str(Path(__file__).parent))
from made_up import made_up_texts, new_model

BATCH = 8  # of a rank


def made_up() -> tuple[Gpt, torch.Tensor, torch.Tensor]:
    """A new model, and words to learn and to judge by, the same on all ranks."""
    model = new_model()  # seeds what follows
    return model, made_up_texts(1000).flatten(), made_up_texts(50).flatten()


def stored(data: Path) -> tuple[Gpt, torch.Tensor, torch.Tensor]:
    """The same of files."""
    model, prefix = Gpt(), "model."
    weights = load_file(data / "gpt_step01000.safetensors")
    model.load_state_dict(
        {name[len(prefix) :]: t for name, t in weights.items() if name.startswith(prefix)}
    )
    with np.load(data / "wikitext2_tokens.npz") as found:
        words, judged = (
            torch.from_numpy(found[part].astype(np.int64)) for part in ("train", "valid")
        )
    return model, words, judged


def main() -> None:
    """Trains, and saves a checkpoint for each rank."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder (default: made-up texts)")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=30, help="steps between meetings")
    parser.add_argument("-o", "--output", default="run", help="run-RANK.cfck by default")
    options = parser.parse_args()

    dist.init_process_group("gloo")  # torchrun has set the addresses
    rank = dist.get_rank()
    model, words, judged = stored(options.data) if options.data else made_up()
    torch.manual_seed(rank)  # each rank reads texts of its own

    local = LocalSteps(model, every=options.every, ratio=0.02, bits=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(1, options.steps + 1):
        starts = torch.randint(len(words) - LENGTH, (BATCH,))
        loss_of(model, texts(words, starts)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if local.step() and rank == 0:  # the ranks have met, and have equal weights
            perplexity_now = perplexity(model, judged)
            print(f"step {step}: perplexity {perplexity_now:.2f}; {local.describe()}")
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "local": local.state_dict(),
    }
    save_checkpoint(checkpoint, f"{options.output}-{rank}.cfck")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
