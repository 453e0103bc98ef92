"""One page about a file, as ``cfck report`` writes it."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from .._common.program import reported_error, run_program
from .._common.text import with_article
from ..errors import CfckError, InvalidArgumentError


@dataclasses.dataclass(frozen=True)
class ReportSummary:
    """The head figures of a page; they are named as in ``cfck report --json``.

    Attributes:
        output: the page.
        format: "html" or "md".
        output_bytes: size of the page.
        n_records: tensors.
        n_layers: groups of tensors.
        n_elems: weights.
        n_lossy: tensors that are not bit for bit the same.
        decoded_bytes: size of the tensors.
        file_bytes: size of the file, or of all files of a folder.
        bits_per_weight: 8 * stored bytes of the tensors / n_elems.
        nmse_db: squared errors of the lossy tensors over their squares, in dB; None where
            nothing is lossy, or where the file does not say.
        problems: tensors that cannot be read, cannot be compared, or exceed their bounds.
    """

    output: str
    format: str
    output_bytes: int
    n_records: int
    n_layers: int
    n_elems: int
    n_lossy: int
    decoded_bytes: int
    file_bytes: int
    bits_per_weight: float
    nmse_db: float | None
    problems: tuple[CfckError, ...]


def report(
    filename: str | os.PathLike[str],
    ref: str | os.PathLike[str] | None = None,
    *,
    output: str | os.PathLike[str],
    figures: Mapping[str, float | int | str] | None = None,
    title: str | None = None,
    force: bool = False,
) -> ReportSummary:
    """Writes one page that shows what is in a file, as the command ``cfck report`` does.

    Args:
        filename: a .cfck file, a safetensors file, or a folder of shards.
        ref: the original to compare with; None: errors are those that the file records.
        output: the page, .html or .md; it appears completely or not at all.
        figures: measurements to show, such as ``{"cosine": 0.991}``.
        title: the heading; None: the name of the file.
        force: replace the page if it exists.

    Returns:
        Sizes, bits per weight and errors; and the problems of single tensors, which are in the
        page too.

    Raises:
        CfckError: MissingFileError, InvalidArgumentError (also if the page exists), IoError;
            UnsupportedError if the program of this version is not installed.
    """
    options: dict[str, str | bytes] = {"--output": os.fsencode(output)}
    if ref is not None:
        options["--ref"] = os.fsencode(ref)
    if title is not None:
        options["--title"] = title
    if force:
        options["--force"] = "true"
    if not figures:
        return _summary(run_program("report", options, [os.fsencode(filename)]))
    with tempfile.TemporaryDirectory(prefix="cfck-report-") as folder:
        path = os.path.join(folder, "figures.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(_checked(figures), file)
        options["--figures"] = path
        return _summary(run_program("report", options, [os.fsencode(filename)]))


def _summary(said: Mapping[str, Any]) -> ReportSummary:
    values = {field.name: said.get(field.name) for field in dataclasses.fields(ReportSummary)}
    # JSON has no infinities: they are texts.
    if values["nmse_db"] is not None:
        values["nmse_db"] = float(values["nmse_db"])
    values["problems"] = tuple(reported_error(problem) for problem in said["problems"])
    return ReportSummary(**values)  # type: ignore[arg-type]


def _checked(figures: Mapping[str, float | int | str]) -> dict[str, float | int | str]:
    for name, value in figures.items():
        if not isinstance(value, (str, int, float)):
            raise InvalidArgumentError(
                f"the figure {name!r} is {with_article(type(value).__name__)}; "
                "figures are numbers or texts"
            )
    return dict(figures)
