"""Passes that leave out what cannot have changed give what whole passes give."""

import cfck
import numpy as np
import pytest
import torch
from cfck._evaluation.divergence import Divergence
from cfck._evaluation.outputs import divergences, log_probabilities, run_model
from cfck._evaluation.prefix import Prefix, first_readers
from torch import nn

pytestmark = pytest.mark.usefixtures("one_thread")


class Residual(nn.Module):
    """A block that adds in place, with an activation that works in place."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.ReLU(inplace=True)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        out = self.second(self.act(self.norm(self.first(x))))
        out += x
        return out


class Network(nn.Module):
    """A stem, blocks in a Sequential, blocks in a list, a norm called twice, and a tied head."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Sequential(*[Residual(8) for _ in range(3)])
        self.tail = nn.ModuleList([Residual(8) for _ in range(2)])
        self.twice = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 6, bias=False)

    def forward(self, x):
        x = self.stem(x).mul_(0.9)
        x = self.twice(self.body(x))
        for block in self.tail:
            x = self.twice(block(x))
        x = x.mean((2, 3))
        return self.head(x) + x @ self.head.weight.t()


def batches(n=2, size=3):
    generator = torch.Generator().manual_seed(8)
    return [torch.randn(size, 3, 9, 9, generator=generator) for _ in range(n)]


def test_passes_with_a_changed_tensor_are_those_of_the_whole_model():
    model, given = Network().eval(), batches()
    tensors = dict(model.named_parameters())
    with torch.no_grad():
        reads = first_readers(model, given[0], tensors)
        assert set(reads) == set(tensors)
        prefix = Prefix(model, given)
        for name in sorted(tensors, key=lambda name: reads[name][0]):
            with prefix.installed():
                for position in range(len(given)):
                    prefix.reach(position, reads[name][1])
                saved = tensors[name].clone()
                tensors[name].add_(0.1)
                twice = [[prefix.run(p) for p in range(len(given))] for _ in range(2)]
            expected = [run_model(model, batch) for batch in given]
            tensors[name].copy_(saved)
            for found in twice:
                assert all(torch.equal(a, b) for a, b in zip(found, expected)), name


def test_modules_before_the_changed_one_do_not_run_again():
    model, given = Network().eval(), batches(1)
    ran = []
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, name=name: ran.append(name))
    with torch.no_grad():
        prefix = Prefix(model, given)
        with prefix.installed():
            prefix.reach(0, model.tail[1].first)
            prefix.reach(0, model.tail[1].first)  # what was changed in place is copied now
            ran.clear()
            prefix.run(0)
    assert "body.0.first" not in ran
    assert "tail.0.first" not in ran
    assert "tail.1.first" in ran and "head" in ran


def test_reached_modules_see_their_input():
    model, given = Network().eval(), batches(2)
    seen = []
    model.tail[1].second.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    with torch.no_grad():
        for batch in given:
            model(batch)
        expected, seen[:] = list(seen), []
        prefix = Prefix(model, given)
        with prefix.installed():
            for module in (model.stem, model.body[1].second, model.tail[1].second):
                found = [prefix.reach(p, module)[0][0].clone() for p in range(len(given))]
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def test_nothing_is_kept_beyond_the_limit_and_results_are_the_same():
    model, given = Network().eval(), batches(1)
    with torch.no_grad():
        expected = model(given[0])
        prefix = Prefix(model, given, max_bytes=3000)
        with prefix.installed():
            prefix.reach(0, model.head)
            assert torch.equal(prefix.run(0), expected)


def test_a_module_that_never_runs_is_told():
    model, given = Network().eval(), batches(1)
    model.unused = nn.Linear(2, 2)
    with torch.no_grad():
        prefix = Prefix(model, given)
        with prefix.installed():
            with pytest.raises(LookupError):
                prefix.reach(0, model.unused)
            model.head.weight.mul_(2)
            assert torch.equal(prefix.run(0), model(given[0]))


def test_forward_is_that_of_the_class_again():
    model, given = Network().eval(), batches(1)
    own = model.head.forward
    model.head.forward = own  # somebody replaced it
    prefix = Prefix(model, given)
    with pytest.raises(KeyboardInterrupt), prefix.installed():
        raise KeyboardInterrupt
    assert model.head.__dict__["forward"] is own
    assert "forward" not in model.stem.__dict__


def test_sensitivities_are_those_of_whole_passes(monkeypatch):
    model, given = Network().eval(), batches()
    fast = cfck.calibrate(model, given)
    monkeypatch.setattr("cfck._calibration.probes.Prober._first_reads", lambda *_: {})
    slow = cfck.calibrate(model, given)
    for name, known in slow.items():
        assert fast[name].sensitivity == known.sensitivity or not known.is_measured


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_divergences_are_those_of_whole_rows(scale):
    generator = torch.Generator().manual_seed(1)
    a = scale * torch.randn(300, 1000, generator=generator)
    b = a + 1e-2 * torch.randn(a.shape, generator=generator)
    found = Divergence(a).to(b)
    expected = divergences(log_probabilities(a.double()), log_probabilities(b.double()))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
    assert not Divergence(a).to(a).any()


def test_divergences_of_probabilities_and_of_impossible_classes():
    a = torch.randn(5, 7).double().softmax(1)
    b = torch.randn(5, 7).double().softmax(1)
    expected = divergences(a.log(), b.log())
    np.testing.assert_allclose(Divergence(a).to(b), expected, rtol=1e-9)
    logits = torch.randn(5, 7)
    logits[:, 2] = -torch.inf
    other = logits + 0.1 * torch.randn(5, 7)
    expected = divergences(log_probabilities(logits.double()), log_probabilities(other.double()))
    np.testing.assert_allclose(Divergence(logits).to(other), expected, rtol=1e-9)
