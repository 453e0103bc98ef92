"""The container of a .cfck file: spec/format.md, all of it but the values."""

from __future__ import annotations

import dataclasses
import itertools
import math
import struct

import zstandard
from reference_fields import (
    Fields,
    Refused,
    check,
    decompress_frame,
    hash64,
    hash128,
    require,
)
from reference_records import (
    ALIAS,
    BOUND_KINDS,
    CHUNKED,
    CODECS,
    DELTA,
    DIRECT,
    DTYPES,
    DUPLICATE,
    KINDS,
    LOSSLESS,
    PACKED,
    RAW,
    ROWS,
    SPECTRAL,
    TARGET_KINDS,
    Record,
    RecordError,
    RecordQuality,
    check_chunk_elems,
    check_extents,
    check_shape,
)

MAGIC = 0x184D2A5C
HEAD_BYTES = 16
TAIL_BYTES = 128
VERSION = (0, 8)
COMPRESSED_INDEX = 2  # required features
HAS_BASE = 4
MAX_COMPRESSED_TABLES = 1 << 22
MAX_PACK_BYTES = 131072
MAX_PACKED_PAYLOAD = 16384


@dataclasses.dataclass
class Limits:
    """Section 9. None: what the file has, or for decoded bytes what its length allows."""

    max_index_bytes: int | None = None
    max_metadata_bytes: int | None = None
    max_attachment_bytes: int = 1 << 30
    max_records: int | None = None
    max_decoded_bytes: int | None = None
    max_bases: int = 8  # one after another (section 5.6)


def check_frame_header(data, tag: bytes, what: str, offset: int) -> None:
    """`data` is one whole skippable frame of ours (section 2)."""
    require(len(data) >= 12, f"{what}: shorter than a frame header", offset)
    magic, following, found = struct.unpack("<II4s", data[:12])
    require(magic == MAGIC, f"{what}: no skippable frame", offset)
    require(following == len(data) - 8, f"{what}: wrong frame length", offset)
    require(found == tag, f"{what}: tag {found!r}", offset)


