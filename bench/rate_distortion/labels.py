"""Where words go in a picture, so that they cover neither each other nor what is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from rate_distortion.looks import RADIUS

Box = tuple[float, float, float, float]  # left, top, right, bottom
Point = tuple[float, float]

_WIDE, _NARROW = set("mwMW@%"), set("iljtfr.,:;'|!()[] ")
_ABOVE, _BELOW = 0.95, 0.25  # how far letters reach from their baseline, as a part of the size


def text_width(text: str, size: float) -> float:
    """About the width of a line of text in a sans-serif font, rather too much than too little."""
    ems = (
        1.0 if c in _WIDE else 0.42 if c in _NARROW else 0.7 if c.isupper() else 0.64 for c in text
    )
    return size * sum(ems)


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes have more than an edge in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@dataclass
class Placer:
    """Finds places for words beside points.

    Attributes:
        frame: where words may be.
        points: the markers.
        lines: joined points, which words avoid if they can.
        taken: boxes that no word may cover, those of markers and of placed words among them.
    """

    frame: Box
    points: Sequence[Point]
    lines: Sequence[Sequence[Point]] = ()
    taken: list[Box] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Markers are there before words."""
        self.taken += [marker_box(*point) for point in self.points]

    def word(self, point: Point, text: str, size: float) -> list[str]:
        """The word as SVG, with a line to the point if it is not beside it."""
        width, height = text_width(text, size), (_ABOVE + _BELOW) * size
        best: tuple[float, Box] | None = None
        for right, down in _OFFSETS:
            x = point[0] + (right if right > 0 else right - width)
            x = x if right else point[0] - width / 2
            y = point[1] + down - height / 2
            box = (x, y, x + width, y + height)
            if not self._is_free(box):
                continue
            cost = abs(right) + abs(down) + 25 * self._crossings(box)
            # Beside another marker it would look like the word of that one.
            own = _distance(point, box)
            cost += 40 * any(_distance(other, box) < own for other in self.points)
            if best is None or cost < best[0]:
                best = cost, box
        if best is None:
            raise ValueError(f"there is no room for the label '{text}'")
        box = best[1]
        self.taken.append(box)
        return [*_leader(point, box), _haloed(box[0], box[3] - _BELOW * size, text, size)]

    def _is_free(self, box: Box) -> bool:
        inside = self.frame[0] <= box[0] and box[2] <= self.frame[2]
        inside = inside and self.frame[1] <= box[1] and box[3] <= self.frame[3]
        return inside and not any(overlap(box, other) for other in self.taken)

    def _crossings(self, box: Box) -> int:
        return sum(_crosses(a, b, box) for line in self.lines for a, b in pairwise(line))


# Nearest first: beside the point, above and below it, and around it in growing distance.
_OFFSETS = [
    (side * (RADIUS + 3 + away), down * (1 + away / 6))
    for away in (0, 8, 16, 26, 38, 52, 68, 86)
    for down in (0, -8, 8, -14, 14, -22, 22)
    for side in (1, -1, 0)
    if side or down
]


def marker_box(x: float, y: float) -> Box:
    """What a marker covers."""
    reach = RADIUS + 2
    return x - reach, y - reach, x + reach, y + reach


def _nearest(point: Point, box: Box) -> Point:
    return min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3])


def _distance(point: Point, box: Box) -> float:
    return math.dist(point, _nearest(point, box))


def _leader(point: Point, box: Box) -> list[str]:
    x, y = _nearest(point, box)
    if _distance(point, box) <= RADIUS + 8:
        return []
    ends = f"x1='{point[0]:.1f}' y1='{point[1]:.1f}' x2='{x:.1f}' y2='{y:.1f}'"
    return [f"<line {ends} stroke='#767676'/>"]


def _haloed(x: float, y: float, text: str, size: float) -> str:
    """Text with a white edge, which can be read on lines that it crosses."""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size:g}' stroke='#fff' stroke-width='3' "
        f"paint-order='stroke'>{escape(text)}</text>"
    )


def _crosses(a: Point, b: Point, box: Box) -> bool:
    """Whether the line from a to b goes through the box; by twelve points of it."""
    return any(
        box[0] <= a[0] + t * (b[0] - a[0]) <= box[2]
        and box[1] <= a[1] + t * (b[1] - a[1]) <= box[3]
        for t in (i / 12 for i in range(13))
    )
