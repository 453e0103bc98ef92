"""A weight that a file holds and a model uses."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._frameworks.framework import row_major
from .rows import Rows
from .supply import Supply

if TYPE_CHECKING:
    from .placeholder import Placeholder

# From this number of dimensions on no memory format is known.
_MOST_PROBED_DIMS = 6


class Weight:
    """How a tensor of the file becomes a weight: its name there, and its form in the model.

    Attributes:
        supply: decodes it.
        name: that of the tensor in the file.
        shape: as the model has it.
        device: where its values are wanted.
        next: the weight that was decoded after this one when the model ran.
    """

    def __init__(self, supply: Supply, name: str, like: torch.Tensor) -> None:
        self.supply = supply
        self.name = name
        self.shape = tuple(like.shape)
        self.device = torch.device("cpu") if like.is_meta else like.device
        self.next: weakref.ref[Weight] | None = None
        # The dtypes that the values went through: each may have rounded them.
        self._dtypes = [like.dtype]
        self._axes = _axes_of(like)
        self._alive: tuple[weakref.ref[torch.Tensor], int] | None = None
        self._placeholder: weakref.ref[Placeholder] | None = None
        self._rows: Rows | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Weight:
        from copy import deepcopy

        other = Weight.__new__(Weight)
        other.__dict__.update(self.__dict__)
        other.supply = deepcopy(self.supply, memo)
        other._dtypes = list(self._dtypes)
        other.next = other._alive = other._placeholder = other._rows = None
        return other

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that the model has it in."""
        return self._dtypes[-1]

    def identity(self) -> tuple[object, ...]:
        """Equal as long as decoding gives the same tensor."""
        return id(self), self.device, tuple(self._dtypes), self._axes

    def decode(self) -> torch.Tensor:
        """The values, in memory of their own."""
        archive, on_host = self.supply.archive, self.device.type == "cpu"
        # A tensor of inference_mode() could not be used outside of it.
        with torch.inference_mode(False), torch.no_grad():
            device = None if on_host else self.device
            tensor = archive.load_one(self.name, self.supply.buffers, device)
            archive.check_unchanged(self.name)
            tensor = self.cast(tensor)
            if self._axes is None:
                return tensor
            strides = _strides(self.shape, self._axes)
            laid_out = torch.empty_strided(
                self.shape, strides, dtype=tensor.dtype, device=tensor.device
            )
            return laid_out.copy_(tensor)

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Values of the file in the dtype of the model."""
        for dtype in self._dtypes:
            tensor = tensor.to(dtype)
        return tensor

    def rows(self) -> Rows:
        """The weight, read row by row."""
        if self._rows is None:
            self._rows = Rows(self.supply.archive, self.name)
        return self._rows

    def alive(self) -> torch.Tensor | None:
        """The values, where somebody still holds them and has not changed them."""
        if self._alive is None:
            return None
        tensor = self._alive[0]()
        return tensor if tensor is not None and tensor._version == self._alive[1] else None

    def keep(self, tensor: torch.Tensor) -> None:
        """Remembers decoded values as long as others hold them."""
        if tensor.is_cuda:
            # The stream of the thread that decoded it may be another one.
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
        self._alive = weakref.ref(tensor), tensor._version

    def placeholder(self) -> Placeholder:
        """The parameter that stands for this weight in all modules that have it."""
        from .placeholder import Placeholder

        found = None if self._placeholder is None else self._placeholder()
        if found is None or (found.dtype, found.device) != (self.dtype, self.device):
            found = Placeholder(self)
            self._placeholder = weakref.ref(found)
        return found

    def apply(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Follows a conversion of all tensors of the model, which is tried on a small one."""
        n_dims = len(self.shape)
        sides = (2 if n_dims <= _MOST_PROBED_DIMS else 1,) * n_dims
        strides = row_major(sides) if self._axes is None else _strides(sides, self._axes)
        probe = torch.empty_strided(sides, strides, dtype=self.dtype, device=self.device)
        result = function(probe)
        if result.stride() != probe.stride():
            self._axes = _axes_of(result)
        if result.dtype != self.dtype:
            self._dtypes = [*self._dtypes, result.dtype]
        self.device = result.device
        self._alive = None


def _axes_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The axes from the outermost in memory to the innermost; None: as they are numbered."""
    if tensor.is_contiguous():
        return None
    steps = tensor.stride()
    axes = tuple(sorted(range(tensor.dim()), key=lambda axis: (-steps[axis], axis)))
    return axes if _strides(tensor.shape, axes) == tensor.stride() else None


def _strides(shape: Sequence[int], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a dense tensor whose axes lie in memory in this order."""
    strides = [0] * len(shape)
    for axis, step in zip(axes, row_major([shape[axis] for axis in axes]), strict=True):
        strides[axis] = step
    return tuple(strides)
