"""The kernels that were measured on an H100, and what is counted of each."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TABLE = Path(__file__).parent / "kernel_variants.csv"

# The unit that counts bits and converts doubles has 16 results for each cycle and multiprocessor
# (CUDA C++ Programming Guide, throughput of native arithmetic instructions).
SLOW_CYCLES = 8
# The profiler counted 257 instructions a group where 240 are in the machine code: a base row.
PROFILED = 257 / 240

GROUP = 128
SETS = 4
RING_WORDS = 64
L2_MEGABYTES = 50
LIMIT = 0.25  # of what counts as right


@dataclass(frozen=True)
class Values:
    """A dtype and a codec."""

    name: str
    value_bytes: int
    ratio: float
    raw_bits: int
    # Cycles of the unit for integers for each instruction, in the base kernels and in those that
    # stage raw bits: results/device-instructions-sm90.md, of 79939ef8 and of ff512e01 (F64: today).
    integer_base: float
    integer_staged: float
    conversions: int = 0  # of doubles, in a group

    @property
    def refills(self) -> float:
        """How many rings of words are refilled for a group."""
        symbol_bits = 8 * self.value_bytes / self.ratio - self.raw_bits
        return GROUP * symbol_bits / 16 / RING_WORDS


VALUES = {
    "bf16": Values("lossless BF16", 2, 1.522, 7, 987 / 936, 1161 / 1064),
    "f32": Values("lossless F32", 4, 1.207, 23, 1791 / 1728, 2073 / 1885),
    "direct_f32": Values("direct F32", 4, 4.71, 3, 1473 / 1618, 1890 / 1766, conversions=4),
    "f64": Values("lossless F64", 8, 1.152, 52, 3046 / 3142, 3046 / 3142),
    "direct_f32_today": Values("direct F32", 4, 4.71, 3, 1473 / 1618, 1890 / 1766, conversions=8),
}


@dataclass(frozen=True)
class Variant:
    """Kernels of one sort with one launch, and what was measured."""

    variant: str
    role: str  # constant, check, variant or today
    values: str
    megabytes: float
    chunk: str  # values of the chunks, which take turns
    warps: int  # on a multiprocessor
    block: int
    instructions: float  # for a group; 0: not known
    counted: str
    loads: str  # raw bits: at use, ahead (in registers), prefetch (into L2), bulk
    sets: int  # lane sets of a warp
    gbps: float = 0
    within: str = ""  # whether the model is right within 25 %
    why: str = ""

    @cached_property
    def sizes(self) -> list[int]:
        """The values of each chunk of a launch."""
        wanted = self.megabytes * 1e6 / VALUES[self.values].value_bytes
        found: list[int] = []
        total = 0
        for size in itertools.cycle([int(size) for size in self.chunk.split("+")]):
            if total >= wanted:
                return found
            found.append(size)
            total += size
        return found

    @property
    def is_team(self) -> bool:
        """Whether four warps share a chunk."""
        return self.sets == 1

    @property
    def opens_as_team(self) -> bool:
        """Whether they also share its opening, and what the loop does not take. The teams of the
        base do; of the staged ones the first warp does it alone."""
        return self.is_team and self.loads == "at use"

    @property
    def n_bytes(self) -> int:
        """The bytes that are decoded."""
        return sum(self.sizes) * VALUES[self.values].value_bytes

    @property
    def issued(self) -> float:
        """The instructions of a warp for a group, as the profiler counts them."""
        of_group = self.instructions * (PROFILED if self.counted == "machine code" else 1)
        return of_group * self.sets / SETS

    @property
    def moved(self) -> float:
        """The bytes that are read and written. What is prefetched into L2 is read twice where the
        launch is larger than that."""
        times = 2 if self.loads == "prefetch" and self.megabytes > L2_MEGABYTES else 1
        return self.n_bytes * (1 + times / VALUES[self.values].ratio)

    def demands(self) -> list[float]:
        """The cycles that a warp's group keeps the issue slot, the unit for integers and the slow
        unit busy."""
        values = VALUES[self.values]
        integer = values.integer_base if self.loads == "at use" else values.integer_staged
        slow = SLOW_CYCLES * (2 * self.sets + values.conversions * self.sets / SETS)
        return [self.issued, self.issued * integer, slow]


def read_variants(path: Path = TABLE) -> list[Variant]:
    """The table of what was measured."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        Variant(
            variant=row["variant"],
            role=row["role"],
            values=row["values"],
            megabytes=float(row["megabytes"]),
            chunk=row["chunk"],
            warps=int(row["warps"]),
            block=int(row["block"]),
            instructions=float(row["instructions"] or 0),
            counted=row["counted"],
            loads=row["loads"],
            sets=int(row["sets"]),
            gbps=float(row["gbps"]),
            within=row["within"],
            why=row["why"],
        )
        for row in rows
    ]


def summary(errors: Sequence[float], n_rows: int) -> str:
    """How good the predictions are."""
    right = sum(abs(error) <= LIMIT for error in errors)
    mean = sum(map(abs, errors)) / len(errors)
    shift = sum(errors) / len(errors)
    return (
        f"{right} of {n_rows} within {LIMIT:.0%}, {n_rows - len(errors)} not computed; "
        f"the mean error is {mean:.1%}, the mean with signs {shift:+.1%}.\n"
    )
