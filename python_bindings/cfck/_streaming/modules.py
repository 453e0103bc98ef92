"""Modules whose weights are placeholders."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

from torch import nn

from ..errors import UnsupportedError
from .loan import Values
from .placeholder import Placeholder, placeholder_of
from .supply import Supply

# The attribute of a module with its Supply.
_SUPPLY = "_cfck_supply"


class Streamed(nn.Module):
    """First base of the classes of modules with placeholders.

    The class of a module is replaced by one that is derived from this and from the class that it
    had. There are no hooks: PyTorch's fast paths of attention do not run on modules with hooks.
    """

    _cfck_names: frozenset[str]

    def __init_subclass__(cls, **_: Any) -> None:
        # A model's own hook is for its own classes: registries would keep those made here.
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._settle()
        try:
            return super().__call__(*args, **kwargs)
        finally:
            # A module that was made by this class, and not by stream(), has weights of its own.
            if (supply := self.__dict__.get(_SUPPLY)) is not None:
                supply.release()

    def _settle(self) -> None:
        """Turns weights that somebody wrote into into ordinary parameters."""
        for parameter in list(self._parameters.values()):
            if isinstance(parameter, Placeholder):
                parameter.weight.take_places()

    def _apply(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._settle()
        held = {n: p for n, p in self._parameters.items() if isinstance(p, Placeholder)}
        for name in held:
            self._parameters[name] = None
        try:
            cast(Any, super())._apply(fn, *args, **kwargs)
            for placeholder in held.values():
                placeholder.weight.apply(fn)
        finally:
            for name, placeholder in held.items():
                self._parameters[name] = placeholder_of(placeholder.weight)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        inherited = getattr(super(), "__deepcopy__", None)
        if inherited is not None:
            other = inherited(memo)
        else:
            other = self.__new__(type(self))
            memo[id(self)] = other
            other.__dict__ = deepcopy(self.__dict__, memo)
        for name, parameter in other._parameters.items():
            if isinstance(parameter, Placeholder):
                parameter.weight.places.append((weakref.ref(other), name))
        return other

    def __copy__(self) -> Any:
        other = self.__new__(type(self))
        other.__dict__ = self.__dict__.copy()
        return other

    def register_parameter(self, name: str, param: Any) -> None:
        if isinstance(param, Values) and param.is_parameter_of(self._parameters.get(name)):
            return  # as `module.weight += delta` assigns it
        super().register_parameter(name, param)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError(
            f"a compressed {type(self).__name__} cannot be pickled; save model.state_dict(), which "
            "has the decoded values"
        )

    def extra_repr(self) -> str:
        inherited = super().extra_repr()
        return f"{inherited}, compressed" if inherited else "compressed"


def stream(module: nn.Module, placeholders: dict[str, Placeholder], supply: Supply) -> None:
    """Replaces parameters of a module by placeholders."""
    for name, placeholder in placeholders.items():
        module._parameters[name] = placeholder
        placeholder.weight.places.append((weakref.ref(module), name))
    module.__dict__[_SUPPLY] = supply
    if isinstance(module, nn.RNNBase):
        # The rest of its state is asked for by a property of the class.
        module.__dict__.pop("_flat_weights", None)
        module.__dict__["_flat_weight_refs"] = []
    names = frozenset(placeholders)
    if isinstance(module, Streamed):
        names |= type(module)._cfck_names
        module.__class__ = type(module).__bases__[1]
    module.__class__ = _streamed_class(type(module), names)


_classes: dict[tuple[type, frozenset[str]], type] = {}


def _streamed_class(kind: type, names: frozenset[str]) -> type:
    """The class of modules of a kind of which these parameters may be placeholders."""
    found = _classes.get((kind, names))
    if found is None:
        space: dict[str, Any] = {name: _weight_property(kind, name) for name in names}
        if issubclass(kind, nn.RNNBase):
            space["_flat_weights"] = property(_flat_weights, lambda self, weights: None)
            space["_update_flat_weights"] = lambda self: None
        # Its name is what libraries look at to know a model.
        space |= {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "_cfck_names": names,
        }
        found = cast(Any, type(kind))(kind.__name__, (Streamed, kind), space)
        _classes[kind, names] = found
    return found


def _weight_property(kind: type, name: str) -> property:
    """Decodes a weight where it is read; embeddings get the placeholder and read rows."""
    by_rows = issubclass(kind, nn.Embedding | nn.EmbeddingBag) and name == "weight"

    def read(self: nn.Module) -> Any:
        if name not in self._parameters:
            if name in self.__dict__:
                return self.__dict__[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        parameter = self._parameters[name]
        if not isinstance(parameter, Placeholder):
            return parameter
        weight = parameter.weight
        if by_rows:
            # Rows are read one by one, unless somebody has all values: a tied layer, say, whose
            # weight is then the same object.
            held = weight.supply.held(weight)
            return parameter if held is None else held
        return weight.supply.use(weight)

    def write(self: nn.Module, value: Any) -> None:
        # Where the parameter was deleted: functions that compute weights from others do that.
        self.__dict__[name] = value

    def delete(self: nn.Module) -> None:
        self.__dict__.pop(name, None)

    return property(read, write, delete)


def _flat_weights(self: Any) -> list[Any]:
    """The weights of a recurrent module, in the order in which its operation takes them."""
    weights = [getattr(self, name, None) for name in self._flat_weights_names]
    if (supply := self.__dict__.get(_SUPPLY)) is not None:
        supply.hold(weights)  # it asks several times
    return weights
