#!/usr/bin/env python3
"""Makes the test vectors of packets of rows, `embeddings/`, and their manifest.

    make_embeddings.py --writer build/tests/spec/write_embeddings            writes them
    make_embeddings.py --writer build/tests/spec/write_embeddings --check    compares them

The hashes in the manifest are those of the rows that the reference reader gives, of all batches
one after the other. Bytes of libzstd may differ from version to version, as in the vectors of
files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
from typing import NamedTuple

import ml_dtypes
import numpy as np
from publish import publish
from vector import Random, ordinary, packed_floats

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "embeddings"
sys.path.insert(0, str(HERE.parent))

NUMBERS = {"F16": 14, "BF16": 15, "F32": 18}
ARRAYS = {"F16": np.float16, "BF16": ml_dtypes.bfloat16, "F32": np.float32}
# Every byte that is saved counts, so that ids are sent; and none does.
SLOW, FAST = 1e6, 1e15


class Batch(NamedTuple):
    dtype: str
    n_rows: int
    row_elems: int
    values: bytes
    max_abs_error: float
    keys: list[int] | None = None

    def array(self) -> np.ndarray:
        flat = np.frombuffer(self.values, ARRAYS[self.dtype])
        return flat.reshape(self.n_rows, self.row_elems)


class Case(NamedTuple):
    name: str
    orders: list[int]
    batches: list[Batch]
    bytes_per_second: float = SLOW


def popular(random: Random, n_rows: int, n_ids: int) -> list[int]:
    """Ids below n_ids, low ones more often."""
    return [random.below(random.below(n_ids) + 1) for _ in range(n_rows)]


def rows_of(
    random: Random,
    ids: list[int],
    row_elems: int,
    error: float,
    dtype: str = "F32",
    special: dict[int, bytes] | None = None,
) -> Batch:
    """The rows of a table of random values. `special`: rows of the table that begin otherwise."""
    n_table = max(ids, default=-1) + 1
    values = ordinary(dtype, n_table * row_elems, random)
    size = len(values) // max(n_table, 1)
    table = [values[size * i : size * (i + 1)] for i in range(n_table)]
    for row, begin in (special or {}).items():
        table[row] = begin + table[row][len(begin) :]
    return Batch(dtype, len(ids), row_elems, b"".join(table[i] for i in ids), error)


def counting(ids: list[int]) -> Batch:
    """Row i of the table is the number i, and seven zeros."""
    values = [value for i in ids for value in (float(i), *[0.0] * 7)]
    return Batch("F32", len(ids), 8, packed_floats("F32", values), 0)


def cases() -> list[Case]:
    random = Random(9100)
    people = popular(random, 160, 40)
    ages = [person * 7919 % 11 for person in people]
    distinct = list(range(50))
    nan = {"F32": b"\x45\x23\xa1\x7f", "F16": b"\x01\xfc", "BF16": b"\x81\x7f"}
    infinity = {"F32": b"\0\0\x80\xff", "F16": b"\0\x7c", "BF16": b"\x80\xff"}
    marked = [
        rows_of(random, people, 5, 0.002, dtype, {2: nan[dtype], 9: infinity[dtype]})
        for dtype in NUMBERS
    ]
    keyed = rows_of(random, people, 6, 0.001)._replace(keys=[9 * p - 100 for p in people])
    following = [rows_of(random, people, 4, 0.001), rows_of(random, ages, 3, 0.002, "BF16")]
    far = list(range(6400))
    return [
        Case("plain", [0], [rows_of(random, distinct, 8, 0.001)]),
        Case("plain_repeated", [0], [rows_of(random, people, 4, 0.001)], FAST),
        Case("ids", [1], [rows_of(random, people, 8, 0.001)]),
        Case("f16", [1], [rows_of(random, people, 7, 0.0003, "F16")]),
        Case("bf16", [1], [rows_of(random, people, 7, 0.004, "BF16")]),
        Case("following", [1, 2], following),
        Case("keys", [3, 2], [keyed, rows_of(random, ages, 3, 0.002, "F16")]),
        Case("marks", [1, 2, 2], marked),
        Case("all_marked", [0], [rows_of(random, distinct[:6], 2, 1e-30)]),
        Case("lossless", [1, 0], [
            rows_of(random, people, 6, 0, special={0: nan["F32"]}),
            rows_of(random, distinct, 4, 0, "BF16"),
        ]),
        Case("one_lossless", [1, 1], [
            rows_of(random, popular(random, 90, 30), 4, 0.001),
            rows_of(random, people, 4, 0, "F16"),
        ]),
        Case("far", [1], [counting([*far, *far[::-9], *range(5000, 6400, 7)])]),
        Case("no_rows", [0, 0, 0], [
            Batch("F16", 0, 7, b"", 0.1), Batch("F32", 0, 0, b"", 0), Batch("BF16", 3, 0, b"", 0),
        ], FAST),
        Case("no_batches", [], []),
        Case("several", [1, 0, 3, 2, 1, 0, 2], [
            *following[:1], Batch("F32", 0, 4, b"", 0.01), keyed, following[1],
            rows_of(random, popular(random, 70, 9), 3, 0, "F16"),
            rows_of(random, distinct[:20], 5, 0.01, special={3: nan["F32"]}), marked[2],
        ]),
    ]  # fmt: skip


def write(writer: str, case: Case) -> bytes:
    parts = [struct.pack("<I", len(case.batches))]
    for batch in case.batches:
        keys = batch.keys or []
        fields = NUMBERS[batch.dtype], batch.n_rows, batch.row_elems, len(keys) > 0
        parts.append(struct.pack("<4Id", *fields, batch.max_abs_error))
        parts += [struct.pack(f"<{len(keys)}q", *keys), batch.values]
    with tempfile.TemporaryDirectory() as folder:
        data, out = pathlib.Path(folder, "data"), pathlib.Path(folder, "packet")
        data.write_bytes(b"".join(parts))
        command = [writer, str(case.bytes_per_second), data, out]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            raise SystemExit(f"{case.name}: {result.stderr.strip()}")
        return out.read_bytes()


def check_rows(case: Case, batch: Batch, found: np.ndarray) -> None:
    """Within the error; values that are not finite, and all without an error, bit for bit."""
    expected = batch.array()
    finite = np.isfinite(expected.astype(np.float32)) & (batch.max_abs_error > 0)
    word = np.dtype(f"u{expected.itemsize}")
    off = np.abs(found[finite].astype(np.float64) - expected[finite].astype(np.float64))
    kept = found.view(word)[~finite] == expected.view(word)[~finite]
    if (off > batch.max_abs_error).any() or not kept.all():
        raise SystemExit(f"{case.name}: the reference reader gives other rows")


def entry_of(case: Case, packet: bytes) -> dict[str, object]:
    import reference_embeddings  # found only now

    given = dict(enumerate(batch.keys for batch in case.batches))
    keys = {b: np.array(k, np.int64) for b, k in given.items() if k is not None}
    found = reference_embeddings.read(packet, keys)
    for batch, rows in zip(case.batches, found, strict=True):
        check_rows(case, batch, rows.values)
    table = packet[24 : 24 + int.from_bytes(packet[4:8], "little")]
    orders = [batch.order for batch in reference_embeddings.read_table(table)]
    if orders != case.orders:
        raise SystemExit(f"{case.name}: the batches have orders {orders}")
    content = b"".join(rows.values.tobytes() for rows in found)
    return {
        "file": f"{case.name}.packet",
        "batches": [[r.dtype, *r.values.shape, r.n_unique, r.needs_keys] for r in found],
        "keys": {str(b): k.tolist() for b, k in keys.items()},
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writer", required=True, help="the program write_embeddings")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args()
    files = {f"{case.name}.packet": write(arguments.writer, case) for case in cases()}
    entries = [entry_of(case, files[f"{case.name}.packet"]) for case in cases()]
    # A line for each packet, since keys are many numbers.
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    files["manifest.json"] = ('{"packets": [\n' + lines + "\n]}\n").encode()
    return publish(FOLDER, files, "packets", arguments.check)


if __name__ == "__main__":
    sys.exit(main())
