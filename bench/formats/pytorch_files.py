"""Reads files of torch.save as cfck does and as PyTorch does, and prints how many agree.

Usage: python bench/formats/pytorch_files.py FOLDER

FOLDER has files of torch.save, such as those that PyTorch's own test/test_serialization.py writes:
run it with torch.save replaced by a function that keeps a copy of what it wrote. Every file is
loaded by torch.load(weights_only=True), and converted by cfck convert and loaded by
load_checkpoint; the two trees must be equal, types included.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings
from typing import Any

import torch
from cfck.torch import load_checkpoint


def _parts(tree: Any, found: list[Any]) -> list[Any]:
    """All values of a tree, by their types and contents."""
    found.append(type(tree))
    if isinstance(tree, torch.Tensor):
        found += [tree.dtype, tuple(tree.shape), tree.device, tree.layout, tree.requires_grad]
        _parts(vars(tree), found)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            _parts(key, found)
            _parts(value, found)
        if vars(tree) if hasattr(tree, "__dict__") else {}:
            _parts(vars(tree), found)
    elif isinstance(tree, list | tuple):
        for value in tree:
            _parts(value, found)
    elif isinstance(tree, set):
        found.append(tree)
    else:
        found.append(repr(tree))
    return found


def _tensors(tree: Any, found: list[torch.Tensor]) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        found.append(tree)
        _tensors(vars(tree), found)
    elif isinstance(tree, dict):
        for value in tree.values():
            _tensors(value, found)
    elif isinstance(tree, list | tuple):
        for value in tree:
            _tensors(value, found)
    return found


def _same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.is_meta:
        return one.stride() == other.stride()
    if one.layout != torch.strided:
        return torch.equal(one.to_dense(), other.to_dense())
    one, other = (x.resolve_conj().resolve_neg().contiguous().reshape(-1) for x in (one, other))
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def _ties(tree: Any) -> list[int]:
    """For each tensor, the first that is the same object."""
    found = _tensors(tree, [])
    return [next(i for i, x in enumerate(found) if x is y) for y in found]


def _agree(one: Any, other: Any) -> bool:
    if _parts(one, []) != _parts(other, []) or _ties(one) != _ties(other):
        return False
    return all(map(_same_values, _tensors(one, []), _tensors(other, [])))


def _outcome(path: pathlib.Path, folder: str) -> tuple[str, str]:
    try:
        expected = torch.load(path, weights_only=True)
    except Exception:
        expected = None
    target = pathlib.Path(folder) / "file.cfck"
    done = subprocess.run(
        ["cfck", "convert", "--force", "--quiet", path, target], capture_output=True, text=True
    )
    if done.returncode:
        reason = re.sub(r"'[^']*'|\d+", "...", done.stderr.strip().splitlines()[-1])
        if "storage without a tensor" in reason:
            reason = "a storage without a tensor"
        whose = "both refuse" if expected is None else "cfck alone refuses"
        return whose, reason[-150:]
    try:
        loaded = load_checkpoint(target)
    except Exception as error:
        whose = "both refuse" if expected is None else "cfck alone refuses"
        return whose, str(error)[:100]
    if expected is None:
        return "PyTorch alone refuses", ""
    return ("equal", "") if _agree(loaded, expected) else ("different", path.name)


def main() -> None:
    """Prints a table of outcomes."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_file())
        for path in files:
            counts[_outcome(path, folder)] += 1
    print(
        f"{len(files)} files, torch {torch.__version__}\n\n| files | outcome | of |\n|---|---|---|"
    )
    for (what, of), number in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"| {number} | {what} | {of} |")


if __name__ == "__main__":
    main()
