"""What training does with what it cannot use: errors, and nothing is lost."""

import contextlib
import copy

import cfck.torch
import pytest
import torch
from cfck.errors import CfckError, InvalidArgumentError, UnsupportedError
from cfck.train import SpectralModel, spectral
from torch import nn
from trained_models import images, network, same, train

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("block", [None, (8, 8)])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(tmp_path, block, value):
    q = spectral(nn.Linear(32, 16), block=block)
    q.bits_per_weight()
    with torch.no_grad():
        q.places[0].original()[0, 0] = value
    with contextlib.suppress(FloatingPointError):
        q.bits_per_weight().backward()  # between two fits: any number, or an error
    for call in (q.fit_rate, q.to_bytes, lambda: q.save(tmp_path / "model.cfck"), q.finish):
        with pytest.raises(FloatingPointError, match="`weight` holds NaN or infinities"):
            call()
    assert not (tmp_path / "model.cfck").exists()


def test_values_that_overflow(tmp_path):
    """Rounding to the next multiple of a step may lead beyond the largest number of a dtype."""
    layer = nn.Linear(32, 32).half()
    with torch.no_grad():
        layer.weight.fill_(65504.0)
    q = spectral(layer, bits=2.5)
    with torch.no_grad():
        q.places[0].weight.scale.fill_(15.2)
    assert torch.isinf(layer.weight).all()
    for call in (q.finish, q.to_bytes, lambda: q.save(tmp_path / "model.cfck")):
        with pytest.raises(FloatingPointError, match=r"`weight` holds values beyond"):
            call()
    assert not (tmp_path / "model.cfck").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_steps_that_are_not_finite(tmp_path, value):
    q = spectral(network(), bits=4)
    with torch.no_grad():
        q.places[1].weight.columns[0] = value
    before = [step.detach().clone() for step in q.parameters()]
    for call in (q.snap, q.fit_rate, q.to_bytes, lambda: q.save(tmp_path / "m.cfck"), q.finish):
        with pytest.raises(FloatingPointError, match=r"steps of weight `3\.weight`"):
            call()
    assert all(same(a, b) for a, b in zip(before, q.parameters(), strict=True))
    assert not any(bool(place.weight.is_snapped) for place in q.places)


def test_gradients_that_are_not_finite():
    """They make weights NaN through the optimizer; training ends when the rate is next fitted."""
    q = spectral(network(), bits=4)
    q.target(bits_per_weight=2, by=10)
    optimizer = train(q, 2, weight=None)
    hook = q.places[1].original().register_hook(lambda gradient: gradient * float("nan"))
    train(q, 1, weight=None, optimizer=optimizer)
    hook.remove()
    with pytest.raises(FloatingPointError, match="3.weight"):
        train(q, 20, weight=None, optimizer=optimizer)
    with pytest.raises(FloatingPointError, match="`3.weight` holds NaN"):
        q.finish()


def test_models_that_are_quantised_already():
    layers = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Linear(32, 16))
    quantised = torch.ao.quantization.quantize_dynamic(layers, {nn.Linear})
    before = list(quantised.state_dict())
    with pytest.raises(UnsupportedError, match="belongs to a quantised module"):
        spectral(quantised)
    assert list(quantised.state_dict()) == before


def test_operators_take_values_that_are_not_finite():
    operators, none = torch.ops.cfck, torch.empty(0)
    bins = torch.full((8, 32), 3, dtype=torch.uint8)
    for value in (float("nan"), float("inf"), -float("inf")):
        weights = torch.full((8, 32), value)
        for block in ([], [8, 8]):
            operands = (weights, torch.tensor(0.0), none, none, none)
            operators.coefficient_bits(*operands, bins, 0, block)
            operators.coefficient_bits_backward(torch.tensor(1.0), *operands, bins, 0, block)
            operators.quantise(*operands, block, 0.0)


def test_an_evaluation_that_fails_changes_nothing():
    q = spectral(network(), bits=3)
    train(q, 2)
    q.snap()
    before = q.training_state_dict()["model"]
    before = {name: tensor.clone() for name, tensor in before.items()}
    calls = []

    def evaluate(model):
        calls.append(model)
        if len(calls) == 2:
            raise RuntimeError("no data")
        return 1.0

    with pytest.raises(RuntimeError, match="no data"):
        q.finish(evaluate)
    after = q.training_state_dict()["model"]
    assert before.keys() == after.keys()
    assert all(same(before[name], after[name]) for name in before)
    assert not q.is_finished and all(place.original().requires_grad for place in q.places)
    q.finish()


