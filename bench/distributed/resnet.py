"""The row that trains ResNet-20 from random weights, with dense and with sparse gradients."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import torch

from common.targets import Goal, Targets
from distributed.resnet_ranks import JUDGED_EPOCHS, Kind
from distributed.runs import Runs

EPOCHS, SEEDS = 12, 4
DENSE = "dense"
METHODS: dict[str, dict[str, Any] | None] = {
    DENSE: None,
    "1 %": {"ratio": 0.01},
    "1 %, warm-up of 4 epochs": {"ratio": 0.01, "warmup_epochs": 4},
    "1 %, warm-up of 4 epochs, no masking": {
        "ratio": 0.01,
        "warmup_epochs": 4,
        "masks_momentum": False,
    },
    "0.1 %, warm-up of 4 epochs": {"ratio": 0.001, "warmup_epochs": 4},
    "0.1 %, warm-up of 4 epochs, no masking": {
        "ratio": 0.001,
        "warmup_epochs": 4,
        "masks_momentum": False,
    },
}
GOALS = {
    "1 %": 0.3,
    "1 %, warm-up of 4 epochs, no masking": 0.3,
    "0.1 %, warm-up of 4 epochs": 0.7,
    "0.1 %, warm-up of 4 epochs, no masking": 0.7,
}
COLUMNS = ["communication", "seed", "top-1 of the last epochs, %", "seconds", "F32 / sent"]
QUICK = {"epochs": JUDGED_EPOCHS, "most_steps": 5}

# Trains a Kind, on images and labels.
Train = Callable[[Kind, torch.Tensor, torch.Tensor], dict[str, Any]]


def measure(
    train: Train,
    images: tuple[torch.Tensor, torch.Tensor],
    runs: Runs,
    n_seeds: int,
    is_quick: bool,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """All trainings, one seed after the other; `runs` has those that need not be made again."""
    for tensor in images:
        tensor.share_memory_()
    size = QUICK if is_quick else {"epochs": EPOCHS}
    lines = []
    for seed in range(1, n_seeds + 1):
        for method, options in METHODS.items():
            kind = Kind(options, seed, **size)
            key = {"row": "resnet", "communication": method, "seed": seed, **size}
            lines.append(runs.once(key, lambda kind=kind: train(kind, *images)))
            say(" | ".join(table_line(lines[-1])))
    return lines


def table_line(line: dict[str, Any]) -> list[str]:
    """A training, as the table has it."""
    scores = ", ".join(f"{score:.2f}" for score in line["top1"])
    sent = line.get("sent")
    ratio = "1" if sent is None else f"{sent[1] / sent[0]:.0f}"
    return [line["communication"], str(line["seed"]), scores, f"{line['seconds'][-1]:.0f}", ratio]


def judge(lines: list[dict[str, Any]], targets: Targets) -> None:
    """Means over seeds, with their standard errors, and what sparse gradients lose."""
    scores = {
        method: [statistics.mean(line["top1"]) for line in lines if line["communication"] == method]
        for method in METHODS
    }
    n_seeds = len(scores[DENSE])
    case = f"ResNet-20, {lines[0]['epochs']} epochs, {n_seeds} seeds"
    what = f"top-1 of the last {JUDGED_EPOCHS} epochs, mean and standard error"
    for method, found in scores.items():
        targets.tell("resnet", case, f"{method}: {what}", _with_error(found, " %"))
    for method, most in GOALS.items():
        lost = [d - s for d, s in zip(scores[DENSE], scores[method], strict=True)]
        goal = Goal(most, most, smaller=True, text="{:.2f} points".format)
        against = f"{DENSE}, same seeds; {_with_error(lost, '')}"
        targets.judge("resnet", case, f"{method}: lost", statistics.mean(lost), goal, against)


def _with_error(values: list[float], unit: str) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.2f}{unit}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.2f} ± {error:.2f}{unit}"
