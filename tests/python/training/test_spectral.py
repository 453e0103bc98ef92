"""cfck.train: models are trained as files have them."""

import copy
import io
import math
import warnings

import cfck
import pytest
import torch
from cfck import LossWarning
from cfck._training.aim import octaves_to_rate
from cfck.train import spectral
from torch import nn
from trained_models import images, network, same, train

pytestmark = pytest.mark.usefixtures("one_thread")


# The file has what training saw.


@pytest.mark.parametrize("bits", [8, 4, 2, 1])
@pytest.mark.parametrize("fields", [("bands", "columns"), ("bands", "rows", "columns"), ()])
def test_the_file_has_the_outputs_of_the_last_evaluation(tmp_path, bits, fields):
    model = network()
    q = spectral(model, bits=bits, fields=fields)
    train(q, 12)
    q.finish()
    model.eval()
    expected = model(images())
    q.save(tmp_path / "model.cfck")
    loaded = network(2).eval()
    cfck.torch.load_model(loaded, tmp_path / "model.cfck")
    assert same(loaded(images()), expected)
    for name, tensor in q.state_dict().items():
        assert same(loaded.state_dict()[name], tensor), name


def test_the_rate_after_finish_is_that_of_the_file(tmp_path):
    q = spectral(network(), bits=3)
    train(q, 5)
    q.finish()
    q.save(tmp_path / "model.cfck")
    with cfck.safe_open(tmp_path / "model.cfck", framework="pt") as file:
        records = [record for record in file.records() if len(record.shape) >= 2]
    n_values = sum(torch.Size(record.shape).numel() for record in records)
    stored = 8 * sum(record.stored_bytes for record in records)
    assert float(q.bits_per_weight()) == pytest.approx(stored / n_values, rel=1e-6)


# Training.


def test_gradients_reach_weights_and_steps():
    model = network()
    q = spectral(model, bits=4)
    (model(images()).square().mean() + q.bits_per_weight()).backward()
    for place in q.places:
        assert place.original().grad is not None and place.original().grad.abs().sum() > 0
    for step in q.parameters():
        assert step.grad is not None and torch.isfinite(step.grad).all()
        assert step.grad.abs().sum() > 0


def test_a_rate_in_the_loss_makes_the_file_smaller():
    small, large = spectral(network(), bits=6), spectral(network(), bits=6)
    train(small, 40, weight=1.0)
    train(large, 40, weight=0.0)
    assert small.fit_rate() < 0.8 * large.fit_rate()


def test_dead_bands_come_back_where_the_task_needs_them():
    torch.manual_seed(1)
    teacher = nn.Sequential(nn.Conv2d(8, 32, 3, bias=False))
    q = spectral(copy.deepcopy(teacher), bits=5, learn=("steps",))
    bands = q.places[0].weight.bands
    with torch.no_grad():
        bands[:4] += 8  # all of their levels are 0 now
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-3, step_lr=5e-2))
    x = torch.randn(16, 8, 10, 10)
    losses = []
    for _ in range(200):
        loss = (q.model(x) - teacher(x).detach()).square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.02 * losses[0]


def test_a_target_is_reached():
    teacher = network().eval()
    q = spectral(copy.deepcopy(teacher), bits=6)
    q.target(bits_per_weight=3.0, by=150)
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-3, step_lr=1e-2))
    for step in range(300):
        x = images(seed=step % 40)
        loss = 100 * (q.model(x) - teacher(x).detach()).square().mean() + q.rate_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert 2.0 < q.fit_rate() < 3.15
    assert len(q.history) == 300 and q.history[-1][0] == 300
    assert "target 3 by step 150" in q.describe()


def test_steps_learn_from_curvature():
    """Layers that the loss depends on a hundred times as much get finer steps."""
    torch.manual_seed(1)
    teacher = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(2))
    model = copy.deepcopy(teacher)
    q = spectral(model, bits=4, batch_size=64)
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-3, step_lr=2e-2))
    x = torch.randn(64, 32)
    for _ in range(150):
        noise = torch.randn(64, 32)
        losses = [
            weight * (layer(x) - known(x).detach() + noise).square().mean()
            for weight, layer, known in zip((1, 100), model, teacher, strict=True)
        ]
        loss = sum(losses) + q.bits_per_weight()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    fine, coarse = (float(model[i].parametrizations.weight[0].scale.detach()) for i in (1, 0))
    assert coarse - fine > 1


def test_learning_only_steps_or_only_weights():
    model = network()
    q = spectral(model, learn=("steps",))
    assert not any(place.original().requires_grad for place in q.places)
    assert all(step.requires_grad for step in q.parameters())
    q = spectral(network(), learn=("weights",))
    assert not any(step.requires_grad for step in q.parameters())
    groups = q.param_groups(lr=0.1)
    assert len(groups) == 1 and groups[0]["params"]


