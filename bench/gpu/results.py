"""Numbers of a run, and the tables made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common import report

Row = Mapping[str, Any]
# The heading of a column, the number it shows, and how.
Column = tuple[str, str, Callable[[Any], str]]


def _plain(value: Any) -> str:
    return str(value)


def _rate(value: float) -> str:
    return f"{value / 1e9:.1f}"


def _fraction(value: float) -> str:
    return f"{value:.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _milliseconds(value: float) -> str:
    return f"{1e3 * value:.3f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.1f}"


DECODES: list[Column] = [
    ("file", "subject", _plain),
    ("MB", "decoded_bytes", _megabytes),
    ("ratio", "ratio", _fraction),
    ("kernels, GB/s", "kernel_rate", _rate),
    ("device busy, GB/s", "device_rate", _rate),
    ("whole call, GB/s", "call_rate", _rate),
    ("without hashes, GB/s", "unverified_call_rate", _rate),
    ("hashes, of the time on the device", "hash_share", _percent),
    ("memory beside outputs, MB", "extra_bytes", _megabytes),
]
KERNELS: list[Column] = [
    ("file", "subject", _plain),
    ("kernel", "kernel", _plain),
    ("launches", "launches", _plain),
    ("ms", "seconds", _milliseconds),
    ("MB to move", "floor_bytes", _megabytes),
    ("times its floor", "times_floor", _fraction),
]
LOADS: list[Column] = [
    ("file", "subject", _plain),
    ("loader", "loader", _plain),
    ("ms", "seconds", _milliseconds),
    ("GB/s", "rate", _rate),
    ("of the pinned copy", "pinned_share", _fraction),
]
ENCODES: list[Column] = [
    ("tensor", "subject", _plain),
    ("ratio", "ratio", _fraction),
    ("ms", "seconds", _milliseconds),
    ("kernels, GB/s", "kernel_rate", _rate),
    ("whole call, GB/s", "rate", _rate),
]
SAVES: list[Column] = [
    ("tensors", "subject", _plain),
    ("way", "way", _plain),
    ("ms", "seconds", _milliseconds),
    ("GB/s", "rate", _rate),
    ("file, MB", "stored_bytes", _megabytes),
]
CODECS: list[Column] = [
    ("values", "subject", _plain),
    ("codec", "codec", _plain),
    ("ratio", "ratio", _fraction),
    ("kernels, GB/s", "kernel_rate", _rate),
    ("whole call, GB/s", "call_rate", _rate),
]


@dataclass
class Results:
    """The rows of all tables, in numbers: bytes, seconds, bytes a second."""

    copies: dict[str, float] = field(default_factory=dict)
    decodes: list[Row] = field(default_factory=list)
    kernels: list[Row] = field(default_factory=list)
    loads: list[Row] = field(default_factory=list)
    encodes: list[Row] = field(default_factory=list)
    saves: list[Row] = field(default_factory=list)
    codecs: list[Row] = field(default_factory=list)

    def tables(self) -> list[str]:
        """The tables as Markdown, those with rows."""
        named = [
            ("Compressed bytes on the device", DECODES, self.decodes),
            ("What the device does in a call", KERNELS, self.kernels),
            ("Loads from the page cache", LOADS, self.loads),
            ("Messages made on the device", ENCODES, self.encodes),
            ("Saves to the page cache", SAVES, self.saves),
            ("nvCOMP on the same values", CODECS, self.codecs),
        ]
        lines: list[str] = []
        for title, columns, rows in named:
            if rows:
                lines += [f"## {title}", "", _table(columns, rows)]
        return lines


def _table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    cells = [
        ["-" if row.get(key) is None else text(row[key]) for _, key, text in columns]
        for row in rows
    ]
    return report.markdown_table([heading for heading, _, _ in columns], cells)
