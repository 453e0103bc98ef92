"""Ranks that do different things: all of them say so, and none waits for the others."""

import pytest
import torch
import torch.distributed as dist
from cfck.distributed import (
    CompressedReduceScatter,
    GradientCompression,
    LocalSteps,
    all_gather,
    broadcast,
)
from ranks import Raised
from torch import nn
from torch.distributed.tensor import DTensor, Shard, init_device_mesh
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


def reduces(kind):
    n = 101 if kind == "uneven" else 100
    comm = CompressedReduceScatter(0.1)
    if kind == "state" and dist.get_rank():
        comm.load_state_dict({"residual": torch.zeros(7)})
    comm(torch.zeros(50), torch.ones(n), dist.group.WORLD, dist.ReduceOp.SUM)


def test_a_reduce_scatter_that_one_rank_cannot_do(two):
    first, second = two(reduces, "state")
    all_raise([first], "rank 1 could not encode")
    all_raise([second], "a reduce-scatter of its own")
    all_raise(two(reduces, "uneven"), "2 ranks get 50 values each, and the gradient has 101")


def fills(kind):
    """A broadcast from rank 0 to a tensor of rank 1 that cannot be filled."""
    tensor = torch.zeros(4, 4)
    if dist.get_rank():
        tensor = {
            "expanded": torch.zeros(1, 4).expand(4, 4),
            "sparse": tensor.to_sparse(),
            "meta": tensor.to("meta"),
        }[kind]
    broadcast(tensor)


@pytest.mark.parametrize(
    "kind, text",
    [("expanded", "the same memory"), ("sparse", "torch.sparse_coo"), ("meta", "device meta")],
)
def test_a_broadcast_that_one_rank_cannot_take(two, kind, text):
    first, second = two(fills, kind)
    all_raise([first], "rank 1 could not encode")
    all_raise([second], text)


def sends_dtensor(is_broadcast):
    mesh = init_device_mesh("cpu", (2,))
    tensor = DTensor.from_local(torch.zeros(10), mesh, [Shard(0)])
    broadcast(tensor) if is_broadcast else all_gather(tensor)


@pytest.mark.parametrize("is_broadcast", [True, False])
def test_tensors_whose_values_are_on_several_ranks(two, is_broadcast):
    all_raise(two(sends_dtensor, is_broadcast), "a DTensor are not in its own memory")


def fills_inference():
    with torch.inference_mode():
        tensor = torch.full((4,), float(dist.get_rank() + 1))
    broadcast(tensor)
    return tensor.tolist()


def test_a_broadcast_to_a_tensor_of_inference_mode(two):
    assert two(fills_inference) == [[1.0] * 4] * 2


def another_option(name):
    average({name: OPTIONS[name]} if dist.get_rank() else {})


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_on_one_rank_alone(two, name):
    all_raise(two(another_option, name), "other arguments")


LOCAL_OPTIONS = {
    "every": 3,
    "ratio": 0.5,
    "bits": 4,
    "outer_lr": 0.5,
    "outer_momentum": 0.5,
    "decay": 0.5,
}


def local_steps(name):
    model = nn.Linear(20, 50)
    if dist.get_rank() and name == "names":
        model = nn.Sequential(model)
    elif dist.get_rank() and name == "frozen":
        model.bias.requires_grad_(False)
    given = name in LOCAL_OPTIONS and dist.get_rank()
    LocalSteps(model, **({name: LOCAL_OPTIONS[name]} if given else {}))


@pytest.mark.parametrize("name", [*LOCAL_OPTIONS, "names", "frozen"])
def test_local_steps_of_other_options_or_models(two, name):
    all_raise(two(local_steps, name), "other arguments")


def replaces(how):
    model = nn.Sequential(nn.Linear(20, 50), nn.Linear(50, 4))
    if how == "trainable":
        model[1].bias.requires_grad_(False)
    local = LocalSteps(model, every=1)
    if how == "trainable":
        model[1].bias.requires_grad_(True)
    else:
        model[1].bias = nn.Parameter(torch.ones(4))
    local.step()


@pytest.mark.parametrize("how", ["trainable", "replaced"])
def test_parameters_that_local_steps_does_not_know(two, how):
    all_raise(two(replaces, how), "1.bias was replaced, added or made trainable")


def loads_alone():
    model = nn.Linear(20, 50)
    local = LocalSteps(model, every=2)
    if dist.get_rank():
        local.load_state_dict({**local.state_dict(), "n_steps": 2})
    local.step()
    local.step()


def test_a_state_that_one_rank_alone_loads(two):
    all_raise(two(loads_alone), "other arguments")


def without_parameters():
    return [LocalSteps(nn.ReLU(), every=1).step() for _ in range(2)]


def test_a_model_without_parameters(two):
    assert two(without_parameters) == [[True, True]] * 2


def test_the_rate_of_local_steps(two):
    all_raise(two(local_rate), "outer_lr is a positive number")


def local_rate():
    LocalSteps(nn.Linear(2, 2), outer_lr=float("nan"))