def test_finish_tells_its_progress():
    q = spectral(network(), bits=3)
    told = []
    q.finish(
        lambda _: len(told),  # the last trellis is the best
        norm_batches=[images()],
        trellis_states=(4, 8),
        progress=lambda *what: told.append(what),
    )
    done, totals, names = zip(*told, strict=True)
    assert set(totals) == {1 + 2 * 7 + 1}
    assert list(done) == sorted(done) and done[0] == 0 and done[-1] == totals[0]
    for word in ("batch norms", "encoding with a trellis of 8", "evaluated a trellis of 4"):
        assert any(word in name for name in names), word
    told.clear()
    q = spectral(network(), bits=3)
    q.finish(progress=lambda *what: told.append(what))
    assert told == [(0, 1, "encoding"), (1, 1, "encoded")]
    with pytest.raises(TypeError, match="progress"):
        q.finish(progress=3)


@pytest.mark.parametrize(
    ("at", "norm_batches"),
    [
        ("batch norms", [images()]),
        ("evaluating", None),
        ("with a trellis", [images()]),
        ("evaluated a trellis", None),
        ("encoded", [images()]),
    ],
)
def test_progress_may_end_finish(at, norm_batches):
    q = spectral(network(), bits=3)
    train(q, 2)
    q.snap()
    before = copy.deepcopy(q.training_state_dict()["model"])
    calls = []

    def progress(done, total, name):
        if at in name and (at != "encoded" or done == total):  # the last word of all
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        q.finish(
            lambda _: calls.append(1) or len(calls), progress=progress, norm_batches=norm_batches
        )
    after = q.training_state_dict()["model"]
    assert before.keys() == after.keys()
    assert all(same(before[name], after[name]) for name in before)
    assert not q.is_finished
    train(q, 1)
    q.finish()


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([torch.ones(2, 5, 12, 12)], RuntimeError),
        ([torch.full((2, 3, 12, 12), float("nan"))], FloatingPointError),
        (torch.ones(2, 3, 12, 12), InvalidArgumentError),
        (iter([]), InvalidArgumentError),
    ],
)
def test_batches_that_fail_leave_the_norms(batches, error):
    q = spectral(network(), bits=3)
    train(q, 2)
    mean = q.model[1].running_mean.clone()
    with pytest.raises(error):
        q.finish(norm_batches=batches)
    assert same(q.model[1].running_mean, mean)
    assert not q.is_finished


