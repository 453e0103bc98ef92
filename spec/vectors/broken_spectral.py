"""Records of the spectral codec put together by hand: sound ones, and many that are not."""

from __future__ import annotations

import dataclasses
import struct

from broken_payloads import number
from broken_vectors import Broken, digest, pack_of, stored_frame
from layout import MAGIC, Entry, Layout, frame

F32, F64 = 18, 20
ZERO = 16  # the symbol of code 0
ONE_STATE, FOUR_STATES, EIGHT_STATES, TRANSFORMED = 0, 1, 2, 4
BY_BAND, BY_BIN, ROW_BLOCKS = 8, 16, 24
SCALES, STEPS = 32, 64
KERNELS = b"\3"  # sides


def zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def vector(middle: int, entries: list[int], low_bits: int = 0) -> bytes:
    bits, count = 0, 0
    for entry in entries:
        z = zigzag(entry - middle)
        high = z >> low_bits
        bits |= ((1 << high) - 1) << count
        count += high + 1
        bits |= (z & (1 << low_bits) - 1) << count
        count += low_bits
    packed = bits.to_bytes(-(-count // 8), "little")
    return number(zigzag(middle)) + bytes([low_bits]) + number(len(packed)) + packed


def parameters(flags: int, step: float = 0.5, sides: bytes = KERNELS, fields: bytes = b"") -> bytes:
    return struct.pack("<BdB", flags, step, len(sides)) + sides + fields


PREAMBLE = parameters(FOUR_STATES)
BANDS = b"\1" + vector(35, [35, 35, 35])
FIELDS = parameters(BY_BIN | SCALES | STEPS, fields=BANDS + b"\1" + vector(4, [0, 4, 8], 1))


@dataclasses.dataclass
class Chunk:
    """A payload: three values of bin 35, codes 0, 1, 2."""

    start: bytes = b"\5"  # mode, and inline parameters
    flags: int = 0
    first_bin: bytes = number(35)
    counts: tuple[int, ...] = ()
    sections: bytes = b""
    splits: bytes = number(3)
    raw: bytes = b""
    symbols: bytes = bytes([0, ZERO, ZERO + 1, ZERO + 2])
    other: bytes | None = None  # a payload without symbols

    def parts(self) -> tuple[bytes, bytes]:
        """Body, and the symbols behind it."""
        if self.other is not None:
            return self.other, b""
        body = self.start + bytes([self.flags]) + self.first_bin + number(len(self.splits))
        body += b"".join(number(count) for count in self.counts)
        return body + self.sections + self.splits + self.raw, stored_frame(self.symbols)

    def extent(self) -> bytes:
        body, symbols = self.parts()
        return struct.pack("<II4s", MAGIC, 4 + len(body), b"CHNK") + body + symbols


def escaped_and_exact() -> Chunk:
    """An escape with point 100, an exact 7, code -2."""
    sections = number(200) + number(1) + struct.pack("<f", 7)
    start = b"\4" + parameters(EIGHT_STATES)
    symbols = bytes([0, 0, ZERO, ZERO - 2])
    return Chunk(start, 3, number(35), (1, 1, 1, 2), sections, symbols=symbols)


def low_bits() -> Chunk:
    """Bin 40: two low bits. Codes 4, 7, 1."""
    symbols = bytes([0, ZERO + 1, ZERO + 1, ZERO])
    return Chunk(b"\5", 24, number(40), (1, 1), b"\6", raw=b"\2", symbols=symbols)


def by_bin() -> Chunk:
    """The last value comes first, and the predicted bin of the middle one is that of all."""
    start, symbols = b"\4" + FIELDS, bytes([ZERO + 1, ZERO + 2, ZERO + 3])
    return Chunk(start, first_bin=b"", splits=b"", symbols=symbols)


def transformed() -> Chunk:
    """The coefficients 8, 0, 0, of which the transform is exact for blocks of one value."""
    start = b"\4" + parameters(BY_BAND | TRANSFORMED, 0.25, b"\1")
    return Chunk(start, splits=b"", symbols=bytes([0, ZERO + 8, ZERO, ZERO]))


def sound_chunks() -> dict[str, tuple[Chunk, list[float]]]:
    constant = Chunk(other=b"\1" + struct.pack("<f", 9))
    return {
        "plain": (Chunk(), [0, 1, 2]),
        "by class": (by_bin(), [1.5, 2, 2]),
        "constant": (constant, [9, 9, 9]),
        "escaped and exact": (escaped_and_exact(), [50, 7, -2]),
        "low bits": (low_bits(), [4, 7, 1]),
        "transformed": (transformed(), [2, 0, 0]),
    }


def add_record(layout: Layout, shape, extents, content: bytes, rows: int = 1, **fields) -> None:
    entry = Entry(b"t", shape, [], codec=3, entropy=1, dtype=F32, b=len(layout.body))
    entry.c, entry.flags = 3 * rows, 14
    entry.error = struct.pack("<ddd8x", 0, 0.5, 0.25)
    entry.quality = struct.pack("<dddd8x", 0, 1, -2, 60)
    entry.chunks = [[len(extent), 0] for extent in extents]
    entry.digest = digest(content)
    for name, value in fields.items():
        setattr(entry, name, value)
    layout.body += b"".join(extents)
    layout.entries.append(entry)


def sound_values() -> list[float]:
    return sum((values for _, values in sound_chunks().values()), [])


def sound_file() -> bytes:
    """With a record without axes."""
    layout = Layout.empty()
    extents = [frame(b"PREA", PREAMBLE)]
    extents += [chunk.extent() for chunk, _ in sound_chunks().values()]
    content = struct.pack("<18f", *sound_values())
    add_record(layout, [len(sound_chunks()), 1, 3], extents, content)
    one = Chunk(b"\4" + parameters(EIGHT_STATES, sides=b""), splits=number(1), symbols=b"\0\x13")
    entry = Entry(b"no axis", [], [], dtype=F64, codec=3, entropy=1, flags=12)
    entry.error, entry.quality = struct.pack("<d24x", 0), struct.pack("<dddd8x", 0, 3, 3, 3)
    entry.digest = digest(struct.pack("<d", 3))
    pack_of([b"".join(one.parts())], [entry], layout)
    layout.rehash()
    return layout.seal()


def broken(name: str, chunk: Chunk, preamble: bytes | None = None, **fields) -> Broken:
    layout = Layout.empty()
    preamble = PREAMBLE if preamble is None else preamble
    add_record(layout, [1, 1, 3], [frame(b"PREA", preamble), chunk.extent()], bytes(12), **fields)
    layout.rehash()
    code = "unsupported" if fields.get("entropy") == 0 else "corrupt"
    return Broken(f"spectral_{name}", code, "read", layout.seal(), "t")


def in_preambles() -> list[Broken]:
    def preamble(name: str, *args, behind: bytes = b"", **fields) -> Broken:
        return broken(name, Chunk(), parameters(*args, **fields) + behind)

    def scales(name: str, vectors: bytes) -> Broken:
        return preamble(name, BY_BIN | SCALES, fields=vectors)

    sound = vector(35, [35, 36, 35])
    return [
        preamble("row_blocks_without_scales", ROW_BLOCKS),
        preamble("ranges_of_few_bands", 128),
        preamble("scales_without_their_order", SCALES, fields=BANDS),
        preamble("order_without_its_scales", BY_BIN),
        preamble("step_zero", 0, 0.0),
        preamble("step_negative", 0, -0.5),
        preamble("step_infinite", 0, float("inf")),
        preamble("step_nan", 0, float("nan")),
        preamble("side_0", 0, sides=b"\0"),
        preamble("side_65", 0, sides=b"\x41"),
        preamble("sides_of_four_axes", 0, sides=b"\1\1\1\3"),
        preamble("block_of_more_than_4096_values", 0, sides=b"\2\x40\x40"),
        preamble("preamble_left_over", 0, behind=b"\0"),
        scales("field_of_nothing", b"\0"),
        scales("field_of_unknown_part", b"\x08"),
        scales("vector_cut", b"\1" + sound[:-1]),
        scales("vector_of_fewer_bits_than_entries", b"\3" + sound + number(0) + b"\0\0"),
        scales("vector_unused_bit", b"\1" + sound[:-1] + bytes([sound[-1] | 0x80])),
        scales("vector_left_over", b"\1" + sound[:2] + b"\2" + sound[3:] + b"\0"),
        scales("vector_entry_too_large", b"\1" + vector(2**15 - 1, [2**15, 0, 0], 15)),
        scales("vector_of_16_low_bits", b"\1" + vector(0, [0, 0, 0], 16)),
    ]


def in_chunks() -> list[Broken]:
    def of(sound: Chunk, name: str, **changes) -> Broken:
        return broken(name, dataclasses.replace(sound, **changes))

    def chunk(name: str, **changes) -> Broken:
        return of(Chunk(), name, **changes)

    escapes, low = escaped_and_exact(), low_bits()
    exact = struct.pack("<f", 7)
    split_bins = Chunk(b"\4" + FIELDS, 4, b"", (1,), b"\5\0", b"", b"", by_bin().symbols)
    bands = b"\1" + vector(35, [35, 35])
    rows = parameters(ROW_BLOCKS | SCALES, sides=b"\2", fields=bands)
    other_blocks = dataclasses.replace(by_bin(), start=b"\4" + rows)
    cut = Chunk(b"\4" + parameters(TRANSFORMED, sides=b"\2\1\1"), splits=b"")
    halves = [frame(b"PREA", PREAMBLE), cut.extent(), cut.extent()]
    layout = Layout.empty()
    add_record(layout, [2, 1, 3], halves, bytes(24))
    layout.rehash()
    return [
        Broken("spectral_chunk_cuts_a_block", "corrupt", "read", layout.seal(), "t"),
        broken("row_blocks_of_other_blocks", other_blocks),
        chunk("unknown_mode", start=b"\6"),
        chunk("unknown_flag", flags=32),
        chunk("flag_of_nothing", flags=8, counts=(0,)),
        chunk("first_class_126", first_bin=number(126)),
        chunk("class_zero", first_bin=number(0)),
        chunk("class_escape_missing", symbols=bytes([31, ZERO, ZERO, ZERO])),
        broken("class_escapes_beside_scales", split_bins),
        chunk("symbol_32", symbols=bytes([0, ZERO, 32, ZERO])),
        chunk("symbol_missing", symbols=bytes([0, ZERO, ZERO])),
        chunk("symbol_left_over", symbols=bytes([0] + 4 * [ZERO])),
        chunk("split_missing", splits=b""),
        chunk("split_left_over", splits=number(3) + b"\0"),
        chunk("split_of_more_than_there_are", splits=number(4)),
        chunk("split_of_fewer_than_needed", splits=number(2)),
        broken("without_a_stage", Chunk(), entropy=0),
        of(escapes, "escape_missing", symbols=bytes([0, 0, 0, ZERO])),
        of(escapes, "escape_left_over", symbols=bytes([0, ZERO, ZERO, ZERO])),
        of(escapes, "escape_bytes_left_over", counts=(1, 1, 1, 3),
           sections=number(200) + b"\0" + number(1) + exact),
        of(escapes, "exact_value_behind_the_chunk", sections=number(200) + number(3) + exact),
        of(escapes, "gap_left_over", counts=(1, 2, 1, 2),
           sections=number(200) + number(1) + b"\0" + exact),
        of(low, "path_missing", flags=8, counts=(1,), sections=b""),
        of(low, "path_left_over", counts=(2, 1), sections=b"\6\0"),
        of(low, "raw_bits_missing", flags=16, counts=(1,), raw=b""),
        of(low, "raw_bits_left_over", counts=(1, 2), raw=b"\2\0"),
    ]  # fmt: skip