class File:
    """An opened file: everything but the values is read and checked."""

    def __init__(self, data, limits: Limits):
        self.data, self.length, self.limits = memoryview(data), len(data), limits
        self.read_tail()
        self.read_head()
        self.read_metadata()
        self.read_index()
        self.check_coverage()

    # Section 3

    def read_tail(self) -> None:
        check(self.length >= HEAD_BYTES + TAIL_BYTES, "truncated", "shorter than head and tail", 0)
        start = self.length - TAIL_BYTES
        tail = self.data[start:]
        whole = bytes(tail[:12]) == struct.pack("<II4s", MAGIC, TAIL_BYTES - 8, b"TAIL")
        check(whole, "truncated", "the file does not end with a tail", start)
        fields = Fields(tail, start)
        fields.take(12)
        version = fields.numbers("HH")
        required, _optional, self.generation, previous = fields.numbers("QQQQ")
        meta_offset, meta_length = fields.numbers("QQ")
        meta_hash = fields.take(16)
        index_offset, index_length = fields.numbers("QQ")
        index_hash = fields.take(16)
        file_length, own_hash = fields.numbers("QQ")
        check(hash64(tail[:120]) == own_hash, "checksum", "the tail is damaged", start)
        check(version == VERSION, "unsupported", f"format version {version}", start + 12)
        known = required & ~(COMPRESSED_INDEX | HAS_BASE) == 0
        self.has_base = bool(required & HAS_BASE)
        check(known, "unsupported", f"required features {required:#x}", start + 16)
        require(file_length == self.length, "the file has another length", start + 112)
        self.meta_offset, self.index_offset = meta_offset, index_offset
        adjacent = meta_offset + meta_length == index_offset
        adjacent = adjacent and index_offset + index_length == start
        require(adjacent, "META, INDX and TAIL are not adjacent", start)
        require(meta_offset >= HEAD_BYTES, "META overlaps the head", start + 48)
        if self.generation == 0:
            require(previous == 0, "generation 0 has no previous one", start + 40)
        else:
            behind = HEAD_BYTES + TAIL_BYTES <= previous <= meta_offset
            require(behind, "impossible previous length", start + 40)
        self.meta = self.hashed(
            meta_offset, meta_length, meta_hash, b"META", self.limits.max_metadata_bytes
        )
        self.index = self.hashed(
            index_offset, index_length, index_hash, b"INDX", self.limits.max_index_bytes
        )
        if required & COMPRESSED_INDEX:
            self.index = self.decompressed(self.index, index_offset)

    def hashed(self, offset: int, length: int, expected: bytes, tag: bytes, limit: int | None):
        name = tag.decode()
        within = limit is None or length <= limit
        check(within, "limit_exceeded", f"{name} of {length} bytes", offset)
        frame = self.data[offset : offset + length]
        check(hash128(frame) == expected, "checksum", f"{name} is damaged", offset)
        check_frame_header(frame, tag, name, offset)
        return frame[12:]

    def decompressed(self, frame, offset: int) -> bytes:
        """Section 5.5."""
        frame = bytes(frame)
        try:
            length = zstandard.get_frame_parameters(frame).content_size
        except zstandard.ZstdError as error:
            raise Refused("corrupt", f"INDX: {error}", offset) from None
        require(length <= MAX_COMPRESSED_TABLES, f"INDX stands for {length} bytes", offset)
        limit = self.limits.max_index_bytes
        within = limit is None or length <= limit
        check(within, "limit_exceeded", f"INDX stands for {length} bytes", offset)
        return decompress_frame(frame, length)

    # Section 2.1

    def read_head(self) -> None:
        head = struct.pack("<II4sHH", MAGIC, 8, b"CFCK", *VERSION)
        require(bytes(self.data[:12]) == head[:12], "the file does not start with a head", 0)
        check(bytes(self.data[12:16]) == head[12:], "unsupported", "format version of the head", 12)

    # Section 6

    def read_metadata(self) -> None:
        fields = Fields(self.meta, self.meta_offset + 12)
        n_entries, n_attachments = fields.numbers("II")
        self.metadata: dict[str, str] = {}
        keys = []
        for _ in range(n_entries):
            key_bytes, value_bytes = fields.numbers("II")
            keys.append(fields.text(key_bytes))
            self.metadata[keys[-1]] = fields.text(value_bytes)
        self.attachments = []
        for _ in range(n_attachments):
            name_bytes, zero, offset, length, decoded, expected = fields.numbers("IIQQQQ")
            require(zero == 0, "attachment: a zero field is not zero", fields.file_offset)
            self.attachments.append((fields.text(name_bytes), offset, length, decoded, expected))
        fields.end("META")
        for texts in (keys, [entry[0] for entry in self.attachments]):
            encoded = [text.encode() for text in texts]
            ascending = all(a < b for a, b in itertools.pairwise(encoded))
            require(ascending, "keys are not sorted or not different", self.meta_offset)

    # Section 5

    def read_index(self) -> None:
        fields = Fields(self.index, self.index_offset + 12)
        n_records, n_packs, n_entries, n_dimensions, heap_bytes = fields.numbers("IIQQQ")
        all_flags = bytes(self.index[40 : 32 + 48 * n_records : 48])
        n_errors = sum(flags >> 2 & 1 for flags in all_flags)
        n_qualities = sum(flags >> 3 & 1 for flags in all_flags)
        n_bases = sum(flags >> 4 & 1 for flags in all_flags)
        expected = 32 + 48 * n_records + 24 * n_packs + 12 * n_entries + 8 * n_dimensions
        expected += 32 * n_errors + 40 * n_qualities + 16 * n_bases + heap_bytes
        require(len(self.index) == expected, "the tables do not fill INDX", self.index_offset)
        check(
            self.limits.max_records is None or n_records <= self.limits.max_records,
            "limit_exceeded",
            f"{n_records} records",
            self.index_offset,
        )
        entries = [
            Fields(fields.take(48), fields.file_offset + 32 + 48 * i) for i in range(n_records)
        ]
        self.packs = [fields.numbers("QIIQ") for _ in range(n_packs)]
        lengths = fields.table("<u4", n_entries)
        self.chunk_table = zip(lengths, fields.table("<u8", n_entries))
        self.chunks_left = n_entries
        self.dimensions = Fields(fields.take(8 * n_dimensions), fields.file_offset)
        self.errors = Fields(fields.take(32 * n_errors), fields.file_offset)
        self.qualities = Fields(fields.take(40 * n_qualities), fields.file_offset)
        self.bases = Fields(fields.take(16 * n_bases), fields.file_offset)
        self.heap = Fields(fields.take(heap_bytes), fields.file_offset)
        for offset, length, zero, _ in self.packs:
            require(zero == 0, "pack: a zero field is not zero", offset)
            require(12 <= length <= MAX_PACK_BYTES, f"pack of {length} bytes", offset)
        self.records = [self.read_record(number, entry) for number, entry in enumerate(entries)]
        require(self.chunks_left == 0, "chunk entries left over", self.index_offset)
        self.dimensions.end("dimension table")
        self.read_base_name(n_bases)
        names = [record.name for record in self.records if not record.hidden]
        require(len(set(names)) == len(names), "two records have the same name", self.index_offset)
        for record in self.records:
            if record.kind in (ALIAS, DUPLICATE):
                self.check_base(record)
                record.error = self.records[record.base].error

    def read_record(self, number: int, fields: Fields) -> Record:
        place = fields.file_offset
        name_bytes, kind, dtype, codec, entropy, scan, n_dims, flags = fields.numbers("HBBBBBBB")
        zeros = fields.take(3)
        a, b, c = fields.numbers("IQQ")
        digest = fields.take(16)
        require(kind <= DUPLICATE, f"record {number}: kind {kind}", place)
        require(n_dims <= 64, f"record {number}: {n_dims} dimensions", place)
        require(flags < 32 and not any(zeros), f"record {number}: unused bits are set", place)
        hidden, has_preamble = bool(flags & 1), bool(flags & 2)
        name = self.heap.text(name_bytes)
        require(not (hidden and name), f"record {number}: hidden, but has a name", place)
        require(
            not hidden or kind in (CHUNKED, PACKED), f"record {number}: hidden {KINDS[kind]}", place
        )
        bare = codec != RAW or (entropy == 0 and not has_preamble)
        require(bare, f"record {number}: raw, but with an entropy stage or a preamble", place)
        bare = codec not in (LOSSLESS, ROWS, DELTA) or not has_preamble
        require(bare, f"record {number}: a preamble of a codec without one", place)
        shape = self.dimensions.numbers(f"{n_dims}Q")
        strides = self.dimensions.numbers(f"{n_dims}Q") if kind == ALIAS else ()
        record = Record(
            number, name, hidden, kind, dtype, codec, entropy, scan, shape, strides,
            base=a if kind in (ALIAS, DUPLICATE) else 0,
            first_element=b if kind == ALIAS else 0,
            chunk_elems=c if kind == CHUNKED else 0,
            pack=a if kind == PACKED else 0,
            payload=(b, c) if kind == PACKED else (0, 0),
            preamble=None, extents=[], digest=digest,
        )  # fmt: skip
        check_shape(record, place)
        self.read_error(record, bool(flags & 4), place)
        self.read_quality(record, bool(flags & 8), place)
        self.read_base(record, bool(flags & 16), place)
        require(kind == CHUNKED or not has_preamble, f"record {number}: a preamble", place)
        if kind == CHUNKED:
            require(a == 0, f"record {number}: A is not zero", place)
            self.read_extents(record, b, has_preamble, place)
        elif record.n_elems == 0:
            raise Refused("corrupt", f"record {number}: no elements, but not chunked", place)
        elif kind == PACKED:
            check_chunk_elems(record, record.n_elems, place)
            require(a < len(self.packs), f"record {number}: no pack {a}", place)
            inside = b >= 12 and 1 <= c <= MAX_PACKED_PAYLOAD and b + c <= self.packs[a][1]
            require(inside, f"record {number}: its payload is not inside pack {a}", place)
            exact = codec != RAW or dtype not in DTYPES or c == record.decoded_bytes
            require(exact, f"record {number}: a raw payload of the wrong length", place)
        else:
            unused = c == 0 and (kind == ALIAS or b == 0)
            require(unused, f"record {number}: an unused field is not zero", place)
        return record

    # Section 5.6

    def read_base(self, record: Record, has_base: bool, place: int) -> None:
        own = record.kind in (CHUNKED, PACKED)
        if not has_base:
            require(not own or record.codec != DELTA, f"record {record.number}: no base", place)
            return
        may = own and not record.hidden and record.n_elems > 0
        may = may and (record.codec == DELTA or record.codec not in CODECS)
        require(may, f"record {record.number}: a base", place)
        record.base_digest = self.bases.take(16)

    def read_base_name(self, n_bases: int) -> None:
        place = self.heap.file_offset
        require(self.has_base == (n_bases > 0), "tail and index differ about a base", place)
        self.base_name = self.heap.text(len(self.heap.data) - self.heap.position)
        named = self.base_name not in (".", "..") and not set("/\\\0") & set(self.base_name)
        require(named and len(self.base_name.encode()) <= 255, "no name of a file", place)
        require(not self.base_name or n_bases > 0, "name heap: bytes are left over", place)

    def read_error(self, record: Record, has_error: bool, place: int) -> None:
        own = record.kind in (CHUNKED, PACKED)
        if not has_error:
            exact = record.codec not in (DIRECT, SPECTRAL)
            require(not own or exact, f"record {record.number}: no error", place)
            return
        lossy = own and record.codec not in (RAW, LOSSLESS, DELTA) and record.n_elems > 0
        require(lossy, f"record {record.number}: an error, but nothing is lost", place)
        bound, max_abs, rmse, kind, per_row = self.errors.numbers("dddBB")
        zeros = self.errors.take(6)
        known = kind in BOUND_KINDS and per_row < 2 and not any(zeros)
        known = known and (kind > 0 or record.codec not in (DIRECT, ROWS))
        require(known, f"record {record.number}: an unknown kind of bound", place)
        require(kind > 1 or not per_row, f"record {record.number}: an absolute bound by row", place)
        sound = 0 < bound < math.inf if kind else bound == 0
        sound = sound and 0 <= rmse <= max_abs < math.inf
        sound = sound and (kind != 1 or max_abs <= bound)
        require(sound, f"record {record.number}: impossible errors", place)
        record.error = RecordError(bound, max_abs, rmse, kind, bool(per_row))

    def read_quality(self, record: Record, has_quality: bool, place: int) -> None:
        what = f"record {record.number}"
        error = record.error
        if not has_quality:
            require(error is None or record.codec != SPECTRAL, f"{what}: no quality", place)
            return
        if error is None or record.codec in (DIRECT, ROWS):
            raise Refused("corrupt", f"{what}: a quality, but of nothing", place)
        target, rms, minimum, maximum, kind, whole_file = self.qualities.numbers("ddddBB")
        known = kind in TARGET_KINDS and whole_file <= min(kind, 1)
        known = known and not any(self.qualities.take(6))
        require(known, f"{what}: an unknown kind of target", place)
        sound = 0 < target < math.inf if kind else target == 0
        sound = sound and -math.inf < minimum <= maximum < math.inf
        sound = sound and 0 <= rms <= max(abs(minimum), abs(maximum))
        require(sound, f"{what}: impossible quality", place)
        error.quality = RecordQuality(target, rms, minimum, maximum, kind, bool(whole_file))

    def read_extents(self, record: Record, offset: int, has_preamble: bool, place: int) -> None:
        check_chunk_elems(record, record.chunk_elems, place)
        n_chunks = -(-record.n_elems // record.chunk_elems)
        if n_chunks == 0:
            empty = offset == 0 and record.chunk_elems == 1 and not has_preamble
            require(empty, f"record {record.number}: no elements, but extents", place)
        require(n_chunks + has_preamble <= self.chunks_left, "too few chunk entries", place)
        self.chunks_left -= n_chunks + has_preamble
        for i in range(n_chunks + has_preamble):
            length, expected = next(self.chunk_table)
            if has_preamble and i == 0:
                record.preamble = (offset, length, expected)
            else:
                record.extents.append((offset, length, expected))
            offset += length
        check_extents(record, place)

    def check_base(self, record: Record) -> None:
        number = record.number
        require(record.base < len(self.records), f"record {number}: no base {record.base}")
        base = self.records[record.base]
        require(base.kind in (CHUNKED, PACKED), f"record {number}: its base has no values")
        same = ("dtype", "codec", "entropy", "scan")
        same += ("shape", "digest") if record.kind == DUPLICATE else ()
        equal = all(getattr(record, field) == getattr(base, field) for field in same)
        require(equal, f"record {number} differs from its base")
        if record.kind == ALIAS:
            reach = sum((d - 1) * s for d, s in zip(record.shape, record.strides))
            inside = record.first_element + reach < base.n_elems
            require(inside, f"record {number} leaves its base")

    # Section 5.3 and the rule on packs in 4.3

    def check_coverage(self) -> None:
        pieces = [
            (offset, length) for record in self.records for offset, length, _ in record.extents
        ]
        pieces += [record.preamble[:2] for record in self.records if record.preamble]
        pieces += [(offset, length) for offset, length, _, _ in self.packs]
        pieces += [(offset, length) for _, offset, length, _, _ in self.attachments]
        self.check_pieces(pieces, HEAD_BYTES, self.meta_offset, "the file")
        payloads: list[list[tuple[int, int]]] = [[] for _ in self.packs]
        for record in self.records:
            if record.kind == PACKED:
                payloads[record.pack].append(record.payload)
        for number, pack in enumerate(payloads):
            self.check_pieces(pack, 12, self.packs[number][1], f"pack {number}")

    def check_pieces(self, pieces, start: int, end: int, what: str) -> None:
        for offset, length in sorted(pieces):
            require(offset >= start, f"{what}: two pieces overlap", offset)
            gap = offset > start and self.generation == 0
            require(not gap, f"{what}: bytes that belong to nothing", start)
            start = offset + length
        require(start <= end, f"{what}: a piece reaches beyond the end", end)
        require(start == end or self.generation > 0, f"{what}: bytes that belong to nothing", start)
