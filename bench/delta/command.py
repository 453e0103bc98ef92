"""Measures codec delta on real steps of AdamW, beside what weights are sent with today: a table.

    CFCK_DATA=/path/to/data python bench delta --build build -o bench/results

bench/README.md says what the rows are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from common import data, report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets
from delta import training

RATES = (1e-6, 3e-6, 1e-5, 1e-4)
MEASURED = [
    "data",
    "changed",
    "dense / delta",
    "XOR + zstd-1",
    "planes + zstd-1",
    "XOR + zstd-19",
    "planes + zstd-19",
    "index + value",
    "make GB/s",
    "apply GB/s",
    "XOR + zstd-1: make",
    "apply",
]


class Delta(Benchmark):
    """Bytes of peers for each byte of codec delta, and speeds."""

    name = "delta"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """An empty table."""
        super().__init__(options, scratch)
        self.pairs = options.pairs or scratch
        self.pairs.mkdir(parents=True, exist_ok=True)
        self.lines: list[list[str]] = []
        self.targets = Targets()

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Adds where programs and weights are."""
        super().add_options(parser)
        parser.add_argument("--build", type=Path, default=Path("build"), help="the build folder")
        parser.add_argument("--pairs", type=Path, help="folder that keeps the trained weights")
        parser.add_argument("--seed", type=int, default=1, help="of the batches (default: 1)")

    def compare(self, name: str, base: Path, values: Path) -> dict[str, float]:
        """Runs the program on a pair of files; bytes of peers for each of ours."""
        repetitions = "3" if self.options.quick else "30"
        program = self.options.build / "bench" / "delta_bench"
        command = [program, "--repetitions", repetitions, base, values]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        ours = found["delta_bytes"]
        times: dict[str, float] = {
            key.removesuffix("_bytes"): count / ours
            for key, count in found.items()
            if key.endswith("_bytes")
        }
        speeds = [
            found[f"{key}_gb_s"]
            for key in (
                "make_with_digests",
                "apply_with_digests",
                "xor_zstd1_make",
                "xor_zstd1_apply",
            )
        ]
        peers = ["xor_zstd1", "planes_zstd1", "xor_zstd19", "planes_zstd19", "index_value"]
        self.lines.append(
            [name, f"{100 * found['changed']:.2f} %", f"{times['dense']:.1f}"]
            + [f"{times[peer]:.2f}" for peer in peers]
            + [f"{speed:.2f}" for speed in speeds]
        )
        self.say(" | ".join(self.lines[-1]))
        return times | {"changed": found["changed"], "make": speeds[0], "apply": speeds[1]}

    def each_step(
        self, kind: str, judge: Callable[[str, float, int, dict[str, float]], None]
    ) -> None:
        """Compares the weights of all rates and steps, as `kind`."""
        for rate in RATES:
            base, *others = training.train(rate, self.options.seed, self.pairs)
            old = training.cast(base, kind, base, self.scratch)
            for n, path in zip(training.STEPS, others, strict=True):
                name = f"{kind}, {rate:.0e}, {n}"
                judge(
                    name,
                    rate,
                    n,
                    self.compare(name, old, training.cast(path, kind, base, self.scratch)),
                )

    def bf16(self) -> None:
        """Casts of master weights, as samplers have them."""

        def judge(name: str, rate: float, n: int, times: dict[str, float]) -> None:
            if rate >= 1e-4:
                if n == 8:
                    self.targets.judge(
                        "bf16", name, "bytes / ours", times["xor_zstd1"], Goal(1.9, 1.95)
                    )
                return
            least = 2.4 if times["changed"] <= 0.1 else 2.2
            for peer, must in (("xor_zstd1", least), ("planes_zstd19", 1.5), ("index_value", 5.0)):
                self.targets.judge(
                    "bf16", name, "bytes / ours", times[peer], Goal(must, must * 1.2), peer
                )
            if rate == 1e-6 and n == 1:
                self.targets.judge("bf16", name, "make GB/s", times["make"], Goal(2.5, 3.0))
                self.targets.judge("bf16", name, "apply GB/s", times["apply"], Goal(4.0, 5.0))

        self.each_step("bf16", judge)

    def f32(self) -> None:
        """Master weights after a step."""

        def judge(name: str, rate: float, n: int, times: dict[str, float]) -> None:
            if n == 1:
                for peer, must in (("xor_zstd19", 1 / 0.8), ("planes_zstd19", 1 / 0.93)):
                    self.targets.judge(
                        "f32", name, "bytes / ours", times[peer], Goal(must, must * 1.05), peer
                    )

        self.each_step("f32", judge)

    def quantised(self, kind: str) -> None:
        """Codes of eight and four bits."""

        def judge(name: str, rate: float, n: int, times: dict[str, float]) -> None:
            self.targets.judge(
                kind, name, "bytes / ours", times["xor_zstd1"], Goal(2.0, 2.4), "xor_zstd1"
            )

        self.each_step(kind, judge)

    def weights(self) -> None:
        """Fifty steps of a training."""
        paths = []
        for step in ("00950", "01000"):
            state = training.load_file(data.data_path(f"gpt_step{step}.safetensors"))
            path = self.scratch / f"gpt-{step}.safetensors"
            own = {name: value for name, value in state.items() if name.startswith("model.")}
            training.save_file(training.matrices(own), path)
            paths.append(path)
        times = self.compare("f32, 50 steps", *paths)
        for peer, must in (("xor_zstd19", 1 / 0.82), ("planes_zstd19", 1 / 0.96)):
            self.targets.judge(
                "weights", "950 to 1000", "bytes / ours", times[peer], Goal(must, must * 1.02), peer
            )

    rows: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        "bf16": bf16,
        "f32": f32,
        "f8": lambda self: self.quantised("f8"),
        "int4": lambda self: self.quantised("int4"),
        "weights": weights,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        head = report.page_head("Codec delta", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        body += ["## Measurements", "", "Columns of peers: their bytes for each byte of ours.", ""]
        body += [report.markdown_table(MEASURED, self.lines)]
        return {f"delta-{report.file_stem(facts)}.md": "\n".join([*head, *body])}


COMMAND = Delta
