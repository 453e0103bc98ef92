"""Decodes the payloads of lossless chunks: codec/lossless/spec.md (called "lossless"
below), codec/symboliser/spec.md ("symboliser"), codec/entropy/spec.md and rans.md."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
from reference_fields import Fields, Refused, check, decompress_frame, require
from reference_rans import FIRST_VALUE_PLACE, Lanes, Tables, join_raw, segment_values
from reference_records import DTYPES

GROUP = 128
ZERO_GROUP, BIN_ESCAPE = 30, 31  # among the symbols of bins
ZSTD, RANS = 1, 2  # entropy stages
WINDOW = 15  # exponents
WINDOW_ABOVE = 4  # the largest exponent of a bin's window is floor(bin / 4) - 4


@dataclasses.dataclass
class Format:
    """Symboliser, section 2."""

    exponent_bits: int
    mantissa_bits: int
    low_bits: int
    top_bits: int = 2  # of the mantissa, in symbols: S; with rans 1

    @property
    def raw_bits(self) -> int:
        """R: the sign, and what of the mantissa is not in symbols."""
        return 1 + self.mantissa_bits - self.top_bits

    @property
    def largest_bin(self) -> int:
        return 4 * (2**self.exponent_bits - 1) + 31

    @property
    def zero(self) -> int:
        """Among the symbols of values; the next one is the escape."""
        return WINDOW << self.top_bits


FORMATS = {
    "F64": Format(11, 52, 48),
    "F32": Format(8, 23, 16),
    "C64": Format(8, 23, 16),
    "BF16": Format(8, 7, 0),
    "F16": Format(5, 10, 0),
    "F8_E5M2": Format(5, 2, 0),
    "F8_E5M2FNUZ": Format(5, 2, 0),
    "F8_E4M3": Format(4, 3, 0),
    "F8_E4M3FNUZ": Format(4, 3, 0),
}

FORMATS_OF_RANS = {
    name: dataclasses.replace(format, top_bits=1) for name, format in FORMATS.items()
}


class Body(Fields):
    """The body of a chunk, and what follows it."""

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        """Lossless, at the start: seven bits a byte, low bits first."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                require(byte > 0 or shift == 0, "a number with more bytes than it needs")
                require(value < 2**32, "a number above 32 bits")
                return value
        raise Refused("corrupt", "a number of more than 5 bytes")

    def array(self, count: int, size: int) -> np.ndarray:
        """`count` integers of `size` bytes."""
        return np.frombuffer(self.take(count * size), f"<u{size}")

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.position)


