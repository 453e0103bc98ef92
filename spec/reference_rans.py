"""Decodes the section "coded" of the entropy stage rans: codec/entropy/rans.md, whose
sections the comments name. The static tables are those of frequency_tables.csv."""

from __future__ import annotations

import csv
import functools
import pathlib

import numpy as np
from reference_fields import require

GROUP = 128
SYMBOLS = 32
LANES = 32  # of a lane set
TOTAL = 4096  # of the frequencies of a table, and slots
BUCKET = TOTAL // SYMBOLS
LOWEST = 2**15  # state
PAYLOAD_BITS = 15  # of a lane
EXPLICIT = 4  # bit of the field layout
MAX_SEGMENTS = 16
FIRST_VALUE_PLACE = 2  # after the tables for bins and for trailing zero bits


def shifted_trellis() -> tuple:
    """The trellis of 64 states: a register of six bits."""
    even = [state >> 1 ^ (33 if state & 1 else 0) for state in range(64)]
    return tuple((t, t ^ 10) for t in even), tuple(state & 1 for state in range(64))


TRELLISES = {  # by states: next ones after even and odd symbols, and which have the second table
    1: (((0, 0),), (0,)),
    4: (((0, 2), (2, 0), (1, 3), (3, 1)), (0, 0, 1, 1)),
    8: (
        ((0, 2), (5, 7), (1, 3), (6, 4), (2, 0), (4, 6), (3, 1), (7, 5)),
        (0, 1, 0, 1, 0, 1, 0, 1),
    ),
    64: shifted_trellis(),
}
STATIC_TABLES = pathlib.Path(__file__).resolve().parent / "frequency_tables.csv"


@functools.cache
def static_tables() -> dict[str, tuple[int, ...]]:
    with open(STATIC_TABLES, newline="") as rows:
        return {name: tuple(map(int, f)) for name, *f in list(csv.reader(rows))[1:]}


def tables_of_choice(choice: int, codec: str) -> list[tuple[int, ...]]:
    """The static tables by place. `codec`: "lossless", "delta", "direct" or "spectral"."""
    of_values, times = ("lossless", 4) if codec == "delta" else (codec, 1)
    tables, family = static_tables(), f"family {choice & 7} {of_values} "
    values = [table for name, table in tables.items() if name.startswith(family)] * times
    return [tables[f"bins {choice >> 3 & 7}"], tables[f"trailing zero bits {choice >> 6}"], *values]


class BitString:
    """Reads bits, the least significant of a byte first."""

    def __init__(self, body):
        self.body, self.value, self.count = body, 0, 0

    def take(self, count: int) -> int:
        while self.count < count:
            self.value |= self.body.byte() << self.count
            self.count += 8
        taken = self.value & (1 << count) - 1
        self.value >>= count
        self.count -= count
        return taken

    def end(self, what: str) -> None:
        require(self.value == 0, f"unused bits of {what} are set")


def read_table(body) -> tuple[int, ...]:
    """Section 3: an explicit table."""
    bits = BitString(body)
    lengths = [bits.take(4) for _ in range(SYMBOLS - 1)]
    frequencies = [2 ** (n - 1) + bits.take(n - 1) if n else 0 for n in lengths]
    bits.end("a frequency table")
    require(sum(frequencies) <= TOTAL, "frequencies that sum to more than 4096")
    return *frequencies, TOTAL - sum(frequencies)


class Slots:
    """Section 3: symbol, frequency and rank of every slot."""

    def __init__(self, frequencies: tuple[int, ...]):
        left, own = list(frequencies), [BUCKET] * SYMBOLS
        alias, is_closed = list(range(SYMBOLS)), [False] * SYMBOLS
        while True:
            short = [b for b in range(SYMBOLS) if not is_closed[b] and left[b] < BUCKET]
            if not short:
                break
            a = short[0]
            b = next(b for b in range(SYMBOLS) if left[b] > BUCKET)
            own[a], alias[a], is_closed[a] = left[a], b, True
            left[b] -= BUCKET - left[a]
        symbols = [[b] * own[b] + [alias[b]] * (BUCKET - own[b]) for b in range(SYMBOLS)]
        self.symbol = np.array(symbols, np.int64).reshape(-1)
        self.frequency = np.array(frequencies, np.int64)[self.symbol]
        self.rank = np.empty(TOTAL, np.int64)
        for symbol in range(SYMBOLS):
            own_slots = self.symbol == symbol
            self.rank[own_slots] = np.arange(np.count_nonzero(own_slots))


slots_of = functools.lru_cache(maxsize=512)(Slots)


def both(first: Slots, second: Slots) -> Slots:
    """The slots of the second table behind those of the first."""
    slots = object.__new__(Slots)
    for name in vars(first):
        setattr(slots, name, np.concatenate([getattr(first, name), getattr(second, name)]))
    return slots


def steps(n_symbols: int, n_groups: int, n_lanes: int):
    """Group, first symbol and number of symbols of every step of a run."""
    for group in range(n_groups):
        end = min((group + 1) * GROUP, n_symbols)
        for first in range(group * GROUP, end, n_lanes):
            yield group, first, min(n_lanes, end - first)


