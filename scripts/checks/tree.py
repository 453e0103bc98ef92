"""The sources of the repository, and how a check says what is wrong with them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CPP = frozenset({".hpp", ".cpp", ".h", ".inl", ".inc", ".cu", ".cuh"})
PYTHON = frozenset({".py", ".pyi"})
# Generated tables: only their generators are read by people.
GENERATED = frozenset({".inc"})


@dataclass(frozen=True, order=True)
class Problem:
    """A place, and what to do there."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def _is_ours(folder: str, is_top: bool) -> bool:
    """Whether a folder belongs to the sources: hidden ones and builds do not."""
    if folder.startswith(".") or folder == "__pycache__" or folder.endswith(".egg-info"):
        return False
    return not (is_top and (folder.startswith("build") or folder == "dist"))


def files(root: Path, suffixes: frozenset[str]) -> Iterator[str]:
    """The paths of all sources with one of these suffixes, relative to `root`, sorted."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if _is_ours(name, Path(folder) == root)]
        for name in names:
            if Path(name).suffix in suffixes:
                found.append(Path(folder, name).relative_to(root).as_posix())
    return iter(sorted(found))


def run(description: str, check: Callable[[Path], Iterable[Problem]]) -> int:
    """Prints the problems of a tree; the exit code is 1 if there are any."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=REPOSITORY, help="of the sources")
    root = parser.parse_args().root.resolve()
    problems = sorted(check(root))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0
