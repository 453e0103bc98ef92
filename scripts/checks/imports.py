"""Checks that the modules of the Python package import each other in no circle, nor do its folders.

Imports inside of functions and for types alone count as well: they are how circles hide. Which
sub-package may import which says tests/python/package/test_rooms.py.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import tree
from includes import circles
from tree import Problem

HOME = "python_bindings"

# Where a module is imported: the importing module, the line, the imported module.
Arrow = tuple[str, int, str]


def modules_of(root: Path) -> dict[str, str]:
    """The path of each module, by its full name: cfck._io.save. A package is its __init__.py."""
    modules = {}
    for path in tree.files(root / HOME, frozenset({".py"})):
        parts = Path(path).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = f"{HOME}/{path}"
    return modules


def arrows_of(root: Path, modules: dict[str, str]) -> Iterator[Arrow]:
    """All imports of modules of the package by others."""
    for module, path in modules.items():
        package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            for name in _imported(node, package, modules):
                if name in modules and name != module:
                    yield module, node.lineno, name  # type: ignore[attr-defined]


def _imported(node: ast.AST, package: str, modules: dict[str, str]) -> Iterator[str]:
    """The full names of what a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
        origin = ".".join(parts + [node.module or ""]).strip(".")
        for alias in node.names:
            name = f"{origin}.{alias.name}"
            # A name that is no module is an attribute of one; native modules have no source.
            if name in modules:
                yield name
            elif not alias.name.startswith("_native"):
                yield origin


def check(root: Path) -> Iterator[Problem]:
    """The package of a tree."""
    modules = modules_of(root)
    arrows = list(arrows_of(root, modules))
    files: defaultdict[str, set[str]] = defaultdict(set)
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for module, _, other in arrows:
        files[module].add(other)
        own, foreign = (Path(modules[name]).parent.as_posix() for name in (module, other))
        # The modules that users import take from all sub-packages, and none takes from them.
        if own != foreign:
            folders[own].add(foreign)
    # `errors` is below all, and lies in the folder of what is above all.
    for others in folders.values():
        others.discard(f"{HOME}/cfck")
    for circle in circles(files):
        for module, line, other in arrows:
            if module in circle and other in circle:
                yield Problem(
                    modules[module], line, f"these modules import each other: {', '.join(circle)}; "
                    f"move what both need to a lower one, or do not import {other}",
                )  # fmt: skip
    for circle in circles(folders):
        yield Problem(circle[0], 1, f"these folders import each other: {', '.join(circle)}")


if __name__ == "__main__":
    sys.exit(tree.run(str(__doc__), check))
