"""Measures rate-distortion curves of codec spectral and its peers: CSV, SVG, tables.

    CFCK_DATA=/path/to/data python bench rate_distortion --nncodec PYTHON -o bench/results

PYTHON is one that has nncodec. bench/README.md says what to install, and what the rows are.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import torch

from common import data
from common.driver import Benchmark
from rate_distortion import product, program, report, rows, subjects
from rate_distortion.peers import MissingPeer, NnCodec
from rate_distortion.points import n_weights
from rate_distortion.presets import PRESETS
from rate_distortion.rows import IMAGES, SENTENCES, CurveRun
from rate_distortion.subjects import MINILM, Subject

DIVERGENCES = (0.02, 0.05)


def resnet(run: CurveRun, depth: int, n_images: int) -> Subject:
    """Errors, and effects on test images."""
    subject = subjects.resnet(depth, n_images)
    rows.measure_errors(run, subject)
    rows.measure_effects(run, subject, IMAGES)
    rows.judge_errors(run, subject.name, 0.28, 0.38)
    rows.judge_bound(run, subject.name)
    for divergence in DIVERGENCES:
        rows.judge_divergence(run, subject.name, divergence)
    for divergence in DIVERGENCES:
        rows.judge_divergence(run, subject.name, divergence, uses_data=True)
    if depth == 56:
        rows.judge_top1(run, subject)
    return subject


def minilm_subset(run: CurveRun) -> Subject:
    """Errors."""
    subject = subjects.minilm_subset()
    rows.measure_errors(run, subject)
    rows.judge_errors(run, subject.name, 0.06, 0.11)
    rows.judge_bound(run, subject.name)
    return subject


def minilm(run: CurveRun, n_sentences: int) -> Subject:
    """Effects on embeddings."""
    subject = subjects.minilm(n_sentences)
    rows.measure_effects(run, subject, SENTENCES)
    rows.judge_cosine(run, subject)
    rows.judge_cosine(run, subject, uses_data=True)
    return subject


class RateDistortion(Benchmark):
    """Points, pictures and targets."""

    name = "rate_distortion"
    # In the order in which they start: those that take long first.
    rows: ClassVar[Mapping[str, Callable[[RateDistortion], Subject]]] = {
        "resnet56": lambda self: resnet(self.curves, 56, self.n_images),
        "minilm": lambda self: minilm(self.curves, self.n_sentences),
        "resnet20": lambda self: resnet(self.curves, 20, self.n_images),
        "minilm-subset": lambda self: minilm_subset(self.curves),
    }

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Looks for NNCodec, and reads the points of the earlier run."""
        super().__init__(options, scratch)
        self.start = time.monotonic()
        self.n_images = options.images or (2000 if options.quick else 10000)
        self.n_sentences = options.sentences or (100 if options.quick else 200)
        self.program = options.build / "bench" / program.PROGRAM if options.build else None
        if self.program is not None and not self.program.is_file():
            sys.exit(f"no {program.PROGRAM} in {options.build}")
        torch.set_num_threads(1)
        self.curves = CurveRun(None, PRESETS, report.read_points(options.points))
        self.subjects: list[Subject] = []
        try:
            self.curves.peer = NnCodec(options.nncodec)
        except MissingPeer as error:
            self.curves.miss("NNCodec", str(error))

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Options for the data that is fed, results that are taken over, and the programs."""
        super().add_options(parser)
        parser.add_argument("--nncodec", default=sys.executable, help="a Python that has nncodec")
        parser.add_argument("--images", type=int, help="test images (default: 10000; quick 2000)")
        parser.add_argument("--sentences", type=int, help="(default: 200; quick 100)")
        parser.add_argument("--build", type=Path, help="of the C++ programs: speeds, lambda")
        parser.add_argument("--points", type=Path, help="of an earlier run; not measured again")
        parser.add_argument("--jobs", type=int, default=2, help="models at a time, a thread each")

    @classmethod
    def default_rows(cls, options: argparse.Namespace) -> list[str]:
        """A quick run leaves the whole of MiniLM out."""
        return [row for row in cls.rows if not (options.quick and row == "minilm")]

    def run(self, rows: Sequence[str]) -> None:
        """All models, some at a time; then what is timed, when nothing else runs."""
        with ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(self.attempt, [row for row in self.rows if row in rows]))
        if self.program is not None and self.subjects:
            self.measure_program(self.program)

    def attempt(self, row: str) -> None:
        """A model, if its data are there."""
        try:
            self.subjects.append(self.rows[row](self))
        except (data.MissingData, ImportError) as error:
            self.curves.miss(row, str(error))
            self.curves.targets.skip("all", row, str(error))
        except Exception as error:
            self.say(f"FAILED {row}: {type(error).__name__}: {error}")
            self.fail(row, f"{type(error).__name__}: {error}")

    def measure_program(self, path: Path) -> None:
        """Measures the rows of spectral_bench."""
        largest = max(self.subjects, key=lambda subject: n_weights(subject.tensors))
        program.measure_speed(self.curves, path, largest, self.scratch)
        for subject in self.subjects:
            if subject.name != MINILM:
                self.curves.lambdas += program.lambda_rows(path, subject, self.scratch)

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.curves.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether something that must be reached was not."""
        return self.curves.targets.failed()

    def facts(self) -> dict[str, str]:
        """The codecs and what models were fed."""
        facts = {
            "cfck": product.version(),
            "test images": str(self.n_images),
            "sentences": str(self.n_sentences),
        }
        if self.curves.peer is not None:
            facts["NNCodec"] = self.curves.peer.version
        return facts | {"seconds": f"{time.monotonic() - self.start:.0f}"}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """A page, pictures, points and targets."""
        return report.files(self.curves, self.subjects, facts, command)


COMMAND = RateDistortion
