"""A weight that a file holds and a model uses."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .._frameworks.framework import row_major
from .._io.archive import Archive
from .buffers import Buffers
from .loan import Loan, to_parameter
from .rows import Rows

# From this number of dimensions on no memory format is known.
_MAX_PROBED_DIMS = 6


class Source(Protocol):
    """Decodes the weights of one model; its Supply does.

    Attributes:
        archive: the file.
        buffers: memory for decoded values.
        pending: loans whose values are in tensors that nobody watches.
    """

    archive: Archive
    buffers: Buffers
    pending: set[Loan]

    def use(self, weight: Weight) -> torch.Tensor: ...

    def held(self, weight: Weight) -> torch.Tensor | None: ...

    def whole(self, weight: Weight) -> torch.Tensor: ...


class Weight:
    """How a tensor of the file becomes a weight: its name there, and its form in the model.

    Attributes:
        supply: decodes it.
        name: that of the tensor in the file.
        shape: as the model has it.
        device: where its values are wanted.
        next: the weight that was decoded after this one when the model ran.
        loan: its decoded values, where somebody has them.
        placeholder: the parameter that stands for it, see placeholder_of().
        places: the modules that have it, and its name in each.
    """

    def __init__(self, supply: Source, name: str, like: torch.Tensor) -> None:
        self.supply = supply
        self.name = name
        self.shape = tuple(like.shape)
        self.device = torch.device("cpu") if like.is_meta else like.device
        self.next: weakref.ref[Weight] | None = None
        # The dtypes that the values went through: each may have rounded them.
        self._dtypes = [like.dtype]
        self._axes = _axes_of(like)
        self.loan: Loan | None = None
        self.places: list[tuple[weakref.ref[torch.nn.Module], str]] = []
        self._own: torch.nn.Parameter | None = None
        self.placeholder: weakref.ref[torch.nn.Parameter] | None = None
        self._rows: Rows | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Weight:
        from copy import deepcopy

        other = Weight.__new__(Weight)
        other.__dict__.update(self.__dict__)
        other.supply = deepcopy(self.supply, memo)
        other._dtypes = list(self._dtypes)
        other.next = other.loan = other._own = other.placeholder = other._rows = None
        other.places = []
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

    def own(self, is_changed: bool = False) -> torch.nn.Parameter | None:
        """The parameter that this weight has become, since somebody wrote into its values."""
        loan = self.loan
        if loan is not None and (is_changed or loan.is_changed()):
            self.become(loan.parameter_or_values())
        return self._own

    def become(self, values: torch.Tensor) -> None:
        """Leaves the file: from now on these values, in memory, are those of the weight."""
        self._own = to_parameter(values)
        self.loan = None

    def take_places(self) -> None:
        """Puts the parameter that this weight has become into all modules.

        Not at once: loops over parameters would meet a tied one a second time.
        """
        own = self.own()
        for reference, name in self.places if own is not None else ():
            module = reference()
            held = None if module is None else module._parameters.get(name)
            if module is not None and getattr(held, "weight", None) is self:
                module._parameters[name] = own

    def lent(self) -> torch.Tensor | None:
        """The parameter with the values, where they are in memory."""
        if (own := self.own()) is not None:
            return own
        loan = self.loan
        if loan is None:
            return None
        found = loan.parameter()
        self.loan = loan  # another thread may have ended it just before
        return found

    def lend(self, tensor: torch.Tensor) -> Loan:
        """Lends decoded values; if somebody has them already, that loan is returned."""
        if self.loan is None:
            if tensor.is_cuda:
                # The stream of the thread that decoded it may be another one.
                tensor.record_stream(torch.cuda.current_stream(tensor.device))
            self.loan = Loan(self, tensor)
        return self.loan

    def is_held(self, loan: Loan) -> None:
        """Somebody still has the values of this loan, in a tensor that nobody watches."""
        self.supply.pending.add(loan)

    def returned(self, loan: Loan) -> None:
        """Nobody has the values of this loan any more."""
        self.supply.pending.discard(loan)
        if self.loan is not loan:
            return
        if loan.is_changed():
            self.become(loan.parameter_or_values())
        self.loan = None

    def apply(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Follows a conversion of all tensors of the model, which is tried on a small one."""
        n_dims = len(self.shape)
        sides = (2 if n_dims <= _MAX_PROBED_DIMS else 1,) * n_dims
        strides = row_major(sides) if self._axes is None else _strides(sides, self._axes)
        probe = torch.empty_strided(sides, strides, dtype=self.dtype, device=self.device)
        result = function(probe)
        before = self.identity()
        if result.stride() != probe.stride():
            self._axes = _axes_of(result)
        if result.dtype != self.dtype:
            self._dtypes = [*self._dtypes, result.dtype]
        self.device = result.device
        if self.identity() != before:
            self.loan = None


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
