"""The pictures of ``cfck report``, drawn with matplotlib: ``pip install matplotlib``.

::

    import cfck.plot
    axes = cfck.plot.errors("small.cfck", "model.safetensors")
    axes.figure.savefig("errors.png")

Each function draws into ``ax``, or into a new figure, and returns the Axes (``bands`` a Figure).
Paths are those that safe_open takes.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ._common.program import reported_error, run_program
from ._io.safe_open import safe_open
from ._report.figures import bands_of, errors_of, histogram_range, real_values
from ._report.layers import group_layers
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bands", "bits", "errors", "histogram", "sizes"]

# tools/report/page_style.cpp has the same colours. Where two of them are in one picture, they also
# differ in lightness and in a pattern or an outline, so that prints in grey show them.
_AFTER = "#1f7a99"
_BEFORE = "#b9c3cc"
_LOSSLESS = "#8fa3b3"
_ERROR = "#c9572f"
_BITS = ("#cdebe6", "#9bd6d1", "#66bec3", "#3ca2b6", "#2b83a3", "#29648c", "#2c4874", "#2b2f5b")
_BIT_STEPS = (1.5, 2.5, 3.5, 4.5, 6, 9, 16)
_N_BINS = 72
_LOSSLESS_STYLE: dict[str, Any] = {"color": _LOSSLESS, "hatch": "////", "edgecolor": "#5c6b78"}
_ERROR_STYLE: dict[str, Any] = {"color": _ERROR, "hatch": "////", "edgecolor": "#7d2f14"}
# Longer names leave too little room for what is drawn; they lose their middle.
_LABEL_LENGTH, _TITLE_LENGTH = 30, 60
_POINTS_PER_INCH, _BAR_INCHES = 72, 0.22
# Columns of so small a part of the weights may be cut off, if they are so much higher.
_CUT_SHARE = 0.04
_CUT_FACTOR = 1.8

Path = str | os.PathLike[str]


def sizes(path: Path, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Stored bytes by layer, the largest on top; colours say bits per weight.

    Args:
        path: the file or folder.
        most: how many layers get a bar; the others share one.
        ax: where to draw.
    """
    if most < 1:
        raise InvalidArgumentError(f"most={most} is invalid; at least one layer has to be shown")
    with safe_open(path, "np") as file:
        layers = group_layers(file.records())
    shown, rest = layers[:most], layers[most:]
    names = [_shown(layer.name, _LABEL_LENGTH) for layer in shown]
    megabytes = [layer.stored_bytes / 1e6 for layer in shown]
    colours = [_bits_colour(layer.bits_per_weight) for layer in shown]
    if rest:
        names.append(f"{len(rest)} smaller layers")
        megabytes.append(sum(layer.stored_bytes for layer in rest) / 1e6)
        colours.append(_BEFORE)
    ax = _axes(ax, _BAR_INCHES * len(names) + 1)
    places = np.arange(len(names))
    bars = ax.barh(places, megabytes, color=colours)
    labels = [f"{layer.bits_per_weight:.2f} b/w" for layer in shown] + [""] * bool(rest)
    size = _size_of_lines(ax, len(names))
    ax.bar_label(bars, labels, padding=3, fontsize=0.85 * size)
    ax.set_yticks(places, names, parse_math=False, fontsize=size)
    ax.locator_params(axis="x", nbins=5)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlabel("stored bytes, MB")
    return _tidy(ax)


def bits(path: Path, *, ax: Axes | None = None) -> Axes:
    """Bits per weight along the model: the width of a column is its weights, its area its bytes."""
    with safe_open(path, "np") as file:
        records = [record for record in file.records() if _is_drawn(record.kind, record.n_elems)]
    edges = _edges([record.n_elems for record in records])
    heights = np.array([record.bits_per_weight for record in records])
    is_lossy = np.array([record.max_abs_error is not None for record in records], dtype=bool)
    ax = _axes(ax)
    if is_lossy.any():
        _columns(ax, edges, heights, is_lossy, color=_AFTER, label="lossy")
    if not is_lossy.all():
        _columns(ax, edges, heights, ~is_lossy, label="lossless", **_LOSSLESS_STYLE)
    ax.set_xlabel("weights in the order of the file, millions")
    ax.set_ylabel("bits per weight")
    if records:
        _legend(ax)
    shown = _shown_height(np.diff(edges), heights)
    if shown < heights.max(initial=0):
        ax.set_ylim(0, 1.1 * shown)
        ax.set_ylabel(f"bits per weight, up to {heights.max():.0f} (cut off)")
    return _tidy(ax)


