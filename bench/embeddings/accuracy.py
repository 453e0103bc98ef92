"""Measures what compressed rows of embedding tables do to the accuracy of a DLRM.

    CFCK_DATA=/path/to/data python bench embedding_accuracy -o bench/results

The model is that of examples/distributed/dlrm.py, on four ranks that one process simulates, which
gives the bits of four real ones (tests/python/distributed/test_dlrm.py). For each seed it is
trained with and without compression on the same weights, split and order of samples, until the AUC
of the validation split does not rise any more; AUCs of the test split are compared.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from common import report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "distributed"))
import dlrm
from dlrm_data import generated, movielens

RANKS, BOUND, SEEDS = 4, 0.03, 5
LOSS_GOAL = Goal(0.001, 0.0005, smaller=True, text="{:.5f}".format)
COLUMNS = ["row", "seed", "AUC without", "AUC with", "difference", "steps without", "steps with"]


class Accuracy(Benchmark):
    """One line for each seed, and their mean."""

    name = "embedding_accuracy"

    def __init__(self, options: Any, scratch: Path) -> None:
        """Nothing is measured yet."""
        super().__init__(options, scratch)
        self.lines: list[list[str]] = []
        self.targets = Targets()
        folder = Path(os.environ.get("CFCK_DATA", "")) / "ml-100k"
        self.folder = folder if (folder / "u.data").exists() else None
        self.log = movielens(self.folder) if self.folder else generated(100_000, 1)
        self.runs: dict[tuple[Any, ...], tuple[float, int]] = {}

    def dlrm(self) -> None:
        """The bounds that are the default."""
        mean, error = self._differences("dlrm", {"bound": BOUND})
        against = f"difference {mean:+.5f}, standard error {error:.5f}"
        what = f"AUC lost by bound {BOUND}, mean"
        self.targets.judge("dlrm", self._case(), what, max(0.0, -mean), LOSS_GOAL, against)

    def gradients(self) -> None:
        """Bounds of gradients that are as large as those of rows, for information."""
        settings = {"bound": BOUND, "gradient_share": 1.0}
        mean, error = self._differences("gradients", settings)
        what = f"AUC, difference by bound {BOUND} for gradients too"
        told = f"{mean:+.5f}, standard error {error:.5f}"
        self.targets.tell("gradients", self._case(), what, told)

    def _case(self) -> str:
        return f"DLRM, {self._n_seeds()} seeds, {RANKS} ranks"

    def _n_seeds(self) -> int:
        return 2 if self.options.quick else SEEDS

    def _differences(self, row: str, settings: dict[str, float]) -> tuple[float, float]:
        """Trains pairs; returns the mean difference of AUC and its standard error."""
        differences = []
        for seed in range(self._n_seeds()):
            auc, steps = self._run(seed, {"bound": 0.0})
            other, other_steps = self._run(seed, settings)
            differences.append(other - auc)
            values = [f"{auc:.5f}", f"{other:.5f}", f"{other - auc:+.5f}"]
            self.lines.append([row, str(seed), *values, str(steps), str(other_steps)])
            self.say(" | ".join(self.lines[-1]))
        return statistics.mean(differences), statistics.stdev(differences) / len(differences) ** 0.5

    def _run(self, seed: int, settings: dict[str, float]) -> tuple[float, int]:
        """The AUC, and how many steps it took; runs without compression are made once."""
        key = (seed, *sorted(settings.items()))
        if key not in self.runs:
            torch.set_num_threads(1)
            trainer, auc = dlrm.train(self.log, dlrm.Settings(ranks=RANKS, seed=seed, **settings))
            self.runs[key] = (auc, len(trainer.losses))
        return self.runs[key]

    rows: ClassVar[Mapping[str, Callable[[Accuracy], None]]] = {
        "dlrm": dlrm,
        "gradients": gradients,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions, and what was trained."""
        import cfck

        settings = dlrm.Settings()
        return {
            "cfck": cfck.__version__,
            "torch": torch.__version__,
            "data": "MovieLens-100k" if self.folder else "generated, 100,000 interactions",
            "bounds": f"{BOUND} of the range of each table, of gradients a tenth (row dlrm); "
            f"{settings.factor:g} times as large at first, in ten steps over "
            f"{settings.decay_steps} iterations",
            "training": f"batches of {settings.batch}, rows of {settings.dim}, Adagrad, until "
            f"{settings.patience} epochs brought no better AUC",
        }

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        head = report.page_head("Accuracy with compressed rows", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        body += ["## Runs", "", report.markdown_table(COLUMNS, self.lines)]
        name = f"embedding-accuracy-{report.file_stem(facts)}.md"
        return {name: "\n".join([*head, *body])}


COMMAND = Accuracy
