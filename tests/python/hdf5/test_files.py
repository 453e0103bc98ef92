"""HDF5 files through the installed package and its programs, which find the module for them."""

import os
import subprocess
import sysconfig
from pathlib import Path

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
