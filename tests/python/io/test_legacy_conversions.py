"""Files that PyTorch wrote before 1.6 are converted with all that is in them."""

import pathlib
import subprocess
import sys

import cfck
import pytest
import torch
from cfck.torch import load_checkpoint, load_file, save_checkpoint, save_file, save_model
from conftest import assert_same, weights

PROGRAM = pathlib.Path(sys.executable).parent / "cfck-convert"


def run(path):
    """Converts a file, to one beside it."""
    subprocess.run([PROGRAM, "-f", path], capture_output=True, check=True)


@pytest.fixture(params=["plain", 'it\'s "my" model {0} \\n ü', "\udcff\n"])
def folder(request, tmp_path):
    path = tmp_path / request.param
    path.mkdir()
    return path


def save_legacy(value, path):
    """Saves a file as PyTorch did before 1.6."""
    torch.save(value, path, _use_new_zipfile_serialization=False)


def training():
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for _ in range(2):
        optimizer.zero_grad()
        model(weights(5, 8)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler


def test_an_optimizer_and_a_state_dict(folder):
    model, optimizer, scheduler = training()
    whole = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 2}
    save_legacy(whole, folder / "optimizer.pt")
    run(folder / "optimizer.pt")
    assert sorted(path.name for path in folder.iterdir()) == ["optimizer.cfck", "optimizer.pt"]
    loaded = load_checkpoint(folder / "optimizer.cfck")
    assert loaded["epoch"] == 2 and loaded["scheduler"] == whole["scheduler"]
    assert loaded["optimizer"]["param_groups"] == whole["optimizer"]["param_groups"]
    for number, state in whole["optimizer"]["state"].items():
        for name, tensor in state.items():
            assert_same(loaded["optimizer"]["state"][number][name], tensor)
    training()[1].load_state_dict(loaded["optimizer"])

    save_legacy(model.state_dict(), folder / "model.bin")
    run(folder / "model.bin")
    tensors = load_file(folder / "model.cfck")
    assert list(tensors) == list(model.state_dict())
    for name, tensor in model.state_dict().items():
        assert_same(tensors[name], tensor)
    again = load_checkpoint(folder / "model.cfck")
    assert again._metadata == model.state_dict()._metadata


def test_files_of_other_kinds(tmp_path):
    for saved in (weights(3), [weights(3), 4], {"a": {"b": (weights(2), None)}}):
        save_legacy(saved, tmp_path / "x.pt")
        run(tmp_path / "x.pt")
        loaded = load_checkpoint(tmp_path / "x.cfck")
        assert str(loaded) == str(saved)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: save_file({}, path),
        lambda path: save_model(torch.nn.ReLU(), path),
        lambda path: save_checkpoint({"epoch": 3}, path),
        lambda path: cfck.numpy.save_file({}, path),
        lambda path: cfck.numpy.save_checkpoint([1.5], path),
    ],
)
def test_a_file_without_tensors_is_warned_of(write, path):
    with pytest.warns(cfck.EmptyFileWarning, match="model.cfck was saved without") as caught:
        write(path)
    assert caught[0].filename == __file__
    assert load_file(path) == {}


@pytest.mark.filterwarnings("error")
def test_one_tensor_is_enough(path):
    save_file({"a": torch.zeros(0)}, path)
    save_checkpoint({"a": 1, "b": weights(1)}, path)


def test_converting_a_checkpoint_to_safetensors_says_what_stays_behind(path):
    save_checkpoint({"w": weights(3), "epoch": 3}, path)
    done = subprocess.run([PROGRAM, path], capture_output=True, text=True, check=True)
    assert "warning: " in done.stderr and "plain values" in done.stderr
    quiet = subprocess.run([PROGRAM, "-qf", path], capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
