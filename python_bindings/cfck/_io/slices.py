"""Tensors that are read by parts."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex

from .._frameworks.framework import AnyTensor, Framework, TensorT
from ..errors import InvalidArgumentError, OutOfBoundsError
from .archive import Archive

if TYPE_CHECKING:
    import torch

_Item = SupportsIndex | slice | EllipsisType | Sequence[int] | AnyTensor | None
Index = _Item | tuple[_Item, ...]


class TensorSlice(Generic[TensorT]):
    """A tensor that is read by parts: ``part = f.get_slice("w")[10:20, ..., ::2]``.

    Integers, slices with positive steps and one ellipsis decode only what lies between the first
    and the last element of each axis. Any other index of the framework (None, lists, masks) reads
    the whole tensor and indexes that.
    """

    def __init__(
        self,
        archive: Archive,
        name: str,
        framework: Framework[TensorT],
        device: torch.device | None,
    ) -> None:
        self._archive = archive
        self._name = name
        self._framework = framework
        self._device = device
        self._record = archive.record(name)

    def get_shape(self) -> list[int]:
        """Dimensions of the whole tensor, in elements."""
        return list(self._record.shape)

    def get_dtype(self) -> str:
        """The dtype's name in safetensors: "F32", "BF16", ..."""
        return self._record.dtype

    def __getitem__(self, index: Index) -> TensorT:
        if self._device is not None:
            self._framework.reach_device(self._device)
        items = _full_index(index, self._name, len(self._record.shape))
        sub_byte = self._record.dtype in ("F4", "F6_E2M3", "F6_E3M2")
        part: TensorT
        if items is None or sub_byte or not items:
            whole: Any = self._archive.load_one(self._name, self._framework)
            part = whole[index]
            if not hasattr(part, "shape") or self._device is None:
                return part
            return self._framework.to_device(part, self._device)
        return self._read_box(items)

    def _read_box(self, items: list[int | slice]) -> TensorT:
        starts: list[int] = []
        stops: list[int] = []
        rest: list[int | slice] = []
        for axis, (item, size) in enumerate(zip(items, self._record.shape, strict=True)):
            if not isinstance(item, slice):
                position = item + size if item < 0 else item
                if not 0 <= position < size:
                    raise OutOfBoundsError(
                        f"index {item} is out of bounds for dimension {axis} with size {size}",
                        record=self._name,
                    )
                starts.append(position)
                stops.append(position + 1)
                rest.append(0)
                continue
            start, stop, step = item.indices(size)
            if step < 0:
                raise InvalidArgumentError("step must be greater than zero", record=self._name)
            starts.append(start)
            stops.append(max(start, stop))
            rest.append(slice(None, None, step))
        box: Any = self._archive.load_box(self._name, starts, stops, self._framework, self._device)
        part: TensorT = box[tuple(rest)]
        return part


def _is_integer(item: object) -> bool:
    if isinstance(item, bool) or getattr(item, "ndim", False):
        return False
    return hasattr(item, "__index__") and not hasattr(item, "dim")


def _full_index(index: Any, name: str, n_dims: int) -> list[int | slice] | None:
    """One integer or slice for each dimension; None if the index has anything else."""
    items: list[int | slice] = []
    given = index if isinstance(index, tuple) else (index,)
    ellipses = 0
    for item in given:
        if item is Ellipsis:
            ellipses += 1
            items.extend([slice(None)] * (n_dims - len(given) + 1))
        elif isinstance(item, slice):
            items.append(item)
        elif _is_integer(item):
            items.append(item.__index__())
        else:
            return None
    if ellipses > 1:
        return None
    if len(items) > n_dims:
        raise OutOfBoundsError(f"too many indices for tensor of dimension {n_dims}", record=name)
    return items + [slice(None)] * (n_dims - len(items))
