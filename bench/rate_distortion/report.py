"""The results of the rate-distortion benchmark: CSV, SVG and a page of tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from common import report, targets
from rate_distortion import program
from rate_distortion.peers import FORMATS, NNCODEC
from rate_distortion.plot import Plot, drawn
from rate_distortion.points import Point, bits_at_nmse
from rate_distortion.product import FLAT, MOST_STATES
from rate_distortion.rows import DIRECT, LEVELS, CurveRun, part_rows
from rate_distortion.subjects import Subject

BOUND = "Gaussian bound"
MOST_BITS_SHOWN, MOST_ERROR_SHOWN = 7, -6  # in pictures
POINT_COLUMNS = ["data", "codec", "setting", "bits per weight", "NMSE, dB"]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _codecs(run: CurveRun, subject: str) -> list[str]:
    found = dict.fromkeys(point.codec for point in run.points if point.data == subject)
    first = [FLAT.name, MOST_STATES.name, NNCODEC, DIRECT]
    order = [name for name in first if name in found]
    return order + [name for name in found if name not in order]


def _effect_names(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(name for point in points for name in point.effects))


def point_rows(run: CurveRun) -> tuple[list[str], list[list[str]]]:
    """Every point, sorted, and the columns."""
    effects = _effect_names(run.points)
    rows = []
    for point in sorted(run.points, key=lambda p: (p.data, p.codec, -p.bits)):
        cells = [point.data, point.codec, point.setting, f"{point.bits:.4f}", f"{point.nmse:.3f}"]
        cells += [f"{point.effects[e]:.6g}" if e in point.effects else "" for e in effects]
        rows.append(cells)
    return [*POINT_COLUMNS, *effects], rows


def read_points(path: Path | None) -> list[Point]:
    """What point_rows() wrote; without a path there are none."""
    if path is None:
        return []
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    points = []
    for cells in csv.DictReader(lines):
        data, codec, setting, bits, error = (cells.pop(column) for column in POINT_COLUMNS)
        effects = {name: float(value) for name, value in cells.items() if value}
        points.append(Point(data, codec, setting, float(bits), float(error), effects))
    return points


def error_table(run: CurveRun, subject: str) -> str:
    """Bits per weight of every codec at the levels, between its points where need be."""
    rows = []
    for codec in _codecs(run, subject):
        if codec in FORMATS:
            continue
        points = run.of(subject, codec)
        cells = []
        for level in LEVELS:
            bits = bits_at_nmse(points, level)
            if bits is None:
                near = min(points, key=lambda point: abs(point.nmse - level))
                bits = near.bits if abs(near.nmse - level) < 0.1 else None
            cells.append("-" if bits is None else f"{bits:.3f}")
        if set(cells) != {"-"}:
            rows.append([codec, *cells])
    if limit := run.limits.get((subject, FLAT.name)):
        rows.append([BOUND, *(f"{bits:.3f}" for _, bits in limit)])
    columns = ["codec", *(f"{level:.0f} dB" for level in LEVELS)]
    return report.markdown_table(columns, rows)


def effect_table(run: CurveRun, subject: str) -> str:
    """Every point at which a model ran."""
    points = [p for c in _codecs(run, subject) for p in run.of(subject, c) if p.effects]
    names = _effect_names(points)
    rows = [
        [p.codec, p.setting, f"{p.bits:.3f}", *(f"{p.effects[name]:.4g}" for name in names)]
        for p in points
    ]
    return report.markdown_table(["codec", "setting", "bits per weight", *names], rows)


def pictures(run: CurveRun, subject: Subject) -> dict[str, Plot]:
    """Rate against error, and against what the model does."""
    error = Plot(f"{subject.name}: error", "bits per weight", "NMSE, dB")
    found = {"error": error}
    for codec in _codecs(run, subject.name):
        points = run.of(subject.name, codec)
        points = [p for p in points if p.bits <= MOST_BITS_SHOWN and p.nmse < MOST_ERROR_SHOWN]
        if not points:
            continue
        error.curves[codec] = [(p.bits, p.nmse) for p in points]
        for name in _effect_names(points):
            if name in ("KL", "1 - cosine"):
                title = f"{subject.name}: {name}, smaller is better"
                plot = found.setdefault(name, Plot(title, "bits per weight", name, log_up=True))
                plot.curves[codec] = [
                    (p.bits, p.effects[name]) for p in points if p.effects.get(name, 0) > 0
                ]
    if limit := run.limits.get((subject.name, FLAT.name)):
        error.curves[BOUND] = [(bits, point.nmse) for point, bits in limit]
    return found


def page(
    run: CurveRun, subjects: Sequence[Subject], facts: dict[str, str], command: str, stem: str
) -> str:
    """The page."""
    text = report.page_head("Rate and distortion", command, facts, run.missing)
    text += ["", "## Targets", "", report.markdown_table(targets.COLUMNS, run.targets.lines)]
    columns = ["data", "without", *(f"{level:.0f} dB" for level in LEVELS)]
    parts = [row for subject in subjects for row in part_rows(run, subject.name)]
    if parts:
        text += ["## What parts of the codec save", "", "Bits per weight at equal NMSE:", ""]
        text += [report.markdown_table(columns, parts)]
    if run.lambdas:
        columns = ["data", "lambda", *(f"{rate:g} bits" for rate in program.RATES)]
        text += ["## What rate in the search saves", "", "Bits per weight at equal error:", ""]
        text += [report.markdown_table(columns, run.lambdas)]
    for subject in subjects:
        described = "".join(f"; {key}: {value:g}" for key, value in subject.facts.items())
        text += [f"## {subject.name}", ""]
        text += [f"Values coded: {sum(v.size for v in subject.tensors.values()):,}{described}", ""]
        if run.limits.get((subject.name, FLAT.name)):
            text += ["Bits per weight at equal NMSE:", "", error_table(run, subject.name)]
        if any(p.effects for p in run.points if p.data == subject.name):
            text += [effect_table(run, subject.name)]
        for name in pictures(run, subject):
            text += [f"![{subject.name}, {name}]({_picture(stem, subject, name)})", ""]
    return "\n".join(text).rstrip() + "\n"


def _picture(stem: str, subject: Subject, name: str) -> str:
    return f"{stem}-{_slug(subject.name)}-{_slug(name)}.svg"


def files(
    run: CurveRun, subjects: Sequence[Subject], facts: dict[str, str], command: str
) -> dict[str, str]:
    """The texts of all files by their names."""
    stem = f"rate-distortion-{report.file_stem(facts)}"
    found = {
        f"{stem}.md": page(run, subjects, facts, command, stem),
        f"{stem}-points.csv": report.csv_text(facts, *point_rows(run)),
        f"{stem}-targets.csv": report.csv_text(facts, targets.COLUMNS, run.targets.lines),
    }
    plots = {
        _picture(stem, subject, name): plot
        for subject in subjects
        for name, plot in pictures(run, subject).items()
    }
    return found | drawn(plots)
