"""Names of tensors in errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import CfckError


@contextlib.contextmanager
def naming(name: str, what: str = "tensor") -> Iterator[None]:
    """Adds the name of a tensor to errors of this package, and to a FloatingPointError, that name
    none. ``what``: what the errors call it."""
    try:
        yield
    except CfckError as error:
        if not error.record:
            error.args = (f"{what} `{name}`: {error}",)
            error.record = name
        raise
    except FloatingPointError as error:
        if "`" in str(error):
            raise
        raise FloatingPointError(f"{what} `{name}`: {error}") from None