def test_shared_modules_count_once(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(32, 32)
            self.second = self.first

    q = spectral(Shared(), bits=4)
    assert float(q.bits_per_weight()) < 6
    q.finish()
    assert float(q.bits_per_weight()) < 6
    summary = q.save(tmp_path / "model.cfck")
    assert summary.file_bytes < 2000
    model = q.remove()
    assert model.first is model.second and isinstance(model.first.weight, nn.Parameter)


def test_tied_weights_are_trained_together_or_not_at_all():
    model = nn.ModuleDict({"words": nn.Embedding(40, 32), "out": nn.Linear(32, 40, bias=False)})
    model["out"].weight = model["words"].weight
    for options in ({"exclude": ["out.weight"]}, {"include": ["words.*"]}):
        with pytest.raises(InvalidArgumentError, match="are one parameter"):
            spectral(model, **options)
    assert model["out"].weight is model["words"].weight


def test_patterns_that_match_nothing():
    for options in ({"exclude": ["0.weigth"]}, {"include": ["0.*", "layer*"]}):
        with pytest.raises(InvalidArgumentError, match="no parameter matches"):
            spectral(network(), **options)


def test_rows_that_are_too_long_stay_lossless():
    model = nn.Sequential(nn.Linear(40000, 2), nn.Linear(32, 32))
    assert [place.name for place in spectral(model).places] == ["1.weight"]
    with pytest.raises(UnsupportedError, match="`weight`"):
        spectral(nn.Linear(40000, 2), include=["weight"])
    with pytest.raises(UnsupportedError, match="`weight`"):
        spectral(nn.Linear(40000, 2))


def test_other_dtypes_keep_steps_and_tables():
    model = nn.Linear(32, 64)
    q = spectral(model, bits=4)
    q.bits_per_weight()
    model.bfloat16()
    weight = q.places[0].weight
    assert model.weight.dtype == torch.bfloat16
    assert weight.scale.dtype == torch.float32
    assert weight.tables.dtype == weight.of_model.dtype == torch.float64
    q.finish()


@pytest.mark.parametrize("given", [(5,), (8.0,), "8", (True,), (None,)])
def test_trellises_that_there_are_not(given):
    q = spectral(network(), bits=3)
    for evaluate in (None, lambda _: 1.0):
        with pytest.raises(InvalidArgumentError, match="trellis_states are among"):
            q.finish(evaluate, trellis_states=given)
    assert not q.is_finished and not bool(q.places[0].weight.is_snapped)


def test_evaluations_that_make_the_model_a_plain_one():
    q = spectral(network(), bits=4)

    def evaluate(model):
        q.remove()
        return 1.0

    with pytest.raises(InvalidArgumentError, match=r"remove\(\) was called"):
        q.finish(evaluate)
    train_on = [p for p in q.model.parameters() if p.requires_grad]
    assert len(train_on) == len(list(q.model.parameters()))


@pytest.mark.parametrize("evaluate", [5, lambda _: None, lambda _: [1.0], lambda _: "good"])
def test_evaluations_that_are_no_numbers(evaluate):
    q = spectral(network(), bits=3)
    with pytest.raises(TypeError, match="evaluate"):
        q.finish(evaluate)
    assert not q.is_finished


@pytest.mark.parametrize("learn", [("steps",), ("weights",), ("steps", "weights")])
@pytest.mark.parametrize("finishes", [False, True])
def test_after_remove_all_are_trained_that_were(learn, finishes):
    model = network()
    model[0].weight.requires_grad_(False)
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    q = spectral(model, bits=3, learn=learn)
    state = copy.deepcopy(q.training_state_dict())
    if finishes:
        q.finish()
        q.load_training_state_dict(state)
        assert any(p.original().requires_grad for p in q.places) == ("weights" in learn)
        q.finish()
    after = q.remove().named_parameters()
    assert {name: parameter.requires_grad for name, parameter in after} == before


@pytest.mark.parametrize("first", [0, 1])
def test_remove_leaves_copies_as_they_are(tmp_path, first):
    model = network()
    spectral(model, bits=3)
    models = [model, copy.deepcopy(model)]
    expected = model.eval()(images())
    removed, other = models[first].eval(), models[1 - first].eval()
    SpectralModel(removed).remove()
    assert same(removed(images()), expected)
    assert same(other(images()), expected)
    q = SpectralModel(other)
    train(q, 1)
    q.finish()
    q.save(tmp_path / "model.cfck")
    outputs = other.eval()(images())
    assert type(q.remove()[0]) is nn.Conv2d
    assert same(other(images()), outputs)


@pytest.mark.parametrize(
    "handle", [lambda q: q, lambda q: SpectralModel(q.model), lambda q: copy.deepcopy(q)]
)
def test_after_remove_weights_are_trained_as_before(handle):
    q = spectral(network(), bits=3)
    train(q, 2)
    q.finish()
    q = handle(q)
    model = q.remove()
    assert all(parameter.requires_grad for parameter in model.parameters())
    for call in (q.bits_per_weight, q.state_dict, q.finish, q.snap, q.remove, q.to_bytes):
        with pytest.raises(InvalidArgumentError, match=r"remove\(\) was called"):
            call()


def test_a_finished_state_is_finished_where_it_is_loaded():
    q = spectral(network(), bits=3)
    q.finish()
    other = spectral(network(2), bits=3)
    other.load_training_state_dict(q.training_state_dict())
    assert other.is_finished
    assert not any(place.original().requires_grad for place in other.places)
    assert torch.equal(other.model.eval()(images()), q.model.eval()(images()))


@pytest.mark.parametrize(
    "state",
    [{}, {"model": {}}, {"history": 3}, {"multiplier": -1.0}, {"start": float("nan")}],
)
def test_states_that_make_no_sense(state):
    q = spectral(network(), bits=3)
    before = [parameter.clone() for parameter in q.model.parameters()]
    if "history" in state:
        state = {**q.training_state_dict(), **state}
    elif "model" not in state and state:
        target = {"bits_per_weight": 1.0, "by": 3, **state}
        model = spectral(network(2), bits=3).model.state_dict()
        state = {"model": model, "target": target, "history": []}
    with pytest.raises(InvalidArgumentError):
        q.load_training_state_dict(state)
    assert all(same(a, b) for a, b in zip(before, q.model.parameters(), strict=True))


def test_a_missed_target_is_reported():
    q = spectral(network(), bits=4)
    q.target(bits_per_weight=1.0, by=1)
    train(q, 2, weight=None)
    with pytest.warns(UserWarning, match=r"target\(\) asked for 1"):
        q.finish()


@pytest.mark.parametrize("octaves", [30, -60])
def test_weights_without_values_are_reported(octaves):
    q = spectral(network(), bits=4)
    next(iter(q.parameters())).data.add_(octaves)
    with pytest.warns(cfck.LossWarning, match="1 weight has almost no values left") as caught:
        q.finish()
    assert [warning.filename for warning in caught] == [__file__]


def test_options_that_training_has_chosen(tmp_path):
    q = spectral(network(), bits=3)
    q.finish()
    for options in ({"max_abs_error": 1e-3}, {"quality": "high"}, {"rules": {"*": {}}}):
        with pytest.raises(InvalidArgumentError, match="training has chosen"):
            q.save(tmp_path / "model.cfck", **options)
    assert not (tmp_path / "model.cfck").exists()
    q.save(tmp_path / "model.cfck", chunk_elems=512, fsync=False)


def test_a_trellis_belongs_to_its_chunks(tmp_path):
    q = spectral(nn.Linear(64, 64), bits=3)
    scores = iter(range(9))
    q.finish(lambda model: next(scores))
    with pytest.raises(CfckError, match="without the options of this file"):
        q.save(tmp_path / "model.cfck", chunk_elems=512)
    assert not (tmp_path / "model.cfck").exists()


@pytest.mark.parametrize("block", [8, (0,), (-1, 2), (65, 1), (256, 1), (2.5, 2), "8"])
def test_blocks_that_make_no_sense(block):
    with pytest.raises(InvalidArgumentError, match=r"block lists sides from 1 to 64, such as \(8"):
        spectral(network(), block=block)


def test_models_in_training_are_not_saved_or_loaded_as_others(tmp_path):
    cfck.torch.save_model(network(), tmp_path / "plain.cfck")
    q = spectral(network(), bits=3)
    for call, advice in (
        (lambda: cfck.torch.save_model(q.model, tmp_path / "model.cfck"), "q.save"),
        (lambda: cfck.torch.load_model(q.model, tmp_path / "plain.cfck"), "before spectral"),
        (lambda: cfck.torch.compressed(q.model, tmp_path / "plain.cfck"), "another model"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"is in training .*{advice}"):
            call()
    assert not (tmp_path / "model.cfck").exists()
    cfck.torch.save_model(q.remove(), tmp_path / "model.cfck")


def test_models_that_run_from_a_file(tmp_path):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 20))
    cfck.torch.save_model(model, tmp_path / "model.cfck")
    running = cfck.torch.compressed(model, tmp_path / "model.cfck")
    for include in (None, ["0.weight"]):
        with pytest.raises(InvalidArgumentError, match="`0.weight` .* not in its own memory"):
            spectral(running, include=include)
    q = spectral(running, include=["1.weight"])  # is not in the file
    q.model(torch.ones(3, 64)).square().mean().backward()
    assert q.places[0].original().grad is None, "compressed() has frozen it"


