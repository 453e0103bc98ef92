"""Parts that the reports of all commands share: facts of the machine, Markdown, CSV."""

from __future__ import annotations

import csv
import io
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


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


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def page_head(
    title: str, command: str, facts: Mapping[str, str], skipped: Mapping[str, str] | None = None
) -> list[str]:
    """The first lines of a page: its title, the command, the facts, what was skipped and why."""
    lines = [f"# {title}", "", f"Made by `{command}`; bench/README.md explains every row.", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    return lines + [f"- skipped: {name}: {why}" for name, why in (skipped or {}).items()]


def csv_text(
    facts: Mapping[str, str], columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """A CSV file that starts with the facts of the machine."""
    stream = io.StringIO()
    for key, value in facts.items():
        stream.write(f"# {key}: {value}\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()
