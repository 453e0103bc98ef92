"""Versions as files: whole ones, and patches, which are applied to the version before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._frameworks.framework import Framework
from .._io.archive import Archive
from .._io.save import write_bytes
from .._options.kinds import SaveBytesOptions

Tensors = dict[str, Any]


# Takes the place of patches against a base, which do not exist yet: the whole version.
def write_patch(
    framework: Framework[Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    metadata: Mapping[str, str],
    options: SaveBytesOptions,
) -> bytes:
    """The bytes of a file from which read_patch() makes ``new``, if it has ``old``."""
    return write_bytes(framework, new, metadata, options)


def read_patch(framework: Framework[Any], base: Tensors, archive: Archive) -> Tensors:
    """The tensors of a patch, which are proven. Those of the base may be overwritten, but only if
    that succeeds."""
    return archive.load_all(framework)


def is_worth_it(patch_bytes: int, keyframe_bytes: int) -> bool:
    """Whether a patch is so much smaller than a keyframe that it is better to have it."""
    return True  # as long as write_patch() writes whole versions
