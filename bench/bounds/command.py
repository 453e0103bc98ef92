"""Measures error-bounded codecs on real weights.

    CFCK_DATA=/path/to/data python bench bounds -o bench/results

Sizes are bits per weight over the float tensors of two or more dimensions, peers coding each for
itself, cfck all in a file, of which the stored bytes of the records count; a bound relative to the
range is that of each tensor. Errors are the largest |x - y| divided by the bound, in float64.
Speeds are those of one matrix, all codecs taking turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from bounds import peers, product, sizes, speeds
from common import report
from common.driver import Benchmark

TITLE = "Error-bounded codecs"


class Bounds(Benchmark):
    """The tables of sizes and of speeds."""

    name = "bounds"
    sizes: list[list[str]]
    casts: list[list[str]]
    speeds: list[list[str]]

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Looks for the peers."""
        super().__init__(options, scratch)
        self.sizes, self.casts, self.speeds = [], [], []
        self.errors: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.peers: list[peers.BoundedPeer] = []
        for name in peers.FACTORIES:
            peer = peers.make(name)
            if isinstance(peer, peers.Missing):
                self.say(f"SKIPPED peer {name}: {peer.reason}")
                self.missing[name] = peer.reason
            else:
                self.peers.append(peer)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """How often speeds are measured."""
        super().add_options(parser)
        parser.add_argument("--repetitions", type=int, help="of the speeds (default: 5; quick 1)")

    def measure_sizes(self) -> None:
        """Bits per weight."""
        self.sizes += sizes.all_sizes(self.peers)
        if product.is_installed():
            self.casts += sizes.casts()

    def measure_speeds(self) -> None:
        """Encoding and decoding."""
        repetitions = self.options.repetitions or (1 if self.options.quick else 5)
        self.speeds += speeds.all_speeds(self.peers, repetitions)

    rows: ClassVar[Mapping[str, Callable[[Bounds], None]]] = {
        "sizes": measure_sizes,
        "speed": measure_speeds,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand among what was skipped."""
        self.errors[row] = reason

    def failed(self) -> bool:
        """No target is judged here; docs/bounds.md names them."""
        return bool(self.errors)

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """A page for each row, and the sizes as CSV."""
        head = report.page_head(TITLE, command, facts, self.missing | self.errors)
        stem = report.file_stem(facts)
        files = {}
        if "sizes" in self.options.rows:
            lines = [*head, "", "## Sizes", "", report.markdown_table(sizes.COLUMNS, self.sizes)]
            if self.casts:
                lines += ["## 16-bit types: bounds against lossless", ""]
                lines += [report.markdown_table(sizes.CAST_COLUMNS, self.casts)]
            files[f"bounds-{stem}.md"] = "\n".join(lines)
            files[f"bounds-{stem}.csv"] = report.csv_text({}, sizes.COLUMNS, self.sizes)
        if "speed" in self.options.rows:
            base = f"GB/s; ratios to {speeds.SPEED_BASE}"
            lines = [*head, "", f"## Speed, ABS {speeds.SPEED_BOUND}, one thread, {base}", ""]
            lines += [report.markdown_table(speeds.SPEED_COLUMNS, self.speeds)]
            files[f"bounds-speed-{stem}.md"] = "\n".join(lines)
        return files


COMMAND = Bounds
