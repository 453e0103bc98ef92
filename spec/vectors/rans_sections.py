"""Sections "coded" of the entropy stage rans, put together from parts: codec/entropy/rans.md,
whose sections the comments name. Tables and lane sets are the caller's."""

from __future__ import annotations

import dataclasses
import functools
import pathlib

from broken_payloads import number

GROUP = 128
SYMBOLS = 32
LANES = 32  # of a lane set
TOTAL = 4096  # of the frequencies of a table
BUCKET = TOTAL // SYMBOLS
LOWEST = 2**15  # state
PAYLOAD_BITS = 15  # of a lane

Table = tuple[int, ...]
Run = tuple[bytes, list[int]]  # symbols, and the place of each group's table


@functools.cache
def static_tables() -> dict[str, Table]:
    rows = (pathlib.Path(__file__).parents[1] / "frequency_tables.csv").read_text().splitlines()[1:]
    tables = (row.split(",") for row in rows)
    return {name: tuple(map(int, frequencies)) for name, *frequencies in tables}


def tables_of_choice(choice: int, codec: str) -> list[Table]:
    """By place."""
    tables = static_tables()
    family = f"family {choice % 8} {codec} "
    first = [tables[f"bins {choice // 8 % 8}"], tables[f"trailing zero bits {choice // 64}"]]
    return first + [table for name, table in tables.items() if name.startswith(family)]


def only(symbol: int) -> Table:
    """The table of one symbol."""
    return tuple(TOTAL if s == symbol else 0 for s in range(SYMBOLS))


def in_symbol_order(symbols: list[int] | bytes) -> bytes:
    """Those of the values of a group, as a run has them: codec/symboliser/spec.md, section 5."""
    if len(symbols) < GROUP:
        return bytes(symbols)
    return bytes(symbols[4 * (i % 32) + i // 32] for i in range(GROUP))


class Bits:
    """A string of bits, the first in the least significant place."""

    def __init__(self):
        self.value, self.count = 0, 0

    def put(self, value: int, count: int) -> None:
        self.value |= value << self.count
        self.count += count

    def bytes(self) -> bytes:
        return self.value.to_bytes(-(-self.count // 8), "little")


def table_bytes(table: Table) -> bytes:
    """Section 3."""
    bits = Bits()
    for frequency in table[:-1]:
        bits.put(frequency.bit_length(), 4)
    for frequency in table[:-1]:
        n = frequency.bit_length()
        bits.put(frequency - (1 << n >> 1), max(n - 1, 0))
    return bits.bytes()


@functools.lru_cache(maxsize=512)
def slots_of(table: Table) -> list[list[int]]:
    """Section 3: the slots of each symbol, ascending. One bucket after another hands what
    it cannot fill to the first that has too much."""
    left, slots = dict(enumerate(table)), [[] for _ in range(SYMBOLS)]
    own, alias = [BUCKET] * SYMBOLS, [0] * SYMBOLS
    while any(amount < BUCKET for amount in left.values()):
        a = next(s for s in sorted(left) if left[s] < BUCKET)
        b = next(s for s in sorted(left) if left[s] > BUCKET)
        own[a], alias[a] = left.pop(a), b
        left[b] -= BUCKET - own[a]
    for slot in range(TOTAL):
        bucket, place = divmod(slot, BUCKET)
        slots[bucket if place < own[bucket] else alias[bucket]].append(slot)
    return slots


def start_states(n_sets: int, payload: bytes) -> list[int]:
    bits = int.from_bytes(payload, "little")
    return [LOWEST + (bits >> PAYLOAD_BITS * lane) % LOWEST for lane in range(LANES * n_sets)]


def coded(runs: list[Run], tables: list[Table], n_sets: int, start: list[int]):
    """Section 7: the states of all lanes, and the words of each set."""
    states = list(start)
    words: list[list[int]] = [[] for _ in range(n_sets)]
    for symbols, places in reversed(runs):
        for i in reversed(range(len(symbols))):
            table = tables[places[i // GROUP]]
            frequency, lane = table[symbols[i]], i % GROUP % len(states)
            x = states[lane]
            if x >= frequency << 19:
                words[lane // LANES].append(x % 2**16)
                x >>= 16
            states[lane] = TOTAL * (x // frequency) + slots_of(table)[symbols[i]][x % frequency]
    return states, [list(reversed(of_set)) for of_set in words]


@dataclasses.dataclass
class Section:
    """Section 4, field by field."""

    layout: int
    choice: int
    explicit: list[tuple[int, bytes]]  # place and table
    states: list[int]
    words: list[list[int]]
    n_words: list[int] | None = None  # as said; None: as they are
    n_explicit: int | None = None
    unused_bits: int = 0  # behind the states
    behind: bytes = b""

    @classmethod
    def of(
        cls,
        runs: list[Run],
        n_sets: int,
        payload: bytes,
        codec: str,
        choice=0,
        explicit=None,
        start=None,
    ) -> Section:
        """`explicit`: tables by place. `start`: states that have another payload."""
        explicit = explicit or {}
        tables = tables_of_choice(choice, codec)
        for place, table in explicit.items():
            tables[place] = table
        layout = {1: 0, 2: 1, 4: 2}[n_sets] | bool(explicit) << 2
        listed = [(place, table_bytes(explicit[place])) for place in sorted(explicit)]
        start = start or start_states(n_sets, payload)
        return cls(layout, choice, listed, *coded(runs, tables, n_sets, start))

    def state_bytes(self) -> bytes:
        bits = Bits()
        lengths = [state.bit_length() - 1 for state in self.states]
        for n in lengths:
            bits.put(n - PAYLOAD_BITS, 4)
        for state, n in zip(self.states, lengths, strict=True):
            bits.put(state - (1 << n), n)
        bits.put(self.unused_bits, -bits.count % 8)
        return bits.bytes()

    def bytes(self) -> bytes:
        return self.tables() + self.lanes()

    def tables(self) -> bytes:
        """What segments share."""
        parts = [bytes([self.layout, self.choice])]
        if self.explicit or self.n_explicit is not None:
            count = len(self.explicit) if self.n_explicit is None else self.n_explicit
            parts.append(bytes([count]))
            parts += [bytes([place]) + table for place, table in self.explicit]
        return b"".join(parts)

    def lanes(self) -> bytes:
        parts = [*map(number, self.n_words or map(len, self.words)), self.state_bytes()]
        parts += [word.to_bytes(2, "little") for of_set in self.words for word in of_set]
        return b"".join([*parts, self.behind])
