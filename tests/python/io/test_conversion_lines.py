"""The lines that cfck convert prints for files which only Python can read do what they say."""

import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from cfck.torch import load_file
from conftest import assert_same, weights


def printed_lines(path):
    failed = subprocess.run(["cfck", "convert", path], capture_output=True)
    assert failed.returncode == 6
    lines = failed.stderr.decode().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(("import ", "from ")))
    return lines[start:]


def run(path):
    """Runs code as if it were typed into Python, line by line."""
    names: dict = {}
    for line in printed_lines(path):
        exec(compile(line, "<typed>", "single"), names)


@pytest.fixture(params=["plain", 'it\'s "my" model {0} \\n ü', "\udcff\n"])
def folder(request, tmp_path):
    path = tmp_path / request.param
    path.mkdir()
    return path


ARRAY = np.arange(6, dtype=np.float32)


class Reader:
    """A stand-in for the readers of other projects, which these tests do not need."""

    def __init__(self, path):
        self.paths = [path]
        tensor = types.SimpleNamespace(name="w", data=ARRAY, tensor_type=0)
        self.tensors = self.initializer = [tensor]
        self.graph = self

    def get_variable_to_dtype_map(self):
        return {"w": "float", "text": "string"}

    def get_tensor(self, name):
        assert name == "w"
        return ARRAY


def test_files_of_gguf(folder, monkeypatch):
    opened = []
    module = types.SimpleNamespace(
        GGUFReader=lambda path: opened.append(path) or Reader(path),
        dequantize=lambda data, tensor_type: data,
    )
    monkeypatch.setitem(sys.modules, "gguf", module)
    (folder / "m.gguf").write_bytes(b"GGUF\x03\0\0\0")
    run(folder / "m.gguf")
    assert opened == [str(folder / "m.gguf")]
    assert_same(load_file(folder / "m.cfck")["w"], torch.from_numpy(ARRAY))


def test_models_of_onnx(folder, monkeypatch):
    opened = []
    module = types.SimpleNamespace(
        load=lambda path: opened.append(path) or Reader(path),
        numpy_helper=types.SimpleNamespace(to_array=lambda tensor: tensor.data),
    )
    monkeypatch.setitem(sys.modules, "onnx", module)
    (folder / "m.onnx").write_bytes(b"\x08\x07\x12\x07pytorch\x1a\x03")
    run(folder / "m.onnx")
    assert opened == [str(folder / "m.onnx")]
    assert_same(load_file(folder / "m.cfck")["w"], torch.from_numpy(ARRAY))


def test_checkpoints_of_tensorflow(folder, monkeypatch):
    opened = []
    load = types.SimpleNamespace(load_checkpoint=lambda p: opened.append(p) or Reader(p))
    module = types.SimpleNamespace(train=load, string="string")
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    (folder / "m.ckpt.index").write_bytes(bytes(range(64)))
    run(folder / "m.ckpt.index")
    assert opened == [str(folder / "m.ckpt")]
    (written,) = [path for path in folder.iterdir() if path.suffix == ".cfck"]
    assert_same(load_file(written)["w"], torch.from_numpy(ARRAY))


def test_distributed_checkpoints(folder, monkeypatch):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    parts = folder / "parts"
    state = {"w": weights(6), "b": weights(2, 3)}
    checkpoint.save(state, checkpoint_id=parts, no_dist=True)
    run(parts)
    loaded = load_file(folder / "parts.pt")
    assert set(loaded) == set(state)
    for name, tensor in loaded.items():
        assert_same(tensor, state[name])
    # A file of it says the same, and writes to the present folder.
    monkeypatch.chdir(folder)
    run(next(parts.glob("*.distcp")))
    assert set(load_file(folder / "model.pt")) == set(state)
