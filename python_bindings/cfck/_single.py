"""One tensor as bytes, and changes to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._checkpoint import Checkpoint
from ._framework import check_metadata, find_framework, framework_of
from ._options import (
    OF_TENSORS,
    CompressOptions,
    SaveOptions,
    TensorOptions,
    check_threads,
    complete,
    takes,
)
from ._save import update_file, write_bytes
from ._summary import SaveSummary
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(CompressOptions)
def compress(tensor: Any, **options: Unpack[CompressOptions]) -> bytes:
    """Compresses one tensor to bytes: a whole small file with one record, named "".

    Args:
        tensor: a torch.Tensor or numpy.ndarray of any shape and any dtype of safetensors.
        codec: "auto" (fewest bytes), "raw", "lossless", "direct", which needs a maximum error, or
            "spectral", which needs max_abs_error or a target.
        max_abs_error, max_rel_error, max_sigma_error, per_row, nmse, psnr, bits_per_weight,
            trellis_states, steps, block: as in save_file, but for tensors of any shape and size.
            Without a maximum error or target every bit is kept.
        entropy, level: as in save_file.
        threads: worker threads; 0: the CPUs this process may use. The bytes do not depend on it.

    Raises:
        CfckError: UnsupportedError for dtypes that files cannot hold and tensors without data,
            InvalidArgumentError for sparse tensors, and for a maximum error that is not positive
            and finite, or for a tensor that is not F64, F32, BF16 or F16.
        TypeError: an option has the wrong type.

    May be called from several threads at once.
    """
    checked = complete(CompressOptions, options)
    chosen: TensorOptions = {name: checked[name] for name in OF_TENSORS}  # type: ignore[assignment]
    # A rule, so that the maximum error is for this tensor whatever its shape.
    every: SaveOptions = {**checked, "rules": [("", chosen)], "progress": None}  # type: ignore[typeddict-item]
    return write_bytes(framework_of(tensor), {"": tensor}, None, every)


def decompress(
    data: Any,
    out: Any = None,
    *,
    framework: str = "numpy",
    threads: int = 0,
    verify: bool = True,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int | str] | None = None,
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
        limits: raises or lowers what the file may make this call hold in memory, by name: a dict
            of "max_decoded_bytes", "max_attachment_bytes", "max_index_bytes",
            "max_metadata_bytes", "max_records"; numbers, or sizes as "60MB". See docs/limits.md.

    Raises:
        CfckError: ChecksumError, CorruptError, TruncatedError for damaged data;
            InvalidArgumentError if ``out`` does not fit; UnsupportedError;
            LimitExceededError. After an error the contents of ``out`` are unspecified.
    """
    checkpoint = Checkpoint.from_bytes(
        data,
        threads=check_threads(threads),
        verify=verify,
        max_decoded_bytes=max_decoded_bytes,
        limits=limits,
    )
    names = checkpoint.names()
    if names != [""]:
        raise InvalidArgumentError(
            f"these bytes are a file of {len(names)} named tensors, not one compressed tensor; "
            "cfck.torch.load and cfck.numpy.load read them"
        )
    chosen = find_framework(framework) if out is None else framework_of(out)
    return checkpoint.load_one("", chosen, None, out)


@takes(SaveOptions)
def update(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Any],
    remove: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[SaveOptions],
) -> SaveSummary:
    """Changes a file by appending to it: what stays is not written again.

    Args:
        path: a .cfck file. Of a sharded folder, the shard.
        tensors: torch tensors or numpy arrays to add; those whose names exist are replaced.
        remove: names of tensors to remove.
        metadata: entries to set; all others stay.
        codec, max_abs_error, max_rel_error, max_sigma_error, per_row, nmse, psnr,
            bits_per_weight, trellis_states, steps, block, calibration, rules: as in save_file, of
            the tensors added. size is of whole files and refused here.
        entropy, level: as in save_file, of the tensors added.
        threads: as in compress().
        progress: as in save_file, of the tensors added.

    Returns:
        What the whole file has now; kept_lossless and unmatched_rules of the tensors added.

    In a file of save_checkpoint tensors can be replaced, by others of any shape and dtype (of
    floats, where a parameter requires a gradient), but not added or removed: its containers name
    every one.

    The old bytes stay in the file until `cfck compact` rewrites it. A failed update, or one that
    Ctrl-C ends, leaves the file as it was; a Ctrl-C after the last bytes is raised when the update
    is done. After a kill in the middle, `cfck repair` brings back the last good state. Until the
    update is done, other readers of the machine see the file as it was before.
    One update at a time: IoError if another one has locked the file.

    Raises:
        CfckError: NotFoundError for a name in ``remove`` that is not there, InvalidArgumentError
            for a change after which load_checkpoint would refuse the file, MissingFileError,
            IoError, and what save_file raises.
    """
    values = list(tensors.values()) if isinstance(tensors, Mapping) else []
    framework = framework_of(values[0]) if values else find_framework("numpy")
    if isinstance(remove, str):
        raise TypeError("remove is a collection of names, not one name")
    return update_file(framework, path, tensors, remove, check_metadata(metadata), options)
