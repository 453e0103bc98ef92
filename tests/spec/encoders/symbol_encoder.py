"""Encodes the values of a mode 2 chunk, as codec/symboliser/spec.md and section 3 of
codec/lossless/spec.md say: all but the choice of a mask, which is given. With the formats
of rans the entropy stage is that.

Made from those pages alone: the library must write the same bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import operator

import entropy_encoder
import numpy as np
import rans_encoder
import rans_sections
from reference_codec import Format

GROUP = 128


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@dataclasses.dataclass
class Group:
    values: list[int]
    format: Format
    has_specials: bool

    def __post_init__(self):
        mantissa, exponent = self.format.mantissa_bits, self.format.exponent_bits
        below = mantissa - self.format.top_bits
        self.is_zero = not any(self.values)
        self.exponents = [v >> mantissa & 2**exponent - 1 for v in self.values]
        self.tops = [v >> below & 2 ** (exponent + mantissa - below) - 1 for v in self.values]
        low = 2**below - 1
        sign = exponent + mantissa
        self.raw = [v >> sign << below | v & low for v in self.values]
        union = functools.reduce(operator.or_, self.raw)
        limit = self.format.raw_bits - 1
        self.zero_bits = min(limit, (union & -union).bit_length() - 1) if union else limit

    def scale_bin(self) -> int | None:
        """Symboliser, section 4; None: there is no counted value."""
        mantissa, top_exponent = self.format.mantissa_bits, 2**self.format.exponent_bits - 1
        counted = []
        for value, e in zip(self.values, self.exponents, strict=True):
            magnitude = value & 2 ** (self.format.exponent_bits + mantissa) - 1
            if magnitude and not (self.has_specials and e == top_exponent):
                f = value & 2**mantissa - 1
                counted.append((e, f << 7 - mantissa if mantissa < 7 else f >> mantissa - 7))
        if not counted:
            return None
        top = max(e for e, _ in counted)
        total = sum((128 + f << 8) >> top - e for e, f in counted if top - e <= 15)
        q = total * 128 // len(counted)
        b = q.bit_length() - 1
        q >>= b - 15
        return 4 * (top + b - 15) + (q >= 38968) + (q >= 46341) + (q >= 55109)

    def choose_symbols(self, scale_bin: int) -> None:
        e0, per_exponent = scale_bin // 4 - 4, 2**self.format.top_bits
        self.symbols, self.escapes = [], []
        for i, (value, e, t) in enumerate(zip(self.values, self.exponents, self.tops, strict=True)):
            if t == 0:
                self.symbols.append(self.format.zero)
            elif e0 - 14 <= e <= e0:
                self.symbols.append(per_exponent * (e0 - e) + t % per_exponent)
            else:
                self.symbols.append(self.format.zero + 1)
                self.escapes.append(value)
                self.raw[i] = 0

    def packed_raw(self, zero_bits: int, has_signs: bool) -> bytes:
        last = zero_bits or self.format.low_bits
        n_bits = self.format.raw_bits - (not has_signs) - last
        width = n_bits % 8
        highest, shift = entropy_encoder.Bits(), last + n_bits - width
        for raw in self.raw:
            highest.put(raw >> shift & 2**width - 1, width)
        parts = [highest.bytes()]
        while shift > last:
            shift -= 8
            parts.append(bytes(raw >> shift & 255 for raw in self.raw))
        if not zero_bits and self.format.low_bits:
            size = self.format.low_bits // 8
            parts += [(r % 256**size).to_bytes(size, "little") for r in self.raw]
        return b"".join(parts)


def bin_symbols(groups: list[Group], first_bin: int) -> tuple[list[int], list[int]]:
    """Section 4: the symbols, and the bins that are escaped. Groups get their bin."""
    symbols, escaped, before = [], [], first_bin
    for group in groups:
        group.own_bin = before
        if group.is_zero:
            symbols.append(30)
            continue
        chosen = group.scale_bin()
        chosen = before if chosen is None else chosen
        difference = chosen - before
        symbol = 2 * difference if difference >= 0 else -2 * difference - 1
        if symbol > 29:
            symbol = 31
            escaped.append(chosen)
        symbols.append(symbol)
        group.own_bin = before = chosen
    return symbols, escaped


class Segment:
    """Groups whose bins are coded by themselves: all of a chunk, or those of a segment."""

    def __init__(self, groups: list[Group]):
        self.groups = groups
        chosen = (g.scale_bin() for g in groups)
        self.first_bin = next((c for c in chosen if c is not None), 0)
        self.bins, self.bin_escapes = bin_symbols(groups, self.first_bin)
        self.busy = [g for g in groups if not g.is_zero]
        for group in self.busy:
            group.choose_symbols(group.own_bin)
        self.escapes = [value for group in self.busy for value in group.escapes]
        self.above: list[int] = []

    def raw(self, base: int, has_signs: bool) -> bytes:
        pairs = zip(self.groups, self.above, strict=True)
        return b"".join(
            group.packed_raw(base + above, has_signs) for group, above in pairs if not group.is_zero
        )

    def tables(self, n_tables: int) -> list[bytes]:
        tables = [bytearray() for _ in range(n_tables)]
        for group in self.busy:
            tables[group.own_bin % n_tables] += bytes(group.symbols)
        return list(map(bytes, tables))

    def runs(self, has_zero_bits: bool) -> list[rans_encoder.Run]:
        n_groups = len(self.groups)
        places = [2 + group.own_bin % 4 for group in self.busy]
        zero_bits = [(bytes(self.above), [1] * n_groups)] if has_zero_bits else []
        symbols = b"".join(rans_sections.in_symbol_order(group.symbols) for group in self.busy)
        return [(bytes(self.bins), [0] * n_groups), *zero_bits, (symbols, places)]

    def escape_counts(self) -> bytes:
        return number(len(self.bin_escapes)) + number(len(self.escapes))

    def escape_sections(self, dtype: np.dtype) -> bytes:
        escapes = np.array(self.escapes, dtype).tobytes()
        return np.array(self.bin_escapes, "<u2").tobytes() + escapes


def cut(groups: list[Group], n_segments: int) -> list[Segment]:
    size = -(-len(groups) // n_segments)
    return [Segment(groups[i : i + size]) for i in range(0, len(groups), size)]


def encode(shown: np.ndarray, format: Format, specials: bool, mask: bytes, mask_header) -> bytes:
    """The payload. `mask`: its sections; `mask_header`: (mask_bytes, n_masked, signs) or None."""
    values, is_rans = shown.tolist(), format.top_bits == 1
    parts = [values[i : i + GROUP] for i in range(0, len(values), GROUP)]
    groups = [Group(part, format, specials) for part in parts]
    may_have_segments = is_rans and mask_header is None
    segments = cut(groups, rans_encoder.n_segments(len(groups)) if may_have_segments else 1)
    busy = [g for g in groups if not g.is_zero]
    base = min(g.zero_bits for g in busy)
    above = [0 if g.is_zero else min(g.zero_bits - base, 31) for g in groups]
    gain = sum(a * len(g.values) for a, g in zip(above, groups, strict=True))
    has_zero_bits = gain > len(groups) + 64
    rest = iter(above if has_zero_bits else [0] * len(groups))
    for segment in segments:
        segment.above = [next(rest) for _ in segment.groups]
    has_signs = any(v >> format.exponent_bits + format.mantissa_bits for v in values)
    has_escapes = any(segment.bin_escapes or segment.escapes for segment in segments)
    has_zero_groups = len(busy) < len(groups) and not is_rans
    has_segments, has_four_tables = len(segments) > 1, len(values) >= 4096 and not is_rans
    flags = (mask_header is not None) | (base > 0) << 2 | has_zero_bits << 3
    flags |= bool(mask_header and mask_header[2]) << 1
    flags |= (has_zero_groups or has_segments) << 4 | has_four_tables << 5
    flags |= (not has_signs) << 6 | has_escapes << 7
    header, base_byte = bytes([2, flags]), bytes([base]) if base else b""
    raw = [segment.raw(base, has_signs) for segment in segments]
    first = segments[0]
    if has_segments:
        return header + base_byte + in_segments(segments, raw, has_zero_bits, has_escapes, shown)
    header += number(first.first_bin)
    if mask_header:
        header += number(mask_header[0]) + number(mask_header[1])
    tables = first.tables(4 if has_four_tables else 1)
    header += base_byte
    header += number(sum(map(len, tables))) if has_zero_groups else b""
    header += b"".join(number(len(t)) for t in tables[:3]) if has_four_tables else b""
    header += first.escape_counts() if has_escapes else b""
    mask += first.escape_sections(shown.dtype)
    if not is_rans:
        zero_bits = bytes(first.above) if has_zero_bits else b""
        streams = [bytes(first.bins), zero_bits, *tables]
        return header + number(len(raw[0])) + mask + raw[0] + entropy_encoder.encode(streams)
    in_section, tail = split_raw(raw[0], rans_encoder.lane_sets(len(values)))
    coded = rans_encoder.encode(first.runs(has_zero_bits), len(values), tail, "lossless")
    return header + number(len(coded)) + number(len(in_section)) + mask + coded + in_section


def split_raw(raw: bytes, n_sets: int) -> tuple[bytes, bytes]:
    """What is in the section, and what the lanes carry."""
    at = max(0, len(raw) - 60 * n_sets)
    return raw[:at], raw[at:]


def in_segments(segments, raw, has_zero_bits: bool, has_escapes: bool, shown) -> bytes:
    """Lossless, sections 3.1 and 3.2: all from n_segments on."""
    n_values = GROUP * len(segments[0].groups)
    split = [split_raw(part, rans_encoder.lane_sets(n_values)) for part in raw]
    pairs = zip(segments, split, strict=True)
    runs = [(segment.runs(has_zero_bits), tail) for segment, (_, tail) in pairs]
    tables, lanes = rans_encoder.encode_segments(runs, n_values, "lossless")
    header = bytes([len(segments)]) + number(len(tables))
    sections = tables
    for segment, (in_section, _), coded in zip(segments, split, lanes, strict=True):
        header += number(segment.first_bin)
        header += segment.escape_counts() if has_escapes else b""
        header += number(len(coded)) + number(len(in_section))
        sections += segment.escape_sections(shown.dtype) + coded + in_section
    return header + sections
