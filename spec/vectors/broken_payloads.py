"""Lossless payloads put together by hand: one that is sound, and many that are not."""

from __future__ import annotations

import dataclasses
import struct

from broken_vectors import Broken, digest, pack_of, stored_frame
from layout import Entry, Layout


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@dataclasses.dataclass
class Symbols:
    """A payload of mode 2: ten F16 values, two of them hidden, in one group."""

    mode: int = 2
    flags: int = 0b10000111  # mask, mask signs, clean base, escapes
    first_bin: bytes = number(0)
    mask_bytes: int = 2
    n_masked: int = 2
    clean_base: int = 6
    counts: bytes = b""  # n_symbols and table_symbols
    n_bin_escapes: int = 1
    n_escapes: int = 1
    raw_bytes: int = 3
    mask: bytes = b"\x21\x00"  # values 0 and 5
    signs: bytes = b"\x02"  # value 5 is -0
    bin_escapes: bytes = struct.pack("<H", 64)  # the window begins at exponent 12
    escapes: bytes = struct.pack("<H", 0x7E01)
    raw: bytes = b"\xa5\x33\x51"
    bins: bytes = b"\x1f"
    symbols: bytes = bytes([0, 1, 6, 3, 60, 61, 59, 4])
    behind: bytes = b""

    def body(self) -> bytes:
        parts = [bytes([self.mode, self.flags]), self.first_bin]
        if self.flags & 1:
            parts += [number(self.mask_bytes), number(self.n_masked)]
        if self.flags & 4:
            parts.append(bytes([self.clean_base]))
        parts.append(self.counts)
        if self.flags & 128:
            parts += [number(self.n_bin_escapes), number(self.n_escapes)]
        parts += [number(self.raw_bytes), self.mask, self.signs]
        parts += [self.bin_escapes, self.escapes, self.raw]
        return b"".join(parts)

    def payload(self) -> bytes:
        return self.body() + stored_frame(self.bins + self.symbols) + self.behind


def unused_bits() -> Symbols:
    """Seven values that are not masked have 21 raw bits; the others of the last byte are set."""
    sound = Symbols()
    return Symbols(n_masked=3, mask=b"\x21\x02", symbols=sound.symbols[:7], raw=b"\xa5\x33\xf1")


