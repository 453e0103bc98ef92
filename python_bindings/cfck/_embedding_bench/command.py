"""The command line of python -m cfck.embeddings.bench."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

import torch

from .._common.exit_codes import exit_code_of
from .._embeddings.codec import RowCodec
from ..errors import CfckError, ExistsError, InvalidArgumentError
from .dumps import Dumps, Lookup, padded
from .encoders import encoders
from .formula import Costs
from .imported import read_csv
from .measure import Bounds, Line, Setting, measure
from .page import check_plots, page
from .summary import table, totals

_PROGRAM = "python -m cfck.embeddings.bench"
_PADDINGS = ("repeat", "resample")
# Limit of the rows of a packet.
_MAX_BATCH_ROWS = 1 << 21


def main(arguments: Sequence[str]) -> int:
    """Runs a command line, and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except (CfckError, OSError) as error:
        print(f"{_PROGRAM}: error: {error}", file=sys.stderr)
        return exit_code_of(error)
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Measures how looked-up rows of embedding tables compress: sizes, speeds on "
        "one core, and what they do to the time on a network.",
    )
    add = parser.add_argument
    add("dumps", nargs="+", metavar="DUMPS",
        help="EMB_TABLE_iter_NUMBER.bin, .npz, .pt, or folders of these")  # fmt: skip
    add("--dim", type=int, required=True, help="values of a row")
    add("--bound", action="append", default=[], metavar="[TABLE=]NUMBER",
        help="by how much values may change, as a fraction of the range of a batch (default: "
        "0.03); 'auto': found for each table; may be repeated, for tables by name")  # fmt: skip
    add("--pad", metavar="HOW:ROWS",
        help="fill short batches up to so many rows: repeat:2048, or resample:2048, which draws "
        "rows by chance")  # fmt: skip
    add("--bandwidth", type=float, action="append", default=[], metavar="GB/s",
        help="of a network; 1.25 is 10 Gbit/s (default: 1.25); may be repeated")  # fmt: skip
    add("--latency", type=float, nargs=2, default=(0.0, 0.0), metavar=("PLAIN", "COMPRESSED"),
        help="milliseconds of an exchange of almost nothing, without and with compression "
        "(default: 0 0)")  # fmt: skip
    add("--ranks-per-core", type=float, default=1.0, metavar="N",
        help="that encode and decode at the same time (default: 1)")  # fmt: skip
    add("--import-csv", action="append", default=[], metavar="FILE",
        help="results of other programs: columns table, iteration, encoder, ratio, encode_gbps, "
        "decode_gbps; may be repeated")  # fmt: skip
    add("--jsonl", metavar="FILE", help="write the results there, a line of JSON each")
    add("--html", metavar="FILE", help="write a page with plots there")
    add("--force", action="store_true", help="replace files that exist")
    return parser


def _run(options: argparse.Namespace) -> None:
    outputs = [path for path in (options.jsonl, options.html) if path is not None]
    for path in outputs:
        if os.path.exists(path) and not options.force:
            raise ExistsError(f"{path} exists; --force replaces it")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise InvalidArgumentError(f"{path} cannot be written: its folder does not exist")
    if options.html is not None:
        check_plots()
    bandwidths = _bandwidths(options.bandwidth)
    costs = _costs(options)
    codec = RowCodec(min(bandwidths) * 1e9)
    available, missing = encoders(codec)
    dumps = Dumps(options.dumps, options.dim)
    dumps.check_sizes()
    bounds = _bounds(options.bound)
    if unknown := set(bounds.named) - set(dumps.tables()):
        raise InvalidArgumentError(
            f"--bound names tables that are not dumped: {', '.join(sorted(unknown))}"
        )
    imported = [
        line for path in options.import_csv for line in read_csv(path, bandwidths, available, costs)
    ]
    for name, advice in missing.items():
        print(f"{_PROGRAM}: {name} is not measured: {advice}", file=sys.stderr)
    setting = Setting(bounds, available, codec, bandwidths, costs)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        lookups = _padded(dumps.iterations(), options.pad)
        lines = [*measure(lookups, setting), *imported]
    finally:
        torch.set_num_threads(before)
    _write(options, lines, setting, len(dumps.tables()))


def _write(options: argparse.Namespace, lines: list[Line], setting: Setting, n_tables: int) -> None:
    if options.jsonl is not None:
        _write_file(options.jsonl, lambda file: file.writelines(map(_json, lines)))
    if options.html is not None:
        n_iterations = len({line["iteration"] for line in lines})
        names = ", ".join(map(os.path.basename, map(os.path.normpath, options.dumps)))
        bounds = ", ".join(options.bound) or "0.03"
        heading = f"{names}: {n_tables} tables, {n_iterations} iterations, bound {bounds}"
        text = page(lines, setting.bandwidths, heading, setting.costs)
        _write_file(options.html, lambda file: file.write(text))
    print(table(totals(lines, setting.costs), setting.bandwidths))


def _json(line: Line) -> str:
    return json.dumps(line, allow_nan=False) + "\n"


def _write_file(path: str, write: Callable[[TextIO], object]) -> None:
    """The file appears completely or not at all."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _bandwidths(given: Sequence[float]) -> tuple[float, ...]:
    for rate in given:
        if not 0 < rate < float("inf"):
            raise InvalidArgumentError(f"--bandwidth is a positive number of GB/s, not {rate!r}")
    return tuple(dict.fromkeys(given)) or (1.25,)


def _costs(options: argparse.Namespace) -> Costs:
    for milliseconds in options.latency:
        if not 0 <= milliseconds < float("inf"):
            raise InvalidArgumentError(f"--latency is two numbers from 0 on, not {milliseconds!r}")
    if not 0 < options.ranks_per_core < float("inf"):
        raise InvalidArgumentError(
            f"--ranks-per-core is a positive number, not {options.ranks_per_core!r}"
        )
    plain, compressed = (milliseconds / 1e3 for milliseconds in options.latency)
    return Costs(plain, compressed, options.ranks_per_core)


def _bounds(given: Sequence[str]) -> Bounds:
    default: float | None = 0.03
    named = {}
    for text in given:
        table_name, sign, number = text.rpartition("=")
        if not sign and number == "auto":
            default = None
            continue
        try:
            bound = float(number)
        except ValueError:
            raise InvalidArgumentError(
                f"--bound is a number, TABLE=NUMBER or 'auto', not {text!r}"
            ) from None
        if sign:
            named[table_name] = bound
        else:
            default = bound
    return Bounds(default, named)


def _padded(iterations: Iterator[list[Lookup]], pad: str | None) -> Iterator[list[Lookup]]:
    if pad is None:
        return iterations
    how, _, number = pad.partition(":")
    n_rows = int(number) if re.fullmatch("[0-9]{1,7}", number) else 0
    if how not in _PADDINGS or not 1 <= n_rows <= _MAX_BATCH_ROWS:
        raise InvalidArgumentError(
            f"--pad is repeat:ROWS or resample:ROWS with 1 to {_MAX_BATCH_ROWS} rows, not {pad!r}"
        )
    return ([padded(lookup, how, n_rows) for lookup in lookups] for lookups in iterations)
