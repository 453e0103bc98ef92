"""Text for messages."""

from __future__ import annotations


def printable(message: str) -> str:
    """Words from a file must not steer a terminal."""
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def shown(text: str, longest: int = 200) -> str:
    """``text``, cut in the middle if it is long, for an error message."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}...{text[-half:]}"


def with_article(noun: str) -> str:
    """The noun, such as the name of a type, behind "a" or "an"."""
    return f"{'an' if noun[:1] in tuple('aeioAEIO') else 'a'} {noun}"
