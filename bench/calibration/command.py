"""Measures what calibrate, refine and shrink take and achieve: a table.

    CFCK_DATA=/path/to/data python bench calibration -o bench/results

bench/README.md says what the rows are.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import cfck
import torch
from cfck._evaluation.prefix import Prefix
from cfck.torch import load_model
from torch import nn

from calibration import draws, timing
from common import models, report
from common.driver import Benchmark

SHRUNK_SENTENCES, OTHER_SENTENCES = 320, 200
SHRUNK_IMAGES, IMAGES_IN_BATCH = 600, 100
TEST_IMAGES = 10000
MOST_BITS = {"MiniLM": 2.9, "ResNet-20": 2.1, "ResNet-56": 2.1}
MOST_OF_BEFORE = 0.5
LEAST_KEPT, MOST_MORE_BITS = 0.9, 3.0
MOST_SECONDS = {"MiniLM": 360.0, "ResNet-20": 600.0, "ResNet-56": 600.0}


@dataclass(frozen=True)
class Timed:
    """The cost of an action, and its result."""

    wall: float
    processor: float
    n_calls: int  # of linear layers and convolutions
    result: Any


def timed(action: Callable[[], Any]) -> Timed:
    """Runs an action, and counts how often linear layers and convolutions ran."""
    calls = 0

    def counted(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            return forward(*given, **named)

        return run

    begin, used = time.monotonic(), time.process_time()
    with contextlib.ExitStack() as stack:
        for kind in (nn.Linear, nn.Conv2d):
            stack.enter_context(mock.patch.object(kind, "forward", counted(kind.forward)))
        result = action()
    return Timed(time.monotonic() - begin, time.process_time() - used, calls, result)


def numbers(calibration: cfck.Calibration) -> dict[str, Any]:
    """What was measured, and values that were corrected, by name."""
    return {
        name: (one.sensitivity, one.corrected.tobytes() if one.corrected is not None else None)
        for name, one in calibration.items()
        if one.is_measured or one.corrected is not None
    }


class Calibration(Benchmark):
    """Seconds, layers that ran, bits and outcomes."""

    name = "calibration"
    rows: ClassVar[Mapping[str, Callable[[Calibration], None]]] = {
        "llama": lambda self: self.measure("llama"),
        "resnet44": lambda self: self.measure("resnet44"),
        "minilm": lambda self: self.shrink_minilm(),
        "resnet20": lambda self: self.shrink_resnet(20),
        "resnet56": lambda self: self.shrink_resnet(56),
        "draws20": lambda self: self.draw(20),
        "draws56": lambda self: self.draw(56),
    }

    def __init__(self, *given: Any) -> None:
        """An empty table."""
        super().__init__(*given)
        self.costs: list[list[str]] = []
        self.older: list[list[str]] = []
        self.shrunk: list[list[str]] = []
        self.drawn: list[list[str]] = []
        self.failures: list[str] = []

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the folder of another version."""
        super().add_options(parser)
        parser.add_argument(
            "--before", type=Path, help="a folder with an older package cfck, to compare with"
        )

    @classmethod
    def default_rows(cls, options: argparse.Namespace) -> list[str]:
        """Not the draws, which take hours."""
        return [row for row in super().default_rows(options) if not row.startswith("draws")]

    def draw(self, depth: int) -> None:
        """To a divergence of 0.05 with images drawn again and again; and an older version."""
        n_draws = 2 if self.options.quick else draws.DRAWS
        versions = [("this version", None)]
        if self.options.before is not None:
            versions.insert(0, ("before", self.options.before))
        means: list[float] = []
        for version, folder in versions:
            found = []
            for seed in range(n_draws):
                found.append(draws.measured_apart(depth, seed, folder))
                self.say(f"ResNet-{depth}, {version}, draw {seed}: {found[-1]}")
            kept = sum(one.others <= draws.GOAL for one in found)
            means.append(sum(one.bits for one in found) / n_draws)
            self.drawn.append(
                [
                    f"ResNet-{depth}, {version}",
                    f"{kept} of {n_draws} (9 of 10)",
                    f"{sum(one.others for one in found) / n_draws:.4f}",
                    ", ".join(f"{one.others:.4f}" for one in found),
                    f"{means[-1]:.3f}",
                    f"{100 * (means[-1] / means[0] - 1):+.1f} % ({MOST_MORE_BITS:g})"
                    if len(means) > 1
                    else "-",
                    f"{sum(one.seconds for one in found) / n_draws:.0f}",
                ]
            )
        if kept < LEAST_KEPT * n_draws:
            self.failures.append(f"ResNet-{depth}: {kept} of {n_draws} draws keep the goal")
        if means[-1] > (1 + MOST_MORE_BITS / 100) * means[0]:
            self.failures.append(
                f"ResNet-{depth}: more bits than {MOST_MORE_BITS:g} % above before"
            )

    def measure(self, row: str) -> None:
        """Whole passes, and those that leave out what ran before; and an older version."""
        new: Any = None
        for what, action in timing.ROWS[row]().items():
            new = self._compare(what, functools.partial(action, new))
        if self.options.before is not None:
            before = timing.seconds_of(row, self.options.before)
            now = timing.seconds_of(row, None)
            for what in now:
                pairs = list(zip(before[what], now[what], strict=True))
                wall, processor = (f"{old:.1f}, {seconds:.1f}" for old, seconds in pairs)
                ratio = pairs[1][1] / pairs[1][0]
                self.older.append([what, wall, processor, f"{ratio:.2f} ({MOST_OF_BEFORE:g})"])
                if ratio > MOST_OF_BEFORE:
                    self.failures.append(f"{what}: more than {MOST_OF_BEFORE:g} of the time before")

    def _compare(self, what: str, action: Callable[[], Any]) -> Any:
        new = timed(action)
        self.say(f"{what}: {new.wall:.1f} s")
        with mock.patch.object(Prefix, "_keep", lambda *_: None):
            whole = timed(action)
        same = numbers(new.result) == numbers(whole.result)
        if not same:
            self.failures.append(f"{what}: results differ from those of whole passes")
        self.costs.append(
            [
                what,
                f"{whole.wall:.1f}, {new.wall:.1f}",
                f"{whole.processor:.1f}, {new.processor:.1f}",
                f"{whole.n_calls:,}, {new.n_calls:,}",
                f"{new.processor / whole.processor:.2f}, {new.n_calls / whole.n_calls:.2f}",
                "yes" if same else "NO",
            ]
        )
        return new.result

    def shrink_minilm(self) -> None:
        """To a cosine of 0.99, judged on other sentences."""
        model = models.load_minilm()
        others = models.sentence_batches(models.sentences(OTHER_SENTENCES))
        texts = models.other_sentences(SHRUNK_SENTENCES, OTHER_SENTENCES)
        batches = models.sentence_batches(texts)

        def judge(decoded: nn.Module) -> str:
            found = cfck.evaluate(model, decoded, others)
            return f"cosine {found.cosine_mean:.4f} on {found.n_examples} other sentences"

        self._shrink("MiniLM", model, {"cosine": 0.99}, batches, models.load_minilm, judge)

    def shrink_resnet(self, depth: int) -> None:
        """To a divergence of 0.05, judged on test images."""
        model = models.load_resnet(depth)
        images = models.image_batches("cifar10_calibration.npz", SHRUNK_IMAGES, IMAGES_IN_BATCH)[0]
        n_test = TEST_IMAGES // 10 if self.options.quick else TEST_IMAGES
        tests = list(zip(*models.image_batches(count=n_test), strict=True))

        def judge(decoded: nn.Module) -> str:
            found = cfck.evaluate(
                model, decoded, tests, inputs=lambda pair: pair[0], labels=lambda pair: pair[1]
            )
            points = 100 * (found.top1_change or 0.0)
            return f"KL {found.kl:.4f}, top-1 {points:+.2f} points on {n_test} test images"

        self._shrink(
            f"ResNet-{depth}", model, {"kl": 0.05}, images,
            lambda: models.load_resnet(depth), judge,
        )  # fmt: skip

    def _shrink(
        self,
        name: str,
        model: nn.Module,
        keep: dict[str, float],
        batches: list[Any],
        fresh: Callable[[], nn.Module],
        judge: Callable[[nn.Module], str],
    ) -> None:
        path = self.scratch / "small.cfck"
        used = time.process_time()
        result = cfck.shrink(model, path, keep=keep, batches=batches, report=self.say)
        used = time.process_time() - used
        decoded = fresh()
        load_model(decoded, path, strict=False)
        goal, value = next(iter(keep.items()))
        met = result.bits_per_weight <= MOST_BITS[name] and result.seconds <= MOST_SECONDS[name]
        self.shrunk.append(
            [
                name,
                f"{goal} {value:g}",
                f"{result.bits_per_weight:.3f} ({MOST_BITS[name]:g})",
                f"{result.seconds:.0f} ({MOST_SECONDS[name]:.0f}), {used:.0f}",
                f"{result.kept[goal]:.4f} on {result.n_held_back}",
                judge(decoded),
                "met" if met else "MISSED",
            ]
        )
        if not met:
            self.failures.append(f"{name}: more bits or seconds than wanted")

    def fail(self, row: str, reason: str) -> None:
        """Errors stand below the tables."""
        self.failures.append(f"{row}: {reason}")

    def failed(self) -> bool:
        """Whether a row failed or missed its target."""
        return bool(self.failures)

    def facts(self) -> dict[str, str]:
        """Threads of PyTorch."""
        return {"threads": str(torch.get_num_threads()), "cfck": cfck.__version__}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """A page on the time of calibrate and refine, and one on shrink."""
        found: dict[str, str] = {}
        failures = "".join(f"\n- {failure}" for failure in self.failures)
        stem = report.file_stem(facts)
        if self.costs:
            columns = ["", "wall s", "processor s", "layer calls", "ratios", "same result"]
            text = "\nWhole passes, then passes that leave out what ran before:\n\n"
            text += report.markdown_table(columns, self.costs)
            if self.older:
                columns = ["", "wall s", "processor s", "ratio (must)"]
                text += "\nAn older version, then this one, each in a process of its own:\n\n"
                text += report.markdown_table(columns, self.older)
            found[f"calibration-{stem}.md"] = _page("Calibration", text + failures, facts, command)
        if self.shrunk:
            columns = ["cfck.shrink", "keep", "bits per weight, whole file (must)",
                       "wall s (must), processor s", "kept, held back", "judged", ""]  # fmt: skip
            text = "\n" + report.markdown_table(columns, self.shrunk)
            found[f"shrink-{stem}.md"] = _page("Shrinking", text + failures, facts, command)
        if self.drawn:
            columns = ["keep kl 0.05, 600 test images drawn", "kept on all others (must)",
                       "KL on these, mean", "of each draw", "bits per weight, whole file",
                       "against before (most)", "wall s"]  # fmt: skip
            text = "\n" + report.markdown_table(columns, self.drawn)
            found[f"shrink-draws-{stem}.md"] = _page("Draws", text + failures, facts, command)
        return found


def _page(title: str, text: str, facts: dict[str, str], command: str) -> str:
    return "\n".join(report.page_head(title, command, facts)) + "\n" + text


COMMAND = Calibration
