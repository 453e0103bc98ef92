"""The row that compares the speed-up that the formula promises with steps of four ranks."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cfck._embedding_bench.formula import (
    Costs,
    Figures,
    compressed_seconds,
    plain_seconds,
    speed_up,
)

from common.targets import Goal, Targets
from distributed import network
from embeddings.exchange_ranks import COMPRESSED, PLAIN, Direction, Timed

RANKS = 4
LIMITS = (100, 1000)  # Mbit/s
BATCHES = (2048, 16384)
ROUNDS, QUICK_ROUNDS = 15, 5
GOAL = Goal(0.15, 0.1, smaller=True, text="{:.1%}".format)
COLUMNS = [
    "samples",
    "Mbit/s",
    "what",
    "plain, ms",
    "computed",
    "compressed, ms",
    "computed",
    "speed-up",
    "computed",
    "without costs",
    "difference",
]

# Measures ranks, of so many samples a step, at limits, in so many rounds.
Measure = Callable[[list[int], int, int], dict[str, Any]]


@dataclass(frozen=True)
class Result:
    """Measured and computed; in seconds.

    Attributes:
        samples: of a step of all ranks.
        megabits: of the links.
        what: is timed.
        plain: measured, without compression.
        plain_computed: by the formula.
        compressed: measured.
        compressed_computed: by the formula.
        bare: the speed-up by the published formula, without latencies and shared cores.
    """

    samples: int
    megabits: int
    what: str
    plain: float
    plain_computed: float
    compressed: float
    compressed_computed: float
    bare: float

    @property
    def measured(self) -> float:
        """The speed-up."""
        return self.plain / self.compressed

    @property
    def computed(self) -> float:
        """The speed-up by the formula."""
        return self.plain_computed / self.compressed_computed

    @property
    def difference(self) -> float:
        """By how much the computed one is off, as a fraction of the measured one."""
        return self.computed / self.measured - 1


def measure(run: Measure, n_rounds: int, say: Callable[[str], None]) -> list[Result]:
    """Exchanges and steps of all batches at all limits."""
    found = []
    for batch in BATCHES:
        raw = run([network.UNLIMITED, *LIMITS], batch, n_rounds)
        directions = [Direction(**one) for one in raw["directions"]]
        timed = {int(limit): Timed(**one) for limit, one in raw["timed"].items()}
        rest = rest_of_step(timed[network.UNLIMITED])
        for limit in LIMITS:
            exchanges = exchange_results(batch, limit, directions, timed[limit])
            other_seconds = rest + raw["other_bytes"] / timed[limit].rate
            step = step_result(exchanges, timed[limit], other_seconds)
            for result in (*exchanges, step):
                found.append(result)
                say(" | ".join(table_line(result)))
    return found


def exchange_results(
    batch: int, megabits: int, directions: list[Direction], timed: Timed
) -> list[Result]:
    """Those of rows and of their gradients."""
    nothing = _median(timed.nothing)
    costs = Costs(nothing[PLAIN], nothing[COMPRESSED], max(1.0, RANKS / _n_cores()))
    bandwidth, burst = timed.rate / 1e9, timed.burst / 1e9
    found = []
    for what, direction, times in zip(
        ("rows", "gradients"), directions, timed.exchanges, strict=True
    ):
        size, figures = figures_of(direction)
        packed = size / figures.ratio
        seconds = _median(times)
        # What goes through a link at once does not wait.
        plain = plain_seconds(size, bandwidth, costs) - min(size, burst) / bandwidth
        compressed = compressed_seconds(size, figures, bandwidth, costs)
        compressed -= min(packed, burst) / bandwidth
        bare = speed_up(figures, bandwidth)
        measured = seconds[PLAIN], plain, seconds[COMPRESSED], compressed
        found.append(Result(batch, megabits, what, *measured, bare))
    return found


def step_result(exchanges: list[Result], timed: Timed, other_seconds: float) -> Result:
    """That of the whole step: of both exchanges, and everything else, which stays."""
    first, step = exchanges[0], _median(timed.steps)
    plain = other_seconds + sum(one.plain_computed for one in exchanges)
    compressed = other_seconds + sum(one.compressed_computed for one in exchanges)
    bare = plain / (other_seconds + sum(one.plain_computed / one.bare for one in exchanges))
    seconds = step[PLAIN], plain, step[COMPRESSED], compressed
    return Result(first.samples, first.megabits, "step", *seconds, bare)


def rest_of_step(timed: Timed) -> float:
    """Seconds of a step but for its exchanges, where links have no limit."""
    exchanges = sum(_median(times)[PLAIN] for times in timed.exchanges)
    return max(0.0, _median(timed.steps)[PLAIN] - exchanges)


def _median(times: dict[str, list[float]]) -> dict[str, float]:
    return {way: statistics.median(seconds) for way, seconds in times.items()}


def figures_of(direction: Direction) -> tuple[float, Figures]:
    """GB of the rank with the most bytes, and what the encoder makes of them.

    Speeds are those of the mean of the ranks, which share the cores.
    """
    most = max(*direction.dense, *direction.dense_received)
    packed = max(*direction.packed, *direction.packed_received)
    speeds = [most / 1e9 / max(1e-9, statistics.mean(of_ranks))
              for of_ranks in (direction.encode, direction.decode)]  # fmt: skip
    return most / 1e9, Figures(most / packed, *speeds)


def table_line(one: Result) -> list[str]:
    """A line of the table."""
    milliseconds = (one.plain, one.plain_computed, one.compressed, one.compressed_computed)
    return [
        f"{one.samples:,}",
        f"{one.megabits:,}",
        one.what,
        *(f"{1e3 * seconds:.1f}" for seconds in milliseconds),
        *(f"{times:.2f}" for times in (one.measured, one.computed, one.bare)),
        f"{one.difference:+.1%}",
    ]


def judge(found: list[Result], targets: Targets) -> None:
    """The speed-ups of steps against what was measured; those of exchanges for information."""
    for one in found:
        case = f"DLRM, {one.samples:,} samples, {RANKS} ranks, {one.megabits} Mbit/s"
        against = f"measured {one.measured:.2f}"
        if one.what == "step":
            what = f"speed-up of the step: difference of the computed {one.computed:.2f}"
            targets.judge("speed_up", case, what, abs(one.difference), GOAL, against)
        else:
            what = f"speed-up of the exchange of {one.what}: computed {one.computed:.2f}"
            targets.tell("speed_up", case, what, f"{one.difference:+.1%}", against)


def _n_cores() -> int:
    return len(os.sched_getaffinity(0))
