"""Loads a file with one loader and compares the values: python -m gpu.probe LOADER FILE."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from gpu.loaders import LOADERS


def main(name: str, path: Path) -> None:
    """Ends with an error where the loader cannot be used."""
    from safetensors.torch import load_file

    _, loader = LOADERS[name]
    found = loader(path)
    for key, expected in load_file(path).items():
        if not found[key].is_cuda or not torch.equal(found[key].cpu(), expected):
            raise ValueError(f"{key} is not what the file has")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
