"""Where the time goes: cycles per value of every stage, and what limits each."""

from __future__ import annotations

from typing import Any

from common import data
from common.product import Unavailable
from entropy.run import LEVELS, SPEEDS, Run

ROW = "where the time goes"
STAGE_COLUMNS = [
    "data", "entropy", "stage", "cycles per value", "GB/s", "in the cache, v4", "in the cache, v3",
    "in the cache, baseline", "of memcpy's cycles",
]  # fmt: skip
# A stage whose values come from memory waits for it if the cache makes it so much faster.
MEMORY_GAIN = 1.25
# Small chunks make a stage slower that does something once for each chunk.
CHUNK_LOSS = 1.25
# What a stage must be of its side's whole to be worth a sentence.
WORTH_SAYING = 0.05


def stages(run: Run) -> None:
    """Every data set of the speeds."""
    for label in SPEEDS:
        try:
            found = _all_levels(run, label)
        except (data.MissingData, Unavailable) as error:
            run.targets.skip(ROW, label, str(error))
            continue
        if LEVELS[0] not in found:
            run.targets.skip(ROW, label, "AVX-512 is not on this CPU")
            continue
        _lines(run, label, found)


def _all_levels(run: Run, label: str) -> dict[str, dict[str, Any]]:
    path, bound = run.weights(label)
    arguments = [*run.encoding_arguments(), "--repetitions", "2" if run.quick else "7"]
    if bound:
        arguments += ["--rel", str(bound)]
    found = {}
    for level in LEVELS:
        run.say(f"stages, {label}, {level}")
        report = run.program("stage_bench", level, *arguments, path)
        if report["cpu"] == level:
            found[level] = report
    return found


def _lines(run: Run, label: str, found: dict[str, dict[str, Any]]) -> None:
    """Lines of the table, and a sentence for each stage."""
    best = found[LEVELS[0]]
    cached = {
        level: {stage["stage"]: stage["cycles_cached"] for stage in report["stages"]}
        for level, report in found.items()
    }
    copying = next(s["cycles"] for s in best["stages"] if s["stage"] == "memcpy")
    run.limits.append(
        f"**{label}**: {best['values']:,.0f} values at {best['frequency_ghz']:.2f} GHz; memcpy "
        f"takes {copying:.2f} cycles per value from memory."
    )
    for stage in best["stages"]:
        name = stage["stage"]
        levels = [cached[level].get(name) if level in cached else None for level in LEVELS]
        cells = ["-" if cycles is None else f"{cycles:.3f}" for cycles in levels]
        run.stages.append(
            [label, best["entropy"], name, f"{stage['cycles']:.3f}", f"{stage['gb_per_s']:.2f}",
             *cells, f"{stage['cycles'] / copying:.2f}"]
        )  # fmt: skip
        whole = sum(s["cycles"] for s in best["stages"] if s["stage"].startswith(name[:6] + ": wh"))
        if "whole" not in name and stage["cycles"] > WORTH_SAYING * whole > 0:
            run.limits.append(f"{label}, {name}: {_limit(stage['cycles'], *levels)}.")
    for side in ("encode", "decode"):
        run.limits.append(f"{label}, {side}: {_rest(best['stages'], side)}.")


def _limit(cycles: float, v4: float, v3: float | None, baseline: float | None) -> str:
    """What the numbers of a stage show, and nothing that they do not."""
    told = f"{cycles:.2f} cycles in file-sized chunks from memory, {v4:.2f} in the cache"
    if cycles > MEMORY_GAIN * v4:
        told = f"memory: {told}"
    elif v4 > CHUNK_LOSS * cycles:
        told = f"what is done once for each chunk: {told} with chunks of a quarter the size"
    else:
        told = f"instructions: {told}"
    others = [
        f"{name} {other / v4:.1f}"
        for name, other in (("AVX2", v3), ("baseline", baseline))
        if other is not None
    ]
    return f"{told}; there, times as long as AVX-512: {', '.join(others)}" if others else told


def _rest(stages: list[dict[str, Any]], side: str) -> str:
    """The whole against the sum of its stages; hashes are no part of the codec's whole."""
    own = {s["stage"]: s["cycles"] for s in stages if s["stage"].startswith(side)}
    whole = sum(cycles for name, cycles in own.items() if "whole" in name)
    inside = {
        name: cycles
        for name, cycles in own.items()
        if not any(word in name for word in ("whole", "hash", "plan", "alone"))
    }
    largest = max(inside, key=lambda name: inside[name])
    longest = f"{largest.split(': ')[1]} is the longest with {inside[largest]:.2f}"
    return (
        f"the codec takes {whole:.2f} cycles per value, its stages alone "
        f"{sum(inside.values()):.2f}; {longest}"
    )
