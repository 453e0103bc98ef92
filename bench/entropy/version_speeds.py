"""Row `version_speeds`: how long saves and loads take, beside those of an older version.

As a program (python -m entropy.version_speeds) it prints {case: seconds} of the cfck that it
imports.
"""

from __future__ import annotations

import json
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from common import data
from common.measure import timed
from common.targets import Goal
from entropy.run import Run
from entropy.versions import printed_by

ROW = "saves and loads in memory, against the version before"
GOAL = Goal(1.03, 1.0, smaller=True, text="{:.3f}".format)
TURNS, REPETITIONS = 7, 9
QUICK = "--quick"
Seconds = dict[str, float]


def cases() -> Iterator[tuple[str, data.Tensors, dict[str, Any]]]:
    """What is saved, and with which options: large tensors, and many small ones."""
    matrices = data.matrices(data.minilm())
    yield "MiniLM, lossless F32", matrices, {}
    yield "MiniLM, lossless BF16", data.cast(matrices, data.BFLOAT16), {}
    yield "MiniLM, direct, REL 1e-3", matrices, {"codec": "direct", "max_rel_error": 1e-3}
    yield "MiniLM, direct, sigma 0.01", matrices, {"codec": "direct", "max_sigma_error": 0.01}
    values = np.concatenate([tensor.reshape(-1) for tensor in matrices.values()])
    small = {f"{i}": part for i, part in enumerate(values[: 100 * 40_000].reshape(100, 100, 400))}
    yield "100 tensors of 40,000 values, lossless F32", small, {}
    yield "100 tensors of 40,000 values, ABS 1e-4", small, {"max_abs_error": 1e-4}


def seconds(is_quick: bool) -> Seconds:
    """The best of some repetitions, on one thread."""
    import cfck.numpy

    found: Seconds = {}
    for name, tensors, options in cases():
        stored = cfck.numpy.save(tensors, threads=1, **options)
        actions: dict[str, Callable[[], object]] = {
            "saved": lambda t=tensors, o=options: cfck.numpy.save(t, threads=1, **o),
            "loaded": lambda s=stored: cfck.numpy.load(s, threads=1),
        }
        for what, action in actions.items():
            found[f"{name}, {what}"] = _best(action, 1 if is_quick else REPETITIONS)
    return found


def _best(action: Callable[[], object], repetitions: int) -> float:
    return min(timed(action)[0].wall for _ in range(repetitions))


def compare(run: Run) -> None:
    """The two versions take turns, since machines change their speed."""
    if run.before is None:
        run.targets.skip(ROW, "-", "--before names the folder of the older package")
        return
    arguments = [QUICK] if run.quick else []
    before: list[Seconds] = []
    now: list[Seconds] = []
    for turn in range(1 if run.quick else TURNS):
        run.say(f"version_speeds, turn {turn + 1}")
        before.append(printed_by(__name__, run.before, *arguments))
        now.append(printed_by(__name__, None, *arguments))
    for case in now[0]:
        old, new = (statistics.median(turn[case] for turn in turns) for turns in (before, now))
        run.targets.judge(
            ROW, case, "seconds, of those before", new / old, GOAL,
            f"{1e3 * new:.2f} ms, {1e3 * old:.2f} ms before",
        )  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of what a maximum error does to the model
    print(json.dumps(seconds(QUICK in sys.argv[1:])))
