"""What a step leaves that fails on one rank."""

import gc
import math

import torch
import torch.distributed as dist
from cfck.distributed import GradientCompression, LocalSteps
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def fail(*args):
    raise OSError("out of order")


def move(model):
    generator = torch.Generator().manual_seed(dist.get_rank())
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)


def meet_again():
    """The largest residual after a meeting that failed on rank 1, and the mean after the next."""
    torch.manual_seed(2)
    model = nn.Linear(20, 50)
    local = LocalSteps(model, every=1, ratio=1.0, bits=None)
    begin = model.weight.detach().clone()
    move(model)
    mine = model.weight.detach() - begin
    honest = local._codec.encode
    if dist.get_rank() == 1:
        local._codec.encode = fail
    try:
        local.step()
    except Exception as error:
        kind = type(error).__name__
    local._codec.encode = honest
    residual = max(float(one.abs().max()) for one in local.state_dict()["residual"].values())
    local.step()
    dist.all_reduce(mine)
    return kind, residual, float((model.weight.detach() - begin - mine / 2).abs().max())


def test_a_meeting_that_fails_counts_nothing_twice(two):
    for rank, (kind, residual, error) in enumerate(two(meet_again)):
        assert kind == ("OSError" if rank else "CfckError")
        assert residual == 0 and error < 1e-6


def go_on():
    """A step fails in its second bucket; a state is loaded; the next step overflows at once."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(20, 50), nn.Linear(50, 30), nn.Linear(30, 4))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    state = GradientCompression(model, 0.1, scaler=scaler)

    def wrap():
        ddp = DistributedDataParallel(model, bucket_cap_mb=0.002)
        ddp.register_comm_hook(state, GradientCompression.hook)
        return ddp

    def backward(ddp):
        scaler.scale(ddp(torch.randn(8, 20)).square().mean()).backward()

    ddp = wrap()
    backward(ddp)  # now there are several buckets
    codec = state._replica.codec
    encode, calls = codec.encode, []

    def encode_once(tensors):
        calls.append(tensors)
        return encode(tensors) if len(calls) == 1 else fail()

    codec.encode = encode_once
    try:
        backward(ddp)
    except Exception as error:
        kind = type(error).__name__
    codec.encode = encode
    loaded = state.state_dict()
    for tensor in loaded["velocity"].values():
        tensor.fill_(7.0)
    state.load_state_dict(loaded)
    del ddp
    gc.collect()  # the hooks of the old one
    if dist.get_rank() == 0:
        model[2].weight.register_hook(lambda g: torch.full_like(g, math.inf))
    backward(wrap())
    return kind, [float(t.min()) for t in state.state_dict()["velocity"].values()]


def test_a_state_that_is_loaded_after_a_step_that_failed(two):
    for kind, values in two(go_on):
        assert kind in ("OSError", "CfckError")
        assert set(values) == {7.0}
