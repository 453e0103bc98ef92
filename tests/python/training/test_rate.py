"""The estimate of the rate, beside what files take."""

import copy

import cfck
import pytest
import torch
from cfck._training.model import FIT_INTERVAL
from cfck.train import SpectralModel, spectral
from torch import nn
from trained_models import network, train

pytestmark = pytest.mark.usefixtures("one_thread")


def layers() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(64, 64, 3), nn.Conv2d(64, 64, 1), nn.Linear(128, 256))


def estimates(q: SpectralModel) -> dict[str, float]:
    """Bits of each weight as the loss has them."""
    return {p.name: float(p.weight.bits(p.original()).detach()) for p in q.places}


def stored_bits(filename, names) -> dict[str, float]:
    with cfck.safe_open(filename, framework="pt") as file:
        return {r.name: 8 * r.stored_bytes for r in file.records() if r.name in names}


@pytest.mark.parametrize("bits", [6, 4, 3, 2, 1, 0.5])
def test_a_fit_gives_what_a_file_takes(tmp_path, bits):
    q = spectral(layers(), bits=bits)
    q.snap()
    estimate = float(q.bits_per_weight().detach())
    of_weights = estimates(q)
    q.finish()
    assert estimate == pytest.approx(float(q.bits_per_weight()), rel=0.01)
    q.save(tmp_path / "model.cfck")
    assert of_weights == pytest.approx(stored_bits(tmp_path / "model.cfck", of_weights), rel=0.03)


@pytest.mark.parametrize(("lr", "step_lr"), [(1e-3, 1e-2), (1e-4, 1e-2), (1e-3, 1e-3)])
@pytest.mark.parametrize("bits", [6, 4, 3, 2, 1, 0.5])
def test_the_estimate_is_true_before_the_next_fit(tmp_path, bits, lr, step_lr):
    """After as many steps of training as there can be without one, while steps change fast."""
    model = layers()
    teacher = copy.deepcopy(model)
    q = spectral(model, bits=bits)
    optimizer = torch.optim.AdamW(q.param_groups(lr=lr, step_lr=step_lr))
    for _ in range(2 * FIT_INTERVAL):
        x = torch.randn(2, 64, 3, 130)
        loss = (model(x) - teacher(x).detach()).square().mean() + 0.01 * q.bits_per_weight()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    of_weights = estimates(q)
    q.save(tmp_path / "model.cfck")
    stored = stored_bits(tmp_path / "model.cfck", of_weights)
    assert sum(of_weights.values()) == pytest.approx(sum(stored.values()), rel=0.03)
    assert of_weights == pytest.approx(stored, rel=0.1)


@pytest.mark.parametrize("factor", [0.99, 0.8, 0.1])
def test_weights_that_jump(factor):
    q = spectral(nn.Sequential(nn.Conv2d(64, 64, 3)), bits=2)
    q.bits_per_weight()
    with torch.no_grad():
        q.places[0].original().mul_(factor)
    estimate = float(q.bits_per_weight().detach())
    assert estimate == pytest.approx(q.fit_rate(), rel=0.01)


def test_fits_are_few_where_nothing_moves(monkeypatch):
    q = spectral(network(), bits=4)
    fits = []
    fit_rate = q.fit_rate
    monkeypatch.setattr(q, "fit_rate", lambda: fits.append(1) or fit_rate())
    optimizer = torch.optim.AdamW(q.param_groups(lr=1e-6, step_lr=1e-6))
    train(q, 2 * FIT_INTERVAL, optimizer=optimizer)
    assert len(fits) == 2


def test_structured_zeros_cost_next_to_nothing():
    torch.manual_seed(1)
    dense = nn.Sequential(nn.Conv2d(64, 64, 3, bias=False))
    pruned = nn.Sequential(nn.Conv2d(64, 128, 3, bias=False))
    with torch.no_grad():
        pruned[0].weight.zero_()
        pruned[0].weight[::2] = dense[0].weight
    of_dense, of_pruned = spectral(dense, bits=3), spectral(pruned, bits=3)
    with torch.no_grad():
        of_pruned.places[0].weight.scale.copy_(of_dense.places[0].weight.scale)
    bits = [q.fit_rate() * q.places[0].original().numel() for q in (of_dense, of_pruned)]
    assert bits[1] < 1.02 * bits[0]
