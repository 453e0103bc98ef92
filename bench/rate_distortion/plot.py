"""Line plots as SVG, for curves of a few codecs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 320, 40, 56
# Distinct for most kinds of colour vision (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
STYLE = "font-family='sans-serif' font-size='12' fill='#222'"


@dataclass
class Plot:
    """Axes, their names, and the curves on them by label; a curve of one point is a mark.

    `marks` are points by label that nothing joins, each with a word beside it.
    """

    title: str
    across: str
    up: str
    log_up: bool = False
    curves: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    marks: dict[str, Sequence[tuple[float, float, str]]] = field(default_factory=dict)

    def _bounds(self) -> tuple[list[float], list[float]]:
        points = [point for curve in self.curves.values() for point in curve]
        points += [(x, y) for marks in self.marks.values() for x, y, _ in marks]
        ups = [self._level(y) for _, y in points]
        across = [x for x, _ in points]
        return [min(across), max(across)], [min(ups), max(ups)]

    def _level(self, value: float) -> float:
        return math.log10(value) if self.log_up else value

    def svg(self) -> str:
        """The picture."""
        across, up = (_widened(bounds) for bounds in self._bounds())

        def place(x: float, level: float) -> tuple[float, float]:
            right = LEFT + (x - across[0]) / (across[1] - across[0]) * (WIDTH - LEFT - RIGHT)
            down = HEIGHT - BOTTOM
            return right, down - (level - up[0]) / (up[1] - up[0]) * (down - TOP)

        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' {STYLE}>",
            f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>",
            f"<text x='{LEFT}' y='24' font-size='15'>{escape(self.title)}</text>",
        ]
        for x in ticks(*across):
            right, down = place(x, up[0])
            parts.append(_line(right, TOP, right, down, "#ddd"))
            parts.append(_text(right, down + 18, f"{x:g}", "middle"))
        for level in ticks(*up):
            right, down = place(across[0], level)
            label = f"{10**level:.2g}" if self.log_up else f"{level:g}"
            parts.append(_line(right, down, WIDTH - RIGHT, down, "#ddd"))
            parts.append(_text(right - 8, down + 4, label, "end"))
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(_text(middle, HEIGHT - 14, self.across, "middle"))
        parts.append(
            f"<text transform='translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)' "
            f"text-anchor='middle'>{escape(self.up)}</text>"
        )
        for i, (label, curve) in enumerate(self.curves.items()):
            places = [place(x, self._level(y)) for x, y in sorted(curve)]
            parts += _curve(places, COLOURS[i % len(COLOURS)], "4 3" if i >= len(COLOURS) else "")
            parts += _legend(i, label)
        words: list[tuple[float, float, str]] = []
        for i, (label, marks) in enumerate(self.marks.items(), len(self.curves)):
            colour = COLOURS[i % len(COLOURS)]
            for x, y, word in marks:
                right, down = place(x, self._level(y))
                parts.append(f"<circle cx='{right:.1f}' cy='{down:.1f}' r='4' fill='{colour}'/>")
                words.append((right, down, word))
            parts += _legend(i, label)
        parts += _words(words)
        return "\n".join([*parts, "</svg>"]) + "\n"


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


def _words(marks: Sequence[tuple[float, float, str]]) -> list[str]:
    """A word beside each mark, on the first side where it covers neither marks nor other words."""
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y, _ in marks]
    parts = []
    for x, y, word in sorted(marks):
        width = 5.2 * len(word)
        boxes = [
            (left, y + down - 8, left + width, y + down)
            for down in (3, -6, 13, -15, 22)
            for left in (x + 6, x - 6 - width)
        ]
        free = [box for box in boxes if not any(_overlap(box, other) for other in taken)]
        box = (free or boxes)[0]
        taken.append(box)
        parts.append(f"<text x='{box[0]:.1f}' y='{box[3]:.1f}' font-size='9'>{escape(word)}</text>")
    return parts


Box = tuple[float, float, float, float]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    return f"<line {ends} stroke='{colour}' stroke-width='{width}'/>"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'>{escape(text)}</text>"


def _curve(places: Sequence[tuple[float, float]], colour: str, dashes: str) -> list[str]:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
    line = f"<polyline points='{joined}' fill='none' stroke='{colour}' stroke-width='2'{dashed}/>"
    return [
        line,
        *(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in places),
    ]


def _legend(i: int, label: str) -> list[str]:
    x, y = WIDTH - RIGHT + 16, TOP + 14 + 20 * i
    colour = COLOURS[i % len(COLOURS)]
    return [
        _line(x, y - 4, x + 22, y - 4, colour, 3),
        _text(x + 28, y, label, "start"),
    ]
