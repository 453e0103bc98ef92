"""Runs the command lines of `python -m cfck`, to which the program `cfck` hands over."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterable

from .._common.exit_codes import exit_code_of
from .._shrink.result import ShrinkInterrupted, ShrinkResult
from ..errors import CfckError, InvalidArgumentError
from .folder import FolderRequest, shrink_folder
from .interrupts import Ended, ending_signals

_EXIT_SIGNAL = 128  # plus the number of the signal


def run(options: argparse.Namespace) -> int:
    """Runs a parsed command line, and returns its exit code."""
    say = _nothing if options.quiet or options.json else _say
    try:
        with ending_signals():
            _tell(shrink_folder(_request(options), say), options.json)
    except (CfckError, OSError) as error:
        print(f"cfck shrink: error: {error}", file=sys.stderr)
        return exit_code_of(error)
    except ShrinkInterrupted as error:
        _tell(error.result, options.json)
        print(f"cfck shrink: {error}", file=sys.stderr)
        return _code_of(error.__cause__)
    except KeyboardInterrupt as error:
        print("cfck shrink: interrupted; nothing was written", file=sys.stderr)
        return _code_of(error)
    return 0


def _tell(result: ShrinkResult, as_json: bool) -> None:
    """The result for programs; people have read it by now."""
    if as_json:
        _say(json.dumps(dataclasses.asdict(result), indent=2))


def _code_of(interrupt: BaseException | None) -> int:
    return _EXIT_SIGNAL + (interrupt.number if isinstance(interrupt, Ended) else signal.SIGINT)


def _request(options: argparse.Namespace) -> FolderRequest:
    return FolderRequest(
        source=options.folder,
        target=options.output,
        keep=_goals(options.keep),
        size=options.size,
        bits_per_weight=options.bits_per_weight,
        confidence=options.confidence,
        texts=options.text,
        encoding=options.encoding,
        n_examples=options.examples,
        n_tokens=options.tokens,
        threads=options.threads,
        force=options.force,
        quiet=options.quiet,
    )


def _say(text: str) -> None:
    """Prints a line; a reader that stops early does not end the work."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _nothing(_: str) -> None:
    pass


def _goals(texts: Iterable[str]) -> dict[str, float]:
    goals: dict[str, float] = {}
    for name, value in map(_entry, texts):
        if name in goals:
            raise InvalidArgumentError(f"--keep {name} is given twice; give it once")
        goals[name] = value
    return goals


def _entry(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        wanted = "NAME=NUMBER, such as cosine=0.99"
        raise InvalidArgumentError(f"--keep is {wanted}, not {text!r}") from None
