"""What is wrong with a call is said before anything is sent, with the name of the argument."""

import cfck.distributed
import numpy as np
import pytest
import torch
import torch.distributed as dist
from cfck.distributed import (
    CompressedReduceScatter,
    GradientCodec,
    GradientCompression,
    LocalSteps,
    all_gather,
    broadcast,
    compress_fsdp,
    select_largest,
)
from torch import nn
from torch.distributed.fsdp import fully_shard


@pytest.mark.parametrize("call", [
    lambda: all_gather(torch.zeros(3)),
    lambda: broadcast(torch.zeros(3)),
    lambda: LocalSteps(nn.Linear(2, 2)),
])  # fmt: skip
def test_without_a_process_group(call):
    assert not dist.is_initialized()
    with pytest.raises(cfck.InvalidArgumentError, match=r"call torch.distributed.init_process_gr"):
        call()


def outside():
    group = dist.new_group([0])
    if dist.get_rank() == 0:
        return len(all_gather(torch.zeros(3), group=group))
    with pytest.raises(cfck.InvalidArgumentError, match="rank 1 does not belong to the group"):
        all_gather(torch.zeros(3), group=group)
    with pytest.raises(TypeError, match="a group is a torch.distributed.ProcessGroup, not str"):
        broadcast(torch.zeros(3), group="gloo")
    return 1


def test_ranks_outside_of_the_group(two):
    assert two(outside) == [1, 1]


MODEL = nn.Linear(2, 2)


@pytest.mark.parametrize("call, message", [
    (lambda: all_gather([1.0]), "tensor is a torch.Tensor, not list"),
    (lambda: broadcast(3), "tensor is a torch.Tensor, not int"),
    (lambda: broadcast(torch.zeros(3), "0"), "src is an int, not str: '0'"),
    (lambda: GradientCompression({}), "model is a torch.nn.Module, not dict"),
    (lambda: GradientCompression(MODEL, "x"), "ratio is a number, not str: 'x'"),
    (lambda: GradientCompression(MODEL, momentum="0.9"), "momentum is a number, not str"),
    (lambda: GradientCompression(MODEL, weight_decay=None), "weight_decay is a number, not None"),
    (lambda: GradientCompression(MODEL, nesterov=1), "nesterov is a bool, not int"),
    (lambda: GradientCompression(MODEL, masks_momentum="no"), "masks_momentum is a bool, not str"),
    (lambda: GradientCompression(MODEL, warmup_epochs="4"), "warmup_epochs is a number of epochs"),
    (lambda: GradientCompression(MODEL, warmup_epochs=["a"]), "warmup_epochs is a number, not str"),
    (lambda: GradientCompression(MODEL, warmup_epochs=True), "warmup_epochs is an int, not bool"),
    (lambda: GradientCompression(MODEL, clip_norm="1"), "clip_norm is a number, not str"),
    (lambda: GradientCompression(MODEL, clip_global_norm="1"), "clip_global_norm is a number"),
    (lambda: GradientCompression(MODEL, value_error="1"), "value_error is a number, not str"),
    (lambda: GradientCompression(MODEL).set_epoch(0.5), "epoch is an int, not float"),
    (lambda: GradientCodec().encode([torch.zeros(3)]), "SparseGradient.*, and not of Tensor"),
    (lambda: GradientCompression.hook(None, None), "the state of the hook is a Gradient"),
    (lambda: GradientCodec("0.1"), "value_error is a number, not str"),
    (lambda: select_largest([1.0], 1), "tensor is a torch.Tensor, not list"),
    (lambda: select_largest(torch.zeros(3), 1.0), "k is an int, not float"),
    (lambda: CompressedReduceScatter("0.1"), "max_error is a number, not str"),
    (lambda: compress_fsdp({}), "model is a torch.nn.Module, not dict"),
    (lambda: LocalSteps({}), "model is a torch.nn.Module, not dict"),
    (lambda: LocalSteps(MODEL, "30"), "every is an int, not str"),
    (lambda: LocalSteps(MODEL, 0.5), "every is an int, not float"),
    (lambda: LocalSteps(MODEL, bits=2.5), "bits is an int, not float"),
    (lambda: LocalSteps(MODEL, ratio="0.1"), "ratio is a number, not str"),
    (lambda: LocalSteps(MODEL, outer_lr="1"), "outer_lr is a number, not str"),
    (lambda: LocalSteps(MODEL, decay="1"), "decay is a number, not str"),
])  # fmt: skip
def test_types(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_integers_may_be_those_of_numpy_and_torch():
    assert select_largest(torch.arange(4.0), np.int64(1)).tolist() == [3]
    state = GradientCompression(MODEL, 0.1, warmup_epochs=np.int64(3), chunk_elems=torch.tensor(4))
    same = GradientCompression(MODEL, 0.1, warmup_epochs=3, chunk_elems=4)
    for one, epoch in ((state, np.uint8(1)), (same, 1)):
        one.set_epoch(epoch)
    assert state.ratio == same.ratio and type(state.state_dict()["epoch"]) is int
    tensors = list(state._replica.tensors.values())
    assert state._replica.fingerprint(0.1, tensors) == same._replica.fingerprint(0.1, tensors)


def wrapped_models():
    replica = nn.Linear(2, 2)
    with pytest.raises(cfck.InvalidArgumentError, match="wrapped by DistributedDataParallel"):
        LocalSteps(nn.parallel.DistributedDataParallel(replica))
    steps = LocalSteps(replica, every=2)
    for _ in range(3):
        steps.step()
    with pytest.raises(cfck.InvalidArgumentError, match=r"one of \[0, 1\], not 2"):
        broadcast(torch.zeros(3), src=2)
    sharded = nn.Linear(2, 2)
    fully_shard(sharded)
    for make in (GradientCompression, LocalSteps):
        with pytest.raises(cfck.UnsupportedError, match=r"weight is a DTensor.*compress_fsdp\(\)"):
            make(sharded)
    return steps.describe()


def test_models_that_are_wrapped_already_and_roots_outside_of_the_group(two):
    for text in two(wrapped_models):
        assert text.startswith("3 steps, 1 meetings: ") and text.endswith("of 72"), text
