"""Figures of each encoder over all lookups, and the table that shows them on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .._common.text import printable
from .dumps import ALL_TABLES
from .formula import NO_COSTS, Costs, Figures, break_even, speed_up
from .measure import Line

_WIDTH = 80
_NAME_WIDTH = 16


class Total(NamedTuple):
    """One encoder over all lookups: ratio and speeds of all bytes together.

    Attributes:
        encoder: its name.
        ratio: bytes of F32 over bytes that are sent.
        encode_gbps: GB of F32 a second; None where it was not measured.
        decode_gbps: the same.
        exceptions: values that were no codes.
        largest_error: the largest as a fraction of its bound; None where it is not known.
        gigabytes: of F32 of a line, on average: what is exchanged at once.
        costs: of an exchange.
    """

    encoder: str
    ratio: float
    encode_gbps: float | None
    decode_gbps: float | None
    exceptions: int
    largest_error: float | None
    gigabytes: float
    costs: Costs

    def figures(self) -> Figures | None:
        """Ratio and speeds; None where these were not measured."""
        if self.encode_gbps is None or self.decode_gbps is None:
            return None
        return Figures(self.ratio, self.encode_gbps, self.decode_gbps)

    def speed_up(self, bandwidth: float) -> float | None:
        """At a bandwidth, in GB a second."""
        figures = self.figures()
        return figures and speed_up(figures, bandwidth, self.costs, self.gigabytes)

    def break_even(self) -> float | None:
        """Up to which bandwidth, in GB a second, it saves time."""
        figures = self.figures()
        return figures and break_even(figures, self.costs, self.gigabytes)


def totals(lines: Iterable[Line], costs: Costs = NO_COSTS) -> list[Total]:
    """A total for each encoder, in the order of the lines.

    Lines of all tables of an iteration count where an encoder has them, else those of its tables.
    An imported line counts as many bytes as the lookup of its table and iteration has.
    """
    kept = list(lines)
    sizes = {(at["table"], at["iteration"]): at["f32_bytes"] for at in kept if "f32_bytes" in at}
    by_encoder: dict[str, list[Line]] = {}
    for line in kept:
        by_encoder.setdefault(line["encoder"], []).append(line)
    found = []
    for encoder, own in by_encoder.items():
        whole = [line for line in own if line["table"] == ALL_TABLES] or own
        whole = [line for line in whole if line["ratio"]]
        if whole:
            found.append(_total(encoder, own, whole, sizes, costs))
    return found


def _total(
    encoder: str,
    own: list[Line],
    whole: list[Line],
    sizes: dict[tuple[str, int], int],
    costs: Costs,
) -> Total:
    weights = [sizes.get((line["table"], line["iteration"]), 1) for line in whole]
    n_bytes = sum(weights)

    def mean(name: str) -> float | None:
        if any(line[name] is None for line in whole):
            return None
        inverse = sum(w / line[name] for w, line in zip(weights, whole, strict=True))
        return n_bytes / float(inverse)

    errors = [
        line["largest_error"] / (line["bound"] * line["range"])
        for line in own
        if line.get("largest_error") is not None and line.get("range")
    ]
    ratio = mean("ratio")
    assert ratio is not None
    exceptions = sum(line.get("exceptions", 0) for line in own if line["table"] != ALL_TABLES)
    largest = max(errors, default=None)
    gigabytes = n_bytes / len(whole) / 1e9
    speeds = mean("encode_gbps"), mean("decode_gbps")
    return Total(encoder, ratio, *speeds, exceptions, largest, gigabytes, costs)


def table(found: Sequence[Total], bandwidths: Sequence[float]) -> str:
    """The totals, as text of at most 80 columns; as many bandwidths as fit."""
    room = (_WIDTH - _NAME_WIDTH - 5 * 8) // 8
    shown_rates = list(bandwidths)[: max(1, room)]
    heads = ["ratio", "encode", "decode", "break-", "error/"]
    units = ["", "GB/s", "GB/s", "even", "bound"]
    heads += ["S at"] * len(shown_rates)
    units += [f"{rate:g}" for rate in shown_rates]
    lines = ["encoder".ljust(_NAME_WIDTH) + _cells(heads), " " * _NAME_WIDTH + _cells(units)]
    for each in found:
        values = [each.ratio, each.encode_gbps, each.decode_gbps, each.break_even()]
        cells = [_figure(value) for value in (*values, each.largest_error)]
        cells += [_figure(each.speed_up(rate)) for rate in shown_rates]
        name = printable(each.encoder)[: _NAME_WIDTH - 1]
        lines.append(name.ljust(_NAME_WIDTH) + _cells(cells))
    lines += ["", *_notes(found)]
    return "\n".join(lines)


def _notes(found: Sequence[Total]) -> list[str]:
    notes = [
        "ratio: bytes of F32 over all bytes that are sent, all lookups together.",
        "encode, decode: with quantising and dequantising. '-': only the exact size",
        "is computed, or the speed was not measured.",
        "break-even: GB/s of the network up to which time is saved; S: the speed-up at",
        "a network of so many GB/s.",
    ]
    exceptions = [f"{each.exceptions} of {each.encoder}" for each in found if each.exceptions]
    if exceptions:
        notes.append("values that are no codes, and were sent as they are:")
        notes += [f"  {printable(text)}"[:_WIDTH] for text in exceptions]
    return notes


def _cells(cells: Iterable[str]) -> str:
    return "".join(cell.rjust(8) for cell in cells)


def _figure(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")
