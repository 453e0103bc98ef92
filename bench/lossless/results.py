"""The tables of targets and of measurements, as Markdown and CSV."""

from __future__ import annotations

from common import report
from lossless.context import (
    SPEED_REFERENCE,
    Context,
    Finding,
    Measurement,
    ProgramMeasurement,
)

FINDING_COLUMNS = ["row", "data", "what", "value", "against", "target", "verdict"]
MEASUREMENT_COLUMNS = [
    "data", "codec", "version", "raw bytes", "one buffer bytes", "tensor by tensor bytes",
    "one buffer ratio", "tensor by tensor ratio", "encode GB/s", "decode GB/s",
    "encode / ZipNN", "decode / ZipNN", "encode / ZipNN processor time",
    "decode / ZipNN processor time", "repetitions",
]  # fmt: skip
N_SIZE_COLUMNS = 8


PROGRAM_COLUMNS = [
    "data", "program", "version", "raw bytes", "file bytes", "ratio", "compress GB/s",
    "decompress GB/s",
]  # fmt: skip


def _program_cells(m: ProgramMeasurement) -> list[str]:
    return [
        m.dataset,
        m.program,
        m.version,
        str(m.raw_bytes),
        str(m.file_bytes),
        f"{m.raw_bytes / m.file_bytes:.4f}",
        f"{m.raw_bytes / m.compress_seconds / 1e9:.3f}",
        f"{m.raw_bytes / m.decompress_seconds / 1e9:.3f}",
    ]


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


def sizes_page(context: Context, facts: dict[str, str], command: str) -> str:
    """The report of a run in which nothing but sizes was asked for."""
    lines = report.page_head("Lossless sizes", command, facts, context.missing_peers)
    findings = [_finding_cells(finding) for finding in context.findings]
    lines += [
        "",
        "## Targets",
        "",
        report.markdown_table(FINDING_COLUMNS, findings),
        "## Sizes",
        "",
    ]
    table = [cells[:N_SIZE_COLUMNS] for cells in measurement_table(context)]
    lines.append(report.markdown_table(MEASUREMENT_COLUMNS[:N_SIZE_COLUMNS], table))
    return "\n".join(lines)


def page(context: Context, facts: dict[str, str], command: str) -> str:
    """The whole report."""
    lines = report.page_head("Lossless benchmark", command, facts, context.missing_peers)
    findings = [_finding_cells(finding) for finding in context.findings]
    lines += ["", "## Targets", "", report.markdown_table(FINDING_COLUMNS, findings)]
    lines += [
        "## Sizes and speeds",
        "",
        "Speeds are wall clock with one thread, one buffer, memory to memory, and mean something "
        f"only as ratios to {SPEED_REFERENCE} in the same run.",
        "",
        report.markdown_table(MEASUREMENT_COLUMNS, measurement_table(context)),
    ]
    if context.programs:
        lines += [
            "## Programs for whole files",
            "",
            "One thread, from a safetensors file to the program's own and back, the page cache "
            "warm; cfck as a program, whose start counts, the others as Python packages.",
            "",
            report.markdown_table(PROGRAM_COLUMNS, [_program_cells(m) for m in context.programs]),
        ]
    return "\n".join(lines)


def files(
    context: Context, facts: dict[str, str], command: str, only_sizes: bool
) -> dict[str, str]:
    """The files by their names. Speeds that were measured by the way are no results."""
    stem = report.file_stem(facts)
    if only_sizes:
        return {f"sizes-{stem}.md": sizes_page(context, facts, command)}
    findings = [_finding_cells(finding) for finding in context.findings]
    measurements = measurement_table(context)
    programs = [_program_cells(m) for m in context.programs]
    return {
        f"{stem}.md": page(context, facts, command),
        f"{stem}-targets.csv": report.csv_text(facts, FINDING_COLUMNS, findings),
        f"{stem}-measurements.csv": report.csv_text(facts, MEASUREMENT_COLUMNS, measurements),
        f"{stem}-programs.csv": report.csv_text(facts, PROGRAM_COLUMNS, programs),
    }
