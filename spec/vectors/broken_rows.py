"""Records of the codec of rows put together by hand: one that is sound, and many that are not."""

from __future__ import annotations

import dataclasses
import struct

from broken_payloads import number
from broken_vectors import Broken, digest
from layout import MAGIC, Entry, Layout, frame

I32 = 16
SHAPE = [6, 2]


def stored(content: bytes) -> bytes:
    """A lossless chunk in mode 0."""
    return b"\0" + content


@dataclasses.dataclass
class Chunk:
    """Six rows: the first of the dictionary three times, the second twice, and a single one."""

    mode: int = 4
    codec: int = 1
    n_different: int = 3
    n_repeated: int = 2
    buckets: bytes = bytes([1, 2, 0, 1, 2, 1])
    offsets: bytes = b""
    rows: bytes = stored(struct.pack("<6i", 1, 2, 3, 4, 5, 6))
    behind: bytes = b""
    # Other lengths than those of the sections.
    bucket_bytes: int | None = None
    rows_bytes: int | None = None

    def payload(self) -> bytes:
        buckets = stored(self.buckets) if self.buckets else b""
        lengths = (
            len(buckets) if self.bucket_bytes is None else self.bucket_bytes,
            len(self.offsets),
            len(self.rows) if self.rows_bytes is None else self.rows_bytes,
        )
        fields = (self.n_different, self.n_repeated, *lengths)
        header = bytes([self.mode, self.codec]) + b"".join(number(field) for field in fields)
        return header + buckets + self.offsets + self.rows + self.behind


def other(payload: bytes, codec: int = 1, length: int | None = None) -> bytes:
    """Mode 5."""
    return bytes([5, codec]) + number(len(payload) if length is None else length) + payload


VALUES = struct.pack("<12i", 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 1, 2)


def file_of(payload: bytes, preamble: bytes | None = None, **fields) -> bytes:
    layout = Layout.empty()
    chunk = struct.pack("<II4s", MAGIC, 4 + len(payload), b"CHNK") + payload
    extents = [preamble] * (preamble is not None) + [chunk]
    entry = Entry(b"t", SHAPE, [], codec=4, entropy=1, dtype=I32, b=len(layout.body), c=12)
    entry.flags = 2 * (preamble is not None)
    entry.chunks = [[len(extent), 0] for extent in extents]
    entry.digest = digest(VALUES)
    for name, value in fields.items():
        setattr(entry, name, value)
    layout.body += b"".join(extents)
    layout.entries.append(entry)
    layout.rehash()
    return layout.seal()


def sound_file() -> bytes:
    return file_of(Chunk().payload())


def broken(name: str, payload: bytes, code: str = "corrupt", at: str = "read", **fields) -> Broken:
    return Broken(f"rows_{name}", code, at, file_of(payload, **fields), "t")


def in_chunks() -> list[Broken]:
    def with_changes(name: str, code: str = "corrupt", **changes) -> Broken:
        return broken(name, Chunk(**changes).payload(), code)

    quality = struct.pack("<ddddBB6x", 0, 1, 0, 1, 0, 0)
    error = struct.pack("<dddBB6x", 1, 0.5, 0.25, 1, 0)
    nothing = struct.pack("<dddBB6x", 0, 0.5, 0.25, 0, 0)
    whole = other(stored(VALUES))
    return [
        with_changes("mode_6", mode=6),
        with_changes("of_raw", "unsupported", codec=0),
        with_changes("of_spectral", "unsupported", codec=3),
        with_changes("of_rows", "unsupported", codec=4),
        with_changes("of_a_newer_codec", "unsupported", codec=200),
        with_changes("no_different_row", n_different=0, n_repeated=0),
        with_changes("more_different_than_rows", n_different=7),
        with_changes("more_repeated_than_different", n_repeated=4),
        with_changes("without_buckets", buckets=b""),
        with_changes("bucket_33", buckets=bytes([1, 2, 0, 1, 2, 34])),
        with_changes("number_too_large", buckets=bytes([1, 3, 0, 1, 2, 1])),
        with_changes("offset_too_large", buckets=bytes([1, 9, 0, 1, 2, 1]), offsets=b"\0"),
        with_changes("single_rows_missing", buckets=bytes([1, 2, 2, 1, 2, 1])),
        with_changes("single_rows_left_over", buckets=bytes([1, 2, 0, 1, 0, 1])),
        with_changes("offsets_left_over", offsets=b"\0"),
        with_changes("buckets_of_another_number", buckets=bytes([1, 2, 0, 1, 2])),
        with_changes("rows_of_another_number", rows=stored(bytes(16))),
        with_changes("without_rows", rows=b""),
        with_changes("bytes_behind", behind=b"\0"),
        with_changes("rows_too_long", rows_bytes=1000),
        with_changes("lengths_beyond_32_bits", rows_bytes=2**32 - 1, bucket_bytes=2**32 - 1),
        with_changes("buckets_beyond_32_bits", bucket_bytes=2**32 - 1),
        broken("cut_in_the_header", Chunk().payload()[:4]),
        broken("of_one_axis", Chunk().payload(), shape=[12]),
        broken("of_rows_of_three", Chunk().payload(), shape=[4, 3]),
        broken("whole_of_rows", other(stored(VALUES), 4), "unsupported"),
        broken("whole_too_long", other(stored(VALUES), length=1000)),
        broken("whole_too_short", other(stored(VALUES), length=40)),
        broken("whole_of_nothing", other(b"")),
        broken("with_a_preamble", whole, at="open", preamble=frame(b"PREA", b"\0")),
        broken("with_a_quality", whole, at="open", flags=12, error=error, quality=quality),
        broken("that_promises_nothing", whole, at="open", flags=4, error=nothing),
    ]
