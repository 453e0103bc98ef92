#!/usr/bin/env python3
"""Reads a packet of rows with nothing but numpy, zstandard, xxhash and ml_dtypes.

Written from spec/embeddings.md, not from the C++ code. It checks the hash and every rule, and
refuses the packet at the first that does not hold.

    reference_embeddings.py PACKET OUT.npz [KEYS.npz]

KEYS.npz has the keys of batch b, where it has keys, as integers of the name b.

As a module: `read(packet, keys)` returns a list of `Rows`.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import struct
import sys
from collections.abc import Mapping

import numpy as np
import reference_message
from reference_codec import Body
from reference_fields import Refused, check, require, tiled_hash64
from reference_records import DTYPES
from reference_rows import BUCKET_BITS, BUCKET_STARTS, Bits

MARK, VERSION = 0xCA, 1
HEADER_BYTES = 24
MAX_ROWS = 1 << 21
MAX_CODE = 1 << 22
PLAIN, IDS, FOLLOWING, KEYS = range(4)


@dataclasses.dataclass
class Batch:
    """A line of the table, section 1."""

    dtype: int
    order: int
    leader: int
    n_rows: int
    row_elems: int
    n_sent: int
    n_exact: int
    exact_bytes: int
    step: float


@dataclasses.dataclass
class Rows:
    dtype: str
    n_unique: int
    needs_keys: bool
    values: np.ndarray  # [n_rows, row_elems] of float32, float16 or bfloat16


def read(packet: bytes, keys: Mapping[int, np.ndarray] | None = None) -> list[Rows]:
    """Sections 1 to 4. `keys`: those of each batch of order 3, by its number. Raises Refused."""
    check(len(packet) > 0, "truncated", "no bytes")
    require(packet[0] == MARK, "the bytes do not begin as a packet of rows")
    check(len(packet) >= HEADER_BYTES + 8, "truncated", "fewer bytes than a header and a hash")
    check(packet[1] == VERSION, "unsupported", f"version {packet[1]}")
    table_bytes, *lengths = struct.unpack_from("<5I", packet, 4)
    at = HEADER_BYTES + table_bytes
    end = at + sum(lengths)
    check(len(packet) >= end + 8, "truncated", "the packet is cut")
    require(len(packet) == end + 8, "other bytes follow")
    given = struct.unpack_from("<Q", packet, end)[0]
    check(tiled_hash64(packet[:end]) == given, "checksum", "the packet is damaged")
    require(packet[2:4] == b"\0\0", "reserved bytes are set")
    batches = read_table(packet[HEADER_BYTES:at])
    require(sum(b.exact_bytes for b in batches) == lengths[3], "exact rows have another length")
    parts = []
    for length in lengths:
        parts.append(packet[at : at + length])
        at += length
    marks, numbers = _marks_and_numbers(batches, parts[0], parts[1], keys or {})
    sent = _sent_rows(batches, marks, parts[2], parts[3])
    return [
        Rows(DTYPES[b.dtype][0], b.n_sent, b.order == KEYS, rows[number])
        for b, rows, number in zip(batches, sent, numbers, strict=True)
    ]


def read_table(table: bytes) -> list[Batch]:
    """Section 1. Raises Refused."""
    batches: list[Batch] = []
    fields = Body(table)
    while fields.position < len(table):
        try:
            batch = _batch(fields)
        except Refused as cut:
            raise Refused("corrupt", f"the table: {cut.message}") from None
        known = batch.dtype in DTYPES and DTYPES[batch.dtype][0] in ("F32", "F16", "BF16")
        require(known, f"dtype {batch.dtype}")
        require(batch.order <= KEYS, "an order that does not exist")
        require(batch.n_rows <= MAX_ROWS, "too many rows")
        require(batch.n_sent <= batch.n_rows, "more rows are sent than there are")
        require(batch.n_sent > 0 or batch.n_rows == 0, "no row is sent")
        require(batch.n_exact <= batch.n_sent, "more rows are exact than are sent")
        require(batch.n_exact == 0 or batch.exact_bytes > 0, "exact rows without a message")
        if batch.n_exact != batch.n_sent:
            require(math.isfinite(batch.step) and batch.step > 0, "a step that is not positive")
        if batch.order == FOLLOWING:
            require(batch.leader < len(batches), "a leader that is not earlier")
            leader = batches[batch.leader]
            leads = leader.order != PLAIN and leader.n_rows == batch.n_rows
            require(leads, "a leader that does not lead")
        batches.append(batch)
    return batches


def _batch(fields: Body) -> Batch:
    dtype, order = fields.byte(), fields.byte()
    n_rows, row_elems = fields.varint(), fields.varint()
    leader = fields.varint() if order == FOLLOWING else 0
    n_sent = fields.varint() if order != PLAIN else n_rows
    n_exact = fields.varint()
    exact_bytes = fields.varint() if n_exact else 0
    step = struct.unpack("<d", fields.take(8))[0] if n_exact != n_sent else 0.0
    return Batch(dtype, order, leader, n_rows, row_elems, n_sent, n_exact, exact_bytes, step)


class Ids:
    """Section 3: the ids of all batches, one after another."""

    def __init__(self, message: bytes, bits: Bits) -> None:
        self.buckets, self.bits, self.at = _buckets(message), bits, 0

    def take(self, n: int, n_sent: int) -> np.ndarray:
        require(n <= len(self.buckets) - self.at, "buckets lack")
        buckets = self.buckets[self.at : self.at + n]
        self.at += n
        ids = BUCKET_STARTS[buckets] + self.bits.take(BUCKET_BITS[buckets])
        require(bool((ids < n_sent).all()), "an id of a row that is not there")
        return ids

    def end(self) -> None:
        require(self.at == len(self.buckets), "buckets of no ids")


def _buckets(message: bytes) -> np.ndarray:
    if not message:
        return np.empty(0, np.int64)
    values = _message(message, "F32", None)
    require(len(values) > 0, "a message of no buckets")
    with np.errstate(invalid="ignore"):
        rounded = np.rint(values)
    require(bool(((rounded >= -16) & (rounded < 16)).all()), "a bucket out of range")
    nearest = rounded.astype(np.int64)
    return np.where(nearest >= 0, 2 * nearest, -2 * nearest - 1)


def _marks_and_numbers(
    batches: list[Batch], buckets: bytes, bits: bytes, keys: Mapping[int, np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Section 2: which rows that are sent are exact, and which of them each row is."""
    string = Bits(bits)
    ids = Ids(buckets, string)
    marks, numbers = [], []
    for place, batch in enumerate(batches):
        if 0 < batch.n_exact < batch.n_sent:
            marks.append(string.take(np.ones(batch.n_sent, np.int64)).astype(bool))
            require(int(marks[-1].sum()) == batch.n_exact, "another number of marks")
        else:
            marks.append(np.full(batch.n_sent, batch.n_exact > 0))
        if batch.order == PLAIN:
            numbers.append(np.arange(batch.n_rows))
        elif batch.order == IDS:
            numbers.append(ids.take(batch.n_rows, batch.n_sent))
        elif batch.order == FOLLOWING:
            first, same = _first_rows(numbers[batch.leader])
            numbers.append(ids.take(len(first), batch.n_sent)[same])
        else:
            require(place in keys, "keys lack")
            require(len(keys[place]) == batch.n_rows, "another number of keys")
            first, same = _first_rows(np.asarray(keys[place]))
            require(len(first) == batch.n_sent, "another number of different keys")
            numbers.append(same)
    string.end()
    ids.end()
    return marks, numbers


