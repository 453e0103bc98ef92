"""The results as CSV and Markdown, named by the machine."""

from __future__ import annotations

import csv
import os
import platform
import re
import subprocess
from pathlib import Path

from context import SPEED_REFERENCE, Context, Finding, Measurement

FINDING_COLUMNS = ["row", "data", "what", "value", "against", "target", "verdict"]
MEASUREMENT_COLUMNS = [
    "data", "codec", "version", "raw bytes", "one buffer bytes", "tensor by tensor bytes",
    "one buffer ratio", "tensor by tensor ratio", "encode GB/s", "decode GB/s",
    "encode / ZipNN", "decode / ZipNN", "encode / ZipNN processor time",
    "decode / ZipNN processor time", "repetitions",
]  # fmt: skip


def first_line(arguments: list[str], folder: Path | None = None) -> str:
    """The first line that a program prints, or "unknown"."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.*)$", text, re.M))
    name = fields.get("model name", platform.machine())
    if "cpu family" in fields and "model" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name


def machine() -> dict[str, str]:
    """The machine and the software, as they go into every result."""
    here = Path(__file__).parent
    cores = len(os.sched_getaffinity(0))
    return {
        "processor": _cpu_model(),
        "cores": str(cores),
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": first_line([os.environ.get("CXX", "c++"), "--version"]),
        "python": platform.python_version(),
        "commit": first_line(["git", "describe", "--always", "--dirty"], here),
    }


def file_stem(facts: dict[str, str]) -> str:
    """A file name from the processor and the number of cores."""
    slug = re.sub(r"[^a-z0-9]+", "-", facts["processor"].lower()).strip("-")
    return f"{slug}-{facts['cores']}-cores"


def _measurement_cells(m: Measurement, reference: Measurement | None) -> list[str]:
    def relative(direction: str, clock: str) -> str:
        if reference is None:
            return "-"
        theirs = getattr(getattr(reference, direction), clock)
        return f"{theirs / getattr(getattr(m, direction), clock):.2f}"

    return [
        m.dataset,
        m.codec,
        m.version,
        str(m.raw_bytes),
        str(m.one_buffer_bytes),
        str(m.tensor_bytes),
        f"{m.raw_bytes / m.one_buffer_bytes:.4f}",
        f"{m.raw_bytes / m.tensor_bytes:.4f}",
        f"{m.raw_bytes / m.encode.wall / 1e9:.3f}",
        f"{m.raw_bytes / m.decode.wall / 1e9:.3f}",
        relative("encode", "wall"),
        relative("decode", "wall"),
        relative("encode", "cpu"),
        relative("decode", "cpu"),
        str(m.repetitions),
    ]


def measurement_table(context: Context) -> list[list[str]]:
    """Every codec on every data set."""
    table = []
    for measurements in context.measurements.values():
        reference = next((m for m in measurements if m.codec == SPEED_REFERENCE), None)
        table += [_measurement_cells(m, reference) for m in measurements]
    return table


def _finding_cells(finding: Finding) -> list[str]:
    return [getattr(finding, column) for column in FINDING_COLUMNS]


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def markdown(context: Context, facts: dict[str, str], command: str) -> str:
    """The whole report."""
    described = "".join(f"- {key}: {value}\n" for key, value in facts.items())
    missing = "".join(
        f"- peer skipped: {name}: {why}\n" for name, why in context.missing_peers.items()
    )
    findings = markdown_table(FINDING_COLUMNS, [_finding_cells(f) for f in context.findings])
    measurements = markdown_table(MEASUREMENT_COLUMNS, measurement_table(context))
    return (
        f"# Lossless benchmark\n\nMade by `{command}`; bench/README.md explains every row.\n\n"
        f"{described}{missing}\n## Targets\n\n{findings}\n"
        f"## Sizes and speeds\n\nSpeeds are wall clock with one thread, one buffer, memory to "
        f"memory, and mean something only as ratios to {SPEED_REFERENCE} in the same run.\n\n"
        f"{measurements}"
    )


def write_csv(path: Path, facts: dict[str, str], columns: list[str], rows: list[list[str]]) -> None:
    """A CSV file that starts with the facts of the machine."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        for key, value in facts.items():
            stream.write(f"# {key}: {value}\n")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def write(context: Context, facts: dict[str, str], command: str, folder: Path) -> list[Path]:
    """Writes the three files; gives their names."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = file_stem(facts)
    paths = [folder / f"{stem}{end}" for end in (".md", "-targets.csv", "-measurements.csv")]
    paths[0].write_text(markdown(context, facts, command), encoding="utf-8")
    findings = [_finding_cells(f) for f in context.findings]
    write_csv(paths[1], facts, FINDING_COLUMNS, findings)
    write_csv(paths[2], facts, MEASUREMENT_COLUMNS, measurement_table(context))
    return paths
