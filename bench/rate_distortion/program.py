"""What only the C++ program spectral_bench measures: speeds, and rate in the search (lambda)."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from common.targets import Goal
from rate_distortion.rows import DECIBELS_PER_BIT, CurveRun
from rate_distortion.subjects import Subject

LAMBDAS = (0.0, 0.15, 0.3, 0.5)
RATES = (3.0, 2.0, 1.5)
SPEED_RATE = 3.0
PROGRAM = "spectral_bench"


def _measured(program: Path, weights: Path, **options: float) -> dict[str, Any]:
    arguments = [part for name, value in options.items() for part in (f"--{name}", f"{value:g}")]
    done = subprocess.run(
        [program, *arguments, weights], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def measure_speed(run: CurveRun, program: Path, subject: Subject, folder: Path) -> None:
    """Decoding as a part of memcpy's speed, and values encoded a second, one thread."""
    weights = folder / "speed.safetensors"
    save_file(subject.tensors, weights)
    found = _measured(program, weights, bits=SPEED_RATE, repetitions=7)
    decode, encode = found["decode"], found["encode"]
    described = (
        f"{found['cpu']}, {SPEED_RATE:g} bits; best {decode['best_million_per_s']:.0f} M/s; "
        f"of a memcpy in the cache {decode['fraction_of_cached_memcpy']:.3f}"
    )
    run.targets.judge(
        "speed", subject.name, "decode / memcpy", decode["fraction_of_memcpy"],
        Goal(0.08, 0.2), described,
    )  # fmt: skip
    run.targets.judge(
        "speed", subject.name, "encode, M weights/s, median", encode["median_million_per_s"],
        Goal(10, 40), f"best {encode['best_million_per_s']:.1f} M/s",
    )  # fmt: skip


def lambda_rows(program: Path, subject: Subject, folder: Path) -> list[list[str]]:
    """What each lambda saves at equal error, in bits per weight, at each rate."""
    weights = folder / "lambda.safetensors"
    save_file(subject.tensors, weights)
    rows = []
    plain: dict[float, dict[str, Any]] = {}
    for weight in LAMBDAS:
        cells = []
        for rate in RATES:
            found = _measured(program, weights, bits=rate, repetitions=1, **{"lambda": weight})
            plain.setdefault(rate, found)
            before = plain[rate]
            errors = 10 * math.log10(before["mean_square_error"] / found["mean_square_error"])
            bits = before["bits_per_weight"] - found["bits_per_weight"]
            cells.append(f"{bits + errors / DECIBELS_PER_BIT:+.3f}")
        rows.append([subject.name, f"{weight:g}", *cells])
    return rows
