"""Measures the HDF5 filter of cfck beside those of hdf5plugin.

    CFCK_DATA=/path/to/data python bench hdf5 -o bench/results

Every codec gets the same float32 datasets and chunks, through h5py, in a file in memory. Bytes are
those of the stored chunks. Speeds are those of writing and of reading all datasets, one thread,
medians of runs in which the codecs alternate. Bounds are a thousandth of the range of a dataset,
given as an absolute error; the largest error is compared in float64.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from common import measure, report
from common.driver import Benchmark
from common.targets import COLUMNS as TARGET_COLUMNS
from common.targets import Goal, Targets
from hdf5_filters import subjects

REL = 1e-3
# The options of create_dataset for a bound; None: lossless.
Options = Callable[[float], dict[str, Any]]
COLUMNS = ["data", "kind", "filter", "ratio", "write GB/s", "read GB/s", "largest error / bound"]


def lossless_filters() -> dict[str, Options]:
    """What keeps every bit."""
    import cfck.hdf5
    import hdf5plugin

    blosc = hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.SHUFFLE)
    return {
        "cfck": lambda _: dict(cfck.hdf5.filter()),
        "Zstd 3": lambda _: dict(hdf5plugin.Zstd(clevel=3)),
        "Blosc2, shuffle, zstd 5": lambda _: dict(blosc),
    }


def bounded_filters(block: tuple[int, ...]) -> dict[str, Options]:
    """What keeps a maximum error."""
    import cfck.hdf5
    import hdf5plugin

    return {
        "cfck": lambda e: dict(cfck.hdf5.filter(max_abs_error=e)),
        f"cfck, spectral, block {block}": lambda e: dict(
            cfck.hdf5.filter(max_abs_error=e, codec="spectral", block=block, written_once=True)
        ),
        # Of the range of each chunk, which is smaller than that of the dataset.
        "cfck, max_rel_error": lambda _: dict(cfck.hdf5.filter(max_rel_error=REL)),
        "cfck, max_rel_error, written once": lambda _: dict(
            cfck.hdf5.filter(max_rel_error=REL, written_once=True)
        ),
        "SZ3": lambda e: dict(hdf5plugin.SZ3(absolute=e)),
        "zfp": lambda e: dict(hdf5plugin.Zfp(accuracy=e)),
    }


class Run:
    """A filter on a subject: the file in memory, and what to time."""

    def __init__(self, subject: subjects.Subject, options: Options, bounds: list[float]) -> None:
        """Writes once, and compares."""
        import h5py

        self.subject = subject
        self.options = [options(bound) for bound in bounds]
        self.file = h5py.File.in_memory()
        self.out = [np.empty_like(array) for array in subject.arrays]
        self.write()
        datasets = self.file.values()
        self.stored = sum(dataset.id.get_storage_size() for dataset in datasets)
        self.read()
        errors = [
            np.abs(a.astype(np.float64) - b).max() / bound
            for a, b, bound in zip(subject.arrays, self.out, bounds, strict=True)
        ]
        self.worst = max(errors)

    def write(self) -> None:
        """All datasets, anew."""
        import h5py

        self.file.close()
        self.file = h5py.File.in_memory(rdcc_nbytes=0)
        triples = zip(self.subject.arrays, self.subject.chunks, self.options, strict=True)
        for i, (array, chunks, options) in enumerate(triples):
            self.file.create_dataset(f"{i:04}", data=array, chunks=chunks, **options)
        self.file.flush()

    def read(self) -> None:
        """All datasets."""
        for dataset, out in zip(self.file.values(), self.out, strict=True):
            dataset.read_direct(out)


class Hdf5(Benchmark):
    """The table, and what it must show."""

    name = "hdf5"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """One thread for all."""
        super().__init__(options, scratch)
        for variable in ("BLOSC_NTHREADS", "OMP_NUM_THREADS"):
            os.environ[variable] = "1"
        self.lines: list[list[str]] = []
        self.targets = Targets()

    def measure(
        self, row: str, subject: subjects.Subject, filters: dict[str, Options], bounds: list[float]
    ) -> dict[str, tuple[float, float]]:
        """Stored bytes and seconds to read, of each filter."""
        runs = {name: Run(subject, options, bounds) for name, options in filters.items()}
        repetitions = 1 if self.options.quick else 5
        writes = measure.alternate({n: r.write for n, r in runs.items()}, repetitions)
        reads = measure.alternate({n: r.read for n, r in runs.items()}, repetitions)
        size = subject.nbytes()
        for name, run in runs.items():
            worst = "0" if row == "lossless" and run.worst == 0 else f"{run.worst:.6f}"
            speeds = [f"{size / t.wall / 1e9:.3f}" for t in (writes[name], reads[name])]
            ratio = f"{size / run.stored:.4f}"
            self.lines.append([subject.name, row, name, ratio, *speeds, worst])
            self.say(" | ".join(self.lines[-1]))
        return {name: (run.stored, reads[name].wall) for name, run in runs.items()}

    def lossless(self) -> None:
        """Every bit is kept."""
        for subject in (subjects.weights(), subjects.smooth_field()):
            found = self.measure(
                "lossless", subject, lossless_filters(), [1.0] * len(subject.arrays)
            )
            peers = [found[name] for name in found if name != "cfck"]
            size = found["cfck"][0] / min(stored for stored, _ in peers)
            speed = min(wall for _, wall in peers) / found["cfck"][1]
            if subject.name.startswith("MiniLM"):
                goal = Goal(1.0, 0.99, smaller=True)
                self.targets.judge("lossless", subject.name, "bytes / fewest", size, goal)
            else:
                self.targets.tell("lossless", subject.name, "bytes / fewest", f"{size:.4f}")
            goal = Goal(1.0, 1.5)
            self.targets.judge("lossless", subject.name, "read speed / fastest", speed, goal)

    def bounded(self) -> None:
        """A thousandth of the range."""
        for subject, block in ((subjects.weights(), (1,)), (subjects.smooth_field(), (8, 8, 8))):
            bounds = [REL * (float(a.max()) - float(a.min())) for a in subject.arrays]
            found = self.measure("REL 1e-3", subject, bounded_filters(block), bounds)
            for peer in ("SZ3", "zfp"):
                share = min(n for name, (n, _) in found.items() if "cfck" in name) / found[peer][0]
                if subject.name.startswith("MiniLM"):
                    goal = Goal(1.0, 0.95, smaller=True)
                    share = found["cfck"][0] / found[peer][0]
                    self.targets.judge("REL 1e-3", subject.name, "bytes", share, goal, peer)
                else:
                    what = "bytes, best codec"
                    self.targets.tell("REL 1e-3", subject.name, what, f"{share:.4f}", peer)

    rows: ClassVar[Mapping[str, Callable[[Hdf5], None]]] = {
        "lossless": lossless,
        "bounded": bounded,
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
        import h5py
        import hdf5plugin

        versions = f"h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}"
        return {
            "cfck": cfck.__version__,
            "peers": f"hdf5plugin {hdf5plugin.version}",
            "hdf5": versions,
        }

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page, and the table as CSV."""
        head = report.page_head("HDF5 filters", command, facts)
        body = ["", "## Targets", "", report.markdown_table(TARGET_COLUMNS, self.targets.lines)]
        body += ["## Measurements", "", report.markdown_table(COLUMNS, self.lines)]
        stem = f"hdf5-{report.file_stem(facts)}"
        return {
            f"{stem}.md": "\n".join([*head, *body]),
            f"{stem}.csv": report.csv_text({}, COLUMNS, self.lines),
        }


COMMAND = Hdf5
