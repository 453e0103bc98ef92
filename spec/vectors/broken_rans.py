"""Chunks with the entropy stage rans, put together by hand: some that are sound, and many
that are not."""

from __future__ import annotations

import dataclasses
import struct

import broken_direct
from broken_payloads import file_of, number
from broken_vectors import Broken, stored_frame
from layout import MAGIC
from rans_sections import (
    LANES,
    LOWEST,
    Section,
    Table,
    in_symbol_order,
    only,
    start_states,
    table_bytes,
)
from vector import Random

BF16, RANS = 15, 2
COUNTS = (128, 12)  # values of the two groups
FIRST_BIN = 4 * 130  # its window begins at exponent 126
EVEN: Table = (128,) * 32
STEEP: Table = (1,) * 31 + (4065,)
ESCAPED = 0x7FC1


@dataclasses.dataclass
class Lanes:
    """A payload of mode 2, or a segment of one: 140 BF16 values in two groups, one of them
    escaped."""

    counts: tuple[int, ...] = COUNTS
    flags: int = 0b10000100  # clean base, escapes
    first_bin: int = FIRST_BIN
    clean_base: int = 5
    clean: bytes = b""  # symbols, one for each group
    bin_escapes: bytes = b""
    escapes: bytes = struct.pack("<H", ESCAPED)
    bins: bytes = b"\0\2"
    symbols: bytes = bytes([*range(5), 31, *(i % 7 * 5 for i in range(134))])
    raw: bytes = Random(93).bytes(35)
    n_sets: int = 1
    choice: int = 0
    explicit: dict[int, Table] = dataclasses.field(default_factory=dict)
    start: list[int] | None = None
    coded_more: int = 0  # in the header than there are
    raw_more: int = 0
    section: dict = dataclasses.field(default_factory=dict)  # fields of Section
    coded: bytes | None = None
    behind: bytes = b""

    @property
    def tail(self) -> bytes:
        return self.raw[max(0, len(self.raw) - 60 * self.n_sets) :]

    def scale_bins(self) -> list[int]:
        """Of the groups: symbol 2 adds one, and 31 takes an escape if there is one."""
        scale_bin, found = self.first_bin, []
        escapes = list(struct.iter_unpack("<H", self.bin_escapes))
        for symbol in self.bins:
            scale_bin += symbol == 2
            if symbol == 31 and escapes:
                (scale_bin,) = escapes.pop(0)
            found.append(scale_bin)
        return found

    def made(self) -> Section:
        places = [2 + scale_bin % 4 for scale_bin in self.scale_bins()]
        n_groups = len(self.counts)
        symbols = b"".join(
            in_symbol_order(self.symbols[i : i + 128]) for i in range(0, len(self.symbols), 128)
        )
        runs = [(self.bins, [0] * n_groups), (self.clean, [1] * n_groups), (symbols, places)]
        section = Section.of(
            runs, self.n_sets, self.tail, "lossless", self.choice, self.explicit, self.start
        )
        return dataclasses.replace(section, **self.section)

    @property
    def in_section(self) -> bytes:
        return self.raw[: len(self.raw) - len(self.tail)]

    def escape_counts(self) -> bytes:
        counts = len(self.bin_escapes) // 2, len(self.escapes) // 2
        return b"".join(map(number, counts)) if self.flags & 128 else b""

    def payload(self) -> bytes:
        coded = self.made().bytes() if self.coded is None else self.coded
        parts = [bytes([2, self.flags]), number(self.first_bin)]
        if self.flags & 4:
            parts.append(bytes([self.clean_base]))
        parts.append(self.escape_counts())
        parts += [
            number(len(coded) + self.coded_more),
            number(len(self.in_section) + self.raw_more),
        ]
        parts += [self.bin_escapes, self.escapes, coded, self.in_section, self.behind]
        return b"".join(parts)

    def values(self) -> bytes:
        """What a sound payload means."""
        values, raw, scale_bins = [], self.raw, self.scale_bins()
        for group, count in enumerate(self.counts):
            clean = self.clean_base + (self.clean[group] if self.clean else 0)
            width = (6 if self.flags & 64 else 7) - clean
            size = -(-count * width // 8)
            packed, raw = int.from_bytes(raw[:size], "little"), raw[size:]
            mask = (1 << width) - 1
            fractions = [(packed >> i * width & mask) << clean for i in range(count)]
            for symbol, fraction in zip(self.symbols[128 * group :], fractions):
                exponent, top = scale_bins[group] // 4 - 4 - symbol // 2, symbol % 2
                t = 0 if symbol == 30 else exponent << 1 | top
                value = fraction >> 6 << 15 | t << 6 | fraction & 63
                values.append(ESCAPED if symbol == 31 else value)
        return struct.pack(f"<{len(values)}H", *values)


def sound_chunks() -> dict[str, Lanes]:
    every_table = {0: only(0), **dict.fromkeys(range(2, 6), only(6))}
    same = Lanes(flags=4, bins=b"\0\0", symbols=b"\6" * 140, escapes=b"")
    return {
        "one set": Lanes(),
        "two sets": Lanes(n_sets=2, choice=7),
        "four sets": Lanes(n_sets=4, choice=0b10_101_011),
        "raw bits in both places": Lanes(flags=128, clean_base=0, raw=Random(91).bytes(123)),
        "raw bits in all lanes": Lanes(n_sets=2, flags=128, clean_base=0, raw=bytes(range(123))),
        "unused bits": Lanes(flags=128, clean_base=0, raw=Random(94).bytes(122) + b"\xff"),
        "no raw bits": dataclasses.replace(same, flags=4 | 64, clean_base=6, raw=b""),
        "clean bits": Lanes(flags=0b10001100, clean=b"\1\0", raw=Random(92).bytes(19)),
        "tables of one symbol": dataclasses.replace(same, explicit=every_table),
        "tables that nobody needs": Lanes(explicit={1: STEEP, 2: EVEN, 3: STEEP, 5: EVEN}),
        "a frequency of one": Lanes(explicit={2: STEEP, 3: STEEP}, n_sets=2),
    }


def broken(name: str, payload: bytes, code: str = "corrupt", entropy: int = RANS) -> Broken:
    file = file_of(payload, BF16, [140], bytes(16), entropy)
    return Broken(f"rans_{name}", code, "read", file, "t")


def in_sections() -> list[Broken]:
    def chunk(name: str, **fields) -> Broken:
        return broken(name, Lanes(**fields).payload())

    def section(name: str, sound: Lanes | None = None, **fields) -> Broken:
        return broken(name, dataclasses.replace(sound or Lanes(), section=fields).payload())

    def table(name: str, *listed: tuple[int, bytes], **fields) -> Broken:
        return section(name, None, layout=4, explicit=list(listed), **fields)

    sound = Lanes().made()
    two = Lanes(n_sets=2)
    moved = [two.made().words[0][:-1], [*two.made().words[1], two.made().words[0][-1]]]
    even = table_bytes(EVEN)  # 341 bits
    started = start_states(1, Lanes().tail)
    coded = sound.bytes()
    return [
        section("three_sets", layout=3),
        section("unknown_layout_bit_3", layout=8),
        section("unknown_layout_bit_7", layout=128),
        table("no_tables", n_explicit=0),
        table("fewer_tables_than_said", (2, even), n_explicit=2),
        table("place_out_of_range", (6, even)),
        table("place_255", (255, even)),
        table("places_descend", (3, even), (2, even)),
        table("place_twice", (2, even), (2, even)),
        table("table_sums_to_4097", (5, table_bytes((4096, 1) + (0,) * 30))),
        table("table_sums_to_2_16", (5, table_bytes((2**13,) * 8 + (0,) * 24))),
        table("table_unused_bit", (5, even[:-1] + bytes([even[-1] | 0x80]))),
        chunk("table_cut", coded=b"\4\0\1\2" + even[:-1]),
        chunk("tables_cut", coded=b"\4\0"),
        chunk("words_cut", coded=b"\0\0"),
        chunk("choice_cut", coded=b"\0"),
        chunk("section_of_no_bytes", coded=b""),
        chunk("states_cut", coded=coded[:40]),
        chunk("section_cut", coded=coded[:-1]),
        section("section_longer", behind=b"\0"),
        section("states_unused_bit", unused_bits=1),
        section("word_missing", words=[sound.words[0][:-1]]),
        section("first_word_missing", words=[sound.words[0][1:]]),
        section("word_left_over", words=[[*sound.words[0], 0]]),
        section("word_of_another_set", two, words=moved),
        section("words_without_end", n_words=[2**32 - 1]),
        section("words_number_too_long", n_words=[2**32]),
        chunk("end_state_too_large", start=[2 * LOWEST, *started[1:]]),
        chunk("last_end_state_too_large", start=[*started[:-1], 2**20]),
        chunk("payload_not_zero_behind_the_tail", start=[*started[:-1], LOWEST + 1]),
        chunk("payload_last_bit", start=[*started[:-1], 2 * LOWEST - 1]),
        chunk("coded_bytes_one_more", coded_more=1),
        chunk("coded_bytes_one_less", coded_more=-1),
        chunk("coded_bytes_without_end", coded_more=2**32 - 1 - len(coded)),
        chunk("raw_bytes_in_section_and_lanes", raw_more=35, behind=bytes(35)),
        chunk("raw_byte_left_over", raw_more=1, behind=b"\0"),
        chunk("raw_byte_missing", flags=128, clean_base=0, raw=bytes(122)),
        chunk("raw_bits_of_planes", flags=128, clean_base=0, raw=bytes(126)),
        chunk("bytes_behind", behind=b"\0"),
        chunk("frame_behind", behind=stored_frame(b"")),
    ]  # fmt: skip


def in_streams() -> list[Broken]:
    def chunk(name: str, **fields) -> Broken:
        return broken(name, Lanes(**fields).payload())

    sound = Lanes()
    payload = sound.payload()
    clean = {"flags": 0b10001100, "raw": Random(92).bytes(19)}
    return [
        broken("without_a_stage", payload, "unsupported", 0),
        broken("read_as_zstd", payload, entropy=1),
        chunk("flag_of_four_tables", flags=sound.flags | 32),
        chunk("first_class_too_large", first_bin=4 * 255 + 32),
        chunk("class_above_all", first_bin=4 * 255 + 31),
        chunk("class_below_zero", first_bin=0, bins=b"\0\1"),
        chunk("class_escape_missing", bins=b"\0\x1f"),
        chunk("class_escape_left_over", bin_escapes=b"\0\0"),
        chunk("escape_missing", flags=4, escapes=b""),
        chunk("escape_left_over", escapes=sound.escapes * 2),
        chunk("clean_base_too_large", clean_base=7, raw=b""),
        chunk("clean_bits_too_many", clean=b"\1\2", **clean),
        chunk("clean_bits_of_zeros", clean=b"\1\1", bins=b"\0\x1e",
              symbols=sound.symbols[:128], flags=clean["flags"], raw=bytes(16)),
        chunk("sign_bits_without_signs", flags=sound.flags | 64),
        broken("body_cut", payload[:-1]),
        broken("header_cut", payload[:6]),
    ]  # fmt: skip


# Chunks of the direct codec: twelve values, three to a chunk, all in one lane set.

ZERO = 15  # the symbol of code 0


@dataclasses.dataclass
class DirectLanes:
    """Codes or residuals 0, 1, 2 of bin 30 with the parameters of the preamble."""

    start: bytes = b"\5"
    flags: int = 0
    first_bin: int = 30
    symbols: bytes = bytes([ZERO, ZERO + 1, ZERO + 2])
    raw: bytes = b""
    in_section: bytes = b""
    counts: bytes = b""  # n_escapes, n_exact, code_bytes
    sections: bytes = b""
    choice: int = 0
    explicit: dict[int, Table] = dataclasses.field(default_factory=dict)
    fields: dict = dataclasses.field(default_factory=dict)

    def extent(self) -> bytes:
        above = self.first_bin - 36
        place = 2 + (35 + above % 4 if above >= 0 else self.first_bin - 1)
        runs = [(b"\0", [0]), (self.symbols, [place])]
        made = Section.of(runs, 1, self.raw, "direct", self.choice, self.explicit)
        coded = dataclasses.replace(made, **self.fields).bytes()
        body = self.start + bytes([self.flags]) + number(self.first_bin) + self.counts
        body += number(len(coded)) + (number(len(self.in_section)) if self.flags & 8 else b"")
        body += self.sections + coded + self.in_section
        return struct.pack("<II4s", MAGIC, 4 + len(body), b"CHNK") + body


def direct_escapes() -> DirectLanes:
    """An exact 7, an escaped code of 100, code 2."""
    sections = b"\1" + number(200) + struct.pack("<f", 7)
    symbols = bytes([31, 31, ZERO + 2])
    counts = number(2) + number(1) + number(2)
    start = b"\4" + broken_direct.STEP
    return DirectLanes(start, 2, symbols=symbols, counts=counts, sections=sections)


def direct_chunks() -> list[bytes]:
    """The same values as broken_direct.sound_chunks()."""
    constant = broken_direct.Chunk(other=b"\1" + struct.pack("<f", 9)).extent()
    # Codes 0, 1, 2 with one low bit: 0, 0, 1 above it; and every value in a table of its own.
    low = DirectLanes(b"\4" + broken_direct.STEP, 0, 36, bytes([ZERO, ZERO, ZERO + 1]), b"\2")
    low.explicit = {2 + 35: EVEN, 2 + 38: STEEP}
    return [DirectLanes().extent(), low.extent(), constant, direct_escapes().extent()]


def direct_file(chunks: list[bytes], content: bytes) -> bytes:
    preamble = broken_direct.frame(b"PREA", broken_direct.PREDICTION)
    return broken_direct.file_of(chunks, preamble, content, entropy=RANS)


def in_direct_chunks() -> list[Broken]:
    def chunk(name: str, **fields) -> Broken:
        extents = direct_chunks()
        extents[0] = DirectLanes(**fields).extent()
        return Broken(f"rans_direct_{name}", "corrupt", "read",
                      direct_file(extents, bytes(48)), "t")  # fmt: skip

    step = b"\4" + broken_direct.STEP
    low = {"start": step, "first_bin": 36}
    even = table_bytes(EVEN)
    ends = [LOWEST] * LANES
    return [
        chunk("place_out_of_range", fields={"layout": 4, "explicit": [(41, even)]}),
        chunk("unknown_layout_bit", fields={"layout": 16}),
        chunk("word_left_over", fields={"words": [[0]]}),
        chunk("section_longer", fields={"behind": b"\0"}),
        chunk("word_missing", symbols=b"", fields={"states": [2**16, *ends[1:]]}),
        chunk("payload_without_raw_bits", raw=b"\1"),
        chunk("payload_behind_the_tail", raw=b"\2\1", **low),
        chunk("raw_bits_in_the_section", flags=8, in_section=b"\2", **low),
        chunk("raw_flag_of_nothing", flags=8, raw=b"\2", **low),
        chunk("class_154", first_bin=153, symbols=bytes([ZERO] * 3), raw=bytes(12),
              fields={"explicit": [(0, table_bytes(only(2)))], "layout": 4}),
        chunk("code_too_large", first_bin=153, symbols=bytes([ZERO, ZERO + 1, ZERO]),
              raw=bytes(12), start=step),
        chunk("escape_missing", symbols=bytes([31, ZERO, ZERO])),
        chunk("escape_left_over", **(vars(direct_escapes()) | {"symbols": b"\x1f\x0f\x0f"})),
    ]  # fmt: skip
