"""Counts the instructions that the warps of a block issue for a group of 128 values while they
encode, phase by phase, from the machine code of the kernels that encode. device_instructions.py
prints the table, and says what is counted of kernels that decode.

The phases are those of codec/lossless/device/encode.cuh and codec/direct/device/encode.cuh. Each is
a loop that is known by the work which it does for a common group: whole, with signs, without
trailing zero bits, without an escape, one step for the whole tensor, no prediction, no scale field.

- *analysed*, or *quantised*: values are asked for, reduced over the warp, and the code of the group
  is stored. What is decoded is not stored, as for a message.
- *split*: values are asked for again, and symbols, raw bits and the place of the table are stored;
  of every eighth group the symbols are counted.
- *coded*: a warp has two of the four lane sets, and a turn of the loop is four groups. Loops for
  other numbers of lane sets store more words, or fewer, and so are not taken for it.
- *copied*: eight words by each lane in a turn; of the loops that do this the median.
- *errors*: sums over 256 values by one warp, where a file has to tell them, of what is decoded.

Left out is what is done once for a chunk or a segment (tables, headers, states), or by a lane for
each group (bins, trailing zero bits).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from machine_code import Block, Instruction, Loop, cheapest_way, loops_of

GROUP = 128
COUNTED = 8  # of so many groups, the symbols of one
CODED_GROUPS, CODED_SETS, SETS = 4, 2, 4  # of a turn of the loop that codes
COPIED_BYTES = 8 * 4 * 32  # of a turn of a loop that copies, by a warp
ERROR_GROUPS = 2  # of a turn of the loop that adds up errors

# Units of a scheduler that several warps want, and their cycles for an instruction of a warp (CUDA
# C++ Programming Guide, throughput of native arithmetic instructions, compute capability 9.0).
UNITS: Mapping[str, tuple[int, frozenset[str]]] = {
    "integers": (
        2,
        frozenset("IADD3 ISETP LEA LOP3 PLOP3 PRMT SEL SHF VIADD VIMNMX VIMNMX3".split()),
    ),
    "slow": (8, frozenset("POPC FLO REDUX F2F F2I I2F MUFU".split())),
    "doubles": (2, frozenset("DADD DMUL DFMA DSETP".split())),
}

KINDS = {
    "REDUX": "reduction",
    "SHFL": "shuffle",
    "DMUL": "product",
    "DSETP": "comparison",
    "POPC": "bits counted",
}
# 256 values: of each the error is squared, and compared with the largest so far. Another warp adds
# up the squares of the values meanwhile, which takes less.
ERROR_WORK = {"product": 8, "comparison": 8}

Mix = Mapping[str, float]  # how often each opcode is issued


@dataclass(frozen=True)
class Encoder:
    """A kernel that encodes, and its values."""

    name: str
    value_bytes: int
    stored_bytes: float  # of a group
    is_direct: bool

    def phases(self) -> dict[str, dict[str, int]]:
        """The work of each phase but the last one."""
        wide = {"wide load": max(1, self.value_bytes // 4)}
        found = {"product": 8, "comparison": 12} if self.is_direct else {}
        reductions = 4 if self.value_bytes == 8 and not self.is_direct else 3
        analysed = wide | found | {"reduction": reductions, "halfword": 2}
        return {"analysed": analysed, "split": wide | found | self.stores()}

    def stores(self) -> dict[str, int]:
        """Each group stores symbols, and raw bits of 5, or of 4, 7, 7 or 10 bits (of F64
        and F32 six or two words of low bytes, the two of a lane at once). Words that are put
        together of three lanes take three shuffles."""
        if self.name.endswith("lossless_f16"):
            return {"word": 2, "shuffle": 1, "byte": 3}
        n_words = 8 if self.name.endswith("lossless_f64") else 2
        return {"word": n_words, "shuffle": 3, "byte": 1}


@dataclass(frozen=True)
class EncoderCount:
    """The instructions of a kernel for a group, all warps of a block together."""

    encoder: Encoder
    phases: Mapping[str, Mix]
    errors: Mix | None  # by one warp

    @property
    def instructions(self) -> float:
        """All phases issue so many."""
        return sum(sum(mix.values()) for mix in self.phases.values())

    def cycles(self, unit: str) -> float:
        """How long a scheduler's unit takes for them."""
        return sum(cycles_of(mix, unit) for mix in self.phases.values())


def cycles_of(mix: Mix, unit: str) -> float:
    """How long a scheduler's unit takes for instructions of a warp."""
    cycles, names = UNITS[unit]
    return cycles * sum(n for name, n in mix.items() if name in names)


