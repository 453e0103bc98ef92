"""Passes of a model that do not repeat what cannot have changed since the last one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from .outputs import afterwards, run_model

# The outputs of modules that are kept, of all batches together, take at most this.
MAX_BYTES = 1 << 30


class _Reached(Exception):
    """The module that a pass was for is about to run; the rest of the model need not."""


@dataclasses.dataclass
class _Call:
    """A call of a module that has ended.

    Attributes:
        module: the module.
        depth: how many other calls it was in.
        output: what it returned; None where only calls that are left out take it.
        versions: the tensors of the output, and how often each had been changed.
        copies: whether the output is copied for those who take it, since they change it.
        parent: the module that called.
    """

    module: nn.Module
    depth: int
    output: Any
    versions: list[tuple[torch.Tensor, int]]
    copies: bool
    parent: nn.Module | None
    is_dropped: bool = False


@dataclasses.dataclass
class _Pass:
    """A pass of the model that is going on.

    Attributes:
        max_bytes: of outputs that may be kept of it.
    """

    calls: list[_Call]
    max_bytes: int = 0
    position: int = 0  # the next call that may be left out
    stop: nn.Module | None = None
    caught: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    stack: list[nn.Module] = dataclasses.field(default_factory=list)


class Prefix:
    """For each batch the calls of modules that came to their end before a certain module first
    ran. Later passes leave them out and take what they returned.

    This is exact as long as nothing changes on which these calls depend: their inputs, and the
    weights that they read. What lies between modules always runs. Outputs that somebody changes in
    place are noticed by their version counters, and are copied from then on.
    """

    def __init__(
        self, model: nn.Module, batches: Sequence[Any], max_bytes: int = MAX_BYTES
    ) -> None:
        self._model = model
        self._batches = batches
        self._max_bytes = max_bytes
        self._calls: list[list[_Call]] = [[] for _ in batches]
        self._changed_in_place: set[nn.Module] = set()
        self._pass: _Pass | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """While this lasts, calls of the model's modules can be left out."""
        modules = [m for m in self._model.modules() if not isinstance(m, torch.jit.ScriptModule)]
        with _forwards(modules, self._wrapped):
            yield

    def clear(self) -> None:
        """Forgets all calls."""
        self._calls = [[] for _ in self._batches]

    def run(self, position: int) -> Any:
        """Runs the model on a batch and returns its output."""
        state = _Pass(list(self._calls[position]))
        with self._running(state):
            returned = run_model(self._model, self._batches[position])
        self._check(position)
        return returned

    def reach(self, position: int, module: nn.Module) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the first call of the module; what ends before is kept.

        Raises LookupError where the model does not call it.
        """
        others = sum(_n_bytes(calls) for i, calls in enumerate(self._calls) if i != position)
        state = _Pass(self._calls[position], self._max_bytes - others, stop=module)
        with self._running(state), contextlib.suppress(_Reached):
            run_model(self._model, self._batches[position])
        self._check(position)
        if state.caught is None:
            # All that was kept may come after what the caller meant.
            self._calls[position] = []
            raise LookupError
        return state.caught

    @contextlib.contextmanager
    def _running(self, state: _Pass) -> Iterator[None]:
        self._pass = state
        try:
            yield
        finally:
            self._pass = None

    def _wrapped(self, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            state = self._pass
            if state is None:
                return forward(*args, **kwargs)
            if state.stop is module:
                state.caught = args, kwargs
                raise _Reached
            depth = len(state.stack)
            if state.position < len(state.calls):
                call = state.calls[state.position]
                if call.module is module and call.depth == depth:
                    state.position += 1
                    return _copied(call.output) if call.copies else call.output
            begin = state.position
            state.stack.append(module)
            returned = forward(*args, **kwargs)
            state.stack.pop()
            if state.stop is not None:
                self._keep(state, begin, module, returned)
            return returned

        return wrapper

    def _keep(self, state: _Pass, begin: int, module: nn.Module, returned: Any) -> None:
        """A call in place of those that were made by it."""
        if state.position != len(state.calls):
            return  # it ended before calls that are known: it is one that was not kept
        calls = state.calls
        del calls[begin:]
        state.position = len(calls)
        copies = module in self._changed_in_place
        output = _copied(returned) if copies else returned
        tensors = _tensors(output)
        if any(tensor.is_inference() for tensor in tensors):
            return  # changes of these are not counted
        versions = [(tensor, tensor._version) for tensor in tensors]
        if _n_bytes(calls) + sum(t.nbytes for t, _ in versions) > state.max_bytes:
            return
        parent = state.stack[-1] if state.stack else None
        call = _Call(module, len(state.stack), output, versions, copies, parent)
        if calls and _takes_only(calls[-1], call):
            calls[-1].output, calls[-1].versions = torch.empty(0, device="cpu"), []
            calls[-1].is_dropped = True
        calls.append(call)
        state.position = len(calls)

    def _check(self, position: int) -> None:
        """Forgets calls whose outputs have changed since, and what was kept without such calls."""
        calls = self._calls[position]
        for index, call in enumerate(calls):
            if any(tensor._version != version for tensor, version in call.versions):
                self._changed_in_place.add(call.module)
                while index and calls[index - 1].is_dropped:
                    index -= 1
                del calls[index:]
                return


def _n_bytes(calls: list[_Call]) -> int:
    return sum(tensor.nbytes for call in calls for tensor, _ in call.versions)


def _takes_only(before: _Call, call: _Call) -> bool:
    """Whether a call is the only one that takes the output of the one before: in a Sequential."""
    parent = call.parent
    if type(parent) is not nn.Sequential or before.parent is not parent:
        return False
    if before.depth != call.depth or before.module._forward_hooks:
        return False
    if call.module._forward_hooks or call.module._forward_pre_hooks:
        return False
    children = list(parent)
    return any(
        one is before.module and other is call.module for one, other in zip(children, children[1:])
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) in (tuple, list):
        return type(value)(_copied(part) for part in value)
    if type(value) is dict:
        return {name: _copied(part) for name, part in value.items()}
    return value


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees which operations read which memory."""

    def __init__(self, read: Callable[[int], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._read = read

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for tensor in _tensors((args, kwargs or {})):
            self._read(_address(tensor))
        return func(*args, **(kwargs or {}))


# When a module first ran, and which one it is.
FirstRead = tuple[int, nn.Module]


def first_readers(
    model: nn.Module, batch: Any, tensors: Mapping[str, torch.Tensor]
) -> dict[str, FirstRead]:
    """For each of these tensors that a pass reads: the innermost module that was running then.

    Calls that ended before the first call of that module do not depend on the tensor.
    """
    modules = list(model.modules())
    if any(isinstance(module, torch.jit.ScriptModule) for module in modules):
        return {}  # their reads may not be seen
    unread: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        unread.setdefault(_address(tensor), []).append(name)
    stack: list[nn.Module] = []
    first_call: dict[nn.Module, int] = {}
    found: dict[str, FirstRead] = {}

    def read(address: int) -> None:
        for name in unread.pop(address, ()):
            if stack:
                found[name] = first_call[stack[-1]], stack[-1]

    def watched(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            first_call.setdefault(module, len(first_call))
            stack.append(module)
            try:
                return forward(*args, **kwargs)
            finally:
                stack.pop()

        return wrapper

    with _forwards(modules, watched), _Reads(read):
        run_model(model, batch)
    return found


@contextlib.contextmanager
def _forwards(
    modules: Sequence[nn.Module],
    wrapped: Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Has the modules run something else in place of their forward()."""
    own = [(module, module.__dict__.get("forward")) for module in modules]

    def restore() -> None:
        for module, forward in own:
            module.__dict__.pop("forward", None)
            if forward is not None:
                module.__dict__["forward"] = forward

    with afterwards(restore):
        for module in modules:
            module.__dict__["forward"] = wrapped(module, module.forward)
        yield


def _address(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper of other tensors
        return 0
