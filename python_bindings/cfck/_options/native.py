"""Options checked and turned into those of the library."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import _native
from .._common.checks import as_integer, check_utf8
from .._common.paths import native_path
from ..errors import InvalidArgumentError, MissingFileError, NotFoundError
from .bases import native_base
from .kinds import EffortOptions, NativeCalibration, RuleOptions, TensorOptions
from .signatures import instead

OF_TENSORS = tuple(TensorOptions.__annotations__)
OF_RULES = tuple(RuleOptions.__annotations__)
_NUMBERS = (
    "max_abs_error",
    "max_rel_error",
    "max_sigma_error",
    "nmse",
    "psnr",
    "bits_per_weight",
)
_PARSERS = {"nmse": _native.parse_nmse, "psnr": _native.parse_psnr}


def native_options(
    options: Mapping[str, Any],
    exempt: Iterable[str] = (),
    learned: Mapping[str, _native.LearnedSteps] | None = None,
) -> _native.EncodeOptions:
    """The options of a call for the library, which checks what they mean together.

    ``learned``: steps that tensors were trained with, by name.
    """
    for name in EffortOptions.__annotations__:
        if not isinstance(options[name], str):
            raise TypeError(f"{name} is str, not {type(options[name]).__name__}: {options[name]!r}")
        check_utf8(options[name])
    return _native.EncodeOptions(
        plain=_native_tensor_options(options, ""),
        size=_size(options.get("size")),
        rules=[
            (pattern, _native_tensor_options(chosen, where), _is_forced(chosen, where))
            for pattern, chosen in rule_pairs(options.get("rules"))
            for where in [f"rule {pattern!r}: "]
        ],
        calibration=_calibration(options.get("calibration")),
        exempt=list(exempt),
        threads=check_threads(options["threads"]),
        chunk_elems=_chunk_elems(options["chunk_elems"]),
        entropy=options["entropy"],
        level=options["level"],
        learned_steps=list((learned or {}).items()),
        base=native_base(options.get("base")),
    )


def check_threads(threads: int) -> int:
    number = as_integer(threads)
    if number is None or not 0 <= number < 1 << 16:
        raise InvalidArgumentError(f"threads is a number from 0 (all) to 65535, not {threads!r}")
    return number


def _chunk_elems(count: Any) -> int:
    """Values per chunk; 0: what the library takes."""
    number = as_integer(count)
    if number is None:
        raise TypeError(f"chunk_elems is int, not {type(count).__name__}: {count!r}")
    if not 0 <= number < 1 << 32:
        raise InvalidArgumentError(
            f"chunk_elems is {number}; it may be 1 to 2**32 - 1, or 0 for the default, 2**18"
        )
    return number


def check_limits(limits: Any) -> dict[str, int]:
    """``limits`` of a call that reads, as numbers. Native code knows which names there are."""
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        raise TypeError(f"limits is a dict of names to sizes, not {type(limits).__name__}")
    checked: dict[str, int] = {}
    for name, size in limits.items():
        checked[check_utf8(str(name))] = _limit(f"limit {name}", size)
    return checked


def check_max_decoded_bytes(size: Any, limits: Mapping[str, int]) -> int:
    """The argument of a call that reads, as a number; 0: what ``limits`` say, or the default."""
    if size == 0 and not isinstance(size, bool):
        return 0
    given = _limit("max_decoded_bytes", size)
    if limits.get("max_decoded_bytes", given) != given:
        raise InvalidArgumentError(
            f"max_decoded_bytes is {given}, and {limits['max_decoded_bytes']} in limits; give it "
            "once"
        )
    return given


def _limit(what: str, size: Any) -> int:
    if isinstance(size, str):
        size = _native.parse_size(check_utf8(size))
    number = as_integer(size)
    if number is None or not 0 < number < 1 << 64:
        raise InvalidArgumentError(f"{what} is a number above 0, or a size as text, not {size!r}")
    return number


def rule_pairs(rules: Any) -> list[tuple[str, Mapping[str, Any]]]:
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
            if name == "size":
                raise InvalidArgumentError(
                    f"rule {pattern!r}: size is of the whole file; give it beside the rules, or "
                    "bits_per_weight here"
                )
            if name not in OF_RULES:
                raise InvalidArgumentError(
                    f"rule {pattern!r}: unknown option {name!r}{instead(name, OF_RULES)}"
                )
        pairs.append((check_utf8(pattern), chosen))
    return pairs


def _is_forced(chosen: Mapping[str, Any], where: str) -> bool:
    force = chosen.get("force", False)
    if not isinstance(force, bool):
        raise TypeError(f"{where}force is bool, not {type(force).__name__}: {force!r}")
    return force


def _sides(block: Any, where: str) -> list[int]:
    """The sides of blocks; none: []."""
    if block is None:
        return []
    if isinstance(block, str | bytes) or not isinstance(block, Sequence):
        raise TypeError(
            f"{where}block is a sequence of ints, not {type(block).__name__}: {block!r}"
        )
    sides = []
    for side in block:
        number = as_integer(side)
        if number is None:
            raise TypeError(f"{where}block has ints as sides, not {type(side).__name__}: {side!r}")
        sides.append(number)
    if any(not 1 <= side <= 64 for side in sides):
        raise InvalidArgumentError(f"{where}block has sides from 1 to 64, not {sides}")
    return sides


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
    states = options.get("trellis_states")
    if isinstance(states, bool) or not isinstance(states, int | None):
        raise wrong("trellis_states", "int")
    if states not in (None, 1, 4, 8, 64):
        raise InvalidArgumentError(f"{where}trellis_states is 1, 4, 8 or 64, not {states}")
    steps = options.get("steps")
    if steps is not None and not isinstance(steps, str):
        raise wrong("steps", "str")
    block = _sides(options.get("block"), where)
    quality = options.get("quality")
    if quality is not None and not isinstance(quality, str):
        raise wrong("quality", "str")
    for word in (codec, steps, quality):
        if word is not None:
            check_utf8(word)
    errors: dict[str, float | None] = {}
    for name in _NUMBERS:
        value = options.get(name)
        if isinstance(value, str) and name in _PARSERS:
            try:
                value = _PARSERS[name](check_utf8(value))
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{where}{error}") from None
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
            nmse=errors["nmse"],
            psnr=errors["psnr"],
            bits_per_weight=errors["bits_per_weight"],
            trellis_states=states,
            steps=steps,
            block=block,
            quality=quality,
        )
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}{error}") from None


def _calibration(calibration: Any) -> _native.Calibration | None:
    """The calibration in memory, or that of a file."""
    if calibration is None:
        return None
    if isinstance(calibration, NativeCalibration):
        return calibration._for_library()
    if isinstance(calibration, str | os.PathLike):
        try:
            return _native.Calibration.open_path(native_path(calibration))
        except NotFoundError:
            name = os.fsdecode(calibration)
            message = f"No such file or directory: {name}"
            raise MissingFileError(message, filename=name) from None
    raise TypeError(
        "calibration is what cfck.calibrate returns, or the path of its file, not "
        f"{type(calibration).__name__}"
    )


def _size(size: Any) -> int | None:
    if size is None:
        return None
    if isinstance(size, str):
        return _native.parse_size(check_utf8(size))
    n_bytes = as_integer(size)
    if n_bytes is None:
        raise TypeError(f'size is a number of bytes or a str like "60MB", not {size!r}')
    if not 0 < n_bytes < 1 << 63:
        raise InvalidArgumentError(f"size is a number of bytes from 1 up, not {n_bytes}")
    return n_bytes
