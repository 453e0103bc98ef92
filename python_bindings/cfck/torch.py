"""torch tensors in cfck files: the functions of safetensors.torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ._array_values import ArrayValues
from ._arrays import NumpyFramework
from ._calibrate import calibrate
from ._checkpoint import Checkpoint
from ._evaluate import evaluate
from ._framework import Progress
from ._model import load_into
from ._options import SaveFileOptions, SaveOptions, check_threads, takes
from ._save import write_bytes, write_file
from ._summary import SaveSummary
from ._tensors import TorchFramework
from ._torch_values import TorchValues
from ._tree import Kinds, load_tree, save_tree

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "calibrate",
    "evaluate",
    "load",
    "load_checkpoint",
    "load_file",
    "load_model",
    "save",
    "save_checkpoint",
    "save_file",
    "save_model",
    "storage_ptr",
    "storage_size",
]

_FRAMEWORK = TorchFramework()
_KINDS: Kinds = ((TorchValues(), _FRAMEWORK), (ArrayValues(), NumpyFramework()))


@takes(SaveOptions)
def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[SaveOptions],
) -> bytes:
    """Saves tensors to bytes. Arguments as in save_file."""
    return write_bytes(_FRAMEWORK, tensors, metadata, options)


@takes(SaveFileOptions)
def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[SaveFileOptions],
) -> SaveSummary:
    """Saves tensors to a file, which appears under its name complete or not at all.

    Args:
        tensors: names to dense tensors of any shape and strides, on any device (those of a GPU
            are copied to the host chunk by chunk). Tensors that share elements are stored once
            and load tied; other equal tensors are stored once and load separately. Memory between
            their elements is not stored. They must not change during the call.
        filename: replaced if it exists.
        metadata: str to str, kept beside the tensors.
        codec: "auto" (fewest bytes), "raw", "lossless", "direct", which needs a maximum error, or
            "spectral", which needs max_abs_error or a target (nmse, psnr, bits_per_weight or
            size; at most one). With a target "auto" takes it.
        max_abs_error: the most by which a value may change, in the units of the values. Without
            a maximum error every bit is kept. At most one of the three may be given. They reach
            F64, F32, BF16 and F16 tensors of two or more dimensions and at least 1024 values,
            except optimizer state (*exp_avg*, *momentum_buffer*, optimizer.*) and tensors whose
            root mean square is below max_abs_error; a rule reaches those too. All others keep
            every bit. NaN and infinities come back bit for bit, -0.0 may become 0.0.
        max_rel_error: the same as a fraction of the range of each tensor, largest minus smallest
            finite value.
        max_sigma_error: the same in standard deviations of the finite values of each tensor.
        per_row: take the range or deviation of each row of axis 0, not of the whole tensor; one of
            fewer than two dimensions is one row.
        nmse: the mean squared error over the mean square of the values, 0.01 or "-20dB", of all
            tensors together that a maximum error would reach, kept and met within 0.05 dB. In a
            rule targets are for each tensor instead.
        psnr: the square of the range of the values over the mean squared error, 40 or "40dB".
        bits_per_weight: the most that these tensors may take.
        size: the most that the file may take, in bytes or as "60MB" or "60MiB"; met within 0.5 %
            where there is something to lose. Not in a rule.
        trellis_states: of codec "spectral": 64 (fewest bytes at an error), 8, 4 or 1; None: 8, and
            at level "archive" 64.
        steps: of codec "spectral": "flat" (one step for all tensors, the default), "prior" (kernels
            of 3x3 by a table), "calibrated" (the default with a calibration), or "feedback" (the
            same, and what errors do to a layer's outputs is taken back by its other weights; the
            calibration must come from data).
        block: of codec "spectral": sides, 1 to 64, of the blocks that are transformed, along the
            last axes, such as (8, 8); (1,): nothing is. None: convolution kernels, or 64 rows of
            matrices, where that saves bits.
        calibration: what cfck.calibrate returns for this model, or the path of its file.
        rules: options by name, {"*.weight": {"max_sigma_error": 1e-3}, ...} or a list of such
            pairs: those above (cfck.TensorOptions) for the tensors whose names match the pattern.
            The first rule that matches counts, and nothing else. * stands for any characters,
            ? for one, [abc] and [!abc] for one of (not) these.
        entropy: how the bytes of floats are coded: "rans" (fewer bytes, and faster to load) or
            "zstd" (any Zstd unpacks the symbols). RecordInfo names what each record uses.
        level: "fast" (the fewest passes), "default", or "archive" (the fewest bytes: may take
            several times as long, and load somewhat slower).
        threads: worker threads; 0: the CPUs this process may use. The bytes do not depend on it.
        verify: decode what was written and compare it before the old file is replaced; tensors that
            lose something with the values whose errors were measured.
        progress: called as progress(done_bytes, total_bytes, name), of decoded bytes; what it
            raises ends the call.
        fsync: wait until the file is on the disk.

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
    return write_file(_FRAMEWORK, tensors, filename, metadata, options)


def load(
    data: bytes,
    *,
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int | str] | None = None,
) -> dict[str, torch.Tensor]:
    """Loads all tensors from bytes of a .cfck or safetensors file, to the host.

    Arguments as in load_file.
    """
    checkpoint = Checkpoint.from_bytes(
        data,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
        limits=limits,
    )
    return checkpoint.load(checkpoint.names(), _FRAMEWORK, None, progress)


