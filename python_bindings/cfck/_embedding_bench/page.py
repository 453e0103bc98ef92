"""The page with plots, in the style of those of ``cfck report``."""

from __future__ import annotations

import functools
import html
import io
from collections.abc import Callable, Sequence
from typing import Any

from .._common.text import printable
from ..errors import UnsupportedError
from .formula import NO_COSTS, Costs, plain_seconds
from .measure import Line
from .summary import Total, totals

# The style is that of tools/report/page_style.cpp.
_STYLE = """
:root{color-scheme:light;--page:#f6f7f8;--card:#fff;--ink:#18222c;--soft:#5c6b78;--line:#e2e6ea}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1080px;margin:0 auto;padding:40px 24px 64px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px}
h2{font-size:20px;margin:0 0 4px}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:22px 24px;
margin:0 0 20px;overflow-x:auto}
p{color:var(--soft);margin:0 0 12px;max-width:72ch;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}
table{border-collapse:collapse;font-size:14px}
th,td{text-align:right;padding:4px 12px;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
"""
# Each series has its own; Okabe and Ito, with brown for the yellow that white hides.
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#8c6d31",
    "#332288", "#882255", "#117733", "#999933", "#44aa99", "#aa4499", "#661100", "#888888",
)  # fmt: skip
_MARKERS = "os^DPX<v>dph*H8"
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 3)), (0, (3, 1, 1, 1, 1, 1)))
_STAGE_LOOKS = (
    ("encode", "#1f7a99", ""),
    ("wire", "#b9c3cc", "...."),
    ("decode", "#c9572f", "////"),
    ("latency", "#8c6d31", "xx"),
)


def check_plots() -> None:
    """Finds out before anything is measured.

    Raises:
        UnsupportedError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"--html draws with matplotlib: pip install matplotlib ({error})"
        ) from None


def page(
    lines: Sequence[Line], bandwidths: Sequence[float], heading: str, costs: Costs = NO_COSTS
) -> str:
    """Returns a page of HTML that needs no other file.

    Args:
        lines: of results.
        bandwidths: of networks, in GB a second.
        heading: what was measured.
        costs: of an exchange.
    """
    found = totals(lines, costs)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>Embedding lookups</title><style>{_STYLE}</style><main>",
        f"<h1>Embedding lookups</h1><p>{html.escape(printable(heading))}</p>",
        _section("All lookups", _HINT, _table(found, bandwidths)),
    ]
    for rate in bandwidths:
        drawn = _picture(functools.partial(_draw_times, found, rate), len(found))
        text = (
            "From rows to bytes, over the network, and back, relative to the time that the plain "
            "values take. Encoders whose size alone is computed have no bar."
        )
        parts.append(_section(f"Time at {rate:g} GB/s", text, drawn))
    drawn = _picture(functools.partial(_draw_ratios, lines), 8)
    text = "Bytes of F32 over bytes that are sent, all tables of an iteration together."
    parts.append(_section("Ratio over iterations", text, drawn))
    return "\n".join([*parts, "</main></html>\n"])


_HINT = (
    "Ratio is bytes of F32 over all bytes that are sent; speeds are in GB of F32 a second with "
    "quantising and dequantising; break-even is the rate of the network up to which time is saved."
)


def _section(title: str, text: str, body: str) -> str:
    return f"<section><h2>{title}</h2><p>{text}</p>{body}</section>"


def _table(found: Sequence[Total], bandwidths: Sequence[float]) -> str:
    heads = ["encoder", "ratio", "encode", "decode", "break-even"]
    heads += [f"speed-up at {rate:g} GB/s" for rate in bandwidths]
    rows = []
    for each in found:
        values = [each.ratio, each.encode_gbps, each.decode_gbps, each.break_even()]
        values += [each.speed_up(rate) for rate in bandwidths]
        texts = ["–" if value is None else f"{value:.4g}" for value in values]
        rows.append([html.escape(printable(each.encoder)), *texts])
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{body}</table>"


def _picture(draw: Callable[[Any], None], n_lines: int) -> str:
    """What is drawn, as SVG with texts as texts."""
    import matplotlib
    from matplotlib.figure import Figure

    options: Any = {"svg.fonttype": "none", "svg.hashsalt": "cfck", "text.parse_math": False}
    with matplotlib.rc_context(options):
        figure = Figure(figsize=(9, max(3.0, 0.3 * n_lines + 1)), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _draw_times(found: Sequence[Total], bandwidth: float, axes: Any) -> None:
    timed = [each for each in found if each.encode_gbps and each.decode_gbps]
    names = [printable(each.encoder) for each in timed]
    left = [0.0] * len(timed)
    for stage, colour, hatch in _STAGE_LOOKS:
        if stage == "latency" and not any(each.costs.compressed_latency for each in timed):
            continue
        widths = [_share(each, stage, bandwidth) for each in timed]
        style = {"color": colour, "hatch": hatch, "edgecolor": "#33404a", "linewidth": 0.5}
        axes.barh(names, widths, left=left, label=stage, **style)
        left = [begin + width for begin, width in zip(left, widths, strict=True)]
    axes.axvline(1.0, color="#18222c", linestyle=(0, (4, 4)), linewidth=1, label="plain values")
    axes.invert_yaxis()
    axes.set_xlabel("time / time of the plain values")
    _legend(axes)


def _share(each: Total, stage: str, bandwidth: float) -> float:
    """Of the time that the plain values take."""
    figures, costs = each.figures(), each.costs
    assert figures is not None
    on_a_core = costs.ranks_per_core * each.gigabytes
    seconds = {
        "encode": on_a_core / figures.encode_gbps,
        "wire": each.gigabytes / (figures.ratio * bandwidth),
        "decode": on_a_core / figures.decode_gbps,
        "latency": costs.compressed_latency,
    }
    return seconds[stage] / plain_seconds(each.gigabytes, bandwidth, costs)


def _draw_ratios(lines: Sequence[Line], axes: Any) -> None:
    points: dict[str, list[tuple[int, float]]] = {}
    by_iteration: dict[int, list[Line]] = {}
    for line in lines:
        by_iteration.setdefault(line["iteration"], []).append(line)
    for iteration in sorted(by_iteration):
        for total in totals(by_iteration[iteration]):
            points.setdefault(total.encoder, []).append((iteration, total.ratio))
    for i, (encoder, places) in enumerate(points.items()):
        axes.plot(*zip(*places, strict=True), **_look(i), label=printable(encoder))
    axes.set_xlabel("iteration")
    axes.set_ylabel("ratio")
    axes.set_yscale("log")
    _legend(axes)


def _look(i: int) -> dict[str, Any]:
    """A colour, a dash and a marker; no two series of a page have the same three."""
    return {
        "color": _COLOURS[i % len(_COLOURS)],
        "linestyle": _DASHES[i % len(_DASHES)],
        "marker": _MARKERS[i % len(_MARKERS)],
        "markersize": 5,
        "markerfacecolor": "white" if i % 2 else _COLOURS[i % len(_COLOURS)],
    }


def _legend(axes: Any) -> None:
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