def errors(path: Path, ref: Path | None = None, *, ax: Axes | None = None) -> Axes:
    """Squared errors of tensors relative to their values, in dB, along the model.

    Args:
        path: the file or folder.
        ref: the original, with the same tensors; None: errors of codec spectral, which the
            file records.
        ax: where to draw.

    Raises:
        CfckError: InvalidArgumentError for a tensor with another dtype or shape in the
            reference, or if nothing is lossy; NotFoundError for one that it lacks.
    """
    with safe_open(path, "np") as file:
        records = [record for record in file.records() if _is_drawn(record.kind, record.n_elems)]
        if ref is None:
            found = [errors_of(file, None, record) for record in records]
        else:
            with safe_open(ref, "np") as original:
                found = [errors_of(file, original, record) for record in records]
    has_error = np.array([nmse is not None and np.isfinite(nmse) for nmse in found], dtype=bool)
    if not has_error.any():
        hint = "" if ref is not None else "; pass the original as ref to measure errors"
        raise InvalidArgumentError(f"no tensor of {os.fspath(path)} has an error to draw{hint}")
    edges = _edges([record.n_elems for record in records])
    levels = np.array([nmse if nmse is not None else np.nan for nmse in found], dtype=float)
    floor = 10 * np.floor(levels[has_error].min() / 10)
    ax = _axes(ax)
    _columns(ax, edges, levels, has_error, bottom=floor, color=_ERROR, alpha=0.25)
    ends = edges[:-1][has_error], edges[1:][has_error]
    ax.hlines(levels[has_error], *ends, color=_ERROR, linewidth=1.5)
    ax.set_ylim(floor, max(0.0, float(levels[has_error].max())))
    ax.set_xlabel("weights in the order of the file, millions")
    ax.set_ylabel("NMSE, dB")
    return _tidy(ax)


def histogram(path: Path, name: str, ref: Path | None = None, *, ax: Axes | None = None) -> Axes:
    """The values of a tensor within four standard deviations, before and after.

    Args:
        path: the file or folder.
        name: the tensor.
        ref: the original; None: the values after decoding alone.
        ax: where to draw. Heights are square roots of counts, so that tails can be seen.
    """
    with safe_open(path, "np") as file:
        after = real_values(file.get_tensor(name))
    before = None
    if ref is not None:
        with safe_open(ref, "np") as original:
            before = real_values(original.get_tensor(name))
    low, high = histogram_range(after if before is None else before)
    bins = np.linspace(low, high, _N_BINS + 1)
    ax = _axes(ax)
    if before is None:
        ax.stairs(*np.histogram(after, bins), color=_AFTER, fill=True)
    else:
        ax.stairs(*np.histogram(before, bins), color=_BEFORE, fill=True, label="reference")
        ax.stairs(*np.histogram(after, bins), color=_AFTER, label="decoded")
        _legend(ax)
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    title = _shown(name, _TITLE_LENGTH)
    ax.set_title(title, parse_math=False, fontsize="medium", pad=6 if before is None else 24)
    ax.set_xlabel("value")
    ax.set_ylabel("count")
    return _tidy(ax)


