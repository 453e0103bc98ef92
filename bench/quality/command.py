"""Measures what qualities and bits per weight do to models, without data, beside quantisers.

    CFCK_DATA=/path/to/data python bench quality -o bench/results

Every setting is saved as a file, loaded again, and the model runs with what came back.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import cfck
import numpy as np
import torch

from common import data, report, targets
from common.driver import Benchmark
from quality import quantisers
from quality.judged import MODELS, Judged
from quality.picture import short_name
from quality.settings import SETTINGS, save
from rate_distortion.peers import NNCODEC
from rate_distortion.plot import Plot, drawn
from rate_distortion.product import version
from rate_distortion.report import read_points

COLUMNS = ["model", "codec", "setting", "bits per weight", "whole file"]
MOST_BITS_SHOWN = 9
# NNCodec needs an environment of its own: its points are taken from there.
EARLIER = Path(__file__).parent.parent / "results"
EFFECTS = ("1 - cosine", "least cosine")


@dataclass(frozen=True)
class Outcome:
    """A model after a setting. A quantiser has no file of its own."""

    model: str
    curve: str
    label: str
    bits: float
    bits_of_all: float | None
    effects: dict[str, float]


@dataclass
class Results:
    """A run gathers its outcomes, models and verdicts here."""

    outcomes: list[Outcome] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    targets: targets.Targets = field(default_factory=targets.Targets)


class QualityBenchmark(Benchmark):
    """One picture and one table for each model."""

    name = "quality"
    rows: ClassVar[Mapping[str, Callable[[QualityBenchmark], None]]] = {
        row: functools.partial(lambda run, row: run.measure(row), row=row) for row in MODELS
    }

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Looks for the quantisers."""
        super().__init__(options, scratch)
        self.results = Results()
        self.peers, self.versions, self.missing = quantisers.available()

    def measure(self, row: str) -> None:
        """A model with every setting, and MiniLM with the quantisers too."""
        try:
            judged = MODELS[row]()
        except data.MissingData as error:
            self.results.targets.skip(row, "-", str(error))
            return
        self.results.judged.append(judged)
        calibration = cfck.calibrate(
            judged.subject.model, input_shape=judged.subject.input_shape, progress=False
        )
        for setting in SETTINGS:
            self.say(f"{judged.name}: {setting.curve} {setting.label}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cfck.LossWarning)
                saved = save(judged.state, setting, calibration)
            effects = judged.subject.effects(saved.tensors)
            outcome = Outcome(
                judged.name, setting.curve, setting.label, saved.bits, saved.bits_of_all, effects
            )
            self.results.outcomes.append(outcome)
            self.judge(judged, outcome)
        if row == "minilm":
            self.measure_quantisers(judged)
            self.add_earlier(judged)

    def judge(self, judged: Judged, outcome: Outcome) -> None:
        """Compares with the goals; those of bits are for the default, not for flat steps."""
        if outcome.label not in judged.goals or outcome.curve.endswith("flat"):
            return
        what, goal = judged.goals[outcome.label]
        data_name = f"{outcome.model}, {outcome.curve} {outcome.label}"
        at = f"{outcome.bits:.2f} bits"
        self.results.targets.judge("quality", data_name, what, outcome.effects[what], goal, at)

    def measure_quantisers(self, judged: Judged) -> None:
        """The matrices as each package stores them; the rest stays as it is."""
        floats = {name: v for name, v in judged.state.items() if v.dtype == np.float32}
        for peer in self.peers:
            self.say(f"{judged.name}: {peer.name}")
            bits, decoded = peer.apply(judged.subject.tensors)
            effects = judged.subject.effects({**floats, **decoded})
            self.results.outcomes.append(Outcome(judged.name, peer.name, "", bits, None, effects))

    def add_earlier(self, judged: Judged) -> None:
        """NNCodec's points of an earlier run of rate_distortion, with the same sentences."""
        for path in sorted(EARLIER.glob("rate-distortion-*-points.csv")):
            for point in read_points(path):
                if point.data == judged.name and point.codec == NNCODEC and point.effects:
                    effects = {name: point.effects.get(name, float("nan")) for name in EFFECTS}
                    outcome = Outcome(
                        judged.name, NNCODEC, point.setting, point.bits, None, effects
                    )
                    self.results.outcomes.append(outcome)

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.results.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether something that must be reached was not."""
        return self.results.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions of what was compared."""
        return {"cfck": version(), "torch": torch.__version__, **self.versions}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """A page, a table of all points, and a picture for each model."""
        stem = f"quality-{report.file_stem(facts)}"
        found = {f"{stem}.md": self.page(facts, command, stem)}
        names = list(dict.fromkeys(n for o in self.results.outcomes for n in o.effects))
        rows = [
            [*cells(outcome), *(f"{outcome.effects.get(name, ''):.6g}" if name in outcome.effects
                                else "" for name in names)]
            for outcome in self.results.outcomes
        ]  # fmt: skip
        found[f"{stem}-points.csv"] = report.csv_text(facts, [*COLUMNS, *names], rows)
        plots = {picture_name(stem, judged): self.plot(judged) for judged in self.results.judged}
        return found | drawn(plots)

    def of(self, judged: Judged) -> list[Outcome]:
        """The outcomes of a model."""
        return [outcome for outcome in self.results.outcomes if outcome.model == judged.name]

    def plot(self, judged: Judged) -> Plot:
        """Bits against what the model loses; a quantiser is a mark, its package a colour."""
        plot = Plot(f"{judged.name}: {judged.effect}, smaller is better", "bits per weight",
                    judged.effect, log_up=True)  # fmt: skip
        curves: dict[str, list[tuple[float, float]]] = {}
        marks: dict[str, list[tuple[float, float, str]]] = {}
        for outcome in self.of(judged):
            effect = outcome.effects[judged.effect]
            if not effect > 0 or outcome.bits > MOST_BITS_SHOWN:
                continue
            if outcome.curve.startswith("cfck") or outcome.label:
                curves.setdefault(outcome.curve, []).append((outcome.bits, effect))
            else:
                package, word = short_name(outcome.curve)
                marks.setdefault(package, []).append((outcome.bits, effect, word))
        plot.curves.update(curves)
        plot.marks.update(marks)
        return plot

    def page(self, facts: dict[str, str], command: str, stem: str) -> str:
        """The page."""
        text = report.page_head("Qualities", command, facts, self.missing)
        text += ["", "## Targets", ""]
        text += [report.markdown_table(targets.COLUMNS, self.results.targets.lines)]
        for judged in self.results.judged:
            described = "; ".join(f"{k}: {v:g}" for k, v in judged.subject.facts.items())
            outcomes = self.of(judged)
            names = list(outcomes[0].effects) if outcomes else []
            rows = [
                [*cells(outcome)[1:], *(f"{outcome.effects[name]:.4g}" for name in names)]
                for outcome in outcomes
            ]
            text += [f"## {judged.name}", "", described, ""]
            text += [report.markdown_table([*COLUMNS[1:], *names], rows)]
            text += [f"![{judged.name}]({picture_name(stem, judged)})", ""]
        return "\n".join(text).rstrip() + "\n"


def cells(outcome: Outcome) -> Sequence[str]:
    """The first cells of a line."""
    whole = "" if outcome.bits_of_all is None else f"{outcome.bits_of_all:.3f}"
    return [outcome.model, outcome.curve, outcome.label, f"{outcome.bits:.3f}", whole]


def picture_name(stem: str, judged: Judged) -> str:
    """The file of a picture."""
    return f"{stem}-{judged.name.lower()}.svg"


COMMAND = QualityBenchmark
