"""Measures decoding on a CUDA device, and loads onto it.

    python bench gpu -o bench/results

Values are random, of a spread that differs from row to row. Rates are decoded bytes by seconds,
medians. Rows `decode` and `small` take files whose bytes are on the device, several copies in
turn, and judge the time of the kernels; row `opening` takes single chunks, and judges what they
cost before the first group; rows `load` and `save` take files in the page cache, and judge whole
calls.
Results are written after every file, so that a run that is cut off leaves some.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from common import report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS


class Gpu(Benchmark):
    """The tables, and what they must show."""

    name = "gpu"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Stops at once where no device can decode."""
        import cfck

        if reason := cfck.cuda.why_not(0):
            raise SystemExit(f"nothing can be measured here: {reason}")
        from gpu.context import Context

        super().__init__(options, scratch)
        usual_scale, repeat = (0.1, 3) if options.quick else (1.0, 5)
        scale = usual_scale if options.scale is None else options.scale
        self.context = Context(scratch, scale, repeat, self.say, self.keep)
        self.machine = report.machine()

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the scale to those of all commands."""
        super().add_options(parser)
        parser.add_argument("--scale", type=float, help="of all sizes (default: 1, quick 0.1)")

    def attempt(self, row: str) -> None:
        """Runs a row, and writes what there is so far."""
        super().attempt(row)
        self.keep()

    def keep(self) -> None:
        """Writes what there is so far."""
        if (folder := self.options.output) is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        facts = self.machine | self.facts()
        for name, text in self.files(facts, "python bench gpu").items():
            (folder / name).write_text(text, encoding="utf-8")

    def copies(self) -> None:
        """Rates of plain copies, which the others are compared with."""
        pinned, on_device = self.context.rates
        tell = self.context.targets.tell
        tell("copies", "1 GiB", "pinned memory to the device", f"{pinned / 1e9:.1f} GB/s")
        tell("copies", "1 GiB", "on the device, read and written", f"{on_device / 1e9:.0f} GB/s")

    def decode(self) -> None:
        """Files of 1 GB on the device."""
        from gpu import decoding, subjects

        decoding.decode_all(self.context, "decode", subjects.large(self.context.scale))

    def small(self) -> None:
        """A small model on the device."""
        from gpu import decoding, subjects

        decoding.decode_all(self.context, "small", subjects.small(self.context.scale))

    def opening(self) -> None:
        """Single chunks on the device."""
        from gpu import opening

        opening.measure(self.context)

    def load(self) -> None:
        """Files in the page cache."""
        from gpu import loading

        loading.load_all(self.context)

    def encode(self) -> None:
        """Messages of tensors on the device."""
        from gpu import encoding

        encoding.encode_all(self.context)

    def save(self) -> None:
        """Files of tensors on the device."""
        from gpu import saving

        saving.save_all(self.context)

    def lanes(self) -> None:
        """Real models: what the device leaves to the host."""
        from gpu import lanes

        lanes.measure_all(self.context)

    def nvcomp(self) -> None:
        """Codecs of nvCOMP."""
        from gpu import codecs

        codecs.measure_all(self.context)

    rows: ClassVar[Mapping[str, Callable[[Gpu], None]]] = {
        "copies": copies,
        "decode": decode,
        "small": small,
        "opening": opening,
        "load": load,
        "encode": encode,
        "save": save,
        "lanes": lanes,
        "nvcomp": nvcomp,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.context.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed or something failed."""
        return self.context.targets.failed()

    def facts(self) -> dict[str, str]:
        """The device and the versions."""
        import cfck
        import torch

        driver_version = report.first_line(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        )
        facts = {
            "device": torch.cuda.get_device_name(0),
            "driver": driver_version,
            "cache of the device": f"{self.context.cache_bytes() / 2**20:.0f} MiB",
            "cfck": cfck.__version__,
            "torch": f"{torch.__version__}, CUDA {torch.version.cuda}",
            "peers": ", ".join(f"{name} {is_}" for name, is_ in self.context.versions.items()),
            "kernels timed by": self.context.clock,
        }
        if self.context.scale != 1:
            facts["sizes"] = f"{self.context.scale} of those of the targets"
        # A copy of the sources without their history does not know its commit.
        if commit := os.environ.get("CFCK_COMMIT"):
            facts["commit"] = commit
        return facts

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """A page, and all numbers as JSON."""
        command = re.sub(r"(-o|--output)[ =]\S+", "-o bench/results", command)
        head = report.page_head("Decoding on a CUDA device", command, facts)
        targets, results = self.context.targets, self.context.results
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, targets.lines)]
        body += [*results.tables(), FLOOR_NOTE]
        lines = [dict(zip(TARGET_COLUMNS, line, strict=True)) for line in targets.lines]
        numbers: dict[str, Any] = {"facts": facts, "targets": lines, **vars(results)}
        slug = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower()).strip("-")
        return {
            f"gpu-{slug}.md": "\n".join([*head, *body]),
            f"gpu-{slug}.json": json.dumps(numbers, indent=1) + "\n",
        }


FLOOR_NOTE = """The floor of a kernel is the time in which a copy on the device moves as many bytes
as the kernel has to: compressed bytes read, decoded ones written.
"""

COMMAND = Gpu
