"""Applies a patch to a model in memory and prints by how much memory grew at most, in bytes.

    python memory_run.py WEIGHTS PATCH N_THREADS

A program of its own, because memory that others have freed would be used again. The peak is that of
the resident set, counted from where it is with the model and the patch in memory.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cfck.torch
import safetensors.torch


def status(name: str) -> int:
    """A size in the kernel's account of this process, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {name}")
    return int(found[1]) * 1024


def main() -> None:
    """Loads, applies, prints."""
    weights, patch, threads = sys.argv[1:]
    # Copies: what load_file gives may be a mapping of the file, with pages that come later.
    model = {name: value.clone() for name, value in safetensors.torch.load_file(weights).items()}
    data = Path(patch).read_bytes()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    changed = cfck.torch.apply(model, data, threads=int(threads))
    grown = status("VmHWM") - before
    if not changed:
        raise RuntimeError("the patch changes nothing")
    print(grown)


if __name__ == "__main__":
    main()
