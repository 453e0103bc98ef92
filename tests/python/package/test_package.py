"""The installed package has types and programs, and imports nothing that was not asked for."""

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

import cfck
import pytest

PACKAGE = pathlib.Path(cfck.__file__).parent


def test_version():
    assert cfck.__version__ == importlib.metadata.version("cfck")
    assert re.fullmatch(r"\d+\.\d+\.\d+", cfck.__version__)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import cfck", ["torch", "numpy", "cfck._native", "cfck.errors"]),
        ("import cfck.numpy", ["torch"]),
        ("import cfck.sync", ["torch", "ml_dtypes"]),
        ("import cfck.torch", ["ml_dtypes", "cfck._streaming", "cfck._calibration"]),
        ("from cfck.__main__ import main", ["torch", "numpy", "cfck._native", "dataclasses"]),
    ],
)
def test_imports_are_lazy(statement, absent):
    program = f"{statement}; import sys; print([m for m in {absent} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert result.stdout.strip() == "[]"
    assert result.stderr == ""


def test_submodules_are_attributes():
    program = "import cfck; cfck.numpy.save({}); cfck.torch.save({})"
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError):
        cfck.jax  # noqa: B018


def test_every_name_is_there_and_listed():
    assert sorted(cfck.__all__) == sorted(set(cfck.__all__))
    for name in cfck.__all__:
        assert getattr(cfck, name) is getattr(cfck, name)
    assert set(cfck.__all__) | {"torch", "numpy", "train"} <= set(dir(cfck))
    known = {name for names in cfck._HOMES.values() for name in names.split()}
    assert known == set(cfck.__all__) - {"errors", "__version__"}
    assert cfck.SafetensorError is cfck.CfckError


def test_types_are_shipped():
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native.pyi").exists()


def test_the_stub_describes_the_extension(tmp_path):
    """_native.pyi is what `python -m nanobind.stubgen -m cfck._native` writes."""
    pytest.importorskip("nanobind")
    fresh = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "cfck._native", "-o", fresh]
    subprocess.run(command, check=True)
    assert (PACKAGE / "_native.pyi").read_text() == fresh.read_text()


@pytest.mark.parametrize("program", ["cfck", "cfck-convert", "cfck-inspect"])
def test_programs_are_installed(program):
    path = shutil.which(program, path=str(pathlib.Path(sys.executable).parent))
    assert path is not None
    result = subprocess.run([path, "--version"], check=True, capture_output=True, text=True)
    assert cfck.__version__ in result.stdout


def test_programs_and_package_read_the_same_files(tmp_path):
    import cfck.numpy
    import numpy as np
    import safetensors.numpy

    arrays = {"w": np.arange(1000, dtype=np.float32), "i": np.arange(10)}
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors")
    convert = str(pathlib.Path(sys.executable).parent / "cfck-convert")
    command = [convert, "--quiet", str(tmp_path / "a.safetensors"), str(tmp_path / "a.cfck")]
    subprocess.run(command, check=True)
    loaded = cfck.numpy.load_file(tmp_path / "a.cfck")
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
    command = [convert, "--quiet", str(tmp_path / "a.cfck"), str(tmp_path / "back.safetensors")]
    subprocess.run(command, check=True)
    assert (tmp_path / "back.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


def test_names_of_modules_that_are_imported_later():
    import cfck.torch

    assert cfck.torch.calibrate is cfck.calibrate and cfck.torch.evaluate is cfck.evaluate
    assert all(hasattr(cfck.torch, name) for name in cfck.torch.__all__)
    with pytest.raises(AttributeError, match="module 'cfck.torch' has no attribute 'jax'"):
        cfck.torch.jax  # noqa: B018
