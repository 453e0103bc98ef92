"""HDF5 files through the installed package and its programs, which find the module for them."""

import os
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import cfck
import h5py
import numpy as np
import pytest
from cfck.numpy import load_file

_MODULE = Path(sysconfig.get_path("data")) / "lib" / "cfck" / "cfck_archive_hdf5.so"

pytestmark = pytest.mark.skipif(
    not _MODULE.exists(), reason="the package was built where there is no libhdf5"
)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = np.arange(12, dtype="f4").reshape(3, 4)
        file["layers/dense/vars/1"] = np.ones(4, dtype="f2")
    return path


def test_package_reads_hdf5(weights: Path) -> None:
    tensors = load_file(weights)
    assert sorted(tensors) == ["layers/dense/vars/0", "layers/dense/vars/1"]
    assert np.array_equal(tensors["layers/dense/vars/0"], np.arange(12).reshape(3, 4))


def test_program_converts_hdf5_both_ways(weights: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CFCK_ADAPTER_PATH"}
    compressed, back = tmp_path / "model.cfck", tmp_path / "back.h5"
    for source, target in ((weights, compressed), (compressed, back)):
        subprocess.run(["cfck", "convert", source, target], check=True, env=environment)
    with h5py.File(back) as file:
        assert np.array_equal(file["layers/dense/vars/1"], np.ones(4, dtype="f2"))


@pytest.mark.parametrize("only_tensors", [False, True])
def test_names_that_are_not_utf8(tmp_path: Path, only_tensors: bool) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["w"] = np.ones(4, "f4")
        h5py.h5g.create(file.id, b"gr\xffup")
    with pytest.raises(cfck.UnsupportedError, match="not valid UTF-8") as caught:
        load_file(path, only_tensors=only_tensors)
    assert caught.value.record == r"gr\xffup"


@pytest.mark.parametrize("place", [5, 6, 7])  # sign, byte order, fill value
def test_flags_of_scaleoffset_are_0_or_1(tmp_path: Path, place: int) -> None:
    path = tmp_path / "a.h5"
    values = np.arange(4000, dtype="i4").reshape(40, 100)
    with h5py.File(path, "w", libver="earliest") as file:
        data = file.create_dataset("w", data=values, chunks=(10, 100), scaleoffset=True)
        client_data = data.id.get_create_plist().get_filter(0)[2]
    assert np.array_equal(load_file(path)["w"], values)
    damaged = list(client_data)
    damaged[place] += 2048
    words = [struct.pack("<20I", *one) for one in (client_data, damaged)]
    content = path.read_bytes()
    assert content.count(words[0]) == 1
    path.write_bytes(content.replace(*words))
    with pytest.raises(cfck.CorruptError, match="scaleoffset"):
        load_file(path)


_FEW_DESCRIPTORS = """
import resource, sys, threading
import cfck.numpy

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (14, hard))
first = cfck.numpy.load_file(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
done = []

def read():
    for _ in range(3):
        done.append(cfck.numpy.load_file(sys.argv[1]).keys() == first.keys())

threads = [threading.Thread(target=read) for _ in range(20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert done == [True] * 60
"""


def test_a_reader_that_began_with_few_descriptors(weights: Path) -> None:
    """The limit of the program that started it is none of the reading program."""
    subprocess.run([sys.executable, "-c", _FEW_DESCRIPTORS, weights], check=True, timeout=120)
