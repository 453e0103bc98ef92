"""Checks that every header compiles alone: that it includes what it needs.

A header that its own source includes first is left to the build, which compiles just that. Of the
others, one that did compile is not compiled again until it, a header of the repository that it
includes, or the compiler changes: build/checks/headers.json remembers it by their hash, without
comments.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import cpp
import includes
import tree
from tree import Problem

COMPILER = os.environ.get("CXX", "c++")
FLAGS = ["-std=c++20", "-fsyntax-only", "-fvisibility=hidden", "-w", "-x", "c++", "-"]
MEMORY = Path("build/checks/headers.json")
IS_X86 = platform.machine() in ("x86_64", "AMD64")
HEADER_FOLDERS = [".", "include", "tests", *includes.ADAPTERS]


# Flags that headers of one level of the CPU are compiled with; neon needs none.
LEVEL_FLAGS = {
    "v3": ["-march=x86-64-v3"],
    "v4": ["-march=x86-64-v4"],
    "x86": ["-march=x86-64-v4"],
    "v4_vbmi": ["-march=x86-64-v4", "-mavx512vbmi", "-mavx512vbmi2", "-mavx512vnni"],
}


def level_of(path: str) -> str | None:
    """The level of the CPU in a file's name: neon, v3, v4, v4_vbmi, x86."""
    match = re.search(r"_(neon|v3|v4_vbmi|v4|x86)(_|\.)", Path(path).name)
    return match[1] if match else None


def is_for_this_cpu(path: str) -> bool:
    """Whether this machine can compile a header."""
    level = level_of(path)
    return level is None or (level != "neon") == IS_X86


@cache
def nanobind_folders() -> list[str]:
    """Where nanobind and Python have their headers; none if nanobind is not installed."""
    command = [sys.executable, "-m", "nanobind", "--include_dir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return []
    return [done.stdout.strip(), sysconfig.get_paths()["include"]]


@cache
def hdf5_folders() -> list[str]:
    """Where libhdf5 has its headers: Debian keeps those of several builds apart."""
    folders = ("/usr/include/hdf5/serial", "/usr/include")
    return [folder for folder in folders if Path(folder, "hdf5.h").exists()][:1]


@cache
def torch_folders() -> list[str]:
    """Where the torch of this Python has its headers."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return []
    headers = Path(spec.submodule_search_locations[0], "include")
    return [str(headers), str(headers / "torch/csrc/api/include")]


# Rooms whose headers need those of another library, and where that has them.
FOREIGN: dict[str, Callable[[], list[str]]] = {
    "python_bindings/": nanobind_folders,
    "hdf5/archive/": hdf5_folders,
    "hdf5/chunks/": hdf5_folders,
    "hdf5/library/": hdf5_folders,
    "hdf5/reader/": hdf5_folders,
    "tests/hdf5/": hdf5_folders,
    "libtorch/": torch_folders,
    "tests/libtorch/": torch_folders,
}


def foreign_folders(path: str) -> list[str] | None:
    """The folders of the other library that a header needs, if it needs one."""
    for room, folders in FOREIGN.items():
        if path.startswith(room):
            return folders()
    return None


def command_for(path: str) -> list[str]:
    """The compiler with its options."""
    command = [COMPILER, *(f"-I{folder}" for folder in HEADER_FOLDERS)]
    command += LEVEL_FLAGS.get(level_of(path) or "", [])
    command += [part for folder in foreign_folders(path) or [] for part in ("-isystem", folder)]
    return command + FLAGS


def is_left_to_the_build(root: Path, path: str) -> bool:
    """Whether the source of the same name includes the header before anything else."""
    source = (root / path).with_suffix(".cpp")
    if not source.exists():
        return False
    first = next(cpp.tokens(source.read_text(encoding="utf-8")), None)
    included = cpp.includes(first.text) if first else []
    return [(include.path, include.quoted) for include in included] == [(path, True)]


def compile_alone(root: Path, path: str) -> Problem | None:
    """Returns the messages of the compiler about a header."""
    done = subprocess.run(
        command_for(path), input=f'#include "{path}"\n', cwd=root,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    match = re.match(r"([^:]+):(\d+):(?:\d+:)? \w* ?error: (.*)", (errors or [""])[0])
    place, line, message = match.groups() if match else (path, "1", done.stderr.strip()[:300])
    where = "" if place == path else f" (in {place}:{line})"
    line = line if place == path else "1"
    return Problem(
        path, int(line), f"does not compile alone: {message}{where}; include what declares it"
    )


def token_hash(text: str) -> str:
    """A hash of what the compiler sees: comments and layout do not count."""
    tokens = "\n".join(token.text for token in cpp.tokens(text))
    return hashlib.sha256(tokens.encode()).hexdigest()


def keys(root: Path, headers: list[str]) -> dict[str, str]:
    """A hash for each header: of it, of all that it includes, of the command."""
    graph = includes.Graph(root)
    beside: dict[str, set[str]] = {}
    for path, _, target in graph.arrows:
        beside.setdefault(path, set()).add(target)
    hashes = {path: token_hash((root / path).read_text(encoding="utf-8")) for path in graph.files}
    version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    found = {}
    for header in headers:
        reached, left = set(), [header]
        while left:
            path = left.pop()
            if path not in reached:
                reached.add(path)
                left += beside.get(path, ())
        parts = [version.stdout, *command_for(header), *(p + hashes[p] for p in sorted(reached))]
        found[header] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return found


def remembered(root: Path) -> dict[str, str]:
    """The hashes of the headers that compiled."""
    try:
        return dict(json.loads((root / MEMORY).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def check(root: Path) -> Iterator[Problem]:
    """All headers of a tree, as many at a time as there are processors."""
    headers = [path for path in tree.files(root, frozenset({".hpp"})) if is_for_this_cpu(path)]
    headers = [path for path in headers if not is_left_to_the_build(root, path)]
    skipped = [path for path in headers if foreign_folders(path) == []]
    headers = [path for path in headers if path not in skipped]
    if skipped:
        text = f"SKIPPED {len(skipped)} headers: what they include is not installed"
        print(f"{text}, for example for {skipped[0]}", file=sys.stderr)
    now, before = keys(root, headers), remembered(root)
    changed = [path for path in headers if before.get(path) != now[path]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda path: compile_alone(root, path), changed))
    wrong = {problem.path for problem in found if problem}
    (root / MEMORY).parent.mkdir(parents=True, exist_ok=True)
    good = {path: key for path, key in now.items() if path not in wrong}
    (root / MEMORY).write_text(json.dumps(good, indent=0), encoding="utf-8")
    yield from filter(None, found)


if __name__ == "__main__":
    sys.exit(tree.run(str(__doc__), check))
