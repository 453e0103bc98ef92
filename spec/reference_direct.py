"""Decodes the payloads of chunks within an error bound: codec/direct/spec.md, whose
sections the comments name."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import NamedTuple

import numpy as np
import zstandard
from reference_codec import (
    BIN_ESCAPE,
    GROUP,
    RANS,
    ZERO_GROUP,
    ZSTD,
    Body,
    decode_chunk,
    decompress_frame,
    in_value_order,
    packed_bytes,
    read_mask,
    unpack_bits,
    unpack_values,
)
from reference_fields import Refused, check, require
from reference_rans import FIRST_VALUE_PLACE, Lanes, Tables, join_raw, segment_values
from reference_records import DTYPES

WORDS = {"F64": "<u8", "F32": "<u4", "BF16": "<u2", "F16": "<u2"}
INLINE, PREAMBLE = 4, 5  # modes
MAX_INDEX = 2**30 - 1
MAX_BIN = 153
MAX_PACKED = 2**25
FIRST_LOW_BITS = 40  # the first bin whose values have low bits; with rans 36
FIRST_LOW_BITS_OF_LANES = 36
LANE_REACH = 15  # a symbol is this above what it means, or LANE_ESCAPE
LANE_ESCAPE = 31
SEGMENTS = 16  # among the flags


def decode_direct(
    dtype: int,
    shape: tuple[int, ...],
    first_elem: int,
    n_elems: int,
    preamble: bytes | None,
    payload: bytes,
    entropy: int = ZSTD,
    body_bytes: int | None = None,
) -> np.ndarray:
    """The bytes of the `n_elems` values from number `first_elem` of a tensor of the shape.
    `body_bytes`: what the CHNK frame says, if there is one. Raises Refused."""
    name = DTYPES[dtype][0]
    check(name in WORDS, "unsupported", f"an error bound for dtype {name}")
    if payload[:1] and payload[0] < INLINE:
        if preamble is not None:
            read_preamble(preamble, Geometry.of(shape))
        return decode_chunk(payload, dtype, n_elems, entropy, body_bytes)
    body = Body(payload)
    chunk = chunk_of(name, shape, first_elem, n_elems, preamble, body, entropy)
    require(body_bytes in (None, body.position), "the body has another length than its frame")
    if entropy == RANS:
        body.end("payload")
        decoded = chunk.decode_lanes()
    else:
        decoded = chunk.decode(body.rest())
    words = chunk.values(decoded, name)
    return words.view(np.uint8)


def chunk_of(
    name: str,
    shape: tuple[int, ...],
    first_elem: int,
    n_elems: int,
    preamble: bytes | None,
    body: Body,
    entropy: int,
) -> DirectChunk:
    """Modes 4 and 5. `name`: of the dtype."""
    geometry = Geometry.of(shape)
    parameters = None if preamble is None else read_preamble(preamble, geometry)
    mode = body.byte()
    if mode == INLINE:
        parameters = Parameters(body, geometry)
        whole = n_elems == math.prod(shape)
        require(whole or parameters.field is None, "an inline field in a part of a tensor")
    else:
        require(mode == PREAMBLE, f"mode {mode}")
        require(parameters is not None, "mode 5 in a record without a preamble")
    check(entropy in (ZSTD, RANS), "unsupported", "symbols of an unknown entropy stage")
    return DirectChunk(body, WORDS[name], geometry, parameters, first_elem, n_elems, entropy)


@dataclasses.dataclass
class Geometry:
    """Section 1."""

    rows: int
    columns: int
    kernel_size: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Geometry:
        kernel_size = math.prod(shape[2:]) if len(shape) >= 3 else 1
        kernel_size = kernel_size if 2 <= kernel_size <= 64 else 1
        rows = shape[0] if len(shape) >= 2 else 1
        return cls(rows, math.prod(shape) // (rows * kernel_size), kernel_size)


# Section 3


def read_preamble(preamble: bytes, geometry: Geometry) -> Parameters:
    body = Body(preamble)
    parameters = Parameters(body, geometry)
    body.end("preamble")
    return parameters


class Parameters:
    def __init__(self, body: Body, geometry: Geometry):
        flags = body.byte()
        require(flags < 8, f"flags {flags} of the parameters")
        has_row_steps, has_prediction, has_field = (flags >> bit & 1 for bit in range(3))
        require(not has_prediction or geometry.kernel_size >= 2, "prediction without kernels")
        self.step = self.row_steps = None
        if has_row_steps:
            halves = body.array(geometry.rows, 2)
            require((halves < 0x7F80).all(), "a row step that is no number")
            self.row_steps = (halves.astype("<u4") << 16).view("<f4").astype(np.float64)
        else:
            self.step = float(np.frombuffer(body.take(8), "<f8")[0])
            require(self.step > 0 and math.isfinite(self.step), f"a step of {self.step}")
        self.coefficients = self.field = None
        if has_prediction:
            count = geometry.kernel_size * (geometry.kernel_size - 1) // 2
            self.coefficients = read_packed(body, count)
        if has_field:
            self.field = [
                read_packed(body, count)
                for count in (geometry.kernel_size, geometry.rows, geometry.columns)
            ]

    def steps(self, rows: np.ndarray) -> np.ndarray | float:
        return self.step if self.row_steps is None else self.row_steps[rows]


def read_packed(body: Body, count: int) -> np.ndarray:
    minimum = unzigzag(np.array(body.varint()))
    width = body.byte()
    require(width <= 16, f"a packed vector of {width} bits an entry")
    require(count <= MAX_PACKED, f"a packed vector of {count} entries")
    packed = np.frombuffer(body.take(-(-count * width // 8)), np.uint8)
    bits = np.unpackbits(packed, bitorder="little")
    require(not bits[count * width :].any(), "unused bits of a packed vector are set")
    above = bits[: count * width].reshape(count, width) @ (1 << np.arange(width))
    entries = minimum + above
    fit = -(2**15) <= minimum and entries.max() < 2**15
    require(fit, "a packed vector with entries of more than 16 bits")
    return entries


def unzigzag(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers % 2, -(numbers + 1) // 2, numbers // 2)


# Sections 2, 5 and 6


class BinCoding(NamedTuple):
    """Section 6.1."""

    tuple_values: int  # m
    reach: int  # A
    low_bits: int  # k
    stream: int  # 1 and up: stream 0 has the bins


def coding_of(scale_bin: int) -> BinCoding:
    above = scale_bin - FIRST_LOW_BITS
    if above >= 0:
        return BinCoding(1, 62, 1 + above // 4, FIRST_LOW_BITS + above % 4)
    for last, values, reach in ((12, 4, 1), (20, 3, 2), (29, 2, 7)):
        if scale_bin <= last:
            return BinCoding(values, reach, 0, scale_bin)
    return BinCoding(1, 62, 0, scale_bin)


class DirectChunk:
    """Modes 4 and 5: the constructor reads the body, `decode` the symbols behind it, and
    `decode_lanes` those that are in it."""

    def __init__(
        self,
        body: Body,
        word: str,
        geometry: Geometry,
        parameters: Parameters,
        first_elem: int,
        n_values: int,
        entropy: int = ZSTD,
    ):
        self.geometry, self.parameters, self.n_values = geometry, parameters, n_values
        self.word, self.entropy = word, entropy
        self.elements = first_elem + np.arange(n_values)
        self.segments: list[DirectChunk] = []
        self.tables = self.mask_bytes = None
        self.flags = body.byte()
        require(self.flags < 32, f"flags {self.flags}")
        if self.flags & SEGMENTS:
            self.read_segments(body)
        else:
            self.read_whole(body)

    def read_whole(self, body: Body) -> None:
        """Section 2: a chunk without segments."""
        has_mask = self.flags & 1
        first_bin = 0 if self.parameters.field is not None else body.varint()
        if has_mask:
            self.mask_bytes = body.varint()
        n_masked = body.varint() if has_mask else 0
        require(n_masked < self.n_values, "everything is masked")
        self.read_counts(body, first_bin)
        self.check_flags([self])
        masked = np.zeros(self.n_values, bool)
        if self.mask_bytes is not None:
            require(
                self.mask_bytes <= -(-self.n_values // 8), "a mask that compression made longer"
            )
            masked = read_mask(body, self.mask_bytes, self.n_values)
        require(np.count_nonzero(masked) == n_masked, "the mask masks another number of values")
        self.read_sections(body)
        self.order_values(np.flatnonzero(~masked))

    def read_segments(self, body: Body) -> None:
        """Section 2: each is like a chunk, with the same flags."""
        require(self.entropy == RANS, "segments without the stage rans")
        are_alone = self.parameters.field is None and self.parameters.coefficients is None
        require(are_alone and not self.flags & 1, "segments of values that need each other")
        n_segments, table_bytes = body.byte(), body.varint()
        segments = []
        for n_values in segment_values(self.n_values, n_segments):
            segment = copy.copy(self)
            segment.n_values = n_values
            segment.read_counts(body, body.varint())
            segments.append(segment)
        self.check_flags(segments)
        self.segments = segments
        tables = Body(body.take(table_bytes))
        self.tables = Tables(tables, "direct")
        tables.end("tables of the segments")
        for segment in segments:
            segment.tables = self.tables
            segment.read_sections(body)
            segment.order_values(np.arange(segment.n_values))
        self.exact = np.concatenate([segment.exact for segment in segments])

    def read_counts(self, body: Body, first_bin: int) -> None:
        """Section 2: what each segment has of its own."""
        require(first_bin <= MAX_BIN, f"a first bin of {first_bin}")
        self.first_bin = first_bin
        _, has_escapes, has_bin_escapes, has_raw = (self.flags >> bit & 1 for bit in range(4))
        require(
            not (has_bin_escapes and self.parameters.field is not None),
            "bin escapes and a scale field",
        )
        self.n_escapes = self.n_exact = self.escape_bytes = 0
        if has_escapes:
            self.n_escapes, self.n_exact, self.escape_bytes = (body.varint() for _ in range(3))
        self.n_bin_escapes = body.varint() if has_bin_escapes else 0
        self.coded_bytes = body.varint() if self.entropy == RANS else 0
        self.raw_bytes = body.varint() if has_raw else 0

    def check_flags(self, segments: list[DirectChunk]) -> None:
        for bit, name in ((1, "n_escapes"), (2, "n_bin_escapes"), (3, "raw_bytes")):
            has_some = any(getattr(segment, name) for segment in segments)
            require(
                has_some == bool(self.flags >> bit & 1), "a flag for something that is not there"
            )

    def read_sections(self, body: Body) -> None:
        self.bin_escapes = body.array(self.n_bin_escapes, 2)
        self.escape_is_exact = unpack_bits(body.take(-(-self.n_escapes // 8)), self.n_escapes)
        self.escaped_indices = Body(body.take(self.escape_bytes))
        self.exact = np.frombuffer(
            body.take(np.dtype(self.word).itemsize * self.n_exact), self.word
        )
        self.coded = body.take(self.coded_bytes)
        self.raw = np.frombuffer(body.take(self.raw_bytes), np.uint8)

    def order_values(self, shown: np.ndarray) -> None:
        """Section 5.3. `order` has the places in the chunk of the values that are not masked."""
        self.order, self.predicted_bins = shown, None
        if self.parameters.field is not None:
            bands, rows, columns = self.parameters.field
            per_row = self.geometry.columns * self.geometry.kernel_size
            bins = bands[self.elements % self.geometry.kernel_size]
            bins = bins + rows[self.elements // per_row]
            bins += columns[self.elements // self.geometry.kernel_size % self.geometry.columns]
            bins = np.clip(bins, 1, MAX_BIN)[shown]
            by_bin = np.argsort(bins, kind="stable")
            self.order, self.predicted_bins = shown[by_bin], bins[by_bin]
        self.n_groups = -(-len(shown) // GROUP)
        self.group_values = np.full(self.n_groups, GROUP)
        self.group_values[-1] = len(shown) - GROUP * (self.n_groups - 1)

    def decode(self, frame: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The indices of all values, and which values are exact; both in storage order."""
        n_bins = 0 if self.predicted_bins is not None else self.n_groups
        symbols = np.frombuffer(read_symbols(frame, n_bins + len(self.order)), np.uint8)
        require(len(symbols) >= n_bins, "fewer symbols than groups")
        if self.predicted_bins is None:
            bins = self.read_bins(symbols[:n_bins])
        else:
            bins = self.bins_of_the_field()
        return self.indices(*self.read_groups(bins, symbols[n_bins:]))

    def decode_lanes(self) -> tuple[np.ndarray, np.ndarray]:
        """Section 6.2, the runs of the entropy stage rans; as decode()."""
        if self.segments:
            parts = zip(*(segment.decode_lanes() for segment in self.segments), strict=True)
            indices, is_exact = (np.concatenate(part) for part in parts)
            return indices, is_exact
        lanes = Lanes(Body(self.coded), "direct", self.tables)
        if self.predicted_bins is None:
            symbols = lanes.decode(self.n_groups, [0] * self.n_groups)
            bins = self.read_bins(symbols)
        else:
            bins = self.bins_of_the_field()
        above = bins - FIRST_LOW_BITS_OF_LANES
        low_bits = np.where(above >= 0, 1 + above // 4, 0)
        table = np.where(above >= 0, FIRST_LOW_BITS_OF_LANES - 1 + above % 4, bins - 1)
        busy = bins > 0
        places = FIRST_VALUE_PLACE + table[busy]
        symbols = lanes.decode(int(self.group_values[busy].sum()), places.tolist())
        symbols = in_value_order(symbols)
        n_raw = int(packed_bytes(low_bits, self.group_values).sum())
        joined = join_raw(self.raw.tobytes(), lanes.payload(), n_raw)
        self.raw = np.frombuffer(joined, np.uint8)
        high = np.zeros((self.n_groups, GROUP), np.int64)
        used = np.arange(GROUP) < self.group_values[:, None]
        high[used & busy[:, None]] = symbols.astype(np.int64) - LANE_REACH
        return self.indices(*self.join(high, high == LANE_ESCAPE - LANE_REACH, low_bits))

    def read_bins(self, symbols: np.ndarray) -> np.ndarray:
        escapes = self.bin_escapes
        return read_scale_bins(symbols.tolist(), self.first_bin, escapes, MAX_BIN)

    def bins_of_the_field(self) -> np.ndarray:
        middle = GROUP * np.arange(self.n_groups) + self.group_values // 2
        return self.predicted_bins[middle]

    def indices(self, coded: np.ndarray, is_exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From groups to storage order, and from residuals to indices."""
        indices = np.zeros(self.n_values, np.int64)
        exact = np.zeros(self.n_values, bool)
        indices[self.order], exact[self.order] = coded, is_exact
        if self.parameters.coefficients is not None:
            has_residual = np.zeros(self.n_values, bool)
            has_residual[self.order] = ~is_exact
            self.add_predictions(indices, has_residual)
        require((np.abs(indices) <= MAX_INDEX).all(), "an index above 2^30 - 1")
        return indices, exact

    def read_groups(self, bins: np.ndarray, symbols: np.ndarray):
        """Section 6.1: indices or residuals of the values in order, and which are exact."""
        codings = [coding_of(scale_bin) for scale_bin in range(MAX_BIN + 1)]
        tuple_values, _, low_bits, stream = np.array(codings)[bins].T
        is_zero = bins == 0
        n_symbols = np.where(is_zero, 0, -(-self.group_values // tuple_values))
        require(n_symbols.sum() == len(symbols), "not as many symbols as the bins need")
        by_stream = np.argsort(np.where(is_zero, 0, stream), kind="stable")
        first_symbol = np.zeros(self.n_groups, np.int64)
        first_symbol[by_stream] = np.cumsum(n_symbols[by_stream]) - n_symbols[by_stream]
        high = np.zeros((self.n_groups, GROUP), np.int64)
        escaped = np.zeros((self.n_groups, GROUP), bool)
        for scale_bin, count in set(zip(bins.tolist(), self.group_values.tolist())):
            if scale_bin == 0:
                continue
            coding = codings[scale_bin]
            alike = np.flatnonzero((bins == scale_bin) & (self.group_values == count))
            places = first_symbol[alike][:, None] + np.arange(n_symbols[alike[0]])
            parts = split_tuples(symbols[places], coding, count)
            high[alike, :count], escaped[alike, :count] = parts
        return self.join(high, escaped, np.where(is_zero, 0, low_bits))

    def join(self, high: np.ndarray, escaped: np.ndarray, low_bits: np.ndarray):
        """Section 6.3: with the low bits; a row for each group."""
        raw_bytes = packed_bytes(low_bits, self.group_values)
        require(raw_bytes.sum() == len(self.raw), "raw bits of the wrong length")
        first_raw = np.cumsum(raw_bytes) - raw_bytes
        indices = high << low_bits[:, None]
        for bits, count in set(zip(low_bits.tolist(), self.group_values.tolist())):
            alike = np.flatnonzero((low_bits == bits) & (self.group_values == count))
            places = first_raw[alike][:, None] + np.arange(raw_bytes[alike[0]])
            low = unpack_values(self.raw[places], bits, count)
            indices[alike, :count] += low.astype(np.int64)
        used = np.arange(GROUP) < self.group_values[:, None]
        return self.put_escapes(indices[used], escaped[used])

    def put_escapes(self, indices: np.ndarray, escaped: np.ndarray):
        """Section 6.4."""
        require(np.count_nonzero(escaped) == self.n_escapes, "escapes of the wrong number")
        require(np.count_nonzero(self.escape_is_exact) == self.n_exact, "another number of exact")
        numbers = [self.escaped_indices.varint() for _ in range(self.n_escapes - self.n_exact)]
        self.escaped_indices.end("escaped indices")
        escapes = np.zeros(self.n_escapes, np.int64)
        escapes[~self.escape_is_exact] = unzigzag(np.array(numbers, np.int64))
        indices[escaped] = escapes
        is_exact = np.zeros(len(indices), bool)
        is_exact[escaped] = self.escape_is_exact
        return indices, is_exact

    def add_predictions(self, indices: np.ndarray, has_residual: np.ndarray) -> None:
        """Section 5.1."""
        kernel_size = self.geometry.kernel_size
        start = int(-self.elements[0] % kernel_size)
        n_kernels = max(0, self.n_values - start) // kernel_size
        kernels = indices[start : start + n_kernels * kernel_size].reshape(-1, kernel_size)
        has_residual = has_residual[start : start + n_kernels * kernel_size].reshape(
            -1, kernel_size
        )
        for position in range(1, kernel_size):
            row = self.parameters.coefficients[position * (position - 1) // 2 :][:position]
            known = np.clip(
                kernels[:, :position], -MAX_INDEX, MAX_INDEX
            )  # beyond it is refused later
            predicted = np.clip(128 + known @ row >> 8, -MAX_INDEX, MAX_INDEX)
            kernels[:, position] += np.where(has_residual[:, position], predicted, 0)

    def values(self, decoded: tuple[np.ndarray, np.ndarray], name: str) -> np.ndarray:
        """Section 4: all bits of the values."""
        indices, is_exact = decoded
        rows = self.elements // (self.geometry.columns * self.geometry.kernel_size)
        with np.errstate(over="ignore", under="ignore"):
            products = indices.astype(np.float64) * self.parameters.steps(rows)
            singles = products.astype("<f4")
            if name == "F64":
                words = products.view("<u8")
            elif name == "F32":
                words = singles.view("<u4")
            elif name == "F16":
                words = singles.astype("<f2").view("<u2")
            else:
                bits = singles.view("<u4").astype(np.uint64)
                words = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype("<u2")
        words[is_exact] = self.exact
        return words


def read_scale_bins(symbols: list[int], current: int, bin_escapes, largest: int):
    """Section 5.4: the bin of every group, 0 for groups of zeros."""
    escapes, bins = iter(bin_escapes.tolist()), []
    for symbol in symbols:
        require(symbol <= BIN_ESCAPE, f"bin symbol {symbol}")
        if symbol == ZERO_GROUP:
            bins.append(0)
            continue
        if symbol == BIN_ESCAPE:
            current = next(escapes, 0)
        else:
            current += -(symbol + 1) // 2 if symbol % 2 else symbol // 2
        require(1 <= current <= largest, "a bin out of range, or no bin escape left")
        bins.append(current)
    require(next(escapes, None) is None, "bin escapes left over")
    return np.array(bins)


def read_symbols(frame: bytes, at_most: int) -> bytes:
    try:
        content_bytes = zstandard.get_frame_parameters(frame).content_size
    except zstandard.ZstdError as error:
        raise Refused("corrupt", f"Zstd: {error}") from None
    require(content_bytes <= at_most, "more symbols than groups and values")
    return decompress_frame(frame, content_bytes)


def split_tuples(symbols: np.ndarray, coding: BinCoding, count: int):
    """A row of symbols for each group to a row of values; and which of these escape."""
    base, values = 2 * coding.reach + 1, coding.tuple_values
    require(symbols.max() <= base**values, f"a symbol above {base**values}")
    number = symbols.astype(np.int64)[:, :, None] - 1
    digits = number // base ** np.arange(values) % base - coding.reach
    escaped = np.repeat(symbols == 0, values, axis=1)
    return digits.reshape(len(symbols), -1)[:, :count], escaped[:, :count]
