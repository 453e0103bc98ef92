"""Chunks of gradients: all ranks choose the same, and what they send does not grow with ranks."""

import copy
import math

import cfck
import pytest
import torch
import torch.distributed as dist
from cfck.distributed import GradientCompression
from ranks import Raised
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
CHUNK = 16


def make():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 30), nn.Linear(30, 3))


def loss_of(model, step):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return model(torch.randn(8, 20, generator=generator)).square().mean()


def wrapped(model, ratio=0.1, ddp_options=None, **options):
    state = GradientCompression(model, ratio, **{"chunk_elems": CHUNK, **options})
    ddp = DistributedDataParallel(model, **(ddp_options or {}))
    ddp.register_comm_hook(state, GradientCompression.hook)
    return ddp, state


def weights_of(model):
    return [p.detach().clone() for p in model.parameters()]


def run(options, joins=False):
    """Weights after each step; with ``joins`` rank 1 has two batches more."""
    model = make()
    ddp, state = wrapped(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    found = []

    def train(n):
        for step in range(n):
            optimizer.zero_grad()
            loss_of(ddp, step).backward()
            optimizer.step()
            found.append(weights_of(model))

    if joins:
        with ddp.join():
            train(STEPS + 2 * (dist.get_rank() == 1))
        found = [weights_of(model)]
    else:
        train(STEPS)
    return found, state.traffic


def all_equal(found):
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert all(map(torch.equal, a, b))


OPTIONS = {
    "default": {},
    "f16 vectors, nesterov": {"vectors": "f16", "nesterov": True},
    "many buckets": {"ddp_options": {"bucket_cap_mb": 0.002}, "clip_global_norm": 0.1},
    "chunks longer than tensors": {"chunk_elems": 1 << 20},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_ranks_stay_equal(two, options):
    found = two(run, options)
    all_equal([weights for weights, _ in found])
    assert not torch.equal(found[0][0][0][0], found[0][0][-1][0])


def test_four_ranks_send_what_two_send(two, four):
    two_ranks, four_ranks = two(run, {}), four(run, {})
    all_equal([weights for weights, _ in four_ranks])
    assert {traffic.sent_bytes for _, traffic in two_ranks + four_ranks} == {
        two_ranks[0][1].sent_bytes
    }
    assert two_ranks[0][1].share < 0.5


def test_join_with_uneven_inputs(two):
    all_equal([weights for weights, _ in two(run, {}, True)])


def first_step(ratio):
    """What was chosen, and what should have been; and what is left on this rank."""
    model = make()
    ddp, state = wrapped(model, ratio, momentum=0.9)
    plain = copy.deepcopy(model)
    loss_of(ddp, 0).backward()
    loss_of(plain, 0).backward()
    found = []
    for (name, p), own in zip(model.named_parameters(), plain.parameters(), strict=True):
        if p.dim() < 2:
            continue
        mean = own.grad.flatten().clone()
        padded = nn.functional.pad(mean, (0, -mean.numel() % CHUNK)).view(-1, CHUNK)
        norms = padded.abs().sum(1)
        dist.all_reduce(norms)
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        k = math.ceil(ratio * norms.numel())
        chosen = norms.sort(descending=True, stable=True).indices[:k].sort().values
        is_sent = torch.zeros(norms.numel(), CHUNK, dtype=torch.bool)
        is_sent[chosen] = True
        is_sent = is_sent.flatten()[: mean.numel()]
        state_of = state.state_dict()
        left = torch.where(is_sent, 0.0, own.grad.flatten())
        found.append(torch.equal(p.grad.flatten(), torch.where(is_sent, mean, 0.0)))
        found.append(torch.equal(state_of["velocity"][name], left))
        # Where all values are sent, momentum is that of SGD.
        kept = own.grad.flatten() if is_sent.all() else left
        found.append(torch.equal(state_of["momentum"][name], kept))
    return found


@pytest.mark.parametrize("ratio", [1e-3, 0.1, 0.999])
def test_the_largest_chunks_of_all_ranks_are_averaged(two, ratio):
    assert two(first_step, ratio) == [[True] * 9] * 2


def conserved():
    model = make()
    ddp, state = wrapped(model, momentum=0.0)
    plain = copy.deepcopy(model)
    sent = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    local = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    for step in range(STEPS):
        for one, of_model, totals in ((ddp, model, sent), (plain, plain, local)):
            one.zero_grad()
            loss_of(one, step).backward()
            for total, p in zip(totals, of_model.parameters(), strict=True):
                total += p.grad
    return sent, local, list(state.state_dict()["velocity"].values())


def test_nothing_is_lost(two):
    first, second = two(conserved)
    for sent, a, b, u, v in zip(first[0], first[1], second[1], first[2], second[2], strict=True):
        given, left = (a + b).flatten() / 2, (u.double() + v.double()) / 2
        assert (sent.flatten() + left - given).abs().max() <= 1e-6 * given.abs().max()


def equal_chunks(fill):
    """All chunks have the same norm."""
    model = nn.Linear(16, 16, bias=False)
    ddp, _ = wrapped(model, 0.2)
    (ddp(torch.full((1, 16), fill))).sum().backward()
    return model.weight.grad.isnan().nonzero()[:, 0].unique().tolist(), model.weight.grad.sum(1)


@pytest.mark.parametrize("fill", [1.0, 0.0, math.inf])
def test_ties_go_by_index(two, fill):
    first, second = two(equal_chunks, fill)
    assert torch.equal(first[1], second[1])
    assert (first[1] != 0).nonzero().flatten().tolist() == ([0, 1, 2, 3] if fill else [])


def overflow():
    model = make()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    ddp, state = wrapped(model, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    kept = []
    for step in range(3):
        optimizer.zero_grad()
        before, velocity = weights_of(model), state.state_dict()["velocity"]
        is_bad = step == 1 and dist.get_rank() == 1
        scaler.scale(loss_of(ddp, step) * (math.inf if is_bad else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        after = state.state_dict()["velocity"]
        kept.append(
            all(map(torch.equal, before, weights_of(model)))
            and all(torch.equal(velocity[name], after[name]) for name in after)
        )
    return kept, weights_of(model)


def test_all_ranks_take_back_a_step_that_overflows(two):
    (first, a), (second, b) = two(overflow)
    assert first == second == [False, True, False]
    assert all(map(torch.equal, a, b))


def mistaken():
    ddp, _ = wrapped(make(), chunk_elems=CHUNK + dist.get_rank())
    loss_of(ddp, 0).backward()


def test_ranks_with_other_chunks_all_raise(two):
    found = two(mistaken)
    assert all(isinstance(one, Raised) and "other arguments" in one.text for one in found), found


def test_wrong_arguments():
    for options, text in (
        ({"chunk_elems": 0}, "1 or more, not 0"),
        ({"chunk_elems": 16, "vectors": "quantised"}, 'vectors is "dense" or "f16"'),
        ({"chunk_elems": 16, "mesh": object()}, "mesh or chunk_elems, not both"),
    ):
        with pytest.raises(cfck.InvalidArgumentError, match=text):
            GradientCompression(make(), **options)
    with pytest.raises(TypeError, match="chunk_elems is an int, not float"):
        GradientCompression(make(), chunk_elems=1.5)
