"""Computes how long kernels decode on an H100, and encode on an H200 (encode_model.py), and
compares that with what was measured there.

    python bench kernel_model -o bench/results

Needs no device. Constants come from published measurements of the H100, from NVIDIA's documents,
and from those rows of kernel_variants.csv that are marked so, all of the kernels of version
79939ef8; instructions and warps of every variant are counted, not fitted. docs/devices.md describes
the model.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from common import report
from common.driver import Benchmark
from gpu import encode_model
from gpu.kernel_variants import (
    GROUP,
    LIMIT,
    PROFILED,
    SETS,
    SLOW_CYCLES,
    VALUES,
    Variant,
    read_variants,
    summary,
)
from gpu.launches import (
    Machine,
    first_teams,
    first_warps,
    launch_cycles,
    limit_cycles,
    turn_cycles,
)

# The device of the first run: its clock, and how fast it copied
# (results/gpu-nvidia-h100-80gb-hbm3.md).
H100 = Machine(multiprocessors=132, schedulers=4, hertz=1.98e9, bytes_a_second=2928e9)
# Cycles of a load on an H100 SXM: https://github.com/markdewing/AI_kernels, latency/README.md.
L1_CYCLES, L2_CYCLES, MEMORY_CYCLES = 40, 291, 700
LOAD_CYCLES = f"{L1_CYCLES}, {L2_CYCLES}, {MEMORY_CYCLES}"
# What the profiler said of base rows: of the 8.9 cycles from an instruction of a warp to its next
# 4.9 were waits for global loads (BF16, 1 GB); of 8.5 in teams of codec direct 2.8.
WAITS = 4.9
TEAM_WAITS = 2.8 / 8.5
SEGMENT_GROUPS = 512  # at most in a segment of such chunks
PLAIN_VALUES = 32_768  # from here on a chunk has four lane sets, and the loop takes it


@dataclass(frozen=True)
class Constants:
    """What base rows say; by teams: of one warp a chunk, and of a team."""

    group: Mapping[tuple[str, bool], float]  # cycles of a warp alone, by values and teams
    opening: Mapping[bool, float]  # cycles of a chunk beside its groups, by teams
    step: Mapping[bool, float]  # cycles an instruction without global loads, by teams
    raw: Mapping[str, float]  # cycles until raw bits of a group have come, by values

    def alone(self, variant: Variant) -> float | None:
        """The cycles of a group for a warp that has a scheduler for itself."""
        if variant.loads == "at use":
            return self.group.get((variant.values, variant.is_team))
        return self.step[variant.is_team] * variant.issued


CyclesOf = Callable[[float, Sequence[float], int], list[float]]


@dataclass(frozen=True)
class Launch:
    """What the model says of a launch."""

    seconds: float
    alone: float  # cycles of a group
    together: float  # where most warps share a scheduler
    n_together: int
    floor: float  # seconds that the memory needs


def launch_of(
    variant: Variant, constants: Constants, cycles_of: CyclesOf = turn_cycles
) -> Launch | None:
    """Computes a launch; None where something that is needed is not known. `cycles_of` says how
    long warps take together."""
    alone = constants.alone(variant)
    if alone is None or variant.instructions == 0:
        return None
    # Whatever is done once for a chunk is spread over its groups, beside which others work.
    opening = constants.opening[variant.opens_as_team]
    share = opening * GROUP / max(variant.sizes)
    turns = cycles_of(alone + share, variant.demands(), variant.warps // 4)
    if variant.loads == "ahead":
        turns = [max(turn, constants.raw[variant.values] + share) for turn in turns]
    slower = [turn / turns[1] for turn in turns]
    group = turns[1] - share
    general = constants.group.get((variant.values, variant.opens_as_team), math.inf)
    chunks = [
        size / GROUP * (general if size < PLAIN_VALUES else group) + opening
        for size in variant.sizes
    ]
    if variant.is_team:
        first = first_teams(H100, len(chunks), variant.warps)
    else:
        first = first_warps(H100, len(chunks), variant.warps, variant.block)
    floor = variant.moved / H100.bytes_a_second
    seconds = max(launch_cycles(chunks, first, slower) / H100.hertz, floor)
    return Launch(seconds, group, turns[max(first)] - share, max(first), floor)


def predicted(
    variant: Variant, constants: Constants, cycles_of: CyclesOf = turn_cycles
) -> float | None:
    """GB/s of decoded values."""
    launch = launch_of(variant, constants, cycles_of)
    return None if launch is None else variant.n_bytes / launch.seconds / 1e9


def _line(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The a and b for which s (a x + b) is nearest to y, in proportion, at points (x, s, y)."""
    lines = [(s * x / y, s / y) for x, s, y in points]  # u a + v b = 1
    uu, uv, vv = (
        sum(p * q for p, q in pairs)
        for pairs in ([(u, u) for u, _ in lines], lines, [(v, v) for _, v in lines])
    )
    u1, v1 = sum(u for u, _ in lines), sum(v for _, v in lines)
    determinant = uu * vv - uv * uv
    return (u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant


def _small_launches(rows: Sequence[Variant]) -> tuple[float, float]:
    """The cycles of a group and of the opening of a chunk for a warp alone, from launches of few
    chunks."""
    is_team = rows[0].is_team
    group, opening = 1000.0, 0.0
    for _ in range(20):  # how much longer warps take together depends on the result
        constants = Constants({(rows[0].values, is_team): group}, {is_team: opening}, {}, {})
        points = []
        for row in rows:
            launch = launch_of(row, constants)
            assert launch is not None
            groups = max(row.sizes) / GROUP
            slowdown = launch.seconds * H100.hertz / (groups * group + opening)
            points.append((groups, slowdown, row.n_bytes / row.gbps * H100.hertz / 1e9))
        group, opening = _line(points)
    return group, opening


def _group_of(row: Variant, opening: float) -> float:
    """The cycles of a group for a warp alone, from one large launch."""
    low, high = 100.0, 20_000.0
    for _ in range(40):
        middle = (low + high) / 2
        constants = Constants({(row.values, False): middle}, {False: opening}, {}, {})
        speed = predicted(row, constants)
        assert speed is not None
        low, high = (middle, high) if speed > row.gbps else (low, middle)
    return low


def constants_of(variants: Sequence[Variant]) -> Constants:
    """The constants, from the rows that are there for it."""
    rows = [row for row in variants if row.role == "constant"]
    one = [row for row in rows if row.values == "bf16" and not row.is_team]
    team = [row for row in rows if row.values == "bf16" and row.is_team]
    [f32] = [row for row in rows if row.values == "f32"]
    group, opening = _small_launches(one)
    team_group, team_opening = _small_launches(team)
    f32_group = _group_of(f32, opening)
    step = group / one[0].issued - WAITS
    # A warp of the base waits for words, for the record of a group, and for its raw bits.
    record = L1_CYCLES + L2_CYCLES / 32
    raw = {
        row.values: cycles - step * row.issued - VALUES[row.values].refills * MEMORY_CYCLES - record
        for row, cycles in ((one[0], group), (f32, f32_group))
    }
    return Constants(
        group={("bf16", False): group, ("bf16", True): team_group, ("f32", False): f32_group},
        opening={False: opening, True: team_opening},
        step={False: step, True: team_group * (1 - TEAM_WAITS) / team[0].issued},
        raw=raw,
    )


def error_of(
    variant: Variant, constants: Constants, cycles_of: CyclesOf = turn_cycles
) -> float | None:
    """How much faster than measured the model says that it is."""
    speed = predicted(variant, constants, cycles_of)
    return None if speed is None else speed / variant.gbps - 1


@dataclass(frozen=True)
class Form:
    """A kernel of this version: what decodes a segment."""

    sets: int  # lane sets of a warp: all, or one, where a team of four warps decodes a segment
    warps: int  # that fit a multiprocessor
    instructions: float  # of all warps, for a group: results/device-instructions-sm90.md

    def launch(self, values: str, megabytes: float, chunk: int, loads: str = "bulk") -> Variant:
        """A launch of it."""
        return Variant(
            variant="a team" if self.sets == 1 else "a warp",
            role="today",
            values=values,
            megabytes=megabytes,
            chunk=str(chunk),
            warps=self.warps,
            block=4,
            instructions=self.instructions,
            counted="machine code",
            loads=loads,
            sets=self.sets,
        )

    def launch_of_segments(self, values: str, n_segments: int) -> Variant:
        """A launch of so many segments of a small tensor."""
        n_values = n_segments * SMALL_SEGMENT - 1  # the last one makes them full
        megabytes = n_values * VALUES[values].value_bytes / 1e6
        return self.launch(values, megabytes, SMALL_SEGMENT)


# A warp for a segment, and a team.
TODAY = {
    "bf16": (Form(SETS, 16, 205), Form(1, 16, 333)),
    "f32": (Form(SETS, 16, 229), Form(1, 16, 385)),
    "f64": (Form(SETS, 16, 312), Form(1, 16, 380)),
    "direct_f32_today": (Form(SETS, 12, 258), Form(1, 16, 390)),
}
SMALL_MEGABYTES = 44.8512  # in 100 tensors
SMALL_SEGMENT = 56_064  # values of a segment of these
# Segments for each multiprocessor.
FEW_SEGMENTS = (0.5, 1, 2, 3, 4, 5, 6, 8)


def chosen_form(values: str, n_segments: int) -> Form:
    """What the host starts for so many segments (cuda/host/kernels.cpp): teams, where all of them
    are under way at once."""
    warp, team = TODAY[values]
    return team if n_segments <= H100.multiprocessors * (team.warps // 4) else warp


def kernels_of_today() -> list[Variant]:
    """The kernels of this version: 1 GB, half of it, 45 MB in 100 tensors; default chunks as one
    piece, and in their segments. Both forms where there are few segments."""
    found = []
    for values, forms in TODAY.items():
        tensor = round(SMALL_MEGABYTES * 1e6) // 100 // VALUES[values].value_bytes
        for megabytes, whole in ((1000.0, 2**18), (500.0, 2**18), (SMALL_MEGABYTES, tensor)):
            for parts in sorted({1, math.ceil(whole / GROUP / SEGMENT_GROUPS)}):
                launches = [form.launch(values, megabytes, whole // parts) for form in forms]
                is_small = megabytes == SMALL_MEGABYTES
                found += launches if is_small else launches[:1]
    return found


VARIANT_COLUMNS = ["variant", "values", "MB", "chunk", "warps", "instructions", "measured"]
VARIANT_COLUMNS += ["predicted", "error", "remark"]
TODAY_COLUMNS = [
    "values",
    "MB",
    "segment",
    "decoded by",
    "GB/s",
    "ms",
    "warps a scheduler",
    "cycles a group alone",
]
TODAY_COLUMNS += ["cycles a group together", "issue slots", "opening, of the time", "floor, GB/s"]


FEW_COLUMNS = ["values", "segments a multiprocessor", "GB/s, a warp", "GB/s, a team", "chosen"]


class KernelModel(Benchmark):
    """The tables of the model."""

    name = "kernel_model"

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        """Reads the table, and computes the constants."""
        super().__init__(options, scratch)
        self.variants = read_variants()
        self.constants = constants_of(self.variants)
        self.tables: dict[str, str] = {}
        self.wrong: list[str] = []

    def base(self) -> None:
        """The rows that give constants, and others of the same kernels."""
        for role, title in (("constant", "Rows that give constants"), ("check", "Other base rows")):
            self._compare(role, title)

    def compared(self) -> None:
        """All other kernels."""
        self._compare("variant", "Variants")
        rows = [variant for variant in self.variants if variant.role == "variant"]
        errors = [error_of(variant, self.constants, limit_cycles) for variant in rows]
        told = summary([error for error in errors if error is not None], len(rows))
        self.tables["Variants, if warps never wanted the same unit at once"] = told

    def _compare(self, role: str, title: str) -> None:
        lines, errors = [], []
        for variant in self.variants:
            if variant.role != role:
                continue
            speed, error = predicted(variant, self.constants), error_of(variant, self.constants)
            counted = (
                "" if variant.instructions == 0 else f"{variant.issued * 4 / variant.sets:.0f}"
            )
            cells = [variant.variant, VALUES[variant.values].name, f"{variant.megabytes:.0f}"]
            cells += [variant.chunk, str(variant.warps), counted or "?", f"{variant.gbps:.0f}"]
            if speed is None or error is None:
                lines.append([*cells, "-", "-", variant.why])
                continue
            errors.append(error)
            lines.append([*cells, f"{speed:.0f}", f"{error:+.0%}", variant.why])
            if variant.within == "yes" and abs(error) > LIMIT:
                self.wrong.append(f"{' '.join(cells)}: {error:+.0%}")
        self.tables[title] = report.markdown_table(VARIANT_COLUMNS, lines)
        self.tables[title] += "\n" + summary(errors, len(lines))

    def today(self) -> None:
        """The kernels of this version."""
        lines = []
        for variant in kernels_of_today():
            launch = launch_of(variant, self.constants)
            assert launch is not None
            slots = H100.multiprocessors * H100.schedulers * launch.seconds * H100.hertz
            cells = [VALUES[variant.values].name, f"{variant.megabytes:.0f}", variant.chunk]
            cells += [
                variant.variant,
                f"{variant.n_bytes / launch.seconds / 1e9:.0f}",
                f"{launch.seconds * 1e3:.2f}",
            ]
            cells += [str(launch.n_together), f"{launch.alone:.0f}", f"{launch.together:.0f}"]
            opening = self.constants.opening[False]
            cells += [
                f"{sum(variant.sizes) / GROUP * variant.issued * SETS / variant.sets / slots:.0%}",
                f"{opening / (opening + launch.together * max(variant.sizes) / GROUP):.0%}",
                f"{variant.n_bytes / launch.floor / 1e9:.0f}",
            ]
            lines.append(cells)
        self.tables["Kernels of this version, not measured"] = report.markdown_table(
            TODAY_COLUMNS, lines
        )
        self.tables["Few segments: a warp for each, or a team"] = self._few()
        self.tables["F64 without bulk copies"] = self._unstaged_f64()

    def _few(self) -> str:
        lines = []
        for values, forms in TODAY.items():
            for each in FEW_SEGMENTS:
                n_segments = round(each * H100.multiprocessors)
                cells = [VALUES[values].name, f"{each:g}"]
                for form in forms:
                    launch = form.launch_of_segments(values, n_segments)
                    cells.append(f"{predicted(launch, self.constants):.0f}")
                team = chosen_form(values, n_segments) is forms[1]
                lines.append([*cells, "a team" if team else "a warp"])
        return report.markdown_table(FEW_COLUMNS, lines)

    def _unstaged_f64(self) -> str:
        """At most, if a group waited for a load from memory once; the kernel had 321 instructions,
        and one load for each of four values."""
        lines = []
        for megabytes, chunk in ((1000.0, 2**16), (SMALL_MEGABYTES, SMALL_SEGMENT)):
            before = Form(SETS, 16, 321).launch("f64", megabytes, chunk, "at use")
            now = TODAY["f64"][0].launch("f64", megabytes, chunk)
            group = self.constants.step[False] * before.issued + MEMORY_CYCLES
            known = replace(self.constants, group={("f64", False): group})
            cells = [f"{predicted(before, known):.0f}", f"{predicted(now, self.constants):.0f}"]
            lines.append([f"{megabytes:.0f}", str(chunk), *cells])
        columns = ["MB", "segment", "GB/s, raw bits when they are needed, at most", "GB/s, in bulk"]
        return report.markdown_table(columns, lines)

    def encode(self) -> None:
        """The kernels that encode, on an H200."""
        tables, wrong = encode_model.tables()
        self.tables |= tables
        self.wrong += wrong

    rows: ClassVar[Mapping[str, Callable[[KernelModel], None]]] = {
        "base": base,
        "variants": compared,
        "today": today,
        "encode": encode,
    }

    def fail(self, row: str, reason: str) -> None:
        """Errors are what the command ends with."""
        self.wrong.append(f"{row}: {reason}")

    def failed(self) -> bool:
        """Whether the model is off where it has been right."""
        return bool(self.wrong)

    def files(self, facts: dict[str, str], command: str) -> dict[str, str]:
        """One page."""
        told = {
            "device": "H100 80GB HBM3: 132 multiprocessors with 4 schedulers at 1.98 GHz",
            "device of encoding": "H200: the same with copies of 4200 GB/s",
            "measured": "by the first run on an H100 and the variants measured there, 79939ef8",
            "commit": facts["commit"],
        }
        lines = report.page_head("A model of the kernels' time", command, told)
        lines += [
            "",
            "## Constants",
            "",
            report.markdown_table(["what", "value", "from"], self._constants()),
        ]
        for title, table in self.tables.items():
            lines += [f"## {title}", "", table]
        lines += [f"WRONG: {each}\n" for each in self.wrong]
        return {"kernel-model-h100.md": "\n".join(lines)}

    def _constants(self) -> list[list[str]]:
        c = self.constants
        small = "launches of 45 MB"
        profile = f"{small}, less {WAITS} cycles an instruction that waited for global loads"
        team = f"{small}, less a share of {TEAM_WAITS:.0%} that waited in teams of codec direct"
        waits = "what the base waits for in a group, less its words and records"
        return [
            [
                "cycles of a group in the base, BF16, a warp alone",
                f"{c.group['bf16', False]:.0f}",
                small,
            ],
            ["the same, F32", f"{c.group['f32', False]:.0f}", "the launch of 1 GB"],
            ["the same, BF16, a warp of a team", f"{c.group['bf16', True]:.0f}", small],
            [
                "opening of a chunk, one warp, us",
                f"{c.opening[False] / H100.hertz * 1e6:.0f}",
                small,
            ],
            ["opening of a chunk, a team, us", f"{c.opening[True] / H100.hertz * 1e6:.0f}", small],
            ["cycles an instruction, a warp with four lane sets", f"{c.step[False]:.2f}", profile],
            ["cycles an instruction, a warp with one", f"{c.step[True]:.2f}", team],
            ["cycles until raw bits have come, BF16", f"{c.raw['bf16']:.0f}", waits],
            ["the same, F32", f"{c.raw['f32']:.0f}", waits],
            [
                "cycles of a load from L1, L2, memory",
                LOAD_CYCLES,
                "published: github.com/markdewing/AI_kernels",
            ],
            ["cycles of a POPC or a conversion of doubles", str(SLOW_CYCLES), "NVIDIA's documents"],
            ["profiled instructions for one of the machine code", f"{PROFILED:.3f}", "a base row"],
        ]


COMMAND = KernelModel
