"""What the tensors of a version are, and the digest of all of them."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Mapping

from .._io.archive import Archive


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """A tensor without its values.

    Attributes:
        dtype: name of safetensors.
        shape: in elements.
        digest: of its values (spec/format.md), in hexadecimal.
    """

    dtype: str
    shape: tuple[int, ...]
    digest: str


def tensors_of(archive: Archive) -> dict[str, TensorInfo]:
    """The tensors that a file decodes to, as its index says, by name."""
    infos = {}
    for name in archive.names():
        record = archive.record(name)
        infos[name] = TensorInfo(record.dtype, tuple(record.shape), record.digest)
    return infos


def digest_of(tensors: Mapping[str, TensorInfo]) -> str:
    """The SHA-256, in hexadecimal, of names, dtypes, shapes and digests: docs/sync.md."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        info = tensors[name]
        shape = ",".join(map(str, info.shape))
        for text in (name, info.dtype, shape, info.digest):
            encoded = text.encode()
            found.update(struct.pack("<I", len(encoded)))
            found.update(encoded)
    return found.hexdigest()
