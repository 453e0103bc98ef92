"""The reference decoder, the package and zstd against the vectors of spec/vectors."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import reference_container
import reference_decoder
from reference_records import KINDS
from vector_files import BROKEN, MANIFEST, VECTORS, base_of, read_vector

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def by_file(entries):
    return pytest.mark.parametrize("entry", entries, ids=[entry["file"] for entry in entries])


def sha256(content) -> str:
    return hashlib.sha256(bytes(content)).hexdigest()


def test_every_file_is_listed():
    listed = {entry["file"] for entry in MANIFEST["vectors"]}
    assert listed == {path.name for path in VECTORS.glob("*.cfck")}
    listed = {entry["file"] for entry in BROKEN}
    assert listed == {path.name for path in (VECTORS / "broken").glob("*.cfck")}
    assert sum(path.stat().st_size for path in VECTORS.rglob("*.cfck")) < 12 << 17


@by_file(MANIFEST["vectors"])
def test_reference_decoder(entry):
    path = VECTORS / entry["file"]
    assert sha256(path.read_bytes()) == entry["file_sha256"]
    tensors = read_vector(entry)
    assert set(tensors.tensors) == {expected["name"] for expected in entry["tensors"]}
    for expected in entry["tensors"]:
        tensor = tensors.tensors[expected["name"]]
        found = (tensor.dtype, list(tensor.shape), sha256(tensor.data))
        assert found == (expected["dtype"], expected["shape"], expected["sha256"]), expected["name"]
        kind = KINDS[tensor.record.kind]
        assert kind in expected.get("kind", kind), expected["name"]
    assert tensors.generation == entry["generation"]
    assert tensors.metadata == entry["metadata"]
    attached = {name: sha256(content) for name, content in tensors.attachments.items()}
    assert attached == entry["attachments"]


@by_file(MANIFEST["vectors"])
def test_npz(entry, tmp_path):
    out = tmp_path / "out.npz"
    program = [sys.executable, REPOSITORY / "spec" / "reference_decoder.py"]
    base = [base_of(entry)] if base_of(entry) else []
    subprocess.run([*program, VECTORS / entry["file"], out, *base], check=True, capture_output=True)
    expected = {tensor["name"]: tensor for tensor in entry["tensors"]}
    with np.load(out, allow_pickle=False) as arrays:
        described = json.loads(bytes(arrays["cfck.json"]))
        named = {item["name"]: item for item in described["tensors"] if item["name"] is not None}
        assert set(named) == set(expected)
        for name, item in named.items():
            array = arrays[item["key"]]
            assert item["shape"] == expected[name]["shape"]
            assert array.ndim == 1 or list(array.shape) == item["shape"]
            assert sha256(array.tobytes()) == expected[name]["sha256"]


@by_file(BROKEN)
def test_reference_decoder_refuses(entry):
    with pytest.raises(reference_container.Refused) as refusal:
        read_vector(entry, VECTORS / "broken")
    assert refusal.value.code == entry["code"], refusal.value


@by_file(BROKEN[::12])
def test_reference_decoder_says_why(entry, tmp_path):
    program = [sys.executable, REPOSITORY / "spec" / "reference_decoder.py"]
    path = VECTORS / "broken" / entry["file"]
    base = [base_of(entry)] if base_of(entry) else []
    arguments = [path, tmp_path / "out.npz", *base]
    result = subprocess.run([*program, *arguments], capture_output=True, text=True)
    assert result.returncode == 1
    assert entry["code"] in result.stderr and entry["file"] in result.stderr
    assert not (tmp_path / "out.npz").exists()


@by_file(
    [entry for entry in MANIFEST["vectors"] if entry["file"] in ("aliases.cfck", "names.cfck")]
)
def test_every_prefix_is_refused(entry):
    whole = (VECTORS / entry["file"]).read_bytes()
    for length in range(len(whole)):
        with pytest.raises(reference_container.Refused):
            reference_decoder.read_bytes(whole[:length])


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is not installed")
@by_file(MANIFEST["vectors"])
def test_zstd_accepts(entry):
    subprocess.run(["zstd", "-t", "-q", VECTORS / entry["file"]], check=True)


def writer_program():
    candidates = [os.environ.get("CFCK_WRITE_VECTOR", "")]
    candidates += [str(path) for path in REPOSITORY.glob("build*/tests/spec/write_vector")]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


@pytest.mark.skipif(
    writer_program() is None, reason="write_vector is not built (CFCK_WRITE_VECTOR)"
)
def test_encoding_again_gives_the_same_bytes():
    version = subprocess.run([writer_program(), "--libzstd"], capture_output=True, text=True)
    if version.stdout.strip() != MANIFEST["libzstd"]:
        pytest.skip(f"made with libzstd {MANIFEST['libzstd']}, this is {version.stdout.strip()}")
    make = [sys.executable, VECTORS / "make_vectors.py", "--check", "--writer", writer_program()]
    result = subprocess.run(make, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_broken_vectors_come_from_their_generator():
    make = [sys.executable, VECTORS / "make_broken.py", "--check"]
    result = subprocess.run(make, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
