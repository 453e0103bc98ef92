"""Line plots as SVG, for curves of a few codecs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from rate_distortion.labels import Placer, text_width
from rate_distortion.looks import Look, looks_of

WIDTH, HEIGHT = 860, 460
LEFT, TOP, BOTTOM = 76, 40, 56
LEGEND_GAP, LEGEND_TEXT = 16, 42  # from the axes to a legend, and from there to its text
TEXT, BACKGROUND = "#222222", "#ffffff"
SIZE, WORD_SIZE, TITLE_SIZE = 12, 9, 15
STYLE = f"font-family='sans-serif' font-size='{SIZE}' fill='{TEXT}'"
# So many curves have their labels beside them; more are named at the right.
MOST_DIRECT_LABELS = 5

Point = tuple[float, float]
Curves = Mapping[str, Sequence[Point]]  # places by label
Marks = Mapping[str, Sequence[tuple[Point, str]]]


@dataclass
class Plot:
    """Axes, their names, and the curves on them by label; a curve of one point is a mark.

    `markers` are where curves have their markers, if not at all of their points. `marks` are points
    by label that nothing joins, each with a word beside it.
    """

    title: str
    across: str
    up: str
    log_up: bool = False
    log_across: bool = False  # with lines at powers of ten
    curves: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    markers: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    marks: dict[str, Sequence[tuple[float, float, str]]] = field(default_factory=dict)

    def labels(self) -> list[str]:
        """The series: curves, then marks."""
        return [*self.curves, *self.marks]

    def _listed(self) -> list[str]:
        """The series that are named at the right: marks, and curves if there are many."""
        return [*self.marks] if self._is_direct() else self.labels()

    def _is_direct(self) -> bool:
        return len(self.curves) <= MOST_DIRECT_LABELS

    def _right_margin(self) -> float:
        """The width of the legend, or at least of the longest label that stands beside a curve."""
        listed = [text_width(label, SIZE) + LEGEND_TEXT for label in self._listed()]
        direct = [text_width(label, SIZE) for label in self.curves] if self._is_direct() else []
        return LEGEND_GAP + max(listed + direct)

    def _bounds(self) -> tuple[list[float], list[float]]:
        curves = [*self.curves.values(), *self.markers.values()]
        points = [point for curve in curves for point in curve]
        points += [(x, y) for marks in self.marks.values() for x, y, _ in marks]
        ups = [self._level(y) for _, y in points]
        across = [self._right(x) for x, _ in points]
        return [min(across), max(across)], [min(ups), max(ups)]

    def _level(self, value: float) -> float:
        return math.log10(value) if self.log_up else value

    def _right(self, value: float) -> float:
        return math.log10(value) if self.log_across else value

    def svg(self, looks: Mapping[str, Look] | None = None) -> str:
        """The picture, with the looks that its labels have on their page, or with its own."""
        looks = looks_of(self.labels()) if looks is None else looks
        edge = WIDTH - self._right_margin()
        across, up = (_widened(bounds) for bounds in self._bounds())

        def place(x: float, level: float) -> Point:
            """Where it is in the picture; both are logarithms where the axis has them."""
            right = LEFT + (x - across[0]) / (across[1] - across[0]) * (edge - LEFT)
            down = HEIGHT - BOTTOM
            return right, down - (level - up[0]) / (up[1] - up[0]) * (down - TOP)

        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' {STYLE}>",
            f"<rect width='{WIDTH}' height='{HEIGHT}' fill='{BACKGROUND}'/>",
            f"<text x='{LEFT}' y='24' font-size='{TITLE_SIZE}'>{escape(self.title)}</text>",
        ]
        for x in ticks(*across):
            if self.log_across and x != round(x):
                continue
            right, down = place(x, up[0])
            label = f"{10**x:,g}" if self.log_across else f"{x:g}"
            parts.append(_line(right, TOP, right, down, "#ddd"))
            parts.append(_text(right, down + 18, label, "middle"))
        for level in ticks(*up):
            right, down = place(across[0], level)
            label = f"{10**level:.2g}" if self.log_up else f"{level:g}"
            parts.append(_line(right, down, edge, down, "#ddd"))
            parts.append(_text(right - 8, down + 4, label, "end"))
        parts.append(_text((LEFT + edge) / 2, HEIGHT - 14, self.across, "middle"))
        parts.append(
            f"<text transform='translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)' "
            f"text-anchor='middle'>{escape(self.up)}</text>"
        )

        def found(x: float, y: float) -> Point:
            return place(self._right(x), self._level(y))

        curves = {label: [found(*p) for p in sorted(c)] for label, c in self.curves.items()}
        markers = {label: [found(*p) for p in points] for label, points in self.markers.items()}
        marks = {
            label: [(found(x, y), word) for x, y, word in marks]
            for label, marks in self.marks.items()
        }
        parts += _series(curves, markers, marks, looks)
        parts += self._names(curves, marks, looks, edge + LEGEND_GAP)
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _names(
        self, curves: Curves, marks: Marks, looks: Mapping[str, Look], legend_x: float
    ) -> list[str]:
        """What the series are called, beside them or at the right, and the words beside marks."""
        parts = []
        points = [point for curve in curves.values() for point in curve]
        points += [point for found in marks.values() for point, _ in found]
        placer = Placer((LEFT, TOP, WIDTH - 4, HEIGHT - BOTTOM), points, list(curves.values()))
        for i, label in enumerate(self._listed()):
            y, is_line = TOP + 14.0 + 20 * i, len(curves.get(label, ())) > 1
            parts += _legend(legend_x, y, label, looks[label], is_line)
            placer.taken.append((legend_x, y - 12, WIDTH, y + 4))
        if self._is_direct():
            for label, curve in curves.items():
                if curve:
                    parts += placer.word(curve[-1], label, SIZE)
        for point, word in sorted(mark for found in marks.values() for mark in found):
            parts += placer.word(point, word, WORD_SIZE)
        return parts


def drawn(plots: Mapping[str, Plot]) -> dict[str, str]:
    """The pictures of a page by their names: a label has the same look in all of them."""
    looks = looks_of(label for plot in plots.values() for label in plot.labels())
    return {name: plot.svg(looks) for name, plot in plots.items()}


def ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers from `low` to `high`."""
    power = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if (high - low) / (m * power) <= 9)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _widened(bounds: Sequence[float]) -> tuple[float, float]:
    low, high = bounds
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _series(curves: Curves, markers: Curves, marks: Marks, looks: Mapping[str, Look]) -> list[str]:
    """Lines and markers, those of a series in a group with its label."""
    parts = []
    for label, points in curves.items():
        look = looks[label]
        line = [look.line(points)] if len(points) > 1 else []
        marked = markers.get(label, points)
        parts += _group(label, [*line, *(look.marker(*point) for point in marked)])
    for label, found in marks.items():
        # Quantisers are often as good as each other: those below can be seen.
        shown = [looks[label].marker(*point) for point, _ in found]
        parts += _group(label, shown, " fill-opacity='0.5'")
    return parts


def _group(label: str, parts: Sequence[str], style: str = "") -> list[str]:
    return [f"<g data-series='{escape(label)}'{style}>", *parts, "</g>"]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    return f"<line {ends} stroke='{colour}'/>"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


def _legend(x: float, y: float, label: str, look: Look, is_line: bool) -> list[str]:
    """An entry at the right."""
    line = [look.line([(x, y - 4), (x + 34, y - 4)])] if is_line else []
    return [*line, look.marker(x + 17, y - 4), _text(x + LEGEND_TEXT, y, label, "start")]
