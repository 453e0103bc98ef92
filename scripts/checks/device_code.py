"""Checks the code that the CUDA compiler made of every kernel (cmake/CfckCuda.cmake).

The values that a device decodes are the CPU's bit for bit only if its code rounds every operation
on floats as the sources say. So PTX may have no fused, flushed or approximate operation, no sum or
product whose rounding the driver may choose, no sum of floats in an order of its own, and no
minimum of two floats, which differs in NaN and -0. Registers, stack and spills are compared with a
table, `cuda/kernels/registers.csv`: a kernel that needs more runs on fewer warps.

    device_code.py FOLDER [--update]    FOLDER: device_code in the build folder
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).parents[2] / "cuda" / "kernels" / "registers.csv"
# A build folder may still have the code of sources that are gone.
SOURCES = {source.stem for source in TABLE.parent.glob("*.cu")}
COLUMNS = ("kernel", "device", "registers", "stack_bytes")

# No line of PTX may match these; each with the reason.
FORBIDDEN = (
    (r"\bfma\b", "a fused multiply-add"),
    (r"\bmad\.(rn\.|rz\.)?(ftz\.)?f(32|64)", "a multiply-add of floats"),
    (r"\b(mul|add|sub)\.(ftz\.|sat\.)*f(32|64)\b", "an operation without a rounding mode"),
    (r"\b(mul|add|sub|div|sqrt)\.r[zmp]\.", "another rounding mode than to nearest"),
    (r"\.ftz\b", "subnormals flushed to zero"),
    (r"\.approx\b", "an approximation"),
    (r"\bdiv\.full\b", "an approximate division"),
    (r"\b(atom|red)\.[a-z0-9_.]*\bf(16|32|64)\b", "an atomic operation on floats"),
    (r"\b(min|max)\.(NaN\.)?f(32|64)\s+%\w+,\s*%\w+,\s*%\w+", "a minimum of two floats"),
    (r"\bcall\b.*\b__nv_", "a function of CUDA's mathematical library"),
)


def broken_rules(ptx: Path) -> list[str]:
    """Lines of PTX that may give other bits than the CPU."""
    found = []
    kernel = "?"
    for number, line in enumerate(ptx.read_text().splitlines(), 1):
        code = line.split("//")[0]
        if match := re.search(r"\.(?:entry|func)\b.*?(_Z\w+|cfck_\w+)", code):
            kernel = match.group(1)
        for pattern, what in FORBIDDEN:
            if re.search(pattern, code):
                found.append(f"{ptx.name}:{number}: {what} in {kernel}: {code.strip()}")
    return found


def kernels_of(ptx: Path) -> set[str]:
    """The mangled names of the kernels in a file of PTX."""
    return set(re.findall(r"\.entry (\w+)", ptx.read_text()))


def resources(log: Path) -> dict[str, tuple[int, int, int]]:
    """What ptxas says of each kernel: registers, bytes of stack, bytes of spills."""
    found: dict[str, tuple[int, int, int]] = {}
    kernel, stack, spills = "", 0, 0
    for line in log.read_text().splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = match.group(1)
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) .*?, (\d+) bytes spill", line):
            stack, spills = int(match.group(1)), int(match.group(2)) + int(match.group(3))
        elif (match := re.search(r"Used (\d+) registers", line)) and kernel:
            found[kernel] = (int(match.group(1)), stack, spills)
            kernel = ""
    return found


def demangled(names: list[str]) -> dict[str, str]:
    """Short names of kernels: without namespaces and arguments."""
    text = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    ).stdout.splitlines()
    short = {}
    for name, full in zip(names, text):
        plain = re.sub(r"cfck::(\w+::)*|\(anonymous namespace\)::|^void ", "", full)
        short[name] = re.sub(r"\([^()]*(\([^()]*\)[^()]*)*\)$", "", plain)
    return short


def measured(folder: Path) -> list[tuple[str, str, int, int, int]]:
    """Kernel, device, registers, stack and spills, sorted."""
    rows = []
    for log in folder.glob("*.sm*.txt"):
        source, device = log.name.split(".")[:2]
        if source not in SOURCES:
            continue
        found = resources(log)
        names = demangled(sorted(found))
        rows += [(names[kernel], device, *numbers) for kernel, numbers in found.items()]
    return sorted(rows)


def too_much(rows: list[tuple[str, str, int, int, int]]) -> list[str]:
    """Kernels that spill, or need more than the table says, or are not in it."""
    with TABLE.open(newline="") as file:
        allowed = {(row["kernel"], row["device"]): row for row in csv.DictReader(file)}
    problems = []
    for kernel, device, registers, stack, spills in rows:
        row = allowed.get((kernel, device))
        if spills:
            problems.append(f"{kernel} on {device} spills {spills} bytes")
        if row is None:
            problems.append(f"{kernel} on {device} is not in {TABLE.name}: run with --update")
        elif registers > int(row["registers"]) or stack > int(row["stack_bytes"]):
            problems.append(
                f"{kernel} on {device} takes {registers} registers and {stack} bytes of stack; the"
                f" table has {row['registers']} and {row['stack_bytes']}"
            )
    return problems


def main() -> int:
    """Prints what is wrong; 0 if nothing is."""
    folder = Path(sys.argv[1])
    files = sorted(
        ptx for ptx in folder.glob("*.compute*.ptx") if ptx.name.split(".")[0] in SOURCES
    )
    n_kernels = len(set().union(*map(kernels_of, files)))
    rows = measured(folder)
    if "--update" in sys.argv:
        with TABLE.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(row[:4] for row in rows)
    problems = [line for ptx in files for line in broken_rules(ptx)] + too_much(rows)
    # A build may leave it to the driver to assemble them; the long tier does it for all devices.
    if not files or (rows and len({row[0] for row in rows}) != n_kernels):
        problems.append(f"{n_kernels} kernels in PTX, {len({row[0] for row in rows})} assembled")
    for problem in problems:
        print(problem)
    print(f"{n_kernels} kernels, {len(rows)} times assembled, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
