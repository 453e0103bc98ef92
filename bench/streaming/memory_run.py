"""Runs MiniLM a few times and prints by how much memory grew at most, in bytes.

    python memory_run.py loaded|compressed FILE BATCH_SIZE

A program of its own, because what other models left in the memory of a process would be used again.
The peak is that of the resident set, counted from where it is before the first run, with the model
in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cfck.torch
import torch

from common import memory, models
from streaming import texts

N_RUNS = 4


def main() -> None:
    """Loads, runs, prints."""
    kind, path, batch_size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    batches = texts.random_words(batch_size, N_RUNS)
    model = models.load_minilm()
    if kind == "compressed":
        cfck.torch.compressed(model, path, strict=False)
    else:
        cfck.torch.load_model(model, path, strict=False)

    @torch.no_grad()
    def run() -> None:
        for batch in batches:
            model(**batch)

    print(memory.peak_growth(run))


if __name__ == "__main__":
    main()
