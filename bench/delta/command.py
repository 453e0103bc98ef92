"""Measures patches between real steps of AdamW, beside what weights are sent with today.

    CFCK_DATA=/path/to/data python bench delta -o bench/results

bench/README.md says what the rows are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from safetensors.torch import save_file

from common import report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets
from delta import codec_alone, pairs, peers, sizes, speeds, training
from delta.pairs import Pair

RATES = (1e-6, 3e-6, 1e-5)
F32_RATES = (1e-6, 1e-5, 1e-4)
# A learning rate with which a step changes about 1 % of the values in BF16.
ONE_PER_CENT = 2e-6
LARGE_BYTES = 1 << 28
# Speeds are measured on parts of a large model: runs so short that some of them are not disturbed.
PART_BYTES, N_PARTS = 1 << 26, 4
# How many copies of all tensors of the GPT are one tensor; none: its own tensors.
LAYOUTS = {"large tensors": 5, "small tensors": 0}
GOALS_OF_SPEED = {speeds.MAKE: Goal(2.5, 2.5), speeds.APPLY: Goal(4.0, 4.0)}
FASTER = Goal(1.0, 1.0)
SPEED_COLUMNS = ["data", "changed", "what", *speeds.COLUMNS]


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f} MB"


MEMORY = Goal(64e6, 64e6, smaller=True, text=_megabytes)


class Delta(Benchmark):
    """Bytes, speeds and memory of patches."""

    name = "delta"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Empty tables."""
        super().__init__(options, scratch)
        self.pairs = options.pairs
        self.pairs.mkdir(parents=True, exist_ok=True)
        self.seeds = options.seeds[:1] if options.quick else options.seeds
        self.size_lines: list[list[str]] = []
        self.speed_lines: list[list[str]] = []
        self.codec_lines: list[list[str]] = []
        self.targets = Targets(are_judged=not options.quick)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Adds where programs and weights are."""
        super().add_options(parser)
        build = Path("build")
        parser.add_argument("--build", type=Path, default=build, help="the build folder, for codec")
        parser.add_argument(
            "--pairs",
            type=Path,
            default=build / "delta-pairs",
            help="folder that keeps the trained weights (default: build/delta-pairs)",
        )
        parser.add_argument(
            "--seeds",
            type=lambda text: [int(seed) for seed in text.split(",")],
            default=[1, 2],
            help="of the batches (default: 1,2)",
        )
        parser.add_argument(
            "--repetitions", type=int, default=25, help="runs of speed, in turns (default: 25)"
        )

    def of_training(self, kind: str, rate: float, n_steps: int, seed: int) -> Pair:
        """A pair of the folder of trained weights."""
        return pairs.of_training(kind, rate, n_steps, seed, self.pairs)

    def sizes_of(
        self, row: str, pair: Pair, wanted: Sequence[str], musts: Callable[[float], Any]
    ) -> None:
        """Measures and judges a pair; `musts` are told the share of values that changed."""
        found = sizes.measure(pair, wanted)
        self.size_lines.append(found.line())
        self.say(" | ".join(self.size_lines[-1]))
        sizes.judge(row, found, musts(found.changed), self.targets)

    def bf16(self) -> None:
        """Casts of master weights, as samplers have them."""
        steps = [(rate, n) for rate in RATES for n in training.STEPS] + [(1e-4, 8)]
        for seed in self.seeds:
            for rate, n in steps:

                def musts(changed: float, rate: float = rate) -> dict[str, float]:
                    return sizes.musts_of_bf16(rate, changed)

                self.sizes_of("bf16", self.of_training("bf16", rate, n, seed), peers.ALL, musts)

    def f32(self) -> None:
        """Master weights after a step."""
        for seed in self.seeds:
            for rate in F32_RATES:
                pair = self.of_training("f32", rate, 1, seed)
                self.sizes_of("f32", pair, peers.OF_BYTES, lambda _: sizes.MUSTS_OF_F32_STEP)

    def weights(self) -> None:
        """Master weights after fifty steps of the training that made the data."""
        pair = pairs.of_checkpoints(950, 1000)
        self.sizes_of("weights", pair, peers.OF_BYTES, lambda _: sizes.MUSTS_OF_F32_STEPS)

    def codes(self, kind: str) -> None:
        """Codes of eight and four bits."""
        for seed in self.seeds:
            for rate in RATES:
                for n in training.STEPS:
                    pair = self.of_training(kind, rate, n, seed)
                    self.sizes_of(kind, pair, peers.OF_BYTES, lambda _: sizes.MUSTS_OF_CODES)

    def large(self, n_bytes: int, joined: int, first: int = 0) -> Pair:
        """Casts to BF16 of which about 1 % changes in a step; `first`: see pairs.enlarged()."""
        pair = self.of_training("bf16", ONE_PER_CENT, 1, self.seeds[0])
        return pairs.enlarged(pair, n_bytes, joined=joined, first=first)

    def speed(self) -> None:
        """Patches of a large model, made and applied with one thread."""
        for layout, joined in LAYOUTS.items():
            n_parts = 2 if self.options.quick else N_PARTS
            parts = [self.large(PART_BYTES, joined, 1000 * i) for i in range(n_parts)]
            found = speeds.compare(parts, 2 if self.options.quick else self.options.repetitions)
            for what, goal in GOALS_OF_SPEED.items():
                speed = found[what]
                times = speed.ours / speed.peer
                self.targets.judge("speed", layout, f"{what}, GB/s", speed.ours, goal)
                self.targets.judge("speed", layout, f"{what}, times", times, FASTER, speeds.PEER)
                changed = f"{100 * parts[0].changed():.2f} %"
                self.speed_lines.append([layout, changed, what, *speed.cells()])
                self.say(" | ".join(self.speed_lines[-1]))

    def memory(self) -> None:
        """The peak of a process that applies a patch, beyond the model and the patch."""
        program = Path(__file__).with_name("memory_run.py")
        for layout, joined in LAYOUTS.items():
            pair = self.large(LARGE_BYTES, joined)
            weights, patch = self.scratch / "old.safetensors", self.scratch / "patch.cfck"
            save_file(dict(pair.old), weights)
            patch.write_bytes(sizes.patch_of(pair))
            for threads in (1,) if self.options.quick else (1, 2):
                command = [sys.executable, program, weights, patch, str(threads)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
                what = f"peak of apply, {threads} thread{'s' if threads > 1 else ''}"
                against = f"a model of {_megabytes(weights.stat().st_size)}"
                self.targets.judge("memory", layout, what, int(done.stdout), MEMORY, against)
                self.say(" | ".join(self.targets.lines[-1]))

    def codec(self) -> None:
        """The codec alone, for information."""
        program = self.options.build / "bench" / "delta_bench"
        if not program.is_file():
            self.targets.skip("codec", "-", "delta_bench is not built in the folder of --build")
            return
        subjects = [self.of_training("bf16", rate, 1, self.seeds[0]) for rate in RATES]
        subjects += [
            self.of_training("f32", 1e-6, 1, self.seeds[0]),
            self.large(1 << 24, 1),
        ]
        for pair in subjects:
            repetitions = 3 if self.options.quick else 30
            self.codec_lines.append(codec_alone.measure(program, pair, repetitions, self.scratch))
            self.say(" | ".join(self.codec_lines[-1]))

    rows: ClassVar[Mapping[str, Callable[[Any], None]]] = {
        "bf16": bf16,
        "f32": f32,
        "weights": weights,
        "f8": lambda self: self.codes("f8"),
        "int4": lambda self: self.codes("int4"),
        "speed": speed,
        "memory": memory,
        "codec": codec,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """The versions of the peers."""
        versions = ", ".join(f"{name} {version}" for name, version in peers.versions().items())
        return {"peers": versions}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        for title, columns, lines in (
            ("Bytes", sizes.COLUMNS, self.size_lines),
            ("Speeds", SPEED_COLUMNS, self.speed_lines),
            ("The codec alone", codec_alone.COLUMNS, self.codec_lines),
        ):
            if lines:
                body += [f"## {title}", "", report.markdown_table(columns, lines)]
        head = report.page_head("Patches between checkpoints", command, facts)
        return {f"delta-{report.file_stem(facts)}.md": "\n".join([*head, *body])}


COMMAND = Delta
