"""Computes how long kernels encode on an H200, and compares that with what was measured there: the
row `encode` of kernel_model.py, with the same network of units (launches.py).

A block of eight warps has a chunk, so two warps of it share each scheduler, and as many blocks are
at work as the scratch memory is enough for, two on a multiprocessor at most. All phases of a group
are taken together, and so is what is done once for a chunk: the cycles from one instruction of a
warp to its next come from a launch of as many chunks as blocks, and hold for every kernel.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from common import report
from gpu.kernel_variants import GROUP, LIMIT, summary
from gpu.launches import Machine, launch_cycles, turn_cycles

TABLE = Path(__file__).parent / "encode_variants.csv"
# results/gpu-nvidia-h200.md: how fast the device copies.
H200 = Machine(multiprocessors=132, schedulers=4, hertz=1.98e9, bytes_a_second=4200e9)
WARPS = 8  # of a block: cuda/kernels/launch_shapes.hpp
OF_SCHEDULER = WARPS // 4
CHUNK = 2**18
SCRATCH = 240  # MiB of a message: cuda.hpp
PASS_BYTES = 16 * 2**20  # of a file with a maximum error, encoded at once


@dataclass(frozen=True)
class Encoder:
    """A kernel: what a group takes of the schedulers, and a chunk of the memory."""

    name: str
    value_bytes: int
    ratio: float
    # All warps issue so many for a group, and keep units busy for so many cycles:
    # results/device-instructions-sm90.md.
    instructions: float
    integers: float
    slow: float
    # A chunk of 2^18 values takes so many, as codec/lossless/device/encode_layout.hpp and
    # codec/direct/device/encode_layout.hpp compute it.
    block_bytes: int
    doubles: float = 0
    errors: float = 0  # instructions of one warp for a group
    blocks: int = 2  # that fit a multiprocessor

    def demands(self) -> list[float]:
        """The cycles that a group keeps units busy."""
        return [self.instructions, self.integers, self.slow, self.doubles]

    def compared_with(self, lossless: Encoder) -> Encoder:
        """Returns this kernel where it encodes chunks without loss as well, and keeps meanwhile
        what is in shared memory (kDirectResultRoom)."""
        return replace(
            self,
            name=f"{self.name}, compared",
            instructions=self.instructions + lossless.instructions,
            integers=self.integers + lossless.integers,
            slow=self.slow + lossless.slow,
            block_bytes=self.block_bytes + 10240 + lossless.block_bytes,
        )


LOSSLESS = {
    "f64": Encoder("lossless F64", 8, 1.15, 852, 999, 104, 2_562_176),
    "f32": Encoder("lossless F32", 4, 1.20, 638, 752, 104, 1_472_640),
    "bf16": Encoder("lossless BF16", 2, 1.50, 616, 775, 96, 878_720),
    "f16": Encoder("lossless F16", 2, 1.17, 674, 833, 96, 977_024),
}
DIRECT = {
    "f64": Encoder("direct F64", 8, 7.11, 1067, 954, 152, 1_953_920, 128, 78, blocks=1),
    "f32": Encoder("direct F32", 4, 3.56, 1019, 876, 344, 1_437_824, 128, 78),
    "bf16": Encoder("direct BF16", 2, 1.78, 1063, 996, 344, 1_147_008, 128, 101),
    "f16": Encoder("direct F16", 2, 1.78, 1231, 1252, 312, 1_147_008, 144, 162),
}


@dataclass(frozen=True)
class Launch:
    """Chunks that one launch encodes."""

    encoder: Encoder
    megabytes: float
    messages: int = 1  # tensors of equal length
    scratch: float = SCRATCH

    @cached_property
    def sizes(self) -> list[int]:
        """The values of each chunk."""
        n_values = round(self.megabytes * 1e6 / self.messages / self.encoder.value_bytes)
        whole, rest = divmod(n_values, CHUNK)
        return ([CHUNK] * whole + [rest] * (rest > 0)) * self.messages

    @property
    def n_blocks(self) -> int:
        """How many blocks are at work at once."""
        room = int(self.scratch * 2**20) // self.encoder.block_bytes
        return min(len(self.sizes), room, H200.multiprocessors * self.encoder.blocks)

    @property
    def floor(self) -> float:
        """The seconds that the memory takes if values are read once, and nothing is written but
        messages."""
        n_bytes = sum(self.sizes) * self.encoder.value_bytes
        return n_bytes * (1 + 1 / self.encoder.ratio) / H200.bytes_a_second


def turns_of(encoder: Encoder, step: float) -> list[float]:
    """The cycles of a group where 0, 1, … blocks share a multiprocessor: two warps of each on a
    scheduler."""
    n_warps = OF_SCHEDULER * encoder.blocks
    turns = turn_cycles(step * encoder.instructions, encoder.demands(), n_warps)
    return turns[::OF_SCHEDULER]


def chunk_cycles(encoder: Encoder, step: float, n_values: int, with_errors: bool = False) -> float:
    """The cycles of a chunk that has a multiprocessor for itself. Errors are added up by one warp,
    for which all others wait."""
    n_groups = n_values / GROUP
    errors = step * encoder.errors * n_groups if with_errors else 0
    return n_groups / WARPS * turns_of(encoder, step)[1] + errors


def seconds_of(launch: Launch, step: float) -> float:
    """How long a launch takes; nothing is known of errors in messages, so none are added up."""
    turns = turns_of(launch.encoder, step)
    slower = [turn / turns[1] for turn in turns]
    places = range(H200.multiprocessors)
    first = [len(range(place, launch.n_blocks, H200.multiprocessors)) for place in places]
    chunks = [chunk_cycles(launch.encoder, step, n_values) for n_values in launch.sizes]
    return max(launch_cycles(chunks, first, slower) / H200.hertz, launch.floor)


@dataclass(frozen=True)
class Measured:
    """A launch that was measured."""

    variant: str
    role: str  # constant or check
    launch: Launch
    rest: float  # ms of a call beside the kernel
    ms: float
    within: str  # whether the model is right within 25 %
    why: str

    def predicted(self, step: float) -> float:
        """Returns the milliseconds by the model."""
        return seconds_of(self.launch, step) * 1e3 + self.rest

    def error(self, step: float) -> float:
        """How much longer than measured that is."""
        return self.predicted(step) / self.ms - 1


def read_measured(path: Path = TABLE) -> list[Measured]:
    """The table of what was measured."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    found = []
    for row in rows:
        encoder = replace(
            LOSSLESS[row["values"]],
            instructions=float(row["instructions"]),
            integers=float(row["integers"]),
            slow=float(row["slow"]),
        )
        launch = Launch(
            encoder, float(row["megabytes"]), int(row["messages"]), float(row["scratch"])
        )
        rest, ms = float(row["rest"]), float(row["ms"])
        found.append(
            Measured(row["variant"], row["role"], launch, rest, ms, row["within"], row["why"])
        )
    return found


