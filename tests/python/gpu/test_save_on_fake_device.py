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


def test_the_host_encodes_and_decodes_where_the_device_has_no_code():
    """A device for which there is no image, and whose driver does not take the PTX."""
    program = """
import warnings, torch, cfck
from cfck.torch import encode_message, load, save
tensor = torch.randn(600_000)
reason = cfck.cuda.why_not(0)
assert "the driver of cuda:0 cannot load the kernels" in reason and "error 209" in reason, reason
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert save({"w": tensor.to("cuda:0")}) == save({"w": tensor})
    assert encode_message(tensor.to("cuda:0")) == encode_message(tensor)
    assert torch.equal(load(save({"w": tensor}), device="cuda:0")["w"].cpu(), tensor)
said = [str(w.message) for w in caught if w.category is cfck.DeviceWarning]
assert len(said) == 2 and "encoded on the host" in said[0] and "decoded on" in said[1], said
"""
    run_on_fake_device("-c", program, settings="fail=ModuleLoadData:0:209")


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
