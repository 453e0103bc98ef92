"""The weights of a model that are to be compressed in training."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.nn.utils import parametrize

from .._common.text import with_article
from .._frameworks.torch_tensors import has_plain_storage
from ..errors import InvalidArgumentError

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# Below, the ends of a record take more than its values.
LEAST_VALUES = 256


@dataclasses.dataclass
class Chosen:
    """A parameter, its first name, and the modules that have it."""

    parameter: nn.Parameter
    name: str
    owners: list[tuple[nn.Module, str]] = dataclasses.field(default_factory=list)


def matches(name: str, patterns: Iterable[str] | None) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns or ())


def _is_left(name: str, include: Sequence[str] | None, exclude: Sequence[str] | None) -> bool:
    return (include is None or matches(name, include)) and not matches(name, exclude)


def patterns(name: str, given: object) -> tuple[str, ...] | None:
    """Patterns of names, as an argument has them."""
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a list of patterns of names, not {type(given).__name__}")
    return tuple(given)


def _refuse(name: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"parameter `{name}` {reason}", record=name)


def _check(name: str, parameter: nn.Parameter) -> None:
    if nn.parameter.is_lazy(parameter):
        raise _refuse(name, "is not initialised yet; run the model once first")
    if parameter.is_meta:
        raise _refuse(name, "has no values (device meta); load the model first")
    if parameter.layout != torch.strided:
        raise _refuse(name, f"is {parameter.layout}; exclude it, or make it dense")
    if not has_plain_storage(parameter):
        raise _refuse(
            name,
            f"is {with_article(type(parameter).__name__)}, whose values are not in its own "
            "memory; exclude it, or, if the model runs from a file (cfck.torch.compressed), "
            "load that into a plain one",
        )


def _names_of_parameters(model: nn.Module) -> dict[int, list[str]]:
    """All names of each parameter, by its identity."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return names


def _check_that_all_match(
    which: str, patterns: Sequence[str] | None, names: dict[int, list[str]]
) -> None:
    """A pattern that matches nothing is likely to be misspelt."""
    known = [name for tied in names.values() for name in tied]
    for pattern in patterns or ():
        if not any(fnmatch.fnmatchcase(name, pattern) for name in known):
            raise InvalidArgumentError(f"{which}: no parameter matches {pattern!r}")


def _check_ties(
    names: dict[int, list[str]], include: Sequence[str] | None, exclude: Sequence[str] | None
) -> None:
    """Tied weights would be tied no more if one of them were trained and another not."""
    for tied in names.values():
        left = [name for name in tied if _is_left(name, include, exclude)]
        if left and len(left) < len(tied):
            raise InvalidArgumentError(
                f"{', '.join(f'`{name}`' for name in tied)} are one parameter, of which include "
                f"and exclude leave {', '.join(f'`{name}`' for name in left)} alone; name all of "
                "them or none"
            )


def _is_weight(parameter: nn.Parameter) -> bool:
    return parameter.dtype in DTYPES and parameter.dim() >= 2 and parameter.numel() >= LEAST_VALUES


def choose_weights(
    model: nn.Module, include: Sequence[str] | None, exclude: Sequence[str] | None
) -> list[Chosen]:
    """Float parameters of two or more dimensions, tied ones once, in the order of the model."""
    all_names = _names_of_parameters(model)
    _check_that_all_match("include", include, all_names)
    _check_that_all_match("exclude", exclude, all_names)
    _check_ties(all_names, include, exclude)
    chosen: dict[int, Chosen] = {}
    for prefix, module in model.named_modules():
        if isinstance(module, parametrize.ParametrizationList):
            continue
        if parametrize.is_parametrized(module):
            names = ", ".join(module.parametrizations)
            raise InvalidArgumentError(
                f"module `{prefix or type(module).__name__}` is parametrised already ({names}); "
                "remove that first (torch.nn.utils.parametrize.remove_parametrizations)"
            )
        for attribute, parameter in module._parameters.items():
            if parameter is None:
                continue
            name = f"{prefix}.{attribute}" if prefix else attribute
            if not _is_left(name, include, exclude):
                continue
            _check(name, parameter)
            if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
                raise _refuse(name, "has sparse gradients (sparse=True); exclude it")
            if not _is_weight(parameter):
                if include is not None and matches(name, include) and parameter.dim() >= 2:
                    _refuse_weight(name, parameter)
                continue
            known = chosen.setdefault(id(parameter), Chosen(parameter, name))
            known.owners.append((module, attribute))
    if not chosen:
        raise InvalidArgumentError(
            "there is no weight to compress: parameters of float32, bfloat16 or float16 with two "
            f"dimensions and {LEAST_VALUES} values or more, that include and exclude leave"
        )
    return list(chosen.values())


def _refuse_weight(name: str, parameter: nn.Parameter) -> None:
    if parameter.dtype not in DTYPES:
        raise _refuse(name, f"is {parameter.dtype}; only float32, bfloat16 and float16 are trained")
