"""Files that break one rule each. All hashes are right unless the fault is one."""

from __future__ import annotations

import dataclasses
import struct

import zstandard
from layout import COMPRESSED_INDEX, MAGIC, Attached, Entry, Layout, frame, hash64, hash128


@dataclasses.dataclass
class Broken:
    name: str
    code: str  # the error
    at: str  # where: open, read (a record), attachment, verify
    data: bytes
    record: str | None = None  # at read, and None for what it is not about
    base: str | None = None  # the vector that it is read against


def stored_frame(content: bytes) -> bytes:
    """A Zstd frame of one raw block that states its content size."""
    header = b"\x28\xb5\x2f\xfd" + b"\xa0" + struct.pack("<I", len(content))
    return header + (len(content) << 3 | 1).to_bytes(3, "little") + content


def digest(content: bytes) -> bytes:
    leaves = (content[i : i + 65536] for i in range(0, len(content), 65536))
    return hash128(b"".join(hash128(leaf) for leaf in leaves))


def pack_of(payloads: list[bytes], entries: list[Entry], layout: Layout) -> None:
    """Appends a pack with the payloads of `entries` to the file."""
    at = 12
    for payload, entry in zip(payloads, entries, strict=True):
        entry.kind, entry.a, entry.b, entry.c = 1, len(layout.packs), at, len(payload)
        at += len(payload)
        layout.entries.append(entry)
    contents = frame(b"PACK", b"".join(payloads))
    layout.packs.append([len(layout.body), len(contents), 0, 0])
    layout.body += contents


def raw_record(name: bytes, content: bytes, chunk: int, layout: Layout) -> Entry:
    """Appends a raw record of bytes in chunks of its own."""
    offset = len(layout.body)
    padding = bytes(-(offset + 12) % 64)
    layout.body += struct.pack("<II4s", MAGIC, 4 + len(padding) + len(content), b"RAWD")
    layout.body += padding + content
    entry = Entry(name, [len(content)], [], b=offset, c=chunk, digest=digest(content))
    sizes = [min(chunk, len(content) - i) for i in range(0, len(content), chunk)]
    sizes[0] += 12 + len(padding)
    entry.chunks = [[size, 0] for size in sizes]
    layout.entries.append(entry)
    return entry


def sound() -> Layout:
    """A valid file: raw chunks, a pack, an alias, a duplicate, metadata, an attachment."""
    layout = Layout.empty()
    raw_record(b"chunked", bytes(range(100)), 40, layout)
    packed = [Entry(b"p", [4], [], dtype=5), Entry(b"q", [2, 2], [], dtype=2)]
    packed[0].digest, packed[1].digest = digest(b"abcd"), digest(b"\x21\x43")
    pack_of([b"abcd", b"\x21\x43"], packed, layout)
    layout.entries.append(Entry(b"view", [2], [2], kind=2, a=1, b=0, digest=digest(b"ac")))
    layout.entries.append(Entry(b"twin", [4], [], kind=3, a=1, digest=digest(b"abcd")))
    # Elements 1 and 3 of q, half a byte each.
    halves = Entry(b"halves", [2], [2], kind=2, dtype=2, a=2, b=1, digest=digest(b"\x42"))
    layout.entries.append(halves)
    attached = stored_frame(b"hello")
    layout.attachments.append(Attached(b"note", len(layout.body), len(attached), 5, 0))
    layout.body += attached
    layout.metadata = [(b"a", b"1"), (b"b", b"2")]
    layout.rehash()
    return layout


def flipped(data: bytes, byte: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ 0x10]) + data[byte + 1 :]


