"""The command line of `python -m cfck`, to which the program `cfck` hands over."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Sequence

from .._shrink.result import ShrinkInterrupted, ShrinkResult
from ..errors import (
    CfckError,
    ExistsError,
    InternalError,
    InvalidArgumentError,
    IoError,
    LimitExceededError,
    MissingFileError,
    OutOfMemoryError,
    UnsupportedError,
)
from .folder import FolderRequest, shrink_folder
from .interrupts import Ended, ending_signals

# The program `cfck` has the same ones.
_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (MissingFileError, 3),
    (ExistsError, 8),
    (InvalidArgumentError, 2),
    (OSError, 3),
    (IoError, 3),
    (UnsupportedError, 6),
    (LimitExceededError, 7),
    (OutOfMemoryError, 7),
    (InternalError, 70),
)
_EXIT_SIGNAL = 128  # plus the number of the signal


def main(arguments: Sequence[str]) -> int:
    """Runs a command line, and returns its exit code."""
    options = _parser().parse_args(arguments)
    say = _nothing if options.quiet or options.json else _say
    try:
        with ending_signals():
            _tell(shrink_folder(_request(options), say), options.json)
    except (CfckError, OSError) as error:
        print(f"cfck shrink: error: {error}", file=sys.stderr)
        return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 4)
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
        keep=dict(_entry(text) for text in options.keep),
        size=options.size,
        bits_per_weight=options.bits_per_weight,
        confidence=options.confidence,
        texts=options.text,
        encoding=options.encoding,
        n_examples=options.examples,
        n_tokens=options.tokens,
        threads=options.threads,
        force=options.force,
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


def _entry(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        wanted = "NAME=NUMBER, such as cosine=0.99"
        raise InvalidArgumentError(f"--keep is {wanted}, not {text!r}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cfck", description="The parts of cfck that need PyTorch")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shrink = commands.add_parser(
        "shrink",
        help="store a model of transformers as small as an outcome allows",
        description="Store a model of transformers in the smallest file that keeps an outcome: "
        "calibrates, compensates errors, and judges on text that it held back.",
        epilog="example: cfck shrink my-model/ small/ --keep cosine=0.99 --text corpus.txt. With "
        "Ctrl-C the smallest folder so far that keeps everything is written, if there is one.",
    )
    add = shrink.add_argument
    add("folder", help="the folder of the model: config.json, tokeniser and weights")
    add("output", help="the new folder: model.cfck, and copies of the other files")
    add(
        "--keep",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what is to be kept: cosine=0.99, kl=0.05, agreement=0.98 or perplexity=1.02; may be "
        "repeated",
    )
    add(
        "--confidence",
        type=float,
        default=0.95,
        metavar="C",
        help="how sure it has to be that --keep holds for all text of the kind, from 0.5 (what is "
        "measured counts as it is) to 0.999 (default: 0.95)",
    )
    add("--size", metavar="SIZE", help="in place of --keep: at most so many bytes, such as 60MB")
    add("--bits-per-weight", type=float, metavar="B", help="in place of --keep: at most so many")
    add(
        "--text",
        action="append",
        default=[],
        metavar="FILE",
        help="text like that the model is for, a few hundred lines or more; may be repeated",
    )
    add("--encoding", default="utf-8", metavar="NAME", help="of the text (default: utf-8)")
    add(
        "--examples",
        type=int,
        default=320,
        metavar="N",
        help="sentences, or pieces of --tokens for models that write; spread over the text "
        "(default: 320)",
    )
    add("--tokens", type=int, default=128, metavar="N", help="the most of an example (128)")
    add("--threads", type=int, default=0, metavar="N", help="of the codec; 0: all CPUs")
    add(
        "-f",
        "--force",
        action="store_true",
        help="replace the folder of a model that exists already; files that the new one does not "
        "have are kept",
    )
    add("-q", "--quiet", action="store_true", help="say nothing but errors")
    add("--json", action="store_true", help="print the result as JSON")
    return parser
