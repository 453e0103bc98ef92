"""Decodes the payloads of chunks of codec delta: codec/delta/spec.md, whose sections the comments
name. Integers of Python stand for units, so this is slow."""

from __future__ import annotations

import dataclasses

import numpy as np
from reference_codec import Body
from reference_fields import require
from reference_rans import FIRST_VALUE_PLACE, GROUP, Lanes, join_raw
from reference_records import DTYPES

BLOCK = 64
STORED, UNCHANGED, CLASSES = range(3)
NIBBLES, PAUSES = 4, 8
ESCAPE = 31
# Section 1: bits, whether the order is that of floats, and g.
FORMATS = {
    "F64": (64, True, 52),
    "F32": (32, True, 23),
    "C64": (32, True, 23),
    "BF16": (16, True, 7),
    "F16": (16, True, 10),
    "F8_E4M3": (8, True, 3),
    "F8_E4M3FNUZ": (8, True, 3),
    "F8_E5M2": (8, True, 2),
    "F8_E5M2FNUZ": (8, True, 2),
}
WITH_NIBBLES = ("F4", "U8", "I8", "I32", "U32")


@dataclasses.dataclass
class Units:
    """Section 1."""

    bits: int
    is_float: bool
    shift: int

    @property
    def sign(self) -> int:
        """The highest bit of a unit."""
        return 1 << self.bits - 1

    @property
    def bytes(self) -> int:
        """Bytes of a unit in the section escapes."""
        return max(self.bits // 8, 1)

    def order(self, unit: int) -> int:
        """The function o, which is its own inverse."""
        return unit ^ self.sign - 1 if self.is_float and unit & self.sign else unit

    def add(self, base: int, difference: int) -> int:
        """The new unit."""
        return self.order((self.order(base) + difference) % (1 << self.bits))

    def key(self, base: np.ndarray) -> np.ndarray:
        """Decides the class."""
        mask = self.sign - 1 if self.is_float else 2 * self.sign - 1
        return (base & np.uint64(mask)) >> np.uint64(self.shift)

    def signed(self, magnitude: int, is_negative: int) -> int:
        """A difference."""
        require(1 <= magnitude <= self.sign, "a difference larger than a unit")
        return -magnitude if is_negative else magnitude


class Bits:
    """A string of bits, least significant first."""

    def __init__(self, data: bytes):
        self.bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        self.at = 0

    def take(self, count: int) -> int:
        require(self.at + count <= len(self.bits), "a string of bits that ends too early")
        self.at += count
        return sum(int(bit) << i for i, bit in enumerate(self.bits[self.at - count : self.at]))

    def ones(self, most: int) -> int:
        """Ones, and the zero behind them unless there are as many as `most`."""
        count = 0
        while count < most and self.take(1):
            count += 1
        return count

    def gap(self, width: int) -> int:
        """Section 4."""
        ones = self.ones(16)
        return self.take(28) if ones == 16 else (ones << width) + self.take(width)

    def number(self, unit_bits: int) -> int:
        """Section 4: v."""
        count = self.ones(64) if unit_bits <= 16 else self.take(6)
        return (1 << count) + self.take(count) - 1

    def end(self, what: str) -> None:
        """Less than a byte may be left."""
        rest = self.bits[self.at :]
        require(len(rest) < 8 and not rest.any(), f"bits behind the end of {what}")


def to_units(data: bytes, bits: int) -> np.ndarray:
    """The units of values as 64-bit integers."""
    if bits == 4:
        read = np.frombuffer(data, np.uint8)
        return np.stack([read & 15, read >> 4], axis=1).reshape(-1).astype(np.uint64)
    return np.frombuffer(data, f"<u{bits // 8}").astype(np.uint64)


def to_bytes(units: np.ndarray, bits: int) -> bytes:
    """The inverse."""
    if bits == 4:
        halves = units.astype(np.uint8).reshape(-1, 2)
        return (halves[:, 0] | halves[:, 1] << 4).astype(np.uint8).tobytes()
    return units.astype(f"<u{bits // 8}").tobytes()


def decode_chunk(payload: bytes, dtype: int, n_elems: int, base: bytes) -> bytes:
    """The values of a chunk, against those of the base."""
    name, element_bits, _, _ = DTYPES[dtype]
    n_bytes = -(-n_elems * element_bits // 8)
    require(len(base) == n_bytes, "a base of another length")
    body = Body(payload)
    head = body.byte()
    mode = head & 3
    require(mode <= CLASSES and (mode == CLASSES or head == mode), f"head {head}")
    if mode != CLASSES:
        values = body.take(n_bytes) if mode == STORED else base
    else:
        values = ClassChunk(body, head, name, element_bits, base).decode()
    body.end("payload")
    return bytes(values)


class ClassChunk:
    """Mode 2."""

    def __init__(self, body: Body, head: int, name: str, element_bits: int, base: bytes):
        whole = element_bits if element_bits in (8, 16, 32, 64) else 8
        self.units = Units(*FORMATS.get(name, (whole, False, whole - 8)))
        if head & NIBBLES:
            require(name in WITH_NIBBLES, f"nibbles of dtype {name}")
            self.units = Units(4, name == "F4", 0)
        self.body = body
        self.base = to_units(base, self.units.bits)
        self.values = [int(unit) for unit in self.base]
        self.is_active = np.ones(len(self.base), bool)
        if head & PAUSES:
            self.read_pauses()
        self.read_classes((head >> 4) + 1)

    def read_pauses(self) -> None:
        """Section 3."""
        n_blocks = -(-len(self.base) // BLOCK)
        first, n_spans = 0, 0
        while first < n_blocks:
            length = self.body.varint()
            require(length > 0 or n_spans == 0, "a span without blocks")
            require(length <= n_blocks - first, "a span behind the end")
            if n_spans % 2:
                self.is_active[first * BLOCK : (first + length) * BLOCK] = False
            first, n_spans = first + length, n_spans + 1
        require(n_spans > 1, "no pause")

    def read_classes(self, n_classes: int) -> None:
        """Section 2, from the thresholds on."""
        units, body = self.units, self.body
        thresholds = [0]
        for _ in range(n_classes - 1):
            thresholds.append(thresholds[-1] + body.varint())
            require(thresholds[-1] > thresholds[-2], "thresholds that do not grow")
            most = (units.sign if units.is_float else 2 * units.sign) >> units.shift
            require(thresholds[-1] < most, "a threshold above all keys")
        self.codes = list(body.take(n_classes))
        for code in self.codes:
            is_valid = (code - 1) % 32 <= 27 if 0 < code <= 64 else code == 0 or code >= 128
            require(is_valid and (code < 128 or code - 128 < units.bits), f"class {code}")
        of_unit = np.searchsorted(thresholds, units.key(self.base), side="right") - 1
        self.class_of = np.where(self.is_active, of_unit, -1)
        self.is_sparse = [0 < code < 128 for code in self.codes]
        self.is_dense = [code >= 128 for code in self.codes]
        sparse_bytes = body.varint() if any(self.is_sparse) else 0
        lengths = [body.varint() for _ in range(3)] if any(self.is_dense) else [0, 0, 0]
        self.sparse = body.take(sparse_bytes)
        self.coded = body.take(lengths[1])
        self.escapes = body.take(lengths[0] * units.bytes)
        self.raw = body.take(lengths[2])

    def decode(self) -> bytes:
        """The values."""
        if any(self.is_sparse):
            self.apply_sparse()
        if any(self.is_dense):
            self.apply_dense()
        return to_bytes(np.array(self.values, np.uint64), self.units.bits)

    def apply_sparse(self) -> None:
        """Section 4."""
        bits = Bits(self.sparse)
        numbers = [c for c, is_sparse in enumerate(self.is_sparse) if is_sparse]
        left = {c: bits.gap((self.codes[c] - 1) % 32) for c in numbers}
        for first in range(0, len(self.base), BLOCK):
            of_block = self.class_of[first : first + BLOCK]
            for c in numbers:
                for at in np.flatnonzero(of_block == c):
                    if left[c] > 0:
                        left[c] -= 1
                    else:
                        left[c] = self.change(first + int(at), self.codes[c], bits)
        require(not any(left.values()), "a gap that does not end with its class")
        bits.end("the changes")

    def change(self, at: int, code: int, bits: Bits) -> int:
        """Changes a unit, and gives the gap behind it."""
        width, is_wide = (code - 1) % 32, code > 32
        is_negative, gap, magnitude = bits.take(1), bits.gap(width), 1
        if is_wide and gap == 0:
            magnitude = bits.number(self.units.bits) + 2
            gap = bits.gap(width)
            require(gap > 0, "two numbers for a change")
        difference = self.units.signed(magnitude, is_negative)
        self.values[at] = self.units.add(self.values[at], difference)
        return gap - 1 if is_wide else gap

    def apply_dense(self) -> None:
        """Section 5."""
        numbers = [c for c, is_dense in enumerate(self.is_dense) if is_dense]
        places = np.concatenate([np.flatnonzero(self.class_of == c) for c in numbers])
        classes = self.class_of[places]
        lanes = Lanes(Body(self.coded), "delta")
        symbols = lanes.decode(len(places), [FIRST_VALUE_PLACE + c for c in classes[::GROUP]])
        n_bits = [0] * len(symbols)
        for i, symbol in enumerate(map(int, symbols)):
            if 0 < symbol < ESCAPE:
                n_bits[i] = 1 + self.low_bits(symbol, self.codes[classes[i]])
        raw = join_raw(self.raw, lanes.payload(), -(-sum(n_bits) // 8))
        self.add_differences(places, symbols, classes, Bits(raw))

    @staticmethod
    def low_bits(symbol: int, code: int) -> int:
        """r + z."""
        return max((symbol - 1) // 2 - 1, 0) + code - 128

    def add_differences(self, places, symbols, classes, raw: Bits) -> None:
        """The differences of dense classes."""
        escapes = Body(self.escapes)
        for at, symbol, c in zip(map(int, places), map(int, symbols), classes, strict=True):
            if symbol == ESCAPE:
                difference = int.from_bytes(escapes.take(self.units.bytes), "little")
                require(difference < 2 * self.units.sign, "an escape larger than a unit")
            elif symbol == 0:
                continue
            else:
                b, is_negative = symbol - 1, raw.take(1)
                n = self.low_bits(symbol, self.codes[c])
                top = b if b < 2 else 2 + b % 2
                difference = self.units.signed((top << n) + raw.take(n) + 1, is_negative)
            self.values[at] = self.units.add(self.values[at], difference)
        escapes.end("section of escapes")
        raw.end("the raw bits")