def at_the_end() -> list[Broken]:
    """Faults of the tail, the head, and the frames before the tail."""
    data = sound().seal()
    future, feature, gap, tail = sound(), sound(), sound(), sound()
    future.version = (0, 9)
    future.body[:16] = frame(b"CFCK", struct.pack("<HH", 0, 9))
    feature.required = 8
    meta = gap.meta_frame()
    moved = gap.seal(meta=meta + frame(b"DEAD", b""), meta_length=len(meta))
    later = sound()
    later.generation, later.previous = 1, 2**40
    return [
        Broken("cut_by_one_byte", "truncated", "open", data[:-1]),
        Broken("cut_in_the_index", "truncated", "open", data[:-150]),
        Broken("head_alone", "truncated", "open", data[:16]),
        Broken("no_bytes", "truncated", "open", b""),
        Broken("bytes_behind_the_tail", "truncated", "open", data + frame(b"DEAD", b"more")),
        Broken("tail_damaged", "checksum", "open", flipped(data, len(data) - 40)),
        Broken("index_damaged", "checksum", "open", flipped(data, len(data) - 140)),
        Broken("metadata_damaged", "checksum", "open", flipped(data, len(sound().body) + 30)),
        Broken("no_head", "corrupt", "open", b"\x50\x2a\x4d\x18" + data[4:]),
        Broken("future_version", "unsupported", "open", future.seal()),
        Broken("required_feature", "unsupported", "open", feature.seal()),
        Broken("frame_between_meta_and_index", "corrupt", "open", moved),
        Broken("file_length", "corrupt", "open", tail.seal(file_length=len(data) + 1)),
        Broken("offsets_wrap", "corrupt", "open", tail.seal(meta_offset=2**64 - 100)),
        Broken("previous_beyond", "corrupt", "open", later.seal()),
    ]


def first_zstd_frame(content: bytes) -> bytes:
    """A frame of Zstd 0.7, which some builds of libzstd decode: one raw block."""
    header = b"\x27\xb5\x2f\xfd" + b"\xa0" + struct.pack("<I", len(content))
    block = bytes([1 << 6 | len(content) >> 16 & 7, len(content) >> 8 & 255, len(content) & 255])
    return header + block + content + bytes([3 << 6, 0, 0])


def compressed_indexes() -> list[Broken]:
    """Faults of section 5.5."""
    tables = sound().index_frame()[12:]
    compressor = zstandard.ZstdCompressor(write_checksum=False)
    whole = compressor.compress(tables)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(tables)
    too_long = compressor.compress(tables + bytes((1 << 22) + 1 - len(tables)))

    def file(name: str, contents: bytes) -> Broken:
        layout = sound()
        layout.required = COMPRESSED_INDEX
        return Broken(name, "corrupt", "open", layout.seal(index=frame(b"INDX", contents)))

    return [
        file("index_not_compressed", tables),
        file("index_without_size", unsized),
        file("index_of_two_frames", whole + compressor.compress(b"more")),
        file("index_cut", whole[:-3]),
        file("index_of_an_old_zstd", first_zstd_frame(tables)),
        file("index_stands_for_too_much", too_long),
        file("index_tables_cut", compressor.compress(tables[:-1])),
        file("index_of_nothing", compressor.compress(b"")),
        file("index_without_frame", b""),
    ]


def changed(name: str, change, code: str = "corrupt") -> Broken:
    """`change` gets the sound layout; the file must then fail to open."""
    layout = sound()
    change(layout)
    return Broken(name, code, "open", layout.seal())


def set_field(number: int, **fields):
    def change(layout: Layout) -> None:
        for field, value in fields.items():
            setattr(layout.entries[number], field, value)

    return change


def index_counts() -> Broken:
    layout = sound()
    index = bytearray(layout.index_frame())
    struct.pack_into("<Q", index, 12 + 16, 2**61 + struct.unpack_from("<Q", index, 28)[0])
    return Broken("table_sizes_wrap", "corrupt", "open", layout.seal(index=bytes(index)))


def longer_index() -> Broken:
    layout = sound()
    index = frame(b"INDX", layout.index_frame()[12:] + b"x")
    return Broken("index_left_over", "corrupt", "open", layout.seal(index=index))


