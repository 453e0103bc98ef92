"""How long a launch of chunks takes on a device, from what one warp takes alone.

Warps that share a scheduler wait for each other wherever two of them want the same unit in the same
cycle. That is a closed queueing network: a few warps go around units that each serve one of them at
a time, and mean value analysis (Reiser and Lavenberg, 1980) says what a turn takes. Nothing in it
is fitted. Chunks are then handed out as the kernels do it: a warp, or a team, that has finished one
takes the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What a device has."""

    multiprocessors: int
    schedulers: int  # of a multiprocessor
    hertz: float
    bytes_a_second: float  # read and written


def turn_cycles(alone: float, demands: Sequence[float], n_warps: int) -> list[float]:
    """The cycles of a turn where 0, 1, … n_warps share a scheduler. `alone` is what a warp takes by
    itself; for `demands` of these it keeps a unit busy that the others want as well."""
    latency = max(0.0, alone - sum(demands))
    waiting = [0.0] * len(demands)
    turns = [0.0]
    for n in range(1, n_warps + 1):
        stays = [d * (1 + w) for d, w in zip(demands, waiting, strict=True)]
        turns.append(latency + sum(stays))
        waiting = [n * stay / turns[-1] for stay in stays]
    return turns


def limit_cycles(alone: float, demands: Sequence[float], n_warps: int) -> list[float]:
    """The same if no two warps ever wanted a unit in the same cycle: a limit."""
    return [0.0, *(max(alone, n * max(demands)) for n in range(1, n_warps + 1))]


def first_warps(machine: Machine, n_chunks: int, warps: int, block: int) -> list[int]:
    """How many warps each scheduler has, of at most `warps` on a multiprocessor, where blocks are
    dealt out one after the other. Where there are few chunks blocks are smaller, so that every
    multiprocessor has one."""
    block = min(block, max(1, -(-n_chunks // machine.multiprocessors)))
    n_blocks = min(-(-n_chunks // block), machine.multiprocessors * (warps // block))
    found = [0] * (machine.multiprocessors * machine.schedulers)
    for number in range(n_blocks):
        turn, place = divmod(number, machine.multiprocessors)
        for warp in range(block):
            scheduler = (turn * block + warp) % machine.schedulers
            found[place * machine.schedulers + scheduler] += 1
    return found


def first_teams(machine: Machine, n_chunks: int, warps: int) -> list[int]:
    """How many teams of four warps each multiprocessor has: one warp of each on a scheduler."""
    teams = min(n_chunks, machine.multiprocessors * (warps // 4))
    return [
        len(range(place, teams, machine.multiprocessors))
        for place in range(machine.multiprocessors)
    ]


def launch_cycles(chunks: Sequence[float], first: Sequence[int], slower: Sequence[float]) -> float:
    """The cycles until all chunks are done. `chunks` are the cycles that each takes alone, `first`
    how many each place works on at once, and `slower[n]` how many times longer n take together."""
    left = iter(chunks)
    done = [0.0] * len(first)  # cycles that every chunk of a place has had, as if it were alone
    under_way: list[list[float]] = [[] for _ in first]
    events: list[tuple[float, int]] = []

    def plan(place: int, now: float) -> None:
        if under_way[place]:
            rest = under_way[place][0] - done[place]
            at = now + rest * slower[len(under_way[place])]
            heapq.heappush(events, (at, place))

    for turn in range(max(first)):
        for place, n in enumerate(first):
            if n > turn and (chunk := next(left, None)) is not None:
                heapq.heappush(under_way[place], chunk)
    for place in range(len(first)):
        plan(place, 0.0)
    end = 0.0
    while events:
        end, place = heapq.heappop(events)
        done[place] = heapq.heappop(under_way[place])
        if (chunk := next(left, None)) is not None:
            heapq.heappush(under_way[place], done[place] + chunk)
        plan(place, end)
    return end
