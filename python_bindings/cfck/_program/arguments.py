"""The arguments of `python -m cfck`. Parsing and help texts need no more than this."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line; prints help texts and errors as programs do, and exits."""
    parser, shrink = _parsers()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        known = [name for action in shrink._actions for name in action.option_strings]
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1)
        advice = f"; did you mean {near[0]}?" if near else ""
        shrink.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    return options


def _add_goals(shrink: argparse.ArgumentParser) -> None:
    """What the file must keep, or how large it may be."""
    add = shrink.add_argument
    add(
        "--keep",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the goal to meet: cosine=0.99, kl=0.05, agreement=0.98 or perplexity=1.02; may be "
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
    add("--size", metavar="SIZE", help="instead of --keep: the maximum size, such as 60MB")
    add(
        "--bits-per-weight",
        type=float,
        metavar="B",
        help="instead of --keep: maximum bits per weight",
    )


def _parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The parser of the program, and that of its command."""
    parser = argparse.ArgumentParser(prog="cfck", description="The parts of cfck that need PyTorch")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shrink = commands.add_parser(
        "shrink",
        help="compress a Transformers model as far as a quality goal allows",
        description="Compress a Transformers model to the smallest file that meets a quality goal: "
        "calibrates, compensates errors, and judges the result on text that it held back.",
        epilog="example: cfck shrink my-model/ small/ --keep cosine=0.99 --text corpus.txt. With "
        "Ctrl-C the smallest folder so far that keeps everything is written, if there is one.",
    )
    add = shrink.add_argument
    add("folder", help="the folder of the model: config.json, tokeniser and weights")
    add("output", help="the new folder: model.cfck, and copies of the other files")
    _add_goals(shrink)
    add(
        "--text",
        action="append",
        default=[],
        metavar="FILE",
        help="sample text from the model's domain, a few hundred lines or more; may be repeated",
    )
    add("--encoding", default="utf-8", metavar="NAME", help="text encoding (default: utf-8)")
    add(
        "--examples",
        type=int,
        default=320,
        metavar="N",
        help="sentences, or pieces of --tokens for models that write; spread over the text "
        "(default: 320)",
    )
    add(
        "--tokens",
        type=int,
        default=128,
        metavar="N",
        help="maximum tokens per example (default: 128)",
    )
    add("--threads", type=int, default=0, metavar="N", help="threads of the codec; 0: all CPUs")
    add(
        "-f",
        "--force",
        action="store_true",
        help="replace the folder of a model that exists already; files that the new one does not "
        "have are kept",
    )
    add("-q", "--quiet", action="store_true", help="say nothing but errors")
    add("--json", action="store_true", help="print the result as JSON")
    return parser, shrink
