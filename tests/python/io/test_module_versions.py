"""Modules read the version of their state that a file has."""

import json

import cfck
import cfck.torch
import pytest
import safetensors.torch
import torch
from cfck.torch import load_model, save_file, save_model
from test_pytorch_files import convert
from torch import nn

KEY = "cfck.module_versions"


class Scaled(nn.Module):
    """Like MNASNet of torchvision: it takes state without a version for that of version 1."""

    _version = 2

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.seen = None

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        self.seen = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def metadata_of(path):
    with cfck.safe_open(path, "pt") as file:
        return file.metadata() or {}


def files(folder):
    model = Scaled()
    torch.save(model.state_dict(), folder / "a.pt")
    assert convert(folder / "a.pt", folder / "a.cfck").returncode == 0
    assert convert(folder / "a.pt", folder / "a.safetensors").returncode == 0
    save_model(model, folder / "b.cfck", metadata={"k": "v"})
    save_file(model.state_dict(), folder / "c.cfck")
    return [folder / name for name in ("a.pt", "a.cfck", "a.safetensors", "b.cfck", "c.cfck")]


def test_versions_reach_the_modules(tmp_path):
    for path in files(tmp_path):
        assert json.loads(metadata_of(path)[KEY]) == {"": 2, "layers.1": 2}, path
        model = Scaled()
        load_model(model, path)
        assert model.seen == 2, path
    assert metadata_of(tmp_path / "b.cfck")["k"] == "v"


def test_versions_of_compressed_models(tmp_path):
    save_model(Scaled(), tmp_path / "a.cfck")
    assert cfck.torch.compressed(Scaled(), tmp_path / "a.cfck").seen == 2


def test_files_without_versions_are_as_before(tmp_path):
    safetensors.torch.save_file(Scaled().state_dict(), tmp_path / "a.safetensors")
    model = Scaled()
    load_model(model, tmp_path / "a.safetensors")
    assert model.seen is None
    save_model(nn.Linear(2, 3), tmp_path / "b.cfck")
    assert KEY not in metadata_of(tmp_path / "b.cfck")


def test_versions_are_those_of_the_state_that_is_saved(tmp_path):
    """The metadata may come from another file, and what it says does not count."""
    stale = {KEY: '{"":7}', "k": "v"}
    save_model(Scaled(), tmp_path / "a.cfck", metadata=stale)
    assert json.loads(metadata_of(tmp_path / "a.cfck")[KEY]) == {"": 2, "layers.1": 2}
    save_file(nn.Linear(2, 3).state_dict(), tmp_path / "b.cfck", metadata=stale)
    assert metadata_of(tmp_path / "b.cfck") == {"k": "v"}
    save_file(dict(Scaled().state_dict()), tmp_path / "c.cfck", metadata=stale)
    assert metadata_of(tmp_path / "c.cfck") == stale


@pytest.mark.parametrize("text", ["", "[1]", '{"a":"b"}', '{"a":true}', "[" * 100_000])
def test_versions_that_are_none(tmp_path, text):
    save_file(dict(Scaled().state_dict()), tmp_path / "a.cfck", metadata={KEY: text})
    with pytest.raises(cfck.errors.CorruptError, match="module_versions"):
        load_model(Scaled(), tmp_path / "a.cfck")
