"""Checks that what a file has is in the namespace of its room.

That is cfck::ROOM for the folder at the top. What the public headers declare is in cfck, wherever
it is defined. GUESTS lists the few files that fill in the interface of another room.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import tree
from tree import Problem

# Folders whose namespace has another name, the longest beginning of a path first.
NAMES = {"base/simt": "simt", "base": "detail", "python_bindings": "python"}
# Folders, and the room whose interface they fill in.
GUESTS = {
    "encode/registry": "codec",  # the list of codecs
    "spectral": "codec",  # its line of that list
    "interop": "model",  # lines of the list of formats
    "format/read/device": "cuda",  # the public interface of cfck/cuda.hpp
    "format/write/device": "cuda",  # likewise
    "message/device": "cuda",  # likewise
    "codec": "spectral",  # a type that options hand through
}
FREE = ("tests", "bench", "examples", "include")
# An inner namespace of kernels is of the namespace around it.
NAMESPACE = re.compile(r"^namespace (cfck(?:::(\w+)(?:::\w+)*)?|(\w+)) \{", re.MULTILINE)
INNER = re.compile(r"cpu_\w+|\w+_lanes")


def is_in(path: str, folder: str) -> bool:
    """Whether a file is somewhere in a folder."""
    return path.startswith(folder + "/")


def name_of(path: str) -> str:
    """The namespace of a file's room."""
    named = [name for folder, name in NAMES.items() if is_in(path, folder)]
    return named[0] if named else path.split("/", maxsplit=1)[0]


def check(root: Path) -> Iterator[Problem]:
    """Everything that is in the namespace of another room."""
    for path in tree.files(root, tree.CPP):
        if "/" not in path or any(is_in(path, folder) for folder in FREE):
            continue
        room = name_of(path)
        allowed = {room, *(name for folder, name in GUESTS.items() if is_in(path, folder))}
        text = (root / path).read_text(encoding="utf-8")
        for match in NAMESPACE.finditer(text):
            found = match[2] or match[3]
            if found is None or found in allowed or INNER.fullmatch(found):
                continue
            line = text.count("\n", 0, match.start()) + 1
            yield Problem(path, line, f"is in namespace {found}; that of this room is cfck::{room}")


if __name__ == "__main__":
    sys.exit(tree.run(str(__doc__), check))
