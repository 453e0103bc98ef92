"""Parameters that no rank uses in a step: what is kept for them is not lost."""

import copy

import pytest
import torch
import torch.distributed as dist
from cfck.distributed import GradientCompression
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Branches(nn.Module):
    """One of two layers, and then a third one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList([nn.Linear(20, 50), nn.Linear(20, 50)])
        self.last = nn.Linear(50, 4)

    def forward(self, x, which):
        return self.last(self.layers[which](x))


def batch(step):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return torch.randn(8, 20, generator=generator)


def used(step, is_alternate):
    """The layer: that of all ranks, or another one on each."""
    return step % 2 if is_alternate else (step + dist.get_rank()) % 2


def conserved(is_alternate, to_none, ddp_options):
    """By how much what was applied and what is left differ from all gradients, at most."""
    model = Branches()
    plain = copy.deepcopy(model)
    state = GradientCompression(model, 0.05, momentum=0.0, weight_decay=0.0)
    ddp = DistributedDataParallel(model, find_unused_parameters=True, **ddp_options)
    ddp.register_comm_hook(state, GradientCompression.hook)
    applied = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    given = [torch.zeros_like(one) for one in applied]
    for step in range(6):
        for totals, module, call in ((applied, model, ddp), (given, plain, plain)):
            module.zero_grad(set_to_none=to_none)
            call(batch(step), used(step, is_alternate)).square().mean().backward()
            for total, parameter in zip(totals, module.parameters(), strict=True):
                if parameter.grad is not None:
                    total += parameter.grad
    errors = []
    left = state.state_dict()["velocity"].values()
    for sent, total, residual in zip(applied, given, left, strict=True):
        both = torch.stack([total.flatten(), residual.double()])
        dist.all_reduce(both)
        total, residual = both / 2
        errors.append(float((sent.flatten() + residual - total).abs().max() / total.abs().max()))
    return max(errors)


@pytest.mark.parametrize("is_alternate", [True, False])
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}], ids=["", "views"])
def test_nothing_is_lost(two, is_alternate, to_none, options):
    assert max(two(conserved, is_alternate, to_none, options)) < 1e-6


def against_sgd(is_alternate):
    found = []
    for is_plain in (True, False):
        model = Branches()
        ddp = DistributedDataParallel(model, find_unused_parameters=True)
        momentum = {"momentum": 0.9, "weight_decay": 0.01}
        if not is_plain:
            state = GradientCompression(model, 1.0, **momentum)
            ddp.register_comm_hook(state, GradientCompression.hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, **(momentum if is_plain else {}))
        for step in range(6):
            optimizer.zero_grad()
            ddp(batch(step), used(step, is_alternate)).square().mean().backward()
            optimizer.step()
        found.append([p.detach().clone() for p in model.parameters()])
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("is_alternate", [True, False])
def test_ratio_one_is_sgd_without_gradients_too(two, is_alternate):
    assert max(two(against_sgd, is_alternate)) < 1e-6


def zeros():
    """Gradients of zeros of parameters that are used: with momentum, weights go on moving."""
    found = []
    for is_plain in (True, False):
        torch.manual_seed(1)
        model = nn.Linear(20, 4)
        ddp = DistributedDataParallel(model)
        if not is_plain:
            ddp.register_comm_hook(GradientCompression(model, 1.0), GradientCompression.hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9 if is_plain else 0.0)
        for step in range(4):
            optimizer.zero_grad()
            ((step < 2) * ddp(batch(step))).square().mean().backward()
            optimizer.step()
        found.append(model.weight.detach().clone())
    return float((found[0] - found[1]).abs().max())


def test_gradients_of_zeros_are_gradients(two):
    assert max(two(zeros)) < 1e-6
