"""Signals that end the program, as Ctrl-C does."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGALRM")
_ENDING = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
_Handler = Callable[[int, FrameType | None], Any] | int | None


class Ended(KeyboardInterrupt):
    """A signal other than that of Ctrl-C came.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """In here signals that end programs raise Ended, unless the program was told to ignore them."""
    with _handled(_raise, [number for number in _ENDING if _is_default(number)]):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """In here signals have no effect: for short steps at the end, which either way must be done."""
    with _handled(_ignore, [number for number in _ENDING if not _is_ignored(number)]):
        yield


def _raise(number: int, _: FrameType | None) -> None:
    raise Ended(number)


def _ignore(number: int, _: FrameType | None) -> None:
    pass


def _is_default(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_DFL


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


@contextlib.contextmanager
def _handled(handler: _Handler, numbers: list[int]) -> Iterator[None]:
    before: dict[int, _Handler] = {}
    try:
        # Only the main thread may set handlers, and None is one that C code has set.
        if threading.current_thread() is threading.main_thread():
            for number in numbers:
                if signal.getsignal(number) is not None:
                    before[number] = signal.getsignal(number)
                    signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
