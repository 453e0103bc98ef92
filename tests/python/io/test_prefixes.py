"""Names of files and models that differ by a prefix."""

import pytest
import torch
from cfck._common.text import printable
from cfck.torch import compressed, load_file, load_model, save_file
from torch import nn


def follow(advice, path, monkeypatch):
    """Does what an error says, and returns the file that comes of it."""
    call = advice.partition("rename them with ")[2].removesuffix(" and load that file")
    monkeypatch.chdir(path.parent)
    eval(call, {"save_file": save_file, "load_file": load_file, "path": path})
    return path.parent / "renamed.cfck"


def two_layers(width=4):
    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))


@pytest.mark.parametrize(
    "prefix",
    ["module.", "_orig_mod.", "module._orig_mod.", "model.", 'a"b\\.', "\x1b[31m.", "größe."],
)
def test_prefixes_in_the_file(path, prefix, monkeypatch):
    model = two_layers()
    save_file({prefix + name: tensor for name, tensor in model.state_dict().items()}, path)
    with pytest.raises(RuntimeError, match="the names differ by a prefix only") as caught:
        load_model(model, path)
    assert f"those of the file begin with `{printable(prefix)}`" in str(caught.value)
    assert str(caught.value).replace("\n", "").isprintable()
    load_model(two_layers(), follow(str(caught.value), path, monkeypatch))


def test_prefixes_beside_the_state_of_an_optimizer(path, monkeypatch):
    model = two_layers()
    state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    save_file({**state, "optimizer.state.0.step": torch.zeros(())}, path)
    with pytest.raises(RuntimeError, match="4 of the names differ by a prefix only") as caught:
        load_model(two_layers(), path)
    with torch.device("meta"):
        loaded = two_layers()
    load_model(loaded, follow(str(caught.value), path, monkeypatch))
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters()))


@pytest.mark.parametrize("prefix", ["module", "_orig_mod"])
def test_prefixes_in_the_model(path, prefix, monkeypatch):
    save_file(two_layers().state_dict(), path)
    model = nn.ModuleDict({prefix: two_layers()})
    with pytest.raises(RuntimeError, match=f"those of the model begin with `{prefix}.`") as caught:
        load_model(model, path)
    assert f"load the file into model.{prefix}, or rename them with " in str(caught.value)
    load_model(model, follow(str(caught.value), path, monkeypatch))


def test_prefixes_on_both_sides(path):
    save_file({f"module.{n}": t for n, t in two_layers().state_dict().items()}, path)
    model = nn.ModuleDict({"net": two_layers()})
    with pytest.raises(RuntimeError, match="begin with `module.`, those of the model with `net.`"):
        load_model(model, path)


def test_prefixes_within_names(path):
    save_file(two_layers().state_dict(), path)
    model = two_layers()
    model[1] = nn.ModuleDict({"_orig_mod": model[1]})
    with pytest.raises(RuntimeError, match="prefix"):
        load_model(model, path)


def test_prefixes_of_models_that_run_from_a_file(path, monkeypatch):
    model = two_layers(64)
    save_file({"module." + n: t for n, t in model.state_dict().items()}, path)
    with pytest.raises(RuntimeError, match="those of the file begin with `module.`") as caught:
        compressed(two_layers(64), path)
    streamed = compressed(two_layers(64), follow(str(caught.value), path, monkeypatch))
    assert torch.equal(streamed(torch.ones(64)), model(torch.ones(64)))


@pytest.mark.parametrize("names", [["2.weight", "2.bias"], ["x"], []])
def test_other_names_have_no_prefix(path, names):
    state = two_layers().state_dict()
    save_file({**dict(list(state.items())[:2]), **{n: torch.zeros(4) for n in names}}, path)
    with pytest.raises(RuntimeError) as caught:
        load_model(two_layers(), path)
    assert "prefix" not in str(caught.value)
