"""Measures what cfck does with the files of other programs.

    CFCK_DATA=/path/to/data python bench formats -o bench/results --build build

Rows: a module of 1 GB saved and loaded by libtorch (the program bench/libtorch_bench of --build);
MiniLM as a .pt file, converted by the program and by PyTorch in a process that has it imported;
archives of 10,000 tensors, listed; files of 2 GB, converted; 1,000 small HDF5 files, listed and
loaded, against the cfck of another Python (--before, its executable).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from common import data, measure, report
from common.driver import Benchmark
from common.product import Unavailable
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets
from formats import small_hdf5

COLUMNS = ["row", "what", "value"]
MANY = 10_000
LARGE_BYTES = 2_000_000_000
MAX_MEMORY = 300_000_000


def _program() -> str:
    import sys

    return str(Path(sys.executable).parent / "cfck")


class Formats(Benchmark):
    """The table, and what it must show."""

    name = "formats"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Nothing yet."""
        super().__init__(options, scratch)
        self.lines: list[list[str]] = []
        self.targets = Targets()

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        """Where the compiled program is."""
        super().add_options(parser)
        parser.add_argument("--build", type=Path, default=Path("build"), help="the build folder")
        parser.add_argument("--before", type=Path, help="the Python with an earlier cfck")

    def tell(self, row: str, what: str, value: str) -> None:
        """A line of the table."""
        self.lines.append([row, what, value])
        self.say(" | ".join(self.lines[-1]))

    def libtorch(self) -> None:
        """A module of 1 GB, two threads; both sides sync."""
        program = self.options.build / "bench" / "libtorch_bench"
        if not program.exists():
            raise Unavailable(f"{program} is not there: build with CFCK_BUILD_BENCH and libtorch")
        weights = data.minilm_path()
        runs = "1" if self.options.quick else "9"
        done = subprocess.run(
            [program, weights, self.scratch, runs], check=True, capture_output=True, text=True
        )
        found = [json.loads(line) for line in done.stdout.splitlines()]
        mid = {key: statistics.median(run[key] for run in found) for key in found[0]}
        torch_save = mid["torch_save"] + mid["torch_sync"]
        for what, value in (
            ("torch::save", mid["torch_save"]),
            ("torch::save and fsync", torch_save),
            ("cfck save, with fsync", mid["cfck_save"]),
            ("torch::load", mid["torch_load"]),
            ("cfck load", mid["cfck_load"]),
        ):
            self.tell("libtorch", what, f"{value:.3f} s")
        ratio = mid["pt_bytes"] / mid["cfck_bytes"]
        self.tell("libtorch", ".pt over .cfck, bytes", f"{ratio:.4f}")
        judge = self.targets.judge
        judge("libtorch", "1 GB", "save", torch_save / mid["cfck_save"], Goal(1.0, 1.2))
        judge("libtorch", "1 GB", "load", mid["torch_load"] / mid["cfck_load"], Goal(1.0, 1.5))
        done = subprocess.run(
            [program, weights, self.scratch, "memory"], check=True, capture_output=True, text=True
        )
        extra = json.loads(done.stdout)["extra_bytes"] / 2**20
        goal = Goal(64, 48, smaller=True)
        judge("libtorch", "1 GB", "MB besides the parameters while loading", extra, goal)

    def pytorch(self) -> None:
        """A .pt file of MiniLM."""
        import cfck.torch
        import torch
        from safetensors.torch import load_file

        source, target = self.scratch / "minilm.pt", self.scratch / "minilm.cfck"
        torch.save(load_file(data.minilm_path()), source)

        def by_program() -> None:
            subprocess.run([_program(), "convert", "-fq", source, target], check=True)

        def by_torch() -> None:
            cfck.torch.save_file(torch.load(source, weights_only=True), target)

        actions: dict[str, Callable[[], object]] = {"program": by_program, "PyTorch": by_torch}
        times = measure.alternate(actions, 1 if self.options.quick else 9)
        for name, time in times.items():
            self.tell("pytorch", f".pt to .cfck by {name}", f"{time.wall:.3f} s")
        by_program()
        expected, loaded = torch.load(source), cfck.torch.load_file(target)
        if not all(torch.equal(loaded[name], tensor) for name, tensor in expected.items()):
            raise measure.RoundTripError("MiniLM differs")
        faster = times["PyTorch"].wall / times["program"].wall
        self.targets.judge(
            "pytorch", "MiniLM", "speed over torch.load, save_file", faster, Goal(1.3, 1.5)
        )

    def many(self) -> None:
        """10,000 tensors, listed."""
        for path, limit in self._many_files():
            runs = [
                measure.run_program([_program(), "show", path]).wall
                for _ in range(3 if self.options.quick else 9)
            ]
            milliseconds = statistics.median(runs) * 1000
            self.tell(
                "many", f"cfck show of {MANY:,} tensors, {path.suffix}", f"{milliseconds:.0f} ms"
            )
            goal = Goal(limit, limit / 2, smaller=True)
            self.targets.judge("many", path.suffix, "ms", milliseconds, goal)

    def _many_files(self) -> Iterator[tuple[Path, float]]:
        rng = np.random.default_rng(0)
        tensors = {f"block.{i}.weight": rng.random((8, 8), np.float32) for i in range(MANY)}
        import cfck.numpy
        import safetensors.numpy
        import torch

        stem = self.scratch / "many"
        cfck.numpy.save_file(tensors, stem.with_suffix(".cfck"))
        safetensors.numpy.save_file(tensors, stem.with_suffix(".safetensors"))
        np.savez(stem.with_suffix(".npz"), **tensors)
        torch.save({k: torch.from_numpy(v) for k, v in tensors.items()}, stem.with_suffix(".pt"))
        for suffix in (".cfck", ".safetensors", ".npz"):
            yield stem.with_suffix(suffix), 100
        yield stem.with_suffix(".pt"), 500
        if importlib.util.find_spec("h5py") is None:
            self.say("SKIPPED HDF5: h5py is missing")
            return
        import h5py

        with h5py.File(stem.with_suffix(".h5"), "w") as file:
            for name, tensor in tensors.items():
                file[name.replace(".", "/")] = tensor
        yield stem.with_suffix(".h5"), 500

    def large(self) -> None:
        """Files of 2 GB, converted both ways."""
        rng = np.random.default_rng(0)
        base = (0.02 * rng.standard_normal((4096, 4096))).astype(np.float32)
        n_tensors = 1 if self.options.quick else LARGE_BYTES // base.nbytes + 1
        tensors = {f"layer{i}": np.roll(base, i, 0) * (1 + i / 100) for i in range(n_tensors)}
        suffixes = [".npz", ".pt"] + ([".h5"] if importlib.util.find_spec("h5py") else [])
        for suffix in suffixes:
            source, target = self.scratch / f"large{suffix}", self.scratch / "large.cfck"
            self._write_large(source, tensors)
            runs = {f"{suffix} to .cfck": (source, target)}
            if suffix != ".pt":
                runs[f".cfck to {suffix}"] = (target, self.scratch / f"back{suffix}")
            for what, (one, other) in runs.items():
                run = measure.run_program([_program(), "convert", "-fq", one, other])
                megabytes = run.peak_bytes / 1e6
                self.tell("large", what, f"{run.wall:.2f} s, {megabytes:.0f} MB")
                goal = Goal(MAX_MEMORY / 1e6, 100, smaller=True)
                self.targets.judge("large", what, "MB of memory", megabytes, goal)
            for path in self.scratch.iterdir():
                path.unlink()

    @staticmethod
    def _write_large(path: Path, tensors: dict[str, np.ndarray]) -> None:
        if path.suffix == ".npz":
            np.savez(path, **tensors)
        elif path.suffix == ".pt":
            import torch

            torch.save({k: torch.from_numpy(v) for k, v in tensors.items()}, path)
        else:
            import h5py

            with h5py.File(path, "w") as file:
                for name, tensor in tensors.items():
                    file[name] = tensor

    def small(self) -> None:
        """Small HDF5 files, against an earlier version."""
        import sys

        if self.options.before is None:
            raise Unavailable("--before names the Python with the cfck that this is compared with")
        folder = self.scratch / "small"
        folder.mkdir()
        small_hdf5.write_files(folder)
        found = small_hdf5.compared(
            self.options.before, Path(sys.executable), folder, 1 if self.options.quick else 5
        )
        for what, (before, after) in found.items():
            self.tell("small", f"HDF5 files, {what}: before", f"{before:.2f} s")
            self.tell("small", f"HDF5 files, {what}: now", f"{after:.2f} s")
            goal = Goal(1.5, 1.0, smaller=True)
            self.targets.judge("small", "1,000 .h5", f"{what}, over before", after / before, goal)

    rows: ClassVar[Mapping[str, Callable[[Formats], None]]] = {
        "libtorch": libtorch,
        "pytorch": pytorch,
        "many": many,
        "large": large,
        "small": small,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors stand in the table of targets."""
        self.targets.fail(row, "-", reason)

    def failed(self) -> bool:
        """Whether a target was missed."""
        return self.targets.failed()

    def facts(self) -> dict[str, str]:
        """Versions."""
        import cfck
        import torch

        return {"cfck": cfck.__version__, "peers": f"torch {torch.__version__}"}

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page, and the table as CSV."""
        head = report.page_head("Files of other programs", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        body += ["## Measurements", "", report.markdown_table(COLUMNS, self.lines)]
        stem = f"formats-{report.file_stem(facts)}"
        return {
            f"{stem}.md": "\n".join([*head, *body]),
            f"{stem}.csv": report.csv_text({}, COLUMNS, self.lines),
        }


COMMAND = Formats
