"""Decodes the payloads of the spectral codec: spectral/spec.md, whose sections the
comments name."""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math

import numpy as np
from reference_codec import (
    GROUP,
    RANS,
    ZSTD,
    Body,
    decode_chunk,
)
from reference_direct import (
    FIRST_LOW_BITS_OF_LANES,
    read_scale_bins,
    read_symbols,
    unzigzag,
)
from reference_fields import check, require
from reference_rans import (
    FIRST_VALUE_PLACE,
    LANES,
    BitString,
    Lanes,
    join_raw,
    walk_trellis,
)
from reference_records import DTYPES
from reference_transforms import (
    SINGLE_BANDS,
    bands_of_places,
    inverse_transform,
    ranges_of_bands,
)

WORDS = {"F64": "<u8", "F32": "<u4", "BF16": "<u2", "F16": "<u2"}
INLINE, PREAMBLE = 4, 5  # modes
STORAGE, BANDS, BINS, ROW_BLOCKS = range(4)  # orders
PREDICTS_BINS = BINS, ROW_BLOCKS
MAX_BIN = 125
MAX_BANDS = 4096
MAX_SIDE = 64
ZERO = 16  # the symbol of indices without high bits; symbol 0 is an escape
TABLES = 39


def decode_spectral(
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
    check(name in WORDS, "unsupported", f"coefficients of dtype {name}")
    parameters = None if preamble is None else read_preamble(preamble, shape)
    if payload[:1] and payload[0] < INLINE:
        return decode_chunk(payload, dtype, n_elems, entropy, body_bytes)
    body = Body(payload)
    mode = body.byte()
    if mode == INLINE:
        parameters = Parameters(body, shape)
    else:
        require(mode == PREAMBLE, f"mode {mode}")
        require(parameters is not None, "mode 5 in a record without a preamble")
    check(entropy in (ZSTD, RANS), "unsupported", "symbols of an unknown entropy stage")
    chunk = SpectralChunk(body, WORDS[name], parameters, first_elem, n_elems, entropy)
    require(body_bytes in (None, body.position), "the body has another length than its frame")
    if entropy == RANS:
        body.end("payload")
        levels = chunk.decode_lanes()
    else:
        levels = chunk.decode(body.rest())
    return chunk.values(levels, name).view(np.uint8)


def lanes_of(n_values: int) -> int:
    """Section 4, without `rans`."""
    return LANES * (1 if n_values < 65536 else 2 if n_values < 131072 else 4)


class Geometry:
    """Section 1. `sides`: of all axes."""

    def __init__(self, shape: tuple[int, ...], last_sides):
        require(len(last_sides) <= len(shape), "sides of more axes than the tensor has")
        require(all(1 <= side <= MAX_SIDE for side in last_sides), "a side that is not 1 to 64")
        self.shape = shape
        self.sides = (1,) * (len(shape) - len(last_sides)) + tuple(last_sides)
        self.n_bands = math.prod(self.sides)
        require(self.n_bands <= MAX_BANDS, f"blocks of {self.n_bands} values")
        blocks = [-(-length // side) for length, side in zip(shape, self.sides)]
        self.n_rows = blocks[0] if len(shape) >= 2 else 1
        self.n_columns = blocks[min(1, len(shape) - 1)] if shape else 1
        self.row_values = math.prod(shape[1:])  # of one index of axis 0

    def of_elements(self, elements: np.ndarray):
        """Bands, rows and columns."""
        place, unit = np.zeros_like(elements), 1
        index, rest = [], elements
        for length, side in zip(reversed(self.shape), reversed(self.sides)):
            rest, of_axis = np.divmod(rest, length)
            place += of_axis % side * unit
            unit *= side
            index.insert(0, of_axis // side)
        none = np.zeros_like(elements)
        row = index[0] if len(index) >= 2 else none
        column = index[min(1, len(index) - 1)] if index else none
        return bands_of_places(self.sides)[place], row, column

    def region(self, first_elem: int, n_elems: int) -> tuple[int, ...]:
        """Section 4: the shape of a chunk whose blocks are transformed."""
        if n_elems == math.prod(self.shape):
            return self.shape
        require(len(self.shape) >= 2, "a part of a tensor without rows")
        whole = first_elem % self.row_values == 0 and n_elems % self.row_values == 0
        require(whole, "a chunk that cuts an index of axis 0")
        first, count = first_elem // self.row_values, n_elems // self.row_values
        at_end = first + count == self.shape[0]
        whole = first % self.sides[0] == 0 and (at_end or count % self.sides[0] == 0)
        require(whole, "a chunk that cuts a block")
        return (count, *self.shape[1:])


# Section 3


def read_preamble(preamble: bytes, shape: tuple[int, ...]) -> Parameters:
    body = Body(preamble)
    parameters = Parameters(body, shape)
    body.end("preamble")
    return parameters


class Parameters:
    def __init__(self, body: Body, shape: tuple[int, ...]):
        flags = body.byte()
        self.n_states = (1, 4, 8, 64)[flags & 3]
        self.is_transformed = bool(flags >> 2 & 1)
        self.order = flags >> 3 & 3
        has_scales, has_steps = flags >> 5 & 1, flags >> 6 & 1
        require(has_scales == (self.order in PREDICTS_BINS), "a scale field without its order")
        self.step = float(np.frombuffer(body.take(8), "<f8")[0])
        require(self.step > 0 and math.isfinite(self.step), f"a step of {self.step}")
        self.geometry = Geometry(shape, tuple(body.take(body.byte())))
        has_ranges = bool(flags >> 7)
        many = self.geometry.n_bands > SINGLE_BANDS
        require(many or not has_ranges, f"ranges of {self.geometry.n_bands} bands")
        self.scales = Quarters(body, self.geometry, has_ranges) if has_scales else None
        self.steps = Quarters(body, self.geometry, has_ranges) if has_steps else None


class Quarters:
    """A field."""

    def __init__(self, body: Body, geometry: Geometry, has_ranges: bool):
        parts = body.byte()
        require(1 <= parts <= 7, f"a field of parts {parts}")
        ranges = ranges_of_bands(geometry.n_bands)
        n_ranges = int(ranges[-1]) + 1
        counts = n_ranges if has_ranges else len(ranges), geometry.n_rows, geometry.n_columns
        self.vectors = [
            read_vector(body, count) if parts >> bit & 1 else None
            for bit, count in enumerate(counts)
        ]
        if has_ranges and self.vectors[0] is not None:
            self.vectors[0] = self.vectors[0][ranges]

    def at(self, places: tuple[np.ndarray, ...]) -> np.ndarray:
        parts = zip(self.vectors, places)
        return sum(vector[place] for vector, place in parts if vector is not None)


def read_vector(body: Body, count: int) -> np.ndarray:
    middle = int(unzigzag(np.array(body.varint())))
    require(-(2**15) <= middle < 2**15, "a vector with a middle of more than 16 bits")
    low_bits = body.byte()
    require(low_bits <= 15, f"a vector with {low_bits} low bits")
    n_bytes = body.varint()
    packed = Body(body.take(n_bytes))
    require(count <= 8 * n_bytes, "a vector with more entries than bits")
    bits, entries = BitString(packed), np.empty(count, np.int64)
    for i in range(count):
        high = 0
        while bits.take(1):
            high += 1
        z = (high << low_bits) + bits.take(low_bits)
        entries[i] = middle + (-(z + 1) // 2 if z % 2 else z // 2)
    bits.end("a vector")
    packed.end("vector")
    fit = entries.min() >= -(2**15) and entries.max() < 2**15
    require(fit, "a vector with entries of more than 16 bits")
    return entries


# Sections 2 and 5


@dataclasses.dataclass
class Groups:
    """The groups of a chunk; the bin of a group of zeros is 0."""

    bins: np.ndarray
    sizes: np.ndarray

    def __post_init__(self):
        above = self.bins - FIRST_LOW_BITS_OF_LANES
        self.low_bits = np.where(above >= 0, 1 + above // 4, 0)
        self.tables = np.where(above >= 0, FIRST_LOW_BITS_OF_LANES - 1 + above % 4, self.bins - 1)
        self.is_busy = self.bins > 0
        planes = -(-self.sizes // 8)
        self.parity_bytes = int(planes[self.low_bits > 0].sum())
        self.raw_bytes = int((np.maximum(self.low_bits - 1, 0) * planes).sum())
        self.n_symbols = int(self.sizes[self.is_busy].sum())


class SpectralChunk:
    """Modes 4 and 5: the constructor reads the body, `decode` the symbols behind it, and
    `decode_lanes` those that are in it."""

    def __init__(
        self,
        body: Body,
        word: str,
        parameters: Parameters,
        first_elem: int,
        n_values: int,
        entropy: int,
    ):
        self.parameters, self.first_elem, self.n_values = parameters, first_elem, n_values
        self.entropy, self.word = entropy, word
        self.read_header(body)
        self.bin_escapes = body.array(self.n_bin_escapes, 2)
        self.escaped_levels = Body(body.take(self.escape_bytes))
        gaps = Body(body.take(self.gap_bytes))
        self.exact = np.frombuffer(body.take(np.dtype(word).itemsize * self.n_exact), word)
        self.parity = body.take(self.parity_bytes)
        self.coded = body.take(self.coded_bytes)
        self.splits = Body(body.take(self.split_bytes))
        self.raw = body.take(self.raw_bytes)
        self.read_places(gaps)
        self.order_coefficients()

    def read_header(self, body: Body) -> None:
        """Section 2."""
        flags = body.byte()
        require(flags < 32, f"flags {flags}")
        has_exact, has_escapes, has_bin_escapes, has_raw, has_parity = (
            flags >> bit & 1 for bit in range(5)
        )
        has_bins = self.parameters.order not in PREDICTS_BINS
        require(has_bins or not has_bin_escapes, "bin escapes and a scale field")

        def numbers(count: int, is_there: bool, may_be_zero: bool = False) -> tuple[int, ...]:
            found = tuple(body.varint() if is_there else 0 for _ in range(count))
            announced = is_there and not may_be_zero
            require(not announced or all(found), "a flag for something that is not there")
            return found

        (self.first_bin,) = numbers(1, has_bins, True)
        require(self.first_bin <= MAX_BIN, f"a first bin of {self.first_bin}")
        (self.coded_bytes,) = numbers(1, self.entropy == RANS, True)
        (self.split_bytes,) = numbers(1, self.entropy == ZSTD, True)
        self.n_exact, self.gap_bytes = numbers(2, has_exact)
        self.n_escapes, self.escape_bytes = numbers(2, has_escapes)
        (self.n_bin_escapes,) = numbers(1, has_bin_escapes)
        (self.parity_bytes,) = numbers(1, has_parity)
        (self.raw_bytes,) = numbers(1, has_raw)

    def read_places(self, gaps: Body) -> None:
        """Section 6."""
        self.exact_places = []
        following = 0
        for _ in range(self.n_exact):
            place = following + gaps.varint()
            require(place < self.n_values, "an exact value behind the chunk")
            self.exact_places.append(place)
            following = place + 1
        gaps.end("gaps")

    def order_coefficients(self) -> None:
        """Section 5.1. `order` has the places in the chunk of the coefficients in order."""
        geometry, parameters = self.parameters.geometry, self.parameters
        places = geometry.of_elements(self.first_elem + np.arange(self.n_values))
        self.step_quarters = parameters.steps.at(places) if parameters.steps else 0
        self.order = np.arange(self.n_values)
        self.group_values = np.full(-(-self.n_values // GROUP), GROUP)
        self.group_values[-1:] = self.n_values - GROUP * (len(self.group_values) - 1)
        if parameters.order == BANDS:
            self.order = np.argsort(places[0], kind="stable")
        elif parameters.order == BINS:
            bins = np.clip(parameters.scales.at(places) - self.step_quarters, 1, MAX_BIN)
            self.order = np.argsort(bins, kind="stable")
            middle = GROUP * np.arange(len(self.group_values)) + self.group_values // 2
            self.predicted_bins = bins[self.order][middle]
        elif parameters.order == ROW_BLOCKS:
            self.order_rows(places)

    def order_rows(self, places) -> None:
        """Section 5.1, order 3."""
        geometry, parameters = self.parameters.geometry, self.parameters
        n_axes, row_values = len(geometry.shape), geometry.row_values
        whole = n_axes >= 2 and geometry.sides == (1, 1, *geometry.shape[2:])
        whole = whole and self.first_elem % row_values == 0 and self.n_values % row_values == 0
        require(whole, "blocks of rows in a chunk that is not whole rows of kernels")
        quarters = parameters.scales.at(places) - self.step_quarters
        quarters = quarters.reshape(-1, row_values)
        rows = np.argsort(quarters[:, 0], kind="stable")  # what places add is the same for all
        in_row = np.argsort(quarters[0], kind="stable")
        bins = np.clip(quarters, 1, MAX_BIN)
        n_lanes, done, order, middles = lanes_of(self.n_values), 0, [], []
        while done < len(rows):
            n_rows = min(n_lanes, 1 << (len(rows) - done).bit_length() - 1)
            block = rows[done : done + n_rows]
            order.append((block[None, :] * row_values + in_row[:, None]).reshape(-1))
            middles.append(np.repeat(bins[block[n_rows // 2], in_row], n_rows))
            done += n_rows
        self.order = np.concatenate(order)
        middle = GROUP * np.arange(len(self.group_values)) + self.group_values // 2
        self.predicted_bins = np.concatenate(middles)[middle]

    def groups(self, bin_symbols: np.ndarray) -> Groups:
        """Sections 5.1 and 5.2."""
        if self.parameters.order in PREDICTS_BINS:
            bins = self.predicted_bins
        else:
            bins = read_scale_bins(bin_symbols.tolist(), self.first_bin, self.bin_escapes, MAX_BIN)
        return Groups(bins, self.group_values)

    @property
    def n_bins(self) -> int:
        """Symbols of bins."""
        return 0 if self.parameters.order in PREDICTS_BINS else len(self.group_values)

    def parity_bits(self, groups: Groups) -> np.ndarray:
        """Section 5.3: of the values of groups that are not zero; -1 where the symbol has it."""
        require(groups.parity_bytes == len(self.parity), "parity bits of the wrong length")
        bits = np.full((len(groups.sizes), GROUP), -1)
        at = 0
        for group in np.flatnonzero(groups.low_bits > 0):
            size = groups.sizes[group]
            plane = np.frombuffer(self.parity, np.uint8, -(-size // 8), at)
            bits[group, :size] = np.unpackbits(plane, count=size, bitorder="little")
            at += len(plane)
        return bits[self.used(groups)]

    @staticmethod
    def used(groups: Groups) -> np.ndarray:
        return (np.arange(GROUP) < groups.sizes[:, None]) & groups.is_busy[:, None]

    def decode_lanes(self) -> np.ndarray:
        """Section 5.3, with `rans`: the levels, in storage order."""
        lanes = Lanes(Body(self.coded), "spectral")
        groups = self.groups(lanes.decode(self.n_bins, [0] * self.n_bins))
        parity = self.parity_bits(groups)
        first = FIRST_VALUE_PLACE + 2 * groups.tables[groups.is_busy]
        if self.parameters.n_states == 1:
            symbols = lanes.decode(groups.n_symbols, first.tolist())
            is_second = np.zeros(len(symbols), bool)
        else:
            pairs = np.stack([first, first + 1], axis=1)
            symbols, is_second = lanes.decode_chosen(
                groups.n_symbols, pairs.tolist(), self.parameters.n_states, parity
            )
        raw = join_raw(self.raw, lanes.payload(), groups.raw_bytes)
        return self.levels(groups, symbols, is_second, parity, raw)

    def decode(self, frame: bytes) -> np.ndarray:
        """The same with `zstd`."""
        content = read_symbols(frame, self.n_bins + self.n_values)
        content = np.frombuffer(content, np.uint8)
        require(len(content) >= self.n_bins, "fewer symbols than groups")
        groups = self.groups(content[: self.n_bins])
        parity = self.parity_bits(groups)
        streams = self.split_symbols(groups, content[self.n_bins :])
        tables = groups.tables[groups.is_busy]

        def take(group: int, second: np.ndarray) -> np.ndarray:
            symbols = np.empty(len(second), np.uint8)
            for half in (0, 1):
                stream, wanted = streams[tables[group]][half], second == half
                count = np.count_nonzero(wanted)
                require(count <= len(stream), "a table with too few symbols")
                symbols[wanted] = stream[:count]
                streams[tables[group]][half] = stream[count:]
            return symbols

        n_lanes = lanes_of(self.n_values)
        symbols, is_second = walk_trellis(
            groups.n_symbols, len(tables), n_lanes, self.parameters.n_states, parity, take
        )
        require(not any(map(len, sum(streams, []))), "symbols left over")
        require(len(self.raw) == groups.raw_bytes, "raw bits of the wrong length")
        return self.levels(groups, symbols, is_second, parity, self.raw)

    def split_symbols(self, groups: Groups, content: np.ndarray) -> list[list[np.ndarray]]:
        """Two streams for each table."""
        require(len(content) == groups.n_symbols, "not as many symbols as the bins need")
        require(not len(content) or content.max() < 32, "a symbol above 31")
        streams, at = [], 0
        for table in range(TABLES):
            size = int(groups.sizes[groups.is_busy & (groups.tables == table)].sum())
            first = size
            if size and self.parameters.n_states > 1:
                first = self.splits.varint()
                require(first <= size, "more symbols of a first table than of both")
            both = content[at : at + size]
            streams.append([both[:first], both[first:]])
            at += size
        self.splits.end("splits")
        return streams

    def levels(self, groups: Groups, symbols, is_second, parity, raw: bytes) -> np.ndarray:
        """Sections 4 and 5.3."""
        used = self.used(groups)
        escaped = np.zeros(used.shape, bool)
        escaped[used] = symbols == 0
        low_bits = groups.low_bits[:, None]
        indices = np.zeros(used.shape, np.int64)
        indices[used] = symbols.astype(np.int64) - ZERO
        indices <<= low_bits
        parities = np.zeros(used.shape, np.int64)
        parities[used] = parity
        indices += np.where(low_bits > 0, parities, 0)
        at = 0
        for group in np.flatnonzero(groups.low_bits > 1):
            size = groups.sizes[group]
            for bit in range(groups.low_bits[group] - 1, 0, -1):
                plane = np.frombuffer(raw, np.uint8, -(-size // 8), at)
                set_bits = np.unpackbits(plane, count=size, bitorder="little")
                indices[group, :size] += set_bits.astype(np.int64) << bit
                at += len(plane)
        levels = indices
        if self.parameters.n_states > 1:
            seconds = np.zeros(used.shape, bool)
            seconds[used] = is_second
            levels = 2 * indices - np.where(seconds, np.sign(indices), 0)
        levels[escaped] = self.read_escapes(np.count_nonzero(escaped))
        in_order = levels[np.arange(GROUP) < groups.sizes[:, None]]
        stored = np.empty(self.n_values, np.int64)
        stored[self.order] = in_order
        return stored

    def read_escapes(self, count: int) -> np.ndarray:
        """Section 5.4."""
        require(count == self.n_escapes, "escapes of the wrong number")
        numbers = [self.escaped_levels.varint() for _ in range(count)]
        self.escaped_levels.end("escaped levels")
        return unzigzag(np.array(numbers, np.int64))

    def values(self, levels: np.ndarray, name: str) -> np.ndarray:
        """Sections 4 and 6: all bits of the values."""
        real = np.float64 if name == "F64" else np.float32
        geometry = self.parameters.geometry
        with np.errstate(all="ignore"):
            steps = scaled_steps(self.parameters.step, self.step_quarters).astype(real)
            values = levels.astype(real) * steps
            if self.parameters.is_transformed:
                region = geometry.region(self.first_elem, self.n_values)
                values = inverse_transform(values.reshape(region), geometry.sides).reshape(-1)
            values = np.where(np.isnan(values), real(0), values)
            if name == "F16":
                words = values.astype("<f2").view("<u2")
            elif name == "BF16":
                bits = values.view("<u4").astype(np.uint64)
                words = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype("<u2")
            else:
                words = np.ascontiguousarray(values).view(self.word)
        words[self.exact_places] = self.exact
        return words


@functools.cache
def root(quarters: int) -> float:
    """The binary64 number nearest to 2^(quarters / 4)."""
    with decimal.localcontext(decimal.Context(prec=50)):
        return float(decimal.Decimal(2) ** (decimal.Decimal(quarters) / 4))


def scaled_steps(step: float, quarters) -> np.ndarray:
    """Section 4, before it is rounded to real."""
    octaves, rest = np.divmod(np.asarray(quarters), 4)
    roots = np.array([root(q) for q in range(4)])[rest]
    return step * np.ldexp(roots, np.clip(octaves, -1022, 1023))
