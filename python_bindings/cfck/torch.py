"""torch tensors in cfck files: the functions of safetensors.torch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ._checkpoint.numpy_values import ArrayValues
from ._checkpoint.torch_values import TorchValues
from ._checkpoint.tree import Kinds, check_tree, load_tree, save_tree
from ._frameworks.numpy_arrays import NumpyFramework
from ._frameworks.torch_memory import storage_ptr, storage_size
from ._frameworks.torch_modules import check_module, refuse_not_contiguous
from ._frameworks.torch_tensors import TorchFramework
from ._io.archive import Archive
from ._io.model import load_into
from ._io.module_versions import with_versions
from ._io.patching import apply, patch
from ._io.safe_open import safe_open
from ._io.save import MakeCalibration, write_bytes, write_file
from ._io.summary import SaveSummary
from ._io.torch_messages import decode_message, encode_message, encode_messages
from ._options.kinds import (
    LoadBytesOptions,
    LoadOptions,
    SaveBytesOptions,
    SaveOptions,
    StreamOptions,
    Unpack,
)
from ._options.signatures import chosen, split_progress, takes
from ._training.names import refuse_models_in_training

if TYPE_CHECKING:
    from ._calibration.calibrate import calibrate
    from ._evaluation.evaluate import evaluate

_Model = TypeVar("_Model", bound=torch.nn.Module)

__all__ = [
    "apply",
    "calibrate",
    "check_checkpoint",
    "compressed",
    "decode_message",
    "encode_message",
    "encode_messages",
    "evaluate",
    "load",
    "load_checkpoint",
    "load_file",
    "load_model",
    "patch",
    "safe_open",
    "save",
    "save_checkpoint",
    "save_file",
    "save_model",
    "storage_ptr",
    "storage_size",
]

_FRAMEWORK = TorchFramework()
# Calibration and evaluation take as long to import as all that saves and loads models.
_LATER = {"calibrate": "._calibration.calibrate", "evaluate": "._evaluation.evaluate"}
_KINDS: Kinds = ((TorchValues(), _FRAMEWORK), (ArrayValues(), NumpyFramework()))


if not TYPE_CHECKING:  # checkers know these names, and are to find fault with all others

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_LATER[name], __package__), name)
        globals()[name] = value
        return value


def _calibration_of(
    model: torch.nn.Module | None, options: SaveBytesOptions | SaveOptions
) -> MakeCalibration | None:
    if model is None:
        return None
    from ._calibration.automatic import calibration_of

    return calibration_of(model, options)


@takes(SaveBytesOptions)
def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    model: torch.nn.Module | None = None,
    options: SaveBytesOptions | None = None,
    **fields: Unpack[SaveBytesOptions],
) -> bytes:
    """Saves tensors to bytes. Arguments as in save_file."""
    saving = chosen(SaveBytesOptions, options, fields)
    make_calibration = _calibration_of(model, saving)
    complete = with_versions(metadata, tensors)
    return write_bytes(_FRAMEWORK, tensors, complete, saving, make_calibration)


@takes(SaveOptions)
def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    model: torch.nn.Module | None = None,
    options: SaveOptions | None = None,
    **fields: Unpack[SaveOptions],
) -> SaveSummary:
    """Saves tensors to a file, which appears under its name complete or not at all.

    Args:
        tensors: names to dense tensors of any shape and strides, on any device (``encode`` says
            who encodes those of a CUDA device). Tensors that share elements are stored once
            and load tied; other equal tensors are stored once and load separately. Memory between
            their elements is not stored. They must not change during the call.
        filename: replaced if it exists.
        metadata: str to str, kept beside the tensors.
        model: the model that the tensors are of: with quality, bits_per_weight or size it is
            calibrated first, as calibrate(model) does without data, and keeps more at the same
            size. It runs, and is afterwards what it was.
        options: how to store the tensors: a dict, or cfck.SaveOptions.

    Returns:
        How many bytes went where, which tensors kept every bit although a maximum error was given
        and why, which rules had no effect, and which tensors share memory and were stored apart. A
        RuleWarning and a SharedMemoryWarning warn of these as well, and an
        EmptyFileWarning of a file without tensors.

    Raises:
        CfckError: InvalidArgumentError (sparse, not a tensor), UnsupportedError (meta, fake,
            uninitialised, quantised, nested, subclasses without memory of their own, dtypes that
            files cannot hold), IoError, LimitExceededError. InvalidArgumentError (a ValueError)
            also for a maximum error that is not positive and finite, for two of them, for per_row
            without one that it can apply to, and for a rule with one that names, without wildcards,
            a tensor of another dtype.
        TypeError: a name or a metadata entry is no str, or an option has the wrong type.

    An error, or Ctrl-C, leaves an old file as it was until the new one takes its name; there is no
    way back from there. If only syncing the folder fails, IoError says that the file was saved; a
    Ctrl-C that comes so late is raised when the file is saved. May be called from several threads.
    """
    saving = chosen(SaveOptions, options, fields)
    make_calibration = _calibration_of(model, saving)
    complete = with_versions(metadata, tensors)
    return write_file(
        _FRAMEWORK, tensors, filename, complete, saving, make_calibration=make_calibration
    )


@takes(LoadBytesOptions)
def load(
    data: bytes | torch.Tensor,
    *,
    device: str | int | torch.device | None = "cpu",
    options: LoadBytesOptions | None = None,
    **fields: Unpack[LoadBytesOptions],
) -> dict[str, torch.Tensor]:
    """Loads all tensors from bytes of a .cfck or safetensors file.

    Args:
        data: bytes, or a torch.Tensor of uint8 with one dimension. Bytes on the CUDA device that
            decodes them are used where they are; those on another device are copied to the host.
        device, options, **fields: as in load_file.
    """
    reading, progress = split_progress(chosen(LoadBytesOptions, options, fields))
    target = _FRAMEWORK.check_device(device)
    return Archive.from_bytes(data, reading, target).load_all(_FRAMEWORK, target, progress)


@takes(LoadOptions)
def load_file(
    filename: str | os.PathLike[str],
    device: str | int | torch.device | None = "cpu",
    *,
    options: LoadOptions | None = None,
    **fields: Unpack[LoadOptions],
) -> dict[str, torch.Tensor]:
    """Loads all tensors of a file, in the order in which they were saved.

    Args:
        filename: a .cfck or safetensors file, a folder with a model, or its index; see safe_open.
        device: where the tensors go: its name, or the number of an accelerator; None: the host.
            A CUDA device decodes them itself where it can (see ``decode``); for others they are
            decoded on the host and copied, at most 256 MiB or one tensor at a time.
        options: how to read: a dict, or cfck.LoadOptions.

    Returns:
        Contiguous tensors. Those that shared elements when saved share them again (with the
        strides they had); no others do.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), ChecksumError, CorruptError,
            TruncatedError, UnsupportedError, LimitExceededError, IoError (an OSError),
            DeviceError (a RuntimeError) for devices that torch does not know or cannot use,
            OutOfMemoryError (a MemoryError), also for that of a device.
    """
    reading, progress = split_progress(chosen(LoadOptions, options, fields))
    target = _FRAMEWORK.check_device(device)
    return Archive.open(filename, reading).load_all(_FRAMEWORK, target, progress)


@takes(SaveOptions)
def save_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    options: SaveOptions | None = None,
    **fields: Unpack[SaveOptions],
) -> SaveSummary:
    """Saves model.state_dict(). Tied weights are stored once, under all of their names.

    Args:
        force_contiguous: store tensors that are not contiguous as contiguous ones; False: refuse
            them with a ValueError.
        options, **fields: as in save_file. Buffers of the model keep every bit unless a rule
            matches them.

    Returns:
        As save_file.

    Raises:
        InvalidArgumentError: the model is in training (cfck.train.spectral).
        TypeError: it is no torch.nn.Module. Others: as save_file.
    """
    saving = chosen(SaveOptions, options, fields)
    check_module(model, "save_model", "save_file()")
    refuse_models_in_training(model, "save it with q.save()")
    state_dict = model.state_dict()
    if not force_contiguous:
        refuse_not_contiguous(state_dict)
    buffers = dict.fromkeys(
        (name for name, _ in model.named_buffers(remove_duplicate=False)), "buffer"
    )
    complete = with_versions(metadata, state_dict)
    return write_file(_FRAMEWORK, state_dict, filename, complete, saving, buffers)


@takes(LoadOptions)
def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int | torch.device | None = "cpu",
    *,
    options: LoadOptions | None = None,
    **fields: Unpack[LoadOptions],
) -> tuple[set[str], list[str]]:
    """Loads a file into a model, decoding straight into its parameters and buffers.

    Needs the memory of one model. Tensors of other dtypes, or not contiguous, go through memory of
    their own, one at a time, and so do those on devices that do not decode (see ``decode``).

    Args:
        model: stays on the devices where it is, in the dtypes that it has. Tensors of it on the
            device meta become tensors with values: new ones, since those of meta cannot have any,
            which keep class, requires_grad, strides and what they are tied to.
        filename: a .cfck or safetensors file, a folder with a model, or its index; see safe_open.
        strict: raise where names are missing or unexpected. Buffers that the model does not keep
            in state_dict() (persistent=False) are neither; they keep their values, and those of
            meta stay without, unless the file has some.
        device: where tensors of meta go; others go where the model has them.
        options, **fields: as in load_file.

    Returns:
        (missing, unexpected): names of the model that were not loaded, with all that is still on
        the device meta, and names of the file that the model does not have, or that it ties to
        another name for which the file has other values: of these the first name, in sorted order,
        is loaded.

    Raises:
        RuntimeError: names are missing or unexpected and ``strict`` is set, or shapes differ.
        TypeError: the model is no torch.nn.Module.
        InvalidArgumentError: the model is in training (cfck.train.spectral).
        UnsupportedError: the model runs from a file (compressed).
        CfckError: as load_file.

    After an error the model may be partly loaded. Tensors of meta that got no values are those
    that they were.
    """
    # Importing the part that runs models from a file takes a fifth of this module's import time.
    from ._streaming.placeholder import refuse_streamed_models

    reading, progress = split_progress(chosen(LoadOptions, options, fields))
    check_module(model, "load_model", "load_file(), which returns one")
    refuse_models_in_training(model, "load the file before spectral() is called")
    refuse_streamed_models(model)
    if (target := _FRAMEWORK.check_device(device)) is not None:
        _FRAMEWORK.reach_device(target)
    outcome = load_into(model, Archive.open(filename, reading), _FRAMEWORK, progress, target)
    if strict:
        outcome.check(model)
    return outcome.missing, outcome.unexpected


@takes(StreamOptions)
def compressed(
    model: _Model,
    source: str | os.PathLike[str] | bytes | torch.Tensor,
    strict: bool = True,
    *,
    options: StreamOptions | None = None,
    **fields: Unpack[StreamOptions],
) -> _Model:
    """Makes a model run from a compressed file: a weight is decoded when its layer needs it.

    Parameters of two or more dimensions and at least 4096 values stay in the file. The next one is
    decoded ahead, in the order of an earlier run, and each is dropped after its use, so that about
    two are in memory; of embeddings the rows that are looked up. All else is loaded. Outputs are
    those of the model that load_model loads, with requires_grad_(False), bit for bit.
    docs/run-from-file.md says what it costs.

    Args:
        model: is changed in place: its large weights are freed. It may be on the device meta, but
            for buffers that are not in state_dict(). It stays in the mode and on the devices where
            it is; parameters of meta are decoded on the host until model.to(device).
        source: a .cfck or safetensors file, a folder with a model, or its index; see safe_open. It
            stays open while the model lives. Or the bytes of a file, as load takes them, which
            stay in memory.
        strict: raise where the file has other tensors than the model. A parameter that the file
            lacks is an error in any case.
        options: how to read: a dict.

    Returns:
        The model. state_dict() gives decoded values under the usual names, to(), half() and others
        apply after decoding, and deepcopy shares the file. A weight that is written into, in
        whichever way, stays in memory from then on as an ordinary parameter. Compressed weights
        have no gradients (UnsupportedError), and the model cannot be pickled.

    Raises:
        RuntimeError: names are missing, or unexpected and ``strict`` is set, or shapes differ.
        CfckError: as load_file; UnsupportedError for lazy modules, scripts of torch.jit, quantised
            modules, and parameters that are no plain tensors; InvalidArgumentError for models that
            are compressed already, or in training (cfck.train.spectral). Damage to a weight is
            raised by the call that needs it, and so is a change of the file that may have reached
            what was read.
    """
    from ._streaming.convert import open_and_convert

    reading = chosen(StreamOptions, options, fields)
    if isinstance(model, torch.nn.Module):
        refuse_models_in_training(model, "make another model for the file of q.save()")
    return open_and_convert(model, source, _FRAMEWORK, strict, reading)


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
    """Saves nested containers with tensors and plain values: all that a training job keeps.

    The tensors become records as those of save_file, named by their path
    ("optimizer.state.12.exp_avg"), so load_file, safe_open and cfck inspect see them; the rest
    becomes typed JSON. Nothing is pickled.

    Args:
        obj: dict, OrderedDict, Counter, list, tuple, set and frozenset of one another and of
            None, bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device,
            numpy scalars, numpy arrays, tensors and parameters. Keys, and elements of sets, are
            str, int, float, bool, None and tuples of these. A container or tensor that occurs
            twice is stored once; tensors that share elements are, too.
        filename: replaced if it exists.
        metadata: str to str, kept beside the tensors; safe_open(...).metadata() returns it.
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
    device: str | int | torch.device | None = "cpu",
    *,
    options: LoadOptions | None = None,
    **fields: Unpack[LoadOptions],
) -> Any:
    """Loads what save_checkpoint saved: the same types, values, order and sharing.

    Tensors come back contiguous, detached, and tied where they shared elements. Parameters are
    parameters again, arrays arrays. Nothing that the file names is imported or called.

    Args:
        filename: a file that save_checkpoint wrote.
        device: where the tensors go, all of them; numpy arrays stay on the host. torch wants the
            states of its random number generators on the host.
        options, **fields: as in load_file.

    Raises:
        CfckError: InvalidArgumentError for a file of tensors alone, UnsupportedError for one that
            a newer version wrote, CorruptError; what load_file raises.
    """
    reading = chosen(LoadOptions, options, fields)
    return load_tree(_KINDS, {"torch": _FRAMEWORK.check_device(device)}, filename, reading)