def test_groups_of_parameters_are_disjoint_and_complete():
    model = network()
    q = spectral(model)
    weights, steps = q.param_groups(lr=1e-3, step_lr=1e-2)
    assert weights["lr"] == 1e-3 and steps["lr"] == 1e-2 and steps["weight_decay"] == 0
    ids = [id(p) for p in (*weights["params"], *steps["params"])]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {id(p) for p in model.parameters()}


def _assert_quarters(q):
    for place in q.places:
        for field in place.weight.log2_in_use()[1:]:
            assert torch.equal(field * 4, torch.round(field * 4))


def test_snapped_steps_are_those_of_files_and_stay():
    q = spectral(network(), bits=4)
    optimizer = train(q, 10)
    q.snap()
    before = q.file_steps()
    _assert_quarters(q)
    weights = q.places[0].original().detach().clone()
    train(q, 5, first=10, optimizer=optimizer)
    assert q.file_steps() == before
    _assert_quarters(q)
    assert not torch.equal(weights, q.places[0].original())


def test_snapping_meets_the_target():
    for start in (6, 2):
        q = spectral(network(), bits=start)
        q.target(bits_per_weight=4, by=10)
        optimizer = train(q, 12, weight=None)
        assert abs(q.fit_rate() / 4 - 1) > 0.05
        q.snap()
        assert abs(q.fit_rate() / 4 - 1) < 0.01
        _assert_quarters(q)
        before = q.file_steps()
        q.snap()
        train(q, 2, weight=None, first=12, optimizer=optimizer)
        q.finish()
        assert q.file_steps() == before


def test_steps_that_are_not_learned_are_not_scaled():
    q = spectral(network(), bits=6, learn=("weights",))
    q.target(bits_per_weight=3, by=1)
    train(q, 2, weight=None)
    before = [float(place.weight.scale) for place in q.places]
    q.snap()
    assert before == [float(place.weight.scale) for place in q.places]


@pytest.mark.parametrize(
    ("wanted", "end"), [(0.9, None), (1.9, None), (3.0, None), (5, -2), (0.3, 2)]
)
def test_the_search_for_steps(wanted, end):
    trials = []

    def rate_at(octaves):
        trials.append(octaves)
        return math.log2(1 + 2 ** (1.5 - octaves)) + 0.05

    found = octaves_to_rate(rate_at, wanted)
    assert abs(found) <= 2 and len(trials) <= 8
    if end is None:
        assert abs(rate_at(found) / wanted - 1) < 0.01
    else:
        assert found == end


def test_training_resumes_bit_for_bit():
    def start():
        q = spectral(network(), bits=5)
        q.target(bits_per_weight=3, by=30)
        return q, torch.optim.AdamW(q.param_groups(lr=1e-2, step_lr=3e-2))

    whole, optimizer = start()
    train(whole, 33, weight=None, optimizer=optimizer)
    first, optimizer = start()
    train(first, 17, weight=None, optimizer=optimizer)
    stored = io.BytesIO()
    torch.save([first.training_state_dict(), optimizer.state_dict()], stored)
    stored.seek(0)
    of_training, of_optimizer = torch.load(stored)
    second, optimizer = start()
    second.load_training_state_dict(of_training)
    optimizer.load_state_dict(of_optimizer)
    train(second, 16, weight=None, first=17, optimizer=optimizer)
    for name, tensor in whole.model.state_dict().items():
        assert same(tensor, second.model.state_dict()[name]), name


# The end.


@pytest.mark.parametrize("trellis_states", [(4, 8), (64,)])
def test_a_trellis_is_kept_where_it_is_better(tmp_path, trellis_states):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(32, 64, 3), nn.Flatten(), nn.Linear(576, 10))
    original = copy.deepcopy(model).eval()
    x = torch.randn(64, 32, 5, 5)
    expected = original(x).detach()
    q = spectral(model, bits=3)

    def closeness(trained):
        assert not trained.training
        return -float((trained(x) - expected).square().mean().detach())

    before = closeness(model.eval())
    before_rate = q.fit_rate()
    model.train()
    q.finish(closeness, trellis_states=trellis_states)
    assert model.training
    model.eval()
    assert closeness(model) > before
    assert all(int(place.weight.states) in trellis_states for place in q.places)
    assert float(q.bits_per_weight()) <= before_rate * 1.01
    q.save(tmp_path / "model.cfck")
    cfck.torch.load_model(original, tmp_path / "model.cfck")
    assert same(original(x), model(x))
    copied = copy.deepcopy(model)
    assert same(copied(x), model(x))


def test_trellises_do_not_warn_of_losses_that_training_has_used(tmp_path):
    model = network()
    q = spectral(model, bits=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LossWarning)
        calls = []
        q.finish(lambda _: calls.append(1) or len(calls))
        assert all(int(place.weight.states) == 8 for place in q.places)
        q.save(tmp_path / "model.cfck")


