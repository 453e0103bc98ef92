"""Numbers beside what they must reach and what they aim at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

COLUMNS = ["row", "data", "what", "value", "against", "must", "aim", "verdict"]
FAILED, PASSED, REACHED, SKIPPED, TOLD = "FAIL", "pass", "aim reached", "skipped", "info"


@dataclass(frozen=True)
class Goal:
    """What a number must reach (None: nothing) and what it aims at; `text` says either in words."""

    must: float | None
    aim: float
    smaller: bool = False  # is better
    text: Callable[[float], str] = "{:.4g}".format

    def verdict(self, value: float) -> str:
        """How far a value comes."""
        sign = -1 if self.smaller else 1
        if sign * value >= sign * self.aim:
            return REACHED
        if self.must is None:
            return TOLD
        return PASSED if sign * value >= sign * self.must else FAILED

    def describe(self, bound: float | None) -> str:
        """One of the two bounds in words."""
        if bound is None:
            return "-"
        return f"{'at most' if self.smaller else 'at least'} {self.text(bound)}"


@dataclass
class Targets:
    """The lines of the table of targets. Where sizes are not those that goals are for, numbers are
    told and not judged."""

    are_judged: bool = True
    lines: list[list[str]] = field(default_factory=list)

    def judge(
        self, row: str, data: str, what: str, value: float, goal: Goal, against: str = "-"
    ) -> None:
        """Adds a number with its verdict."""
        bounds = [goal.describe(goal.must), goal.describe(goal.aim)]
        verdict = goal.verdict(value) if self.are_judged else TOLD
        self._add(row, data, what, goal.text(value), against, *bounds, verdict)

    def fail(self, row: str, data: str, reason: str) -> None:
        """Adds a line for what went wrong."""
        self._add(row, data, "error", "-", reason, "-", "-", FAILED)

    def skip(self, row: str, data: str, reason: str) -> None:
        """Adds a line for what could not be measured."""
        self._add(row, data, "-", "-", reason, "-", "-", SKIPPED)

    def tell(self, row: str, data: str, what: str, value: str, against: str = "-") -> None:
        """Adds a line for information."""
        self._add(row, data, what, value, against, "-", "-", TOLD)

    def _add(self, *cells: str) -> None:
        self.lines.append(list(cells))

    def failed(self) -> bool:
        """Whether some line is a failure."""
        return any(line[-1] == FAILED for line in self.lines)
