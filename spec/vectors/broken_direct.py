"""Records of the direct codec put together by hand: one that is sound, and many that are not."""

from __future__ import annotations

import dataclasses
import struct

from broken_payloads import number
from broken_vectors import Broken, digest, stored_frame
from layout import MAGIC, Entry, Layout, frame

F32, I32 = 18, 16
SHAPE = [4, 1, 3]  # four kernels of three values
ZERO = 63  # the symbol of code 0
STEP = struct.pack("<Bd", 0, 0.5)


def packed(least: int, width: int, bits: bytes) -> bytes:
    return number(2 * least if least >= 0 else -2 * least - 1) + bytes([width]) + bits


# Code 1 is code 0 plus the residual, code 2 is half of code 1 plus the residual.
PREDICTION = struct.pack("<Bd", 2, 0.5) + packed(0, 16, struct.pack("<3H", 256, 0, 128))


@dataclasses.dataclass
class Chunk:
    """A payload: three values of bin 35, codes or residuals 0, 1, 2."""

    start: bytes = b"\5"  # mode, and what stands between it and the flags
    flags: int = 0
    first_bin: int = 35
    counts: tuple[int, ...] = ()
    sections: bytes = b""
    symbols: bytes = bytes([0, ZERO, ZERO + 1, ZERO + 2])
    other: bytes | None = None  # a payload without symbols

    def extent(self) -> bytes:
        body = self.start + bytes([self.flags])
        body += b"".join(number(count) for count in (self.first_bin, *self.counts))
        body, symbols = (
            (body + self.sections, stored_frame(self.symbols))
            if self.other is None
            else (self.other, b"")
        )
        return struct.pack("<II4s", MAGIC, 4 + len(body), b"CHNK") + body + symbols


def exact_and_escaped() -> Chunk:
    """An exact 7, an escaped code of 100, code 2."""
    sections = b"\1" + number(200) + struct.pack("<f", 7)
    return Chunk(b"\4" + STEP, 2, 35, (2, 1, 2), sections, bytes([0, 0, 0, ZERO + 2]))


def file_of(chunks: list[bytes], preamble: bytes | None, content: bytes, **fields) -> bytes:
    layout = Layout.empty()
    extents = [preamble] * (preamble is not None) + chunks
    entry = Entry(b"t", SHAPE, [], codec=2, entropy=1, dtype=F32, b=len(layout.body), c=3)
    entry.flags = 4 | 2 * (preamble is not None)
    entry.error = struct.pack("<dddBB6x", 1, 0.5, 0.25, 1, 0)
    entry.chunks = [[len(extent), 0] for extent in extents]
    entry.digest = digest(content)
    for name, value in fields.items():
        setattr(entry, name, value)
    layout.body += b"".join(extents)
    layout.entries.append(entry)
    layout.rehash()
    return layout.seal()


def sound_values() -> list[float]:
    return [0, 0.5, 1.5, 0, 0.5, 1, 9, 9, 9, 7, 50, 1]


def sound_chunks() -> list[bytes]:
    """A chunk of each mode that a direct record may mix."""
    constant = Chunk(other=b"\1" + struct.pack("<f", 9))
    chunks = (Chunk(), Chunk(b"\4" + STEP), constant, exact_and_escaped())
    return [chunk.extent() for chunk in chunks]


def sound_file() -> bytes:
    content = struct.pack("<12f", *sound_values())
    return file_of(sound_chunks(), frame(b"PREA", PREDICTION), content)


def broken(name: str, chunk: Chunk | None, preamble: bytes | None = None, **fields) -> Broken:
    """The first chunk or the contents of the preamble are others than in the sound file."""
    chunks = sound_chunks()
    if chunk is not None:
        chunks[0] = chunk.extent()
    preamble = frame(b"PREA", PREDICTION if preamble is None else preamble)
    data = file_of(chunks, preamble, bytes(48), **fields)
    return Broken(f"direct_{name}", "corrupt", "read", data, "t")