def load_file(
    filename: str | os.PathLike[str],
    device: str | int | torch.device | None = "cpu",
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int | str] | None = None,
) -> dict[str, torch.Tensor]:
    """Loads all tensors of a file, in the order in which they were saved.

    Args:
        filename: a .cfck or safetensors file, a folder with a model, or its index; see safe_open.
        device: where the tensors go: its name, or the number of an accelerator; None: the host.
            They are decoded on the host and copied, at most 256 MiB or one tensor at a time.
        backend: "pread" or "mmap"; see safe_open.
        threads: worker threads; 0: the CPUs this process may use.
        verify: check the hash of every chunk.
        progress: called as progress(done_bytes, total_bytes, name), of decoded bytes.
        max_decoded_bytes: the most this call may decode; 0: max(16 GiB, 64 times the file).
        limits: raises or lowers what the file may make this call hold in memory, by name: a dict
            of "max_decoded_bytes", "max_attachment_bytes", "max_index_bytes",
            "max_metadata_bytes", "max_records"; numbers, or sizes as "60MB". See docs/limits.md.

    Returns:
        Contiguous tensors. Those that shared elements when saved share them again (with the
        strides they had); no others do.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), ChecksumError, CorruptError,
            TruncatedError, UnsupportedError, LimitExceededError, IoError (an OSError),
            DeviceError (a RuntimeError) for devices that torch does not know or cannot use.
    """
    target = _FRAMEWORK.check_device(device)
    checkpoint = Checkpoint.open(
        filename,
        backend,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
        limits=limits,
    )
    return checkpoint.load(checkpoint.names(), _FRAMEWORK, target, progress)


@takes(SaveFileOptions)
def save_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
    **options: Unpack[SaveFileOptions],
) -> SaveSummary:
    """Saves model.state_dict(). Tied weights are stored once, under all of their names.

    Args:
        force_contiguous: store tensors that are not contiguous as contiguous ones; False: refuse
            them with a ValueError.
        Others: as in save_file. Buffers of the model keep every bit unless a rule matches them.

    Returns:
        As save_file.
    """
    state_dict = model.state_dict()
    if not force_contiguous:
        for name, tensor in state_dict.items():
            if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous():
                raise ValueError(
                    f"tensor `{name}` is not contiguous; "
                    "use save_model(..., force_contiguous=True) to store it as if it were"
                )
    buffers = dict.fromkeys(
        (name for name, _ in model.named_buffers(remove_duplicate=False)), "buffer"
    )
    return write_file(_FRAMEWORK, state_dict, filename, metadata, options, buffers)


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int | torch.device | None = "cpu",
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int | str] | None = None,
) -> tuple[set[str], list[str]]:
    """Loads a file into a model, decoding straight into its parameters and buffers.

    Needs the memory of one model; tensors on other devices, of other dtypes, or not contiguous
    go through memory of their own, one at a time.

    Args:
        model: stays on the devices where it is.
        filename: a .cfck or safetensors file, a folder with a model, or its index; see safe_open.
        strict: raise where names are missing or unexpected.
        device: accepted for the sake of safetensors; tensors go where the model has them.
        Others: as in load_file.

    Returns:
        (missing, unexpected): names of the model that were not loaded, and names of the file
        that the model does not have, or that it ties to another name for which the file has
        other values: of these the first name, in sorted order, is loaded.

    Raises:
        RuntimeError: names are missing or unexpected and ``strict`` is set, or shapes differ.
        CfckError: as load_file.

    After an error the model may be partly loaded.
    """
    if (target := _FRAMEWORK.check_device(device)) is not None:
        _FRAMEWORK.reach_device(target)
    checkpoint = Checkpoint.open(
        filename,
        backend,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
        limits=limits,
    )
    outcome = load_into(model, checkpoint, _FRAMEWORK, progress)
    if strict:
        outcome.check(model)
    return outcome.missing, outcome.unexpected


@takes(SaveFileOptions)
def save_checkpoint(
    obj: Any,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[SaveFileOptions],
) -> SaveSummary:
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
        Others: as in save_file. Optimizer state keeps every bit unless a rule matches it: all that
            is below a key like "optimizer", "optim" or "optimizer_state_dict", or in a dict with
            "state" and "param_groups", as state_dict() of an optimizer has them.

    Returns:
        As save_file.

    Raises:
        CfckError: InvalidArgumentError for anything else, subclasses of these types (namedtuple,
            defaultdict) and containers that contain themselves, with the path to it;
            LimitExceededError; what save_file raises.
    """
    return save_tree(_KINDS, obj, filename, metadata, options)


def load_checkpoint(
    filename: str | os.PathLike[str],
    device: str | int | torch.device | None = "cpu",
    *,
    backend: str = "pread",
    threads: int = 0,
    verify: bool = True,
    progress: Progress | None = None,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int | str] | None = None,
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
        limits=limits,
    )


def storage_ptr(tensor: torch.Tensor) -> int:
    """Address of the memory that ``tensor`` is a view of; 0 if it has none (meta)."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper of other tensors
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Bytes of the memory that ``tensor`` is a view of."""
    return tensor.untyped_storage().nbytes()
