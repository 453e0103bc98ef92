"""Counts the instructions that a warp issues for a group of 128 values, from the machine code of
the kernels that decode (cmake/CfckCuda.cmake), and computes what speed that allows.

    device_instructions.py FOLDER [-o FILE]    FOLDER: device_code in the build folder

Nothing is measured. What is computed is a limit: the schedulers of the device issue an instruction
in every cycle, and no warp ever waits for memory or for a result. A second limit is that of the
unit for integers, which takes two cycles for an instruction.

The group is the common one: whole, with signs, without trailing zero bits, four lane sets, no
escape, one step for the whole tensor, no mask, no prediction, no scale field. A warp decodes it, or
a quarter of it, where a team of four does. The way that a warp
takes for it is found in the graph of the code's jumps: the cheapest of all ways around a loop that
do the work of a group, because whatever is rare only adds instructions. The work is known from the
format: two words of a table and one of a ring for each of four steps, four values stored at once, a
word of packed bits, and so on (`work_of_group`). The code is there three times,
for one, two and four lane sets; with four a warp looks only once whether its rings are low, so
that way has the fewest jumps.

Refilled rings are added: what the cheapest way with a refill costs more, times the refills of an
average group, which follow from the bits that its symbols take. Left out are headers, tables and
masks, the bins (about 4 instructions for a group), what happens once in 32 groups, and the last
groups of a chunk, which are decoded twice.

Kernels that encode are counted phase by phase (encode_instructions.py).

Lanes of a warp are taken to stay together, but where they cannot: what only some lanes do counts as
well, since the warp issues it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path

from encode_instructions import Encoder, EncoderCount, count_encoder, encoder_rows
from machine_code import Block, Instruction, Way, cheapest_way, loops_of, read_listing

GROUP = 128
STEPS = 4  # of a group, 32 values each
RING_WORDS = 64  # of 16 bits, in a refill

# An H100 SXM.
DEVICE = "sm90"
MULTIPROCESSORS = 132
SCHEDULERS = 4
GIGAHERTZ = 1.755
# For these a scheduler has 16 lanes and needs two cycles: CUDA's programming guide has 64 results
# for each cycle and multiprocessor, for sums, comparisons, logic and shifts alike.
INTEGER_UNIT = {"IADD3", "ISETP", "LEA", "LOP3", "PLOP3", "PRMT", "SEL", "SHF", "VIADD", "VIMNMX"}
INTEGER_CYCLES = 2

# Four tiles of four blocks of XXH3, a quarter of the warp for each tile; shuffles bring the sums
# together.
HASH_KERNEL = "cfck_hash_extents"
HASH_BYTES = 4 * 4096
HASH_WORK = {"funnel": 128, "shuffle": 14}

DECODING = ("byte", "direct", "direct_team", "lossless", "lossless_team")
ENCODING = ("encode_direct", "encode_lossless")

INSTALL = (
    "There is no nvdisasm. Install it from CUDA's toolkit, or with\n"
    "    pip install nvidia-cuda-nvdisasm\n"
    "and say where it is with --nvdisasm if it is not found."
)


@dataclass(frozen=True)
class Kernel:
    """A kernel that decodes, and the values that it gets."""

    name: str
    value_bytes: int
    raw_bits: int  # packed, or in bytes
    low_bytes: int = 0  # of a value, stored as integers
    symbol_bits: float = 3.67  # of weights without loss: BF16 at a ratio of 1.5, F32 at 1.2
    is_direct: bool = False
    is_team: bool = False  # four warps decode a group, a lane set each

    @property
    def steps(self) -> int:
        """The steps of a warp."""
        return 1 if self.is_team else STEPS

    @property
    def stored_bytes(self) -> float:
        """The bytes of a group in a file."""
        return GROUP * (self.raw_bits / 8 + self.low_bytes + self.symbol_bits / 8)

    @property
    def refills(self) -> float:
        """How many rings a warp refills for a group, on average."""
        return GROUP * self.symbol_bits / 16 / RING_WORDS * self.steps / STEPS

    def as_team(self) -> Kernel:
        """The other form of the kernel."""
        name = "_team_".join(self.name.rsplit("_", 1))
        return replace(self, name=name, is_team=True)


# Raw bits are those of codec/symboliser/float_format.hpp with 32 symbols. Under an error bound of
# 1e-3 of the range F32 takes 9 bits a value, 5 of them raw.
KERNELS = (
    Kernel("cfck_lossless_f64", 8, 4, low_bytes=6),
    Kernel("cfck_lossless_f32", 4, 7, low_bytes=2),
    Kernel("cfck_lossless_bf16", 2, 7),
    Kernel("cfck_lossless_f16", 2, 10),
    Kernel("cfck_lossless_e5m2", 1, 2),
    Kernel("cfck_lossless_e4m3", 1, 3),
    Kernel("cfck_direct_f64", 8, 5, symbol_bits=4, is_direct=True),
    Kernel("cfck_direct_f32", 4, 5, symbol_bits=4, is_direct=True),
    Kernel("cfck_direct_bf16", 2, 5, symbol_bits=4, is_direct=True),
    Kernel("cfck_direct_f16", 2, 5, symbol_bits=4, is_direct=True),
)
TEAMS = tuple(kernel.as_team() for kernel in KERNELS)


@dataclass(frozen=True)
class Count:
    """The instructions for a group."""

    kernel: Kernel
    way: Way
    refill: int  # instructions more

    @property
    def instructions(self) -> float:
        """With the average share of refills."""
        return self.way.n_instructions + self.kernel.refills * self.refill

    @property
    def of_group(self) -> float:
        """Those of all warps that decode a group."""
        return self.instructions * STEPS / self.kernel.steps

    @property
    def integer_cycles(self) -> float:
        """How long the unit for integers takes; of refills the same share as of the rest."""
        n = sum(n for name, n in self.way.mix().items() if name in INTEGER_UNIT)
        return INTEGER_CYCLES * n * self.instructions / self.way.n_instructions

    def rate(self, cycles: float) -> float:
        """Decoded gigabytes a second, if every scheduler takes so many cycles for a group."""
        groups = MULTIPROCESSORS * SCHEDULERS * GIGAHERTZ / cycles
        return groups * GROUP * self.kernel.value_bytes


def kind_of(instruction: Instruction) -> str:
    """Which part of the work of a group an instruction does."""
    name, opcode = instruction.name, instruction.opcode
    if name == "LDS":
        return "word of a ring" if "U16" in opcode else "word of a table"
    if opcode.startswith("SHF.R.W"):
        return "funnel"
    kinds = {"ST": "store", "STG": "store", "SHFL": "shuffle", "DMUL": "product", "STS": "to ring"}
    return kinds.get(name, "")


def work_of_group(kernel: Kernel) -> dict[str, int]:
    """The instructions that every group takes. A word at any address is put together with a funnel
    shift: four neighbours have their packed bits in one, their bytes in another, and their integers
    in one or two each."""
    words = (kernel.raw_bits % 8 != 0) + kernel.raw_bits // 8
    low_words = 2 if kernel.low_bytes == 2 else STEPS * ((kernel.low_bytes + 3) // 4)
    stores = (kernel.value_bytes + 3) // 4 if kernel.value_bytes == 8 else 1
    if kernel.is_team:
        low_words, stores = (kernel.low_bytes + 3) // 4, 1
    work = {
        "word of a table": 2 * kernel.steps,
        "word of a ring": kernel.steps,
        "funnel": words + low_words,
        "store": stores,
    }
    if kernel.is_direct:
        work["product"] = kernel.steps
    else:
        # The high bits of each symbol. A warp of a team computes those of its one symbol, and gets
        # the facts of the group from another lane.
        work["shuffle"] = kernel.steps
    return work


def way_of(blocks: list[Block], work: dict[str, int]) -> Way:
    """The way around a loop that does some work: of the one with the fewest jumps."""
    ways: list[Way] = []
    found: list[set[int]] = []
    for loop in loops_of(blocks):
        # Loops around one that does the work do the same, and more.
        if any(inner <= loop.blocks for inner in found):
            continue
        if way := cheapest_way(blocks, loop, work, kind_of):
            ways.append(way)
            found.append(loop.blocks)
    if not ways:
        raise ValueError(f"no loop does this work: {work}")
    return min(ways, key=lambda way: (way.n_jumps, way.n_instructions))


def count_of(kernel: Kernel, blocks: list[Block]) -> Count:
    """Counts the instructions of one kernel."""
    work = work_of_group(kernel)
    way = way_of(blocks, work)
    # Two halves of a ring are written: what was left, and what is loaded.
    funnels = sum(kind_of(each) == "funnel" for each in way.instructions)
    more = {"to ring": 2, "funnel": funnels + 1}
    return Count(kernel, way, way_of(blocks, work | more).n_instructions - way.n_instructions)


def find_disassembler(given: str) -> str | None:
    """Where nvdisasm is: as given, on the path, in CUDA's toolkit, or as pip installs it."""
    packages = Path(sysconfig.get_path("purelib")).glob("nvidia/*/bin/nvdisasm")
    for each in (given, "nvdisasm", "/usr/local/cuda/bin/nvdisasm", *map(str, packages)):
        if each and (found := shutil.which(each)):
            return found
    return None


