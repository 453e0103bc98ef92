"""Checks of what callers give, shared by everything that writes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidArgumentError


def check_utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{text!r} is not valid Unicode: {error.reason}") from None
    return text


def as_integer(value: Any) -> int | None:
    """What is given as an integer, of any type that Python takes for an index, such as those of
    numpy; None for anything else, and for True and False."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_metadata(metadata: Any) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a dict of str to str, not {type(metadata).__name__}")
    for key, value in metadata.items():
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(
                    f"metadata is a dict of str to str; {text!r} is {type(text).__name__}"
                )
            check_utf8(text)
    return dict(metadata)
