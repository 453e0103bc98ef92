"""The manifest of a folder: which versions it has, and which files these are made of
(docs/sync.md)."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import secrets
from typing import Any

from .._common.files import read_file
from .._common.text import shown
from ..errors import CorruptError, InvalidArgumentError, LimitExceededError, UnsupportedError

FORMAT = "cfck-sync"
FORMAT_VERSION = 1
KEYFRAME = "keyframe"
PATCH = "patch"

# Whoever can write to the folder decides how long a manifest is, and followers decode it in memory.
MAX_BYTES = 16 << 20
# So many versions fit into that, whatever their name: at most twice as many are kept.
MAX_KEPT = 20_000

# Names become those of files, beside which hidden ones are written.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HISTORY = re.compile(r"[0-9a-f]{32}")
# A version is a positive number of so many digits at most.
_MAX_VERSION = 10**18 - 1


@dataclasses.dataclass(frozen=True)
class Entry:
    """A version: a file, and what it is applied to.

    Attributes:
        version: its number.
        kind: KEYFRAME, or PATCH for one that is stored against the version before it.
        base: that version; None for a keyframe.
        n_bytes: length of the file.
        digest: of all weights of the version, in hexadecimal.
    """

    version: int
    kind: str
    base: int | None
    n_bytes: int
    digest: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The kept versions, oldest first. The first one is a keyframe, and the base of each patch is
    the version before it.

    Attributes:
        name: what the files are called.
        history: a random number for all versions that follow each other. Another one in the same
            folder means that numbers begin again.
    """

    name: str
    history: str
    entries: tuple[Entry, ...] = ()

    @classmethod
    def new(cls, name: str) -> Manifest:
        return cls(name, secrets.token_hex(16))

    @property
    def newest(self) -> Entry | None:
        return self.entries[-1] if self.entries else None

    def files(self) -> set[str]:
        return {file_name(self.name, entry.version) for entry in self.entries}

    def with_entry(self, entry: Entry, keep: int) -> Manifest:
        """With one version more, and without those that none of the newest ``keep`` needs."""
        entries = (*self.entries, entry)
        first = max(0, len(entries) - keep)
        while entries[first].kind != KEYFRAME:
            first -= 1
        return dataclasses.replace(self, entries=entries[first:])

    def patches_since_keyframe(self) -> int:
        """Of the newest version."""
        count = 0
        while self.entries[-1 - count].kind != KEYFRAME:
            count += 1
        return count

    def encoded(self) -> bytes:
        """As it is stored."""
        versions = [
            {
                "version": entry.version,
                "file": file_name(self.name, entry.version),
                "kind": entry.kind,
                "base": entry.base,
                "bytes": entry.n_bytes,
                "digest": entry.digest,
            }
            for entry in self.entries
        ]
        head = {"format": FORMAT, "format_version": FORMAT_VERSION}
        text = json.dumps(
            {**head, "name": self.name, "history": self.history, "versions": versions}, indent=1
        )
        return f"{text}\n".encode()


def check_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name is str, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"name is {shown(repr(name))}; it may have letters of ASCII, digits, underscores, dots "
            "and dashes, at most 100, and begins with one of the first three"
        )
    return name


def check_version(version: int) -> None:
    if not 0 < version <= _MAX_VERSION:
        raise InvalidArgumentError(f"version is {version}; versions are from 1 to {_MAX_VERSION}")


def file_name(name: str, version: int) -> str:
    return f"{name}-{version}.cfck"


def manifest_name(name: str) -> str:
    return f"{name}-manifest.json"


def version_of_file(name: str, file: str) -> int | None:
    """The version that a file is of, by its name; None for one that is not ours."""
    found = re.fullmatch(re.escape(name) + r"-([1-9]\d{0,17})\.cfck", file, re.ASCII)
    return int(found[1]) if found else None


def read_manifest(folder: str, name: str) -> Manifest | None:
    """The manifest of a folder; None where there is none.

    Raises:
        CorruptError: what is there is none.
        UnsupportedError: a newer version of cfck wrote it.
        IoError: it cannot be read.
    """
    path = os.path.join(folder, manifest_name(name))
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except LimitExceededError:
        raise _damaged(path, f"it has more than {MAX_BYTES} bytes") from None
    return _decoded(data, path, name)


def _decoded(data: bytes, path: str, name: str) -> Manifest:
    try:
        # Numbers of a million digits would take long.
        fields = json.loads(data, parse_int=lambda digits: int(digits) if len(digits) < 20 else -1)
    except (ValueError, RecursionError):
        raise _damaged(path, "it is not JSON") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise _damaged(path, f'it has no "format": "{FORMAT}"')
    number = fields.get("format_version")
    if type(number) is not int or number < 1:
        raise _damaged(path, "its format_version is not a positive number")
    if number > FORMAT_VERSION:
        raise UnsupportedError(
            f"{path} has version {number} of the format of manifests, and this cfck knows version "
            f"{FORMAT_VERSION} at most; install a newer cfck"
        )
    history, versions = fields.get("history"), fields.get("versions")
    if fields.get("name") != name:
        raise _damaged(path, f"it is not that of {name!r}")
    if not isinstance(history, str) or not _HISTORY.fullmatch(history):
        raise _damaged(path, "its history is not 32 hexadecimal digits")
    if not isinstance(versions, list) or not versions:
        raise _damaged(path, "it has no list of versions")
    entries: list[Entry] = []
    for one in versions:
        entries.append(_entry(one, name, entries[-1] if entries else None, path))
    return Manifest(name, history, tuple(entries))


def _entry(fields: Any, name: str, before: Entry | None, path: str) -> Entry:
    if not isinstance(fields, dict):
        raise _damaged(path, "one of its versions is not an object")
    version, kind, base = (fields.get(key) for key in ("version", "kind", "base"))
    n_bytes, digest = fields.get("bytes"), fields.get("digest")
    last = before.version if before else 0
    if type(version) is not int or not last < version <= _MAX_VERSION:
        raise _damaged(path, f"version {last} is followed by {shown(repr(version))}")
    fits = kind == KEYFRAME and base is None or kind == PATCH and before and base == last
    if not fits or fields.get("file") != file_name(name, version):
        raise _damaged(path, f"its version {version} has a file, a kind and a base that do not fit")
    if type(n_bytes) is not int or n_bytes < 0:
        raise _damaged(path, f"its version {version} has no number of bytes")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _damaged(path, f"its version {version} has no digest of 64 hexadecimal digits")
    return Entry(version, str(kind), base, n_bytes, digest)


def _damaged(path: str, what: str) -> CorruptError:
    return CorruptError(f"{path} is not a manifest, or is damaged: {what}")
