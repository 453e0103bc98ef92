"""The model of a follower: a dict of tensors, or a torch module."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from .._common.near import listed
from .._frameworks.choose import find_framework, framework_of
from .._frameworks.framework import Framework, overlapping, overlaps_itself
from ..errors import CfckError, InvalidArgumentError, UnsupportedError
from .copies import place_of
from .digests import TensorInfo
from .naming import advice_on_versions


def is_module(model: object) -> bool:
    """Whether it is a torch.nn.Module. Whoever has one has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def default_framework(model: Any) -> Framework[Any]:
    """That of the model; where it has no tensors, torch if the program uses it."""
    if isinstance(model, Mapping) and model:
        return framework_of(next(iter(model.values())))
    return find_framework("pt" if is_module(model) or "torch" in sys.modules else "np")


def check_model(model: object) -> None:
    if not is_module(model) and not isinstance(model, MutableMapping):
        raise TypeError(
            f"model is a torch.nn.Module or a dict of tensors, not {type(model).__name__}"
        )


class Receiver:
    """What the model of a follower was filled with."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        # A module, which is not kept alive.
        self._module: Callable[[], object] = lambda: None
        # The tensors of a dict: not the dict, since state_dict() makes a new one each time. As long
        # as they are there, no others have their memory.
        self._tensors: dict[str, Any] = {}
        self._has: dict[str, tuple[TensorInfo, object]] = {}

    def is_of(self, model: Any) -> bool:
        """Whether this model has what was filled last."""
        if is_module(model):
            return self._module() is model
        if model.keys() != self._tensors.keys():
            return False
        return bool(model) and all(
            value is self._tensors[name] or place_of(value) == place_of(self._tensors[name])
            for name, value in model.items()
        )

    def fill(
        self,
        model: Any,
        framework: Framework[Any],
        tensors: Mapping[str, Any],
        infos: Mapping[str, TensorInfo],
        strict: bool,
    ) -> list[str]:
        """Copies what has changed, and what has no longer the values that were filled in. Before
        anything is changed it is checked that all fits.

        Returns:
            The names of the tensors to which somebody else wrote, as far as that shows: those that
            are to keep the values that they were given, and had others.

        Raises:
            InvalidArgumentError: a module has other names, dtypes or shapes.
            UnsupportedError: a tensor of it cannot be filled.
        """
        had = self._has if self.is_of(model) else {}
        targets = _targets(model)
        if is_module(model):
            filled = _of_module(framework, targets, tensors, infos, strict)
        else:
            filled = _that_fit(framework, targets, tensors, infos)
        # Half a model is none: after an error all of it is copied.
        self._forget()
        has = {}
        overwritten = []
        for name in sorted(filled):
            target, memory = targets[name], place_of(targets[name])
            keeps = had.get(name) == (infos[name], memory)
            if not keeps or not framework.has_bits_of(target, tensors[name]):
                framework.copy(target, tensors[name])
                if keeps:
                    overwritten.append(name)
            has[name] = infos[name], memory
        if is_module(model):
            self._module = weakref.ref(model)
        else:
            for name in infos.keys() - filled:
                targets[name] = _own(framework, tensors[name], targets.get(name))
                has[name] = infos[name], place_of(targets[name])
            for name in targets.keys() - infos.keys():
                del targets[name]
            self._tensors = dict(targets)
        self._has = has
        return overwritten


def _targets(model: Any) -> Any:
    """The tensors of a model, by name; of a dict, itself."""
    if not is_module(model):
        return model
    states = model.state_dict(keep_vars=True)
    return {name: value for name, value in states.items() if hasattr(value, "untyped_storage")}


def _of_module(
    framework: Framework[Any],
    targets: Mapping[str, Any],
    tensors: Mapping[str, Any],
    infos: Mapping[str, TensorInfo],
    strict: bool,
) -> set[str]:
    missing = sorted(targets.keys() - infos.keys())
    unexpected = sorted(infos.keys() - targets.keys())
    filled = targets.keys() & infos.keys()
    if (strict and (missing or unexpected)) or not filled:
        raise _misfit(missing, unexpected, bool(filled))
    for name in sorted(filled):
        why_not = _why_not(framework, targets[name], infos[name], name)
        if why_not is not None:
            raise why_not
    clash = _clash(framework, targets, tensors, infos, filled)
    if clash is not None:
        one, other = clash
        raise InvalidArgumentError(
            f"the model ties `{one}` and `{other}`, which have other values in the version",
            record=one,
        )
    return filled


def _misfit(missing: list[str], unexpected: list[str], is_partly: bool) -> InvalidArgumentError:
    """The error for names that do not fit.

    Args:
        missing: names of the model that the version lacks.
        unexpected: names of the version that the model lacks.
        is_partly: whether there are names that both have.
    """
    parts = [f"the version lacks {listed(missing)}"] if missing else []
    parts += [f"the model lacks {listed(unexpected)}"] if unexpected else []
    if not is_partly:
        parts.append("no name is in both")
    ways = [advice_on_versions(unexpected, missing)]
    ways.append("strict=False fills what both have" if is_partly else None)
    ways.append("on_tensors= hands over the tensors for a model of another form")
    return InvalidArgumentError(
        f"the version does not fit the model: {', and '.join(parts)}; "
        f"{'; '.join(way for way in ways if way is not None)}"
    )


def _that_fit(
    framework: Framework[Any],
    targets: Mapping[str, Any],
    tensors: Mapping[str, Any],
    infos: Mapping[str, TensorInfo],
) -> set[str]:
    """Names of tensors of a dict that can be filled where they are. Others are replaced."""
    fit = {
        name
        for name in targets.keys() & infos.keys()
        if _why_not(framework, targets[name], infos[name], name) is None
    }
    while (clash := _clash(framework, targets, tensors, infos, fit)) is not None:
        fit.discard(clash[0])
    return fit


def _why_not(
    framework: Framework[Any], target: Any, info: TensorInfo, name: str
) -> CfckError | None:
    """Why a tensor cannot be filled in place; None if it can."""
    try:
        _check_layout(framework, target, info)
        framework.target(target, info.dtype, info.shape, name, "it")
        framework.describe(target)
        if overlaps_itself(framework, target):
            raise UnsupportedError("it has elements that share memory (an expanded tensor?)")
    except CfckError as error:
        message = f"tensor `{name}` of the model cannot be filled: {error}"
        return type(error)(message, record=name)
    return None


def _check_layout(framework: Framework[Any], target: Any, info: TensorInfo) -> None:
    try:
        dtype, shape = framework.describe(target)
    except CfckError:
        return  # target() says what it is
    if (dtype, tuple(shape)) != (info.dtype, info.shape):
        raise InvalidArgumentError(
            f"it is {dtype} {list(shape)}, and {info.dtype} {list(info.shape)} in the version"
        )


def _clash(
    framework: Framework[Any],
    targets: Mapping[str, Any],
    tensors: Mapping[str, Any],
    infos: Mapping[str, TensorInfo],
    names: set[str],
) -> tuple[str, str] | None:
    """Two tensors that share memory, and are to have different values there."""
    filled = {name: targets[name] for name in sorted(names)}
    for family in overlapping(framework, filled):
        first: dict[object, str] = {}
        for name in family:
            other = first.setdefault(place_of(filled[name]), name)
            if infos[other] != infos[name]:
                return name, other
        if len(first) > 1:
            one = list(first.values())
            lost = framework.overwritten([filled[n] for n in one], [tensors[n] for n in one])
            if lost is not None:
                return one[lost], one[lost - 1]
    return None


def _own(framework: Framework[Any], tensor: Any, before: Any) -> Any:
    """A copy for a dict, where the tensor was that it had before."""
    device = None
    try:
        device = framework.device_of(before) if before is not None else None
    except AttributeError:  # it had something else
        pass
    copy = framework.contiguous(tensor)
    return copy if device is None else framework.to_device(copy, device)
