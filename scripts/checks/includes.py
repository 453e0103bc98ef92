"""Checks that includes point one way, from high rooms to low ones, and in no circle.

A file belongs to the room whose name is the longest beginning of its path. It may include files of
its own room, of rooms on lower lines of ROOMS, and the public headers; rooms that share a line know
nothing of each other. Public headers include each other and the standard library only. Tests,
benchmarks and examples may include everything.

Encoding and the file know codecs only through the registry: they neither include a codec nor name
one, but for raw and lossless (BLIND).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import cpp
import tree
from tree import Problem

PUBLIC = "include/cfck"
# Public headers that need the headers of another library.
ADAPTERS = ("hdf5/archive/include", "libtorch/include")
# From low to high. HACKING.md explains what the rooms are for.
ROOMS: list[tuple[str, ...]] = [
    ("base/names",),
    ("base/forks",),
    ("base/cpu", "base/simt"),
    ("base",),
    ("base/hashing", "base/threads", "base/files"),
    ("device",),
    ("codec",),
    ("codec/common",),
    ("codec/entropy",),
    ("codec/symboliser",),
    ("codec/indices",),
    ("codec/lossless", "codec/delta", "codec/direct", "codec/rows", "spectral"),
    ("cuda",),
    ("encode/registry",),
    ("encode",),
    ("message",),
    ("gradients", "embeddings"),
    ("format/container",),
    ("format/read", "format/write"),
    ("format/update",),
    ("calibration",),
    ("model",),
    ("interop/stream", "interop/zip"),
    ("interop/stored",),
    ("interop",),
    ("hdf5/library",),
    ("hdf5/chunks",),
    ("hdf5/archive", "hdf5/filter", "libtorch"),
    ("hdf5/reader",),
    ("tools/input", "tools/measure"),
    ("tools/output",),
    ("tools/convert/compare",),
    ("tools/convert", "tools/inspect"),
    ("tools/report",),
    ("tools/spectrum",),
    ("tools/cli",),
    ("python_bindings/src",),
]
FREE = ("tests", "bench", "examples")
LINES = {room: line for line, rooms in enumerate(ROOMS) for room in rooms}

# Folders that ask the registry where codecs differ, the codecs that they may not include, and those
# that they may name.
BLIND = ("encode", "format")
CODECS = ("codec/delta", "codec/direct", "codec/rows", "spectral")
NAMED = {"kAuto", "kRaw", "kLossless"}
# Files that name a codec all the same.
SEEING = {
    # The format says what the index has of each codec, also to readers without the codec.
    "format/container/index/errors.cpp",
}

# Where each file is included: the file that does, the line, the file that is included.
Arrow = tuple[str, int, str]


def room_of(path: str) -> str | None:
    """The room of a file: the longest entry of ROOMS that its folder is, or is in."""
    folder = Path(path).parent
    for candidate in (folder, *folder.parents):
        if candidate.as_posix() in LINES:
            return candidate.as_posix()
    return None


def is_in(path: str, folder: str) -> bool:
    """Whether a file is somewhere in a folder."""
    return path.startswith(folder + "/")


class Graph:
    """The includes between the files of a tree."""

    def __init__(self, root: Path) -> None:
        """Reads every source."""
        self.files = set(tree.files(root, tree.CPP))
        self.arrows: list[Arrow] = []
        self.unknown: list[Arrow] = []  # quoted, but no file of the tree
        self.foreign: list[Arrow] = []  # in angle brackets, and no public header
        for path in sorted(self.files):
            for include in cpp.includes((root / path).read_text(encoding="utf-8")):
                target = self._find(path, include.path)
                arrow = (path, include.line, target or include.path)
                if target:
                    self.arrows.append(arrow)
                elif include.quoted:
                    self.unknown.append(arrow)
                else:
                    self.foreign.append(arrow)

    def _find(self, path: str, included: str) -> str | None:
        beside = Path(path).parent / included
        public = (f"{folder}/{included}" for folder in ("include", *ADAPTERS))
        for candidate in (included, *public, beside.as_posix()):
            if candidate in self.files:
                return candidate
        return None


def wrong_ways(graph: Graph) -> Iterator[Problem]:
    """Includes of a room that is higher, or on the same line."""
    for path, line, target in graph.arrows:
        if any(is_in(path, folder) for folder in FREE) or is_in(target, PUBLIC):
            continue
        if any(is_in(target, folder) for folder in FREE):
            yield Problem(
                path, line, f"{target} is a test, benchmark or example: no source uses one"
            )
        elif is_in(path, PUBLIC):
            yield Problem(path, line, f"public headers do not include internal ones like {target}")
        else:
            yield from _wrong_way(path, line, target)


def _wrong_way(path: str, line: int, target: str) -> Iterator[Problem]:
    """An include between two rooms."""
    own, other = room_of(path), room_of(target)
    if own is None or other is None or own == other or LINES[other] < LINES[own]:
        return
    where = "beside" if LINES[other] == LINES[own] else "above"
    yield Problem(
        path, line, f"{own} must not include {target}: the room {other} is {where} it; move what "
        "both need to a lower room, or give a new folder its line (ROOMS in "
        "scripts/checks/includes.py)",
    )  # fmt: skip


def _codecs_of(root: Path, graph: Graph, path: str) -> Iterator[tuple[int, str]]:
    """Where a file includes or names a codec, and what it does."""
    for own, line, target in graph.arrows:
        if own == path and any(is_in(target, folder) for folder in CODECS):
            yield line, f"includes {target}"
    text = list(cpp.tokens((root / path).read_text(encoding="utf-8")))
    for kind, mark, name in zip(text, text[1:], text[2:], strict=False):
        is_codec = kind.text in ("CodecId", "CodecChoice") and mark.text == "::"
        if is_codec and name.text not in NAMED:
            yield name.line, f"names {kind.text}::{name.text}"


def known_codecs(root: Path, graph: Graph) -> Iterator[Problem]:
    """Codecs that encoding or the file know, and exceptions that are none."""
    for path in sorted(graph.files):
        if not any(is_in(path, folder) for folder in BLIND):
            continue
        found = list(_codecs_of(root, graph, path))
        if path in SEEING:
            if not found:
                yield Problem(path, 1, "it names no codec: take it out of SEEING in includes.py")
            continue
        for line, what in found:
            yield Problem(
                path, line, f"{what}: ask the registry, whose codecs answer for themselves "
                "(codec/lossy.hpp, codec/codec.hpp)",
            )  # fmt: skip


def homeless(graph: Graph) -> Iterator[Problem]:
    """Files in no room."""
    for path in sorted(graph.files):
        if room_of(path) is None and not any(is_in(path, home) for home in (PUBLIC, *FREE)):
            yield Problem(path, 1, "its folder is in no room: add it to scripts/checks/includes.py")


def unresolved(graph: Graph) -> Iterator[Problem]:
    """Quoted includes of what is not here, and foreign headers in public ones."""
    for path, line, target in graph.unknown:
        yield Problem(
            path, line, f'there is no "{target}": paths begin at the root of the repository'
        )
    for path, line, target in graph.foreign:
        if is_in(path, PUBLIC) and ("/" in target or "." in target):
            yield Problem(
                path, line, f"public headers need the standard library only, not <{target}>"
            )


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of nodes that reach each other (Tarjan's algorithm)."""
    found: list[list[str]] = []
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def file_circles(graph: Graph) -> Iterator[Problem]:
    """Files that include each other."""
    arrows: defaultdict[str, set[str]] = defaultdict(set)
    for path, _, target in graph.arrows:
        arrows[path].add(target)
    for circle in circles(arrows):
        yield Problem(circle[0], 1, f"these files include each other: {', '.join(circle)}")


def folder_circles(graph: Graph) -> Iterator[Problem]:
    """Folders that include each other, and for each pair of them the includes of the rarer way."""
    between: defaultdict[tuple[str, str], list[Arrow]] = defaultdict(list)
    arrows: defaultdict[str, set[str]] = defaultdict(set)
    for arrow in graph.arrows:
        own, other = Path(arrow[0]).parent.as_posix(), Path(arrow[2]).parent.as_posix()
        if own != other and not any(is_in(arrow[0], folder) for folder in FREE):
            between[own, other].append(arrow)
            arrows[own].add(other)
    for circle in circles(arrows):
        told = f"these folders include each other: {', '.join(circle)}"
        pairs = [(own, other) for own in circle for other in circle if (own, other) in between]
        own, other = min(pairs, key=lambda pair: len(between[pair]))
        for path, line, target in between[own, other]:
            yield Problem(path, line, f"{told}; one way out is not to include {target}")


def check(root: Path) -> Iterator[Problem]:
    """All sources of a tree."""
    graph = Graph(root)
    for part in (wrong_ways, homeless, unresolved, file_circles, folder_circles):
        yield from part(graph)
    yield from known_codecs(root, graph)


if __name__ == "__main__":
    sys.exit(tree.run(str(__doc__), check))
