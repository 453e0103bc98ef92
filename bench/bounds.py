#!/usr/bin/env python3
"""Measures error-bounded codecs on real weights and makes the tables in bench/results/.

    python bench/bounds.py -o bench/results/ --direct build/bench/direct_bench

bench/README.md says what to install and where the data come from. Sizes are bits per weight over
the float tensors of two or more dimensions, each coded for itself; a bound relative to the range
is that of each tensor. Errors are the largest |x - y| divided by the bound, in float64. Speeds are
those of one matrix, all codecs taking turns; the direct codec runs in a program of its own, which
times planning and encoding, and decoding, as a whole.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
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
SPEED_BOUND = 1e-4
SPEED_BASE = "SZ3, no predictor"
SPEED_COLUMNS = ["data", "codec", "encode", "decode", "encode ratio", "decode ratio"]
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


def speed_data() -> dict[str, np.ndarray]:
    """Gaussian weights and the largest tensor of MiniLM."""
    values = np.random.default_rng(1).standard_normal(SPEED_BYTES // 4, np.float32)
    tensors = {"Gauss, 64 MB": (values * np.float32(0.02)).reshape(4096, -1)}
    try:
        matrices = data.matrices(data.build("minilm-f32").tensors)
    except data.MissingData as error:
        print(f"SKIPPED minilm-f32: {error}", file=sys.stderr)
        return tensors
    name, largest = max(matrices.items(), key=lambda item: item[1].size)
    tensors[f"MiniLM, {name}"] = np.ascontiguousarray(largest)
    return tensors


def peer_times(peer: BoundedPeer, tensor: np.ndarray) -> tuple[float, float]:
    """Seconds of one encoding and one decoding."""
    start = time.perf_counter()
    blob = peer.encode(tensor, SPEED_BOUND)
    middle = time.perf_counter()
    peer.decode(blob, tensor.shape, SPEED_BOUND)
    return middle - start, time.perf_counter() - middle


def direct_times(program: Path, tensor: np.ndarray, file: Path) -> tuple[float, float]:
    """The same of the direct codec, planning included."""
    rows = str(tensor.shape[0])
    columns = str(tensor.size // tensor.shape[0])
    done = subprocess.run(
        [program, "--seconds", rows, columns, repr(SPEED_BOUND), file],
        check=True,
        capture_output=True,
    )
    seconds = json.loads(done.stdout)
    return seconds["encode"], seconds["decode"]


def measure_speeds(
    peers: list[BoundedPeer], direct: Path | None, results: Results, repetitions: int
) -> None:
    """Encoding and decoding of one matrix, taking turns."""
    with tempfile.TemporaryDirectory() as folder:
        for name, tensor in speed_data().items():
            print(f"speed, {name}", file=sys.stderr)
            file = Path(folder) / "tensor"
            tensor.tofile(file)
            times: dict[str, list[tuple[float, float]]] = {}
            for _ in range(repetitions):
                for peer in peers:
                    times.setdefault(peer.name, []).append(peer_times(peer, tensor))
                if direct is not None:
                    times.setdefault("cfck direct", []).append(direct_times(direct, tensor, file))
            results.speeds += speed_rows(name, tensor.nbytes, times)


def speed_rows(
    name: str, n_bytes: int, times: dict[str, list[tuple[float, float]]]
) -> list[list[str]]:
    """Medians in GB/s of decoded bytes, and the medians of what each run is of the base's."""
    base = times.get(SPEED_BASE)
    rows = []
    for codec, runs in times.items():
        rates = [n_bytes / statistics.median(run[i] for run in runs) / 1e9 for i in (0, 1)]
        ratios = ["", ""]
        if base is not None:
            pairs = list(zip(base, runs, strict=True))
            ratios = [f"{statistics.median(b[i] / r[i] for b, r in pairs):.2f}" for i in (0, 1)]
        rows.append([name, codec, *(f"{rate:.3f}" for rate in rates), *ratios])
    return rows


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_sizes(results: Results, folder: Path) -> list[Path]:
    """The sizes as CSV and Markdown, named by the machine."""
    facts = report.machine()
    stem = folder / f"bounds-{report.file_stem(facts)}"
    with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *results.sizes])
    write_text(stem.with_suffix(".md"), "Sizes", table(COLUMNS, results.sizes))
    return [stem.with_suffix(".md"), stem.with_suffix(".csv")]


def write_speeds(results: Results, folder: Path) -> list[Path]:
    """The speeds as Markdown, named by the machine."""
    path = folder / f"bounds-speed-{report.file_stem(report.machine())}.md"
    title = f"Speed, ABS {SPEED_BOUND}, one thread, GB/s; ratios to {SPEED_BASE}"
    write_text(path, title, table(SPEED_COLUMNS, results.speeds))
    return [path]


def write_text(path: Path, title: str, lines: str) -> None:
    """A page with the facts of the machine and one table."""
    command = "python bench/bounds.py -o bench/results/ --direct build/bench/direct_bench"
    text = ["# Error-bounded codecs", "", f"Made by `{command}`; bench/README.md explains it.", ""]
    text += [f"- {key}: {value}" for key, value in report.machine().items()]
    text += ["", f"## {title}", "", lines]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Runs everything and writes or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--rows", choices=["sizes", "speed"], help="one table; both if not given")
    parser.add_argument("--direct", type=Path, help="the program direct_bench, for its speed")
    parser.add_argument("--repetitions", type=int, default=5, help="of the speeds")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    peers, results, paths = available(), Results(), []
    if options.rows != "speed":
        measure_sizes(peers, results)
        paths += write_sizes(results, options.output)
    if options.rows != "sizes":
        measure_speeds(peers, options.direct, results, options.repetitions)
        paths += write_speeds(results, options.output)
    for path in paths:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
