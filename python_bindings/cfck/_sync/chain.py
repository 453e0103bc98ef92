"""The way to a version: from a keyframe, or from weights that are there, over patches."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterable
from typing import Any

from .._common.files import failure, read_file
from .._common.problems import with_path
from .._common.text import shown
from .._frameworks.framework import Framework
from .._io.archive import Archive
from .._options.kinds import OpenOptions
from ..errors import CorruptError, IoError, LimitExceededError, NotFoundError
from .digests import TensorInfo, digest_of, tensors_of
from .manifest import KEYFRAME, Entry, Manifest, file_name
from .patches import NO_LIMIT, read_patch


@dataclasses.dataclass
class Weights:
    """A version that was decoded and proven.

    Attributes:
        history: of the manifest that has it.
        version: its number.
        framework: of the tensors.
        tensors: on the host, by name; tied where the file ties them.
        infos: what each is.
    """

    history: str
    version: int
    framework: Framework[Any]
    tensors: dict[str, Any]
    infos: dict[str, TensorInfo]


class NotThereError(IoError):
    """A file is missing or incomplete, and may be there later."""


def best_way(manifest: Manifest, held: Weights | None, excluded: Iterable[int]) -> list[Entry]:
    """What to read, in this order, for the newest version that can be reached, with the fewest
    bytes. A keyframe comes first, or patches to ``held``; empty: there is no newer version.

    Args:
        excluded: versions whose files cannot be used.
    """
    entries, left_out = manifest.entries, frozenset(excluded)
    best: list[Entry] = []
    newest, fewest = 0, 0
    if held is not None and held.history == manifest.history:
        newest = held.version
        position = next((i for i, e in enumerate(entries) if e.version == held.version), None)
        if position is not None:
            best = _patches_from(entries, position + 1, left_out)
            newest = best[-1].version if best else newest
            fewest = sum(entry.n_bytes for entry in best)
    for position, entry in enumerate(entries):
        if entry.kind != KEYFRAME or entry.version in left_out:
            continue
        way = [entry, *_patches_from(entries, position + 1, left_out)]
        end, n_bytes = way[-1].version, sum(one.n_bytes for one in way)
        is_shorter = end == newest and best and n_bytes < fewest
        if end > newest or is_shorter:
            best, newest, fewest = way, end, n_bytes
    return best


def _patches_from(
    entries: tuple[Entry, ...], position: int, left_out: frozenset[int]
) -> list[Entry]:
    way = []
    for entry in entries[position:]:
        if entry.kind == KEYFRAME or entry.version in left_out:
            break
        way.append(entry)
    return way


def read_keyframe(
    folder: str,
    manifest: Manifest,
    entry: Entry,
    framework: Framework[Any],
    options: OpenOptions,
) -> Weights:
    """Raises NotThereError, and as load_file; CorruptError also for the file of another version."""
    path = os.path.join(folder, file_name(manifest.name, entry.version))
    _check_size(path, entry)
    # The file is read through one descriptor, so that it does not matter if it is removed now.
    archive = _opened(path, options)
    infos = _proven(archive, entry, path)
    tensors = archive.load_all(framework)
    return Weights(manifest.history, entry.version, framework, tensors, infos)


def read_next(
    folder: str, manifest: Manifest, entry: Entry, held: Weights, options: OpenOptions
) -> Weights:
    """Applies a patch to ``held``, whose tensors are overwritten, but only if all goes well. Raises
    the same errors."""
    path = os.path.join(folder, file_name(manifest.name, entry.version))
    _check_size(path, entry)
    try:
        data = read_file(path, entry.n_bytes)
    except (OSError, LimitExceededError) as error:  # it was replaced just now
        raise NotThereError(str(error)) from error
    with with_path(path):
        archive = Archive.from_bytes(data, {"max_decoded_bytes": NO_LIMIT})
    infos = _proven(archive, entry, path)
    if {n: (i.dtype, i.shape) for n, i in infos.items()} != {
        n: (i.dtype, i.shape) for n, i in held.infos.items()
    }:
        raise CorruptError(f"{path} has other names, dtypes or shapes than the version before it")
    threads = options.get("threads", 0)
    tensors = read_patch(held.framework, held.tensors, data, threads)
    return Weights(held.history, entry.version, held.framework, tensors, infos)


def load_version(
    folder: str, manifest: Manifest, entry: Entry, framework: Framework[Any]
) -> dict[str, Any]:
    """The tensors of a version of a manifest. Raises CfckError if a file that it needs cannot be
    used."""
    later = (one.version for one in manifest.entries if one.version > entry.version)
    way = best_way(manifest, None, later)
    weights = read_keyframe(folder, manifest, way[0], framework, {})
    for one in way[1:]:
        weights = read_next(folder, manifest, one, weights, {})
    return weights.tensors


def _opened(path: str, options: OpenOptions) -> Archive:
    try:
        return Archive.open(path, options)
    except NotFoundError as error:
        raise NotThereError(f"{path} is missing") from error


def _check_size(path: str, entry: Entry) -> None:
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        raise NotThereError(f"{path} is missing") from error
    except OSError as error:
        raise NotThereError(str(failure("read", path, error))) from error
    if not stat.S_ISREG(found.st_mode):
        raise NotThereError(f"{path} is not a regular file")
    if found.st_size != entry.n_bytes:
        raise NotThereError(
            f"{path} has {found.st_size} bytes, and the manifest says {entry.n_bytes}"
        )


def _proven(archive: Archive, entry: Entry, path: str) -> dict[str, TensorInfo]:
    """The tensors of a file, if they are those of this version. Reading them proves the values."""
    infos = tensors_of(archive)
    digest = digest_of(infos)
    if digest != entry.digest:
        raise CorruptError(
            f"{path} is not version {entry.version} of the manifest: the digest of its weights is "
            f"{shown(digest, 16)}, not {shown(entry.digest, 16)}"
        )
    return infos
