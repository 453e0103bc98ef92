"""Packets of rows: the vectors, the reference reader and the library."""

import hashlib
import json
import pathlib

import numpy as np
import pytest
import reference_embeddings
from row_packets import (
    BF16,
    F16,
    F32,
    FOLLOWING,
    IDS,
    KEYS,
    PLAIN,
    batches_of,
    by_library,
    by_reference,
    same_for_both,
    sealed,
)

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "spec" / "vectors" / "embeddings"
PACKETS = json.loads((FOLDER / "manifest.json").read_text())["packets"]
BY_NAME = {entry["file"].removesuffix(".packet"): entry for entry in PACKETS}
every = pytest.mark.parametrize("name", BY_NAME)


def packet_of(name) -> bytes:
    return (FOLDER / f"{name}.packet").read_bytes()


def keys_of(name):
    return {int(b): np.array(keys, np.int64) for b, keys in BY_NAME[name]["keys"].items()}


def places(packet) -> range:
    """All bytes; of a long packet about two hundred."""
    return range(0, len(packet), 1 if len(packet) < 2000 else len(packet) // 200)


def with_bit(packet, bit) -> bytes:
    damaged = bytearray(packet)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_every_file_is_listed():
    assert {entry["file"] for entry in PACKETS} == {p.name for p in FOLDER.glob("*.packet")}


def test_every_order_and_dtype_is_there():
    batches = [batch for name in BY_NAME for batch in batches_of(packet_of(name))]
    assert {batch.dtype for batch in batches} == {F32, F16, BF16}
    assert {batch.order for batch in batches} == {PLAIN, IDS, FOLLOWING, KEYS}


@every
@pytest.mark.parametrize("reader", [by_reference, by_library])
def test_readers(name, reader):
    found = reader(packet_of(name), keys_of(name))
    assert [shape for shape, _ in found] == BY_NAME[name]["batches"]
    content = b"".join(values for _, values in found)
    assert hashlib.sha256(content).hexdigest() == BY_NAME[name]["sha256"]


def test_program(tmp_path):
    out, keys = tmp_path / "out.npz", tmp_path / "keys.npz"
    np.savez(keys, **{str(b): its for b, its in keys_of("keys").items()})
    packet = str(FOLDER / "keys.packet")
    assert reference_embeddings.main([packet, str(out)]) == 1
    assert reference_embeddings.main([packet, str(out), str(keys)]) == 0
    with np.load(out) as found:
        assert found["0"].shape == (160, 6)
        assert found["1"].shape == (160, 3)


@every
def test_damage_is_refused(name):
    packet, keys = packet_of(name), keys_of(name)
    for at in places(packet):
        assert same_for_both(packet[:at], keys) is None, at
        assert same_for_both(with_bit(packet, 8 * at + at % 8), keys) is None, at
    assert same_for_both(packet + b"\0", keys) is None


@every
def test_sealed_damage_means_the_same_to_both_readers(name):
    packet, keys = packet_of(name), keys_of(name)
    assert sealed(packet) == packet
    n_table = 24 + int.from_bytes(packet[4:8], "little")
    for bit in [*range(8 * n_table), *(8 * at + at % 8 for at in places(packet[:-8]))]:
        same_for_both(sealed(with_bit(packet, bit)), keys)
