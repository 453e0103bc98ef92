"""Decodes the payloads of chunks of rows: codec/rows/spec.md. Its buckets are those of
embeddings.md, section 3, and its strings of bits those of section 2."""

from __future__ import annotations

import math

import numpy as np
from reference_codec import ZSTD, Body, decode_chunk
from reference_direct import decode_direct
from reference_fields import check, require
from reference_records import DIRECT, DTYPES, LOSSLESS

DICTIONARY, OTHER = 4, 5  # modes
U8 = 5
# spec/embeddings.md, section 3.
BUCKET_BITS = np.array([0] * 8 + [b for b in range(2, 11) for _ in "12"] + [11, *range(13, 22, 2)])
BUCKET_STARTS = np.cumsum(1 << BUCKET_BITS) - (1 << BUCKET_BITS)


class Bits:
    """Numbers from a string of bits, one after another, least significant bit first."""

    def __init__(self, data: bytes) -> None:
        self.bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.int64)
        self.at = 0

    def take(self, widths: np.ndarray) -> np.ndarray:
        starts = self.at + np.cumsum(widths) - widths
        self.at += int(widths.sum())
        require(self.at <= len(self.bits), "the bits are cut")
        found = np.zeros(len(widths), np.int64)
        for bit in range(int(widths.max(initial=0))):
            has = widths > bit
            found[has] |= self.bits[starts[has] + bit] << bit
        return found

    def end(self) -> None:
        require(len(self.bits) - self.at < 8, "bytes follow the bits")
        require(not self.bits[self.at :].any(), "bits are set behind the last")


def decode_rows(
    dtype: int,
    shape: tuple[int, ...],
    first_elem: int,
    n_elems: int,
    preamble: bytes | None,
    payload: bytes,
    entropy: int = ZSTD,
    body_bytes: int | None = None,
) -> np.ndarray:
    """The bytes of the `n_elems` values from number `first_elem` of a tensor of the shape.
    `body_bytes`: what the CHNK frame says, if there is one. Raises Refused."""
    check(preamble is None, "unsupported", "a preamble of a record of rows")
    if not payload or payload[0] < DICTIONARY:
        return decode_chunk(payload, dtype, n_elems, entropy, body_bytes)
    body = Body(payload)
    mode, codec = body.byte(), body.byte()
    require(mode in (DICTIONARY, OTHER), f"mode {mode}")
    check(codec in (LOSSLESS, DIRECT), "unsupported", f"rows of codec {codec}")
    n_rows = whole_rows(dtype, shape, first_elem, n_elems)
    if mode == OTHER:
        own = (n_rows, shape[-1]) if n_rows else (n_elems,)
        coded = body.take(nonzero(body.varint()))
        body.end("payload")
        require(body_bytes in (None, len(payload)), "the body has another length than its frame")
        return decode_other(codec, dtype, own, coded, entropy)
    require(n_rows, "a dictionary of a chunk without whole rows")
    n_different, n_repeated, *lengths = (body.varint() for _ in range(5))
    require(1 <= n_different <= n_rows, "the number of different rows")
    require(n_repeated <= n_different, "the number of repeated rows")
    require(lengths[0] > 0 and lengths[2] > 0, "a section lacks")
    buckets, offsets, coded = (body.take(length) for length in lengths)
    body.end("payload")
    require(body_bytes in (None, len(payload)), "the body has another length than its frame")
    numbers = row_numbers(buckets, offsets, n_rows, n_different, n_repeated)
    different = decode_other(codec, dtype, (n_different, shape[-1]), coded, entropy)
    return different.reshape(n_different, -1)[numbers].reshape(-1)


def nonzero(length: int) -> int:
    require(length > 0, "a section lacks")
    return length


def whole_rows(dtype: int, shape: tuple[int, ...], first_elem: int, n_elems: int) -> int:
    """How many whole rows the chunk has; 0 where it has others."""
    if len(shape) < 2 or shape[-1] == 0 or first_elem % shape[-1] or n_elems % shape[-1]:
        return 0
    return 0 if shape[-1] * DTYPES[dtype][1] % 8 else n_elems // shape[-1]


def row_numbers(
    buckets: bytes, offsets: bytes, n_rows: int, n_different: int, n_repeated: int
) -> np.ndarray:
    coded = decode_chunk(buckets, U8, n_rows, ZSTD, None).astype(np.int64)
    require(int(coded.max()) <= len(BUCKET_BITS), "a bucket that does not exist")
    single = coded == 0
    require(int(single.sum()) == n_different - n_repeated, "the number of single rows")
    bits = Bits(offsets)
    numbers = np.empty(n_rows, np.int64)
    numbers[single] = np.arange(n_repeated, n_different)
    chosen = coded[~single] - 1
    numbers[~single] = BUCKET_STARTS[chosen] + bits.take(BUCKET_BITS[chosen])
    bits.end()
    require(bool((numbers[~single] < n_repeated).all()), "a row that the dictionary lacks")
    return numbers


def decode_other(
    codec: int, dtype: int, shape: tuple[int, ...], coded: bytes, entropy: int
) -> np.ndarray:
    """A chunk that is a tensor of its own."""
    n_elems = math.prod(shape)
    if codec == DIRECT:
        return decode_direct(dtype, shape, 0, n_elems, None, coded, entropy)
    return decode_chunk(coded, dtype, n_elems, entropy, None)
