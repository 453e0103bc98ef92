"""Draws the picture of README: MiniLM at every size, stored by cfck without data and by its peers.

    python bench picture -o docs

Measures nothing: the points are those of the newest `quality` run in bench/results.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from common.driver import Benchmark
from rate_distortion.plot import Plot

RESULTS = Path(__file__).parent.parent / "results"
MODEL, EFFECT = "MiniLM", "1 - cosine"
# The curves of the table that are drawn, and what the legend calls them.
CURVES = {"cfck, quality=": "cfck, quality=", "NNCodec": "NNCodec"}


def short_name(quantiser: str) -> tuple[str, str]:
    """The package of a quantiser, and a word for its kind that fits beside a mark."""
    package, _, kind = quantiser.partition(" ")
    word = kind.replace(" bit, groups of ", "b/").replace(", double quantisation", " dq")
    return package, word.replace(", groups of ", "/").replace(", a scale for each row", "")


def read_table(path: Path) -> list[dict[str, str]]:
    """The lines of a table of points, by its columns."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    return list(csv.DictReader(lines))


def overview(table: list[dict[str, str]]) -> Plot:
    """Bits per weight against what is lost of MiniLM's embeddings; a quantiser is a mark."""
    plot = Plot(
        f"{MODEL}: 1 - cosine of its embeddings, smaller is better",
        "bits per weight", EFFECT, log_up=True,
    )  # fmt: skip
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in CURVES.values()}
    marks: dict[str, list[tuple[float, float, str]]] = {}
    for line in table:
        if line["model"] != MODEL:
            continue
        at = float(line["bits per weight"]), float(line[EFFECT])
        if line["codec"] in CURVES:
            curves[CURVES[line["codec"]]].append(at)
        elif not line["setting"]:
            package, word = short_name(line["codec"])
            marks.setdefault(package, []).append((*at, word))
    plot.curves.update(curves)
    plot.marks.update(marks)
    return plot


class Picture(Benchmark):
    """One picture, of points that were measured before."""

    name = "picture"

    def draw(self) -> None:
        """Reads the table and draws it."""
        newest = max(RESULTS.glob("quality-*-points.csv"), key=lambda path: path.name)
        self.svg = overview(read_table(newest)).svg()

    rows: ClassVar[Mapping[str, Callable[[Picture], None]]] = {"quality": draw}
    svg = ""

    def fail(self, row: str, reason: str) -> None:
        """The error has been printed."""

    def failed(self) -> bool:
        """Whether there is no picture."""
        return not self.svg

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """The picture."""
        return {"quality.svg": self.svg} if self.svg else {}


COMMAND = Picture
