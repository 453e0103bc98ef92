"""Tensors by their addresses: the functions of the module safetensors itself."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from .._common.checks import check_utf8
from .._common.text import with_article
from .._frameworks.framework import DeviceTensor, HostTensor, Prepared, row_major
from .._options.kinds import ReadOptions, SaveBytesOptions, SaveOptions
from ..errors import InvalidArgumentError, LimitExceededError
from .archive import Archive
from .save import write_prepared, write_prepared_bytes

# Names that numpy, ml_dtypes and torch have for the dtypes of files, and bits of an element.
_DTYPES = {
    "bool": ("BOOL", 8),
    "int8": ("I8", 8),
    "uint8": ("U8", 8),
    "int16": ("I16", 16),
    "uint16": ("U16", 16),
    "int32": ("I32", 32),
    "uint32": ("U32", 32),
    "int64": ("I64", 64),
    "uint64": ("U64", 64),
    "float16": ("F16", 16),
    "bfloat16": ("BF16", 16),
    "float32": ("F32", 32),
    "float64": ("F64", 64),
    "complex64": ("C64", 64),
    "float8_e4m3fn": ("F8_E4M3", 8),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 8),
    "float8_e5m2": ("F8_E5M2", 8),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 8),
    "float8_e8m0fnu": ("F8_E8M0", 8),
    "float4_e2m1fn_x2": ("F4", 4),  # two elements in each
}
_BITS = dict(_DTYPES.values())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TensorSpec:
    """A contiguous tensor in the memory of the process, for serialize and serialize_file.

    Args:
        dtype: its name in numpy, ml_dtypes or torch, such as "float32" or "bfloat16". The
            attribute is the name that files use, "F32" or "BF16".
        shape: dimensions. Of float4_e2m1fn_x2, two elements in each, the last is that of torch;
            the attribute counts elements.
        data_ptr: address of the first element. The caller keeps the memory alive and unchanged
            during each call that uses the TensorSpec.
        data_len: bytes of the tensor.

    Raises:
        InvalidArgumentError: there is no such dtype.
        TypeError, OverflowError: an argument has the wrong type or is negative.
    """

    dtype: str
    shape: list[int]
    data_ptr: int
    data_len: int

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        if not isinstance(dtype, str):
            raise TypeError(f"dtype is a str, not {type(dtype).__name__}")
        if dtype not in _DTYPES:
            raise InvalidArgumentError(
                f'there is no dtype "{dtype}"; the dtypes of files are {", ".join(_DTYPES)}'
            )
        if isinstance(shape, (str, bytes)):
            raise TypeError(f"shape is a sequence of int, not {type(shape).__name__}")
        sizes = [_unsigned(size, "a dimension") for size in shape]
        if dtype == "float4_e2m1fn_x2" and sizes:
            sizes[-1] *= 2
        object.__setattr__(self, "dtype", _DTYPES[dtype][0])
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "data_ptr", _unsigned(data_ptr, "data_ptr"))
        object.__setattr__(self, "data_len", _unsigned(data_len, "data_len"))

    def _described(self, name: str) -> HostTensor:
        """The tensor as writers take it."""
        bits = math.prod(self.shape) * _BITS[self.dtype]
        if bits % 8 or bits // 8 != self.data_len:
            raise InvalidArgumentError(
                f"tensor `{name}` has {self.data_len} bytes, but {self.dtype} of shape "
                f"{self.shape} has {bits / 8:g}",
                record=name,
            )
        if self.data_len and not self.data_ptr:
            raise InvalidArgumentError(f"tensor `{name}` has no memory: data_ptr is 0", record=name)
        return name, self.dtype, self.shape, row_major(self.shape), self.data_ptr


def _unsigned(value: Any, what: str) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an int, not {type(value).__name__}")
    number: int = value.__index__()
    if not 0 <= number < 1 << 64:
        raise OverflowError(f"{what} is {number}, which is not from 0 to 2^64-1")
    return number


def _prepare(tensor_dict: Mapping[str, TensorSpec]) -> Prepared:
    if not isinstance(tensor_dict, Mapping):
        raise TypeError(f"expected a dict of TensorSpec, not {type(tensor_dict).__name__}")
    family: list[HostTensor | DeviceTensor] = []
    for name, spec in tensor_dict.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are str, not {type(name).__name__}: {name!r}")
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"tensor `{name}` is {with_article(type(spec).__name__)}, not a TensorSpec"
            )
        family.append(spec._described(check_utf8(name)))
    total_bytes = sum(spec.data_len for spec in tensor_dict.values())
    return Prepared(units=[family], total_bytes=total_bytes)


def serialize(
    tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Saves tensors, given by their addresses, to bytes of a .cfck file.

    Args:
        tensor_dict: names to TensorSpec.
        metadata: str to str, kept beside the tensors.

    Raises:
        InvalidArgumentError: data_len is not what dtype and shape need, or data_ptr is 0.
        TypeError: another type than these.
    """
    return write_prepared_bytes(_prepare(tensor_dict), metadata, SaveBytesOptions())[0]


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Saves tensors, given by their addresses, to a .cfck file. Arguments as of serialize.

    The file appears complete or not at all. Raises what serialize raises, and IoError.
    """
    write_prepared(_prepare(tensor_dict), filename, metadata, {}, SaveOptions())


class TensorData(TypedDict):
    """A tensor that deserialize returns: ``data`` is contiguous."""

    dtype: str
    shape: list[int]
    data: bytearray


def deserialize(bytes: bytes) -> list[tuple[str, TensorData]]:
    """All tensors of the bytes of a .cfck file or a safetensors file.

    Returns:
        (name, {"dtype": "F32", "shape": [2, 3], "data": bytearray}) of each, in file order;
        ``data`` is contiguous.

    Raises:
        TypeError: ``bytes`` is of another type.
        CfckError: any error of load; LimitExceededError above max(16 GiB, 64 times the bytes).
    """
    if not isinstance(bytes, _BYTES):
        raise TypeError(f"expected bytes, not {type(bytes).__name__}")
    archive = Archive.from_bytes(bytes, ReadOptions())
    names = archive.names()
    records = [archive.record(name) for name in names]
    try:
        memories = archive.allocate(names, lambda record, _: bytearray(record.decoded_bytes))
    except LimitExceededError:
        n_bytes = sum(record.decoded_bytes for record in records)
        raise LimitExceededError(
            f"the tensors have {n_bytes} bytes, more than deserialize returns; load them from a "
            "file or with load(), which accept max_decoded_bytes"
        ) from None
    targets = [
        (name, np.frombuffer(data, np.uint8).ctypes.data, len(data))
        for name, data in zip(names, memories, strict=True)
    ]
    archive.read_all_into(targets, None)
    return [
        (name, {"dtype": record.dtype, "shape": list(record.shape), "data": data})
        for name, record, data in zip(names, records, memories, strict=True)
    ]


_BYTES = bytes
