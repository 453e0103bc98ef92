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
        first = self.format.raw_bits - 1 if has_signs else self.format.raw_bits - 2
        last = zero_bits or self.format.low_bits
        raw = np.array(self.raw, np.uint64)
        planes = [
            np.packbits((raw >> np.uint64(bit) & np.uint64(1)).astype(np.uint8), bitorder="little")
            for bit in range(first, last - 1, -1)
        ]
        parts = [plane.tobytes() for plane in planes]
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


def encode(shown: np.ndarray, format: Format, specials: bool, mask: bytes, mask_header) -> bytes:
    """The payload. `mask`: its sections; `mask_header`: (mask_bytes, n_masked, signs) or None."""
    values, is_rans = shown.tolist(), format.top_bits == 1
    parts = [values[i : i + GROUP] for i in range(0, len(values), GROUP)]
    groups = [Group(part, format, specials) for part in parts]
    chosen = (g.scale_bin() for g in groups)
    first_bin = next((c for c in chosen if c is not None), 0)
    bins, bin_escapes = bin_symbols(groups, first_bin)
    busy = [g for g in groups if not g.is_zero]
    for group in busy:
        group.choose_symbols(group.own_bin)
    base = min(g.zero_bits for g in busy)
    above = [0 if g.is_zero else min(g.zero_bits - base, 31) for g in groups]
    gain = sum(a * len(g.values) for a, g in zip(above, groups, strict=True))
    trailing_zero_stream = gain > len(groups) + 64
    if not trailing_zero_stream:
        above = [0] * len(groups)
    has_signs = any(v >> format.exponent_bits + format.mantissa_bits for v in values)
    n_tables = 4 if len(values) >= 4096 or is_rans else 1
    tables = [bytearray() for _ in range(n_tables)]
    raw = bytearray()
    for group, zero_bits in zip(groups, above, strict=True):
        if not group.is_zero:
            tables[group.own_bin % n_tables] += bytes(group.symbols)
            raw += group.packed_raw(base + zero_bits, has_signs)
    escapes = [value for group in busy for value in group.escapes]
    has_escapes = bool(escapes or bin_escapes)
    has_zero_groups = len(busy) < len(groups) and not is_rans
    has_four_tables = n_tables == 4 and not is_rans
    flags = (mask_header is not None) | (base > 0) << 2 | trailing_zero_stream << 3
    flags |= bool(mask_header and mask_header[2]) << 1
    flags |= has_zero_groups << 4 | has_four_tables << 5 | (not has_signs) << 6 | has_escapes << 7
    header = bytes([2, flags]) + number(first_bin)
    if mask_header:
        header += number(mask_header[0]) + number(mask_header[1])
    header += bytes([base]) if base else b""
    header += number(sum(map(len, tables))) if has_zero_groups else b""
    header += b"".join(number(len(t)) for t in tables[:3]) if has_four_tables else b""
    header += number(len(bin_escapes)) + number(len(escapes)) if has_escapes else b""
    mask += np.array(bin_escapes, "<u2").tobytes() + np.array(escapes, shown.dtype).tobytes()
    if not is_rans:
        streams = [bytes(bins), bytes(above) if trailing_zero_stream else b"", *map(bytes, tables)]
        return header + number(len(raw)) + mask + bytes(raw) + entropy_encoder.encode(streams)
    runs = [(bytes(bins), [0] * len(groups))]
    if trailing_zero_stream:
        runs.append((bytes(above), [1] * len(groups)))
    places = [2 + group.own_bin % 4 for group in busy]
    runs.append((bytes(symbol for group in busy for symbol in group.symbols), places))
    in_section = max(0, len(raw) - 60 * rans_encoder.lane_sets(len(values)))
    tail = bytes(raw[in_section:])
    coded = rans_encoder.encode(runs, len(values), tail, "lossless")
    return header + number(len(coded)) + number(in_section) + mask + coded + raw[:in_section]
