"""Chunks of the spectral codec, made and decoded by the library (write_spectral.cpp)."""

from __future__ import annotations

import itertools
import math
import pathlib

import direct_cases
import numpy as np
import pytest
import reference_spectral
import reference_transforms
from direct_cases import DTYPE_IDS, FLOATS, Case, Outcome, make_values

needs_writer = pytest.mark.skipif(
    direct_cases.writer_program("spectral") is None,
    reason="write_spectral is not built (CFCK_WRITE_SPECTRAL)",
)

# Shapes and sides of blocks; edges are cut over axis 0, axis 1 and others.
BLOCKS = [
    ((12, 5, 3, 3), (3, 3)),
    ((540,), ()),
    ((541,), (8,)),
    ((27, 20), (4, 8)),
    ((10, 9, 6), (3, 4, 5)),
    ((20, 27), (1, 64)),
    ((6, 90), (5,)),
    ((), ()),
    ((1,), (64,)),
    ((2, 3, 2, 3, 3, 5), (2, 2, 2, 2)),
    ((130, 9), (64, 64)),
    ((9, 120), ()),
]


def run(cases: list[Case], folder: pathlib.Path) -> list[Outcome]:
    return direct_cases.run(cases, folder, "spectral")


def reference_values(case: Case, outcome: Outcome) -> bytes:
    """What the reference decoder makes of the payload. Raises Refused."""
    preamble = case.preamble if case.values is None else outcome.preamble or None
    place = DTYPE_IDS[case.dtype], case.shape, case.first, case.n
    return reference_spectral.decode_spectral(
        *place, preamble, outcome.payload, case.stage
    ).tobytes()


def random_field(rng, geometry, parts: int, middle: int, spread: int) -> dict:
    field = {}
    counts = geometry.n_bands, geometry.n_rows, geometry.n_columns
    for bit, (name, count) in enumerate(zip(("bands", "rows", "columns"), counts)):
        if parts >> bit & 1:
            field[name] = (rng.integers(-spread, spread + 1, count) + middle).tolist()
            middle = 0
    return field


def options_of(seed: int, shape, sides, step: float) -> dict:
    rng = np.random.default_rng(seed)
    geometry = reference_spectral.Geometry(shape, sides)
    order = seed % 3
    has_kernels = len(shape) >= 2 and geometry.sides == (1, 1, *shape[2:])
    if order == reference_spectral.BINS and has_kernels and seed // 3 % 2:
        order = reference_spectral.ROW_BLOCKS
    options = {
        "states": (1, 4, 8, 64)[seed // 3 % 4],
        "order": order,
        "transforms": bool(rng.integers(0, 2)),
        "step": step,
        "sides": list(sides),
        "in_preamble": bool(rng.integers(0, 2)),
    }
    if rng.random() < 0.4:
        parts = int(rng.integers(1, 8))
        options["steps"] = random_field(rng, geometry, parts, int(rng.integers(-9, 9)), 5)
    if order in reference_spectral.PREDICTS_BINS:
        about = int(29 + 4 * math.log2(1 / step)) if step > 1e-200 else 125
        about = int(rng.integers(-6, 9)) if rng.random() < 0.2 else about  # around bin 1
        parts, spread = int(rng.integers(1, 8)), int(rng.integers(0, 7))
        options["scales"] = random_field(rng, geometry, parts, about, spread)
    if rng.random() < 0.3:
        options["lambda"] = 0.1
    if rng.random() < 0.3:
        options["max_abs_error"] = step
    if geometry.n_bands > reference_transforms.SINGLE_BANDS and rng.random() < 0.5:
        options["ranges"] = True
        make_ranges(options, geometry.n_bands)
    return options


def make_ranges(options: dict, n_bands: int) -> None:
    """Gives the bands of a Morton range the entry of its first band."""
    _, first, range_of = np.unique(
        reference_transforms.ranges_of_bands(n_bands), return_index=True, return_inverse=True
    )
    for name in ("scales", "steps"):
        field = options.get(name, {})
        if "bands" in field:
            field["bands"] = np.array(field["bands"])[first][range_of].tolist()


def part_of(rng, shape, sides, options: dict) -> tuple[int, int]:
    """First value and number of values: the tensor, or whole blocks, or any part of it."""
    n = math.prod(shape)
    if rng.random() < 0.6 or n < 2 or (options["transforms"] and len(shape) < 2):
        return 0, n
    if not options["transforms"] and options["order"] != reference_spectral.ROW_BLOCKS:
        first = int(rng.integers(0, n))
        return first, int(rng.integers(1, n - first + 1))
    geometry = reference_spectral.Geometry(shape, sides)
    side = geometry.sides[0]
    n_blocks = -(-shape[0] // side)
    first = int(rng.integers(0, n_blocks))
    last = int(rng.integers(first, n_blocks)) + 1
    first, last = first * side, min(last * side, shape[0])
    return first * geometry.row_values, (last - first) * geometry.row_values


KINDS = ("gaussian", "laplace", "heavy", "sparse", "constant", "zero groups", "some specials")
KINDS += ("every magnitude", "specials")
STEPS = (3.0, 0.7, 0.2, 0.03, 1e-3, 1e-5, 1e-9, 1e-30, 1e30)


def make_cases(entropy: str) -> list[Case]:
    cases: list[Case] = []
    for dtype, kind, step in itertools.product(FLOATS, KINDS, STEPS):
        for shape, sides in BLOCKS:
            seed = len(cases)
            options = options_of(seed, shape, sides, step)
            first, n = part_of(np.random.default_rng(seed + 1), shape, sides, options)
            values = make_values(kind, dtype, max(n, 200), seed)[:n]
            name = f"{seed}: {dtype} {kind} {shape} {sides} {options}, {n} values from {first}"
            values = values.tobytes()
            case = Case(name, dtype, shape, first, n, values, options=options, entropy=entropy)
            cases.append(case)
    return cases
