"""Messages: the vectors, the reference reader and the package."""

import hashlib
import json
import pathlib
import struct

import numpy as np
import pytest
import reference_message
from reference_container import DTYPES, Refused
from reference_fields import tiled_hash64

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "spec" / "vectors" / "messages"
MESSAGES = json.loads((FOLDER / "manifest.json").read_text())["messages"]
NAMES = {number: name for number, (name, *_) in DTYPES.items()}
every = pytest.mark.parametrize("entry", MESSAGES, ids=[entry["file"] for entry in MESSAGES])


def message_of(entry) -> bytes:
    return (FOLDER / entry["file"]).read_bytes()


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<Q", tiled_hash64(body))


def test_every_file_is_listed():
    assert {entry["file"] for entry in MESSAGES} == {p.name for p in FOLDER.glob("*.message")}


@every
def test_reference_reader(entry):
    message = message_of(entry)
    found = reference_message.read(message)
    assert NAMES[found.dtype] == entry["dtype"]
    assert list(found.shape) == entry["shape"]
    assert hashlib.sha256(bytes(found.data)).hexdigest() == entry["sha256"]
    if not found.has_table:
        assert len(message) <= 16 + 8 * len(found.shape) + len(found.data)
    assert found.has_table == ("chunks" in entry["file"])


@every
def test_package(entry):
    cfck = pytest.importorskip("cfck", reason="the package cfck is not installed")
    array = cfck.decode_message(message_of(entry))
    assert list(array.shape) == entry["shape"]
    if DTYPES[reference_message.read(message_of(entry)).dtype][1] >= 8:
        assert hashlib.sha256(array.tobytes()).hexdigest() == entry["sha256"]


def test_program(tmp_path):
    entry = next(entry for entry in MESSAGES if entry["file"] == "f32_flat.message")
    out = tmp_path / "out.npy"
    assert reference_message.main([str(FOLDER / entry["file"]), str(out)]) == 0
    assert hashlib.sha256(np.load(out).tobytes()).hexdigest() == entry["sha256"]


def test_the_example_of_the_page():
    message = sealed(
        bytes.fromhex("cf02120000010000") + struct.pack("<Q", 3) + struct.pack("<3f", 1, 2, 3)
    )
    page = (FOLDER.parents[1] / "message.md").read_text()
    assert message[-8:].hex(" ") in page
    assert reference_message.read(message).array().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "name", ["f32_flat", "bf16_bound", "f32_chunks", "i16", "f32_scalar", "f32_steps"]
)
def test_damage_is_refused(name):
    message = (FOLDER / f"{name}.message").read_bytes()
    for n in range(0, len(message), 7):
        with pytest.raises(Refused):
            reference_message.read(message[:n])
    for bit in range(0, 8 * len(message), 13):
        damaged = bytearray(message)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Refused):
            reference_message.read(bytes(damaged))


@pytest.mark.parametrize(
    "name",
    ["f32_flat", "bf16_bound", "f32_chunks", "bf16_bound_chunks", "f32_steps", "bf16_steps_chunks"],
)
def test_sealed_damage_means_the_same_to_both_readers(name):
    cfck = pytest.importorskip("cfck", reason="the package cfck is not installed")
    body = (FOLDER / f"{name}.message").read_bytes()[:-8]
    for bit in [*range(64), *range(64, 8 * len(body), 41)]:
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        message = sealed(bytes(damaged))
        try:
            expected = reference_message.read(message)
        except Refused:
            with pytest.raises(cfck.CfckError):
                cfck.decode_message(message)
        else:
            assert cfck.decode_message(message).tobytes() == bytes(expected.data), bit
