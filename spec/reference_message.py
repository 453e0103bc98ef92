#!/usr/bin/env python3
"""Reads a cfck message with nothing but numpy, zstandard, xxhash and ml_dtypes.

Written from spec/message.md and the pages of the codecs, not from the C++ code. It checks the
hash and every rule, and refuses the message at the first that does not hold.

    reference_message.py MESSAGE OUT.npy

As a module: `read(message)` returns a `Message`.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import struct
import sys

import numpy as np
from reference_decoder import decode
from reference_fields import Refused, check, require, tiled_hash64
from reference_records import CODECS, DTYPES, ENTROPY_STAGES, MAX_CHUNK_BYTES, RAW

MARK, VERSION = 0xCF, 2
HAS_TABLE = 1
MAX_RANK = 64


@dataclasses.dataclass
class Message:
    dtype: int
    codec: int
    entropy: int
    shape: tuple[int, ...]
    has_table: bool
    data: np.ndarray  # uint8, flat: the bytes of the tensor

    def array(self) -> np.ndarray:
        """The tensor in numpy and ml_dtypes; sub-byte dtypes as packed bytes."""
        if DTYPES[self.dtype][1] < 8:
            return self.data
        return self.data.view(DTYPES[self.dtype][2]).reshape(self.shape)


def read(message: bytes) -> Message:
    """Sections 1 to 3. Raises Refused."""
    check(len(message) >= 16, "truncated", "fewer bytes than a header and a hash")
    mark, version, dtype, codec, entropy, rank, flags, reserved = message[:8]
    require(mark == MARK, "the bytes do not begin as a message")
    check(version == VERSION, "unsupported", f"version {version}")
    rest = message[:-8]
    given = struct.unpack("<Q", message[-8:])[0]
    check(tiled_hash64(rest) == given, "checksum", "the message is damaged")
    require(rank <= MAX_RANK, "too many dimensions")
    require(flags in (0, HAS_TABLE) and reserved == 0, "reserved bits are set")
    check(len(rest) >= 8 + 8 * rank, "truncated", "the dimensions are cut")
    check(dtype in DTYPES, "unsupported", f"dtype {dtype}")
    check(codec in CODECS, "unsupported", f"codec {codec}")
    check(CODECS[codec] != "delta", "unsupported", "values against a base")
    check(entropy in ENTROPY_STAGES, "unsupported", f"entropy stage {entropy}")
    shape = struct.unpack_from(f"<{rank}Q", rest, 8)
    body = rest[8 + 8 * rank :]
    n_elems = math.prod(shape)
    n_bits = n_elems * DTYPES[dtype][1]
    require(math.prod(d for d in shape if d) < 1 << 63, "too many elements")
    require(n_bits % 8 == 0 and n_bits // 8 < 1 << 63, "the values do not fill whole bytes")
    found = Message(dtype, codec, entropy, shape, bool(flags), np.empty(0, np.uint8))
    if codec == RAW:
        require(entropy == 0 and not flags, "raw values have neither stage nor chunks")
        require(len(body) == n_bits // 8, "the values have another length than the shape")
        found.data = np.frombuffer(body, np.uint8)
        return found
    require(n_elems > 0 and entropy != 0, "a codec without values or without an entropy stage")
    if flags:
        found.data = read_chunks(found, body, n_elems)
    else:
        require(n_bits // 8 <= MAX_CHUNK_BYTES, "the chunk is too long")
        found.data = decode(found, body, 0, n_elems)
    return found


def read_chunks(message: Message, body: bytes, n_elems: int) -> np.ndarray:
    """Section 3."""
    check(len(body) >= 8, "truncated", "the table is cut")
    chunk_elems, preamble_bytes = struct.unpack_from("<II", body)
    bits = DTYPES[message.dtype][1]
    require(0 < chunk_elems < n_elems, "the length of chunks is out of range")
    require(bits >= 8 or chunk_elems % 8 == 0, "chunks do not fill whole bytes")
    require(chunk_elems * bits // 8 <= MAX_CHUNK_BYTES, "the chunks are too long")
    n_chunks = -(-n_elems // chunk_elems)
    check(len(body) - 8 >= 4 * n_chunks, "truncated", "the table is cut")
    lengths = struct.unpack_from(f"<{n_chunks}I", body, 8)
    at = 8 + 4 * n_chunks
    require(all(lengths), "a chunk is empty")
    require(at + preamble_bytes + sum(lengths) == len(body), "the lengths do not add up")
    preamble = body[at : at + preamble_bytes] if preamble_bytes else None
    at += preamble_bytes
    parts = []
    for number, length in enumerate(lengths):
        first = number * chunk_elems
        count = min(chunk_elems, n_elems - first)
        parts.append(decode(message, body[at : at + length], first, count, preamble))
        at += length
    return np.concatenate(parts)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: reference_message.py MESSAGE OUT.npy", file=sys.stderr)
        return 2
    try:
        message = read(pathlib.Path(arguments[0]).read_bytes())
    except Refused as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    bits, storable = DTYPES[message.dtype][1], DTYPES[message.dtype][3]
    flat = message.data.view(storable)
    np.save(arguments[1], flat.reshape(message.shape) if bits >= 8 else flat)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