def sound_values(sound: Symbols | None = None) -> bytes:
    """What the payload means, value by value; by default that of Symbols()."""
    sound = sound or Symbols()
    shown, raw = [], int.from_bytes(sound.raw, "little")
    for i, symbol in enumerate(sound.symbols):
        bits = raw >> 3 * i & 7  # raw bits 8 (the sign), 7 and 6
        fraction = (bits & 3) << 6
        exponent, top = (0, 0) if symbol == 60 else ((12 - symbol // 4) % 32, symbol % 4)
        shown.append(bits >> 2 << 15 | exponent << 10 | top << 8 | fraction)
    shown[5] = 0x7E01
    values = [0, *shown[:4], 0x8000, *shown[4:], 0][:10]
    return struct.pack("<10H", *values)


def file_of(payload: bytes, dtype: int, shape: list[int], content: bytes, entropy=1) -> bytes:
    layout = Layout.empty()
    entry = Entry(b"t", shape, [], dtype=dtype, codec=1, entropy=entropy, digest=digest(content))
    pack_of([payload], [entry], layout)
    layout.rehash()
    return layout.seal()


def broken(name: str, payload: bytes, dtype: int = 14, n_elems: int = 10) -> Broken:
    file = file_of(payload, dtype, [n_elems], bytes(16))
    return Broken(f"lossless_{name}", "corrupt", "read", file, "t")


def in_symbols() -> list[Broken]:
    def with_fields(name: str, **fields) -> Broken:
        return broken(name, Symbols(**fields).payload())

    sound = Symbols()
    body, streams = sound.body(), sound.bins + sound.symbols
    sizeless = b"\x28\xb5\x2f\xfd\x00\x00" + (9 << 3 | 1).to_bytes(3, "little") + streams
    large = bytearray(stored_frame(streams))
    struct.pack_into("<I", large, 5, 2**32 - 1)
    return [
        with_fields("unknown_mode", mode=4),
        broken("symbols_of_integers", sound.payload(), dtype=12),
        Broken("lossless_symbols_without_a_stage", "unsupported", "read",
               file_of(sound.payload(), 14, [10], bytes(16), entropy=0), "t"),
        with_fields("mask_of_another_count", n_masked=1),
        with_fields("mask_unused_bit", mask=b"\x21\x80"),
        with_fields("mask_hides_all", n_masked=10, mask=b"\xff\x03", signs=b"\0\0"),
        with_fields("mask_no_zstd", mask_bytes=1, mask=b"\x21"),
        with_fields("signs_without_mask", flags=sound.flags & ~1, mask=b"", signs=b""),
        with_fields("clean_bits_too_many", clean_base=9, raw=b"", raw_bytes=0),
        with_fields("class_above_all", bin_escapes=struct.pack("<H", 4 * 31 + 32)),
        with_fields("class_below_zero", n_bin_escapes=0, bin_escapes=b"", bins=b"\x01"),
        with_fields("class_escape_missing", n_bin_escapes=0, bin_escapes=b""),
        with_fields("class_escape_left_over", n_bin_escapes=2, bin_escapes=b"\x40\0\x40\0"),
        with_fields("escape_missing", n_escapes=0, escapes=b""),
        with_fields("escape_left_over", n_escapes=2, escapes=b"\1\x7e\1\x7e"),
        with_fields("symbol_62", symbols=b"\x3e" + sound.symbols[1:]),
        with_fields("class_symbol_32", bins=b"\x20"),
        with_fields("symbol_missing", symbols=sound.symbols[1:]),
        with_fields("symbol_left_over", symbols=sound.symbols + b"\0"),
        with_fields("raw_byte_missing", raw=sound.raw[1:], raw_bytes=2),
        with_fields("raw_byte_left_over", raw=sound.raw + b"\0", raw_bytes=4),
        with_fields("zero_group_without_flag", bins=b"\x1e", n_bin_escapes=0,
                    bin_escapes=b""),
        with_fields("sign_bits_without_signs", flags=sound.flags | 64),
        with_fields("more_symbols_than_values", flags=sound.flags | 16, counts=number(9),
                    symbols=sound.symbols + b"\0"),
        with_fields("fewer_symbols_than_values", flags=sound.flags | 16, counts=number(7),
                    symbols=sound.symbols[1:]),
        with_fields("tables_wrap", flags=sound.flags | 32, counts=number(2**32 - 1) * 3),
        with_fields("tables_of_another_phase", flags=sound.flags | 32,
                    counts=number(0) + number(8) + number(0)),
        with_fields("number_too_long", first_bin=b"\x80\x00"),
        with_fields("number_above_32_bits", first_bin=b"\xff\xff\xff\xff\x10"),
        with_fields("mask_longer_than_payload", mask_bytes=2**32 - 1),
        with_fields("escapes_longer_than_payload", n_escapes=2**32 - 1),
        with_fields("bytes_behind", behind=b"\0"),
        with_fields("frame_behind", behind=stored_frame(b"")),
        broken("body_cut", body[:9]),
        broken("no_symbol_frame", body),
        broken("symbol_frame_cut", sound.payload()[:-1]),
        broken("symbol_frame_without_size", body + sizeless),
        broken("symbol_frame_of_4_gib", body + bytes(large)),
        broken("symbol_frame_skippable", body + b"\x5c\x2a\x4d\x18" + b"\x09\0\0\0" + streams),
    ]  # fmt: skip


def in_other_modes() -> list[Broken]:
    n = 64
    zstd = stored_frame(bytes(range(n)))
    short = b"\x28\xb5\x2f\xfd\x20\x40" + (n << 3 | 3).to_bytes(3, "little") + b"\x07"  # RLE, sized
    longer = b"\x28\xb5\x2f\xfd\x20\x41" + (n + 1 << 3 | 3).to_bytes(3, "little") + b"\x07"
    empty_number = number(len(short))
    return [
        broken("stored_short", b"\0" + bytes(19)),
        broken("stored_long", b"\0" + bytes(21)),
        broken("constant_short", b"\1\7"),
        broken("constant_long", b"\1\7\7\7"),
        broken("unknown_transform", b"\3\2" + b"\1\7\1\7"),
        broken("unknown_coding", b"\3\0" + b"\1\7\3\7"),
        broken("plane_missing", b"\3\0" + b"\1\7\0" + bytes(9)),
        broken("plane_left_over", b"\3\0" + b"\1\7\0" + bytes(11)),
        broken("plane_longer_than_raw", b"\3\0\2" + number(len(zstd)) + zstd, 5, n),
        broken("plane_of_another_size", b"\3\0\2" + number(len(longer)) + longer, 5, n),
        broken("plane_cut", b"\3\0\2" + empty_number + short[:-1], 5, n),
        broken("plane_followed_by_bytes", b"\3\0\2" + number(len(short) + 1) + short + b"\0", 5, n),
    ]
