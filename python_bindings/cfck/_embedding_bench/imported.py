"""Results of other programs, such as encoders of GPUs, as CSV files."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterable, Iterator

from .._common.text import printable, shown
from ..errors import CorruptError, InvalidArgumentError, MissingFileError
from .encoders import OURS
from .formula import NO_COSTS, Costs
from .measure import Line, with_speed_up

COLUMNS = ("table", "iteration", "encoder", "ratio", "encode_gbps", "decode_gbps")
_MAX_LINES = 10_000_000
_ITERATION = re.compile("[0-9]{1,18}")


def read_csv(
    path: str | os.PathLike[str],
    bandwidths: Iterable[float],
    taken: Iterable[str],
    costs: Costs = NO_COSTS,
) -> Iterator[Line]:
    """Yields lines of a CSV file with the columns COLUMNS and any others, which are left out.

    Speeds may be empty: they were not measured.

    Args:
        path: the file.
        bandwidths: as for with_speed_up().
        taken: names of encoders that were measured here.
        costs: as for with_speed_up().

    Raises:
        CfckError: MissingFileError; InvalidArgumentError for a column that is missing, and for
            encoders that are taken; CorruptError for what is no number.
    """
    names = {*taken, OURS}
    rates = tuple(bandwidths)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise InvalidArgumentError(
                    f"{os.fspath(path)} has no column {', '.join(missing)}; the first line names "
                    f"the columns {', '.join(COLUMNS)}"
                )
            for entry in reader:
                where = f"{os.fspath(path)}, line {reader.line_num}"
                if reader.line_num > _MAX_LINES:
                    raise InvalidArgumentError(f"{where}: more than {_MAX_LINES} lines")
                line = _line(entry, where, names)
                yield line | with_speed_up(line, rates, costs)
    except FileNotFoundError:
        raise MissingFileError(f"{os.fspath(path)}: no such file") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise CorruptError(f"{os.fspath(path)} is not a CSV file of UTF-8: {error}") from None


def _line(entry: dict[str, str | None], where: str, taken: set[str]) -> Line:
    texts = {name: (entry[name] or "").strip() for name in COLUMNS}
    if not texts["table"] or not texts["encoder"]:
        raise CorruptError(f"{where}: the table or the encoder has no name")
    if texts["encoder"] in taken:
        raise InvalidArgumentError(
            f"{where}: encoder {printable(texts['encoder'])!r} is measured here; give the other "
            "one another name"
        )
    if not _ITERATION.fullmatch(texts["iteration"]):
        raise CorruptError(f"{where}: iteration is {shown(printable(texts['iteration']))!r}")
    line: Line = {
        "table": texts["table"],
        "iteration": int(texts["iteration"]),
        "encoder": texts["encoder"],
    }
    for name in COLUMNS[3:]:
        line[name] = None if not texts[name] and name != "ratio" else _number(texts, name, where)
    return line


def _number(texts: dict[str, str], name: str, where: str) -> float:
    try:
        value = float(texts[name])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise CorruptError(
            f"{where}: {name} is {shown(printable(texts[name]))!r}, not a positive number"
        )
    return value
