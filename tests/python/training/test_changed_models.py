"""Models, states and calls that change while a model is in training."""

import copy

import cfck.torch
import pytest
import torch
from cfck.errors import CfckError, InvalidArgumentError
from cfck.train import SpectralModel, spectral
from torch import nn
from torch.nn.utils import parametrize
from trained_models import images, network, same, train

pytestmark = pytest.mark.usefixtures("one_thread")


class _WithPositions(nn.Module):
    """A weight of the module itself, not of a layer."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(32, 16))
        self.layer = nn.Linear(16, 32)

    def forward(self, x):
        return self.layer(x + self.positions)


def _bits(state: dict) -> dict:
    return {name: t.clone() if isinstance(t, torch.Tensor) else t for name, t in state.items()}


def _assert_same_states(left: dict, right: dict) -> None:
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert same(tensor, right[name]), name


def test_compiled_models_are_the_models_in_them(tmp_path):
    torch.manual_seed(1)
    plain = _WithPositions()
    compiled = torch.compile(copy.deepcopy(plain), backend="eager")
    q, of_plain = spectral(compiled, bits=4), spectral(plain, bits=4)
    assert [place.name for place in q.places] == ["positions", "layer.weight"]
    assert q.fit_rate() == of_plain.fit_rate() == SpectralModel(compiled).fit_rate()
    x = torch.randn(32, 16)
    assert same(compiled(x), plain(x))
    q.finish()
    q.save(tmp_path / "model.cfck")
    other = _WithPositions()
    cfck.torch.load_model(other, tmp_path / "model.cfck")
    assert same(other(x), compiled(x))
    q.remove()
    assert not parametrize.is_parametrized(q.model)


@pytest.mark.filterwarnings("error::cfck.RuleWarning")
def test_layers_that_are_compiled_have_one_name_each(tmp_path):
    model = network()
    x = images(8)
    model[0] = torch.compile(model[0], backend="eager")
    q = spectral(model, bits=4)
    assert [place.names for place in q.places] == [
        ["0._orig_mod.weight"],
        ["3.weight"],
        ["7.weight"],
    ]
    model[3] = torch.compile(model[3], backend="eager")  # afterwards
    again = SpectralModel(model)
    assert [place.name for place in again.places][1:] == ["3._orig_mod.weight", "7.weight"]
    train(again, 2)
    again.finish()
    again.save(tmp_path / "model.cfck")
    other = network(seed=2)
    other[0], other[3] = (torch.compile(other[i], backend="eager") for i in (0, 3))
    cfck.torch.load_model(other, tmp_path / "model.cfck")
    assert same(other.eval()(x), model.eval()(x))


def test_targets_that_lossless_weights_exceed():
    q = spectral(network(), bits=6, include=["0.weight"])
    with pytest.raises(InvalidArgumentError, match=r"lossless take 2\d\.\d+ bits per weight"):
        q.target(bits_per_weight=2, by=10)
    q.target(bits_per_weight=31, by=10)


def test_the_advice_for_a_file_that_is_too_small():
    q = spectral(network(), bits=2)
    q.target(bits_per_weight=3, by=1)
    train(q, 1)
    with pytest.warns(UserWarning, match="start from a higher rate"):
        q.finish()


def test_scores_that_are_none():
    q = spectral(network(), bits=3)
    train(q, 1)
    with pytest.raises(InvalidArgumentError, match="evaluate returned NaN"):
        q.finish(lambda model: float("nan"))
    q.finish(lambda model: 1.0)


def test_models_in_training_say_how_to_go_on():
    model = network()
    spectral(model)
    with pytest.raises(InvalidArgumentError, match=r"the handle .*q\.remove\(\)"):
        spectral(model)


def test_something_is_learned():
    with pytest.raises(InvalidArgumentError, match="learn has one or both"):
        spectral(network(), learn=())


def test_describe_names_the_weight_that_was_used():
    q = spectral(network(), bits=6)
    q.target(bits_per_weight=2, by=4)
    train(q, 4, weight=None)
    assert f"rate weight {q.history[-1][2]:.4g}" in q.describe()


@pytest.mark.parametrize("end", ["snap", "finish"])
def test_earlier_states_are_trained_on(end):
    q = spectral(network(), bits=4)
    train(q, 2)
    before = copy.deepcopy(q.training_state_dict())
    learned = [name for name, p in q.model.named_parameters() if p.requires_grad]
    getattr(q, end)()
    after = [name for name, p in q.model.named_parameters() if p.requires_grad]
    assert (after == learned) == (end == "snap")
    assert all(bool(place.weight.is_snapped) for place in q.places)
    q.load_training_state_dict(before)
    assert [name for name, p in q.model.named_parameters() if p.requires_grad] == learned
    assert not any(bool(place.weight.is_snapped) for place in q.places)
    values = [p.detach().clone() for p in q.parameters()]
    train(q, 2)
    assert all(not same(p, v) for p, v in zip(q.parameters(), values, strict=True))


def _without_a_bias(state):
    del state["3.bias"]


def _with_another_shape(state):
    state["3.bias"] = torch.zeros(5)


def _with_words(state):
    state["3.bias"] = "0"


def _with_tables_of_nothing(state):
    state["0.parametrizations.weight.0.tables"].fill_(float("nan"))


def _with_huge_steps(state):
    state["0.parametrizations.weight.0.columns"].fill_(1e30)


def _with_complex_weights(state):
    name = "0.parametrizations.weight.original"
    state[name] = state[name].to(torch.complex64)


def _with_integers(state):
    state["3.bias"] = state["3.bias"].int()


def _with_no_trellis(state):
    state["0.parametrizations.weight.0.states"].fill_(-1)


def _with_bins_of_no_table(state):
    state["0.parametrizations.weight.0.bins"].fill_(200)


def _with_integers_of_a_trellis(state):
    name = "0.parametrizations.weight.0."
    state[name + "trellised"] = torch.zeros_like(state[name + "bins"], dtype=torch.int32)


def _with_a_trellis_on_meta(state):
    name = "0.parametrizations.weight.0."
    state[name + "trellised"] = torch.zeros_like(state[name + "bins"], device="meta").float()


@pytest.mark.parametrize(
    "damage",
    [
        _with_bins_of_no_table,
        _with_integers_of_a_trellis,
        _with_a_trellis_on_meta,
        _without_a_bias,
        _with_another_shape,
        _with_words,
        _with_tables_of_nothing,
        _with_huge_steps,
        _with_complex_weights,
        _with_integers,
        _with_no_trellis,
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(damage):
    q, other = spectral(network(), bits=4), spectral(network(seed=2), bits=4)
    train(other, 2)
    other.snap()
    state = copy.deepcopy(other.training_state_dict())
    damage(state["model"])
    before = _bits(q.model.state_dict())
    with pytest.raises(InvalidArgumentError, match="of another model|makes no sense"):
        q.load_training_state_dict(state)
    _assert_same_states(q.model.state_dict(), before)
    assert all(p.requires_grad for p in q.parameters())
    train(q, 1)


class _WithWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def get_extra_state(self):
        return {"words": ["a"]}

    def set_extra_state(self, state):
        self.words = state


def test_extra_state_that_no_file_has_is_not_lost_in_silence(tmp_path):
    with pytest.warns(UserWarning, match=r"`_extra_state` is no tensor.*refuse"):
        q = spectral(_WithWords(), bits=4)
    q.finish()
    assert q.state_dict()["_extra_state"] == {"words": ["a"]}
    with pytest.raises((TypeError, CfckError), match="_extra_state"):
        q.save(tmp_path / "model.cfck")
    assert not (tmp_path / "model.cfck").exists()


@pytest.mark.parametrize("call", [1, 2])
def test_a_snap_that_is_interrupted_can_be_repeated(call):
    q = spectral(network(), bits=6)
    q.target(bits_per_weight=3, by=2)
    train(q, 3, weight=None)
    state = copy.deepcopy(q.training_state_dict())
    q.snap()
    wanted = q.fit_rate()
    q.load_training_state_dict(state)
    steps = [p.detach().clone() for p in q.parameters()]
    calls, fit_rate = [], q.fit_rate

    def interrupted():
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return fit_rate()

    q.fit_rate = interrupted
    with pytest.raises(KeyboardInterrupt):
        q.snap()
    assert all(same(p, v) for p, v in zip(q.parameters(), steps, strict=True))
    assert all(p.requires_grad for p in q.parameters())
    q.fit_rate = fit_rate
    q.snap()
    assert q.fit_rate() == wanted


class _Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def test_layers_that_get_other_names(tmp_path):
    q = spectral(network(), bits=4)
    q.model.insert(1, nn.Dropout())
    for call in (q.snap, q.finish, lambda: q.save(tmp_path / "model.cfck")):
        with pytest.raises(InvalidArgumentError, match="or have other names"):
            call()
    SpectralModel(q.model).save(tmp_path / "model.cfck")


def test_layers_that_change_after_spectral(tmp_path):
    model = network()
    q = spectral(model, bits=4)
    parametrize.register_parametrization(model[0], "weight", _Doubled())
    with pytest.raises(InvalidArgumentError, match=r"`0\.weight` was parametrised again"):
        q.save(tmp_path / "model.cfck")
    model[0] = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    with pytest.raises(InvalidArgumentError, match="layers of the model were replaced|again"):
        q.finish()
    q = SpectralModel(model)
    parametrize.remove_parametrizations(model[3], "weight")
    with pytest.raises(InvalidArgumentError, match=r"`3\.weight` is no longer parametrised"):
        q.finish()


def test_weights_keep_their_layout(tmp_path):
    torch.manual_seed(1)
    model = network().to(memory_format=torch.channels_last)
    model[7].weight = nn.Parameter(torch.randn(128, 10).t())
    strides = model[0].weight.stride(), model[7].weight.stride()
    plain = copy.deepcopy(model)
    q = spectral(model, bits=4)
    assert (model[0].weight.stride(), model[7].weight.stride()) == strides
    train(q, 2)
    q.finish()
    q.save(tmp_path / "model.cfck")
    cfck.torch.load_model(plain, tmp_path / "model.cfck")
    model.eval(), plain.eval()
    for x in (images(), images().to(memory_format=torch.channels_last)):
        assert same(model(x), plain(x))
    q.remove()
    assert (model[0].weight.stride(), model[7].weight.stride()) == strides


def test_a_start_that_fails_half_way_changes_nothing(monkeypatch):
    model = network()
    before = _bits(model.state_dict())
    calls, register = [], parametrize.register_parametrization

    def failing(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError
        return register(*args, **kwargs)

    monkeypatch.setattr(parametrize, "register_parametrization", failing)
    with pytest.raises(MemoryError):
        spectral(model)
    _assert_same_states(model.state_dict(), before)
    monkeypatch.undo()
    spectral(model)
