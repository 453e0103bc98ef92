"""The wheel as installed, with NumPy and without PyTorch: import, round trips, programs.

Run for every Python that there is (scripts/python_versions.sh). What the package does
in detail is tested in tests/python.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import cfck
import cfck.cuda
import cfck.hdf5
import cfck.numpy
import ml_dtypes
import numpy as np
import pytest


@pytest.fixture(scope="module")
def tensors():
    random = np.random.default_rng(1)
    weights = random.normal(0, 0.02, (300, 1000)).astype(np.float32)
    return {
        "weights": weights,
        "half": weights.astype(np.float16),
        "brain": weights.astype(ml_dtypes.bfloat16),
        "noise": random.integers(0, 256, 3_000_000, np.uint8),
        "steps": np.arange(5000, dtype=np.int64),
        "scalar": np.float64(0.5).reshape(()),
        "empty": np.zeros((0, 3), np.float32),
        "mask": random.integers(0, 2, 999).astype(bool),
    }


def assert_equal(loaded, saved):
    assert loaded.keys() == saved.keys()
    for name, array in saved.items():
        assert loaded[name].dtype == array.dtype, name
        assert loaded[name].shape == array.shape, name
        assert loaded[name].tobytes() == array.tobytes(), name


def test_environment():
    assert cfck.__version__ == importlib.metadata.version("cfck")
    assert importlib.util.find_spec("torch") is None
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = importlib.metadata.distribution("cfck").read_text("WHEEL")
    assert f"Tag: {tag}-{tag}-" in wheel


def test_bytes(tensors):
    # Compressed noise is larger than the sink expects of it, and the rest smaller:
    # the bytes object is resized both ways.
    data = cfck.numpy.save(tensors)
    assert isinstance(data, bytes)
    assert len(data) < sum(array.nbytes for array in tensors.values())
    assert sys.getsizeof(data) < len(data) + 100
    assert_equal(cfck.numpy.load(data), tensors)
    for array in tensors.values():
        assert cfck.decompress(cfck.compress(array)).tobytes() == array.tobytes()


def test_files(tensors, tmp_path):
    path = tmp_path / "model.cfck"
    cfck.numpy.save_file(tensors, path)
    assert_equal(cfck.numpy.load_file(path), tensors)
    with cfck.safe_open(path, framework="np") as file:
        rows = file.get_slice("weights")[10:20, 5:]
    assert np.array_equal(rows, tensors["weights"][10:20, 5:])
    new = {"weights": np.ones((4, 4), np.float32)}
    cfck.update(path, new)
    assert_equal(cfck.numpy.load_file(path), tensors | new)


def test_a_bound_is_kept(tensors, tmp_path):
    path = tmp_path / "lossy.cfck"
    cfck.numpy.save_file(tensors, path, max_abs_error=1e-4)
    loaded = cfck.numpy.load_file(path)
    error = np.abs(loaded["weights"].astype(np.float64) - tensors["weights"])
    assert 0 < error.max() <= 1e-4
    assert path.stat().st_size < len(cfck.numpy.save(tensors))


def test_a_quality(tensors, tmp_path):
    path = tmp_path / "small.cfck"
    cfck.numpy.save_file(tensors, path, quality="balanced")
    before, after = tensors["weights"], cfck.numpy.load_file(path)["weights"]
    assert 0 < np.linalg.norm(after - before) < 0.05 * np.linalg.norm(before)
    assert cfck.safe_open(path, framework="np").get_record("weights").stored_bytes < before.size


def test_errors(tensors, tmp_path):
    data = bytearray(cfck.numpy.save(tensors))
    data[len(data) // 2] ^= 1
    with pytest.raises(cfck.CfckError):
        cfck.numpy.load(bytes(data))
    with pytest.raises(FileNotFoundError):
        cfck.numpy.load_file(tmp_path / "absent.cfck")


def test_programs(tensors, tmp_path):
    path = tmp_path / "model.cfck"
    plain = {name: array for name, array in tensors.items() if name != "brain"}
    cfck.numpy.save_file(plain, path)
    for command in ("cfck", "cfck-convert", "cfck-inspect"):
        assert shutil.which(command).startswith(sys.prefix)
    run = {"check": True, "capture_output": True, "text": True}
    subprocess.run(["cfck-inspect", "verify", "--deep", path], **run)
    subprocess.run(["cfck-convert", path, tmp_path / "model.safetensors"], **run)
    subprocess.run(["cfck-convert", tmp_path / "model.safetensors", tmp_path / "back.cfck"], **run)
    assert_equal(cfck.numpy.load_file(tmp_path / "back.cfck"), plain)


ENDING = """
import threading, time, sys
import numpy as np, cfck, cfck.numpy

arrays = {f"w{i}": np.random.default_rng(i).random((200, 200), np.float32) for i in range(6)}
cfck.numpy.save_file(arrays, "a.cfck")
path = f"{sys.argv[1]}.cfck"


def loop():
    while True:
        if sys.argv[1] == "save":
            cfck.numpy.save_file(arrays, path)
        else:
            cfck.numpy.load_file("a.cfck", threads=3)


for _ in range(2):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize("call", ["load", "save"])
def test_programs_end_while_threads_are_in_calls(call, tmp_path):
    """The interpreter stops threads that come back to it in another way in each version."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", ENDING, call],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_hdf5_plugin_loads():
    assert os.listdir(cfck.hdf5.plugin_path()) == ["libcfck_hdf5.so"]
    assert 256 <= cfck.hdf5.filter()["compression"] < 512


@pytest.fixture
def device_code():
    """The file with the code for devices; scripts that have nvcc set CFCK_EXPECT_DEVICE_CODE."""
    path = Path(sysconfig.get_path("data"), "lib/cfck/libcfck_cuda.so")
    if not path.exists() and "CFCK_EXPECT_DEVICE_CODE" not in os.environ:
        pytest.skip("the package was built without nvcc")
    return path


def test_the_device_code_is_of_this_version(device_code):
    entry = ctypes.CDLL(str(device_code)).cfck_device_code
    entry.restype = ctypes.c_char_p
    build = entry(b"none", None).decode()
    assert build.startswith(f"cfck {cfck.__version__}, device code ")
    assert "device code" not in (cfck.cuda.why_not(0) or "")


def test_a_driver_would_get_the_device_code(device_code):
    driver = Path(os.environ.get("CFCK_FAKE_DRIVER", "not given"))
    if not driver.exists():
        pytest.skip("CFCK_FAKE_DRIVER names no driver (tests/simt)")
    done = subprocess.run(
        [sys.executable, "-c", "import cfck.cuda; print(cfck.cuda.why_not(0))"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "CFCK_CUDA_DRIVER": str(driver.resolve())},
    )
    assert done.stdout.strip() == "None"
