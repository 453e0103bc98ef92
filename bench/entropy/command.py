"""Measures sizes and speeds of the entropy stages.

CFCK_DATA=/path/to/data python bench entropy --build build -o bench/results
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from common import report, targets
from common.driver import Benchmark
from common.product import find_product
from entropy import bits, disk, memcpy, stages, version_speeds, versions
from entropy.run import Run
from lossless.context import Context

SIZE_COLUMNS = ["data", "codec", "stored bytes", "ratio", "bits per weight"]
# Rows with pages of their own: sizes can be found on a machine that is busy.
PAGES = {
    "entropy-sizes": {"sizes", "versions"},
    "entropy-versions": {"versions", "version_speeds"},
}
BUILD = Path(__file__).resolve().parents[2] / "build"


def row(action: Callable[[Run], None]) -> Callable[[Entropy], None]:
    """A row that works on what the rows share."""
    return lambda command: action(command.shared)


class Entropy(Benchmark):
    """Tables of targets, sizes, speeds, stages and files."""

    name = "entropy"
    rows: ClassVar[Mapping[str, Callable[[Entropy], None]]] = {
        "sizes": row(bits.sizes),
        "speed": row(memcpy.speeds),
        "stages": row(stages.stages),
        "load": row(disk.files),
        "versions": row(versions.compare),
        "version_speeds": row(version_speeds.compare),
    }

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Looks for cfck."""
        super().__init__(options, scratch)
        asked = {"entropy": options.entropy, "level": options.level}
        encoding = {name: value for name, value in asked.items() if value}
        context = Context(scratch, options.quick, find_product(**encoding))
        self.shared = Run(context, encoding, options.build, options.before)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """How cfck encodes, and where the programs are."""
        super().add_options(parser)
        parser.add_argument("--entropy", help="zstd or rans (default: what cfck does by itself)")
        parser.add_argument("--level", help="fast, default or archive (default: as cfck does)")
        parser.add_argument("--build", type=Path, default=BUILD, help="where the C++ programs are")
        parser.add_argument(
            "--before",
            type=Path,
            help="a folder with an older package cfck, for rows of versions; results have its name",
        )

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.shared.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether something that must be reached was not."""
        return self.shared.targets.failed()

    def facts(self) -> dict[str, str]:
        """cfck and its options, and where files were."""
        product = self.shared.context.product
        before = self.shared.before
        return {
            "cfck": product.version if product else "not installed",
            "options": " ".join(self.shared.encoding_arguments()) or "as cfck has them by itself",
            "file system of the files": report.first_line(
                ["stat", "-f", "-c", "%T", str(self.scratch)]
            ),
        } | ({} if before is None else {"before": before.name})

    def tables(self) -> dict[str, tuple[str, list[str], list[list[str]]]]:
        """Every table: a title, its columns, its lines; under what its file is called."""
        run = self.shared
        return {
            "targets": ("Targets", targets.COLUMNS, run.targets.lines),
            "sizes": ("Sizes", SIZE_COLUMNS, run.sizes),
            "speeds": ("Speeds, one thread, decoded bytes", memcpy.SPEED_COLUMNS, run.speeds),
            "stages": ("Where the time goes", stages.STAGE_COLUMNS, run.stages),
            "files": ("Files", disk.FILE_COLUMNS, run.files),
        }

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page, and a CSV file of each table."""
        run = self.shared
        skipped = run.context.missing_peers
        lines = report.page_head("The entropy stage", command, facts, skipped)
        asked = set(self.options.rows)
        page = next((page for page, rows in PAGES.items() if asked <= rows), "entropy")
        stem = f"{page}-{report.file_stem(facts)}"
        files = {f"{stem}.md": ""}
        for name, (title, columns, rows) in self.tables().items():
            if rows:
                lines += ["", f"## {title}", "", report.markdown_table(columns, rows).rstrip()]
                files[f"{stem}-{name}.csv"] = report.csv_text(facts, columns, rows)
        if run.limits:
            lines += ["", "## What limits each stage", "", *(f"- {line}" for line in run.limits)]
        return files | {f"{stem}.md": "\n".join(lines) + "\n"}


COMMAND = Entropy
