"""numpy arrays in cfck files: the functions of safetensors.numpy.

BF16 and the 4, 6 and 8 bit floats are dtypes of ml_dtypes, one element per array element.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._array_values import ArrayValues
from ._arrays import NumpyFramework
from ._checkpoint import Checkpoint
from ._framework import Progress
from ._save import check_threads, write_bytes, write_file
from ._tree import Kinds, load_tree, save_tree

__all__ = ["load", "load_checkpoint", "load_file", "save", "save_checkpoint", "save_file"]

_FRAMEWORK = NumpyFramework()
_KINDS: Kinds = ((ArrayValues(), _FRAMEWORK),)


def save(
    tensor_dict: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
    *,
    codec: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
) -> bytes:
    """Saves arrays to bytes. Arguments as in save_file."""
    return write_bytes(
        _FRAMEWORK, tensor_dict, metadata, codec=codec, threads=threads, progress=progress
    )


def save_file(
    tensor_dict: Mapping[str, np.ndarray],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    codec: str = "auto",
    threads: int = 0,
    verify: bool = False,
    progress: Progress | None = None,
    fsync: bool = True,
) -> None:
    """Saves arrays to a file, which appears under its name complete or not at all.

    Args:
        tensor_dict: names to arrays of any shape, memory order and byte order; loaded arrays are
            in C order and native. Arrays that share elements are stored once and load as views
            of one memory; other equal arrays are stored once and load separately. They must not
            change during the call.
        filename: replaced if it exists.
        metadata: str to str, kept beside the tensors.
        codec: "auto" (fewest bytes), "raw" or "lossless". All of them keep every bit.
        threads: worker threads; 0: the CPUs this process may use. The bytes do not depend on it.
        verify: decode what was written and compare it before the old file is replaced.
        progress: called as progress(done_bytes, total_bytes, name), of decoded bytes; what it
            raises ends the call.
        fsync: wait until the file is on the disk.

    Raises:
        CfckError: InvalidArgumentError, UnsupportedError (dtypes that files cannot hold),
            IoError, LimitExceededError.
        TypeError: a name or a metadata entry is no str.

    Any error, and Ctrl-C, leaves an old file as it was. May be called from several threads.
    """
    write_file(
        _FRAMEWORK,
        tensor_dict,
        filename,
        metadata,
        codec=codec,
        threads=threads,
        verify=verify,
        progress=progress,
        fsync=fsync,
    )


def load(
    data: bytes,
    *,
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
) -> dict[str, np.ndarray]:
    """Loads all arrays from bytes. Arguments as in load_file."""
    checkpoint = Checkpoint.from_bytes(
        data, threads=check_threads(threads), verify=verify, max_decoded_bytes=max_decoded_bytes
    )
    return checkpoint.load(checkpoint.names(), _FRAMEWORK, None, progress)


def load_file(
    filename: str | os.PathLike[str],
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
) -> dict[str, np.ndarray]:
    """Loads all arrays of a file, in the order in which they were saved.

    Args:
        filename: a .cfck file, a sharded folder, or its model.cfck.index.json.
        backend: "pread" or "mmap"; see safe_open.
        threads: worker threads; 0: the CPUs this process may use.
        verify: check the hash of every chunk.
        progress: called as progress(done_bytes, total_bytes, name), of decoded bytes.
        max_decoded_bytes: the most this call may decode; 0: max(16 GiB, 64 times the file).

    Returns:
        Writable arrays in C order. Those that shared elements when saved share them again (with
        the strides they had); no others do.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), ChecksumError, CorruptError,
            TruncatedError, UnsupportedError, LimitExceededError, IoError (an OSError).
    """
    checkpoint = Checkpoint.open(
        filename,
        backend,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
    )
    return checkpoint.load(checkpoint.names(), _FRAMEWORK, None, progress)


def save_checkpoint(
    obj: Any,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    codec: str = "auto",
    threads: int = 0,
    verify: bool = False,
    progress: Progress | None = None,
    fsync: bool = True,
) -> None:
    """Saves nested containers with arrays and plain values.

    The arrays become records as those of save_file, named by their path
    ("optimizer.state.12.exp_avg"), so load_file, safe_open and cfck-inspect see them; the rest
    becomes typed JSON. Nothing is pickled.

    Args:
        obj: dict, OrderedDict, Counter, list, tuple, set and frozenset of one another and of
            None, bool, int, float, complex, str, bytes, numpy scalars and numpy arrays. Keys, and
            elements of sets, are str, int, float, bool, None and tuples of these. A container or
            array that occurs twice is stored once; arrays that share elements are, too.
        filename: replaced if it exists.
        metadata: str to str, kept beside the arrays; safe_open(...).metadata() returns it.
        Others: as in save_file.

    Raises:
        CfckError: InvalidArgumentError for anything else, subclasses of these types (namedtuple,
            defaultdict) and containers that contain themselves, with the path to it;
            LimitExceededError; what save_file raises.
    """
    save_tree(
        _KINDS,
        obj,
        filename,
        metadata,
        codec=codec,
        threads=threads,
        verify=verify,
        progress=progress,
        fsync=fsync,
    )


def load_checkpoint(
    filename: str | os.PathLike[str],
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
) -> Any:
    """Loads what save_checkpoint saved: the same types, values, order and sharing.

    Args:
        filename: a file that save_checkpoint wrote.
        Others: as in load_file.

    Raises:
        CfckError: InvalidArgumentError for a file of tensors alone, UnsupportedError for one with
            values of torch (load it with cfck.torch) or that a newer version wrote, CorruptError;
            what load_file raises.
    """
    return load_tree(
        _KINDS,
        {},
        filename,
        backend,
        progress,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
    )