def test_weights_of_zeros_are_constants_that_the_summary_names(tmp_path):
    model = network()
    with torch.no_grad():
        model[3].weight.zero_()
    q = spectral(model, bits=4)
    q.finish()
    summary = q.save(tmp_path / "model.cfck")
    assert "3.weight" in summary.kept_lossless
    assert not cfck.torch.load_file(tmp_path / "model.cfck")["3.weight"].any()


def test_what_is_not_compressed_trains_on_after_finish(tmp_path):
    q = spectral(network(), bits=4)
    q.finish()
    rate = float(q.bits_per_weight())
    weights = [place.weight(place.original()).detach().clone() for place in q.places]
    bias = q.model[7].bias.detach().clone()
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-2))
    q.model(images()).square().mean().backward()
    optimizer.step()
    assert not torch.equal(q.model[7].bias, bias)
    for place, values in zip(q.places, weights, strict=True):
        assert same(place.weight(place.original()), values)
    q.save(tmp_path / "model.cfck")
    assert float(q.bits_per_weight()) == rate
    assert same(cfck.torch.load_file(tmp_path / "model.cfck")["7.bias"], q.model[7].bias)


def test_a_trellis_that_does_not_help_is_dropped():
    model = network()
    q = spectral(model, bits=4)
    calls = []
    q.finish(lambda _: calls.append(1) or -len(calls), trellis_states=(8, 64))
    assert len(calls) == 3
    assert all(int(place.weight.states) == 1 for place in q.places)


def test_norms_are_measured_anew():
    model = network()
    q = spectral(model, bits=2)
    batches = [images(seed=seed) for seed in range(4)]
    before = model[1].running_mean.clone()
    q.finish(norm_batches=batches)
    assert not torch.equal(before, model[1].running_mean)
    assert model[1].momentum == 0.1
    x = torch.cat(batches)
    expected = nn.functional.conv2d(x, model[0].weight, padding=1).mean((0, 2, 3))
    assert torch.allclose(model[1].running_mean, expected, atol=1e-5)


# Bad input.


def test_models_that_cannot_be_trained():
    with pytest.raises(TypeError, match="torch.nn.Module"):
        spectral({"weight": torch.zeros(3, 3)})
    with pytest.raises(ValueError, match="no weight"):
        spectral(nn.BatchNorm2d(4))
    with pytest.raises(ValueError, match="not initialised"):
        spectral(nn.LazyLinear(5))
    with pytest.raises(ValueError, match="meta"):
        spectral(nn.Linear(64, 64, device="meta"))
    model = nn.Linear(64, 64)
    nn.utils.parametrizations.weight_norm(model)
    with pytest.raises(ValueError, match="parametrised already"):
        spectral(model)
    model = network()
    spectral(model)
    with pytest.raises(ValueError, match="is in training"):
        spectral(model)
    sparse = nn.Linear(64, 64)
    sparse.weight = nn.Parameter(sparse.weight.detach().to_sparse())
    with pytest.raises(ValueError, match="sparse"):
        spectral(sparse)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, "bits"),
        ({"bits": float("nan")}, "bits"),
        ({"learn": ("stepts",)}, "learn"),
        ({"learn": "steps"}, "learn"),
        ({"fields": ("band",)}, "fields"),
        ({"block": (65,)}, "block"),
        ({"batch_size": -1}, "batch_size"),
        ({"include": ["nothing.*"]}, "no parameter matches"),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    model = network()
    with pytest.raises(ValueError, match=message):
        spectral(model, **options)
    assert type(model[0]) is nn.Conv2d, "the model must be as it was"


def test_targets_that_make_no_sense():
    q = spectral(network())
    with pytest.raises(ValueError, match="target"):
        q.rate_loss()
    with pytest.raises(ValueError, match="bits_per_weight"):
        q.target(bits_per_weight=0, by=10)
    with pytest.raises(ValueError, match="by"):
        q.target(bits_per_weight=1, by=0)


def test_numbers_that_are_none():
    model = network()
    q = spectral(model)
    with torch.no_grad():
        q.places[0].weight.scale.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="step"):
        model(images())
    q = spectral(model := network())
    with torch.no_grad():
        q.places[1].original()[0] = float("nan")
    with pytest.raises(FloatingPointError, match="3.weight"):
        q.finish()


def test_frozen_and_excluded_weights():
    model = network()
    model[0].weight.requires_grad_(False)
    q = spectral(model, exclude=["7.*"])
    assert [place.name for place in q.places] == ["0.weight", "3.weight"]
    (model(images()).square().mean() + q.bits_per_weight()).backward()
    assert q.places[0].original().grad is None
    rate = q.fit_rate()
    assert rate > 10, "the last layer is lossless, and counts"
