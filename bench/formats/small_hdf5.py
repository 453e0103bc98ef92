"""Small HDF5 files, listed and loaded by two installed versions of cfck, in turns."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

import numpy as np

FILES = 1000
LISTED = """
import sys, time
from pathlib import Path
import cfck.numpy
paths = sorted(str(path) for path in Path(sys.argv[1]).iterdir())
cfck.numpy.load_file(paths[0])
begin = time.perf_counter()
for path in paths:
    for tensor in cfck.numpy.load_file(path).values():
        assert tensor.size
print(time.perf_counter() - begin)
"""


def write_files(folder: Path, n_files: int = FILES) -> None:
    """Files of some kilobytes: plain datasets, and one in compressed chunks."""
    import h5py

    rng = np.random.default_rng(0)
    for i in range(n_files):
        with h5py.File(folder / f"{i:04}.h5", "w") as file:
            for name in ("dense/kernel", "dense/bias", "norm/gamma"):
                file[name] = rng.standard_normal((16, 16)).astype("f4")
            packed = rng.integers(0, 9, (64, 32)).astype("f4")
            file.create_dataset(
                "packed", data=packed, chunks=(16, 32), compression="gzip", shuffle=True
            )


def seconds(python: Path, folder: Path) -> float:
    """What one process of this Python takes to list and load all files."""
    done = subprocess.run(
        [python, "-c", LISTED, folder], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def shown_seconds(python: Path, folder: Path, n_files: int) -> float:
    """What the program beside a Python takes to list files, each in a process of its own."""
    import time

    program = python.parent / "cfck"
    begin = time.perf_counter()
    for path in sorted(folder.iterdir())[:n_files]:
        subprocess.run([program, "show", path], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def compared(before: Path, after: Path, folder: Path, runs: int) -> dict[str, tuple[float, float]]:
    """Medians of both versions, for each way."""
    found: dict[str, tuple[list[float], list[float]]] = {
        "loaded by one process": ([], []),
        "100 shown by a process each": ([], []),
    }
    for _ in range(runs):
        for i, python in enumerate((before, after)):
            found["loaded by one process"][i].append(seconds(python, folder))
            found["100 shown by a process each"][i].append(shown_seconds(python, folder, 100))
    return {
        what: (statistics.median(old), statistics.median(new)) for what, (old, new) in found.items()
    }
