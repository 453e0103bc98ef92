"""The arguments of `python -m cfck`. Parsing and help texts need no more than this."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import NoReturn


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


class _HelpAll(argparse.Action):
    """Prints the help with every option, as the program `cfck` does for its own commands."""

    def __call__(self, *_: object) -> NoReturn:
        _parsers(every=True)[1].print_help()
        sys.exit(0)


def _add_goals(shrink: argparse.ArgumentParser) -> None:
    """What the file must keep, or how large it may be."""
    add = shrink.add_argument
    add(
        "--keep",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the goal: cosine=0.99, kl=0.05, agreement=0.98 or perplexity=1.02; may be repeated",
    )
    add("--size", metavar="SIZE", help="instead of --keep: the maximum size, such as 60MB")
    add(
        "--bits-per-weight",
        type=float,
        metavar="X",
        help="instead of --keep: the maximum size in bits per weight",
    )
    add(
        "--text",
        action="append",
        default=[],
        metavar="FILE",
        help="sample text from the domain of the model, a few hundred lines or more; may be "
        "repeated",
    )


def _add_evaluation(shrink: argparse.ArgumentParser, every: bool) -> None:
    """How the file is judged, and with what; --help leaves this to --help-all."""

    def shown(text: str) -> str:
        return text if every else argparse.SUPPRESS

    evaluation = shrink.add_argument_group("evaluation")
    evaluation.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="C",
        help=shown(
            "probability with which --keep has to hold for all text of this kind, from 0.5 (what "
            "is measured counts as it is) to 0.999 (default: 0.95)"
        ),
    )
    evaluation.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help=shown("text encoding (default: utf-8)")
    )
    evaluation.add_argument(
        "--examples",
        type=int,
        default=320,
        metavar="N",
        help=shown(
            "number of sentences, or of pieces of --tokens for models that generate text, taken "
            "evenly from the text (default: 320)"
        ),
    )
    evaluation.add_argument(
        "--tokens",
        type=int,
        default=128,
        metavar="N",
        help=shown("maximum number of tokens per example (default: 128)"),
    )
    shrink.add_argument_group("resources").add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="N",
        help=shown("number of threads of the codec; 0: all CPUs (default)"),
    )


def _parsers(every: bool = False) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The parser of the program, and that of its command; whether the help has every option."""
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
    add("--help-all", action=_HelpAll, nargs=0, help="show the help with every option and exit")
    add("folder", help="the folder of the model: config.json, tokeniser and weights")
    add("output", help="the new folder: model.cfck, and copies of the other files")
    _add_goals(shrink)
    add(
        "-f",
        "--force",
        action="store_true",
        help="replace the folder of a model that exists already; files that the new one does not "
        "have are kept",
    )
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    add("--json", action="store_true", help="print the result as JSON")
    _add_evaluation(shrink, every)
    return parser, shrink
