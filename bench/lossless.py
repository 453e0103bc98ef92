#!/usr/bin/env python3
"""Measures cfck against its peers and makes the tables in bench/results/.

    python bench/lossless.py -o bench/results/

bench/README.md says what to install, where the data come from and what every row means.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import report
import rows_size
import rows_speed
from context import Context, Row
from product import find_product

ROWS: dict[str, Row] = {
    "file": rows_size.whole_file,
    "cast": rows_size.cast_matrices,
    "records": rows_size.records,
    "parts": rows_size.parts,
    "holding": rows_size.holding,
    "sparse": rows_size.sparse,
    "speed": rows_speed.coding,
    "load": rows_speed.loading,
    "memory": rows_speed.memory,
    "inspect": rows_speed.inspecting,
    "overhead": rows_speed.overhead,
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="folder for the tables")
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated (default: all)")
    parser.add_argument("--quick", action="store_true", help="one repetition, no large file")
    parser.add_argument("--codec", default="auto", help="codec of cfck (default: auto)")
    parser.add_argument("--scratch", type=Path, help="where large temporary files may go")
    options = parser.parse_args(arguments)
    options.rows = options.rows.split(",")
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return options


def run_row(context: Context, row: str) -> None:
    """Runs a row; an error of cfck or of a peer fails the row, not the run."""
    try:
        ROWS[row](context)
    except Exception as error:
        context.say(f"FAILED {row}: {type(error).__name__}: {error}")
        context.judge(row, "-", "error", type(error).__name__, str(error), "no error", False)


def main(arguments: list[str]) -> int:
    """Runs the rows; the exit code is 1 where a target was missed."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    options = parse(arguments)
    product = find_product(codec=options.codec)
    with tempfile.TemporaryDirectory(prefix="cfck-bench-", dir=options.scratch) as scratch:
        context = Context(Path(scratch), options.quick, product)
        for row in options.rows:
            run_row(context, row)
    facts = report.machine()
    facts["cfck"] = product.version if product else "not installed"
    command = " ".join(["python bench/lossless.py", *arguments])
    if options.output:
        for path in report.write(context, facts, command, options.output):
            print(path)
    else:
        print(report.markdown(context, facts, command))
    return 1 if any(finding.verdict == "FAIL" for finding in context.findings) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
