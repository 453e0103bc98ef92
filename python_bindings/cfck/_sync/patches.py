"""Patches: files that are stored against the version before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._frameworks.framework import Framework
from .._io.patching import apply, patch
from .._options.kinds import SaveBytesOptions
from ..errors import InvalidArgumentError

# A small file may stand for all weights. They are not more than those that are there, which is
# checked before.
NO_LIMIT = (1 << 63) - 1


def write_patch(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    metadata: Mapping[str, str],
    options: SaveBytesOptions,
) -> bytes:
    """The bytes of a file from which read_patch() makes ``new``, if it has ``old``."""
    return patch(old, new, metadata, options=options)


def read_patch(
    framework: Framework[Any], tensors: dict[str, Any], data: bytes, threads: int
) -> dict[str, Any]:
    """Applies a patch to tensors where they are, all of it or nothing, and returns them.

    Raises:
        MissingBaseError: they are not what the patch is stored against.
        CfckError: as apply().
    """
    try:
        apply(tensors, data, threads=threads, max_decoded_bytes=NO_LIMIT)
    except InvalidArgumentError:
        # They share memory, as in the keyframe, and are to have different values now.
        tensors = {name: framework.contiguous(tensor) for name, tensor in tensors.items()}
        apply(tensors, data, threads=threads, max_decoded_bytes=NO_LIMIT)
    return tensors
