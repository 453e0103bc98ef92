"""One tensor as bytes, and changes to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, overload

from .._common.checks import check_metadata
from .._common.problems import without_name
from .._frameworks.choose import find_framework, framework_of
from .._frameworks.framework import AnyTensor, Framework, TensorT
from .._options.kinds import (
    CompressOptions,
    ReadOptions,
    SaveBytesOptions,
    TensorOptions,
    Unpack,
    UpdateOptions,
)
from .._options.native import OF_TENSORS
from .._options.signatures import chosen, complete, takes
from ..errors import InvalidArgumentError
from .archive import Archive
from .message_on_device import check_wants_device, is_on_device, not_on_device, upload
from .save import update_file, write_bytes
from .summary import SaveSummary

if TYPE_CHECKING:
    import numpy as np
    import torch
    from typing_extensions import Buffer


@overload
def compress(
    tensor: AnyTensor,
    *,
    out: None = None,
    options: CompressOptions | None = None,
    **fields: Unpack[CompressOptions],
) -> bytes: ...


@overload
def compress(
    tensor: torch.Tensor,
    *,
    out: Literal["device"],
    options: CompressOptions | None = None,
    **fields: Unpack[CompressOptions],
) -> torch.Tensor: ...


@takes(CompressOptions)
def compress(
    tensor: AnyTensor,
    *,
    out: Literal["device"] | None = None,
    options: CompressOptions | None = None,
    **fields: Unpack[CompressOptions],
) -> bytes | torch.Tensor:
    """Compresses one tensor to bytes: a whole small file with one record, named "".

    Args:
        tensor: a torch.Tensor or numpy.ndarray of any shape and any dtype of safetensors.
        out: "device": the bytes are returned as a torch.Tensor of uint8 on the CUDA device of the
            tensor. The file is put together on the host, to which compressed bytes are copied, and
            from there; messages, which encode_message() makes, do not leave the device.
        options: how to store it: a dict, or cfck.TensorOptions.

    Raises:
        CfckError: UnsupportedError for dtypes that files cannot hold and tensors without data,
            InvalidArgumentError for sparse tensors, and for a maximum error that is not positive
            and finite, or for a tensor that is not F64, F32, BF16 or F16; UnsupportedError for
            ``out="device"`` and a tensor that is on no CUDA device.
        TypeError: an option has the wrong type.

    May be called from several threads at once.
    """
    framework = framework_of(tensor)
    if check_wants_device(out) and not is_on_device(tensor):
        raise not_on_device(tensor)
    checked = complete(CompressOptions, chosen(CompressOptions, options, fields))
    own: TensorOptions = {name: checked[name] for name in OF_TENSORS}  # type: ignore[assignment]
    # A rule, so that the maximum error is for this tensor whatever its shape.
    every: SaveBytesOptions = {**checked, "rules": [("", own)]}  # type: ignore[typeddict-item]
    with without_name():
        made = write_bytes(framework, {"": tensor}, None, every)
    return made if out is None else upload(made, tensor)  # type: ignore[arg-type]


@overload
def decompress(
    data: Buffer | torch.Tensor,
    out: TensorT,
    *,
    options: ReadOptions | None = None,
    **fields: Unpack[ReadOptions],
) -> TensorT: ...


@overload
def decompress(
    data: Buffer | torch.Tensor,
    out: None = None,
    *,
    framework: Literal["np", "numpy"] = "numpy",
    options: ReadOptions | None = None,
    **fields: Unpack[ReadOptions],
) -> np.ndarray: ...


@overload
def decompress(
    data: Buffer | torch.Tensor,
    out: None = None,
    *,
    framework: Literal["pt", "torch", "pytorch"],
    device: str | int | torch.device | None = "cpu",
    options: ReadOptions | None = None,
    **fields: Unpack[ReadOptions],
) -> torch.Tensor: ...


@overload
def decompress(
    data: Buffer | torch.Tensor,
    out: None = None,
    *,
    framework: str,
    device: str | int | torch.device | None = "cpu",
    options: ReadOptions | None = None,
    **fields: Unpack[ReadOptions],
) -> torch.Tensor | np.ndarray: ...


@takes(ReadOptions)
def decompress(
    data: Buffer | torch.Tensor,
    out: AnyTensor | None = None,
    *,
    framework: str = "numpy",
    device: str | int | torch.device | None = "cpu",
    options: ReadOptions | None = None,
    **fields: Unpack[ReadOptions],
) -> AnyTensor:
    """Returns the tensor in bytes that compress() made.

    Args:
        data: bytes, anything with the buffer protocol, or a torch.Tensor of uint8 with one
            dimension. Bytes on the CUDA device that decodes them are used where they are; those on
            another device are copied to the host.
        out: a tensor of the same dtype and shape, to be filled and returned; its library is used.
            Contiguous memory of the host, and of a CUDA device that decodes, is filled in place,
            other memory by a copy.
        framework: "numpy" or "pt", where ``out`` is not given.
        device: where a torch tensor goes, where ``out`` is not given; None: the host.
        options: how to read: a dict, or cfck.LoadOptions.

    Raises:
        CfckError: ChecksumError, CorruptError, TruncatedError for damaged data;
            InvalidArgumentError if ``out`` does not fit; UnsupportedError;
            LimitExceededError. After an error the contents of ``out`` are unspecified.
    """
    reading = chosen(ReadOptions, options, fields)
    library: Framework[AnyTensor] = find_framework(framework) if out is None else framework_of(out)
    target = library.check_device(device) if out is None else None
    place = target if out is None else library.device_of(out)
    archive = Archive.from_bytes(data, reading, place)
    names = archive.names()
    if names != [""]:
        raise InvalidArgumentError(
            f"these bytes are a file of {len(names)} named tensors, not one compressed tensor; "
            "cfck.torch.load and cfck.numpy.load read them"
        )
    with without_name():
        return archive.load_one("", library, target, out)


@takes(UpdateOptions)
def update(
    path: str | os.PathLike[str],
    tensors: Mapping[str, AnyTensor],
    remove: Iterable[str] = (),
    metadata: Mapping[str, str] | None = None,
    *,
    options: UpdateOptions | None = None,
    **fields: Unpack[UpdateOptions],
) -> SaveSummary:
    """Changes a file by appending to it: tensors that stay are not written again.

    Args:
        path: a .cfck file; for a sharded folder the shard that has the tensor.
        tensors: torch tensors or numpy arrays to add; those whose names exist are replaced.
        remove: names of tensors to remove.
        metadata: entries to set; all others stay.
        options: how to store the tensors added: a dict, or cfck.SaveOptions.

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
            for a change after which load_checkpoint would refuse the file, ExistsError for a tensor
            that files of the folder are stored against, MissingFileError, IoError, and what
            save_file raises.
    """
    saving = chosen(UpdateOptions, options, fields)
    values = list(tensors.values()) if isinstance(tensors, Mapping) else []
    framework = framework_of(values[0]) if values else find_framework("numpy")
    if isinstance(remove, str):
        raise TypeError("remove is a collection of names, not one name")
    return update_file(framework, path, tensors, remove, check_metadata(metadata), saving)