def table(rows: list[list[str]]) -> str:
    """A table in Markdown; the first row has the names of the columns."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def speed_table(counts: list[Count], hash_instructions: int) -> str:
    """Instructions and speeds, a row for each kernel. A team has four warps for a group."""
    rows = [
        [
            "kernel",
            "ratio",
            "instructions of a warp for a group",
            "of these, refills",
            "of all its warps",
            "GB/s by issue",
            "GB/s by the unit for integers",
            "hashes, of the time",
        ]
    ]
    for count in counts:
        kernel = count.kernel
        n_warps = STEPS / kernel.steps
        hashes = hash_instructions * kernel.stored_bytes / HASH_BYTES
        rows.append(
            [
                kernel.name,
                f"{GROUP * kernel.value_bytes / kernel.stored_bytes:.2f}",
                f"{count.instructions:.0f}",
                f"{count.instructions - count.way.n_instructions:.0f}",
                f"{count.of_group:.0f}",
                f"{count.rate(count.of_group):.0f}",
                f"{count.rate(n_warps * count.integer_cycles):.0f}",
                f"{hashes / (hashes + count.of_group):.1%}",
            ]
        )
    return table(rows)


def mix_table(counts: list[Count]) -> str:
    """How often each opcode is issued for a group, without refills."""
    mixes = [count.way.mix() for count in counts]
    found = {name for mix in mixes for name in mix}
    names = sorted(found, key=lambda name: (-sum(mix[name] for mix in mixes), name))
    rows = [
        [
            "opcode",
            *(count.kernel.name.removeprefix("cfck_").replace("_team", "") for count in counts),
        ]
    ]
    rows += [[name, *(str(mix[name]) for mix in mixes)] for name in names]
    return table(rows)


def count_encoders(kernels: dict[str, list[Block]]) -> list[EncoderCount]:
    """Counts the kernels that encode the same values."""
    counts = []
    for kernel in KERNELS:
        name = kernel.name.replace("cfck_", "cfck_encode_")
        if name in kernels:
            encoder = Encoder(name, kernel.value_bytes, kernel.stored_bytes, kernel.is_direct)
            counts.append(count_encoder(encoder, kernels[name]))
    return counts


def report(kernels: dict[str, list[Block]]) -> str:
    """The tables of all kernels."""
    hash_instructions = way_of(kernels[HASH_KERNEL], HASH_WORK).n_instructions
    counts = [count_of(kernel, kernels[kernel.name]) for kernel in KERNELS]
    teams = [count_of(kernel, kernels[kernel.name]) for kernel in TEAMS]
    return f"""# Instructions of the device code

