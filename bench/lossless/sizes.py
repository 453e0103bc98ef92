"""The rows about size: what must be smaller than what."""

from __future__ import annotations

from common import data
from common.product import Unavailable
from lossless.context import REQUIRED, Context, Measurement

RECORD_DATASETS = [
    f"{name}-{label}" for name in ("resnet20", "resnet56", "gpt") for label in ("f32", "bf16")
]
INFORMATION_DATASETS = [
    f"gpt-{part}-{label}"
    for part in ("weights", "exp-avg", "exp-avg-sq")
    for label in ("f32", "bf16")
]


def _ratio(measurement: Measurement, size: int) -> str:
    return f"{measurement.raw_bytes / size:.4f} ({size:,} bytes)"


def _best_peer(codecs: dict[str, Measurement]) -> Measurement:
    others = [m for name, m in codecs.items() if name != "cfck"]
    return min(others, key=lambda m: m.best_bytes)


def _above_every_peer(context: Context, row: str, name: str) -> None:
    """cfck's size against the smallest any peer reaches, in either way of calling it."""
    target = "above every peer"
    try:
        codecs = context.by_codec(name)
        context.require_product()
    except (data.MissingData, Unavailable) as error:
        context.skip(row, name, target, str(error))
        return
    absent = [peer for peer in REQUIRED if peer not in codecs]
    if absent:
        context.skip(row, name, target, "without " + ", ".join(absent))
        return
    own, best = codecs["cfck"], _best_peer(codecs)
    context.judge(
        row,
        name,
        "ratio",
        _ratio(own, own.tensor_bytes),
        f"{best.codec} {_ratio(best, best.best_bytes)}",
        target,
        own.tensor_bytes < best.best_bytes,
    )


def whole_file(context: Context) -> None:
    """MiniLM as it is."""
    row = "lossless ratio, whole file"
    _above_every_peer(context, row, "minilm-f32")
    own = next((m for m in context.measurements.get("minilm-f32", []) if m.codec == "cfck"), None)
    if own is not None:
        ratio = own.raw_bytes / own.tensor_bytes
        context.judge(row, "minilm-f32", "ratio", f"{ratio:.4f}", "-", "aim 1.225", ratio >= 1.225)


def cast_matrices(context: Context) -> None:
    """The 2-D tensors of MiniLM in 16 bits."""
    for name in ("minilm-2d-bf16", "minilm-2d-f16"):
        _above_every_peer(context, "lossless ratio, 2-D tensors cast", name)


def records(context: Context) -> None:
    """Convolutional networks and a language model with its optimizer."""
    for name in RECORD_DATASETS:
        _above_every_peer(context, "lossless ratio, records of 2-D and larger", name)


def parts(context: Context) -> None:
    """Which part of the language model costs what. Not a target, so not in a quick run."""
    if context.quick:
        context.say("SKIPPED parts of the GPT checkpoint: not in a quick run")
        return
    for name in INFORMATION_DATASETS:
        try:
            context.measured(name)
        except data.MissingData as error:
            context.say(f"SKIPPED {name}: {error}")


def holding(context: Context) -> None:
    """Float32 that hold values of shorter types."""
    row = "float32 holding 16-bit values"
    for name, target in (("minilm-f32-of-bf16", 2.9), ("minilm-f32-of-f16", 2.2)):
        try:
            codecs = context.by_codec(name)
            context.require_product()
        except (data.MissingData, Unavailable) as error:
            context.skip(row, name, f"{target}", str(error))
            continue
        own, best = codecs["cfck"], _best_peer(codecs)
        context.judge(
            row,
            name,
            "ratio",
            _ratio(own, own.tensor_bytes),
            f"{best.codec} {_ratio(best, best.best_bytes)}",
            f"{target}",
            own.raw_bytes >= target * own.tensor_bytes,
        )


def sparse(context: Context) -> None:
    """Masked weights must shrink: below the dense file, and below zstd -3."""
    row = "sparse and masked weights"
    for name in ("minilm-2of4", "minilm-half"):
        target = "smaller than dense, and than zstd -3"
        try:
            codecs = context.by_codec(name)
            dense = context.by_codec("minilm-f32")
            context.require_product()
        except (data.MissingData, Unavailable) as error:
            context.skip(row, name, target, str(error))
            continue
        if "zstd -3" not in codecs:
            context.skip(row, name, target, "without zstd -3")
            continue
        own, zstd, full = codecs["cfck"], codecs["zstd -3"], dense["cfck"]
        context.judge(
            row,
            name,
            "ratio",
            _ratio(own, own.tensor_bytes),
            f"dense {full.tensor_bytes:,} bytes; zstd -3 {_ratio(zstd, zstd.best_bytes)}",
            target,
            own.tensor_bytes < min(full.tensor_bytes, zstd.best_bytes),
        )
