"""Measures from_pretrained of MiniLM in a converted folder, beside that of safetensors.

    python bench pretrained -o bench/results

Each action loads the model with transformers and runs it once on 16 tokens. The kinds of weights
take turns, in one process; the first turn is not counted, and each action begins with the model of
the one before gone. Times are wall clock, medians. Outputs are compared bit for bit.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from common import report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets

TOKENS = 16
REPETITIONS = 11
BOTH_GOAL = Goal(1.0, 1.0, smaller=True, text="{:.3f}".format)
LOAD_GOAL = Goal(0.040, 0.025, smaller=True, text=lambda seconds: f"{seconds * 1e3:.1f} ms")
PEER = "safetensors"
# What each folder is loaded with, and how `cfck convert` makes it of that of safetensors.
FOLDERS: dict[str, list[str]] = {"lossless": [], "5 bits per weight": ["--bits-per-weight", "5"]}
COLUMNS = ["weights", "from_pretrained ms", "CPU ms", "with a forward pass ms", "fastest ms"]


@dataclass
class _Times:
    """The seconds of all turns of one kind of weights."""

    load: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    both: list[float] = field(default_factory=list)


class Pretrained(Benchmark):
    """The tables, and what they must show."""

    name = "pretrained"

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """The number of threads of PyTorch."""
        super().add_options(parser)
        parser.add_argument(
            "--threads", type=int, default=0, help="threads of PyTorch (default: its own choice)"
        )

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Saves the model with transformers, and converts the folder."""
        super().__init__(options, scratch)
        import cfck.transformers
        import torch
        from cfck._common.program import find_program

        from common import models

        if options.threads:
            torch.set_num_threads(options.threads)
        self.lines: list[list[str]] = []
        self.targets = Targets()
        self.folders = {PEER: scratch / PEER}
        models.load_minilm().save_pretrained(self.folders[PEER])
        for name, how in FOLDERS.items():
            self.folders[name] = scratch / name
            command = [find_program(), "convert", *how, self.folders[PEER], self.folders[name]]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.ids = torch.randint(1000, 20000, (1, TOKENS), generator=torch.manual_seed(0))
        if not cfck.transformers.is_enabled():
            raise RuntimeError("this version of transformers is not known")

    def load(self) -> None:
        """The same folder again and again, as a process does that reloads a model."""
        self._compare("load", {name: self._loader(path) for name, path in self.folders.items()})

    def packed(self) -> None:
        """Weights that stay packed: what a run decodes is part of its time."""
        kinds = {PEER: self._loader(self.folders[PEER])}
        kinds["lossless, compressed=True"] = self._loader(self.folders["lossless"], compressed=True)
        self._compare("packed", kinds, is_judged=False)

    def _loader(self, path: Path, **options: Any) -> Callable[[], Any]:
        from transformers import AutoModel

        return lambda: AutoModel.from_pretrained(path, **options)

    def _compare(
        self, row: str, kinds: Mapping[str, Callable[[], Any]], is_judged: bool = True
    ) -> None:
        import torch

        times = {name: _Times() for name in kinds}
        outputs = {}
        for turn in range(1 + (2 if self.options.quick else REPETITIONS)):
            for name, load in kinds.items():
                outputs[name] = self._once(load, times[name] if turn else _Times())
        for name, output in outputs.items():
            if "bits" not in name and not torch.equal(output, outputs[PEER]):
                raise RuntimeError(f"{name}: the outputs are not those of {PEER}")
        peer = times[PEER]
        for name, taken in times.items():
            cells = [statistics.median(one) for one in (taken.load, taken.cpu, taken.both)]
            self.lines.append([name, *(f"{1e3 * cell:.1f}" for cell in (*cells, min(taken.both)))])
            self.say(" | ".join(self.lines[-1]))
            if name == PEER:
                continue
            more = cells[0] - statistics.median(peer.load)
            ratio = cells[2] / statistics.median(peer.both)
            self._judge(row, name, more, ratio, is_judged)

    def _judge(self, row: str, name: str, more: float, ratio: float, is_judged: bool) -> None:
        what = ("from_pretrained beyond safetensors", "with a forward pass / safetensors")
        for text, value, goal in zip(what, (more, ratio), (LOAD_GOAL, BOTH_GOAL), strict=True):
            if is_judged:
                self.targets.judge(row, name, text, value, goal)
            else:
                self.targets.tell(row, name, text, goal.text(value))

    def _once(self, load: Callable[[], Any], times: _Times) -> Any:
        import torch

        gc.collect()
        begin, cpu = time.perf_counter(), time.process_time()
        model = load()
        loaded, cpu = time.perf_counter(), time.process_time() - cpu
        with torch.no_grad():
            output = model(input_ids=self.ids).last_hidden_state
        times.both.append(time.perf_counter() - begin)
        times.load.append(loaded - begin)
        times.cpu.append(cpu)
        return output

    rows: ClassVar[Mapping[str, Callable[[Pretrained], None]]] = {"load": load, "packed": packed}

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions, how busy the machine is, and the sizes of the weights."""
        import cfck
        import torch
        import transformers

        sizes = ", ".join(
            f"{name} {sum(p.stat().st_size for p in path.glob('model.*')) / 1e6:.1f} MB"
            for name, path in self.folders.items()
        )
        for path in self.folders.values():
            shutil.rmtree(path)
        return {
            "cfck": cfck.__version__,
            "torch": f"{torch.__version__}, threads: {torch.get_num_threads()}",
            "transformers": transformers.__version__,
            "other programs": f"load average {os.getloadavg()[0]:.1f} at the end",
            "weights": sizes,
        }

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        head = report.page_head("Models of transformers in converted folders", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        body += ["## Times", "", report.markdown_table(COLUMNS, self.lines)]
        return {f"pretrained-{report.file_stem(facts)}.md": "\n".join([*head, *body])}


COMMAND = Pretrained
