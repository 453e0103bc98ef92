#!/usr/bin/env python3
"""Measures error-bounded codecs on real weights and makes the tables in bench/results/.

    python bench/bounds.py -o bench/results/

bench/README.md says what to install and where the data come from. Sizes are bits per weight over
the float tensors of two or more dimensions, peers coding each for itself, cfck all in a file, of
which the stored bytes of the records count; a bound relative to the range is that of each tensor.
Errors are the largest |x - y| divided by the bound, in float64. Speeds are those of one matrix, all
codecs taking turns.
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
import bounded_product
import data
import report
from bounded_peers import BoundedPeer, Missing

DATASETS = ["resnet20-f32", "resnet56-f32", "minilm-f32"]
CASTS = ["minilm-2d-bf16", "minilm-2d-f16"]
CAST_BOUNDS = [1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2]
CAST_COLUMNS = ["data", "bound", "bits per weight", "lossless", "largest error / bound", "verdict"]
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


# What cfck is asked for, and the bound that peers are given.
BOUNDS: dict[str, tuple[str, float, Callable[[np.ndarray], float]]] = {
    "ABS 1e-4": ("abs", 1e-4, absolute(1e-4)),
    "REL 1e-2": ("rel", 1e-2, of_range(1e-2)),
    "REL 1e-3": ("rel", 1e-3, of_range(1e-3)),
    "REL 1e-4": ("rel", 1e-4, of_range(1e-4)),
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
    """The rows of the tables."""

    sizes: list[list[str]] = field(default_factory=list)
    casts: list[list[str]] = field(default_factory=list)
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
        for label, (kind, value, bound_of) in BOUNDS.items():
            print(f"{name}, {label}", file=sys.stderr)
            if bounded_product.is_installed():
                results.sizes.append(product_row(name, label, tensors, (kind, value)))
            for peer in peers:
                tally = Tally()
                for tensor in tensors.values():
                    tally.add(peer, np.ascontiguousarray(tensor), bound_of(tensor))
                results.sizes.append(tally.row(name, label, peer))


def product_row(
    name: str, label: str, tensors: dict[str, np.ndarray], asked: tuple[str, float]
) -> list[str]:
    """The line of cfck, from one file."""
    found = bounded_product.tally(tensors, *asked)
    cells = [f"{found.bits_per_weight:.4f}", f"{found.worst:.7f}", str(found.beyond)]
    return [name, label, "cfck", found.version, *cells]


def measure_casts(results: Results) -> None:
    """16-bit types near their own resolution: a bound must never cost bytes."""
    for name in CASTS:
        try:
            tensors = data.build(name).tensors
        except data.MissingData as error:
            print(f"SKIPPED {name}: {error}", file=sys.stderr)
            continue
        print(name, file=sys.stderr)
        lossless = bounded_product.tally(tensors, "sigma", 0).bits_per_weight
        for value in CAST_BOUNDS:
            found = bounded_product.tally(tensors, "sigma", value)
            good = found.bits_per_weight <= lossless and found.beyond == 0
            cells = [f"{bits:.4f}" for bits in (found.bits_per_weight, lossless)]
            cells += [f"{found.worst:.7f}", "pass" if good else "fail"]
            results.casts.append([name, f"{value:g} sigma", *cells])


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


def measure_speeds(peers: list[BoundedPeer], results: Results, repetitions: int) -> None:
    """Encoding and decoding of one matrix, taking turns."""
    if bounded_product.is_installed():
        product = BoundedPeer(
            "cfck",
            "",
            bounded_product.encode,
            lambda blob, shape, bound: bounded_product.decode(blob),
        )
        peers = [product, *peers]
    for name, tensor in speed_data().items():
        print(f"speed, {name}", file=sys.stderr)
        times: dict[str, list[tuple[float, float]]] = {}
        for _ in range(repetitions):
            for peer in peers:
                times.setdefault(peer.name, []).append(peer_times(peer, tensor))
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
    lines = table(COLUMNS, results.sizes)
    if results.casts:
        title = "## 16-bit types: bounds against lossless"
        lines = "\n".join([lines, "", title, "", table(CAST_COLUMNS, results.casts)])
    write_text(stem.with_suffix(".md"), "Sizes", lines)
    return [stem.with_suffix(".md"), stem.with_suffix(".csv")]


def write_speeds(results: Results, folder: Path) -> list[Path]:
    """The speeds as Markdown, named by the machine."""
    path = folder / f"bounds-speed-{report.file_stem(report.machine())}.md"
    title = f"Speed, ABS {SPEED_BOUND}, one thread, GB/s; ratios to {SPEED_BASE}"
    write_text(path, title, table(SPEED_COLUMNS, results.speeds))
    return [path]


def write_text(path: Path, title: str, lines: str) -> None:
    """A page with the facts of the machine and one table."""
    command = "python bench/bounds.py -o bench/results/"
    text = ["# Error-bounded codecs", "", f"Made by `{command}`; bench/README.md explains it.", ""]
    text += [f"- {key}: {value}" for key, value in report.machine().items()]
    text += ["", f"## {title}", "", lines]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Runs everything and writes or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--rows", choices=["sizes", "speed"], help="one table; both if not given")
    parser.add_argument("--repetitions", type=int, default=5, help="of the speeds")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    peers, results, paths = available(), Results(), []
    if options.rows != "speed":
        measure_sizes(peers, results)
        if bounded_product.is_installed():
            measure_casts(results)
        paths += write_sizes(results, options.output)
    if options.rows != "sizes":
        measure_speeds(peers, results, options.repetitions)
        paths += write_speeds(results, options.output)
    for path in paths:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