def step_of(measured: Sequence[Measured]) -> float:
    """The cycles an instruction of a warp that has a scheduler for itself, from the row that is
    there for it."""
    [row] = [row for row in measured if row.role == "constant"]
    low, high = 1.0, 30.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if row.error(middle) > 0 else (middle, high)
    return low


def launches_of_today() -> list[Launch]:
    """1 GB as a message by each kernel of this version. In a half-precision float a maximum error
    of 1e-3 of the range takes more than half of the bits, and chunks are compared."""
    encoders = [*LOSSLESS.values(), *DIRECT.values()]
    encoders += [DIRECT[values].compared_with(LOSSLESS[values]) for values in DIRECT]
    return [Launch(encoder, 1000.0) for encoder in encoders]


MEASURED_COLUMNS = ["variant", "values", "MB", "messages", "scratch, MiB", "blocks"]
MEASURED_COLUMNS += ["instructions", "measured, ms", "predicted, ms", "error", "remark"]
TODAY_COLUMNS = ["values", "instructions", "memory of a block, MB", "blocks", "chunk alone, ms"]
TODAY_COLUMNS += ["1 GB, ms", "GB/s", "issue slots", "floor, GB/s"]
FILE_COLUMNS = ["values", "chunks of a pass", "chunk, ms", "of these, errors", "GB/s"]


