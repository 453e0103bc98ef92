"""Loops of training as people write them: averages, gradients that stay, logs."""

import copy
import warnings

import cfck.torch
import pytest
import torch
from cfck import LossWarning
from cfck.errors import InvalidArgumentError
from cfck.train import SpectralModel, spectral
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from trained_models import images, labels, network, same, train

pytestmark = pytest.mark.usefixtures("one_thread")


def _loss(q: SpectralModel, step: int) -> torch.Tensor:
    of_task = nn.functional.cross_entropy(q.model(images(seed=step)), labels())
    return of_task + 0.1 * q.bits_per_weight()


def _optimizer(q: SpectralModel) -> torch.optim.Optimizer:
    return torch.optim.AdamW(q.param_groups(lr=1e-2, step_lr=3e-2))


def _assert_that_files_keep_it(q: SpectralModel, filename) -> None:
    q.finish()
    q.save(filename)
    other = network(seed=2)
    cfck.torch.load_model(other, filename)
    assert same(other.eval()(images()), q.model.eval()(images()))


def test_snapped_steps_stay_whatever_optimizers_do(tmp_path):
    """Gradients of zero, as zero_grad(set_to_none=False) leaves them, still move by momentum."""
    q = spectral(network(), bits=4)
    optimizer = _optimizer(q)
    for step in range(12):
        optimizer.zero_grad(set_to_none=False)
        _loss(q, step).backward()
        if step == 6:
            q.snap()  # before the step that has these gradients
            files = q.file_steps()
        optimizer.step()
    assert q.file_steps() == files
    _assert_that_files_keep_it(q, tmp_path / "model.cfck")
    values = {name: tensor.clone() for name, tensor in q.state_dict().items() if "weight" in name}
    for step in range(3):  # biases are trained on
        optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(q.model(images(seed=step)), labels()).backward()
        optimizer.step()
    for name in ("0.weight", "3.weight", "7.weight"):
        assert same(q.state_dict()[name], values[name])
    q.save(tmp_path / "again.cfck")


@pytest.mark.parametrize("snap_at", [6, None])
@pytest.mark.parametrize("average", [get_ema_multi_avg_fn(0.9), None])
def test_averages_of_models(tmp_path, average, snap_at):
    q = spectral(network(), bits=4)
    optimizer = _optimizer(q)
    averaged = AveragedModel(q.model, multi_avg_fn=average)
    for step in range(12):
        optimizer.zero_grad()
        _loss(q, step).backward()
        optimizer.step()
        if step == snap_at:
            q.snap()
        averaged.update_parameters(q.model)
    of_average = SpectralModel(averaged.module)
    if snap_at is not None:
        assert of_average.file_steps() == q.file_steps()
    _assert_that_files_keep_it(of_average, tmp_path / "average.cfck")
    _assert_that_files_keep_it(q, tmp_path / "model.cfck")


