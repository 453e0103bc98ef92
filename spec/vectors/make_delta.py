#!/usr/bin/env python3
"""Makes the test vectors of codec delta, `delta/`, and their manifest.

    make_delta.py --writer build/tests/spec/write_delta            writes them
    make_delta.py --writer build/tests/spec/write_delta --check    compares them

A vector is three files: NAME.base, the values that a reader has; NAME.chunk, a payload; and
NAME.values, what it decodes to.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

import ml_dtypes
import numpy as np
from publish import publish

FOLDER = pathlib.Path(__file__).resolve().parent / "delta"
ARRAYS = {
    "BF16": ml_dtypes.bfloat16,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}


class Case(NamedTuple):
    name: str
    dtype: str
    n_elems: int
    base: bytes
    values: bytes


def weights(seed: int, n: int) -> np.ndarray:
    """Integers with a bell curve, the same with every version of numpy, as weights."""
    state, sums = np.uint64(seed * 2 + 1), np.zeros(n, np.float64)
    places = np.arange(n, dtype=np.uint64)
    for i in range(12):
        drawn = (places + np.uint64(i * n) + state) * np.uint64(0x9E3779B97F4A7C15)
        drawn ^= drawn >> np.uint64(32)
        drawn *= np.uint64(0xD6E8FEB86659FD93)
        sums += (drawn >> np.uint64(40)).astype(np.float64)
    return (sums - 6 * 2**24) * 2.0**-29


def step(name: str, dtype: str, n: int, size: float, seed: int = 1) -> Case:
    """Weights, and the same after a step of about this size."""
    before = weights(seed, n)
    after = before + weights(seed + 100, n) * size
    kind = ARRAYS[dtype]
    return Case(name, dtype, n, before.astype(kind).tobytes(), after.astype(kind).tobytes())


def changed(name: str, dtype: str, n_bytes: int, n_elems: int, flips: dict[int, int]) -> Case:
    """Bytes that count up, of which some are changed."""
    base = bytes(i * 7 % 251 for i in range(n_bytes))
    values = bytearray(base)
    for at, bits in flips.items():
        values[at] ^= bits
    return Case(name, dtype, n_elems, base, bytes(values))


def special() -> Case:
    """NaN with payloads, infinities, zeros, and each of them turned to the next one."""
    words = [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7FFF, 1, 0x8001, 0x3F80] * 20
    base = np.array(words, "<u2")
    return Case("special", "BF16", len(words), base.tobytes(), np.roll(base, 1).tobytes())


def paused() -> Case:
    """Changes at both ends, and none between them."""
    one = step("paused", "BF16", 12000, 0.02)
    middle = slice(800, -800)
    values = bytearray(one.values)
    values[middle] = one.base[middle]
    return one._replace(values=bytes(values))


def cases() -> list[Case]:
    """All vectors."""
    same = step("unchanged", "BF16", 100, 0)
    noise = [bytes(i * i * k % 253 for i in range(400)) for k in (3, 5)]
    nibbles = {i: 16 if i % 2 else 1 for i in range(3, 3000, 61)}
    return [
        same,
        Case("stored", "U16", 200, noise[0], noise[1]),
        step("bf16_few", "BF16", 4100, 0.0005),
        step("bf16_some", "BF16", 4100, 0.01),
        step("bf16_most", "BF16", 4100, 0.5),
        step("f16", "F16", 3001, 0.001),
        step("f8_e4m3", "F8_E4M3", 5000, 0.01),
        step("f8_e5m2", "F8_E5M2", 5000, 0.1),
        step("f32_few", "F32", 1500, 2.0**-26),
        step("f32_all", "F32", 1500, 0.001),
        step("f64", "F64", 1000, 0.001),
        special(),
        paused(),
        changed("i8", "I8", 3000, 3000, {i: 1 for i in range(5, 3000, 97)}),
        changed("i32_wide", "I32", 4000, 1000, {i: 255 for i in range(2, 4000, 333)}),
        changed("i64", "I64", 4000, 500, {i: 3 for i in range(0, 4000, 200)}),
        changed("nibbles", "U8", 3000, 3000, nibbles),
        changed("f4", "F4", 1500, 3000, {i: 0x11 for i in range(0, 1500, 50)}),
    ]


def encode(writer: pathlib.Path, case: Case) -> bytes:
    """The payload."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "base").write_bytes(case.base)
        (folder / "values").write_bytes(case.values)
        paths = [folder / "base", folder / "values", folder / "out"]
        subprocess.run([writer, case.dtype, str(case.n_elems), *paths], check=True)
        return paths[2].read_bytes()


def main() -> int:
    """Writes or compares the files."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--writer", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    files, entries = {}, []
    for case in cases():
        files[f"{case.name}.base"] = case.base
        files[f"{case.name}.values"] = case.values
        files[f"{case.name}.chunk"] = encode(options.writer, case)
        entries.append({"name": case.name, "dtype": case.dtype, "n_elems": case.n_elems})
    files["manifest.json"] = (json.dumps({"chunks": entries}, indent=1) + "\n").encode()
    return publish(FOLDER, files, "files of vectors", options.check)


if __name__ == "__main__":
    sys.exit(main())