def _measured_table(measured: Sequence[Measured], step: float) -> str:
    lines, errors = [], []
    for row in measured:
        launch = row.launch
        cells = [row.variant, launch.encoder.name, f"{launch.megabytes:.0f}"]
        cells += [f"{launch.messages}", f"{launch.scratch:.0f}", f"{launch.n_blocks}"]
        cells += [f"{launch.encoder.instructions:.0f}", f"{row.ms:.3f}"]
        cells += [f"{row.predicted(step):.3f}", f"{row.error(step):+.0%}"]
        role = "gives the constant" if row.role == "constant" else row.why
        lines.append([*cells, role])
        if row.role == "check":
            errors.append(row.error(step))
    table = report.markdown_table(MEASURED_COLUMNS, lines)
    return table + "\n" + summary(errors, len(errors))


def _today_table(step: float) -> str:
    lines = []
    for launch in launches_of_today():
        encoder, seconds = launch.encoder, seconds_of(launch, step)
        alone = chunk_cycles(encoder, step, CHUNK) / H200.hertz
        n_values = sum(launch.sizes)
        slots = H200.multiprocessors * H200.schedulers * seconds * H200.hertz
        lines.append(
            [
                encoder.name,
                f"{encoder.instructions:.0f}",
                f"{encoder.block_bytes / 1e6:.2f}",
                f"{launch.n_blocks}",
                f"{alone * 1e3:.2f}",
                f"{seconds * 1e3:.2f}",
                f"{n_values * encoder.value_bytes / seconds / 1e9:.0f}",
                f"{n_values / GROUP * encoder.instructions / slots:.0%}",
                f"{n_values * encoder.value_bytes / launch.floor / 1e9:.0f}",
            ]
        )
    return report.markdown_table(TODAY_COLUMNS, lines)


def _file_table(step: float) -> str:
    lines = []
    for values, encoder in DIRECT.items():
        if encoder.ratio < 2:
            encoder = encoder.compared_with(LOSSLESS[values])
        n_chunks = PASS_BYTES // (CHUNK * encoder.value_bytes)
        whole = chunk_cycles(encoder, step, CHUNK, with_errors=True)
        errors = whole - chunk_cycles(encoder, step, CHUNK)
        seconds = whole / H200.hertz
        cells = [encoder.name, f"{n_chunks}", f"{seconds * 1e3:.2f}", f"{errors / whole:.0%}"]
        lines.append([*cells, f"{PASS_BYTES / seconds / 1e9:.1f}"])
    return report.markdown_table(FILE_COLUMNS, lines)


def tables() -> tuple[dict[str, str], list[str]]:
    """The tables, and the rows where the model is not right any more."""
    measured = read_measured()
    step = step_of(measured)
    wrong = [
        f"{row.variant}, {row.launch.encoder.name}, {row.ms} ms: {row.error(step):+.0%}"
        for row in measured
        if row.within == "yes" and abs(row.error(step)) > LIMIT
    ]
    constant = f"{step:.2f} cycles an instruction, a warp that has a scheduler for itself.\n"
    return {
        "Encoding on an H200: what was measured": constant + "\n" + _measured_table(measured, step),
        "Encoding on an H200: kernels of this version, messages": _today_table(step),
        "Encoding on an H200: a pass of a file with a maximum error": _file_table(step),
    }, wrong
