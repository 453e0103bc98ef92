"""Checks how long functions and files are, and how many sources a folder holds.

A function counts from the first line of its declaration to its last, without the docstring, as
comments above a function of C++ do not count either. A folder counts by its own sources, without
those of folders in it; the forms of one source for CPU levels count as one. Tables that are
generated may have any length.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import cpp
import tree
from tree import Problem

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500
MAX_FOLDER_SOURCES = 26
# nanobind makes it of the bindings.
STUB = "python_bindings/cfck/_native.pyi"


def python_functions(text: str) -> list[cpp.Function]:
    """The functions and methods of a Python file; one inside another is part of it."""
    found: list[cpp.Function] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                last = (child.end_lineno or child.lineno) - _docstring_lines(child)
                found.append(cpp.Function(child.name, child.lineno, last))
            else:
                visit(child)

    visit(ast.parse(text))
    return found


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines its docstring has."""
    if ast.get_docstring(function) is None:
        return 0
    docstring = function.body[0]
    return (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1


def long_functions(path: str, text: str) -> Iterator[Problem]:
    """The functions of a file that are too long."""
    suffix = Path(path).suffix
    try:
        found = python_functions(text) if suffix in tree.PYTHON else cpp.functions(text)
    except cpp.Unreadable as error:
        yield Problem(path, 1, f"cannot be read: {error}; see scripts/checks/cpp.py")
        return
    for function in found:
        if function.n_lines > MAX_FUNCTION_LINES:
            yield Problem(
                path,
                function.first_line,
                f"{function.name} has {function.n_lines} lines, at most {MAX_FUNCTION_LINES} are "
                "allowed: give its steps functions of their own",
            )


def without_level(name: str) -> str:
    """The name of a file without the level of the CPU that it is for."""
    return re.sub(r"_(baseline|neon|x86|v3|v4_vbmi|v4)(?=\.)", "", name)


def check(root: Path) -> Iterator[Problem]:
    """All files and folders of a tree."""
    folders: defaultdict[str, set[str]] = defaultdict(set)
    for path in tree.files(root, tree.CPP | tree.PYTHON):
        folders[Path(path).parent.as_posix()].add(without_level(Path(path).name))
        if Path(path).suffix in tree.GENERATED or path == STUB:
            continue
        text = (root / path).read_text(encoding="utf-8")
        n_lines = text.count("\n")
        if n_lines > MAX_FILE_LINES:
            yield Problem(
                path, n_lines, f"the file has {n_lines} lines, at most {MAX_FILE_LINES} are "
                "allowed: split it by subject",
            )  # fmt: skip
        yield from long_functions(path, text)
    for folder, sources in folders.items():
        if len(sources) > MAX_FOLDER_SOURCES:
            yield Problem(
                folder,
                1,
                f"the folder has {len(sources)} sources, at most {MAX_FOLDER_SOURCES} are allowed: "
                "make rooms in it",
            )


if __name__ == "__main__":
    sys.exit(tree.run(str(__doc__), check))