def _first_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each value appears first, ascending; and for each row which of these has its value."""
    _, first, same = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.sort(first), rank[same.reshape(-1)]


def _sent_rows(
    batches: list[Batch], marks: list[np.ndarray], codes: bytes, exact: bytes
) -> list[np.ndarray]:
    """Section 4: the rows of each batch that are sent."""
    total = sum((b.n_sent - b.n_exact) * b.row_elems for b in batches)
    require((total > 0) == bool(codes), "a message of no codes, or codes without a message")
    values = _message(codes, "F32", total) if total else np.empty(0, np.float32)
    require(bool((np.abs(values) <= MAX_CODE).all()), "a code out of range")
    integers = np.rint(values).astype(np.int64)
    sent = []
    at_code = at_exact = 0
    for batch, mark in zip(batches, marks, strict=True):
        name, _, dtype, _ = DTYPES[batch.dtype]
        n_codes = (batch.n_sent - batch.n_exact) * batch.row_elems
        coded = _scaled(integers[at_code : at_code + n_codes], batch.step, dtype)
        at_code += n_codes
        kept = np.empty(0, dtype)
        if batch.n_exact > 0:
            message = exact[at_exact : at_exact + batch.exact_bytes]
            at_exact += batch.exact_bytes
            kept = _message(message, name, batch.n_exact * batch.row_elems)
        rows = np.empty((batch.n_sent, batch.row_elems), dtype)
        rows[~mark] = coded.reshape(batch.n_sent - batch.n_exact, batch.row_elems)
        rows[mark] = kept.reshape(batch.n_exact, batch.row_elems)
        sent.append(rows)
    return sent


def _scaled(integers: np.ndarray, step: float, dtype: type) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return (integers.astype(np.float64) * step).astype(np.float32).astype(dtype)


def _message(message: bytes, dtype: str, n: int | None) -> np.ndarray:
    decoded = reference_message.read(message)
    require(DTYPES[decoded.dtype][0] == dtype, "a message of another dtype")
    require(len(decoded.shape) == 1, "a message of another rank")
    require(n is None or decoded.shape == (n,), "a message of another length")
    return decoded.array()


def main(arguments: list[str]) -> int:
    """Writes the rows of all batches."""
    packet, out, *key_files = map(pathlib.Path, arguments)
    keys: dict[int, np.ndarray] = {}
    for path in key_files:
        with np.load(path) as found:
            keys.update({int(name): found[name] for name in found.files})
    try:
        batches = read(packet.read_bytes(), keys)
    except Refused as error:
        print(f"{packet}: {error}", file=sys.stderr)
        return 1
    # numpy files have no BF16: its bits, as for tensors.
    stored = {name: storable for name, _, _, storable in DTYPES.values()}
    np.savez(
        out, **{str(b): rows.values.view(stored[rows.dtype]) for b, rows in enumerate(batches)}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
