"""One tensor as bytes, and changes to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._checkpoint import Checkpoint
from ._framework import Progress, check_metadata, find_framework, framework_of
from ._save import check_threads, update_file, write_bytes
from .errors import InvalidArgumentError


def compress(tensor: Any, *, codec: str = "auto", threads: int = 0) -> bytes:
    """Compresses one tensor to bytes: a whole small file with one record, named "".

    Args:
        tensor: a torch.Tensor or numpy.ndarray of any shape and any dtype of safetensors.
        codec: "auto" (fewest bytes), "raw" or "lossless". All of them keep every bit.
        threads: worker threads; 0: the CPUs this process may use. The bytes do not depend on it.

    Raises:
        CfckError: UnsupportedError for dtypes that files cannot hold and tensors without data,
            InvalidArgumentError for sparse tensors.

    May be called from several threads at once.
    """
    return write_bytes(framework_of(tensor), {"": tensor}, None, codec=codec, threads=threads)


def decompress(
    data: Any,
    out: Any = None,
    *,
    framework: str = "numpy",
    threads: int = 0,
    verify: bool = True,
    max_decoded_bytes: int = 0,
) -> Any:
    """Returns the tensor in bytes that compress() made.

    Args:
        data: bytes, or anything with the buffer protocol.
        out: a tensor of the same dtype and shape, to be filled and returned; its library is used.
            Contiguous memory of the host is filled in place, other memory by a copy.
        framework: "numpy" or "pt", where ``out`` is not given.
        threads: worker threads; 0: the CPUs this process may use.
        verify: check the hash of every chunk.
        max_decoded_bytes: the most the tensor may occupy; 0: max(16 GiB, 64 times the data).

    Raises:
        CfckError: ChecksumError, CorruptError, TruncatedError for damaged data;
            InvalidArgumentError if ``out`` does not fit; UnsupportedError;
            LimitExceededError. After an error the contents of ``out`` are unspecified.
    """
    checkpoint = Checkpoint.from_bytes(
        data, threads=check_threads(threads), verify=verify, max_decoded_bytes=max_decoded_bytes
    )
    names = checkpoint.names()
    if names != [""]:
        raise InvalidArgumentError(
            f"these bytes are a file of {len(names)} named tensors, not one compressed tensor; "
            "cfck.torch.load and cfck.numpy.load read them"
        )
    chosen = find_framework(framework) if out is None else framework_of(out)
    return checkpoint.load_one("", chosen, None, out)


def update(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Any],
    remove: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
    *,
    codec: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
) -> None:
    """Changes a file by appending to it: what stays is not written again.

    Args:
        path: a .cfck file. Of a sharded folder, the shard.
        tensors: torch tensors or numpy arrays to add; those whose names exist are replaced.
        remove: names of tensors to remove.
        metadata: entries to set; all others stay.
        codec, threads: as in compress().
        progress: as in save_file, of the tensors added.

    The old bytes stay in the file until `cfck compact` rewrites it. A failed update leaves the
    file as it was; after a kill in the middle, `cfck repair` brings back the last good state.
    One update at a time: IoError if another one has locked the file.

    Raises:
        CfckError: NotFoundError for a name in ``remove`` that is not there, MissingFileError,
            IoError, and what save_file raises.
    """
    values = list(tensors.values()) if isinstance(tensors, Mapping) else []
    framework = framework_of(values[0]) if values else find_framework("numpy")
    if isinstance(remove, str):
        raise TypeError("remove is a collection of names, not one name")
    update_file(
        framework,
        path,
        tensors,
        remove,
        check_metadata(metadata),
        codec=codec,
        threads=threads,
        progress=progress,
    )
