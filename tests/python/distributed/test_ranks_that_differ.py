"""Ranks that do different things: all of them say so, and none waits for the others."""

import pytest
import torch
import torch.distributed as dist
from cfck.distributed import CompressedReduceScatter, GradientCompression, all_gather, broadcast
from ranks import Raised
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CALLS = {
    "all_gather": lambda: all_gather(torch.zeros(5)),
    "broadcast": lambda: broadcast(torch.zeros(5)),
    "reduce_scatter": lambda: CompressedReduceScatter()(
        torch.zeros(50), torch.zeros(100), dist.group.WORLD, dist.ReduceOp.SUM
    ),
}


def average(options=None, call=None):
    """One step of a small model with the options of this rank; or a call in place of the step."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 4))
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(
        GradientCompression(model, 0.1, **(options or {})), GradientCompression.hook
    )
    if call is None:
        ddp(torch.ones(8, 20)).square().mean().backward()
    else:
        CALLS[call]()


def all_raise(found, text):
    assert all(isinstance(one, Raised) and text in one.text for one in found), found


def another_call(call):
    average(call=call if dist.get_rank() else None)


@pytest.mark.parametrize("call", CALLS)
def test_the_hook_on_one_rank_and_another_call_on_the_other(two, call):
    found = two(another_call, call)
    all_raise(found, f"{call}")
    all_raise(found, "do not make the same call")


OPTIONS = {
    "clip_global_norm": 1.0,
    "clip_norm": 1.0,
    "vectors": "dense",
    "scaler": torch.amp.GradScaler("cpu", enabled=False),
    "value_error": 0.0,
}


def another_option(name):
    average({name: OPTIONS[name]} if dist.get_rank() else {})


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_on_one_rank_alone(two, name):
    all_raise(two(another_option, name), "other arguments")
