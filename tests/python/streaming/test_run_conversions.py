"""Moving, copying, storing and compiling models that run from a file."""

import copy
import pickle

import cfck
import pytest
import torch
from cfck.torch import compressed, load_file, save_model
from conftest import assert_same
from streamed_models import assert_equal_outputs, pair, scrambled, two_layers
from torch import nn


@pytest.fixture
def models(path):
    """A model that runs from a file, and the loaded one."""
    return pair(nn.Sequential(nn.Embedding(200, 64), *two_layers()), path)


IDS = torch.arange(150).reshape(10, 15)


def test_dtypes_follow_after_decoding(models):
    streamed, expected = models
    for method in ("half", "float", "bfloat16", "double", "float"):
        assert getattr(streamed, method)() is streamed
        getattr(expected, method)()
        for name, parameter in streamed.named_parameters():
            assert parameter.dtype == expected.get_parameter(name).dtype, name
        assert streamed[1].weight.dtype == expected[1].weight.dtype
        assert_equal_outputs(streamed, expected, IDS)
    assert streamed.to(torch.float64)[0](IDS).dtype == torch.float64


def test_a_part_may_have_another_dtype(models):
    streamed, expected = models
    streamed[3].double(), expected[3].double()
    assert streamed[1].weight.dtype == torch.float32
    assert_same(streamed[3].weight, expected[3].weight.detach())


def test_ties_survive_conversions(path):
    model = nn.ModuleDict({"a": nn.Linear(64, 64), "b": nn.Linear(64, 64)})
    model["b"].weight = model["a"].weight
    streamed, expected = pair(model, path)
    streamed.half(), expected.half()
    assert streamed["a"]._parameters["weight"] is streamed["b"]._parameters["weight"]
    streamed["a"].float(), expected["a"].float()
    for name in ("a", "b"):
        assert_same(streamed[name].weight, expected[name].weight.detach())


def test_the_device_meta(models):
    streamed, _ = models
    streamed.to("meta")
    assert streamed[1].weight.is_meta
    assert all(parameter.is_meta for parameter in streamed.parameters())
    assert streamed(IDS.to("meta")).shape == (10, 15, 64)
    with pytest.raises(RuntimeError):
        streamed.to("cuda:99")
    assert streamed.to_empty(device="cpu")[1].weight.device.type == "cpu"


def test_copies_share_the_file(models):
    streamed, expected = models
    streamed(IDS)
    other = copy.deepcopy(streamed)
    assert other[1]._cfck_supply is other[3]._cfck_supply is not streamed[1]._cfck_supply
    assert other[1]._cfck_supply.archive is streamed[1]._cfck_supply.archive
    assert_equal_outputs(other, expected, IDS)
    other.half()
    assert_equal_outputs(streamed, expected, IDS)
    assert_equal_outputs(other, copy.deepcopy(expected).half(), IDS)
    shallow = copy.copy(streamed[1])
    assert_same(shallow.weight, expected[1].weight.detach())
    assert isinstance(copy.deepcopy(streamed[1]), nn.Linear)


def test_tied_weights_stay_tied_in_copies(path):
    model = nn.ModuleDict({"a": nn.Linear(64, 64), "b": nn.Linear(64, 64)})
    model["b"].weight = model["a"].weight
    streamed, _ = pair(model, path)
    other = copy.deepcopy(streamed)
    assert other["a"]._parameters["weight"] is other["b"]._parameters["weight"]
    assert other["a"]._parameters["weight"] is not streamed["a"]._parameters["weight"]


def test_pickling_is_refused(models, tmp_path):
    streamed, _ = models
    for store in (pickle.dumps, lambda m: torch.save(m, tmp_path / "m.pt")):
        with pytest.raises(cfck.UnsupportedError, match=r"save model.state_dict\(\)"):
            store(streamed)
        with pytest.raises(cfck.UnsupportedError, match="cannot be pickled"):
            store(list(streamed.parameters()))


def test_state_dicts_are_ordinary(models, tmp_path):
    streamed, expected = models
    state = streamed.state_dict()
    torch.save(state, tmp_path / "m.pt")
    stored = torch.load(tmp_path / "m.pt", weights_only=True)
    save_model(streamed, tmp_path / "m.cfck")
    saved = load_file(tmp_path / "m.cfck")
    for name, tensor in expected.state_dict().items():
        assert type(state[name]) is torch.Tensor
        for other in (state[name], stored[name], saved[name]):
            assert_same(other, tensor)
    fresh = nn.Sequential(nn.Embedding(200, 64), *two_layers())
    fresh.load_state_dict(state)
    assert_equal_outputs(fresh, expected, IDS)


def test_gradients_of_weights_are_refused(models):
    streamed, expected = models
    parameter = streamed[1]._parameters["weight"]
    changes = [
        lambda: parameter.requires_grad_(),
        lambda: setattr(parameter, "requires_grad", True),
        lambda: streamed.requires_grad_(True),
    ]
    for change in changes:
        with pytest.raises(
            cfck.UnsupportedError, match="is compressed and cannot have gradients"
        ) as caught:
            change()
        assert caught.value.record in ("0.weight", "1.weight")
    assert streamed.requires_grad_(False) is streamed
    assert_equal_outputs(streamed, expected, IDS)


def test_values_decoded_in_inference_mode_serve_gradients(models):
    streamed, expected = models
    with torch.inference_mode():
        weight = streamed[1].weight
        rows = streamed[0](IDS)
    assert not weight.is_inference() and not rows.is_inference()
    x = torch.randn(3, 64, requires_grad=True)
    gradients = [torch.autograd.grad(m[1](x).sum(), x)[0] for m in (streamed, expected)]
    assert_same(*gradients)


def test_functional_calls_replace_weights(models):
    streamed, expected = models
    other = {"1.weight": torch.ones(128, 64)}
    call = torch.func.functional_call
    assert_same(call(streamed, other, IDS), call(expected, other, IDS))
    assert_equal_outputs(streamed, expected, IDS)


def test_it_says_what_is_compressed(models):
    streamed, _ = models
    text = repr(streamed)
    assert "Linear(in_features=64, out_features=128, bias=True, compressed)" in text
    assert "Placeholder('1.weight', shape=[128, 64]" in repr(streamed[1]._parameters["weight"])


@pytest.mark.filterwarnings("ignore")
def test_graphs_break_where_weights_are_decoded(models):
    streamed, expected = models
    run = torch.compile(streamed, backend="eager")
    with torch.no_grad():
        for ids in (IDS, IDS + 7, IDS):
            assert_same(run(ids), expected(ids))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="torch.compiler.disable"):
        torch.compile(streamed, backend="eager", fullgraph=True)(IDS)
    torch._dynamo.reset()
    assert_equal_outputs(streamed, expected, IDS)


@pytest.mark.filterwarnings("ignore")
def test_traces_are_refused(models):
    streamed, expected = models
    with pytest.raises(cfck.UnsupportedError, match="torch.jit.trace"):
        torch.jit.trace(streamed, IDS)
    with pytest.raises(cfck.UnsupportedError, match="torch.jit.trace"):
        torch.jit.trace(streamed[1], torch.randn(3, 64))
    assert_equal_outputs(streamed, expected, IDS)


def test_default_devices_and_dtypes_do_not_matter(path):
    model = nn.Sequential(nn.Embedding(200, 64), *two_layers())
    save_model(model, path)
    expected = copy.deepcopy(model)
    with torch.device("meta"):
        streamed = compressed(scrambled(model.to("cpu")), path)
        values = streamed[1].weight
    assert_same(values, expected[1].weight.detach())
    assert_equal_outputs(streamed, expected, IDS)
