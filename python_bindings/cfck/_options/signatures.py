"""Functions that take options: their help texts, defaults and checks."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

from .. import _native
from .._common.progress import Progress, byte_listener
from ..errors import InvalidArgumentError
from .kinds import (
    BaseOptions,
    CompressOptions,
    EffortOptions,
    FileOptions,
    FilterOptions,
    LimitOptions,
    LoadBytesOptions,
    LoadOptions,
    MessageOptions,
    OpenOptions,
    ReadOptions,
    RefineOptions,
    SaveBytesOptions,
    SaveOptions,
    StreamOptions,
    TensorOptions,
    UpdateOptions,
)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)
_Options = TypeVar("_Options")

# An entry "name: text" of a docstring, with the lines that continue it.
_ENTRY = r"^    {name}: .*\n(?:     .*\n)*"

# Few calls want these. docs/options.md and the docstrings of the types describe them, and those of
# functions do not.
FOR_EXPERTS = frozenset({"psnr", "trellis_states", "steps", "block", "entropy", "level"})


def _entries(kind: type) -> dict[str, str]:
    """The entries of the docstring of a kind of options, indented as those of a function."""
    text = inspect.cleandoc(kind.__doc__ or "") + "\n"
    names = kind.__annotations__
    found = re.findall(r"^(\w+): (.*\n(?: .*\n)*)", text, re.MULTILINE)
    return {
        name: re.sub("^", "    ", f"{name}: {rest}", flags=re.MULTILINE).rstrip(" ")
        for name, rest in found
        if name in names
    }


# The order of help texts. Options of tensors come first, in their own order.
_ORDER = (
    "entropy",
    "level",
    "chunk_elems",
    "size",
    "calibration",
    "base",
    "rules",
    "prefetch",
    "backend",
    "base_dirs",
    "only_tensors",
    "threads",
    "verify",
    "decode",
    "encode",
    "progress",
    "max_decoded_bytes",
    "limits",
    "replace_base",
    "fsync",
)


class _Kind:
    """A kind of options: names, defaults and descriptions.

    A TypedDict does not remember its bases on every supported Python, so they are named here.
    """

    def __init__(self, kind: type, *bases: type, **defaults: Any) -> None:
        hints = kind.__annotations__
        later = [name for name in _ORDER if name in hints]
        self.names = [name for name in hints if name not in _ORDER] + later
        self.defaults: dict[str, Any] = {}
        self.entries: dict[str, str] = {}
        for base in bases:
            self.defaults.update(_KINDS[base].defaults)
            self.entries.update(_KINDS[base].entries)
        self.defaults.update(defaults)
        self.entries.update(_entries(kind))

    def described(self, *, for_experts: bool) -> str:
        """The descriptions of the options, with those for experts or without."""
        left_out = frozenset() if for_experts else FOR_EXPERTS
        return "".join(self.entries.get(name, "") for name in self.names if name not in left_out)


_KINDS: dict[type, _Kind] = {}


def declare(kind: type, *bases: type, **defaults: Any) -> None:
    """Makes a kind of options known, with the defaults that its bases do not have."""
    _KINDS[kind] = _Kind(kind, *bases, **defaults)


declare(
    TensorOptions,
    codec="auto",
    max_abs_error=None,
    max_rel_error=None,
    max_sigma_error=None,
    per_row=False,
    nmse=None,
    psnr=None,
    bits_per_weight=None,
    trellis_states=None,
    steps=None,
    block=None,
    quality=None,
)
declare(EffortOptions, entropy=_native.default_entropy(), level="default")
declare(CompressOptions, TensorOptions, EffortOptions, chunk_elems=0, threads=0)
declare(
    MessageOptions,
    EffortOptions,
    codec="auto",
    max_abs_error=None,
    max_rel_error=None,
    max_sigma_error=None,
    per_row=False,
    chunk_elems=0,
)
declare(
    FilterOptions,
    EffortOptions,
    codec="auto",
    max_abs_error=None,
    max_rel_error=None,
    nmse=None,
    bits_per_weight=None,
    trellis_states=None,
    block=None,
    written_once=False,
)
declare(RefineOptions, CompressOptions, size=None, rules=None)
declare(SaveBytesOptions, RefineOptions, calibration=None, base=None, encode="auto", progress=None)
declare(UpdateOptions, SaveBytesOptions, replace_base=False)
declare(SaveOptions, UpdateOptions, verify=False, fsync=True)
declare(LimitOptions, threads=0, max_decoded_bytes=0, limits=None)
declare(ReadOptions, LimitOptions, verify=True, decode="auto")
declare(BaseOptions, base=None)
declare(LoadBytesOptions, ReadOptions, BaseOptions, progress=None)
declare(FileOptions, backend="pread", base_dirs=(), only_tensors=False)
declare(OpenOptions, ReadOptions, BaseOptions, FileOptions)
declare(LoadOptions, OpenOptions, LoadBytesOptions)
declare(StreamOptions, OpenOptions, prefetch=True, threads=1)

# Types that callers see say all of what they inherit.
for _public in (SaveOptions, LoadOptions):
    if _public.__doc__ is not None:  # python -OO
        _intro = inspect.cleandoc(_public.__doc__).partition("\n\n")[0]
        _public.__doc__ = (
            f"{_intro}\n\n{inspect.cleandoc(_KINDS[_public].described(for_experts=True))}"
        )


def takes(kind: type) -> Callable[[_Function], _Function]:
    """For functions that end in ``options: kind | None = None, **fields: Unpack[kind]``.

    Their signatures stay short. In the docstring the entry "options" is followed by those of the
    options that most calls want, for help() and editors.
    """
    known = _KINDS[kind]

    def describe(function: _Function) -> _Function:
        function.__doc__ = _described(function.__doc__, known)
        return function

    return describe


def describes(kind: type) -> Callable[[_Class], _Class]:
    """For classes whose docstring has the entry "options" of their constructor."""

    def describe(described: _Class) -> _Class:
        described.__doc__ = _described(described.__doc__, _KINDS[kind])
        return described

    return describe


def _described(text: str | None, kind: _Kind) -> str | None:
    """The docstring with descriptions of options behind its entry "options"."""
    if text is None:  # python -OO
        return None
    entries = (
        "    **fields: options by keyword; these count where ``options`` has them too. The most\n"
        "        used ones follow, and docs/options.md has all.\n"
    ) + kind.described(for_experts=False)
    clean = inspect.cleandoc(text) + "\n"
    return re.sub(
        _ENTRY.format(name="options"),
        lambda entry: entry[0] + entries,
        clean,
        count=1,
        flags=re.MULTILINE,
    )


def chosen(kind: type, options: _Options | None, fields: _Options) -> _Options:
    """The options of a call: those of ``options=``, and before these the ones given by keyword.

    Raises TypeError for what are no options of this kind, before anything takes long.
    """
    known = _KINDS[kind].defaults
    by_keyword = cast(Mapping[str, Any], fields)
    unknown = next((name for name in by_keyword if name not in known), None)
    if unknown is not None:
        code = sys._getframe(1).f_code  # the function that was called has arguments of its own, too
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        arguments = tuple(name for name in named if name not in ("self", "options"))
        advice = _of_other_calls(unknown, arguments, known)
        advice = advice or instead(unknown, (*arguments, *known))
        raise TypeError(f"unexpected keyword argument {unknown!r}{advice}")
    if options is None:
        return fields
    if not isinstance(options, Mapping):
        raise TypeError(
            f'options is a dict, such as {{"threads": 4}}, not {type(options).__name__}'
        )
    for name in options:
        if name not in known:
            raise TypeError(f"options has no {name!r} here{instead(name, tuple(known))}")
    return cast(_Options, {**options, **by_keyword})


def _of_other_calls(name: str, arguments: Container[str], options: Container[str]) -> str | None:
    """Advice for somebody who wrote an argument of torch.load(), or of saving."""
    if name == "encode" and "out" in arguments:
        return "; a tensor is encoded where it is, and out says where the bytes go"
    if name == "map_location" and "device" in arguments:
        return "; its name is device here"
    if name == "weights_only" and "max_decoded_bytes" in options:
        return "; it is not needed: loading imports and executes nothing that a file names"
    return None


def complete(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, with defaults for what was not given."""
    defaults = _KINDS[kind].defaults
    for name in given:
        if name not in defaults:
            advice = instead(name, tuple(defaults))
            raise TypeError(f"unexpected keyword argument {name!r}{advice}")
    return {**defaults, **given}


def names_of(kind: type) -> frozenset[str]:
    """The names of all options of a kind."""
    return frozenset(_KINDS[kind].defaults)


def for_bytes(options: OpenOptions) -> ReadOptions:
    """The options for a file in memory.

    Raises InvalidArgumentError for one of files alone that is not at its default.
    """
    of_files = _KINDS[FileOptions].defaults
    for name, default in of_files.items():
        if name in options and options[name] != default:  # type: ignore[literal-required]
            raise InvalidArgumentError(f"{name} is an option of files, and these are bytes")
    rest = {name: value for name, value in options.items() if name not in of_files}
    return cast(ReadOptions, rest)


@overload
def split_progress(options: LoadOptions) -> tuple[OpenOptions, Progress | None]: ...


@overload
def split_progress(options: LoadBytesOptions) -> tuple[ReadOptions, Progress | None]: ...


def split_progress(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], Progress | None]:
    """The options without ``progress``, and that."""
    rest = dict(options)
    progress: Progress | bool | None = rest.pop("progress", None)
    return rest, byte_listener(progress, "load")


def instead(name: object, known: Sequence[str]) -> str:
    """Advice for somebody who wrote an unknown name: the nearest known one, or all."""
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