def bands(path: Path, name: str, ref: Path | None = None) -> Figure:
    """Bits and errors by band of a tensor of codec spectral, low frequencies first.

    Args:
        path: a .cfck file, or a folder of them.
        name: the tensor.
        ref: the original; None: errors are estimated from the steps.

    Raises:
        CfckError: InvalidArgumentError for a tensor that has no bands; UnsupportedError if the
            program ``cfck`` of this version, which reads them, is not installed.
    """
    plt = _pyplot()
    with safe_open(path, "np") as file:
        file.get_record(name)  # an exact name, no pattern
    options = {} if ref is None else {"--ref": os.fsencode(ref)}
    found = run_program("bands", options, [os.fsencode(path), name.encode()])
    for problem in found["problems"]:
        if problem["record"] == name:
            raise reported_error(problem)
    codings = bands_of(found, name)
    figure: Figure = plt.figure(layout="constrained")
    axes = figure.subplots(2, len(codings), sharex="col", squeeze=False)
    for column, coding in enumerate(codings):
        places = np.arange(len(coding["bands"]))
        top, bottom = axes[0, column], axes[1, column]
        top.bar(places, [band["bits_per_weight"] for band in coding["bands"]], color=_AFTER)
        top.set_ylabel("bits per weight")
        if ref is not None:
            values = [float(band["rms"]) for band in coding["bands"]]
            bottom.bar(places, values, color=_BEFORE, label="values")
        key = "estimated_rms_error" if ref is None else "rms_error"
        sizes_of_errors = [float(band[key]) for band in coding["bands"]]
        label = "errors, estimated" if ref is None else "errors"
        bottom.bar(places, sizes_of_errors, width=0.4, label=label, **_ERROR_STYLE)
        bottom.set_yscale("log")
        bottom.set_ylabel("root mean square")
        bottom.set_xlabel("band")
        _legend(bottom)
        for ax in (top, bottom):
            _tidy(ax)
    figure.suptitle(_shown(name, _TITLE_LENGTH), parse_math=False, fontsize="medium")
    return figure


def _pyplot() -> ModuleType:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"cfck.plot draws with matplotlib: pip install matplotlib ({error})"
        ) from None
    return plt


def _axes(ax: Axes | None, least_height: float = 0.0) -> Axes:
    """The axes of the caller, or those of a new figure of at least this height, in inches."""
    if ax is not None:
        return ax
    figure = _pyplot().figure(layout="constrained")
    figure.set_figheight(max(figure.get_figheight(), least_height))
    made: Axes = figure.subplots()
    return made


def _size_of_lines(ax: Axes, n_lines: int) -> float:
    """The size of a font, in points, that leaves each line its own place beside the axes."""
    inches = ax.get_window_extent().height / ax.figure.dpi
    return min(10.0, 0.7 * _POINTS_PER_INCH * inches / n_lines)


def _legend(ax: Axes) -> None:
    """Names the series above the axes, where they cover nothing that is drawn."""
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)


def _tidy(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _is_drawn(kind: str, n_elems: int) -> bool:
    """Tensors that share the bytes of others have no place of their own."""
    return kind not in ("alias", "duplicate") and n_elems > 0


def _edges(n_elems: list[int]) -> np.ndarray:
    """Where columns begin and end, in millions of weights."""
    return np.concatenate([[0], np.cumsum(n_elems, dtype=float)]) / 1e6


def _shown_height(widths: np.ndarray, heights: np.ndarray) -> float:
    """The height to show, so that a few high columns do not hide the differences of the others."""
    if not heights.size:
        return 0.0
    highest = float(heights.max())
    order = np.argsort(-heights)
    beyond = np.cumsum(widths[order]) > _CUT_SHARE * widths.sum()
    enough = float(heights[order][beyond][0]) if beyond.any() else highest
    return enough if 0 < _CUT_FACTOR * enough < highest else highest


def _columns(
    ax: Axes, edges: np.ndarray, heights: np.ndarray, chosen: np.ndarray, bottom: float = 0.0,
    **style: Any,
) -> None:  # fmt: skip
    """Columns between edges; bars, since stairs would draw those that are not chosen too."""
    left, width = edges[:-1][chosen], np.diff(edges)[chosen]
    ax.bar(left, heights[chosen] - bottom, width, bottom, align="edge", linewidth=0, **style)


def _bits_colour(bits_per_weight: float) -> str:
    return _BITS[int(np.searchsorted(_BIT_STEPS, bits_per_weight, side="right"))]


def _shown(name: str, length: int) -> str:
    """A name that comes from a file: characters that cannot be drawn are escaped, and the middle
    of a name of more than ``length`` characters is left out."""
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    kept = length - len("...")
    return text if len(text) <= length else f"{text[: kept // 2]}...{text[-(kept - kept // 2) :]}"
