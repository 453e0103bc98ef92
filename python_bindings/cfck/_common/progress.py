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
# In logs, where lines stay.
_SECONDS_BETWEEN_LINES = 60.0
_SECONDS_BEFORE_ETA = 0.5
_BAR_CELLS = 24


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
    """A line of a terminal that is drawn again and again. A callable as progress= takes it.

    Args:
        what: names the call.
        stream: the terminal.
        wait: seconds before the line appears: a call that ends sooner shows nothing.
        in_bytes: done and total are bytes, shown as a bar with a speed; otherwise they are counted.
    """

    def __init__(
        self, what: str, stream: TextIO, wait: float = _QUIET_SECONDS, *, in_bytes: bool = False
    ) -> None:
        self._what = what
        self._stream = stream
        self._in_bytes = in_bytes
        self._begin = time.monotonic()
        self._drawn = self._begin + wait - _REDRAW_SECONDS
        self._is_visible = False

    def __call__(self, done: int, total: int, name: str) -> None:
        if self._in_bytes and done >= total:
            self.erase()
            return
        now = time.monotonic()
        if now < self._drawn + _REDRAW_SECONDS:
            return
        self._drawn = now
        text = self._byte_text if self._in_bytes else self._count_text
        line = f"{text(done, total, now - self._begin)}, {printable(name)}"
        # The line is as wide as the terminal, so that nothing is left of a longer line before.
        columns = _columns(self._stream) - 1
        _write(self._stream, "\r" + line[:columns].ljust(columns))
        self._is_visible = True

    def __del__(self) -> None:
        # The call that drew the line may have ended early.
        self.erase()

    def _count_text(self, done: int, total: int, seconds: float) -> str:
        return f"{self._what}: {_counted(done, total, seconds)}"

    def _byte_text(self, done: int, total: int, seconds: float) -> str:
        share = done / total
        bar = ("=" * int(share * _BAR_CELLS)).ljust(_BAR_CELLS)
        speed = done / max(seconds, 1e-3) / 1e6
        return f"{self._what} [{bar}] {share:4.0%}, {speed:.3g} MB/s{_eta(done, total, seconds)}"

    def erase(self) -> None:
        if self._is_visible:
            _write(self._stream, "\r" + " " * (_columns(self._stream) - 1) + "\r")
            self._is_visible = False


class LogLines:
    """Lines of a log: one when a call has taken a minute, and another one each minute after that.
    A callable as progress= takes it.

    Args:
        what: names the call.
        stream: the log.
    """

    def __init__(self, what: str, stream: TextIO) -> None:
        self._what = what
        self._stream = stream
        self._begin = time.monotonic()
        self._next = self._begin + _SECONDS_BETWEEN_LINES

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN_LINES
        text = f"{self._what}: {_counted(done, total, now - self._begin)}, {printable(name)}"
        _write(self._stream, text.rstrip(", ") + "\n")


def byte_listener(progress: Progress | bool | None, what: str) -> Progress | None:
    """Returns the listener to a call that counts bytes: ``progress`` itself, a bar on stderr for
    True, nobody for None and False."""
    if progress is True:
        return None if sys.stderr is None else TerminalLine(what, sys.stderr, 0.0, in_bytes=True)
    _check(progress)
    return progress or None


@contextlib.contextmanager
def shown(
    progress: Progress | bool | None, what: str, *, in_logs: bool = False
) -> Iterator[Progress | None]:
    """The listener to a call's progress: ``progress``; where that is None a line on stderr, if that
    is a terminal; True: a line on stderr in any case; False: nobody listens.

    ``in_logs``: where ``progress`` is None and stderr is no terminal, a line a minute goes there.
    """
    stream = sys.stderr
    _check(progress)
    if progress is not None and progress is not True:
        yield progress or None
        return
    if stream is None:
        yield None
        return
    if not progress and not _is_terminal(stream):
        yield LogLines(what, stream) if in_logs else None
        return
    line = TerminalLine(what, stream, 0.0 if progress else _QUIET_SECONDS)
    try:
        yield line
    finally:
        line.erase()


def _write(stream: TextIO, text: str) -> None:
    # A line that cannot be drawn is no reason to stop.
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


def _counted(done: int, total: int, seconds: float) -> str:
    return f"{done} of {total}, {_clock(seconds)}{_eta(done, total, seconds)}"


def _check(progress: object) -> None:
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(
            "progress is called as progress(done, total, name); True shows a line on stderr, False "
            f"nothing; it is not {type(progress).__name__}"
        )


def _clock(seconds: float) -> str:
    """7 seconds: "0:07"; more than an hour: "1:02:03"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _eta(done: int, total: int, seconds: float) -> str:
    """The time that is left, as soon as it can be told."""
    if not 0 < done < total or seconds < _SECONDS_BEFORE_ETA:
        return ""
    return f", ETA {_clock(seconds * (total - done) / done + 0.5)}"


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