def in_the_index() -> list[Broken]:
    def extra_chunk(layout: Layout) -> None:
        layout.entries[0].chunks.append([0, hash64(b"")])

    def preamble_of_nothing(layout: Layout) -> None:
        layout.entries.append(Entry(b"e", [0], [], flags=2, c=1, chunks=[[0, hash64(b"")]]))

    def too_large(layout: Layout) -> None:
        layout.entries[1].shape = [2**26 + 1]

    return [
        index_counts(),
        longer_index(),
        changed("same_name_twice", set_field(1, name=b"chunked")),
        changed("name_not_utf8", set_field(1, name=b"\xff\xfe")),
        changed("name_surrogate", set_field(1, name=b"\xed\xa0\x80")),
        changed("hidden_with_a_name", set_field(1, flags=1)),
        changed("hidden_alias", set_field(3, flags=1, name=b"")),
        changed("unknown_kind", set_field(1, kind=4)),
        changed("unknown_flag", set_field(1, flags=8)),
        changed("zero_field_not_zero", set_field(1, zeros=b"\0\1\0")),
        changed("sixty_five_dimensions", set_field(1, shape=[4] + [1] * 64)),
        changed("dimension_too_large", set_field(0, shape=[2**48, 0])),
        changed("elements_overflow", set_field(0, shape=[2**40, 2**40])),
        changed("bytes_overflow", set_field(0, dtype=22, shape=[2**47, 2**14])),
        changed("half_a_byte", set_field(2, shape=[3])),
        changed("chunk_elems_zero", set_field(0, c=0)),
        changed("chunk_elems_above_elements", set_field(0, c=101, chunks=[[148, 0]])),
        changed("packed_chunk_too_large", too_large),
        changed("packed_without_elements", set_field(1, shape=[0])),
        changed("more_chunks_than_entries", set_field(0, c=1)),
        changed("chunk_entries_left_over", extra_chunk),
        changed("preamble_without_chunks", preamble_of_nothing),
    ]


def in_shared_records() -> list[Broken]:
    def alias_cycle(layout: Layout) -> None:
        layout.entries[3].a, layout.entries[4].a = 4, 3

    return [
        changed("alias_cycle", alias_cycle),
        changed("alias_of_itself", set_field(3, a=3)),
        changed("alias_of_a_duplicate", set_field(3, a=4)),
        changed("alias_beyond_its_base", set_field(3, b=2)),
        changed("alias_strides_wrap", set_field(3, shape=[3], strides=[2**63])),
        changed("alias_of_another_dtype", set_field(3, dtype=6)),
        changed("alias_without_elements", set_field(3, shape=[0])),
        changed("base_out_of_range", set_field(3, a=6)),
        changed("duplicate_of_another_shape", set_field(4, shape=[2, 2])),
        changed("duplicate_of_another_digest", set_field(4, digest=bytes(16))),
    ]


def in_extents() -> list[Broken]:
    def overlap(layout: Layout) -> None:
        layout.entries[2].b -= 1

    def gap(layout: Layout) -> None:
        layout.body += frame(b"DEAD", b"hidden")

    def shared_extent(layout: Layout) -> None:
        copy = dataclasses.replace(layout.entries[0], name=b"again")
        layout.entries.append(copy)

    def pack_length(layout: Layout) -> None:
        layout.packs[0][1] += 131072

    return [
        changed("raw_with_entropy_stage", set_field(2, entropy=1)),
        changed("pack_out_of_range", set_field(1, a=1)),
        changed("payload_beyond_its_pack", set_field(2, c=3)),
        changed("payload_in_the_frame_header", set_field(1, b=8)),
        changed("payload_of_no_bytes", set_field(2, c=0)),
        changed("payloads_overlap", overlap),
        changed("pack_too_long", pack_length),
        changed("extent_shared", shared_extent),
        changed("extent_in_the_head", set_field(0, b=0)),
        changed("offset_wraps", set_field(0, b=2**64 - 8)),
        changed("uncovered_frame", gap),
    ]


