"""numpy arrays, with the dtypes of ml_dtypes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._common.problems import Problems
from ..errors import (
    CfckError,
    DeviceError,
    InvalidArgumentError,
    OutOfMemoryError,
    UnsupportedError,
)
from .framework import DeviceTensor, HostTensor, Prepared, named_tensors, row_major, unsupported

_SCALAR_TYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "I16": np.int16,
    "U16": np.uint16,
    "F16": np.float16,
    "I32": np.int32,
    "U32": np.uint32,
    "F32": np.float32,
    "C64": np.complex64,
    "F64": np.float64,
    "I64": np.int64,
    "U64": np.uint64,
}
_ML_TYPES = {
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
}
# Bits per element where a file packs what numpy keeps in a byte each.
_PACKED_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


@functools.cache
def _dtypes() -> dict[str, np.dtype[Any]]:
    """By the names of files. ml_dtypes takes long to import, which loading with torch need not."""
    import ml_dtypes

    scalars = {**_SCALAR_TYPES, **{n: getattr(ml_dtypes, ml, None) for n, ml in _ML_TYPES.items()}}
    return {name: np.dtype(scalar) for name, scalar in scalars.items() if scalar is not None}


@functools.cache
def _names() -> dict[np.dtype[Any], str]:
    return {dtype: name for name, dtype in _dtypes().items()}


def dtype_of(name: str) -> np.dtype[Any]:
    """The numpy dtype for a dtype of a file."""
    try:
        return _dtypes()[name]
    except KeyError:
        raise UnsupportedError(f"numpy has no dtype for {name} here") from None


def _pack(array: np.ndarray, bits: int) -> np.ndarray:
    every_bit = np.unpackbits(array.reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
    return np.packbits(every_bit[:, :bits], bitorder="little")


def _unpack(
    packed: np.ndarray, bits: int, dtype: np.dtype[Any], shape: Sequence[int]
) -> np.ndarray:
    every_bit = np.unpackbits(packed, bitorder="little").reshape(-1, bits)
    elements = np.packbits(every_bit, axis=1, bitorder="little").reshape(-1)
    return elements.view(dtype).reshape(shape)


def _have_same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    bits = f"u{one.itemsize}"
    return np.array_equal(one.view(bits), other.view(bits))


def _other_than_last(arrays: Sequence[np.ndarray]) -> int | None:
    """The number of an array that has other bits than the last one."""
    differ = (n for n, array in enumerate(arrays) if not _have_same_bits(array, arrays[-1]))
    return next(differ, None)


class NumpyFramework:
    """Framework of numpy.ndarray."""

    def prepare(self, tensors: Mapping[str, np.ndarray]) -> Prepared:
        prepared = Prepared()
        family: list[HostTensor | DeviceTensor] = []
        # A scalar (np.float32(3)) is as good as an array without dimensions.
        problems = Problems()
        kinds = (np.ndarray, np.generic)
        for name, value in named_tensors(tensors, kinds, "np.ndarray", problems):
            try:
                array = self._storable(name, np.asanyarray(value))
            except CfckError as error:
                problems.add(error)
                continue
            dtype = _names()[array.dtype]
            shape = array.shape
            strides = tuple(step // array.itemsize for step in array.strides)
            if dtype in _PACKED_BITS:
                array, strides = _pack(array, _PACKED_BITS[dtype]), row_major(shape)
            prepared.owners.append(array)
            prepared.total_bytes += array.nbytes
            if array.size == 0:
                strides = row_major(shape)
            family.append((name, dtype, shape, strides, array.ctypes.data))
        problems.check()
        prepared.units.append(family)
        return prepared

    def on_host(self, prepared: Prepared) -> list[HostTensor]:
        return prepared.units[0]  # type: ignore[return-value]

    def _storable(self, name: str, array: np.ndarray) -> np.ndarray:
        """``array``, or a copy of it that the native writer can read."""
        if isinstance(array, np.ma.MaskedArray):
            raise unsupported(name, "is a masked array", "save its data and its mask")
        native = array.dtype.newbyteorder("=")
        if native not in _names():
            raise unsupported(
                name,
                f"has dtype {array.dtype}, which cannot be stored",
                f"convert it to one of {', '.join(str(dtype) for dtype in _names())}",
            )
        if native != array.dtype:
            return array.astype(native, order="C")
        strides_fit = all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
        if strides_fit and array.flags.aligned:
            return array
        return array.copy(order="C")

    def contiguous(self, tensor: np.ndarray) -> np.ndarray:
        return np.array(tensor, order="C")

    def allocate(self, dtype: str, shape: Sequence[int]) -> tuple[np.ndarray, int, int]:
        try:
            if bits := _PACKED_BITS.get(dtype):
                n_elems = int(np.prod(shape, dtype=object))
                memory = np.empty(n_elems * bits // 8, np.uint8)
            else:
                memory = np.empty(shape, dtype_of(dtype))
        except MemoryError as error:
            raise OutOfMemoryError(f"no memory for an array of shape {list(shape)}") from error
        except ValueError as error:  # empty, and the other dimensions are too large
            raise UnsupportedError(
                f"numpy cannot have an array of shape {list(shape)}: {error}"
            ) from None
        return memory, memory.ctypes.data, memory.nbytes

    def finish(self, memory: np.ndarray, dtype: str, shape: Sequence[int]) -> np.ndarray:
        if bits := _PACKED_BITS.get(dtype):
            return _unpack(memory, bits, dtype_of(dtype), shape)
        return memory

    def view(
        self,
        base: np.ndarray,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> np.ndarray:
        size = base.itemsize
        return np.lib.stride_tricks.as_strided(
            base.reshape(-1)[offset:], shape, [stride * size for stride in strides]
        )

    def check_device(self, device: object) -> None:
        if device not in ("cpu", None):
            raise DeviceError(f"device {device} is not supported for framework numpy")

    def reach_device(self, device: object) -> None:
        pass

    def to_device(self, tensor: np.ndarray, device: object) -> np.ndarray:
        return tensor

    def target(
        self, out: object, dtype: str, shape: Sequence[int], name: str, called: str = "out"
    ) -> int | None:
        if not isinstance(out, np.ndarray):
            raise InvalidArgumentError(
                f"{called} must be a numpy.ndarray, not {type(out).__name__}", record=name
            )
        if out.dtype.newbyteorder("=") != dtype_of(dtype) or out.shape != tuple(shape):
            raise InvalidArgumentError(
                f"{called} is {out.dtype}{list(out.shape)}, but tensor `{name}` is "
                f"{dtype_of(dtype)}{list(shape)}",
                record=name,
            )
        if not out.flags.writeable:
            raise InvalidArgumentError(f"{called} is read-only", record=name)
        in_place = out.flags.c_contiguous and out.dtype.isnative and dtype not in _PACKED_BITS
        return out.ctypes.data if in_place else None

    def wrote(self, out: np.ndarray) -> None:
        pass

    def describe(self, tensor: np.ndarray) -> tuple[str, Sequence[int]]:
        _, dtype, shape, *_ = self.on_host(self.prepare({"": tensor}))[0]
        return dtype, shape

    def device_of(self, out: np.ndarray) -> None:
        return None

    def address(self, out: np.ndarray) -> int:
        return out.ctypes.data

    def copy(self, out: np.ndarray, tensor: np.ndarray) -> None:
        out[...] = tensor

    def has_bits_of(self, out: np.ndarray, tensor: np.ndarray) -> bool:
        native = out if out.dtype.isnative else out.astype(tensor.dtype)
        return _have_same_bits(native, tensor)

    def steps(self, tensor: np.ndarray) -> Sequence[int]:
        # Where they are no whole elements, rounded down.
        return [abs(step) // tensor.itemsize for step in tensor.strides]

    def span(self, tensor: np.ndarray) -> tuple[str, int, int]:
        steps = [(n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True)]
        start = tensor.ctypes.data + sum(step for step in steps if step < 0)
        length = sum(map(abs, steps)) + tensor.itemsize
        return "", start, start + length

    def overwritten(self, outs: Sequence[np.ndarray], tensors: Sequence[np.ndarray]) -> int | None:
        if len({(out.ctypes.data, out.dtype, out.shape, out.strides) for out in outs}) == 1:
            return _other_than_last(tensors)
        spans = [self.span(out) for out in outs]
        first = min(start for _, start, _ in spans)
        memory = np.empty(max(stop for _, _, stop in spans) - first, np.uint8)
        views = [
            np.ndarray(out.shape, out.dtype, memory, out.ctypes.data - first, out.strides)
            for out in outs
        ]
        for view, tensor in zip(views, tensors, strict=True):
            view[...] = tensor
        for number, (view, tensor) in enumerate(zip(views, tensors, strict=True)):
            if not _have_same_bits(view, tensor.astype(view.dtype)):
                return number
        return None
