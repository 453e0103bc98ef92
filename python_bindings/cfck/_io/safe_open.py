"""Lazy access to the tensors of a file."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, overload

from .._frameworks.choose import find_framework
from .._frameworks.framework import Framework, TensorT
from .._options.kinds import OpenOptions, Unpack
from .._options.signatures import chosen, describes, takes
from ..errors import InvalidArgumentError
from .archive import Archive
from .records import RecordInfo, record_info
from .slices import TensorSlice

if TYPE_CHECKING:
    import numpy as np
    import torch


@describes(OpenOptions)
class safe_open(Generic[TensorT]):
    """Opens a file, and reads tensors from it when asked for; as safetensors.safe_open.

    Args:
        filename: a .cfck file, a safetensors file, a folder with either, or the index of a
            folder of shards (model.cfck.index.json, model.safetensors.index.json). Its contents
            decide how a file is read. In a folder, names that model libraries use come first
            (model, pytorch_model, diffusion_pytorch_model, adapter_model, ...), then the same
            with a variant (model.fp16.safetensors), then any other; of one name, .cfck before
            .safetensors, and the index of shards before a single file. Where that leaves
            several, InvalidArgumentError names them.
        framework: "pt" for torch, "np" or "numpy".
        device: where torch tensors go, None: the host. A CUDA device decodes them itself where it
            can (see ``decode``); for others they are decoded on the host and copied.
        options: how to read: a dict, or cfck.LoadOptions.

    Opening reads the index alone. All methods may be called from several threads, and in forked
    children. To a type checker ``safe_open(path, "pt")`` gives torch tensors, and
    ``safe_open(path, "np")`` gives numpy arrays.

    Raises:
        CfckError: MissingFileError (a FileNotFoundError), CorruptError, TruncatedError,
            ChecksumError, UnsupportedError, LimitExceededError, IoError (an OSError).
    """

    @overload
    def __init__(
        self: safe_open[torch.Tensor],
        filename: str | os.PathLike[str],
        framework: Literal["pt", "torch", "pytorch"],
        device: str | int | torch.device | None = "cpu",
        *,
        options: OpenOptions | None = None,
        **fields: Unpack[OpenOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: safe_open[np.ndarray],
        filename: str | os.PathLike[str],
        framework: Literal["np", "numpy"],
        device: str | int | torch.device | None = "cpu",
        *,
        options: OpenOptions | None = None,
        **fields: Unpack[OpenOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: safe_open[torch.Tensor | np.ndarray],
        filename: str | os.PathLike[str],
        framework: str,
        device: str | int | torch.device | None = "cpu",
        *,
        options: OpenOptions | None = None,
        **fields: Unpack[OpenOptions],
    ) -> None: ...

    @takes(OpenOptions)
    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: str | int | torch.device | None = "cpu",
        *,
        options: OpenOptions | None = None,
        **fields: Unpack[OpenOptions],
    ) -> None:
        reading = chosen(OpenOptions, options, fields)
        self._framework: Framework[TensorT] = find_framework(framework)
        self._device = self._framework.check_device(device)
        self._archive: Archive | None = Archive.open(filename, reading)

    def __enter__(self) -> safe_open[TensorT]:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._archive = None

    def _opened(self) -> Archive:
        if self._archive is None:
            raise InvalidArgumentError("File is not open")
        return self._archive

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return sorted(self._opened().names())

    def offset_keys(self) -> list[str]:
        """Names of the tensors, in the order in which they were saved."""
        return self._opened().names()

    def metadata(self) -> dict[str, str] | None:
        """The metadata that was saved; None if there was none."""
        return self._opened().metadata() or None

    def get_record(self, name: str) -> RecordInfo:
        """The description of a tensor in the file: shape, codec, bytes, errors. Decodes nothing.

        Raises:
            NotFoundError: there is no tensor of that name.
        """
        archive = self._opened()
        return record_info(archive.record(name), archive.base(name))

    def records(self) -> list[RecordInfo]:
        """get_record() of all tensors, in the order in which they were saved."""
        return [self.get_record(name) for name in self.offset_keys()]

    def get_tensor(self, name: str, *, out: TensorT | None = None) -> TensorT:
        """One tensor, in memory of its own.

        Args:
            name: one of keys().
            out: a tensor of the same dtype and shape, to be filled and returned. Contiguous
                memory of the host, and of a CUDA device that decodes, is filled in place, other
                memory by a copy.

        Raises:
            CfckError: NotFoundError; InvalidArgumentError if ``out`` does not fit; ChecksumError
                and CorruptError for damage. After an error ``out`` is unspecified.
        """
        return self._opened().load_one(name, self._framework, self._device, out)

    def get_tensors(self) -> dict[str, TensorT]:
        """All tensors, in the order in which they were saved, tied where they were tied."""
        return self._opened().load_all(self._framework, self._device)

    def get_slice(self, name: str) -> TensorSlice[TensorT]:
        """A tensor to be indexed: only the chunks an index touches are decoded."""
        return TensorSlice(self._opened(), name, self._framework, self._device)
