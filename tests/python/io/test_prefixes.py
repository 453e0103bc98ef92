"""Names of files and models that differ by a prefix."""

import pytest
import torch
from cfck._common.text import printable
from cfck.torch import compressed, load_file, load_model, save_file
from torch import nn


def two_layers(width=4):
    return nn.Sequential(nn.Linear(width, width), nn.Linear(width, width))


@pytest.mark.parametrize(
    "prefix",
    ["module.", "_orig_mod.", "module._orig_mod.", "model.", 'a"b\\.', "\x1b[31m.", "größe."],
)
def test_prefixes_in_the_file(path, prefix):
    model = two_layers()
    save_file({prefix + name: tensor for name, tensor in model.state_dict().items()}, path)
    with pytest.raises(RuntimeError, match="the names differ by a prefix only") as caught:
        load_model(model, path)
    assert f"those of the file begin with `{printable(prefix)}`" in str(caught.value)
    assert str(caught.value).replace("\n", "").isprintable()
    remedy = str(caught.value).rpartition("rename them, ")[2]
    eval(remedy, {"model": model, "load_file": load_file, "path": path})


@pytest.mark.parametrize("prefix", ["module", "_orig_mod"])
def test_prefixes_in_the_model(path, prefix):
    save_file(two_layers().state_dict(), path)
    model = nn.ModuleDict({prefix: two_layers()})
    with pytest.raises(RuntimeError, match=f"those of the model begin with `{prefix}.`") as caught:
        load_model(model, path)
    assert f"load the file into model.{prefix}, or rename them, " in str(caught.value)
    remedy = str(caught.value).rpartition("rename them, ")[2]
    eval(remedy, {"model": model, "load_file": load_file, "path": path})


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


def test_prefixes_of_models_that_run_from_a_file(path):
    model = two_layers(64)
    save_file({"module." + n: t for n, t in model.state_dict().items()}, path)
    with pytest.raises(RuntimeError, match="those of the file begin with `module.`"):
        compressed(model, path)


@pytest.mark.parametrize("names", [["2.weight", "2.bias"], ["x"], []])
def test_other_names_have_no_prefix(path, names):
    state = two_layers().state_dict()
    save_file({**dict(list(state.items())[:2]), **{n: torch.zeros(4) for n in names}}, path)
    with pytest.raises(RuntimeError) as caught:
        load_model(two_layers(), path)
    assert "prefix" not in str(caught.value)
