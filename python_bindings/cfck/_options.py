"""The options of everything that writes: declared, given their defaults, and checked once."""

from __future__ import annotations

import difflib
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

from . import _native
from ._framework import Progress, check_utf8
from .errors import InvalidArgumentError


class TensorOptions(TypedDict, total=False):
    """How to store a tensor; the options of a rule.

    At most one of the three maximum errors may be given. It holds for every value; NaN and
    infinities come back bit for bit, and -0.0 may become 0.0.

    codec: "auto" (fewest bytes), "raw", "lossless", or "direct", which needs a maximum error.
    max_abs_error: in the units of the values.
    max_rel_error: as a fraction of the tensor's range, largest minus smallest finite value.
    max_sigma_error: in standard deviations of the tensor's finite values.
    per_row: take range or deviation of each row of axis 0, not of the whole tensor.
    """

    codec: Literal["auto", "raw", "lossless", "direct"]
    max_abs_error: float | None
    max_rel_error: float | None
    max_sigma_error: float | None
    per_row: bool


# The first one that matches a name counts.
Rules = Mapping[str, TensorOptions] | Sequence[tuple[str, TensorOptions]]


class EffortOptions(TypedDict, total=False):
    entropy: Literal["zstd", "rans"]
    level: Literal["fast", "default", "archive"]


class CompressOptions(TensorOptions, EffortOptions, total=False):
    threads: int


class SaveOptions(TensorOptions, EffortOptions, total=False):
    rules: Rules | None
    threads: int
    progress: Progress | None


class SaveFileOptions(SaveOptions, total=False):
    verify: bool
    fsync: bool


_DEFAULTS: dict[str, Any] = {
    "codec": "auto",
    "max_abs_error": None,
    "max_rel_error": None,
    "max_sigma_error": None,
    "per_row": False,
    "entropy": _native.default_entropy(),
    "level": "default",
    "rules": None,
    "threads": 0,
    "progress": None,
    "verify": False,
    "fsync": True,
}
OF_TENSORS = tuple(get_type_hints(TensorOptions))

_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes(kind: type) -> Callable[[_Function], _Function]:
    """For functions that end in ``**options: Unpack[kind]``.

    Spells these options out in the signature, for help(), inspect and editors.
    """
    hints = get_type_hints(kind)
    keywords = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=hint
        )
        for name, hint in hints.items()
    ]

    def spell_out(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *given, rest = signature.parameters.values()
        spelled_out = signature.replace(parameters=[*given, *keywords])
        setattr(function, "__signature__", spelled_out)  # noqa: B010
        del function.__annotations__[rest.name]
        function.__annotations__.update(hints)
        return function

    return spell_out


def complete(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, with defaults for what was not given."""
    known = tuple(get_type_hints(kind))
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}{_instead(name, known)}")
    return {name: given.get(name, _DEFAULTS[name]) for name in known}


def native_options(options: Mapping[str, Any], exempt: Iterable[str] = ()) -> _native.EncodeOptions:
    """The options of a call for the library, which checks what they mean together."""
    for name in get_type_hints(EffortOptions):
        if not isinstance(options[name], str):
            raise TypeError(f"{name} is str, not {type(options[name]).__name__}: {options[name]!r}")
    return _native.EncodeOptions(
        plain=_native_tensor_options(options, ""),
        rules=[
            (pattern, _native_tensor_options(chosen, f"rule {pattern!r}: "))
            for pattern, chosen in _pairs(options.get("rules"))
        ],
        exempt=list(exempt),
        threads=check_threads(options["threads"]),
        entropy=options["entropy"],
        level=options["level"],
    )


def check_threads(threads: int) -> int:
    if not isinstance(threads, int) or not 0 <= threads < 1 << 16:
        raise InvalidArgumentError(f"threads is a number from 0 (all) up, not {threads!r}")
    return threads


def _pairs(rules: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The rules in order, their names and types checked."""
    if rules is None:
        return []
    if isinstance(rules, Mapping):
        rules = list(rules.items())
    if not isinstance(rules, Sequence) or isinstance(rules, str | bytes | bytearray):
        raise TypeError(
            "rules is a dict of patterns to dicts of options, or a list of such pairs, "
            f"not {type(rules).__name__}"
        )
    pairs = []
    for position, rule in enumerate(rules):
        if not isinstance(rule, tuple | list) or len(rule) != 2:
            raise TypeError(f"rules[{position}] is a pair of pattern and options, not {rule!r}")
        pattern, chosen = rule
        if not isinstance(pattern, str):
            raise TypeError(
                f"rules[{position}]: a pattern is str, not {type(pattern).__name__}: {pattern!r}"
            )
        if not isinstance(chosen, Mapping):
            raise TypeError(
                f"rule {pattern!r}: its options are a dict, not {type(chosen).__name__}"
            )
        for name in chosen:
            if name not in OF_TENSORS:
                raise InvalidArgumentError(
                    f"rule {pattern!r}: unknown option {name!r}{_instead(name, OF_TENSORS)}"
                )
        pairs.append((check_utf8(pattern), chosen))
    return pairs


def _native_tensor_options(options: Mapping[str, Any], where: str) -> _native.TensorOptions:
    """``where`` begins the messages of errors."""

    def wrong(name: str, expected: str) -> TypeError:
        value = options[name]
        return TypeError(f"{where}{name} is {expected}, not {type(value).__name__}: {value!r}")

    codec = options.get("codec", "auto")
    if not isinstance(codec, str):
        raise wrong("codec", "str")
    per_row = options.get("per_row", False)
    if not isinstance(per_row, bool):
        raise wrong("per_row", "bool")
    errors: dict[str, float | None] = {}
    for name in ("max_abs_error", "max_rel_error", "max_sigma_error"):
        value = options.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
            raise wrong(name, "a number")
        try:
            errors[name] = None if value is None else float(value)
        except OverflowError:
            raise InvalidArgumentError(f"{where}{name} is too large") from None
    try:
        return _native.TensorOptions(
            codec=codec,
            max_abs_error=errors["max_abs_error"],
            max_rel_error=errors["max_rel_error"],
            max_sigma_error=errors["max_sigma_error"],
            per_row=per_row,
        )
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}{error}") from None


def _instead(name: Any, known: Sequence[str]) -> str:
    """What somebody may have meant who wrote an unknown name."""
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