def in_the_metadata() -> list[Broken]:
    def attached(**fields):
        def change(layout: Layout) -> None:
            for field, value in fields.items():
                setattr(layout.attachments[0], field, value)

        return change

    def metadata(*entries: tuple[bytes, bytes]):
        def change(layout: Layout) -> None:
            layout.metadata = list(entries)

        return change

    short, sizeless, another, garbage = sound(), sound(), sound(), sound()
    meta = bytearray(short.meta_frame())
    struct.pack_into("<I", meta, 12, 2**32 - 1)
    at = sizeless.attachments[0].offset
    # Single segment off: a window descriptor instead of the content size.
    frame_of_same_length = (
        b"\x28\xb5\x2f\xfd\x00\x00" + (8 << 3 | 1).to_bytes(3, "little") + b"hello..."
    )
    sizeless.body[at : at + 17] = frame_of_same_length
    sizeless.rehash()
    another.attachments[0].decoded = 6
    garbage.body[at + 9] ^= 6  # the block type is now the reserved one
    garbage.rehash()
    return [
        changed("keys_not_sorted", metadata((b"b", b"2"), (b"a", b"1"))),
        changed("key_twice", metadata((b"a", b"1"), (b"a", b"2"))),
        changed("value_not_utf8", metadata((b"a", b"\xc0\x80"))),
        changed("attachment_overlaps_meta", attached(length=18)),
        changed("attachment_zero_field", attached(zero=1)),
        Broken("metadata_count", "corrupt", "open", short.seal(meta=bytes(meta))),
        Broken("metadata_left_over", "corrupt", "open", sound().seal(
            meta=frame(b"META", sound().meta_frame()[12:] + b"x"))),
        Broken("attachment_without_size", "corrupt", "attachment", sizeless.seal()),
        Broken("attachment_of_another_size", "corrupt", "attachment", another.seal()),
        Broken("attachment_no_zstd", "corrupt", "attachment", garbage.seal()),
    ]  # fmt: skip


def in_a_record(name: str, code: str, change, record: str = "chunked", at: str = "read") -> Broken:
    """`change` gets the sound layout; all hashes are made right again."""
    layout = sound()
    change(layout)
    layout.rehash()
    return Broken(name, code, at, layout.seal(), record)


def in_records() -> list[Broken]:
    def body(offset: int, value: int):
        def change(layout: Layout) -> None:
            layout.body[offset] = value

        return change

    def both(**fields):  # an alias and a duplicate repeat these
        def change(layout: Layout) -> None:
            for number in (1, 3, 4):
                set_field(number, **fields)(layout)

        return change

    def bomb(layout: Layout) -> None:
        layout.entries[3].shape, layout.entries[3].strides = [2**40, 2], [0, 1]

    data = sound().seal()
    pack = sound().packs[0][0]
    return [
        Broken("chunk_damaged", "checksum", "read", flipped(data, 70), "chunked"),
        Broken("pack_damaged", "checksum", "read", flipped(data, pack + 13), "p"),
        in_a_record("raw_tag", "corrupt", body(24, ord("X"))),
        in_a_record("raw_frame_length", "corrupt", body(20, 99)),
        in_a_record("raw_padding", "corrupt", body(40, 1)),
        in_a_record("pack_tag", "corrupt", body(pack + 8, ord("X")), "p"),
        in_a_record("pack_frame_length", "corrupt", body(pack + 4, 99), "p"),
        in_a_record("unknown_dtype", "unsupported", both(dtype=200), "p"),
        in_a_record("unknown_codec", "unsupported", both(codec=200), "p"),
        in_a_record("unknown_entropy_stage", "unsupported", both(codec=1, entropy=200), "p"),
        in_a_record("unknown_scan", "unsupported", both(scan=200), "p"),
        in_a_record("expanded_alias", "limit_exceeded", bomb, "view"),
        in_a_record("wrong_digest", "checksum", set_field(0, digest=bytes(16)), at="verify"),
    ]