def test_nothing_is_aimed_at_after_the_end():
    q = spectral(network(), bits=3)
    q.target(bits_per_weight=2, by=5)
    train(q, 6, weight=None)
    q.finish()
    for call in (q.rate_loss, lambda: q.target(bits_per_weight=1, by=5)):
        with pytest.raises(InvalidArgumentError, match=r"finish\(\) was called"):
            call()


def test_optimizers_of_snapped_states():
    def start():
        q = spectral(network(), bits=4)
        return q, torch.optim.AdamW(q.param_groups(lr=1e-2, step_lr=3e-2))

    whole, optimizer = start()
    train(whole, 4, optimizer=optimizer)
    whole.snap()
    of_training, of_optimizer = whole.training_state_dict(), optimizer.state_dict()
    of_training, of_optimizer = copy.deepcopy((of_training, of_optimizer))
    train(whole, 3, first=4, optimizer=optimizer)
    resumed = spectral(network(), bits=4)
    resumed.load_training_state_dict(of_training)
    optimizer = torch.optim.AdamW(resumed.param_groups(lr=1e-2, step_lr=3e-2))
    optimizer.load_state_dict(of_optimizer)
    train(resumed, 3, first=4, optimizer=optimizer)
    for name, tensor in whole.model.state_dict().items():
        assert same(tensor, resumed.model.state_dict()[name]), name


def test_trellised_values_of_another_shape():
    q = spectral(nn.Linear(64, 64), bits=3)
    scores = iter(range(9))
    q.finish(lambda model: next(scores))
    state = q.training_state_dict()
    name = next(name for name in state["model"] if name.endswith("trellised"))
    wrong = {**state["model"], name: torch.zeros(3, 3)}
    for other in (q, spectral(nn.Linear(64, 64), bits=3)):
        with pytest.raises(InvalidArgumentError, match="trellised"):
            other.load_training_state_dict({**state, "model": wrong})
        assert other.model.weight.shape == (64, 64)
