"""`python bench gpu` runs to its end on the fake driver: a real device is lent for minutes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DRIVER = Path(os.environ.get("CFCK_FAKE_DRIVER", ROOT / "build/tests/simt/libcfck_fake_driver.so"))
CODE = Path(os.environ.get("CFCK_FAKE_CODE_FOLDER", ROOT / "build/tests/simt/fake_code"))
DECODED = {"lossless BF16", "lossless F32", "direct F32, REL 1e-3", "direct BF16, REL 1e-2",
           "45 MB of BF16", "45 MB of BF16, chunks of 2^16"}  # fmt: skip

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")


def test_all_rows_are_measured(tmp_path):
    environment = {
        **os.environ,
        "CFCK_CUDA_DRIVER": str(DRIVER),
        "CFCK_ADAPTER_PATH": str(CODE),
        "PYTHONPATH": str(ROOT / "tests/simt/fake_torch"),
    }
    options = ["--quick", "--scale", "0.00002", "-o", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench"), "gpu", *options],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (page,) = tmp_path.glob("*.md")
    assert page.name == "gpu-fake-device-no-results.md"
    numbers = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert numbers["facts"]["kernels timed by"] == "profiler"
    assert {row["subject"] for row in numbers["decodes"]} == DECODED
    assert {row["subject"] for row in numbers["encodes"]} >= {"lossless BF16", "lossless F32"}
    ways = {row["way"] for row in numbers["saves"]}
    assert {"cfck, encoded by the device", "cfck, encoded by the host", "safetensors"} <= ways
    loaders = {row["loader"] for row in numbers["loads"]}
    assert {"cfck, decoded by the device", "cfck, decoded by the host"} <= loaders
    rows = {line["row"] for line in numbers["targets"]}
    assert rows == {"copies", "decode", "hashes", "memory", "small", "opening", "load", "encode",
                    "save", "lanes", "nvcomp"}  # fmt: skip
    # Goals are for whole sizes; what is skipped is a peer.
    assert {line["verdict"] for line in numbers["targets"]} <= {"info", "skipped"}
    assert {line["row"] for line in numbers["targets"] if line["verdict"] == "skipped"} <= {
        "load", "lanes", "nvcomp",
    }  # fmt: skip
