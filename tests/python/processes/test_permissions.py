"""Permissions of what is written: private files and folders stay private."""

import os
import shutil
import stat
import subprocess
import sysconfig
from pathlib import Path

import cfck
import cfck.numpy
import numpy as np
import pytest
import safetensors.numpy
from cfck._program.new_folder import new_folder
from cfck._program.places import Places, identity

PROGRAM = Path(sysconfig.get_path("scripts")) / "cfck"
WEIGHTS = {
    f"w{i}": np.random.default_rng(i).standard_normal((50, 40), dtype=np.float32) for i in range(3)
}


def mode(path):
    return oct(stat.S_IMODE(os.stat(path).st_mode))


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(WEIGHTS, path)
    path.chmod(0o600)
    return path


def test_converted_files(model, tmp_path):
    run("convert", "-q", model, tmp_path / "a.cfck")
    run("convert", "-q", tmp_path / "a.cfck", tmp_path / "b.safetensors")
    run("convert", "-q", model, tmp_path / "c.npz")
    run("extract", "-q", tmp_path / "a.cfck", "w0", "-o", tmp_path / "w0.npy")
    run("convert", "-q", model, "--output-dir", tmp_path / "many")
    for name in ("a.cfck", "b.safetensors", "c.npz", "w0.npy", "many/a.cfck"):
        assert mode(tmp_path / name) == "0o600", name
    model.chmod(0o640)
    (tmp_path / "a.cfck").chmod(0o644)
    run("convert", "-q", "-f", model, tmp_path / "a.cfck")
    assert mode(tmp_path / "a.cfck") == "0o644"


def test_changed_files(model, tmp_path):
    path = tmp_path / "a.cfck"
    run("convert", "-q", model, path)
    cfck.numpy.save_file(WEIGHTS, path)
    assert mode(path) == "0o600"
    cfck.update(path, {"w0": WEIGHTS["w1"]})
    run("compact", "-q", path)
    assert mode(path) == "0o600"
    run("repair", "-q", path, "-o", tmp_path / "b.cfck")
    assert mode(tmp_path / "b.cfck") == "0o600"


def private_folder(tmp_path):
    folder = tmp_path / "in"
    (folder / "part").mkdir(parents=True)
    safetensors.numpy.save_file(WEIGHTS, folder / "model.safetensors")
    safetensors.numpy.save_file(WEIGHTS, folder / "part" / "more.safetensors")
    (folder / "config.json").write_text("{}")
    (folder / "config.json").chmod(0o640)
    (folder / "model.safetensors").chmod(0o600)
    (folder / "part" / "more.safetensors").chmod(0o604)
    (folder / "part").chmod(0o750)
    folder.chmod(0o700)
    return folder


MODES = {
    ".": "0o700", "model.cfck": "0o600", "config.json": "0o640", "part": "0o750",
    "part/more.cfck": "0o604",
}  # fmt: skip


def test_converted_folders(tmp_path):
    out = tmp_path / "out"
    run("convert", "-q", private_folder(tmp_path), out)
    assert {name: mode(out / name) for name in MODES} == MODES
    # A folder that is replaced keeps its own.
    out.chmod(0o755)
    (out / "model.cfck").chmod(0o644)
    run("convert", "-q", "-f", tmp_path / "in", out)
    assert {name: mode(out / name) for name in MODES} == {
        **MODES, ".": "0o755", "model.cfck": "0o644",
    }  # fmt: skip


def test_a_model_of_several_shards_is_as_private_as_the_most_private(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number, bits in ((1, 0o644), (2, 0o640), (3, 0o600)):
        path = source / f"model-0000{number}-of-00003.safetensors"
        path.write_bytes(b"")
        path.chmod(bits)
    places = Places(str(source), str(target), None)
    for expected in ("0o600", "0o640"):
        with new_folder(places) as folder:
            (Path(folder) / "model.cfck").write_bytes(b"")
        assert mode(target / "model.cfck") == expected
        (target / "model.cfck").chmod(0o640)
        places = Places(str(source), str(target), identity(str(target)))


def test_standard_input_has_no_permissions(model, tmp_path):
    with open(model, "rb") as file:
        done = subprocess.run(
            ["sh", "-c", 'umask 027; exec "$@"', "sh", PROGRAM, "convert", "-q", "-", "a.cfck"],
            stdin=file, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 0 and mode(tmp_path / "a.cfck") == "0o640"


@pytest.mark.skipif(shutil.which("setfacl") is None, reason="no access lists here")
def test_access_lists(model, tmp_path):
    done = subprocess.run(["setfacl", "-m", "u:12:r", model], capture_output=True)
    if done.returncode != 0:
        pytest.skip("the file system has no access lists")
    path = tmp_path / "a.cfck"
    run("convert", "-q", model, path)
    lists = [
        subprocess.run(["getfacl", "-cn", each], capture_output=True).stdout
        for each in (model, path)
    ]
    assert lists[0] == lists[1]
