"""Chunks in segments, put together by hand: some that are sound, and many that are not
(codec/entropy/rans.md, section 6)."""

from __future__ import annotations

import dataclasses
import struct

from broken_direct import STEP
from broken_payloads import file_of, number, pack_of
from broken_rans import BF16, ESCAPED, EVEN, FIRST_BIN, RANS, STEEP, Lanes
from broken_vectors import Broken, digest
from layout import Entry, Layout
from rans_sections import Section, Table, in_symbol_order
from vector import Random

FLAGS = 4 | 16 | 128  # clean base, segments, escapes
LONG, SHORT = (128, 128), (128, 12)  # values of the groups of a segment


def segment(counts: tuple[int, ...], seed: int, **fields) -> Lanes:
    """One of its values is escaped."""
    n_values = sum(counts)
    symbols = bytes([*range(5), 31, *(i % 7 * 5 for i in range(n_values - 6))])
    raw = Random(seed).bytes(sum(-(-2 * count // 8) for count in counts))
    sound = Lanes(counts=counts, flags=FLAGS, symbols=symbols, raw=raw)
    return dataclasses.replace(sound, **fields)


@dataclasses.dataclass
class Segmented:
    """A payload of mode 2."""

    segments: list[Lanes]
    flags: int = FLAGS
    clean_base: int = 5
    n_said: int | None = None  # segments
    n_coded: int = 0  # more bytes of the first segment's section than there are
    tables: bytes | None = None
    tables_more: int = 0  # bytes than there are
    behind: bytes = b""

    def payload(self) -> bytes:
        tables = self.segments[0].made().tables() if self.tables is None else self.tables
        n_segments = len(self.segments) if self.n_said is None else self.n_said
        parts = [bytes([2, self.flags])]
        if self.flags & 1:
            parts += [number(1), number(0)]
        if self.flags & 4:
            parts.append(bytes([self.clean_base]))
        parts += [bytes([n_segments]), number(len(tables) + self.tables_more)]
        coded = [one.made().lanes() for one in self.segments]
        for i, one in enumerate(self.segments):
            said = len(coded[i]) + (self.n_coded if i == 0 else 0)
            parts += [number(one.first_bin), one.escape_counts(), number(said)]
            parts.append(number(len(one.in_section)))
        parts.append(tables)
        for one, section in zip(self.segments, coded, strict=True):
            parts += [one.bin_escapes, one.escapes, section, one.in_section]
        return b"".join([*parts, self.behind])

    def values(self) -> bytes:
        return b"".join(one.values() for one in self.segments)


def with_tables(counts: tuple[int, ...], seed: int, explicit: dict[int, Table]) -> Lanes:
    return segment(counts, seed, explicit=explicit, n_sets=2)


def sound_chunks() -> dict[str, Segmented]:
    tables = {2: EVEN, 3: STEEP}
    bins = struct.pack("<H", FIRST_BIN + 40)
    return {
        "two segments": Segmented([segment(LONG, 93), segment(SHORT, 94)]),
        "three, the last of one value": Segmented(
            [segment((128,), 95 + i, bins=b"\0") for i in range(2)]
            + [segment((1,), 97, bins=b"\0", symbols=b"\6", escapes=b"")]
        ),
        "tables of their own": Segmented(
            [with_tables(LONG, 98, tables), with_tables(SHORT, 99, tables)]
        ),
        "bins of their own": Segmented(
            [
                segment(LONG, 100, first_bin=FIRST_BIN - 4, bins=b"\0\0", clean_base=0,
                        raw=Random(101).bytes(224)),
                segment(SHORT, 102, clean_base=0, raw=Random(103).bytes(123)),
            ],
            flags=16 | 128,
        ),
        "bin escapes": Segmented(
            [segment(LONG, 104), segment(SHORT, 105, bin_escapes=bins, bins=b"\x1f\0")]
        ),
    }  # fmt: skip


def broken(name: str, payload: bytes, n_values: int = 396, entropy: int = RANS) -> Broken:
    file = file_of(payload, BF16, [n_values], bytes(16), entropy)
    return Broken(f"segments_{name}", "corrupt", "read", file, "t")


def in_segments() -> list[Broken]:
    def chunk(name: str, n_values: int = 396, **fields) -> Broken:
        made = [segment(LONG, 93), segment(SHORT, 94)]
        return broken(name, dataclasses.replace(Segmented(made), **fields).payload(), n_values)

    def second(name: str, **fields) -> Broken:
        made = [segment(LONG, 93), segment(SHORT, 94, **fields)]
        return broken(name, Segmented(made).payload())

    sound = Segmented([segment(LONG, 93), segment(SHORT, 94)])
    payload = sound.payload()
    tables = sound.segments[0].made().tables()
    words = sound.segments[1].made().words[0]
    return [
        chunk("none", n_said=0),
        chunk("one", n_said=1),
        chunk("seventeen", n_said=17),
        chunk("one_more_than_there_are", n_said=3),
        chunk("more_than_groups", n_values=128),
        chunk("last_is_empty", segments=[segment(LONG, 93)] * 3, n_values=384),
        chunk("with_a_mask", flags=FLAGS | 1),
        chunk("with_four_tables", flags=FLAGS | 32),
        chunk("clean_base_too_large", clean_base=7),
        chunk("tables_of_no_bytes", tables=b""),
        chunk("tables_cut", tables=tables[:1]),
        chunk("byte_behind_tables", tables=tables + b"\0"),
        chunk("tables_longer_than_said", tables_more=-1),
        chunk("tables_shorter_than_said", tables_more=1),
        chunk("tables_without_end", tables_more=2**32 - 1 - len(tables)),
        chunk("other_lane_sets", tables=bytes([1]) + tables[1:]),
        chunk("border_one_too_early", n_coded=-1),
        chunk("border_one_too_late", n_coded=1),
        chunk("first_without_end", n_coded=2**31),
        chunk("bytes_behind", behind=b"\0"),
        second("first_bin_too_large", first_bin=4 * 255 + 32),
        second("bin_escape_left_over", bin_escapes=b"\0\0"),
        second("escape_missing", escapes=b""),
        second("escape_left_over", escapes=struct.pack("<2H", ESCAPED, ESCAPED)),
        second("word_missing", section={"words": [words[:-1]]}),
        second("word_left_over", section={"words": [[*words, 0]]}),
        chunk("raw_byte_missing", flags=16 | 128, segments=[
            segment(LONG, 93, clean_base=0, raw=bytes(223)),
            segment(SHORT, 94, clean_base=0, raw=bytes(123)),
        ]),
        broken("body_cut", payload[:-1]),
        broken("header_cut", payload[:9]),
    ]  # fmt: skip


# Chunks of the direct codec: 300 F32 values in two segments, all of bin 30 and the step 0.5.

F32, N_DIRECT = 18, 300
DIRECT_FLAGS = 16 | 2  # segments, escapes
ZERO = 15  # the symbol of code 0


@dataclasses.dataclass
class DirectPart:
    """A segment whose codes are 0, 1, 2 and again."""

    n_values: int
    exact: list[float] = dataclasses.field(default_factory=list)  # its first values
    first_bin: int = 30
    n_exact_more: int = 0
    section: dict = dataclasses.field(default_factory=dict)  # fields of Section

    def codes(self) -> list[int]:
        return [i % 3 for i in range(self.n_values)]

    def made(self) -> Section:
        n_groups = -(-self.n_values // 128)
        n_exact = len(self.exact)
        values = [31] * n_exact + [ZERO + code for code in self.codes()[n_exact:]]
        parts = (values[i : i + 128] for i in range(0, self.n_values, 128))
        symbols = b"".join(map(in_symbol_order, parts))
        runs = [(bytes(n_groups), [0] * n_groups), (symbols, [2 + 29] * n_groups)]
        return dataclasses.replace(Section.of(runs, 1, b"", "direct"), **self.section)

    def header(self, flags: int) -> bytes:
        counts = [len(self.exact), len(self.exact) + self.n_exact_more, 0] if flags & 2 else []
        numbers = [self.first_bin, *counts, len(self.made().lanes())]
        return b"".join(map(number, numbers)) + (number(0) if flags & 8 else b"")

    def sections(self) -> bytes:
        n_exact = len(self.exact)
        flags = ((1 << n_exact) - 1).to_bytes(-(-n_exact // 8), "little")
        return flags + struct.pack(f"<{n_exact}f", *self.exact) + self.made().lanes()

    def values(self) -> list[float]:
        return [*self.exact, *(0.5 * code for code in self.codes()[len(self.exact) :])]


def direct_parts(**fields) -> list[DirectPart]:
    """The second one has an exact value."""
    return [DirectPart(256), dataclasses.replace(DirectPart(44, [7.25]), **fields)]


def direct_payload(parts: list[DirectPart], flags=DIRECT_FLAGS, start=b"\4" + STEP) -> bytes:
    tables = parts[0].made().tables()
    body = start + bytes([flags, len(parts)]) + number(len(tables))
    body += b"".join(part.header(flags) for part in parts) + tables
    return body + b"".join(part.sections() for part in parts)


def direct_file(payload: bytes, content: bytes, entropy: int = RANS) -> bytes:
    layout = Layout.empty()
    entry = Entry(b"t", [N_DIRECT], [], dtype=F32, codec=2, entropy=entropy, flags=4)
    entry.error = struct.pack("<dddBB6x", 1, 0.5, 0.25, 1, 0)
    entry.digest = digest(content)
    pack_of([payload], [entry], layout)
    layout.rehash()
    return layout.seal()


def direct_values() -> bytes:
    values = [value for part in direct_parts() for value in part.values()]
    return struct.pack(f"<{N_DIRECT}f", *values)


def in_direct_segments() -> list[Broken]:
    def chunk(name: str, payload: bytes, entropy: int = RANS) -> Broken:
        file = direct_file(payload, bytes(4 * N_DIRECT), entropy)
        return Broken(f"segments_direct_{name}", "corrupt", "read", file, "t")

    def second(name: str, **fields) -> Broken:
        return chunk(name, direct_payload(direct_parts(**fields)))

    sound = direct_parts()
    constant_field = struct.pack("<Bd", 4, 0.5) + 3 * bytes(2)  # 0, in entries of 0 bits
    words = sound[1].made().words[0]
    return [
        chunk("with_zstd", direct_payload(sound), entropy=1),
        chunk("with_a_mask", direct_payload(sound, DIRECT_FLAGS | 1)),
        chunk("with_a_field", direct_payload(sound, start=b"\4" + constant_field)),
        chunk("with_raw_flag_of_nothing", direct_payload(sound, DIRECT_FLAGS | 8)),
        chunk("with_unknown_flag", direct_payload(sound, DIRECT_FLAGS | 32)),
        chunk("without_escape_flag", direct_payload(sound, 16)),
        chunk("of_three_parts", direct_payload([*sound, DirectPart(1)])),
        chunk("cut", direct_payload(sound)[:-1]),
        second("first_bin_too_large", first_bin=154),
        second("more_exact_than_escapes", n_exact_more=1),
        second("word_left_over", section={"words": [[*words, 0]]}),
        second("escape_missing", exact=[]),
    ]
