"""Measures MiniLM that runs from a compressed file, beside the loaded model.

    python bench streaming -o bench/results

Sequences have 128 tokens. Times are wall clock, medians of runs that alternate between both models
on the same batches, each run on another one; outputs are compared bit for bit. Memory is the peak
of the resident set of a program that runs one model (memory_run.py), with an allocator that gives
all memory back; that of the loaded model beyond its weights is what activations take.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from common import measure, report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets

BATCH_SIZES = (1, 32)
FILES: dict[str, dict[str, Any]] = {"lossless": {}, "3 bits per weight": {"bits_per_weight": 3}}
SPEED_GOALS = {
    1: Goal(1.5, 1.2, smaller=True, text="{:.3f}".format),
    32: Goal(1.15, 1.05, smaller=True, text="{:.3f}".format),
}
SPARE_BYTES = 8_000_000
COLUMNS = ["file", "batch", "words", "loaded ms", "compressed ms", "ratio", "without prefetch"]
# Memory that is free is the system's: the resident set is what is in use.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f} MB"


class Streaming(Benchmark):
    """The tables, and what they must show."""

    name = "streaming"

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """The number of threads of PyTorch."""
        super().add_options(parser)
        parser.add_argument(
            "--threads", type=int, default=1, help="threads of PyTorch (default: 1)"
        )

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Saves the files."""
        super().__init__(options, scratch)
        import cfck.torch
        import torch

        from common import models

        torch.set_num_threads(options.threads)
        self.lines: list[list[str]] = []
        self.targets = Targets()
        self.paths: dict[str, Path] = {}
        self.model = models.load_minilm()
        for name, how in FILES.items():
            self.paths[name] = scratch / f"{name}.cfck"
            cfck.torch.save_model(self.model, self.paths[name], **how)

    def speed(self) -> None:
        """Text, and at batch 1 words at random, which no text has."""
        from streaming import texts

        for file in FILES:
            for batch_size in BATCH_SIZES:
                ratio = self._compare(file, batch_size, "text", texts.texts(batch_size))
                what = f"time / loaded, batch {batch_size}"
                self.targets.judge("speed", file, what, ratio, SPEED_GOALS[batch_size])
            ratio = self._compare(file, 1, "random", texts.random_words(1, 100))
            self.targets.tell("speed", file, "time / loaded, batch 1, random words", f"{ratio:.3f}")

    def _compare(self, file: str, batch_size: int, words: str, batches: list[Any]) -> float:
        """The time of the compressed model as a multiple of that of the loaded one."""
        import cfck.torch
        import torch

        from common import models

        loaded, ahead, alone = (models.load_minilm() for _ in range(3))
        cfck.torch.load_model(loaded, self.paths[file])
        loaded.requires_grad_(False)
        cfck.torch.compressed(ahead, self.paths[file])
        cfck.torch.compressed(alone, self.paths[file], prefetch=False)
        found = {"loaded": loaded, "ahead": ahead, "alone": alone}
        with torch.no_grad():
            for batch in batches[:2]:
                outputs = [model(**batch).last_hidden_state for model in found.values()]
                if not all(torch.equal(outputs[0], other) for other in outputs):
                    raise RuntimeError("the outputs of the compressed model are others")
            actions = {name: _runs(model, batches[2:]) for name, model in found.items()}
            repetitions = 2 if self.options.quick else (60 if batch_size == 1 else 9)
            times = measure.alternate(actions, repetitions)
        wall = {name: taken.wall for name, taken in times.items()}
        ratios = [wall[name] / wall["loaded"] for name in ("ahead", "alone")]
        cells = [f"{wall[name] * 1e3:.1f}" for name in ("loaded", "ahead")]
        cells += [f"{ratio:.3f}" for ratio in ratios]
        self.lines.append([file, str(batch_size), words, *cells])
        self.say(" | ".join(self.lines[-1]))
        return ratios[0]

    def memory(self) -> None:
        """The peak, less that of the loaded model."""
        sizes = sorted(
            parameter.numel() * parameter.element_size()
            for name, parameter in self.model.named_parameters()
            if "embeddings" not in name
        )
        limit = SPARE_BYTES + sum(sizes[-2:])
        goal = Goal(limit, limit, smaller=True, text=_megabytes)
        for file, path in self.paths.items():
            for batch_size in BATCH_SIZES:
                peaks = {
                    kind: self._peak(kind, path, batch_size) for kind in ("loaded", "compressed")
                }
                beyond = peaks["compressed"] - peaks["loaded"]
                what = f"peak beyond activations, batch {batch_size}"
                against = f"activations {_megabytes(peaks['loaded'])}"
                self.targets.judge("memory", file, what, beyond, goal, against)
                self.say(f"{file} | {batch_size} | {_megabytes(beyond)} | {against}")
        whole = sum(parameter.numel() * 4 for parameter in self.model.parameters())
        self.targets.tell("memory", "loaded", "weights", _megabytes(whole))

    def _peak(self, kind: str, path: Path, batch_size: int) -> int:
        """The least of several runs, in bytes."""
        program = Path(__file__).with_name("memory_run.py")
        command = [sys.executable, str(program), kind, str(path), str(batch_size)]
        environment = os.environ | ALLOCATOR
        return min(
            int(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
            for _ in range(1 if self.options.quick else 3)
        )

    rows: ClassVar[Mapping[str, Callable[[Streaming], None]]] = {"speed": speed, "memory": memory}

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions, and the sizes of the files."""
        import cfck
        import torch

        sizes = ", ".join(
            f"{name} {_megabytes(p.stat().st_size)}" for name, p in self.paths.items()
        )
        return {
            "cfck": cfck.__version__,
            "torch": f"{torch.__version__}, threads: {self.options.threads}",
            "files": sizes,
        }

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        head = report.page_head("Models that run from a compressed file", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        body += ["## Times", "", report.markdown_table(COLUMNS, self.lines)]
        return {f"streaming-{report.file_stem(facts)}.md": "\n".join([*head, *body])}


def _runs(model: Any, batches: list[Any]) -> Callable[[], object]:
    """Runs the model on one batch after the other."""
    turns: Iterator[Any] = itertools.cycle(batches)
    return lambda: model(**next(turns))


COMMAND = Streaming
