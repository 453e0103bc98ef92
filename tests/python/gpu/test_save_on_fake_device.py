"""The tests of saves from a device pass on the fake driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DRIVER = Path(os.environ.get("CFCK_FAKE_DRIVER", ROOT / "build/tests/simt/libcfck_fake_driver.so"))
CODE = Path(os.environ.get("CFCK_FAKE_CODE_FOLDER", ROOT / "build/tests/simt/fake_code"))

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")


OUT_OF_MEMORY = """
import warnings, torch, cfck
from cfck.torch import encode_message, save
tensors = {"w": torch.randn(600_000), "b": torch.randn(600_000).bfloat16()}
on_device = {name: tensor.to("cuda:0") for name, tensor in tensors.items()}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    MADE
assert [str(w.message) for w in caught if "encoded on the host" in str(w.message)], caught
"""


def run_on_fake_device(*arguments: str, settings: str = "") -> str:
    """What a Python prints that sees the fake device."""
    path = [str(ROOT / "tests/simt/fake_torch"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "CFCK_CUDA_DRIVER": str(DRIVER),
        "CFCK_ADAPTER_PATH": str(CODE),
        "CFCK_FAKE_CUDA": settings,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
    }
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_saves():
    tests = Path(__file__).with_name("test_gpu_save.py")
    assert "skipped" not in run_on_fake_device(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)
    )


@pytest.mark.parametrize("function", ["MemAlloc", "LaunchKernel", "ModuleLoadData"])
@pytest.mark.parametrize(
    "made",
    [
        "assert save(on_device) == save(tensors)",
        'assert encode_message(on_device["w"]) == encode_message(tensors["w"])',
    ],
    ids=["file", "message"],
)
def test_the_host_encodes_where_the_device_has_no_memory(function, made):
    program = OUT_OF_MEMORY.replace("MADE", made)
    run_on_fake_device("-c", program, settings=f"fail={function}:1:2")
