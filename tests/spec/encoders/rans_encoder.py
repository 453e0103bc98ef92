"""Writes the section "coded" of the entropy stage rans as section 7 of codec/entropy/rans.md
says: which lane sets, which tables.

An encoder made from that page alone: the library must write the same bytes.
"""

from __future__ import annotations

import collections
import functools

from rans_sections import (
    GROUP,
    SYMBOLS,
    TOTAL,
    Run,
    Section,
    Table,
    static_tables,
    table_bytes,
    tables_of_choice,
)

BIT = 1 << 16  # what a bit costs
N_FAMILIES, N_CLASS_TABLES, N_CLEAN_TABLES = 8, 8, 4


def lane_sets(n_values: int) -> int:
    return 1 if n_values < 8192 else 2 if n_values < 32768 else 4


@functools.cache
def logarithm(frequency: int) -> int:
    """To base 2, 16 bits behind the point."""
    whole = frequency.bit_length() - 1
    m, bits = frequency << 31 - whole, 0
    for _ in range(16):
        m = m * m >> 31
        bits <<= 1
        if m >= 1 << 32:
            m >>= 1
            bits |= 1
    return whole << 16 | bits


def symbol_cost(frequency: int) -> int:
    return 12 * BIT - logarithm(frequency)


def cost(counts: collections.Counter, table: Table) -> int:
    return sum(count * symbol_cost(table[symbol]) for symbol, count in counts.items())


def fitted(counts: collections.Counter, static: Table) -> Table:
    n = counts.total()
    table = [max(1, TOTAL * counts[s] // n) if static[s] else 0 for s in range(SYMBOLS)]

    def gain(symbol: int, more: int) -> int:
        """What is saved where the symbol has that many more."""
        before = symbol_cost(table[symbol])
        return counts[symbol] * (before - symbol_cost(table[symbol] + more))

    while sum(table) < TOTAL:
        table[max((s for s in range(SYMBOLS) if table[s]), key=lambda s: gain(s, 1))] += 1
    while sum(table) > TOTAL:
        table[max((s for s in range(SYMBOLS) if table[s] > 1), key=lambda s: gain(s, -1))] -= 1
    return tuple(table)


def count_symbols(runs: list[Run], n_sets: int) -> dict[int, collections.Counter]:
    """By place. The last of the runs is that of the values."""
    counts: dict[int, collections.Counter] = collections.defaultdict(collections.Counter)
    for number, (symbols, places) in enumerate(runs):
        step = 8 if n_sets == 4 and number == len(runs) - 1 else 1
        for group in range(0, len(places), step):
            for symbol in symbols[group * GROUP : (group + 1) * GROUP]:
                counts[places[group]][symbol] += step
    return counts


def choose_tables(counts: dict[int, collections.Counter], codec: str) -> tuple[int, dict]:
    """The field choice, and the explicit tables by place."""
    tables = static_tables()
    bins = min(range(N_CLASS_TABLES), key=lambda i: cost(counts[0], tables[f"bins {i}"]))
    zero_bits = min(
        range(N_CLEAN_TABLES), key=lambda i: cost(counts[1], tables[f"trailing zero bits {i}"])
    )

    def family_cost(family: int) -> int:
        values = tables_of_choice(family, codec)[2:]
        return sum(cost(counts[2 + i], table) for i, table in enumerate(values))

    choice = min(range(N_FAMILIES), key=family_cost) | bins << 3 | zero_bits << 6
    explicit, saved = {}, 0
    for place, static in enumerate(tables_of_choice(choice, codec)):
        if not counts[place]:
            continue
        own = fitted(counts[place], static)
        stored = (8 * len(table_bytes(own)) + 8) * BIT
        less = cost(counts[place], static) - cost(counts[place], own) - stored
        if less > 0:
            explicit[place] = own
            saved += less
    return choice, explicit if saved > 8 * BIT else {}


def n_segments(n_groups: int) -> int:
    """Of a chunk that may have them."""
    return min(16, -(-n_groups // 512))


def encode_segments(segments: list[tuple[list[Run], bytes]], n_values: int, codec: str):
    """The tables, and the rest of each section. `segments`: runs, without those that are absent,
    and what the lanes carry. `n_values`: of the first one."""
    n_sets = lane_sets(n_values)
    counts: dict[int, collections.Counter] = collections.defaultdict(collections.Counter)
    for runs, _ in segments:
        for place, found in count_symbols(runs, n_sets).items():
            counts[place] += found
    choice, explicit = choose_tables(counts, codec)
    made = [Section.of(runs, n_sets, tail, codec, choice, explicit) for runs, tail in segments]
    return made[0].tables(), [section.lanes() for section in made]


def encode(runs: list[Run], n_values: int, tail: bytes, codec: str) -> bytes:
    """The section of a chunk without segments."""
    tables, (lanes,) = encode_segments([(runs, tail)], n_values, codec)
    return tables + lanes
