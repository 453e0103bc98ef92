#!/usr/bin/env python3
"""Reads a packet of gradients with nothing but numpy, zstandard, xxhash and ml_dtypes.

Written from spec/gradients.md, not from the C++ code. It checks the hash and every rule, and
refuses the packet at the first that does not hold.

    reference_gradients.py PACKET OUT.npz

As a module: `read(packet)` returns a list of `Sparse`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import struct
import sys

import numpy as np
import reference_message
from reference_fields import Refused, check, require, tiled_hash64
from reference_records import DTYPES

MARK, VERSION = 0xC9, 1
MAX_FLOAT_GAP = 1 << 24


@dataclasses.dataclass
class Sparse:
    n_elems: int
    indices: np.ndarray  # int64
    values: np.ndarray  # float32


def read(packet: bytes) -> list[Sparse]:
    """Sections 1 to 3. Raises Refused."""
    check(len(packet) > 0, "truncated", "no bytes")
    require(packet[0] == MARK, "the bytes do not begin as a packet of gradients")
    check(len(packet) >= 24, "truncated", "fewer bytes than a header and a hash")
    check(packet[1] == VERSION, "unsupported", f"version {packet[1]}")
    require(packet[2:4] == b"\0\0", "reserved bytes are set")
    n_tensors, gap_bytes, value_bytes = struct.unpack_from("<3I", packet, 4)
    gaps_at = 16 + 12 * n_tensors
    values_at = gaps_at + gap_bytes
    end = values_at + value_bytes
    check(len(packet) >= end + 8, "truncated", "the packet is cut")
    require(len(packet) == end + 8, "other bytes follow")
    shapes = [struct.unpack_from("<IIf", packet, 16 + 12 * i) for i in range(n_tensors)]
    require(all(k <= n for n, k, _ in shapes), "more values than elements")
    given = struct.unpack_from("<Q", packet, end)[0]
    check(tiled_hash64(packet[:end]) == given, "checksum", "the packet is damaged")
    total = sum(k for _, k, _ in shapes)
    if total == 0:
        require(gap_bytes == value_bytes == 0, "messages of no values")
        return [Sparse(n, np.empty(0, np.int64), np.empty(0, np.float32)) for n, _, _ in shapes]
    gaps = _gaps(packet[gaps_at:values_at], total)
    units = _message(packet[values_at:end], total, {"F32"})
    found, at = [], 0
    for n, k, scale in shapes:
        indices = np.cumsum(gaps[at : at + k] + 1) - 1
        require(k == 0 or indices[-1] < n, "a place beyond the tensor")
        found.append(Sparse(n, indices, _scaled(units[at : at + k], np.float32(scale))))
        at += k
    return found


def _message(message: bytes, n: int, dtypes: set[str]) -> np.ndarray:
    decoded = reference_message.read(message)
    require(DTYPES[decoded.dtype][0] in dtypes, "a message of another dtype")
    require(decoded.shape == (n,), "a message of another length")
    return decoded.array()


def _gaps(message: bytes, n: int) -> np.ndarray:
    """Section 2."""
    decoded = _message(message, n, {"F32", "U32"})
    if decoded.dtype == np.float32:
        rounded = np.rint(decoded)
        require(bool(((rounded >= 0) & (rounded < MAX_FLOAT_GAP)).all()), "a gap out of range")
        decoded = rounded
    return decoded.astype(np.int64)


def _scaled(units: np.ndarray, scale: np.float32) -> np.ndarray:
    """Section 3."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.where(np.isfinite(units), units * scale, units)
    # Bits of numbers that are not finite stay as they are.
    bits = np.where(np.isfinite(units), scaled.view(np.uint32), units.view(np.uint32))
    return bits.astype(np.uint32).view(np.float32)


def main(arguments: list[str]) -> int:
    """Writes the indices and values of all tensors."""
    packet, out = map(pathlib.Path, arguments)
    try:
        tensors = read(packet.read_bytes())
    except Refused as error:
        print(f"{packet}: {error}", file=sys.stderr)
        return 1
    arrays = {}
    for number, tensor in enumerate(tensors):
        arrays[f"{number}.indices"], arrays[f"{number}.values"] = tensor.indices, tensor.values
    np.savez(out, **arrays)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
