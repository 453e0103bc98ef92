"""Local steps: ranks meet with equal weights, and nothing that was not sent is lost."""

import copy

import cfck
import pytest
import torch
import torch.distributed as dist
from cfck.distributed import LocalSteps
from ranks import Raised
from torch import nn


def make(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.BatchNorm1d(300), nn.Linear(300, 4))


def batch(step, rank=None):
    generator = torch.Generator().manual_seed(
        100 * step + (dist.get_rank() if rank is None else rank)
    )
    return torch.randn(8, 20, generator=generator)


def weights_of(model):
    return [p.detach().clone() for p in model.parameters()]


def train(model, local, optimizer, first, last):
    met = []
    for step in range(first, last):
        optimizer.zero_grad()
        model(batch(step)).square().mean().backward()
        optimizer.step()
        met.append(local.step())
    return met


def run(options):
    model = make(seed=dist.get_rank())  # that of rank 0 counts
    local = LocalSteps(model, 3, **options)
    begin = weights_of(model)
    met = train(model, local, torch.optim.AdamW(model.parameters(), 1e-2), 0, 9)
    return begin, met, weights_of(model), local.traffic


OPTIONS = {
    "default": {},
    "all values": {"ratio": 1.0, "bits": None},
    "outer momentum": {"outer_momentum": 0.9, "outer_lr": 0.7, "decay": 1.0},
    "four bits": {"bits": 4, "ratio": 0.1},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_ranks_meet(two, options):
    first, second = two(run, options)
    assert first[1] == [False, False, True] * 3
    for a, b in zip(first[0] + first[2], second[0] + second[2], strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first[0][0], first[2][0])
    assert first[3].n_calls == 9 and first[3].sent_bytes > 0
    if options == {}:
        assert first[3].share < 1 / 100


def test_four_ranks_meet(four):
    found = four(run, {"outer_momentum": 0.9})
    for begin, met, end, _ in found:
        assert met == [False, False, True] * 3
        assert all(map(torch.equal, begin + end, found[0][0] + found[0][2]))


def average_of_both():
    """With all values and no loss, the mean of what both have learned."""
    model = make(seed=0)
    local = LocalSteps(model, 2, ratio=1.0, bits=None)
    alone = [copy.deepcopy(model) for _ in range(2)]
    train(model, local, torch.optim.SGD(model.parameters(), 0.1), 0, 2)
    for rank, one in enumerate(alone):
        optimizer = torch.optim.SGD(one.parameters(), 0.1)
        for step in range(2):
            optimizer.zero_grad()
            one(batch(step, rank)).square().mean().backward()
            optimizer.step()
    means = [(a + b) / 2 for a, b in zip(*(one.parameters() for one in alone), strict=True)]
    return max(float((p - m).abs().max()) for p, m in zip(model.parameters(), means, strict=True))


def test_without_compression_it_is_the_average(two):
    assert max(two(average_of_both)) < 1e-6


def resumed(joins):
    model = make(seed=0)
    local = LocalSteps(model, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, local, optimizer, 0, 3)
    saved, state = copy.deepcopy(model.state_dict()), local.state_dict()
    train(model, local, optimizer, 3, 6)
    other = make(seed=5)
    again = LocalSteps(other, 2)
    other.load_state_dict(saved)
    again.load_state_dict(state, joins=joins)
    if joins:
        return all(not t.any() for t in again.state_dict()["residual"].values())
    train(other, again, torch.optim.SGD(other.parameters(), 0.1), 3, 6)
    return all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize("joins", [False, True])
def test_states(two, joins):
    assert two(resumed, joins) == [True, True]


def failed(rank, how):
    """A meeting that fails on one rank, and is made again, beside one that works."""
    ours, other = make(seed=0), make(seed=0)
    results = []
    for model, fails in ((ours, True), (other, False)):
        local = LocalSteps(model, 2)
        train(model, local, torch.optim.SGD(model.parameters(), 0.1), 0, 3)
        if fails:
            before = copy.deepcopy((local.state_dict(), model.state_dict(), local.traffic))
            honest = getattr(local._codec, how)

            def fail(*args):
                raise cfck.ChecksumError("damaged")

            if dist.get_rank() == rank:
                setattr(local._codec, how, fail)
            kind = cfck.ChecksumError if dist.get_rank() == rank else cfck.CfckError
            with pytest.raises(kind, match=f"damaged|rank {rank} could not (en|de)code"):
                local.step()
            setattr(local._codec, how, honest)
            after = local.state_dict(), model.state_dict(), local.traffic
            assert before[2] == after[2] and before[0].pop("n_steps") == after[0].pop("n_steps")
            for part in before[0]:
                assert all(map(torch.equal, before[0][part].values(), after[0][part].values()))
            assert all(map(torch.equal, before[1].values(), after[1].values()))
        assert local.step()
        results.append(weights_of(model))
    assert all(map(torch.equal, *results))
    return results[0]


@pytest.mark.parametrize("rank, how", [(0, "encode"), (1, "add")])
def test_a_meeting_that_fails_can_be_made_again(two, rank, how):
    first, second = two(failed, rank, how)
    assert all(map(torch.equal, first, second))


def other_models():
    LocalSteps(nn.Linear(4, 5 + dist.get_rank()))


def test_ranks_with_other_models_all_raise(two):
    found = two(other_models)
    assert all(isinstance(one, Raised) and one.kind == "InvalidArgumentError" for one in found)


def wrong():
    model = nn.Linear(4, 5)
    for options in (
        {"every": 0}, {"ratio": 0.0}, {"ratio": 1.5}, {"bits": 0}, {"outer_momentum": 1.0},
        {"decay": 1.5},
    ):  # fmt: skip
        with pytest.raises(cfck.InvalidArgumentError):
            LocalSteps(model, **options)
    with pytest.raises(cfck.UnsupportedError, match="complex64"):
        LocalSteps(nn.Linear(2, 2, dtype=torch.complex64))
    local = LocalSteps(model)
    with pytest.raises(cfck.InvalidArgumentError, match="other parameters"):
        local.load_state_dict(LocalSteps(nn.Linear(4, 6)).state_dict())


def test_wrong_arguments(two):
    assert two(wrong) == [None, None]