def in_preambles() -> list[Broken]:
    def with_step(name: str, step: float) -> Broken:
        return broken(name, None, struct.pack("<Bd", 0, step))

    def with_rows(name: str, half: int) -> Broken:
        return broken(name, None, struct.pack("<B4H", 1, 0x3F00, 0, half, 0x7F7F))

    def with_vector(name: str, vector: bytes) -> Broken:
        return broken(name, None, struct.pack("<Bd", 2, 0.5) + vector)

    chunks = sound_chunks()
    content = bytes(48)
    tagged = file_of(chunks, frame(b"CHNK", PREDICTION), content)
    unused = file_of(chunks[2:3] * 4, frame(b"PREA", b"\x08" + STEP[1:]), content)
    return [
        Broken("direct_no_preamble", "corrupt", "read", file_of(chunks, None, content), "t"),
        Broken("direct_preamble_of_another_tag", "corrupt", "read", tagged, "t"),
        Broken("direct_preamble_unsound_and_unused", "corrupt", "read", unused, "t"),
        Broken("lossless_with_a_preamble", "corrupt", "open",
               file_of(chunks[2:3] * 4, frame(b"PREA", PREDICTION), content,
                       codec=1, flags=2, error=b"")),
        broken("preamble_left_over", None, PREDICTION + b"\0"),
        broken("preamble_cut", None, PREDICTION[:-1]),
        broken("preamble_unknown_flag", None, b"\x08" + STEP[1:]),
        broken("prediction_without_kernels", None, shape=[4, 3]),
        with_step("step_zero", 0.0),
        with_step("step_negative", -0.5),
        with_step("step_infinite", float("inf")),
        with_step("step_nan", float("nan")),
        with_rows("row_step_infinite", 0x7F80),
        with_rows("row_step_negative", 0x8000),
        with_vector("vector_of_17_bits", packed(0, 17, bytes(7))),
        with_vector("vector_entry_too_large", packed(2**15 - 1, 1, b"\1")),
        with_vector("vector_unused_bits", packed(0, 1, b"\x09")),
    ]  # fmt: skip


def in_chunks() -> list[Broken]:
    escapes = exact_and_escaped()

    def with_escapes(name: str, **changes) -> Broken:
        return broken(name, dataclasses.replace(escapes, **changes))

    def with_low_bits(name: str, scale_bin: int, symbol: int, lengths=None) -> Broken:
        n_bits = 1 + (scale_bin - 40) // 4
        symbols = bytes([0, symbol, ZERO, ZERO])
        whole = -(-3 * (n_bits % 8) // 8) + 3 * (n_bits // 8)
        length = whole if lengths is None else lengths
        chunk = Chunk(b"\4" + STEP, 8, scale_bin, (length,), bytes(length), symbols)
        return broken(name, chunk)

    exact = struct.pack("<f", 7)
    large = number(2 * 2**30)
    masked = Chunk(b"\4" + STEP, 1, 35, (1, 1), b"\1", bytes([0, ZERO, ZERO]))
    return [
        broken("unknown_mode", Chunk(b"\6")),
        broken("unknown_flag", Chunk(flags=16)),
        broken("flag_of_nothing", Chunk(flags=8, counts=(0,))),
        broken("first_class_154", Chunk(first_bin=154)),
        broken("class_zero", Chunk(first_bin=0)),
        broken("class_escape_missing", Chunk(symbols=bytes([31, ZERO, ZERO, ZERO]))),
        broken("symbol_126", Chunk(symbols=bytes([0, ZERO, 126, ZERO]))),
        broken("symbol_missing", Chunk(symbols=bytes([0, ZERO, ZERO]))),
        broken("symbol_left_over", Chunk(symbols=bytes([0] + [ZERO] * 4))),
        broken("mask_hides_all", dataclasses.replace(masked, counts=(1, 3), sections=b"\7")),
        broken("mask_of_another_count", dataclasses.replace(masked, sections=b"\3")),
        broken("mask_unused_bit", dataclasses.replace(masked, sections=b"\x08")),
        broken("mask_too_long", dataclasses.replace(masked, counts=(2, 1), sections=b"\1\0")),
        with_escapes("escapes_without_end", counts=(2**32 - 1, 1, 2)),
        with_escapes("exact_of_another_count", sections=b"\0" + number(200) + exact),
        with_escapes("escape_left_over", symbols=bytes([0, 0, ZERO, ZERO])),
        with_escapes("escape_missing", symbols=bytes([0, 0, 0, 0])),
        with_escapes("code_bytes_left_over", counts=(2, 1, 3),
                     sections=b"\1" + number(200) + b"\0" + exact),
        with_escapes("escaped_code_too_large", counts=(2, 1, len(large)),
                     sections=b"\1" + large + exact),
        with_low_bits("code_too_large", 153, ZERO + 2),
        with_low_bits("code_beyond_32_bits", 153, 125),
        with_low_bits("raw_bits_missing", 52, ZERO, 1),
        with_low_bits("raw_bits_left_over", 52, ZERO, 3),
        with_low_bits("raw_bytes_missing", 72, ZERO, 3),
        with_low_bits("raw_bytes_left_over", 72, ZERO, 5),
        Broken("direct_without_a_stage", "unsupported", "read",
               file_of(sound_chunks(), frame(b"PREA", PREDICTION), bytes(48), entropy=0), "t"),
    ]  # fmt: skip
