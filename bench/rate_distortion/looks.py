"""How series are told apart in a picture: a colour, a dash and a marker, each of them unique."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

# Distinct for most kinds of colour vision: the palette of Okabe and Ito, with brown in place of a
# yellow that cannot be seen on white, and then those of Tol's "muted" that are like none of these.
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#8c6d31",
    "#332288", "#882255", "#117733", "#999933", "#44aa99", "#aa4499", "#661100", "#888888",
)  # fmt: skip
# A dash comes again with the same marker, which is then not filled.
DASHES = ("", "8 3", "2 2.5", "8 3 2 3", "14 4", "5 2 1.5 2 1.5 2", "1.5 6", "18 3 2 3 2 3")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "star", "wedge", "bar")
RADIUS = 4.0


@dataclass(frozen=True)
class Look:
    """A series without its colour is known by its marker, and where it is a curve by its dash."""

    colour: str
    dash: str  # as stroke-dasharray has it; empty: a solid line
    shape: str
    is_filled: bool

    def marker(self, x: float, y: float) -> str:
        """The marker as SVG, with its centre at a place."""
        fill = self.colour if self.is_filled else "#fff"
        path = _OUTLINES[self.shape](x, y, RADIUS)
        return f"<path d='{path}' fill='{fill}' stroke='{self.colour}' stroke-width='1.5'/>"

    def line(self, places: Iterable[tuple[float, float]]) -> str:
        """The line as SVG."""
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashed = f" stroke-dasharray='{self.dash}'" if self.dash else ""
        return (
            f"<polyline points='{joined}' fill='none' stroke='{self.colour}' stroke-width='2'"
            f"{dashed}/>"
        )


def looks_of(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label, in their order; those of one page get theirs together.

    Raises:
        ValueError: there are more labels than looks that can be told apart.
    """
    names = list(dict.fromkeys(labels))
    if len(names) > len(COLOURS):
        raise ValueError(
            f"{len(names)} series are more than the {len(COLOURS)} that can be told apart"
        )
    return {
        name: Look(COLOURS[i], DASHES[i % len(DASHES)], SHAPES[i % len(SHAPES)], i < len(SHAPES))
        for i, name in enumerate(names)
    }


def _polygon(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points) + "Z"


def _circle(x: float, y: float, r: float) -> str:
    half = f"A{r:g},{r:g} 0 1 0"
    return f"M{x - r:.1f},{y:.1f}{half} {x + r:.1f},{y:.1f}{half} {x - r:.1f},{y:.1f}Z"


def _cross(x: float, y: float, r: float) -> str:
    """A plus with arms that have a width, so that it can be filled or not."""
    a, b = r * 1.1, r * 0.4
    corners = ((-b, -a), (b, -a), (b, -b), (a, -b), (a, b), (b, b), (b, a), (-b, a), (-b, b),
               (-a, b), (-a, -b), (-b, -b))  # fmt: skip
    return _polygon((x + right, y + down) for right, down in corners)


def _star(x: float, y: float, r: float) -> str:
    radii = (1.4 * r, 0.55 * r)
    turns = (math.pi * i / 5 for i in range(10))
    return _polygon(
        (x + radii[i % 2] * math.sin(turn), y - radii[i % 2] * math.cos(turn))
        for i, turn in enumerate(turns)
    )


_OUTLINES = {
    "circle": _circle,
    "square": lambda x, y, r: _polygon(
        ((x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r))
    ),
    "triangle": lambda x, y, r: _polygon(
        ((x, y - 1.2 * r), (x + 1.1 * r, y + 0.8 * r), (x - 1.1 * r, y + 0.8 * r))
    ),
    "diamond": lambda x, y, r: _polygon(
        ((x, y - 1.3 * r), (x + 1.1 * r, y), (x, y + 1.3 * r), (x - 1.1 * r, y))
    ),
    "cross": _cross,
    "star": _star,
    "wedge": lambda x, y, r: _polygon(
        ((x, y + 1.2 * r), (x + 1.1 * r, y - 0.8 * r), (x - 1.1 * r, y - 0.8 * r))
    ),
    "bar": lambda x, y, r: _polygon(
        ((x - 0.45 * r, y - 1.3 * r), (x + 0.45 * r, y - 1.3 * r), (x + 0.45 * r, y + 1.3 * r),
         (x - 0.45 * r, y + 1.3 * r))
    ),
}  # fmt: skip
