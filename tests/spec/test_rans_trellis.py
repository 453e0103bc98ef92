"""Runs with two tables for each lane: codec/entropy/rans.md, section 1. No codec has them yet,
so that an encoder made from the page stands for one; rans_section_test.cpp wants the same
states and words of the library."""

import numpy as np
import pytest
import rans_sections
import reference_codec
import reference_rans
from rans_sections import GROUP, LANES, LOWEST, TOTAL, slots_of

N_SYMBOLS = 700
NEXT = {4: "02201331", 8: "0257136420463175"}
HASHES = {
    (4, 1): 0x16FE6ACC1B6F5E0D,
    (4, 2): 0xDB701DF68105ECC8,
    (4, 4): 0xC5ABBEF83FC75946,
    (8, 1): 0x4BCCBB852DC9675C,
    (8, 2): 0x4DFE950C09665123,
    (8, 4): 0xB426431983293AA8,
    (64, 1): 0x985ADBB112A52534,
    (64, 2): 0xF957B835368F190D,
    (64, 4): 0xB426431983293AA8,  # six steps of a lane: as 8 states
}


def chosen_symbols() -> list[int]:
    symbols, x = [], 1
    for _ in range(N_SYMBOLS):
        x = (x * 1103515245 + 12345) % 2**31
        symbols.append((x >> 16) % 32)
    return symbols


def pair(group: int):
    tables = rans_sections.static_tables()
    return (
        tables[f"family {group % 8} lossless phase {group % 4}"],
        tables[f"family {(group + 3) % 8} lossless phase {(group + 1) % 4}"],
    )


def next_state(n_states: int, state: int, path: int) -> int:
    if n_states < 64:
        return int(NEXT[n_states][2 * state + path])
    return state // 2 ^ state % 2 * 33 ^ path * 10


def tables_of_symbols(symbols, n_lanes: int, n_states: int):
    """Forwards: each lane's choice."""
    states = [0] * n_lanes
    for i, symbol in enumerate(symbols):
        lane = i % GROUP % n_lanes
        state = states[lane]
        second = state in (2, 3) if n_states == 4 else state % 2 == 1
        yield pair(i // GROUP)[second]
        states[lane] = next_state(n_states, state, symbol % 2)


def encoded(symbols, n_sets: int, n_states: int):
    """Backwards: states of the lanes, and words of the sets."""
    n_lanes = LANES * n_sets
    tables = list(tables_of_symbols(symbols, n_lanes, n_states))
    states = [LOWEST + 37 * lane for lane in range(n_lanes)]
    words: list[list[int]] = [[] for _ in range(n_sets)]
    for i in reversed(range(len(symbols))):
        lane = i % GROUP % n_lanes
        x, frequency = states[lane], tables[i][symbols[i]]
        if x >= frequency << 19:
            words[lane // LANES].insert(0, x % 2**16)
            x >>= 16
        states[lane] = TOTAL * (x // frequency) + slots_of(tables[i])[symbols[i]][x % frequency]
    return states, words


def fnv(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


@pytest.mark.parametrize("n_states", (4, 8, 64))
@pytest.mark.parametrize("n_sets", (1, 2, 4))
def test_the_reference_decoder(n_states, n_sets):
    symbols = chosen_symbols()
    states, words = encoded(symbols, n_sets, n_states)
    parts = [np.array(states, "<u4"), *(np.array(of_set, "<u2") for of_set in words)]
    assert fnv(b"".join(part.tobytes() for part in parts)) == HASHES[n_states, n_sets]
    layout = {1: 0, 2: 1, 4: 2}[n_sets]
    section = rans_sections.Section(layout, 0, [], states, words)
    lanes = reference_rans.Lanes(reference_codec.Body(section.bytes()), "lossless")
    lanes.tables = [table for group in range(6) for table in pair(group)]
    places = [(2 * group, 2 * group + 1) for group in range(6)]
    found, _ = lanes.decode_chosen(N_SYMBOLS, places, n_states)
    assert found.tolist() == symbols
    assert lanes.states.tolist() == [LOWEST + 37 * lane for lane in range(LANES * n_sets)]
    assert not any(map(len, lanes.words))