def decode_chunk(
    payload: bytes, dtype: int, n_elems: int, entropy: int, body_bytes: int | None
) -> np.ndarray:
    """The bytes of a chunk. `body_bytes`: what the CHNK frame says, if there is one."""
    name, bits, _, _ = DTYPES[dtype]
    size = {"C64": 4}.get(name, max(bits // 8, 1))
    n_values = n_elems * bits // 8 // size
    body = Body(payload)
    mode = body.byte()
    n_symbols = None
    if mode == 0:
        values = body.array(n_values, size)
    elif mode == 1:
        values = np.repeat(body.array(1, size), n_values)
    elif mode == 2:
        require(name in FORMATS, f"symbols of dtype {name}")
        check(entropy in (ZSTD, RANS), "unsupported", "symbols of an unknown entropy stage")
        if entropy == RANS:
            format = FORMATS_OF_RANS[name]
            values = SymbolChunk(body, format, n_values, size, RANS).decode_lanes()
        else:
            chunk = SymbolChunk(body, FORMATS[name], n_values, size)
            n_symbols = sum(chunk.stream_lengths)
    elif mode == 3:
        values = decode_planes(body, n_values, size)
    else:
        raise Refused("corrupt", f"mode {mode}")
    require(body_bytes in (None, body.position), "the body has another length than its frame")
    if n_symbols is None:
        body.end("payload")
    else:
        values = chunk.decode(decompress_frame(body.rest(), n_symbols))
    return values.astype(f"<u{size}").view(np.uint8)


# Lossless, section 4


def decode_planes(body: Body, n_values: int, size: int) -> np.ndarray:
    delta = body.byte()
    require(delta <= 1, f"transform {delta}")
    codings = []
    for _ in range(size):
        coding = body.byte()
        require(coding <= 2, f"plane coding {coding}")
        codings.append((coding, (None, body.byte, body.varint)[coding]() if coding else None))
    planes = []
    for coding, field in codings:
        if coding == 0:
            planes.append(body.take(n_values))
        elif coding == 1:
            planes.append(bytes([field]) * n_values)
        else:
            require(field < n_values, "a plane that compression did not make shorter")
            planes.append(decompress_frame(body.take(field), n_values))
    values = np.stack([np.frombuffer(plane, np.uint8) for plane in planes], axis=1)
    values = np.ascontiguousarray(values).view(f"<u{size}").reshape(-1)
    if delta:
        one = values.dtype.type(1)
        differences = np.where(values & one, ~(values >> one), values >> one)
        values = np.cumsum(differences, dtype=values.dtype)
    return values


# Lossless, section 3, and the symboliser


class SymbolChunk:
    """Mode 2: the constructor reads the body, `decode` the symbols behind it, and
    `decode_lanes` those that are in it."""

    def __init__(self, body: Body, format: Format, n_values: int, size: int, entropy: int = ZSTD):
        self.format, self.n_values, self.size = format, n_values, size
        self.entropy = entropy
        flags = body.byte()
        flag = [bool(flags >> bit & 1) for bit in range(8)]
        (
            has_mask,
            has_mask_signs,
            has_base,
            self.has_zero_bits,
            self.has_zero_groups,
            four_tables,
        ) = flag[:6]
        require(has_mask or not has_mask_signs, "signs of a mask that is not there")
        has_segments = entropy == RANS and self.has_zero_groups
        if entropy == RANS:
            require(not four_tables, "flags of the other stage")
            require(not has_segments or not has_mask, "segments and a mask")
            self.has_zero_groups = True  # nothing says that there are none
        first_bin = 0 if has_segments else body.varint()
        mask_bytes = body.varint() if has_mask else 0
        n_masked = body.varint() if has_mask else 0
        require(n_masked < n_values, "every value is masked")
        require(mask_bytes <= -(-n_values // 8), "a mask that compression made longer")
        self.trailing_zero_base = body.byte() if has_base else 0
        require(self.trailing_zero_base < format.raw_bits, "too many trailing zero bits")
        self.has_signs, self.has_escapes = not flag[6], flag[7]
        self.segments: list[SymbolChunk] = []
        self.masked = self.signs = self.tables = None
        if has_segments:
            self.read_segments(body)
            return
        n_shown = n_values - n_masked
        has_count = self.has_zero_groups and entropy == ZSTD
        n_symbols = body.varint() if has_count else n_shown
        self.table_symbols = [body.varint() for _ in range(3)] if four_tables else []
        self.table_symbols.append(n_symbols - sum(self.table_symbols))
        require(self.table_symbols[-1] >= 0, "more symbols in tables than there are")
        require(n_symbols <= n_shown, "more symbols than values")
        self.read_counts(body, n_shown, first_bin)
        if has_mask:
            self.masked = read_mask(body, mask_bytes, n_values)
            shown = n_values - np.count_nonzero(self.masked)
            require(shown == n_shown, "the mask masks another number of values")
        self.signs = unpack_bits(body.take(-(-n_masked // 8)), n_masked) if has_mask_signs else None
        self.read_sections(body)

    def read_segments(self, body: Body) -> None:
        """Section 3.1: each is like a chunk, with the same flags."""
        n_segments, table_bytes = body.byte(), body.varint()
        segments = []
        for n_shown in segment_values(self.n_values, n_segments):
            segment = copy.copy(self)
            segment.read_counts(body, n_shown, body.varint())
            segments.append(segment)
        self.segments = segments
        tables = Body(body.take(table_bytes))
        self.tables = Tables(tables, "lossless")
        tables.end("tables of the segments")
        for segment in segments:
            segment.tables = self.tables
            segment.read_sections(body)

    def read_counts(self, body: Body, n_shown: int, first_bin: int) -> None:
        """Section 3.1: what each segment has of its own."""
        require(first_bin <= self.format.largest_bin, "the first bin is out of range")
        self.n_shown, self.first_bin = n_shown, first_bin
        self.n_groups = -(-n_shown // GROUP)
        self.n_bin_escapes = body.varint() if self.has_escapes else 0
        self.n_escapes = body.varint() if self.has_escapes else 0
        self.coded_bytes = body.varint() if self.entropy == RANS else 0
        self.raw_bytes = body.varint()

    def read_sections(self, body: Body) -> None:
        self.bin_escapes = body.array(self.n_bin_escapes, 2)
        self.escapes = body.array(self.n_escapes, self.size)
        self.coded = body.take(self.coded_bytes)
        self.raw = np.frombuffer(body.take(self.raw_bytes), np.uint8)

    @property
    def stream_lengths(self) -> list[int]:
        """Lossless, section 3.3: bins, trailing zero bits, tables."""
        return [self.n_groups, self.n_groups * self.has_zero_bits, *self.table_symbols]

    def decode(self, content: bytes) -> np.ndarray:
        symbols = np.frombuffer(content, np.uint8)
        ends = np.cumsum(self.stream_lengths)
        bins, zero_bits, *tables = np.split(symbols, ends[:-1])
        self.read_bins(bins.tolist())
        self.read_zero_bits(zero_bits)
        return self.values(self.read_symbols(tables))

    def decode_lanes(self) -> np.ndarray:
        """Lossless, section 3.3: the runs of the entropy stage rans."""
        if self.segments:
            return np.concatenate([segment.decode_lanes() for segment in self.segments])
        lanes = Lanes(Body(self.coded), "lossless", self.tables)
        self.read_bins(lanes.decode(self.n_groups, [0] * self.n_groups).tolist())
        n_zero_bits_groups = self.n_groups * self.has_zero_bits
        self.read_zero_bits(lanes.decode(n_zero_bits_groups, [1] * n_zero_bits_groups))
        busy = ~self.is_zero
        places = FIRST_VALUE_PLACE + self.bins[busy] % 4
        symbols = lanes.decode(int(self.group_values[busy].sum()), places.tolist())
        symbols = in_value_order(symbols)
        raw = join_raw(self.raw.tobytes(), lanes.payload(), int(self.raw_lengths().sum()))
        self.raw = np.frombuffer(raw, np.uint8)
        return self.values(symbols)

    def values(self, symbols: np.ndarray) -> np.ndarray:
        shown = self.join(symbols, self.read_raw_bits())
        return shown if self.masked is None else self.unmask(shown)

    def read_bins(self, symbols: list[int]) -> None:
        """Symboliser, section 4: the bin of every group, and which are all zero."""
        escapes = iter(self.bin_escapes.tolist())
        largest, bins, current = self.format.largest_bin, [], self.first_bin
        for symbol in symbols:
            require(symbol <= BIN_ESCAPE, f"bin symbol {symbol}")
            if symbol == BIN_ESCAPE:
                current = next(escapes, -1)
            elif symbol != ZERO_GROUP:
                current += -(symbol + 1) // 2 if symbol % 2 else symbol // 2
            require(0 <= current <= largest, "a bin out of range, or no bin escape left")
            bins.append(current)
        require(next(escapes, None) is None, "bin escapes left over")
        self.bins = np.array(bins)
        self.is_zero = np.array(symbols) == ZERO_GROUP
        require(self.has_zero_groups or not self.is_zero.any(), "a group that is all zero")
        self.group_values = np.full(self.n_groups, GROUP)
        self.group_values[-1] = self.n_shown - GROUP * (self.n_groups - 1)

    def read_zero_bits(self, symbols: np.ndarray) -> None:
        zero_bits = np.full(self.n_groups, self.trailing_zero_base)
        if self.has_zero_bits:
            require(symbols.max() < 32, "a symbol of trailing zero bits above 31")
            require(not symbols[self.is_zero].any(), "trailing zero bits of a group of zeros")
            zero_bits += symbols
        zero_bits[self.is_zero] = 0
        require((zero_bits < self.format.raw_bits).all(), "too many trailing zero bits")
        self.zero_bits = zero_bits

    def of_values(self, of_groups: np.ndarray) -> np.ndarray:
        """Repeats what each group that is not all zero has, for its values."""
        return np.repeat(of_groups[~self.is_zero], self.group_values[~self.is_zero])

    def read_symbols(self, tables: list[np.ndarray]) -> np.ndarray:
        """Symboliser, section 5: the symbols of values, from the tables into one row."""
        table = self.of_values(self.bins % len(tables))
        symbols = np.empty(len(table), np.uint8)
        for number, stream in enumerate(tables):
            wanted = table == number
            require(np.count_nonzero(wanted) == len(stream), "tables of the wrong length")
            symbols[wanted] = stream
        escape = self.format.zero + 1
        require(not len(symbols) or symbols.max() <= escape, f"a symbol above {escape}")
        return symbols

    def raw_lengths(self) -> np.ndarray:
        """Symboliser, section 6: bytes of each group."""
        low = self.format.low_bits
        n_packed = self.packed_bits(np.where(self.zero_bits, self.zero_bits, low))
        lengths = packed_bytes(n_packed, self.group_values)
        lengths += np.where(self.zero_bits, 0, low // 8 * self.group_values)
        lengths[self.is_zero] = 0
        return lengths

    def packed_bits(self, last):
        """Bits of a value, from `last` on."""
        return self.format.raw_bits - (not self.has_signs) - last

    def read_raw_bits(self) -> np.ndarray:
        """Symboliser, section 6: groups of equal layout are read together."""
        lengths = self.raw_lengths()
        require(lengths.sum() == len(self.raw), "raw bits of the wrong length")
        starts = np.cumsum(lengths) - lengths
        bits = np.zeros((self.n_groups, GROUP), np.uint64)
        for zero_bits, count in set(
            zip(self.zero_bits.tolist(), self.group_values.tolist(), strict=True)
        ):
            alike = (self.zero_bits == zero_bits) & (self.group_values == count) & ~self.is_zero
            groups = np.flatnonzero(alike)
            if len(groups):
                places = starts[groups][:, None] + np.arange(lengths[groups[0]])
                bits[groups, :count] = self.raw_bits_of(self.raw[places], zero_bits, count)
        used = np.arange(GROUP) < self.group_values[:, None]
        return bits[used & ~self.is_zero[:, None]]

    def raw_bits_of(self, raw: np.ndarray, zero_bits: int, count: int) -> np.ndarray:
        """One row of bytes for each group, one row of integers back."""
        last = zero_bits or self.format.low_bits
        n_packed = self.packed_bits(last)
        at = packed_bytes(n_packed, count)
        bits = unpack_values(raw[:, :at], n_packed, count) << np.uint64(last)
        if not zero_bits:
            for byte in range(self.format.low_bits // 8):
                low = raw[:, at + byte :: self.format.low_bits // 8]
                bits |= low.astype(np.uint64) << np.uint64(8 * byte)
        return bits

    def join(self, symbols: np.ndarray, raw_bits: np.ndarray) -> np.ndarray:
        """Symboliser, section 5: values from symbols and raw bits; groups of zeros between."""
        exponent, mantissa = self.format.exponent_bits, self.format.mantissa_bits
        first = self.of_values(self.bins // 4 - WINDOW_ABOVE)
        steps, top_bits = np.divmod(symbols, 1 << self.format.top_bits)
        t = ((first - steps) % 2**exponent << self.format.top_bits) + top_bits
        t[symbols == self.format.zero] = 0
        sign, fraction = np.divmod(raw_bits, np.uint64(1 << self.format.raw_bits - 1))
        values = sign << np.uint64(exponent + mantissa)
        values |= t.astype(np.uint64) << np.uint64(mantissa - self.format.top_bits)
        values |= fraction
        escaped = symbols == self.format.zero + 1
        require(np.count_nonzero(escaped) == len(self.escapes), "escapes of the wrong number")
        values[escaped] = self.escapes
        shown = np.zeros(self.n_shown, f"<u{self.size}")
        shown[~np.repeat(self.is_zero, self.group_values)] = values
        return shown

    def unmask(self, shown: np.ndarray) -> np.ndarray:
        """Symboliser, section 3."""
        values = np.zeros(self.n_values, shown.dtype)
        values[~self.masked] = shown
        if self.signs is not None:
            minus_zero = 1 << self.format.exponent_bits + self.format.mantissa_bits
            values[self.masked] = np.where(self.signs, minus_zero, 0).astype(shown.dtype)
        return values


def in_value_order(symbols: np.ndarray) -> np.ndarray:
    """Symboliser, section 5: with rans, symbols of whole groups are in another order."""
    n_whole = len(symbols) // GROUP * GROUP
    whole = symbols[:n_whole].reshape(-1, 4, GROUP // 4).transpose(0, 2, 1)
    return np.concatenate([whole.reshape(-1), symbols[n_whole:]])


def packed_bytes(n_bits, count):
    """Symboliser, section 6: what `n_bits` bits of each of `count` values of a group take."""
    return -(-(count * (n_bits % 8)) // 8) + count * (n_bits // 8)


def unpack_values(packed: np.ndarray, n_bits: int, count: int) -> np.ndarray:
    """Symboliser, section 6: one row of bytes for each group, one row of integers back."""
    width = n_bits % 8
    at = -(-(count * width) // 8)
    bits = np.unpackbits(packed[:, :at], axis=1, count=count * width, bitorder="little")
    bits = bits.reshape(len(packed), count, width).astype(np.uint64)
    values = (bits << np.arange(width, dtype=np.uint64)).sum(axis=2, dtype=np.uint64)
    for first in range(at, packed.shape[1], count):
        values = values << np.uint64(8) | packed[:, first : first + count]
    return values


def unpack_bits(packed: bytes, count: int) -> np.ndarray:
    whole = np.frombuffer(packed, np.uint8)
    return np.unpackbits(whole, count=count, bitorder="little").astype(bool)


def read_mask(body: Body, mask_bytes: int, n_values: int) -> np.ndarray:
    whole = -(-n_values // 8)
    section = body.take(mask_bytes)
    packed = section if mask_bytes == whole else decompress_frame(section, whole)
    require(not packed[-1] >> (n_values - 1) % 8 + 1, "unused bits of the mask are set")
    return unpack_bits(packed, n_values)
