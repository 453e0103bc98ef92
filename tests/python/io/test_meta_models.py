"""Models on the device meta, which has no values, and buffers that are not in files."""

import pytest
import torch
from cfck._io import meta
from cfck.torch import compressed, load_file, load_model, save_file, save_model
from conftest import assert_same, shares_memory
from torch import nn


class Tagged(nn.Parameter):
    """A parameter of a class of its own."""


class Model(nn.Module):
    """Tied weights, a frozen one, one of another class, views, buffers of both kinds."""

    def __init__(self, persistent=True):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(8, 4)
        self.conv = nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen = nn.Parameter(torch.randn(3), requires_grad=False)
        self.tagged = Tagged(torch.randn(2, 2))
        self.tagged.tag = "kept"
        self.lstm = nn.LSTM(4, 4)
        both = torch.randn(6)
        self.register_buffer("both", both)
        self.register_buffer("part", both[3:])
        self.register_buffer("table", torch.arange(4.0), persistent=persistent)


def on_meta(**options):
    with torch.device("meta"):
        return Model(**options)


def assert_loaded(model, path):
    expected = load_file(path)
    state = model.state_dict()
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert tensor.device.type == "cpu"
        assert_same(tensor, expected[name])


@pytest.mark.filterwarnings("error")
def test_models_on_meta_get_values(path):
    save_model(Model(), path)
    model = on_meta()
    assert load_model(model, path) == (set(), [])
    assert_loaded(model, path)
    assert model.head.weight is model.embedding.weight
    assert shares_memory(model.both, model.part)
    assert not model.frozen.requires_grad and model.tagged.requires_grad
    assert type(model.tagged) is Tagged and model.tagged.tag == "kept"
    assert model.conv.weight.stride() == Model().conv.weight.stride()
    model.lstm(torch.ones(2, 1, 4))[0].sum().backward()
    assert model.lstm.weight_hh_l0.grad is not None


def test_parts_of_a_model_on_meta(path):
    save_model(Model(), path)
    model = on_meta()
    model.norm.to_empty(device="cpu")
    model.frozen = nn.Parameter(torch.zeros(3), requires_grad=False)
    kept = dict(model.named_parameters())["frozen"]
    load_model(model, path)
    assert_loaded(model, path)
    assert model.frozen is kept


def test_dtypes_are_those_of_the_model(path):
    save_model(Model().half(), path)
    model = on_meta()
    load_model(model, path)
    for name, tensor in load_file(path).items():
        wanted = model.state_dict()[name]
        assert_same(wanted, tensor.to(wanted.dtype))
    assert model.frozen.dtype == torch.float32


def test_what_the_file_lacks_stays_on_meta(path):
    state = Model().state_dict()
    del state["frozen"]
    save_file(state, path)
    model = on_meta()
    assert load_model(model, path, strict=False) == ({"frozen"}, [])
    assert model.frozen.is_meta and not model.tagged.is_meta
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "frozen"'):
        load_model(on_meta(), path)


def test_other_shapes_are_refused(path):
    save_file({**Model().state_dict(), "frozen": torch.zeros(4)}, path)
    model = on_meta()
    with pytest.raises(RuntimeError, match="size mismatch for frozen"):
        load_model(model, path)
    assert all(tensor.is_meta for tensor in model.state_dict().values())


def test_buffers_that_no_file_has(path):
    save_model(Model(persistent=False), path)
    model = on_meta(persistent=False)
    assert load_model(model, path, strict=False) == ({"table"}, [])
    assert model.table.is_meta and not model.tagged.is_meta
    model = on_meta(persistent=False)
    assert load_model(model, path) == ({"table"}, [])
    assert model.table.is_meta and not model.tagged.is_meta
    state = Model(persistent=False).state_dict()
    del state["frozen"]
    save_file(state, path)
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "frozen"$'):
        load_model(on_meta(persistent=False), path)


def test_values_that_only_the_file_keeps(path):
    """Older versions of a model kept a buffer that it makes itself now."""
    save_file({**Model().state_dict(), "table": torch.ones(4)}, path)
    model = Model(persistent=False)
    assert load_model(model, path) == (set(), [])
    assert_same(model.table, torch.arange(4.0))
    model = on_meta(persistent=False)
    assert load_model(model, path) == (set(), [])
    assert_same(model.table, torch.ones(4))


def test_models_that_run_from_a_file_with_such_values(path):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 64)
            self.register_buffer("table", torch.arange(4.0), persistent=False)

    save_file({**Table().state_dict(), "table": torch.ones(4)}, path)
    assert_same(compressed(Table(), path).table, torch.arange(4.0))
    with torch.device("meta"):
        model = Table()
    assert_same(compressed(model, path).table, torch.ones(4))


def test_names_that_a_module_translates(path):
    class Renamed(nn.Module):
        def __init__(self):
            super().__init__()
            self.new = nn.Parameter(torch.ones(3))

        def _load_from_state_dict(self, state, prefix, *rest):
            if prefix + "old" in state:
                state[prefix + "new"] = state.pop(prefix + "old")
            super()._load_from_state_dict(state, prefix, *rest)

    save_file({"old": torch.arange(3.0)}, path)
    with torch.device("meta"):
        model = Renamed()
    assert load_model(model, path) == (set(), [])
    assert_same(model.new.detach(), torch.arange(3.0))


def test_nothing_is_left_half_done_where_memory_ends(path, monkeypatch):
    """An error while memory is given takes back what was given before it."""
    save_model(Model(), path)
    given = []

    def memory_of(family, device, inner=meta._memory_of):
        given.append(family)
        if len(given) == 4:
            raise RuntimeError("no memory")
        return inner(family, device)

    monkeypatch.setattr(meta, "_memory_of", memory_of)
    model = on_meta()
    before = model.state_dict(keep_vars=True)
    with pytest.raises(RuntimeError, match="no memory"):
        load_model(model, path)
    after = model.state_dict(keep_vars=True)
    assert all(tensor is before[name] for name, tensor in after.items())
