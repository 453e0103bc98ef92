"""Of payloads with something wrong the library and the reference decoder think the same:
both refuse them, or both decode them to the same values."""

import collections
import dataclasses
import random

import direct_cases
import direct_parts
import numpy as np
import pytest
import reference_container
import reference_direct

CASES = [
    case
    for case in direct_cases.make_cases()
    if case.n <= 540 and case.options.get("bound", 1) > 1e-30
][::4]


def one_changed(rng: random.Random, parts: direct_parts.Parts) -> direct_parts.Parts:
    """The same with one field or one byte of a section changed."""
    names = [field.name for field in dataclasses.fields(parts)]
    while True:
        name = rng.choice(names + 3 * ["symbols"])
        value = getattr(parts, name)
        if isinstance(value, bytes) and value:
            changed = bytearray(value)
            at = rng.randrange(len(changed))
            low = max(0, changed[at] + rng.choice((-1, 1, -2, 2)))
            changed[at] = rng.choice((0, 1, 30, 31, 255, low, rng.randrange(256))) & 255
            if rng.random() < 0.2:
                changed = changed[:-1] if rng.random() < 0.5 else changed + bytes([changed[at]])
            return parts.but(**{name: bytes(changed)})
        if isinstance(value, int):
            limit = 256 if name in ("mode", "flags") else 2**32
            near = value + rng.choice((-1, 1, 8, -8))
            new = rng.choice((0, near, near, value ^ 1 << rng.randrange(6), limit - 1))
            return parts.but(**{name: max(0, new) % limit})


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """(case of decoding, what the library says)"""
    folder = tmp_path_factory.mktemp("damage")
    rng = random.Random(1)
    cases = []
    for case, outcome in zip(CASES, direct_cases.run(CASES, folder)):
        if outcome.payload[0] < reference_direct.INLINE:
            continue
        parts = direct_parts.take_apart(case, outcome)
        preamble = outcome.preamble or None
        for number in range(60):
            changed = parts
            for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3)) if number else 0):
                changed = one_changed(rng, changed)
            hurt = preamble
            if preamble and rng.random() < 0.2:
                place = rng.randrange(len(preamble))
                hurt = preamble[:place] + rng.randbytes(1) + preamble[place + 1 :]
            cases.append(
                dataclasses.replace(
                    case, values=None, payload=changed.payload(), preamble=hurt, options={}
                )
            )
    return list(zip(cases, direct_cases.run(cases, folder)))


@direct_cases.needs_writer
def test_the_library_and_the_reference_decoder_agree(damaged):
    count = collections.Counter()
    for number, (case, outcome) in enumerate(damaged):
        try:
            decoded, reason = direct_cases.reference_values(case, outcome), ""
        except reference_container.Refused as refusal:
            decoded, reason = None, refusal.message
        what = f"damage {number}, {case.name}: {reason or 'decodes'}; library: {outcome.error}"
        assert (decoded is None) == bool(outcome.error), what
        if decoded is not None:
            assert outcome.decoded == decoded, what
        count["decoded" if decoded is not None else reason] += 1
    assert count["decoded"] > 1000 and len(count) > 30, count


@direct_cases.needs_writer
def test_every_prefix_is_refused(tmp_path):
    whole = direct_cases.run(CASES[:40], tmp_path)
    cases = [
        dataclasses.replace(
            case,
            values=None,
            payload=outcome.payload[:length],
            preamble=outcome.preamble or None,
        )
        for case, outcome in zip(CASES, whole)
        for length in sorted({*range(60), *range(0, len(outcome.payload), 37)})
        if length < len(outcome.payload)
    ]
    assert len(cases) > 1000
    for case, outcome in zip(cases, direct_cases.run(cases, tmp_path)):
        assert outcome.error in ("truncated", "corrupt"), case.name
        with pytest.raises(reference_container.Refused):
            direct_cases.reference_values(case, outcome)


def test_cases_cover_the_dtypes():
    assert {case.dtype for case in CASES} == set(direct_cases.FLOATS)
    assert np.unique([case.name for case in CASES]).size > 60
