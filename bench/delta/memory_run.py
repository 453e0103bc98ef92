"""Applies a patch to a model in memory and prints by how much memory grew at most, in bytes.

    python memory_run.py WEIGHTS PATCH N_THREADS

A program of its own, because memory that others have freed would be used again. The peak is that of
the resident set, counted from where it is with the model and the patch in memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cfck.torch
import safetensors.torch

from common import memory


def main() -> None:
    """Loads, applies, prints."""
    weights, patch, threads = sys.argv[1:]
    # Copies: what load_file gives may be a mapping of the file, with pages that come later.
    model = {name: value.clone() for name, value in safetensors.torch.load_file(weights).items()}
    data = Path(patch).read_bytes()
    changed: list[str] = []
    grown = memory.peak_growth(
        lambda: changed.extend(cfck.torch.apply(model, data, threads=int(threads)))
    )
    if not changed:
        raise RuntimeError("the patch changes nothing")
    print(grown)


if __name__ == "__main__":
    main()