def walk_trellis(n_symbols: int, n_groups: int, n_lanes: int, n_states: int, parity, take):
    """Section 1: the symbols of a run, and which had the second table. `take(group, second)`
    gives those of a step; `parity` has parity bits, -1 where the symbol has it."""
    symbols, is_second = np.empty(n_symbols, np.uint8), np.empty(n_symbols, bool)
    following, second_table = map(np.array, TRELLISES[n_states])
    states = np.zeros(n_lanes, np.int64)
    for group, first, n in steps(n_symbols, n_groups, n_lanes):
        of_step = slice(first, first + n)
        second = second_table[states[:n]]
        symbols[of_step] = take(group, second)
        bits = np.where(parity[of_step] < 0, symbols[of_step] % 2, parity[of_step])
        states[:n] = following[states[:n], bits]
        is_second[of_step] = second
    return symbols, is_second


class Tables:
    """Section 4: layout and tables, which segments share."""

    def __init__(self, body, codec: str):
        layout = body.byte()
        require(layout < 8 and layout & 3 < 3, f"layout {layout} of the lanes")
        self.n_sets = 1 << (layout & 3)
        self.tables = tables_of_choice(body.byte(), codec)
        if layout & EXPLICIT:
            self.read_explicit(body)

    def read_explicit(self, body) -> None:
        count = body.byte()
        require(count > 0, "explicit tables, but none")
        before = -1
        for _ in range(count):
            place = body.byte()
            require(before < place < len(self.tables), f"a table of place {place}")
            self.tables[place] = read_table(body)
            before = place


class Lanes:
    """Section 4: the constructor reads the whole of `body`, `decode` run after run. Where
    segments share tables, they are given."""

    def __init__(self, body, codec: str, tables: Tables | None = None):
        tables = tables or Tables(body, codec)
        self.n_sets, self.tables = tables.n_sets, tables.tables
        n_words = [body.varint() for _ in range(self.n_sets)]
        states = BitString(body)
        lengths = [states.take(4) + PAYLOAD_BITS for _ in range(LANES * self.n_sets)]
        self.states = np.array([2**n + states.take(n) for n in lengths])
        states.end("the states")
        self.words = [body.array(n, 2).astype(np.int64) for n in n_words]
        body.end("section of symbols")

    def decode(self, n_symbols: int, places) -> np.ndarray:
        """A run; `places` has that of each group's table."""
        symbols = np.empty(n_symbols, np.uint8)
        for group, first, n in steps(n_symbols, len(places), LANES * self.n_sets):
            slots = slots_of(self.tables[places[group]])
            symbols[first : first + n] = self.decode_step(slots, n, 0)
        return symbols

    def decode_chosen(self, n_symbols: int, places, n_states: int, parity=None):
        """Section 1: a run with two tables for each group, at a pair of places. Symbols, and
        which had the second table. `parity`: parity bits, -1 where the symbol has it."""

        def take(group: int, second: np.ndarray) -> np.ndarray:
            slots = both(*(slots_of(self.tables[place]) for place in places[group]))
            return self.decode_step(slots, len(second), TOTAL * second)

        parity = np.full(n_symbols, -1) if parity is None else parity
        return walk_trellis(n_symbols, len(places), LANES * self.n_sets, n_states, parity, take)

    def decode_step(self, slots: Slots, n_lanes: int, first_slot) -> np.ndarray:
        """Section 2, for the first `n_lanes` lanes of all sets."""
        x = self.states[:n_lanes]
        slot = first_slot + x % TOTAL
        new = slots.frequency[slot] * (x // TOTAL) + slots.rank[slot]
        for s in range(-(-n_lanes // LANES)):
            of_set = new[s * LANES : (s + 1) * LANES]
            short = np.flatnonzero(of_set < LOWEST)
            require(len(short) <= len(self.words[s]), f"lane set {s} has too few words")
            of_set[short] = of_set[short] * 2**16 + self.words[s][: len(short)]
            self.words[s] = self.words[s][len(short) :]
        self.states[:n_lanes] = new
        return slots.symbol[slot]

    def payload(self) -> bytes:
        """Behind the last symbol."""
        require(not any(map(len, self.words)), "words left over")
        require((self.states < 2 * LOWEST).all(), "a state that is not one of the end")
        low = self.states.astype("<u2").view(np.uint8).reshape(-1, 2)
        bits = np.unpackbits(low, axis=1, count=PAYLOAD_BITS, bitorder="little")
        return np.packbits(bits.reshape(-1), bitorder="little").tobytes()


def segment_values(n_values: int, n_segments: int) -> list[int]:
    """Section 6: how many values each segment of a chunk has."""
    require(2 <= n_segments <= MAX_SEGMENTS, f"{n_segments} segments")
    n_groups = -(-n_values // GROUP)
    most = -(-n_groups // n_segments) * GROUP
    last = n_values - (n_segments - 1) * most
    require(last > 0, "a segment without values")
    return [most] * (n_segments - 1) + [last]


def join_raw(raw: bytes, payload: bytes, n_bytes: int) -> bytes:
    """Section 5: `raw` is the section of that name, `n_bytes` what it has with the tail."""
    tail_bytes = min(n_bytes, len(payload))
    require(len(raw) == n_bytes - tail_bytes, "raw bits of the wrong length")
    require(not any(payload[tail_bytes:]), "bits behind the tail are set")
    return raw + payload[:tail_bytes]
