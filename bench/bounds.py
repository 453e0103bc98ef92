#!/usr/bin/env python3
"""Measures error-bounded codecs on real weights and makes the tables in bench/results/.

    python bench/bounds.py -o bench/results/

bench/README.md says what to install and where the data come from. Sizes are bits per weight over
the float tensors of two or more dimensions, each coded for itself; a bound relative to the range
is that of each tensor. Errors are the largest |x - y| divided by the bound, in float64.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import bounded_peers
import data
import report
from bounded_peers import BoundedPeer, Missing

DATASETS = ["resnet20-f32", "resnet56-f32", "minilm-f32"]
SPEED_BYTES = 64 * 2**20
COLUMNS = [
    "data", "bound", "codec", "version", "bits per weight", "largest error / bound",
    "values beyond it",
]  # fmt: skip


def absolute(bound: float) -> Callable[[np.ndarray], float]:
    """The same bound for every tensor."""
    return lambda tensor: bound


def of_range(part: float) -> Callable[[np.ndarray], float]:
    """A part of the value range of the tensor."""
    return lambda tensor: part * (float(tensor.max()) - float(tensor.min()))


BOUNDS: dict[str, Callable[[np.ndarray], float]] = {
    "ABS 1e-4": absolute(1e-4),
    "REL 1e-2": of_range(1e-2),
    "REL 1e-3": of_range(1e-3),
    "REL 1e-4": of_range(1e-4),
}


@dataclass
class Tally:
    """What a codec made of the tensors of a data set."""

    n_bytes: int = 0
    n_values: int = 0
    worst: float = 0.0
    beyond: int = 0

    def add(self, peer: BoundedPeer, tensor: np.ndarray, bound: float) -> None:
        """Encodes, decodes and compares one tensor."""
        blob = peer.encode(tensor, bound)
        error = np.abs(peer.decode(blob, tensor.shape, bound).astype(np.float64) - tensor)
        self.n_bytes += len(blob)
        self.n_values += tensor.size
        self.worst = max(self.worst, float(error.max()) / bound)
        self.beyond += int(np.count_nonzero(error > bound))

    def row(self, name: str, label: str, peer: BoundedPeer) -> list[str]:
        """The line of the table of sizes."""
        bits = 8 * self.n_bytes / self.n_values
        cells = [f"{bits:.4f}", f"{self.worst:.7f}", str(self.beyond)]
        return [name, label, peer.name, peer.version, *cells]


@dataclass
class Results:
    """The rows of both tables."""

    sizes: list[list[str]] = field(default_factory=list)
    speeds: list[list[str]] = field(default_factory=list)


def available() -> list[BoundedPeer]:
    """The peers that are installed; the others are named on stderr."""
    found = []
    for name in bounded_peers.FACTORIES:
        peer = bounded_peers.make(name)
        if isinstance(peer, Missing):
            print(f"SKIPPED peer {name}: {peer.reason}", file=sys.stderr)
        else:
            found.append(peer)
    return found


def measure_sizes(peers: list[BoundedPeer], results: Results) -> None:
    """Bits per weight of every peer on every data set."""
    for name in DATASETS:
        try:
            tensors = data.matrices(data.build(name).tensors)
        except data.MissingData as error:
            print(f"SKIPPED {name}: {error}", file=sys.stderr)
            continue
        for label, bound_of in BOUNDS.items():
            print(f"{name}, {label}", file=sys.stderr)
            for peer in peers:
                tally = Tally()
                for tensor in tensors.values():
                    tally.add(peer, np.ascontiguousarray(tensor), bound_of(tensor))
                results.sizes.append(tally.row(name, label, peer))


def measure_speeds(peers: list[BoundedPeer], results: Results, repetitions: int) -> None:
    """Encoding and decoding of 64 MB of Gaussian weights, taking turns."""
    values = np.random.default_rng(1).standard_normal(SPEED_BYTES // 4, np.float32)
    tensor = (values * np.float32(0.02)).reshape(4096, -1)
    bound = of_range(1e-3)(tensor)
    times: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in peers}
    for _ in range(repetitions):
        for peer in peers:
            start = time.perf_counter()
            blob = peer.encode(tensor, bound)
            middle = time.perf_counter()
            peer.decode(blob, tensor.shape, bound)
            times[peer.name].append((middle - start, time.perf_counter() - middle))
    for name, runs in times.items():
        rates = [tensor.nbytes / statistics.median(run[i] for run in runs) / 1e9 for i in (0, 1)]
        results.speeds.append([name, *(f"{rate:.3f}" for rate in rates)])


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(results: Results, folder: Path, command: str) -> list[Path]:
    """The tables as CSV and Markdown, named by the machine."""
    facts = report.machine()
    stem = folder / f"bounds-{report.file_stem(facts)}"
    folder.mkdir(parents=True, exist_ok=True)
    with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *results.sizes])
    text = ["# Error-bounded codecs", "", f"Made by `{command}`; bench/README.md explains it.", ""]
    text += [f"- {key}: {value}" for key, value in facts.items()]
    text += ["", "## Sizes", "", table(COLUMNS, results.sizes)]
    if results.speeds:
        title = "## Speed, 64 MB of Gaussian F32, REL 1e-3, one thread, GB/s"
        text += ["", title, "", table(["codec", "encode", "decode"], results.speeds)]
    stem.with_suffix(".md").write_text("\n".join(text) + "\n", encoding="utf-8")
    return [stem.with_suffix(".md"), stem.with_suffix(".csv")]


def main(arguments: list[str]) -> int:
    """Runs everything and writes or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--repetitions", type=int, default=5, help="of the speeds; 0: none")
    options = parser.parse_args(arguments)
    peers, results = available(), Results()
    measure_sizes(peers, results)
    if options.repetitions:
        measure_speeds(peers, results, options.repetitions)
    for path in write(results, options.output, "python bench/bounds.py -o bench/results"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
