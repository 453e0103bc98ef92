"""The row that times steps between ranks whose network is slow: where it pays to send less."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from common.targets import Goal, Targets
from distributed import network
from distributed.timed_ranks import (
    DENSE,
    F16,
    LOSSLESS,
    POWER_SGD,
    SHARDED,
    SPARSE,
    SPARSER,
    WAYS,
    Timed,
)
from rate_distortion.plot import Plot

RANKS, ROUNDS, QUICK_ROUNDS = 2, 9, 4
FREE = network.UNLIMITED
LIMITS = (FREE, 1000, 100)  # Mbit/s
JUDGED_LIMIT = 100
PEERS = (DENSE, F16, POWER_SGD)
GOAL = Goal(1.0, 1.0, text="{:.2f}".format)
COLUMNS = [
    "communication",
    "KB a step",
    "ms a step, no limit",
    "steps/s, no limit",
    "at 1 Gbit/s",
    "computed",
    "at 100 Mbit/s",
    "computed",
    "pays below, Mbit/s",
]
# The curves are drawn at these rates, in Mbit/s.
DRAWN = [10 ** (1 + i / 4) for i in range(13)]

# Times the ways by name, in namespaces, at limits, in so many rounds; all is by limit and way.
Train = Callable[[list[str], list[str], list[int], int], dict[str, dict[str, dict[str, float]]]]
# Results by limit and way.
Found = Mapping[int, Mapping[str, Timed]]


def measure(train: Train, n_ranks: int, n_rounds: int, say: Callable[[str], None]) -> Found:
    """Times all ways of communication at all limits.

    Raises:
        network.NotAllowed: namespaces cannot be made.
    """
    with network.links(n_ranks) as spaces:
        timed = train(list(WAYS), spaces, list(LIMITS), n_rounds)
    found = {
        limit: {way: Timed(**one) for way, one in timed[str(limit)].items()} for limit in LIMITS
    }
    for limit, ways in found.items():
        for way, one in ways.items():
            say(f"{limit} Mbit/s | {way} | {1e3 * one.seconds:.1f} ms | {one.sent / 1e3:.1f} KB")
    return found


def computed(one: Timed, megabits: float) -> float:
    """Seconds of a step, of those without a limit and its bytes."""
    return one.seconds + 8 * one.sent / (1e6 * megabits)


def break_even(one: Timed, dense: Timed) -> float:
    """The rate in Mbit/s below which a way is faster than a dense one; may be 0 or infinite."""
    saved, slower = 8 * (dense.sent - one.sent) / 1e6, one.seconds - dense.seconds
    if saved <= 0:
        return 0.0 if slower >= 0 else math.inf
    return saved / slower if slower > 0 else math.inf


def table(found: Found) -> list[list[str]]:
    """A line for each way; none if nothing was timed."""
    lines = []
    for way, free in found.get(FREE, {}).items():
        cells = [f"{free.sent / 1e3:,.0f}", f"{1e3 * free.seconds:.0f}", f"{1 / free.seconds:.2f}"]
        for limit in LIMITS[1:]:
            cells += [f"{1 / found[limit][way].seconds:.2f}", f"{1 / computed(free, limit):.2f}"]
        lines.append([way, *cells, _below(way, found[FREE])])
    return lines


def judge(found: Found, targets: Targets, n_ranks: int) -> None:
    """Sparse gradients against each of their peers, at the lowest rate."""
    slow = found[JUDGED_LIMIT]
    case = f"GPT, {n_ranks} ranks, {JUDGED_LIMIT} Mbit/s"
    for way in (SPARSE, SPARSER):
        for peer in PEERS:
            faster = slow[peer].seconds / slow[way].seconds
            what = f"{way}: steps per second / those of {peer}"
            against = f"{1 / slow[way].seconds:.2f} and {1 / slow[peer].seconds:.2f}"
            targets.judge("bandwidth", case, what, faster, GOAL, against)


def picture(found: Found, n_ranks: int) -> str:
    """Steps per second against the rate: lines as computed, marks as measured."""
    plot = Plot(
        f"The GPT on {n_ranks} ranks: lines are computed, marks are measured",
        "Mbit/s between ranks", "steps per second", log_up=True, log_across=True,
    )  # fmt: skip
    for way, free in found[FREE].items():
        plot.curves[way] = [(rate, 1 / computed(free, rate)) for rate in DRAWN]
        plot.markers[way] = [(limit, 1 / found[limit][way].seconds) for limit in LIMITS[1:]]
    return plot.svg()


def _below(way: str, free: Mapping[str, Timed]) -> str:
    if way in (DENSE, SHARDED):
        return "-"
    rate = break_even(free[way], free[SHARDED if way == LOSSLESS else DENSE])
    return "any" if math.isinf(rate) else f"{rate:,.0f}"
