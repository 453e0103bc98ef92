"""Packets of gradients: the vectors, the reference reader and the package."""

import hashlib
import json
import pathlib
import struct

import numpy as np
import pytest
import reference_gradients
from reference_container import Refused
from reference_fields import tiled_hash64

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "spec" / "vectors" / "gradients"
PACKETS = json.loads((FOLDER / "manifest.json").read_text())["packets"]
every = pytest.mark.parametrize("entry", PACKETS, ids=[entry["file"] for entry in PACKETS])


def packet_of(entry) -> bytes:
    return (FOLDER / entry["file"]).read_bytes()


def sealed(packet: bytes) -> bytes:
    """With hashes that are right, also those of the messages."""
    body = bytearray(packet)
    n_tensors, gap_bytes, value_bytes = struct.unpack_from("<3I", body, 4)
    at = 16 + 12 * n_tensors
    for length in (gap_bytes, value_bytes):
        if length >= 8 and at + length <= len(body) - 8:
            end = at + length - 8
            struct.pack_into("<Q", body, end, tiled_hash64(bytes(body[at:end])))
        at += length
    struct.pack_into("<Q", body, len(body) - 8, tiled_hash64(bytes(body[:-8])))
    return bytes(body)


def digest(tensors) -> str:
    parts = [np.asarray(t.indices, np.int64).tobytes() for t in tensors]
    parts += [np.asarray(t.values, np.float32).tobytes() for t in tensors]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_every_file_is_listed():
    assert {entry["file"] for entry in PACKETS} == {p.name for p in FOLDER.glob("*.packet")}


@every
def test_reference_reader(entry):
    found = reference_gradients.read(packet_of(entry))
    assert [[t.n_elems, len(t.indices)] for t in found] == entry["tensors"]
    assert digest(found) == entry["sha256"]


@every
def test_package(entry):
    pytest.importorskip("torch")
    distributed = pytest.importorskip("cfck.distributed", reason="the package is not installed")
    found = distributed.GradientCodec().decode(packet_of(entry))
    assert [[t.n_elems, len(t.indices)] for t in found] == entry["tensors"]
    assert digest(found) == entry["sha256"]


def test_program(tmp_path):
    entry = next(entry for entry in PACKETS if entry["file"] == "plain.packet")
    out = tmp_path / "out.npz"
    assert reference_gradients.main([str(FOLDER / entry["file"]), str(out)]) == 0
    with np.load(out) as found:
        assert len(found["0.indices"]) == len(found["0.values"]) == entry["tensors"][0][1]


@pytest.mark.parametrize("name", ["plain", "far", "no_values"])
def test_damage_is_refused(name):
    packet = (FOLDER / f"{name}.packet").read_bytes()
    for n in range(0, len(packet), 7):
        with pytest.raises(Refused):
            reference_gradients.read(packet[:n])
    for bit in range(0, 8 * len(packet), 13):
        damaged = bytearray(packet)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Refused):
            reference_gradients.read(bytes(damaged))


@pytest.mark.parametrize("name", ["plain", "lossless", "far", "far_float", "empty", "no_values"])
def test_sealed_damage_means_the_same_to_both_readers(name):
    pytest.importorskip("torch")
    cfck = pytest.importorskip("cfck", reason="the package cfck is not installed")
    codec = pytest.importorskip("cfck.distributed").GradientCodec()
    packet = (FOLDER / f"{name}.packet").read_bytes()
    n_header = 16 + 12 * struct.unpack_from("<I", packet, 4)[0]
    # Versions of libzstd differ in whether reserved bits of a frame, as "far" has, must be zero.
    end = 8 * n_header if name == "far" else 8 * len(packet) - 64
    for bit in [*range(8 * n_header), *range(8 * n_header, end, 41)]:
        damaged = bytearray(packet)
        damaged[bit // 8] ^= 1 << bit % 8
        again = sealed(bytes(damaged))
        try:
            expected = reference_gradients.read(again)
        except Refused:
            with pytest.raises(cfck.CfckError):
                codec.decode(again)
        else:
            assert digest(codec.decode(again)) == digest(expected), bit
