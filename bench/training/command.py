"""Measures compression that is learned in training: bits at equal scores, and what a step takes.

    CFCK_DATA=/path/to/data python bench training --scratch FOLDER -o bench/results

Training takes hours. Each run goes on after its last epoch if it was interrupted, as long as
--scratch is the same folder. What has been found is kept in --runs, and not trained again.
bench/README.md says what the rows are.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import cfck
import numpy as np
import torch
from torch import nn

from common import models, report
from common.driver import Benchmark
from common.targets import COLUMNS, Goal, Targets
from training.after import refined
from training.estimate import errors_of_estimate
from training.images import top1
from training.loop import Outcome, Training
from training.recipes import (
    COMPARED,
    COMPARED_EPOCHS,
    COMPARED_RATE,
    FAST,
    FEW_LEVELS,
    LEARNED,
    LONGER,
    PLAIN,
    TAUGHT,
    Run,
)
from training.schemes import FewLevels, Recipe, Scheme, Spectral
from training.tasks import Images, Task, TaughtImages, Words, perplexity

DEPTHS = {"ResNet-20": 20, "ResNet-56": 56}
# The GPT learns its few texts by heart after more.
EPOCHS = {"ResNet-20": 10, "ResNet-56": 6, "GPT": 4}
RATES = {
    "ResNet-20": (2.2, 1.6, 1.1, 0.8),
    "ResNet-56": (0.75,),
    "GPT": (1.4, 1.0),
}
# Levels from, levels to, and the name: 2 and 3 bits, and ternary weights.
LEVELS = {"LSQ 3 bits": (-4, 3), "LSQ 2 bits": (-2, 1), "ternary": (-1, 1)}


def _bits_text(bits: float) -> str:
    return "not reached" if math.isnan(bits) else f"{bits:.3f}"


BITS_GOALS = {
    ("ResNet-20", -1.0): Goal(1.1, 0.8, smaller=True, text=_bits_text),
    ("ResNet-20", -0.2): Goal(1.6, 1.1, smaller=True, text=_bits_text),
    ("ResNet-56", -1.0): Goal(0.75, 0.5, smaller=True, text=_bits_text),
}
GPT_GOAL = Goal(1.4, 1.0, smaller=True, text=_bits_text)
GPT_LOSS = math.log(1.02)
ESTIMATE_GOAL = Goal(0.03, 0.01, smaller=True, text="{:.2%}".format)
RECORD_GOAL = Goal(0.1, 0.03, smaller=True, text="{:.2%}".format)
ESTIMATED = (4.0, 3.0, 2.0, 1.5, 1.0, 0.75, 0.5), 100  # rates, and steps of training at each
STEP_GOAL = Goal(1.3, 1.15, smaller=True, text="{:.3f}".format)
STEPS = 40
AFTER_EPOCHS = 10
RUNS = Path(__file__).parents[1] / "results" / "training-runs"


def bits_at(score: float, outcomes: list[Outcome]) -> float:
    """Bits at a score, between the nearest runs, in the logarithm; NaN where none is as good.

    Of runs that others beat both in bits and in score, none counts.
    """
    runs: list[Outcome] = []
    for run in sorted(outcomes, key=lambda run: run.bits):
        if not runs or run.score > runs[-1].score:
            runs.append(run)
    good = [run for run in runs if run.score >= score]
    if not good:
        return math.nan
    best = good[0]
    below = [run for run in runs if run.bits < best.bits]
    if not below:
        return best.bits
    other = below[-1]
    part = (score - other.score) / (best.score - other.score)
    return float(np.exp(np.interp(part, [0, 1], np.log([other.bits, best.bits]))))


class Learned(Benchmark):
    """Networks that were trained further, with and without a rate."""

    name = "training"
    rows: ClassVar[Mapping[str, Callable[[Learned], None]]] = {
        "resnet20": lambda self: self.images("ResNet-20"),
        "levels": lambda self: self.levels(),
        "recipes": lambda self: self.recipes(),
        "resnet56": lambda self: self.images("ResNet-56"),
        "gpt": lambda self: self.words(),
        "after20": lambda self: self.after("ResNet-20"),
        "after56": lambda self: self.after("ResNet-56"),
        "estimate": lambda self: self.estimate(),
        "step": lambda self: self.step(),
    }

    def __init__(self, *given: Any) -> None:
        """Empty tables."""
        super().__init__(*given)
        # What has been trained stays there, for the next run.
        self.scratch = self.options.scratch or self.scratch
        self.finished = self.scratch if self.options.quick else self.options.runs
        self.made_by = self._made_by()
        self.targets = Targets()
        self.runs: list[list[str]] = []
        self.curves: dict[str, list[Outcome]] = {}
        self.epochs: list[list[str]] = []

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the rates, and a faster arithmetic."""
        super().add_options(parser)
        parser.add_argument("--bfloat16", action="store_true", help="train under autocast")
        parser.add_argument("--runs", type=Path, default=RUNS, help="where finished runs are kept")
        parser.add_argument("--rates", help="bits per weight to train for, such as 1.1,0.8")

    def outcome(
        self,
        data: str,
        label: str,
        task: Task,
        make: Callable[[nn.Module, int], Scheme],
        epochs: int | None = None,
    ) -> Outcome:
        """One run, and its line in the table."""
        epochs = 1 if self.options.quick else epochs or EPOCHS[data]
        training = self._training(data, label, epochs, self.finished)
        found = training.run(
            task, lambda n_steps: make(_network(data), n_steps), epochs, self.made_by
        )
        seconds = statistics.median(epoch["seconds"] for epoch in found.epochs)
        score = perplexity(found.score) if isinstance(task, Words) else found.score
        self.runs.append(
            [data, label, str(epochs), f"{found.bits:.3f}", f"{score:.2f}", f"{seconds:.0f}",
             *(found.facts.get(fact, "") for fact in self.made_by)]
        )  # fmt: skip
        if epochs == EPOCHS[data]:
            for number, epoch in enumerate(found.epochs, 1):
                facts = [f"{epoch[fact]:.5g}" for fact in ("loss", "score", "bits")]
                self.epochs.append([data, label, str(number), *facts])
        return found

    def _training(self, data: str, label: str, epochs: int, finished: Path) -> Training:
        name = f"{data}-{label}-{epochs}".replace(",", "").replace(" ", "-").lower()
        return Training(name, self.scratch, finished, self.say)

    def _images(self, recipe: Recipe) -> Images:
        return Images(self.scratch, self.options.bfloat16, recipe.batch)

    def _task(self, run: Run) -> Task:
        if run.data == "GPT":
            return Words(self.options.bfloat16)
        if run.teacher is None:
            return self._images(run.recipe)
        teacher = functools.partial(self._teacher, run.teacher, run.teacher_epochs or run.epochs)
        return TaughtImages(self.scratch, self.options.bfloat16, run.recipe.batch, teacher)

    def run_of(self, run: Run) -> Outcome:
        """A network that is trained in some way, by itself or with a teacher."""
        if run.rate is None:
            make: Callable[[nn.Module, int], Scheme] = functools.partial(_plain, run.recipe)
        else:
            make = functools.partial(_spectral, run.recipe, run.rate)
        found = self.outcome(run.data, run.label, self._task(run), make, run.epochs)
        if run.rate is not None:
            self.judge_estimate(run, found)
        return found

    def curve(self, data: str) -> tuple[float, list[Outcome]]:
        """The score of the float32 network, and runs with rates."""
        epochs = EPOCHS[data]
        plain = self.run_of(Run(data, epochs, None, PLAIN[data]))
        asked = self.options.rates
        rates = [float(rate) for rate in asked.split(",")] if asked else RATES[data]
        runs = [self._best_of(data, rate) for rate in rates]
        # Those of few levels have no teachers either.
        self.curves[data] = list(runs)
        return plain.score, runs

    def _best_of(self, data: str, rate: float) -> Outcome:
        """For a rate, the best of the recipes that were tried without a teacher."""
        epochs = EPOCHS[data]
        runs = [Run(data, epochs, rate, LEARNED[data])]
        runs += [run for run in LONGER if run.is_like(runs[0])]
        return max((self.run_of(run) for run in runs), key=lambda found: found.score)

    def judge_estimate(self, run: Run, found: Outcome) -> None:
        """The estimate of the bits beside those of the file."""
        if found.estimate is not None:
            off = abs(found.estimate / found.bits - 1)
            what = f"estimate in {run.epochs} epochs at {run.label}, off by"
            self.targets.judge("rate", run.data, what, off, ESTIMATE_GOAL, "stored bytes")

    def images(self, data: str) -> None:
        """A ResNet: bits at one point and at 0.2 points of top-1 below the baseline."""
        baseline, runs = self.curve(data)
        self.judge_bits(data, baseline, runs, "")
        runs += [self.run_of(run) for run in TAUGHT[data]]
        self.judge_bits(data, baseline, runs, ", also with teachers")

    def judge_bits(self, data: str, baseline: float, runs: list[Outcome], remark: str) -> None:
        """Bits at the scores that are wanted."""
        for (of, points), goal in BITS_GOALS.items():
            if of == data and runs:
                what = f"bits per weight at {points:+g} points of top-1{remark}"
                found = bits_at(baseline + points, runs)
                self.targets.judge(data, data, what, found, goal, f"{baseline:.2f} %")

    def _teacher(self, data: str, epochs: int) -> nn.Module:
        """The float32 network after its training."""
        epochs = 1 if self.options.quick else epochs
        training = self._training(data, "float32", epochs, self.scratch)
        recipe = PLAIN[data]
        make = functools.partial(_plain, recipe, _network(data))
        return training.trained(self._images(recipe), make, epochs, self.made_by)

    def levels(self) -> None:
        """Networks of few levels beside the curve of ResNet-20."""
        task = self._images(FEW_LEVELS)
        if "ResNet-20" not in self.curves:
            self.images("ResNet-20")
        for label, (low, high) in LEVELS.items():
            make = functools.partial(_few_levels, FEW_LEVELS, low, high)
            peer = self.outcome("ResNet-20", label, task, make)
            ours = bits_at(peer.score, self.curves["ResNet-20"])
            goal = Goal(peer.bits, 0.5 * peer.bits, smaller=True, text=_bits_text)
            what = f"bits per weight at top-1 of {peer.score:.2f} %"
            self.targets.judge("levels", "ResNet-20", what, ours, goal, label)

    def recipes(self) -> None:
        """Ways to train, most of them in few epochs."""
        ways = [(label, _spectral, (recipe, COMPARED_RATE)) for label, recipe in COMPARED.items()]
        ways += [("float32", _plain, (PLAIN["ResNet-20"],)), ("float32, lr 3e-3", _plain, (FAST,))]
        for label, make, given in ways:
            task, made = self._images(given[0]), functools.partial(make, *given)
            self.outcome("ResNet-20", label, task, made, COMPARED_EPOCHS)
        for run in LONGER:
            if not any(line[:3] == [run.data, run.label, str(run.epochs)] for line in self.runs):
                self.run_of(run)

    def words(self) -> None:
        """The GPT: bits at two percent more perplexity than the baseline."""
        baseline, runs = self.curve("GPT")
        found = bits_at(baseline - GPT_LOSS, runs)
        against = f"{perplexity(baseline):.2f}"
        what = "bits per weight at +2 % perplexity"
        self.targets.judge("gpt", "GPT", what, found, GPT_GOAL, against)

    def after(self, data: str) -> None:
        """Bits at one point of top-1 lost where a network is compressed after its training."""
        baseline, runs = self._refined(data)
        for run in runs:
            what = f"refined, top-1 at {run.bits:.3f} bits per weight"
            self.targets.tell("after", data, what, f"{run.score:.2f} %", f"{baseline:.2f} %")
        what = "refined, bits per weight at -1 points of top-1"
        found = bits_at(baseline - 1, runs)
        self.targets.tell("after", data, what, _bits_text(found), f"{baseline:.2f} %")

    def _refined(self, data: str) -> tuple[float, list[Outcome]]:
        """The score of the float32 network, and files of it; kept as those of runs are."""
        kept = self.finished / f"{data}-refined-{AFTER_EPOCHS}.json".lower()
        if kept.exists():
            found = json.loads(kept.read_text())
            return found["baseline"], [Outcome(**run) for run in found["runs"]]
        model = self._teacher(data, AFTER_EPOCHS)
        baseline = top1(model)
        runs = list(refined(model, self.scratch, baseline - 1))
        numbers = [{"score": run.score, "bits": run.bits} for run in runs]
        found = {"baseline": baseline, "runs": numbers, "facts": self.made_by}
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found, indent=1) + "\n")
        return baseline, runs

    def estimate(self) -> None:
        """The estimate of the bits beside those of records, while steps and weights change."""
        recipe = LEARNED["ResNet-20"]
        rates, n_steps = ESTIMATED
        for rate in rates[:1] if self.options.quick else rates:
            task = self._images(recipe)
            found = errors_of_estimate(_network("ResNet-20"), task, recipe, rate, n_steps)
            for what, off, goal in (
                ("off by at most", found.of_model, ESTIMATE_GOAL),
                ("of a large record, off by at most", found.of_large_record, RECORD_GOAL),
            ):
                what = f"estimate at {rate:g} bits in {n_steps} steps, {what}"
                self.targets.judge("estimate", "ResNet-20", what, off, goal, "stored bytes")

    def step(self) -> None:
        """The time of a step of training, with a rate and without, in turn."""
        plain = _network("ResNet-20")
        recipe = LEARNED["ResNet-20"]
        schemes = [Scheme(plain, recipe), Spectral(copy.deepcopy(plain), recipe, 1000, 1.0)]
        optimizers = [torch.optim.AdamW(scheme.groups()) for scheme in schemes]
        images, labels = next(self._images(recipe).epoch(0))
        seconds: list[list[float]] = [[], []]
        for _ in range(4 if self.options.quick else STEPS):
            for scheme, optimizer, taken in zip(schemes, optimizers, seconds, strict=True):
                begin = time.perf_counter()
                loss = nn.functional.cross_entropy(scheme.model(images), labels)
                loss = loss + scheme.extra_loss()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                taken.append(time.perf_counter() - begin)
        ratio = statistics.median(ours / theirs for theirs, ours in zip(*seconds, strict=True))
        against = f"{1e3 * statistics.median(seconds[0]):.0f} ms"
        self.targets.judge("step", "ResNet-20", "time of a step", ratio, STEP_GOAL, against)

    def fail(self, row: str, reason: str) -> None:
        """A line of the table."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a row failed or missed its target."""
        return self.targets.failed()

    def _made_by(self) -> dict[str, str]:
        """What is kept with a run, by the columns of its table."""
        machine = report.machine()
        arithmetic = "bfloat16 (autocast)" if self.options.bfloat16 else "float32"
        return {"trained in": arithmetic, "commit": machine["commit"],
                "processor": machine["processor"]}  # fmt: skip

    def facts(self) -> dict[str, str]:
        """Threads of PyTorch."""
        return {"threads": str(torch.get_num_threads()), "torch": torch.__version__,
                "cfck": cfck.__version__}  # fmt: skip

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        lines = report.page_head("Compression learned in training", command, facts)
        text = "\n".join(lines) + "\n\n" + report.markdown_table(COLUMNS, self.targets.lines)
        columns = ["network", "trained as", "epochs", "bits per weight", "top-1 or perplexity",
                   "seconds an epoch", *self.made_by]  # fmt: skip
        text += "\n" + report.markdown_table(columns, self.runs)
        stem = f"training-{report.file_stem(facts)}"
        columns = ["network", "trained as", "epoch", "loss", "score", "bits"]
        curves = report.csv_text(facts, columns, self.epochs)
        return {f"{stem}.md": text, f"{stem}-epochs.csv": curves}


def _network(data: str) -> nn.Module:
    model: nn.Module = models.load_gpt() if data == "GPT" else models.load_resnet(DEPTHS[data])
    return model.train()


def _plain(recipe: Recipe, model: nn.Module, _: int) -> Scheme:
    return Scheme(model, recipe)


def _spectral(recipe: Recipe, rate: float, model: nn.Module, n_steps: int) -> Scheme:
    return Spectral(model, recipe, n_steps, rate)


def _few_levels(recipe: Recipe, low: int, high: int, model: nn.Module, _: int) -> Scheme:
    return FewLevels(model, recipe, low, high)


COMMAND = Learned
