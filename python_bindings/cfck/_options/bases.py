"""What files are stored against, as callers name it: tensors, or a file or folder that has them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from .._common.paths import native_path
from .._frameworks.choose import framework_of
from .._frameworks.framework import Framework, HostTensor, row_major
from ..errors import MissingFileError, NotFoundError

# name, dtype, shape, address of a contiguous tensor on the host
HostMemory = tuple[str, str, Sequence[int], int]


@dataclasses.dataclass
class HostTensors:
    """Contiguous tensors in host memory, which ``owners`` keep alive."""

    described: list[HostMemory]
    owners: list[object]


def native_base(
    base: Any,
    *,
    verify: bool = True,
    max_decoded_bytes: int = 0,
    limits: Mapping[str, int] | None = None,
    base_dirs: Sequence[bytes] = (),
) -> _native.Base | None:
    """The base for the library; None: there is none.

    Args:
        base: names to tensors of numpy or torch, a torch.nn.Module, or the path of a file or folder
            of any format.

    Raises:
        MissingFileError: there is no such file.
        TypeError: ``base`` is something else.
    """
    if base is None:
        return None
    if isinstance(base, str | os.PathLike):
        try:
            return _native.Base.open(
                native_path(base),
                verify=verify,
                max_decoded_bytes=max_decoded_bytes,
                limits=dict(limits or {}),
                base_dirs=list(base_dirs),
            )
        except NotFoundError as error:
            name = os.fsdecode(base)
            what = error if os.path.exists(name) else name
            message = f"No such file or directory: {what}"
            raise MissingFileError(message, filename=name) from None
    tensors = on_host(tensors_of(base, "base"))
    return _native.Base.of_memory(tensors.described, tensors.owners)


def tensors_of(value: Any, what: str, takes_path: bool = True) -> Mapping[str, Any]:
    """The tensors of a model or of a mapping by name.

    Args:
        what: what the value is for, for the error.
        takes_path: whether the caller could have given a path as well.
    """
    if hasattr(value, "state_dict") and hasattr(value, "named_parameters"):
        value = value.state_dict()
    if not isinstance(value, Mapping):
        kinds = (
            "a dict of tensors, a model, or a path"
            if takes_path
            else "a dict of tensors or a model"
        )
        raise TypeError(f"{what} is {kinds}, not {type(value).__name__}")
    return value


def on_host(tensors: Mapping[str, Any]) -> HostTensors:
    """Tensors of one library, contiguous, copied where they are not."""
    if not tensors:
        return HostTensors([], [])
    framework: Framework[Any] = framework_of(next(iter(tensors.values())))
    prepared = framework.prepare(tensors)
    described: list[HostMemory] = []
    owners: list[object] = [prepared.owners]
    for host in framework.on_host(prepared):
        described.append(_contiguous(framework, host, tensors, owners))
    return HostTensors(described, owners)


def _contiguous(
    framework: Framework[Any],
    host: HostTensor,
    tensors: Mapping[str, Any],
    owners: list[object],
) -> HostMemory:
    name, dtype, shape, strides, address = host
    if is_row_major(shape, strides):
        return name, dtype, shape, address
    copy, described = contiguous_copy(framework, name, tensors[name])
    owners.append(copy)
    return described


def contiguous_copy(framework: Framework[Any], name: str, tensor: Any) -> tuple[Any, HostMemory]:
    """A copy of a tensor in host memory: as Framework.finish() takes it, and described."""
    prepared = framework.prepare({name: framework.contiguous(tensor)})
    [(_, dtype, shape, _, address)] = framework.on_host(prepared)
    return prepared.owners[-1], (name, dtype, shape, address)


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor has its elements one after another."""
    expected = row_major(shape)
    return tuple(strides) == expected or all(
        size == 1 or step == wanted
        for size, step, wanted in zip(shape, strides, expected, strict=True)
    )
