"""Where the time of compressed steps goes, and how much of what was accumulated they send."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator

import torch

# Energy takes a pass over all that is accumulated: it is measured in each step of so many.
ENERGY_EVERY = 10
PARTS = ("gradients", "selection", "packing", "exchange", "unpacking")


@dataclasses.dataclass
class Energy:
    """Sums of squares, of the steps in which they were measured.

    Attributes:
        accumulated: of what was there to be sent.
        sent: of what was sent.
    """

    accumulated: float = 0.0
    sent: float = 0.0

    @property
    def share(self) -> float:
        """The part of what was there that was sent: 1.0 where there was nothing."""
        return self.sent / self.accumulated if self.accumulated else 1.0


class Measures:
    """Counts what steps of this rank took and sent.

    Attributes:
        seconds: by part of a step: "gradients" are copied, scaled and clipped, and with nodes
            averaged within a node; "selection" includes accumulation; "exchange" is sending and
            waiting for other ranks. They are those of the threads of the host: work that a device
            does meanwhile counts where the host waits for it.
        energy: "matrices" and "vectors", those of tensors of two or more dimensions and of others.
        n_steps: how many there were.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.energy = {"matrices": Energy(), "vectors": Energy()}
        self.n_steps = 0

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts the time within for a part."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - begin

    @property
    def wants_energy(self) -> bool:
        """Whether energy is measured in this step."""
        return self.n_steps % ENERGY_EVERY == 0

    def add_energy(self, is_matrix: bool, accumulated: torch.Tensor, sent: torch.Tensor) -> None:
        """Counts what a tensor had accumulated, before what was sent is taken from it, and the
        values of it that are sent, before they are quantised. What is not finite does not count."""
        total = _squares(accumulated)
        if total is None:
            return
        energy = self.energy["matrices" if is_matrix else "vectors"]
        energy.accumulated += total
        energy.sent += _squares(sent) or 0.0

    def describe(self) -> str:
        """Two lines of text; the first one is missing where no energy was measured."""
        shares = [
            f"{energy.share:.1%} of that of {name}"
            for name, energy in self.energy.items()
            if energy.accumulated
        ]
        n = max(self.n_steps, 1)
        times = [f"{name} {1e3 * total / n:.2f}" for name, total in self.seconds.items()]
        lines = [f"milliseconds a step: {', '.join(times)}"]
        if shares:
            lines.insert(0, f"energy sent, of every tenth step: {', '.join(shares)}")
        return "\n".join(lines)


def _squares(values: torch.Tensor) -> float | None:
    """None where the sum is not finite."""
    found = float(torch.dot(values, values))
    return found if found < float("inf") else None
