"""Decoded values in the hands of others, who may write into them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Protocol, cast

import torch

_DATA = cast(Any, torch.Tensor.data)


class Lender(Protocol):
    """A weight, as its loan sees it."""

    loan: Loan | None

    def become(self, values: torch.Tensor) -> None:
        """Leaves the file: from now on these values are those of the weight."""

    def is_held(self, loan: Loan) -> None:
        """Somebody still has the values, in a tensor that nobody watches."""

    def returned(self, loan: Loan) -> None:
        """Nobody has the values of this loan any more."""


class Loan:
    """The decoded values of a weight while somebody has them.

    They are dropped with the last tensor that shows them, unless somebody wrote into them: then
    they become an ordinary parameter of the model. All tensors that are handed out share one
    version counter, which PyTorch raises with every write. ``values()`` is one of them that also
    intercepts what PyTorch does not count.
    """

    def __init__(self, weight: Lender, tensor: torch.Tensor) -> None:
        self._weight = weakref.ref(weight)
        self._tensor = tensor
        self._version = tensor._version
        self._holders = _holders(tensor)
        self._handed: set[weakref.ref[torch.Tensor]] = set()
        self._parameter: weakref.ref[Values] | None = None
        # A copy from before others than PyTorch were given the memory.
        self._before: torch.Tensor | None = None

    def parameter(self) -> Values:
        """The values as a parameter, one as long as somebody has it."""
        found = None if self._parameter is None else self._parameter()
        if found is None:
            found = self.values()
            found._is_param = True  # for isinstance(..., torch.nn.Parameter)
            self._parameter = weakref.ref(found)
        return found

    def values(self) -> Values:
        """The values as a tensor that tells of all that is written into it."""
        with torch.inference_mode(False):
            made = torch.Tensor._make_subclass(Values, self._tensor, False)
        made.loan = self
        self._watch(made)
        return made

    def plain(self) -> torch.Tensor:
        """The values as a plain tensor."""
        with torch.inference_mode(False):
            made = self._tensor.detach()
        self._watch(made)
        return made

    def _watch(self, tensor: torch.Tensor) -> None:
        self._handed.add(weakref.ref(tensor, self._on_drop()))

    def _on_drop(self) -> Callable[[weakref.ref[torch.Tensor]], None]:
        me = weakref.ref(self)

        def dropped(reference: weakref.ref[torch.Tensor]) -> None:
            if (loan := me()) is not None:
                loan._handed.discard(reference)
                loan.end(dying=1)

        return dropped

    def end(self, dying: int = 0) -> None:
        """Ends the loan if nobody has the values.

        ``dying``: how many tensors still count as holders of the memory, and are being freed.
        """
        weight = self._weight()
        if weight is None or self._handed:
            return
        if _holders(self._tensor) > self._holders + dying:
            # Somebody has a tensor that this one did not hand out, such as an array of numpy.
            weight.is_held(self)
            return
        weight.returned(self)

    def is_changed(self) -> bool:
        """Whether somebody wrote into the values."""
        if self._tensor._version != self._version:
            return True
        return self._before is not None and not _are_same(self._before, self._tensor)

    def expose(self) -> None:
        """Keeps a copy, so that changes are noticed that PyTorch does not see."""
        if self._before is None and not self._tensor.is_meta:
            with torch.inference_mode(False), torch.no_grad():
                self._before = self._tensor.clone(memory_format=torch.preserve_format)

    def replaced(self, by: Values) -> None:
        """Makes the parameter, whose memory is another one now, that of the model."""
        weight = self._weight()
        is_parameter = self._parameter is not None and self._parameter() is by
        if weight is not None and is_parameter and weight.loan is self:
            weight.become(by)

    def parameter_or_values(self) -> torch.Tensor:
        """The tensor that becomes the parameter: the one that others have, if there is one."""
        found = None if self._parameter is None else self._parameter()
        return self._tensor if found is None or found.requires_grad else found

    def weight(self) -> Lender | None:
        """The weight, as long as a model has it."""
        return self._weight()


class Values(torch.Tensor):
    """Decoded values: a tensor as any other, but that what is written into it counts.

    Operations give plain tensors.
    """

    __torch_function__ = cast(Any, torch._C)._disabled_torch_function_impl
    loan: Loan
    _is_param: bool

    @property
    def data(self) -> torch.Tensor:
        loan = self.__dict__.get("loan")
        found: torch.Tensor = _DATA.__get__(self) if loan is None else loan.values()
        return found

    @data.setter
    def data(self, values: torch.Tensor) -> None:
        _DATA.__set__(self, values)
        self._moved()

    def _moved(self) -> None:
        """Ends the loan, since the tensor has other memory from now on."""
        loan = self.__dict__.pop("loan", None)
        if loan is not None:
            loan.replaced(self)

    def set_(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        super().set_(*args, **kwargs)
        self._moved()
        return self

    def resize_(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        super().resize_(*args, **kwargs)
        self._moved()
        return self

    def resize_as_(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        super().resize_as_(*args, **kwargs)
        self._moved()
        return self

    def detach(self) -> torch.Tensor:
        # torch.nn.Parameter(...) asks that it has the same class.
        loan = self.__dict__.get("loan")
        return super().detach() if loan is None else loan.values()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        self._expose()
        return super().numpy(*args, **kwargs)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        self._expose()
        return super().__dlpack__(*args, **kwargs)

    def untyped_storage(self) -> torch.UntypedStorage:
        self._expose()
        return super().untyped_storage()

    def storage(self) -> Any:
        self._expose()
        return cast(Any, super()).storage()

    def _expose(self) -> None:
        loan = self.__dict__.get("loan")
        if loan is not None:
            loan.expose()

    def is_parameter_of(self, placeholder: Any) -> bool:
        """Whether these are the values of a placeholder's weight."""
        loan = self.__dict__.get("loan")
        weight = None if loan is None else loan.weight()
        return weight is not None and getattr(placeholder, "weight", None) is weight

    def plain(self) -> torch.Tensor:
        """The same values and memory as an ordinary tensor or parameter."""
        with torch.inference_mode(False):
            if self.__dict__.get("_is_param"):
                kind = torch.nn.Parameter
                return torch.Tensor._make_subclass(kind, _DATA.__get__(self), self.requires_grad)
            return torch.Tensor.detach(self).as_subclass(torch.Tensor)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = deepcopy(self.plain(), memo)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return cast(Any, self.plain()).__reduce_ex__(protocol)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self.plain())


def to_parameter(values: torch.Tensor) -> torch.nn.Parameter:
    """An ordinary parameter; ``values`` itself, where others have it as the parameter."""
    if type(values) is Values and values.__dict__.get("_is_param"):
        values.__dict__.pop("loan", None)
        values.__dict__.pop("_is_param")
        cast(Any, values).__class__ = torch.nn.Parameter
        return cast(torch.nn.Parameter, values)
    with torch.inference_mode(False):
        plain = torch.Tensor.detach(values).as_subclass(torch.Tensor)
        return torch.nn.Parameter(plain, requires_grad=False)


def _holders(tensor: torch.Tensor) -> int:
    """How many tensors and others hold the memory; 0 where PyTorch does not say so."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return 0 if count is None else int(count(tensor.untyped_storage()._cdata))


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the bytes are the same."""
    with torch.inference_mode(False), torch.no_grad():
        a, b = (t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other))
        return torch.equal(a, b)
