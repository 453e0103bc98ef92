"""Progress of long calls in Python, with a line on the terminal for those who did not ask."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from .text import printable

# Called as progress(done, total, name); what it raises ends the call.
Progress = Callable[[int, int, str], object]

# A call that ends sooner shows nothing; lines are not drawn more often.
_QUIET_SECONDS = 3.0
_REDRAW_SECONDS = 0.2


class Counter:
    """Counts what is done, and tells whoever wants to know."""

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self.done = 0
        self.total = total
        self._progress = progress

    def tell(self, name: str) -> None:
        """``name`` is at hand."""
        if self._progress is not None:
            self._progress(self.done, self.total, name)

    def finish(self, name: str) -> None:
        """``name`` is done."""
        self.done += 1
        self.tell(name)


class TerminalLine:
    """A line of a terminal that is drawn again and again. A callable as progress= takes it."""

    def __init__(self, what: str, stream: TextIO) -> None:
        self._what = what
        self._stream = stream
        self._begin = time.monotonic()
        self._drawn = self._begin + _QUIET_SECONDS - _REDRAW_SECONDS
        self._is_visible = False

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now < self._drawn + _REDRAW_SECONDS:
            return
        self._drawn = now
        minutes, seconds = divmod(int(now - self._begin), 60)
        line = f"{self._what}: {done} of {total}, {minutes}:{seconds:02}, {printable(name)}"
        # The line is as wide as the terminal, so that nothing is left of a longer line before.
        columns = _columns(self._stream) - 1
        self._write("\r" + line[:columns].ljust(columns))
        self._is_visible = True

    def erase(self) -> None:
        if self._is_visible:
            self._write("\r" + " " * (_columns(self._stream) - 1) + "\r")
            self._is_visible = False

    def _write(self, text: str) -> None:
        # A line that cannot be drawn is no reason to stop.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


@contextlib.contextmanager
def shown(progress: Progress | bool | None, what: str) -> Iterator[Progress | None]:
    """The listener to a call's progress: ``progress``, or where that is None a line on stderr, if
    that is a terminal; False: nobody listens."""
    if progress is not None:
        if progress is not False and not callable(progress):
            raise TypeError(
                "progress is called as progress(done, total, name); None shows a line on a "
                f"terminal, False nothing; it is not {type(progress).__name__}"
            )
        yield progress or None
        return
    stream = sys.stderr
    if stream is None or not _is_terminal(stream):
        yield None
        return
    line = TerminalLine(what, stream)
    try:
        yield line
    finally:
        line.erase()


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # of a replacement; of a closed one
        return False


def _columns(stream: TextIO) -> int:
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(2, columns or 80)  # some terminals say 0
