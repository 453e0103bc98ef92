"""Packets of rows made by hand, and what both readers say of a packet."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
import reference_embeddings
from reference_container import Refused
from reference_fields import tiled_hash64

F16, BF16, F32 = 14, 15, 18
PLAIN, IDS, FOLLOWING, KEYS = range(4)
MOST_BYTES = 1 << 24
NO_KEYS = np.empty(0, np.int64)


class Batch(NamedTuple):
    """A line of the table."""

    n_rows: int
    row_elems: int
    n_sent: int
    order: int = PLAIN
    dtype: int = F32
    leader: int = 0
    n_exact: int = 0
    exact: bytes = b""  # the message
    step: float = 1.0
    exact_bytes: int | None = None  # where it is not the length of the message


def message(values, dtype: int = F32, shape: tuple[int, ...] | None = None) -> bytes:
    """A raw one. Of F16 and BF16 the bits of the values."""
    array = np.asarray(values, np.float32 if dtype == F32 else np.uint16)
    dimensions = array.shape if shape is None else shape
    head = bytes([0xCF, 2, dtype, 0, 0, len(dimensions), 0, 0])
    body = head + struct.pack(f"<{len(dimensions)}Q", *dimensions) + array.tobytes()
    return body + struct.pack("<Q", tiled_hash64(body))


def packed(numbers: list[tuple[int, int]]) -> bytes:
    """Pairs of a number and its bits."""
    whole = at = 0
    for number, n_bits in numbers:
        whole |= number << at
        at += n_bits
    return whole.to_bytes(-(-at // 8), "little")


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number >> 7)


def line_of(b: Batch) -> bytes:
    line = bytes([b.dtype, b.order]) + varint(b.n_rows) + varint(b.row_elems)
    line += varint(b.leader) if b.order == FOLLOWING else b""
    n_sent = b.n_rows if b.order == PLAIN else b.n_sent
    line += varint(n_sent) if b.order != PLAIN else b""
    line += varint(b.n_exact)
    exact_bytes = len(b.exact) if b.exact_bytes is None else b.exact_bytes
    line += varint(exact_bytes) if b.n_exact else b""
    return line + (struct.pack("<d", b.step) if b.n_exact != n_sent else b"")


def made(
    batches: list[Batch], buckets: bytes = b"", bits: bytes = b"", codes: bytes = b""
) -> bytes:
    exact = b"".join(batch.exact for batch in batches)
    lengths = len(buckets), len(bits), len(codes), len(exact)
    table = b"".join(line_of(batch) for batch in batches)
    body = struct.pack("<BBHI4I", 0xCA, 1, 0, len(table), *lengths) + table
    body += buckets + bits + codes + exact
    return body + struct.pack("<Q", tiled_hash64(body))


def batches_of(packet: bytes) -> list[reference_embeddings.Batch]:
    """The table of a packet; none where it is damaged."""
    end = 24 + struct.unpack_from("<I", packet, 4)[0]
    try:
        return reference_embeddings.read_table(packet[24:end])
    except Refused:
        return []


def sealed(packet: bytes) -> bytes:
    """With hashes that are right, also those of the messages."""
    body = bytearray(packet)
    table, buckets, bits, codes, _ = struct.unpack_from("<5I", body, 4)
    at = 24 + table
    messages = [(at, buckets), (at + buckets + bits, codes)]
    at += buckets + bits + codes
    for batch in batches_of(packet):
        messages.append((at, batch.exact_bytes))
        at += batch.exact_bytes
    for begin, length in messages:
        if length >= 8 and begin + length <= len(body) - 8:
            end = begin + length - 8
            struct.pack_into("<Q", body, end, tiled_hash64(bytes(body[begin:end])))
    struct.pack_into("<Q", body, len(body) - 8, tiled_hash64(bytes(body[:-8])))
    return bytes(body)


def by_reference(packet: bytes, keys: Mapping[int, np.ndarray]):
    """Shapes and values of all batches, or None where the packet is refused."""
    try:
        found = reference_embeddings.read(packet, keys)
    except Refused:
        return None
    return [
        ([rows.dtype, *rows.values.shape, rows.n_unique, rows.needs_keys], rows.values.tobytes())
        for rows in found
    ]


def by_library(packet: bytes, keys: Mapping[int, np.ndarray]):
    """The same; also None where the packet says that it has more than MOST_BYTES."""
    cfck = pytest.importorskip("cfck", reason="the package cfck is not installed")
    native = pytest.importorskip("cfck._native")
    held = np.frombuffer(packet, np.uint8)
    try:
        shapes = native.row_packet_shapes(held.ctypes.data, len(packet))
        sizes = [n * d * (4 if dtype == "F32" else 2) for dtype, n, d, _, _ in shapes]
        if sum(sizes) > MOST_BYTES:
            return None
        rooms = [np.zeros(size, np.uint8) for size in sizes]
        taken = [keys.get(b, NO_KEYS) if shape[4] else NO_KEYS for b, shape in enumerate(shapes)]
        given = [
            (room.ctypes.data, len(room), its.ctypes.data, len(its))
            for room, its in zip(rooms, taken, strict=True)
        ]
        native.decode_rows(held.ctypes.data, len(packet), given)
    except cfck.CfckError:
        return None
    return [(list(shape), room.tobytes()) for shape, room in zip(shapes, rooms, strict=True)]


def same_for_both(packet: bytes, keys: Mapping[int, np.ndarray] | None = None):
    """What both readers give, or None where both refuse."""
    found = by_reference(packet, keys or {})
    assert by_library(packet, keys or {}) == found
    return found
