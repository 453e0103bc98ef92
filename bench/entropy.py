#!/usr/bin/env python3
"""Measures sizes and speeds of the entropy stages and makes tables in bench/results/.

    python bench/entropy.py --build build -o bench/results/

bench/README.md says what to install and to build, where the data come from and what every row
means. The exit code is 1 where something that must be reached was not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import report
import rows_bits
import rows_disk
import rows_memcpy
import rows_stages
import targets
from context import Context
from product import find_product
from run import Run

ROWS: dict[str, Callable[[Run], None]] = {
    "sizes": rows_bits.sizes,
    "speed": rows_memcpy.speeds,
    "stages": rows_stages.stages,
    "load": rows_disk.files,
}
SIZE_COLUMNS = ["data", "codec", "stored bytes", "ratio", "bits per weight"]


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="folder for the tables")
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated (default: all)")
    parser.add_argument("--entropy", help="zstd or rans (default: what cfck does by itself)")
    parser.add_argument("--level", help="fast, default or archive (default: as cfck does)")
    build = Path(__file__).resolve().parent.parent / "build"
    parser.add_argument("--build", type=Path, default=build, help="where the C++ programs are")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--scratch", type=Path, help="where large temporary files may go")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",")
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return options


def run_row(run: Run, row: str) -> None:
    """Runs a row; an error of cfck or of a peer fails the row, not the run."""
    try:
        ROWS[row](run)
    except Exception as error:
        run.say(f"FAILED {row}: {type(error).__name__}: {error}")
        run.targets.fail(row, "-", f"{type(error).__name__}: {error}")


def tables(run: Run) -> dict[str, tuple[str, list[str], list[list[str]]]]:
    """Every table: a title, its columns, its lines; under what its file is called."""
    return {
        "targets": ("Targets", targets.COLUMNS, run.targets.lines),
        "sizes": ("Sizes", SIZE_COLUMNS, run.sizes),
        "speeds": ("Speeds, one thread, decoded bytes", rows_memcpy.SPEED_COLUMNS, run.speeds),
        "stages": ("Where the time goes", rows_stages.STAGE_COLUMNS, run.stages),
        "files": ("Files", rows_disk.FILE_COLUMNS, run.files),
    }


def markdown(run: Run, facts: dict[str, str], command: str) -> str:
    """The whole report."""
    lines = ["# The entropy stage", ""]
    lines += [f"Made by `{command}`; bench/README.md explains every row.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    lines += [f"- peer skipped: {name}: {why}" for name, why in run.context.missing_peers.items()]
    for title, columns, rows in tables(run).values():
        if rows:
            lines += ["", f"## {title}", "", report.markdown_table(columns, rows).rstrip()]
    if run.limits:
        lines += ["", "## What limits each stage", "", *(f"- {line}" for line in run.limits)]
    return "\n".join(lines) + "\n"


def write(run: Run, facts: dict[str, str], text: str, folder: Path) -> None:
    """One Markdown file and a CSV file of each table, named by the machine."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"entropy-{report.file_stem(facts)}"
    path = folder / f"{stem}.md"
    path.write_text(text, encoding="utf-8")
    print(path)
    for name, (_, columns, rows) in tables(run).items():
        if rows:
            path = folder / f"{stem}-{name}.csv"
            report.write_csv(path, facts, columns, rows)
            print(path)


def main(arguments: list[str]) -> int:
    """Runs the rows; the exit code is 1 where something that must be reached was not."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    options = parse(arguments)
    asked = {"entropy": options.entropy, "level": options.level}
    encoding = {name: value for name, value in asked.items() if value}
    product = find_product(**encoding)
    with tempfile.TemporaryDirectory(prefix="cfck-bench-", dir=options.scratch) as scratch:
        run = Run(Context(Path(scratch), options.quick, product), encoding, options.build)
        file_system = report.first_line(["stat", "-f", "-c", "%T", scratch])
        for row in options.rows:
            run_row(run, row)
    facts = report.machine()
    facts["cfck"] = product.version if product else "not installed"
    facts["options"] = " ".join(run.encoding_arguments()) or "as cfck has them by itself"
    facts["file system of the files"] = file_system
    text = markdown(run, facts, " ".join(["python bench/entropy.py", *run.encoding_arguments()]))
    print(text)
    if options.output:
        write(run, facts, text, options.output)
    return 1 if run.targets.failed() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
