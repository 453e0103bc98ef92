"""Trainings that have ended, kept in a file, so that a row can be measured in several sittings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common import report


class Runs:
    """A file of JSON lines: one for each training, what it was and what was found."""

    def __init__(self, path: Path) -> None:
        """The file need not exist yet."""
        self._path = path

    def once(
        self, key: Mapping[str, Any], train: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """What an earlier training of the same key has found, or else what `train` finds now, with
        the machine and the commit."""
        for line in self._lines():
            if key.items() <= line.items():
                return line
        machine = report.machine()
        facts = {name: machine[name] for name in ("processor", "cores", "commit")}
        line = {**key, **train(), **facts}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        return line

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        text = self._path.read_text(encoding="utf-8")
        lines: list[dict[str, Any]] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                lines.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise ValueError(
                    f"{self._path}, line {number} is not JSON ({error}): delete that line, and its "
                    "training is made again"
                ) from None
        return lines