def kind_of(instruction: Instruction) -> str:
    """Which part of the work of a phase an instruction does."""
    name, opcode = instruction.name, instruction.opcode
    is_wide = opcode.endswith((".64", ".128"))
    if name in ("LD", "LDG"):
        return "wide load" if is_wide else "load"
    if name == "LDS":
        return "entry" if is_wide else ""
    if name in ("ST", "STG"):
        size = opcode.split(".")[-1]
        return {"E": "word", "U16": "halfword", "U8": "byte"}.get(size, "")
    if opcode.startswith("ATOMS.ADD"):
        return "symbol counted"
    return KINDS.get(name, "")


def kinds_of(blocks: list[Block], loop: Loop) -> Counter[str]:
    """How often each kind is in a loop, on whichever way."""
    return Counter(kind_of(each) for number in loop.blocks for each in blocks[number].instructions)


def mix_of(blocks: list[Block], loops: list[Loop], work: Mapping[str, int]) -> Mix:
    """The opcodes on the cheapest way around a loop that does some work: the smallest such loop."""
    for loop in loops:
        if way := cheapest_way(blocks, loop, work, kind_of):
            return way.mix()
    raise ValueError(f"no loop does this work: {work}")


def scaled(mix: Mix, factor: float) -> Mix:
    """Multiplies a mix."""
    return {name: n * factor for name, n in mix.items()}


def split_mix(blocks: list[Block], loops: list[Loop], work: Mapping[str, int]) -> Mix:
    """A group that is split has this mix, with its share of those whose symbols are counted."""
    usual = mix_of(blocks, loops, work)
    counted = mix_of(blocks, loops, {**work, "symbol counted": 4})
    names = usual.keys() | counted.keys()
    share = 1 / COUNTED
    return {n: usual.get(n, 0) * (1 - share) + counted.get(n, 0) * share for n in names}


def coded_mix(blocks: list[Block], loops: list[Loop], is_direct: bool) -> Mix:
    """A group whose four lane sets are coded by two warps has this mix. Codec direct finds its
    tables by an address that is looked up."""
    n_steps = CODED_GROUPS * CODED_SETS
    entries = "wide load" if is_direct else "entry"
    work = {"halfword": n_steps, entries: n_steps, "bits counted": 2 * n_steps}
    right = [loop for loop in loops if kinds_of(blocks, loop)["halfword"] == n_steps]
    return scaled(mix_of(blocks, right, work), SETS / CODED_SETS / CODED_GROUPS)


def copied_mix(blocks: list[Block], loops: list[Loop], encoder: Encoder) -> Mix:
    """A group that is copied has this mix. Codec direct does not know which memory it copies
    from."""
    opcode = "LD.E" if encoder.is_direct else "LDG.E"
    mixes = []
    for loop in loops:
        found = [each for number in loop.blocks for each in blocks[number].instructions]
        opcodes = Counter(each.opcode for each in found)
        if len(loop.blocks) == 1 and opcodes[opcode] == 16 and opcodes["STG.E"] == 8:
            mixes.append(Counter(each.name for each in found))
    median = statistics.median_low(mix.total() for mix in mixes)
    mix = next(mix for mix in mixes if mix.total() == median)
    return scaled(mix, encoder.stored_bytes / COPIED_BYTES)


def count_encoder(encoder: Encoder, blocks: list[Block]) -> EncoderCount:
    """Counts the instructions of one kernel."""
    loops = loops_of(blocks)
    work = encoder.phases()
    phases = {
        "analysed": mix_of(blocks, loops, work["analysed"]),
        "split": split_mix(blocks, loops, work["split"]),
        "coded": coded_mix(blocks, loops, encoder.is_direct),
        "copied": copied_mix(blocks, loops, encoder),
    }
    errors = None
    if encoder.is_direct:
        errors = scaled(mix_of(blocks, loops, ERROR_WORK), 1 / ERROR_GROUPS)
    return EncoderCount(encoder, phases, errors)


COLUMNS = [
    "kernel",
    "ratio",
    "analysed",
    "split",
    "coded",
    "copied",
    "all",
    "integers",
    "slow unit",
]
COLUMNS += ["doubles", "errors, by one warp"]


def encoder_rows(counts: list[EncoderCount]) -> list[list[str]]:
    """A table: instructions by phase, and the cycles of units."""
    rows = [COLUMNS]
    for count in counts:
        encoder = count.encoder
        rows.append(
            [
                encoder.name,
                f"{GROUP * encoder.value_bytes / encoder.stored_bytes:.2f}",
                *(f"{sum(mix.values()):.0f}" for mix in count.phases.values()),
                f"{count.instructions:.0f}",
                *(f"{count.cycles(unit):.0f}" for unit in UNITS),
                "" if count.errors is None else f"{sum(count.errors.values()):.0f}",
            ]
        )
    return rows
