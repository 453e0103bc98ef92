"""The reference decoder and the library agree on direct and lossless chunks with the entropy
stage rans, sound and damaged."""

import collections
import dataclasses
import random

import direct_cases
import pytest
import rans_encoder
import rans_sections
import reference_container
import reference_direct
from rans_sections import Section
from test_direct_chunks import direct_chunk
from test_rans_bytes import RecordingLanes


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    cases = direct_cases.make_cases("rans")
    return list(zip(cases, direct_cases.run(cases, tmp_path_factory.mktemp("chunks"))))


@direct_cases.needs_writer
def test_values_of_every_case(made):
    modes = collections.Counter()
    for case, outcome in made:
        modes[outcome.payload[0]] += 1
        assert direct_cases.reference_values(case, outcome) == outcome.decoded, case.name
        assert not direct_cases.beyond_bound(case, outcome.decoded), case.name
    assert min(modes[mode] for mode in (2, 4, 5)) >= 10, modes


@direct_cases.needs_writer
def test_sections_of_every_case(made, monkeypatch):
    """Bytes: those of an encoder made from the page."""
    monkeypatch.setattr(reference_direct, "Lanes", RecordingLanes)
    bins, n_explicit = set(), 0
    for case, outcome in made:
        if outcome.payload[0] < reference_direct.INLINE:
            continue
        chunk, _ = direct_chunk(case, outcome)
        chunk.decode_lanes()
        lanes = RecordingLanes.made.pop()
        runs = [run for run in lanes.runs if run[1]]
        bins |= {place for _, places in runs for place in places}
        n_explicit += lanes.section[0] >> 2
        again = rans_encoder.encode(runs, len(chunk.order), lanes.payload(), "direct")
        assert again == lanes.section, case.name
    assert bins >= {0} | set(range(2, 41)), set(range(41)) - bins
    assert n_explicit > 20, n_explicit


def header_end(case, outcome) -> tuple[int, int]:
    """Where the section "coded" begins and ends in a payload of mode 4 or 5."""
    chunk, _ = direct_chunk(case, outcome)
    end = len(outcome.payload) - len(chunk.raw)
    return end - len(chunk.coded), end


def another_section(rng: random.Random, case, outcome, monkeypatch) -> bytes:
    """The same payload with one symbol, one word, one state or one field changed: what a
    change of single bytes hardly ever gets by the lane sets."""
    start, end = header_end(case, outcome)
    chunk, _ = direct_chunk(case, outcome)
    chunk.decode_lanes()
    lanes = RecordingLanes.made.pop()
    runs = [(bytearray(symbols), places) for symbols, places in lanes.runs if places]
    tail = bytearray(lanes.payload())
    symbols, places = rng.choice(runs)
    what = rng.choice(("symbol", "symbol", "symbol", "tail", "layout", "words", "state", "choice"))
    if what == "symbol":
        table = lanes.tables[places[0]]
        symbols[rng.randrange(min(128, len(symbols)))] = rng.choice(
            [symbol for symbol in range(32) if table[symbol]]
        )
    elif what == "tail":
        tail[rng.randrange(len(tail))] ^= 1 << rng.randrange(8)
    places_used = {place for _, used in runs for place in used}
    explicit = {place: lanes.tables[place] for place in places_used}
    section = Section.of(runs, lanes.n_sets, tail, "direct", lanes.section[1], explicit)
    if what == "layout":
        section.layout ^= 1 << rng.randrange(8)
    elif what == "words":
        of_set = rng.choice(section.words)
        if of_set:
            of_set.pop(rng.randrange(len(of_set)))
        else:
            of_set.append(rng.randrange(2**16))
    elif what == "state":
        section.states[rng.randrange(32)] = rng.randrange(2**15, 2**31)
    elif what == "choice":  # of tables that are not explicit: of none
        section.choice = rng.randrange(256)
    coded = section.bytes()
    before, old = outcome.payload[:start], rans_sections.number(end - start)
    at = before.rfind(old)  # coded_bytes, unless other fields have the same bytes
    header = before[:at] + rans_sections.number(len(coded)) + before[at + len(old) :]
    return header + coded + outcome.payload[end:]


def one_changed(rng: random.Random, payload: bytes) -> bytes:
    changed = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(min(len(changed), rng.choice((40, 400, 10**6))))
        changed[at] = rng.choice((changed[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    cut = rng.choice((0, 0, 0, 0, 1, 2))
    return bytes(changed[: len(changed) - cut])


@direct_cases.needs_writer
def test_damage(made, monkeypatch, tmp_path):
    monkeypatch.setattr(reference_direct, "Lanes", RecordingLanes)
    rng, cases = random.Random(5), []
    for case, outcome in made[1::3]:
        if case.n > 540 or outcome.payload[0] not in (2, 4, 5):
            continue
        preamble = outcome.preamble or None
        for number in range(6):
            if number < 3 and outcome.payload[0] != 2:
                payload = another_section(rng, case, outcome, monkeypatch)
            else:
                payload = one_changed(rng, outcome.payload)
            cases.append(
                dataclasses.replace(
                    case, values=None, payload=payload, preamble=preamble, options={}
                )
            )
    count = collections.Counter()
    for number, (case, outcome) in enumerate(zip(cases, direct_cases.run(cases, tmp_path))):
        try:
            decoded, reason = direct_cases.reference_values(case, outcome), ""
        except reference_container.Refused as refusal:
            decoded, reason = None, refusal.message
        what = f"damage {number}, {case.name}: {reason or 'decodes'}; library: {outcome.error}"
        assert (decoded is None) == bool(outcome.error), what
        if decoded is not None:
            assert outcome.decoded == decoded, what
        count["decoded" if decoded is not None else reason] += 1
    assert count["decoded"] > 200 and len(count) > 25, count
