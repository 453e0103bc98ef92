"""The driver of every command: its options, its rows, its report, its exit code."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from common import report


class Benchmark(ABC):
    """One command of `python bench`. An object of it is one run, which gathers the results."""

    name: ClassVar[str]
    # The rows that are measured, by the names that --rows takes. Each is called with the run.
    rows: ClassVar[Mapping[str, Callable[[Any], None]]]

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Prepares the run; large temporary files go to the folder `scratch`."""
        self.options = options
        self.scratch = scratch

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the options that all commands have; each adds its own to them."""
        parser.add_argument("-o", "--output", type=Path, help="folder for the tables; else printed")
        parser.add_argument("--rows", help=f"some of {','.join(cls.rows)} (default: all)")
        parser.add_argument("--quick", action="store_true", help="fewer repetitions, less data")
        parser.add_argument("--scratch", type=Path, help="where large temporary files may go")

    @classmethod
    def default_rows(cls, options: argparse.Namespace) -> list[str]:
        """The rows of a run without --rows."""
        return list(cls.rows)

    def say(self, text: str) -> None:
        """Progress goes to stderr."""
        print(text, file=sys.stderr, flush=True)

    def run(self, rows: Sequence[str]) -> None:
        """Runs the rows, one after the other."""
        for row in rows:
            self.attempt(row)

    def attempt(self, row: str) -> None:
        """Runs a row; an error of cfck or of a peer fails the row, not the run."""
        try:
            self.rows[row](self)
        except Exception as error:
            described = f"{type(error).__name__}: {error}"
            self.say(f"FAILED {row}: {described}")
            self.fail(row, described)

    @abstractmethod
    def fail(self, row: str, reason: str) -> None:
        """Notes that a row ended with an error."""

    @abstractmethod
    def failed(self) -> bool:
        """Whether a row ended with an error, or something that must be reached was not."""

    def facts(self) -> dict[str, str]:
        """Facts about the run that the report gives besides the machine."""
        return {}

    @abstractmethod
    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """The report: the texts of all files by their names."""


def parse(benchmark: type[Benchmark], arguments: Sequence[str]) -> argparse.Namespace:
    """The command line of a benchmark."""
    described = sys.modules[benchmark.__module__].__doc__ or ""
    parser = argparse.ArgumentParser(
        prog=f"python bench {benchmark.name}", description=described.splitlines()[0]
    )
    benchmark.add_options(parser)
    options = parser.parse_args(arguments)
    chosen = options.rows.split(",") if options.rows else benchmark.default_rows(options)
    if unknown := [row for row in chosen if row not in benchmark.rows]:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(benchmark.rows)}")
    options.rows = chosen
    return options


def main(benchmark: type[Benchmark], arguments: Sequence[str]) -> int:
    """Runs a benchmark; the exit code is 1 where it failed."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    options = parse(benchmark, arguments)
    with tempfile.TemporaryDirectory(prefix="cfck-bench-", dir=options.scratch) as scratch:
        run = benchmark(options, Path(scratch))
        run.run(options.rows)
        facts = report.machine() | run.facts()
    told = [_without_folder(argument) for argument in arguments]
    files = run.files(facts, " ".join(["python bench", benchmark.name, *told]))
    publish(files, options.output)
    return 1 if run.failed() else 0


def _without_folder(argument: str) -> str:
    """The argument as a report gives it, which says nothing of the folders of a machine."""
    option, equals, value = argument.rpartition("=")
    return f"{option}{equals}FOLDER" if Path(value).is_absolute() else argument


def publish(files: Mapping[str, str], folder: Path | None) -> None:
    """Writes the files of a report and prints their paths; without a folder, prints the pages."""
    if folder is None:
        print("\n".join(text for name, text in files.items() if name.endswith(".md")))
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)
