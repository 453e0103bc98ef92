"""Chunks of codec delta: the vectors and the reference decoder; and damage, which it refuses."""

import json
import pathlib

import pytest
import reference_delta
from reference_container import DTYPES, Refused

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "spec" / "vectors" / "delta"
CHUNKS = json.loads((FOLDER / "manifest.json").read_text())["chunks"]
NUMBERS = {name: number for number, (name, *_) in DTYPES.items()}
every = pytest.mark.parametrize("entry", CHUNKS, ids=[entry["name"] for entry in CHUNKS])


def part(entry, ending: str) -> bytes:
    return (FOLDER / f"{entry['name']}.{ending}").read_bytes()


def decoded(entry, payload: bytes) -> bytes:
    base = part(entry, "base")
    return reference_delta.decode_chunk(payload, NUMBERS[entry["dtype"]], entry["n_elems"], base)


def test_every_file_is_listed():
    names = {entry["name"] for entry in CHUNKS}
    assert {p.stem for p in FOLDER.glob("*.chunk")} == names
    assert len(list(FOLDER.iterdir())) == 3 * len(names) + 1


@every
def test_reference_decoder(entry):
    assert decoded(entry, part(entry, "chunk")) == part(entry, "values")


def test_all_ways_of_coding_occur():
    modes, codes = set(), set()
    for entry in CHUNKS:
        payload = part(entry, "chunk")
        modes.add(payload[0] & 3)
        if payload[0] & 3 == reference_delta.CLASSES:
            codes.add(payload[0] & (reference_delta.NIBBLES | reference_delta.PAUSES))
    assert modes == {0, 1, 2}
    assert codes >= {0, reference_delta.NIBBLES, reference_delta.PAUSES}


@every
def test_prefixes_and_more_bytes_are_refused(entry):
    payload = part(entry, "chunk")
    ends = {0, 1, len(payload) // 2, len(payload) - 1} - {len(payload)}
    for changed in [payload[:end] for end in ends] + [payload + b"\0"]:
        with pytest.raises(Refused):
            decoded(entry, changed)


def test_another_base_is_refused_by_its_length():
    entry = CHUNKS[0]
    with pytest.raises(Refused):
        reference_delta.decode_chunk(
            part(entry, "chunk"), NUMBERS[entry["dtype"]], entry["n_elems"], b"\0"
        )
