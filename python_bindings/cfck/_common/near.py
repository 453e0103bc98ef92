"""Names that somebody may have meant who wrote one that is not there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_MOST = 3
_MAX_LISTED = 3


def nearest_to_pattern(pattern: str, names: Sequence[str]) -> list[str]:
    """At most three names that a pattern may have been meant for."""
    letters = re.sub(r"\[.[^]]*\]|[*?]", "", pattern)
    if not letters:
        return []
    compared: dict[str, list[str]] = {}
    for name in names:
        part = name
        if pattern.startswith("*"):
            part = name[-len(letters) :]
        elif pattern.endswith("*"):
            part = name[: len(letters)]
        compared.setdefault(part, []).append(name)
    parts = difflib.get_close_matches(letters, compared, n=_MOST)
    return [name for part in parts for name in compared[part]][:_MOST]


def advice_for_name(name: str, names: Sequence[str]) -> str:
    """What to do about a tensor that is not there, to go behind a message. Of 10,000 names it takes
    half a second."""
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if len(names) <= _MAX_LISTED:
        return f"; it has {', '.join(map(repr, names)) or 'none'}"
    return f"; it has {len(names)} others, such as {names[0]!r}"


def listed(names: Sequence[str]) -> str:
    """The first names, and how many there are beside them."""
    shown = ", ".join(repr(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
