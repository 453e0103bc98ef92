"""Chunks of the direct codec, made and decoded by the library (write_direct.cpp)."""

from __future__ import annotations

import dataclasses
import fractions
import json
import os
import pathlib
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest
import reference_codec
import reference_container
import reference_direct

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
FLOATS = {"F64": np.float64, "F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16}
DTYPE_IDS = {name: number for number, (name, *_) in reference_container.DTYPES.items()}
KERNELS = (12, 5, 3, 3)


def writer_program(codec: str = "direct"):
    candidates = [os.environ.get(f"CFCK_WRITE_{codec.upper()}", "")]
    candidates += [str(path) for path in REPOSITORY.glob(f"build*/tests/spec/write_{codec}")]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


needs_writer = pytest.mark.skipif(
    writer_program() is None, reason="write_direct is not built (CFCK_WRITE_DIRECT)"
)


@dataclasses.dataclass
class Case:
    """Values to encode, or a payload to decode."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    first: int
    n: int
    values: bytes | None = None
    payload: bytes = b""
    preamble: bytes | None = None
    options: dict = dataclasses.field(default_factory=dict)  # of encoding
    entropy: str = "zstd"

    @property
    def stage(self) -> int:
        return {"zstd": reference_codec.ZSTD, "rans": reference_codec.RANS}[self.entropy]


@dataclasses.dataclass
class Outcome:
    """What the library made of a case."""

    preamble: bytes
    payload: bytes
    decoded: bytes
    error: str


def run(cases: list[Case], folder: pathlib.Path, codec: str = "direct") -> list[Outcome]:
    data, described = bytearray(), []

    def place(part: bytes) -> tuple[int, int]:
        data.extend(part)
        return len(data) - len(part), len(part)

    for case in cases:
        item = {"dtype": case.dtype, "shape": case.shape, "first": case.first, "n": case.n}
        item["entropy"] = case.entropy
        if case.values is not None:
            item |= case.options | {"values": place(case.values)}
        else:
            item["payload"] = place(case.payload)
            if case.preamble is not None:
                item["preamble"] = place(case.preamble)
        described.append(item)
    (folder / "cases.json").write_text(json.dumps(described))
    (folder / "data.bin").write_bytes(data)
    files = [folder / name for name in ("cases.json", "data.bin", "out.bin")]
    result = subprocess.run([writer_program(codec), *files], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    out = reference_container.Fields(files[2].read_bytes())
    strings = [[out.take(*out.numbers("I")) for _ in range(4)] for _ in cases]
    out.end("out.bin")
    return [Outcome(*parts[:3], parts[3].decode()) for parts in strings]


def reference_values(case: Case, outcome: Outcome) -> bytes:
    """What the reference decoder makes of the payload. Raises Refused."""
    preamble = case.preamble if case.values is None else outcome.preamble or None
    decoded = reference_direct.decode_direct(
        DTYPE_IDS[case.dtype],
        case.shape,
        case.first,
        case.n,
        preamble,
        outcome.payload,
        case.stage,
    )
    return decoded.tobytes()


# Values


def special_bits(rng, dtype: str, n: int) -> np.ndarray:
    """Zeros, subnormals, largest values, infinities and NaN with payloads, of either sign."""
    size = np.dtype(FLOATS[dtype]).itemsize
    mantissa = {"F64": 52, "F32": 23, "BF16": 7, "F16": 10}[dtype]
    word = np.dtype(f"<u{size}")
    top = np.uint64(2 ** (8 * size - 1 - mantissa) - 1 << mantissa)
    fraction = rng.integers(0, 2**63, n, np.uint64) % np.uint64(1 << mantissa)
    random = rng.integers(0, 2**63, n, np.uint64) << np.uint64(1)
    finite = random % top
    kinds = [np.zeros_like(top), fraction, top - np.uint64(1), top, top | fraction, finite]
    magnitude = np.choose(rng.integers(0, len(kinds), n), kinds)
    sign = rng.integers(0, 2, n, np.uint64) << np.uint64(8 * size - 1)
    return (magnitude | sign).astype(word).view(FLOATS[dtype])


def make_values(kind: str, dtype: str, n: int, seed: int = 1) -> np.ndarray:
    """About 1 in magnitude where the kind does not say something else."""
    rng = np.random.default_rng(seed)
    float_type = FLOATS[dtype]
    if kind == "specials":
        return special_bits(rng, dtype, n)
    if kind == "random bits":
        return np.frombuffer(rng.bytes(n * np.dtype(float_type).itemsize), float_type)
    values = rng.standard_normal(n)
    if kind == "laplace":
        values *= rng.standard_normal(n)
    elif kind == "heavy":
        values /= rng.random(n) ** 2 + 1e-3
    elif kind == "sparse":  # zeros of either sign
        values *= rng.integers(0, 4, n) == 0
    elif kind == "zero groups":
        values *= np.arange(n) // 300 % 2
    elif kind == "constant":
        values[:] = values[0]
    elif kind == "some specials":
        values = values.astype(float_type)
        some = rng.integers(0, 40, n) == 0
        values[some] = special_bits(rng, dtype, n)[some]
    elif kind == "every magnitude":
        least, greatest = {"F64": (-1074, 1023), "F16": (-24, 15)}.get(dtype, (-149, 127))
        values = np.ldexp(values / 4, rng.integers(least, greatest, n))
    elif kind == "jumps":
        values *= 2.0 ** rng.integers(-12, 13, n // 100 + 1).repeat(100)[:n]
    with np.errstate(over="ignore"):
        return values.astype(float_type)


VALUE_KINDS = "gaussian laplace heavy sparse constant specials jumps".split() + [
    "zero groups",
    "random bits",
    "some specials",
    "every magnitude",
]
VARIANTS = {
    "plain": (),
    "prediction": ("prediction",),
    "field": ("field",),
    "prediction, field": ("prediction", "field"),
    "row steps": ("rows",),
    "row steps, prediction, field": ("rows", "prediction", "field"),
}


def options_of(features, bound: float, shape, first: int, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    geometry = reference_direct.Geometry.of(shape)
    options = {"bound": bound, "in_preamble": bool(seed % 2)}
    if "rows" in features:
        factors = rng.choice([0, 2.0**-900, 1e-3, 0.5, 1, 1, 1, 3], geometry.rows)
        options["row_bounds"] = (bound * factors).tolist()
        del options["bound"]
    if "prediction" in features:
        count = geometry.kernel_size * (geometry.kernel_size - 1) // 2
        options["coefficients"] = rng.integers(-80, 80, count).tolist()
    if "field" in features:
        about = 29 + 4 * np.log2(0.5 / bound)
        for name, count in (("bands", geometry.kernel_size), ("rows", geometry.rows)):
            options[name] = rng.integers(-6, 7, count).tolist()
        columns = np.clip(about, -900, 900) + rng.integers(-6, 7, geometry.columns)
        options["columns"] = columns.astype(int).tolist()
    return options


def make_cases(entropy: str = "zstd") -> list[Case]:
    cases: list[Case] = []
    for dtype in FLOATS:
        for kind in VALUE_KINDS:
            for variant, features in VARIANTS.items():
                for bound in (8.0, 0.9, 0.3, 0.1, 0.02, 1e-3, 1e-6, 1e-8, 5e-10, 1e-30):
                    seed = len(cases)
                    n = (540, 1, 77, 128, 1037)[seed % 5] if seed % 3 else 1080
                    first = seed * 31 % (2 * (540 - 77)) if n < 540 else 0
                    shape = KERNELS if n <= 540 else (24, 5, 9)
                    values = make_values(kind, dtype, n, seed)
                    options = options_of(features, bound, shape, first, seed)
                    # An inline field is for whole tensors only.
                    is_part = "field" in features and n != np.prod(shape)
                    options["in_preamble"] = options["in_preamble"] or bool(is_part)
                    cases.append(
                        Case(
                            f"{dtype} {kind}, {variant}, bound {bound}, {n} values",
                            dtype,
                            shape,
                            first if first + n <= np.prod(shape) else 0,
                            n,
                            values.tobytes(),
                            options=options,
                            entropy=entropy,
                        )
                    )
    return cases


def bounds_of(case: Case) -> np.ndarray:
    """The bound of every value."""
    if "bound" in case.options:
        return np.full(case.n, case.options["bound"])
    geometry = reference_direct.Geometry.of(case.shape)
    rows = (case.first + np.arange(case.n)) // (geometry.columns * geometry.kernel_size)
    return np.array(case.options["row_bounds"])[rows]


def beyond_bound(case: Case, decoded: bytes) -> list[tuple]:
    """The values that came back beyond the bound: numbers in exact arithmetic, else bits."""
    before = np.frombuffer(case.values, FLOATS[case.dtype])
    after = np.frombuffer(decoded, FLOATS[case.dtype])
    word = f"<u{before.itemsize}"
    changed = np.flatnonzero(before.view(word) != after.view(word))
    x, y = before[changed].astype(np.float64), after[changed].astype(np.float64)
    wrong = []
    for a, b, bound in zip(x.tolist(), y.tolist(), bounds_of(case)[changed].tolist()):
        numbers = np.isfinite(a) and np.isfinite(b)
        if not numbers or abs(fractions.Fraction(a) - fractions.Fraction(b)) > bound:
            wrong.append((a, b, bound))
    return wrong


def pack_numbers(*numbers: int) -> bytes:
    """As codec/lossless/spec.md says at its start."""
    out = bytearray()
    for value in numbers:
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return bytes(out)


def f64(value: float) -> bytes:
    return struct.pack("<d", value)
