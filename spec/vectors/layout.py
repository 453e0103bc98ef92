"""The tables of a .cfck file as plain lists, to be changed and sealed again.

Made for vectors that break one rule and keep all others: hashes are computed
again, so that the fault is the only one. Nothing is checked here.
"""

from __future__ import annotations

import dataclasses
import struct

import xxhash
import zstandard

MAGIC = 0x184D2A5C


def hash64(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(bytes(data))


def tiled_hash64(data: bytes) -> int:
    """The tiled hash of spec/format.md, section 1."""
    tiles = [data[at : at + 4096] for at in range(0, max(1, len(data)), 4096)]
    return sum((2 * i + 1) * hash64(tile) for i, tile in enumerate(tiles)) % 2**64


def hash128(data: bytes) -> bytes:
    return xxhash.xxh3_128_intdigest(bytes(data)).to_bytes(16, "little")


def frame(tag: bytes, contents: bytes) -> bytes:
    return struct.pack("<II4s", MAGIC, len(contents) + 4, tag) + contents


@dataclasses.dataclass
class Entry:
    """A record entry, field by field (spec/format.md, 5.1)."""

    name: bytes
    shape: list[int]
    strides: list[int]  # of an alias
    kind: int = 0
    dtype: int = 5
    codec: int = 0
    entropy: int = 0
    scan: int = 0
    flags: int = 0
    zeros: bytes = bytes(3)
    a: int = 0
    b: int = 0
    c: int = 0
    digest: bytes = bytes(16)
    chunks: list[list[int]] = dataclasses.field(default_factory=list)  # length, hash
    error: bytes = b""  # its entry in the error table (5.4), 32 bytes if there is one
    quality: bytes = b""  # that in the quality table (5.4), 40 bytes
    base_digest: bytes = b""  # that in the table of bases (5.6), 16 bytes


@dataclasses.dataclass
class Attached:
    name: bytes
    offset: int
    length: int
    decoded: int
    hash: int
    zero: int = 0


VERSION = (0, 8)
COMPRESSED_INDEX, HAS_BASE = 2, 4  # required features


@dataclasses.dataclass
class Layout:
    body: bytearray  # everything before META
    entries: list[Entry] = dataclasses.field(default_factory=list)
    packs: list[list[int]] = dataclasses.field(default_factory=list)  # offset, length, zero, hash
    metadata: list[tuple[bytes, bytes]] = dataclasses.field(default_factory=list)
    attachments: list[Attached] = dataclasses.field(default_factory=list)
    version: tuple[int, int] = VERSION
    required: int = 0
    optional: int = 0
    generation: int = 0
    previous: int = 0
    base_name: bytes = b""

    @classmethod
    def empty(cls) -> Layout:
        return cls(bytearray(frame(b"CFCK", struct.pack("<HH", *VERSION))))

    @classmethod
    def parse(cls, data: bytes) -> Layout:
        """Of a valid file."""
        tail = struct.unpack("<HHQQQQQQ16sQQ16sQQ", data[-116:])
        major, minor, required, optional, generation, previous = tail[:6]
        meta_offset, meta_length, _, index_offset, index_length = tail[6:11]
        self = cls(bytearray(data[:meta_offset]))
        self.version, self.required, self.optional = (major, minor), required, optional
        self.generation, self.previous = generation, previous
        self._parse_meta(data[meta_offset + 12 : meta_offset + meta_length])
        index = data[index_offset + 12 : index_offset + index_length]
        if required & COMPRESSED_INDEX:
            index = zstandard.ZstdDecompressor().decompress(index)
            self.required -= COMPRESSED_INDEX
        self._parse_index(index)
        return self

    def _parse_meta(self, meta: bytes) -> None:
        n_entries, n_attachments = struct.unpack_from("<II", meta)
        at = 8
        for _ in range(n_entries):
            key, value = struct.unpack_from("<II", meta, at)
            at += 8
            self.metadata.append((meta[at : at + key], meta[at + key : at + key + value]))
            at += key + value
        for _ in range(n_attachments):
            size, zero, *place = struct.unpack_from("<IIQQQQ", meta, at)
            at += 40
            self.attachments.append(Attached(meta[at : at + size], *place, zero=zero))
            at += size

    def _parse_index(self, index: bytes) -> None:
        n_records, n_packs, n_chunks, n_dims, _ = struct.unpack_from("<IIQQQ", index)
        at = 32 + 48 * n_records
        self.packs = [list(struct.unpack_from("<QIIQ", index, at + 24 * i)) for i in range(n_packs)]
        at += 24 * n_packs
        lengths = struct.unpack_from(f"<{n_chunks}I", index, at)
        hashes = struct.unpack_from(f"<{n_chunks}Q", index, at + 4 * n_chunks)
        chunks = [list(pair) for pair in zip(lengths, hashes, strict=True)]
        dims = list(struct.unpack_from(f"<{n_dims}Q", index, at + 12 * n_chunks))
        heap = index[at + 12 * n_chunks + 8 * n_dims :]
        all_flags = index[40 : 32 + 48 * n_records : 48]
        n_errors, n_qualities, n_bases = (
            sum(flags >> bit & 1 for flags in all_flags) for bit in (2, 3, 4)
        )
        errors, heap = heap[: 32 * n_errors], heap[32 * n_errors :]
        qualities, heap = heap[: 40 * n_qualities], heap[40 * n_qualities :]
        bases, heap = heap[: 16 * n_bases], heap[16 * n_bases :]
        for i in range(n_records):
            fields = struct.unpack_from("<HBBBBBBB3sIQQ16s", index, 32 + 48 * i)
            name_bytes, kind, dtype, codec, entropy, scan, rank, flags, zeros, a, b, c, digest = (
                fields
            )
            entry = Entry(heap[:name_bytes], dims[:rank], [], kind, dtype, codec, entropy, scan)
            entry.flags, entry.zeros, entry.a, entry.b, entry.c = flags, zeros, a, b, c
            entry.digest = digest
            heap, dims = heap[name_bytes:], dims[rank:]
            if flags & 4:
                entry.error, errors = errors[:32], errors[32:]
            if flags & 8:
                entry.quality, qualities = qualities[:40], qualities[40:]
            if flags & 16:
                entry.base_digest, bases = bases[:16], bases[16:]
            if kind == 2:
                entry.strides, dims = dims[:rank], dims[rank:]
            if kind == 0:
                n_elems = 1
                for dimension in entry.shape:
                    n_elems *= dimension
                count = -(-n_elems // c) + (flags >> 1 & 1)
                entry.chunks, chunks = chunks[:count], chunks[count:]
            self.entries.append(entry)
        self.base_name = heap

    def entry(self, name: str) -> Entry:
        return next(e for e in self.entries if e.name == name.encode() and not e.flags & 1)

    def extent_offset(self, entry: Entry, chunk: int) -> int:
        return entry.b + sum(length for length, _ in entry.chunks[:chunk])

    def rehash(self) -> None:
        """Makes the hashes of chunks, packs and attachments those of the body."""
        for entry in self.entries:
            at = entry.b
            for chunk in entry.chunks:
                chunk[1] = tiled_hash64(self.body[at : at + chunk[0]])
                at += chunk[0]
        for pack in self.packs:
            pack[3] = tiled_hash64(self.body[pack[0] : pack[0] + pack[1]])
        for attached in self.attachments:
            end = attached.offset + attached.length
            attached.hash = tiled_hash64(self.body[attached.offset : end])

    def meta_frame(self) -> bytes:
        parts = [struct.pack("<II", len(self.metadata), len(self.attachments))]
        for key, value in self.metadata:
            parts.append(struct.pack("<II", len(key), len(value)) + key + value)
        for a in self.attachments:
            place = (len(a.name), a.zero, a.offset, a.length, a.decoded, a.hash)
            parts.append(struct.pack("<IIQQQQ", *place) + a.name)
        return frame(b"META", b"".join(parts))

    def index_frame(self) -> bytes:
        chunks = [chunk for entry in self.entries for chunk in entry.chunks]
        dims = [d for entry in self.entries for d in (*entry.shape, *entry.strides)]
        heap = b"".join(entry.name for entry in self.entries) + self.base_name
        counts = (len(self.entries), len(self.packs), len(chunks), len(dims), len(heap))
        parts = [struct.pack("<IIQQQ", *counts)]
        for e in self.entries:
            ids = (len(e.name), e.kind, e.dtype, e.codec, e.entropy, e.scan, len(e.shape), e.flags)
            places = (e.zeros, e.a, e.b, e.c, e.digest)
            parts.append(struct.pack("<HBBBBBBB3sIQQ16s", *ids, *places))
        parts += [struct.pack("<QIIQ", *pack) for pack in self.packs]
        parts.append(struct.pack(f"<{len(chunks)}I", *(length for length, _ in chunks)))
        parts.append(struct.pack(f"<{len(chunks)}Q", *(value for _, value in chunks)))
        parts.append(struct.pack(f"<{len(dims)}Q", *dims))
        parts += [entry.error for entry in self.entries]
        parts += [entry.quality for entry in self.entries]
        parts += [entry.base_digest for entry in self.entries]
        return frame(b"INDX", b"".join(parts) + heap)

    def seal(self, meta: bytes | None = None, index: bytes | None = None, **tail) -> bytes:
        """The file. `meta` and `index` replace the frames; `tail` fields of the tail."""
        meta = self.meta_frame() if meta is None else meta
        index = self.index_frame() if index is None else index
        field = {
            "meta_offset": len(self.body),
            "meta_length": len(meta),
            "index_offset": len(self.body) + len(meta),
            "index_length": len(index),
            "file_length": len(self.body) + len(meta) + len(index) + 128,
        }
        field |= tail
        contents = struct.pack(
            "<HHQQQQ", *self.version, self.required, self.optional, self.generation, self.previous
        )
        contents += struct.pack("<QQ16s", field["meta_offset"], field["meta_length"], hash128(meta))
        contents += struct.pack(
            "<QQ16s", field["index_offset"], field["index_length"], hash128(index)
        )
        contents += struct.pack("<Q", field["file_length"])
        sealed = frame(b"TAIL", contents + bytes(8))[:-8]
        return bytes(self.body) + meta + index + sealed + struct.pack("<Q", hash64(sealed))
