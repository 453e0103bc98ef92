"""torch tensors in cfck files: the functions of safetensors.torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from ._array_values import ArrayValues
from ._arrays import NumpyFramework
from ._checkpoint import Checkpoint
from ._framework import Progress
from ._model import load_into
from ._save import check_threads, write_bytes, write_file
from ._tensors import TorchFramework
from ._torch_values import TorchValues
from ._tree import Kinds, load_tree, save_tree

__all__ = [
    "load",
    "load_checkpoint",
    "load_file",
    "load_model",
    "save",
    "save_checkpoint",
    "save_file",
    "save_model",
]

_FRAMEWORK = TorchFramework()
_KINDS: Kinds = ((TorchValues(), _FRAMEWORK), (ArrayValues(), NumpyFramework()))


def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    codec: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
) -> bytes:
    """Saves tensors to bytes. Arguments as in save_file."""
    return write_bytes(
        _FRAMEWORK, tensors, metadata, codec=codec, threads=threads, progress=progress
    )


def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    codec: str = "auto",
    threads: int = 0,
    verify: bool = False,
    progress: Progress | None = None,
    fsync: bool = True,
) -> None:
    """Saves tensors to a file, which appears under its name complete or not at all.

    Args:
        tensors: names to dense tensors of any shape and strides, on any device (those of a GPU
            are copied to the host chunk by chunk). Tensors that share elements are stored once
            and load tied; other equal tensors are stored once and load separately. They must not
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
        CfckError: InvalidArgumentError (sparse, not a tensor), UnsupportedError (meta, fake,
            quantised, nested, subclasses without memory of their own, dtypes that files cannot
            hold), IoError, LimitExceededError.
        TypeError: a name or a metadata entry is no str.

    Any error, and Ctrl-C, leaves an old file as it was. May be called from several threads.
    """
    write_file(
        _FRAMEWORK,
        tensors,
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
) -> dict[str, torch.Tensor]:
    """Loads all tensors from bytes, to the host. Arguments as in load_file."""
    checkpoint = Checkpoint.from_bytes(
        data, threads=check_threads(threads), verify=verify, max_decoded_bytes=max_decoded_bytes
    )
    return checkpoint.load(checkpoint.names(), _FRAMEWORK, None, progress)


def load_file(
    filename: str | os.PathLike[str],
    device: str | int | torch.device = "cpu",
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
) -> dict[str, torch.Tensor]:
    """Loads all tensors of a file, in the order in which they were saved.

    Args:
        filename: a .cfck file, a sharded folder, or its model.cfck.index.json.
        device: where the tensors go. They are decoded on the host and copied, at most 256 MiB or
            one tensor at a time.
        backend: "pread" or "mmap"; see safe_open.
        threads: worker threads; 0: the CPUs this process may use.
        verify: check the hash of every chunk.
        progress: called as progress(done_bytes, total_bytes, name), of decoded bytes.
        max_decoded_bytes: the most this call may decode; 0: max(16 GiB, 64 times the file).

    Returns:
        Contiguous tensors. Those that shared elements when saved share them again (with the
        strides they had); no others do.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), ChecksumError, CorruptError,
            TruncatedError, UnsupportedError, LimitExceededError, IoError (an OSError).
    """
    target = _FRAMEWORK.check_device(device)
    checkpoint = Checkpoint.open(
        filename,
        backend,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
    )
    return checkpoint.load(checkpoint.names(), _FRAMEWORK, target, progress)


def save_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    codec: str = "auto",
    threads: int = 0,
    verify: bool = False,
    progress: Progress | None = None,
    fsync: bool = True,
) -> None:
    """Saves model.state_dict(). Tied weights are stored once, under all of their names.

    Args:
        force_contiguous: store tensors that are not contiguous as contiguous ones; False: refuse
            them with a ValueError.
        Others: as in save_file.
    """
    state_dict = model.state_dict()
    if not force_contiguous:
        for name, tensor in state_dict.items():
            if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous():
                raise ValueError(
                    f"tensor `{name}` is not contiguous; "
                    "force_contiguous=True stores it as if it were"
                )
    save_file(
        state_dict,
        filename,
        metadata,
        codec=codec,
        threads=threads,
        verify=verify,
        progress=progress,
        fsync=fsync,
    )


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int | torch.device = "cpu",
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
) -> tuple[set[str], list[str]]:
    """Loads a file into a model, decoding straight into its parameters and buffers.

    Needs the memory of one model; tensors on other devices, of other dtypes, or not contiguous
    go through memory of their own, one at a time.

    Args:
        model: stays on the devices where it is.
        filename: a .cfck file, a sharded folder, or its model.cfck.index.json.
        strict: raise where names are missing or unexpected.
        device: accepted for the sake of safetensors; tensors go where the model has them.
        Others: as in load_file.

    Returns:
        (missing, unexpected): names of the model that were not loaded, and names of the file
        that the model does not have.

    Raises:
        RuntimeError: names are missing or unexpected and ``strict`` is set, or shapes differ.
        CfckError: as load_file.

    After an error the model may be partly loaded.
    """
    _FRAMEWORK.check_device(device)
    checkpoint = Checkpoint.open(
        filename,
        backend,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
    )
    missing, unexpected = load_into(model, checkpoint, _FRAMEWORK, progress)
    if strict and (missing or unexpected):
        error = f"Error(s) in loading state_dict for {type(model).__name__}:"
        if missing:
            error += "\n    Missing key(s) in state_dict: "
            error += ", ".join(f'"{name}"' for name in sorted(missing))
        if unexpected:
            error += "\n    Unexpected key(s) in state_dict: "
            error += ", ".join(f'"{name}"' for name in sorted(unexpected))
        raise RuntimeError(error)
    return missing, unexpected


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
    """Saves nested containers with tensors and plain values: all that a training job keeps.

    The tensors become records as those of save_file, named by their path
    ("optimizer.state.12.exp_avg"), so load_file, safe_open and cfck-inspect see them; the rest
    becomes typed JSON. Nothing is pickled.

    Args:
        obj: dict, OrderedDict, Counter, list, tuple, set and frozenset of one another and of
            None, bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device,
            numpy scalars, numpy arrays, tensors and parameters. Keys, and elements of sets, are
            str, int, float, bool, None and tuples of these. A container or tensor that occurs
            twice is stored once; tensors that share elements are, too.
        filename: replaced if it exists.
        metadata: str to str, kept beside the tensors; safe_open(...).metadata() returns it.
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
    device: str | int | torch.device = "cpu",
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
) -> Any:
    """Loads what save_checkpoint saved: the same types, values, order and sharing.

    Tensors come back contiguous, detached, and tied where they shared elements. Parameters are
    parameters again, arrays arrays. Nothing that the file names is imported or called.

    Args:
        filename: a file that save_checkpoint wrote.
        device: where the tensors go, all of them; numpy arrays stay on the host. torch wants the
            states of its random number generators on the host.
        Others: as in load_file.

    Raises:
        CfckError: InvalidArgumentError for a file of tensors alone, UnsupportedError for one that
            a newer version wrote, CorruptError; what load_file raises.
    """
    return load_tree(
        _KINDS,
        {"torch": _FRAMEWORK.check_device(device)},
        filename,
        backend,
        progress,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
    )