Made by `scripts/checks/device_instructions.py`, which says how. Computed from the machine code for
{DEVICE}, not measured: limits of an H100 SXM, {MULTIPROCESSORS} multiprocessors with {SCHEDULERS}
schedulers at {GIGAHERTZ} GHz.

{speed_table(counts + teams, hash_instructions)}

The kernel `{HASH_KERNEL}` takes {hash_instructions} instructions for {HASH_BYTES} bytes.

## Instructions of a group, without refills

{mix_table(counts)}

## Instructions of a warp of a team, which decodes a quarter of it

{mix_table(teams)}

## Instructions of kernels that encode, for a group

Those of all warps of a block, and the cycles that a scheduler's units take for them: the unit for
integers; the one that counts bits, reduces and converts; the one for doubles. Errors are added up
by one warp where a file has to tell them.

{table(encoder_rows(count_encoders(kernels)))}
"""


def main() -> int:
    """Prints the tables, or writes them to a file."""
    parser = argparse.ArgumentParser(description="Counts instructions of the device code.")
    parser.add_argument("folder", type=Path, help="device_code in the build folder")
    parser.add_argument("-o", "--output", type=Path, help="a file to write instead of printing")
    parser.add_argument("--nvdisasm", default="", help="the disassembler")
    options = parser.parse_args()
    disassembler = find_disassembler(options.nvdisasm)
    if disassembler is None:
        print(INSTALL, file=sys.stderr)
        return 1
    kernels: dict[str, list[Block]] = {}
    for name in DECODING + ENCODING:
        cubin = options.folder / f"{name}_kernels.{DEVICE}.cubin"
        command = [disassembler, "--print-code", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        kernels |= read_listing(done.stdout)
    text = report(kernels)
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
