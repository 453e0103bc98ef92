"""Measures cfck against its peers without loss: sizes, speeds, memory.

CFCK_DATA=/path/to/data python bench lossless -o bench/results
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from common.driver import Benchmark
from common.product import find_product
from lossless import programs, results, sizes, speeds
from lossless.context import Context

# Rows that can be measured on a machine that is busy: they have a page of their own.
SIZE_ROWS = {"file", "cast", "records", "parts", "holding", "sparse", "overhead"}


def row(action: Callable[[Context], None]) -> Callable[[Lossless], None]:
    """A row that works on the context."""
    return lambda run: action(run.context)


class Lossless(Benchmark):
    """The tables of targets and of measurements."""

    name = "lossless"
    rows: ClassVar[Mapping[str, Callable[[Lossless], None]]] = {
        "file": row(sizes.whole_file),
        "cast": row(sizes.cast_matrices),
        "records": row(sizes.records),
        "parts": row(sizes.parts),
        "holding": row(sizes.holding),
        "sparse": row(sizes.sparse),
        "programs": row(programs.whole_files),
        "speed": row(speeds.coding),
        "load": row(speeds.loading),
        "memory": row(speeds.memory),
        "inspect": row(speeds.inspecting),
        "overhead": row(speeds.overhead),
    }

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Looks for cfck."""
        super().__init__(options, scratch)
        self.context = Context(scratch, options.quick, find_product(codec=options.codec))

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """The codec."""
        super().add_options(parser)
        parser.add_argument("--codec", default="auto", help="codec of cfck (default: auto)")

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.context.judge(row, "-", "error", "-", reason, "no error", False)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return any(finding.verdict == "FAIL" for finding in self.context.findings)

    def facts(self) -> dict[str, str]:
        """The version of cfck."""
        product = self.context.product
        return {"cfck": product.version if product else "not installed"}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """The page, targets, measurements; of sizes alone one page."""
        return results.files(self.context, facts, command, set(self.options.rows) <= SIZE_ROWS)


COMMAND = Lossless
