"""The tensors that a patch changes: in place, or by way of a copy on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import _native
from .._common.checks import check_utf8
from .._frameworks.choose import framework_of
from .._frameworks.framework import Framework, overlapping, overlaps_itself
from .._options.bases import HostMemory, contiguous_copy
from ..errors import CfckError, InvalidArgumentError


class _Place(NamedTuple):
    """A tensor: its dtype and shape, and its address if values can be written there."""

    dtype: str
    shape: Sequence[int]
    address: int | None


class PatchTargets:
    """Tensors as the library takes them. It calls prepare() when everything is proven, and before
    any of them is sure to keep its new values.

    Attributes:
        described: all of them, in host memory.
        copies: names of those that stand for tensors elsewhere.
        is_written: set by the library. From then on finish() must be called.
        changed: names of the tensors that have other values.
    """

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self.described: list[HostMemory] = []
        self.copies: set[str] = set()
        self.is_written = False
        self.changed: list[str] = []
        self.total_bytes = 0
        # A mapping may make tensors each time it is asked; these are written to through addresses.
        self._tensors = tensors = dict(tensors)
        self._memories: dict[str, Any] = {}  # of copies
        self._finished: dict[str, Any] = {}
        self._families: list[list[str]] = []
        if not tensors:
            return
        self._framework: Framework[Any] = framework_of(next(iter(tensors.values())))
        places = {name: self._place(name, tensor) for name, tensor in tensors.items()}
        self.copies = {name for name, place in places.items() if place.address is None}
        if self.copies:
            # Tensors that share memory with them are compared with them in prepare().
            self._families = [
                f for f in overlapping(self._framework, tensors) if self.copies.intersection(f)
            ]
            self.copies.update(name for family in self._families for name in family)
        for name, tensor in tensors.items():
            self._add(name, tensor, places[name])

    def _place(self, name: object, tensor: Any) -> _Place:
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are str, not {type(name).__name__}: {name!r}")
        check_utf8(name)
        try:
            dtype, shape = self._framework.describe(tensor)
            return _Place(dtype, shape, self._framework.target(tensor, dtype, shape, name, "it"))
        except CfckError as error:
            why = str(error).replace("tensor `` ", "it ").replace("``", f"`{name}`")
            message = f"tensor `{name}` cannot be changed: {why}"
            raise type(error)(message, record=name) from None

    def _add(self, name: str, tensor: Any, place: _Place) -> None:
        if place.address is not None and name not in self.copies:
            self.described.append((name, place.dtype, place.shape, place.address))
        else:
            self._memories[name], described = contiguous_copy(self._framework, name, tensor)
            self.described.append(described)
        self.total_bytes += _native.tensor_bytes(place.dtype, place.shape)

    def prepare(self, changed: list[str]) -> None:
        """Makes sure that copies can be copied back; they have their new values now.

        Raises:
            InvalidArgumentError: a tensor cannot have its values, since it shares memory.
        """
        self.changed = changed
        wanted = self.copies.intersection(changed)
        for name in wanted:
            tensor = self._tensors[name]
            if overlaps_itself(self._framework, tensor):
                raise InvalidArgumentError(
                    f"tensor `{name}` has elements that share memory with each other (an expanded "
                    "tensor?); give it memory of its own",
                    record=name,
                )
        families = [family for family in self._families if not wanted.isdisjoint(family)]
        described = {memory[0]: memory for memory in self.described}
        for name in wanted.union(*families):
            _, dtype, shape, _ = described[name]
            self._finished[name] = self._framework.finish(self._memories.pop(name), dtype, shape)
        for family in families:
            self._check_family(family)

    def _check_family(self, family: list[str]) -> None:
        """Checks that tensors which share memory are to have the same values there."""
        copies = [self._finished[name] for name in family]
        lost = self._framework.overwritten([self._tensors[name] for name in family], copies)
        if lost is not None:
            raise InvalidArgumentError(
                f"tensor `{family[lost]}` shares memory with another one, but not in the patch; "
                "give it memory of its own",
                record=family[lost],
            )

    def finish(self) -> None:
        """Tells the library of tensors that were written to, and copies the others back. An
        interrupt waits until all have their new values."""
        left = list(self.changed)
        interrupt: KeyboardInterrupt | None = None
        while left:
            try:
                while left:
                    self._finish_one(left[-1])
                    left.pop()
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _finish_one(self, name: str) -> None:
        tensor = self._tensors[name]
        if name in self.copies:
            self._framework.copy(tensor, self._finished[name])
        else:
            self._framework.wrote(tensor)
