"""Functions that take options by keyword: their signatures, help texts, defaults and checks."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_type_hints, overload

from .. import _native
from .._common.progress import Progress, byte_listener
from ..errors import InvalidArgumentError
from .kinds import (
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
    SaveFileOptions,
    SaveOptions,
    StreamOptions,
    TensorOptions,
)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)

# An entry "name: text" of a docstring, with the lines that continue it.
_ENTRY = r"^    {name}: .*\n(?:     .*\n)*"


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


# The order of signatures and help texts. Options of tensors come first, in their own order.
_ORDER = (
    "entropy",
    "level",
    "chunk_elems",
    "size",
    "calibration",
    "rules",
    "prefetch",
    "backend",
    "only_tensors",
    "threads",
    "verify",
    "decode",
    "progress",
    "max_decoded_bytes",
    "limits",
    "fsync",
)


class _Kind:
    """A kind of options: type, default and description of each.

    A TypedDict does not remember its bases on every supported Python, so they are named here.
    """

    def __init__(self, kind: type, *bases: type, **defaults: Any) -> None:
        hints = get_type_hints(kind)
        later = [name for name in _ORDER if name in hints]
        names = [name for name in hints if name not in _ORDER] + later
        self.hints = {name: hints[name] for name in names}
        self.defaults: dict[str, Any] = {}
        self.entries: dict[str, str] = {}
        for base in bases:
            self.defaults.update(_KINDS[base].defaults)
            self.entries.update(_KINDS[base].entries)
        self.defaults.update(defaults)
        self.entries.update(_entries(kind))


_KINDS: dict[type, _Kind] = {}


def _declare(kind: type, *bases: type, **defaults: Any) -> None:
    _KINDS[kind] = _Kind(kind, *bases, **defaults)


_declare(
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
_declare(EffortOptions, entropy=_native.default_entropy(), level="default")
_declare(CompressOptions, TensorOptions, EffortOptions, chunk_elems=0, threads=0)
_declare(
    MessageOptions,
    EffortOptions,
    codec="auto",
    max_abs_error=None,
    max_rel_error=None,
    max_sigma_error=None,
    per_row=False,
    chunk_elems=0,
)
_declare(
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
_declare(RefineOptions, CompressOptions, size=None, rules=None)
_declare(SaveOptions, RefineOptions, calibration=None, progress=None)
_declare(SaveFileOptions, SaveOptions, verify=False, fsync=True)
_declare(LimitOptions, threads=0, max_decoded_bytes=0, limits=None)
_declare(ReadOptions, LimitOptions, verify=True, decode="auto")
_declare(LoadBytesOptions, ReadOptions, progress=None)
_declare(FileOptions, backend="pread", only_tensors=False)
_declare(OpenOptions, ReadOptions, FileOptions)
_declare(LoadOptions, OpenOptions, LoadBytesOptions)
_declare(StreamOptions, OpenOptions, prefetch=True, threads=1)


def takes(kind: type) -> Callable[[_Function], _Function]:
    """For functions that end in ``**options: Unpack[kind]``.

    Spells these options out in the signature and, in place of the entry "options" of the
    docstring, in the text, for help(), inspect and editors.
    """
    known = _KINDS[kind]
    keywords = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=known.defaults[name], annotation=hint
        )
        for name, hint in known.hints.items()
    ]

    def spell_out(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *given, rest = signature.parameters.values()
        spelled_out = signature.replace(parameters=[*given, *keywords])
        setattr(function, "__signature__", spelled_out)  # noqa: B010
        del function.__annotations__[rest.name]
        function.__annotations__.update(known.hints)
        function.__doc__ = _described(function.__doc__, known)
        return function

    return spell_out


def describes(kind: type) -> Callable[[_Class], _Class]:
    """For classes whose docstring has the entry "options" of their constructor."""

    def spell_out(described: _Class) -> _Class:
        described.__doc__ = _described(described.__doc__, _KINDS[kind])
        return described

    return spell_out


def _described(text: str | None, kind: _Kind) -> str | None:
    """The docstring with the descriptions of all options in place of its entry "options"."""
    if text is None:  # python -OO
        return None
    entries = "".join(kind.entries.get(name, "") for name in kind.hints)
    clean = inspect.cleandoc(text) + "\n"
    return re.sub(
        _ENTRY.format(name="options"), lambda _: entries, clean, count=1, flags=re.MULTILINE
    )


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
