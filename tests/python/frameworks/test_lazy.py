"""Parameters and buffers of lazy modules have no values before the first input."""

import cfck
import pytest
import torch
from cfck.torch import load_model, save, save_checkpoint, save_file, save_model
from conftest import weights


def lazy_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LazyLinear(5))


LAZY = {
    "parameter": torch.nn.parameter.UninitializedParameter(),
    "buffer": torch.nn.parameter.UninitializedBuffer(),
}


@pytest.mark.parametrize("kind", LAZY)
@pytest.mark.parametrize(
    "write",
    [
        lambda tensor, path: save_file({"w": weights(2), "lazy.w": tensor}, path),
        lambda tensor, path: save({"lazy.w": tensor}),
        lambda tensor, path: cfck.update(path, {"lazy.w": tensor}),
    ],
    ids=["save_file", "save", "update"],
)
def test_values_that_are_not_there_are_refused(kind, write, path):
    save_file({"w": weights(3)}, path)
    before = path.read_bytes()
    with pytest.raises(cfck.UnsupportedError, match="`lazy.w` is an uninitialised.*run the model"):
        write(LAZY[kind], path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", LAZY)
def test_one_tensor(kind):
    with pytest.raises(cfck.UnsupportedError, match="uninitialised.*run the model"):
        cfck.compress(LAZY[kind])


def test_models(path):
    model = lazy_model()
    with pytest.raises(cfck.UnsupportedError, match="`1.weight` is an uninitialised"):
        save_model(model, path)
    with pytest.raises(cfck.InvalidArgumentError, match=r"\['1.weight'\] is an uninitialised"):
        save_checkpoint({"model": model.state_dict()}, path)
    assert not path.exists()
    model(torch.zeros(1, 3))
    save_model(model, path)
    again = lazy_model()
    load_model(again, path)  # gives the uninitialised ones their shapes
    assert torch.equal(again[1].weight, model[1].weight)