def test_averages_of_buffers_are_noticed(tmp_path):
    q = spectral(nn.Sequential(nn.Linear(32, 32)), bits=4)
    averaged = AveragedModel(q.model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    with torch.no_grad():
        q.places[0].weight.columns.copy_(torch.linspace(-1, 1, 32))
    averaged.update_parameters(q.model)
    q.snap()
    averaged.update_parameters(q.model)
    with pytest.raises(InvalidArgumentError, match="were buffers averaged"):
        SpectralModel(averaged.module).save(tmp_path / "average.cfck")


@pytest.mark.parametrize("call", ["snap", "to_bytes"])
def test_calls_between_forward_and_backward(call):
    q = spectral(network(), bits=4)
    optimizer = _optimizer(q)
    for step in range(4):
        loss = _loss(q, step)
        if step == 1:
            getattr(q, call)()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    q.finish()


def test_logs_do_not_change_the_training():
    states = []
    for is_logged in (False, True):
        q = spectral(network(), bits=4)
        q.target(bits_per_weight=2, by=10)
        optimizer = _optimizer(q)
        for step in range(25):
            loss = nn.functional.cross_entropy(q.model(images(seed=step)), labels())
            loss = loss + q.rate_loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if is_logged and step % 7 == 3:
                assert "bits per weight, target 2" in q.describe()
                with torch.no_grad():
                    assert 1 < float(q.bits_per_weight()) < 5
        states.append(copy.deepcopy(q.model.state_dict()))
    plain, logged = states
    assert all(same(plain[name], logged[name]) for name in plain)


def test_the_rate_without_gradients_is_that_of_a_file():
    q = spectral(network(), bits=4)
    with torch.no_grad():
        first = float(q.bits_per_weight())  # nothing was fitted yet
        assert first == pytest.approx(q.fit_rate())
    train(q, 5)
    with torch.no_grad():
        rate = float(q.bits_per_weight())
    q.snap()
    q.finish()
    assert rate == pytest.approx(float(q.bits_per_weight()), rel=0.01)


def test_weights_that_die_are_reported_and_cost_nothing():
    q = spectral(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 10)), bits=3)
    q.fit_rate()
    weight = q.places[0].weight
    with torch.no_grad():
        weight.scale.add_(20)
    with pytest.warns(LossWarning, match=r"all values of weight `0\.weight` have become zero: "):
        q.fit_rate()
    assert float(weight.bits(q.places[0].original()).detach()) == pytest.approx(0, abs=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q.fit_rate()  # once is enough
    with pytest.warns(LossWarning, match="almost no values left"):
        q.finish()


def test_weights_of_zeros():
    model = nn.Sequential(nn.Linear(64, 8, bias=False), nn.Linear(8, 64, bias=False))
    nn.init.zeros_(model[1].weight)
    with pytest.warns(UserWarning, match=r"`1\.weight` holds nothing but zeros"):
        q = spectral(model, bits=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 4 < q.fit_rate() < 7
        optimizer = torch.optim.SGD(q.param_groups(lr=0.5, step_lr=0.5))
        for _ in range(30):
            loss = (model(torch.randn(8, 64)) - 1).square().mean() + 1e-6 * q.bits_per_weight()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert model[1].weight.any()


def test_a_model_of_zeros_can_be_snapped():
    layer = nn.Linear(64, 64)
    nn.init.zeros_(layer.weight)
    with pytest.warns(UserWarning, match="nothing but zeros"):
        q = spectral(layer, bits=3)
    q.target(bits_per_weight=2, by=1)
    q.rate_loss().backward()
    q.snap()
    assert q.fit_rate() == 0


def test_a_snap_before_the_target_is_to_be_reached():
    q = spectral(network(), bits=6)
    q.target(bits_per_weight=2, by=50)
    train(q, 5, weight=None)
    with pytest.warns(UserWarning, match=r"step 5 of the 50 .* those of [45]\.\d+ bits"):
        q.snap()
    with pytest.warns(UserWarning, match="asked for 2: call snap\\(\\) later"):
        q.finish()


def test_the_advice_where_steps_are_not_learned():
    q = spectral(network(), bits=6, learn=("weights",))
    q.target(bits_per_weight=2, by=2)
    train(q, 3, weight=None)
    with pytest.warns(UserWarning, match="let steps be learned"):
        q.finish()


def test_models_that_become_double_can_be_converted_back():
    q = spectral(network(), bits=4)
    q.model.double()
    for call in (q.snap, q.finish, q.to_bytes):
        with pytest.raises(InvalidArgumentError, match=r"`0\.weight` is torch\.float64 since"):
            call()
    q.model.float()
    q.to_bytes()


@pytest.mark.parametrize("make", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_are_refused(make):
    model = nn.Sequential(make(100, 16, sparse=True), nn.Linear(16, 64))
    with pytest.raises(InvalidArgumentError, match=r"`0\.weight` has sparse gradients"):
        spectral(model)
    assert [place.name for place in spectral(model, exclude=["0.*"]).places] == ["1.weight"]


@pytest.mark.parametrize("wrap", [nn.DataParallel, AveragedModel])
def test_wrappers_are_refused(wrap):
    with pytest.raises(InvalidArgumentError, match=rf"in an? {wrap.__name__}, .*\(\.module\)"):
        spectral(wrap(network()))
    model = network()
    spectral(model)
    with pytest.raises(InvalidArgumentError, match=rf"in an? {wrap.__name__}"):
        SpectralModel(wrap(model))
