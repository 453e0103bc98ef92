"""numpy arrays in cfck files: the functions of safetensors.numpy.

BF16 and the 4, 6 and 8 bit floats are dtypes of ml_dtypes, one element per array element.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._checkpoint.numpy_values import ArrayValues
from ._checkpoint.tree import Kinds, check_tree, load_tree, save_tree
from ._frameworks.numpy_arrays import NumpyFramework
from ._io.archive import Archive
from ._io.patching import apply, patch
from ._io.safe_open import safe_open
from ._io.save import write_bytes, write_file
from ._io.summary import SaveSummary
from ._options.kinds import LoadBytesOptions, LoadOptions, SaveBytesOptions, SaveOptions, Unpack
from ._options.signatures import chosen, split_progress, takes

__all__ = [
    "apply",
    "check_checkpoint",
    "load",
    "load_checkpoint",
    "load_file",
    "patch",
    "safe_open",
    "save",
    "save_checkpoint",
    "save_file",
]

_FRAMEWORK = NumpyFramework()
_KINDS: Kinds = ((ArrayValues(), _FRAMEWORK),)


@takes(SaveBytesOptions)
def save(
    tensor_dict: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
    *,
    options: SaveBytesOptions | None = None,
    **fields: Unpack[SaveBytesOptions],
) -> bytes:
    """Saves arrays to bytes. Arguments as in save_file."""
    saving = chosen(SaveBytesOptions, options, fields)
    return write_bytes(_FRAMEWORK, tensor_dict, metadata, saving)


@takes(SaveOptions)
def save_file(
    tensor_dict: Mapping[str, np.ndarray],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    options: SaveOptions | None = None,
    **fields: Unpack[SaveOptions],
) -> SaveSummary:
    """Saves arrays to a file, which appears under its name complete or not at all.

    Args:
        tensor_dict: names to arrays of any shape, memory order and byte order; loaded arrays are
            in C order and native. Arrays that share elements are stored once and load as views
            of one memory; other equal arrays are stored once and load separately. Memory between
            their elements is not stored. They must not change during the call.
        filename: replaced if it exists.
        metadata: str to str, kept beside the tensors.
        options: how to store the tensors: a dict, or cfck.SaveOptions.

    Returns:
        How many bytes went where, which tensors kept every bit although a maximum error was given
        and why, which rules had no effect, and which arrays share memory and were stored apart. A
        RuleWarning and a SharedMemoryWarning warn of these as well, and an
        EmptyFileWarning of a file without tensors.

    Raises:
        CfckError: UnsupportedError (dtypes that files cannot hold), IoError, LimitExceededError;
            InvalidArgumentError (a ValueError) for what is no array, for a maximum error that is
            not positive and finite, for two of them, for per_row without one that it can apply
            to, and for a rule with one that names, without wildcards, an array of another dtype.
        TypeError: a name or a metadata entry is no str, or an option has the wrong type.

    An error, or Ctrl-C, leaves an old file as it was until the new one takes its name; there is no
    way back from there. If only syncing the folder fails, IoError says that the file was saved; a
    Ctrl-C that comes so late is raised when the file is saved. May be called from several threads.
    """
    saving = chosen(SaveOptions, options, fields)
    return write_file(_FRAMEWORK, tensor_dict, filename, metadata, saving)


@takes(LoadBytesOptions)
def load(
    data: bytes,
    *,
    options: LoadBytesOptions | None = None,
    **fields: Unpack[LoadBytesOptions],
) -> dict[str, np.ndarray]:
    """Loads all arrays from bytes of a .cfck or safetensors file. Arguments as in load_file."""
    reading, progress = split_progress(chosen(LoadBytesOptions, options, fields))
    return Archive.from_bytes(data, reading).load_all(_FRAMEWORK, None, progress)


@takes(LoadOptions)
def load_file(
    filename: str | os.PathLike[str],
    *,
    options: LoadOptions | None = None,
    **fields: Unpack[LoadOptions],
) -> dict[str, np.ndarray]:
    """Loads all arrays of a file, in the order in which they were saved.

    Args:
        filename: a .cfck or safetensors file, a folder with a model, or its index; see safe_open.
        options: how to read: a dict, or cfck.LoadOptions.

    Returns:
        Writable arrays in C order. Those that shared elements when saved share them again (with
        the strides they had); no others do.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), ChecksumError, CorruptError,
            TruncatedError, UnsupportedError, LimitExceededError, IoError (an OSError).
    """
    reading, progress = split_progress(chosen(LoadOptions, options, fields))
    return Archive.open(filename, reading).load_all(_FRAMEWORK, None, progress)


@takes(SaveOptions)
def save_checkpoint(
    obj: object,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    default: Callable[..., object] | None = None,
    options: SaveOptions | None = None,
    **fields: Unpack[SaveOptions],
) -> SaveSummary:
    """Saves nested containers with arrays and plain values.

    The arrays become records as those of save_file, named by their path
    ("optimizer.state.12.exp_avg"), so load_file, safe_open and cfck inspect see them; the rest
    becomes typed JSON. Nothing is pickled.

    Args:
        obj: dict, OrderedDict, Counter, list, tuple, set and frozenset of one another and of
            None, bool, int, float, complex, str, bytes, numpy scalars and numpy arrays. Keys, and
            elements of sets, are str, int, float, bool, None and tuples of these. A container or
            array that occurs twice is stored once; arrays that share elements are, too.
        filename: replaced if it exists.
        metadata: str to str, kept beside the arrays; safe_open(...).metadata() returns it.
        default: takes a value that cannot be stored and returns one that can be, as that of
            json.dump: default=str. A TypeError of it says that the value cannot be replaced.
        options, **fields: as in save_file. Optimizer state keeps every bit unless a rule matches
            it: all that is below a key like "optimizer", "optim" or "optimizer_state_dict", or in a
            dict with "state" and "param_groups", as state_dict() of an optimizer has them.

    Returns:
        As save_file.

    Raises:
        CfckError: InvalidArgumentError for anything else, subclasses of these types (namedtuple,
            defaultdict) and containers that contain themselves, with the path to it: one error for
            all that cannot be stored. LimitExceededError; what save_file raises.
    """
    saving = chosen(SaveOptions, options, fields)
    return save_tree(_KINDS, obj, filename, metadata, default, saving)


def check_checkpoint(obj: object, *, default: Callable[..., object] | None = None) -> None:
    """Raises what save_checkpoint would raise for what cannot be stored, and writes nothing.

    Takes no longer than a look at each value, so that a job can call it before it trains.

    Args:
        obj, default: as in save_checkpoint.

    Raises:
        CfckError: one error for all that cannot be stored, with the path to each and what to store
            instead; as save_checkpoint.
    """
    check_tree(_KINDS, obj, default)


@takes(LoadOptions)
def load_checkpoint(
    filename: str | os.PathLike[str],
    *,
    options: LoadOptions | None = None,
    **fields: Unpack[LoadOptions],
) -> Any:
    """Loads what save_checkpoint saved: the same types, values, order and sharing.

    Args:
        filename: a file that save_checkpoint wrote.
        options, **fields: as in load_file.

    Raises:
        CfckError: InvalidArgumentError for a file of tensors alone, UnsupportedError for one with
            values of torch (load it with cfck.torch) or that a newer version wrote, CorruptError;
            what load_file raises.
    """
    return load_tree(_KINDS, {}, filename, chosen(LoadOptions, options, fields))
