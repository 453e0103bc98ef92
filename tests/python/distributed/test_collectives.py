"""all_gather() and broadcast(): what arrives is what was sent, and all ranks fail together."""

import cfck.distributed
import pytest
import torch
import torch.distributed as dist
from cfck._distributed import collectives
from conftest import TORCH_DTYPES, random_bits, weights
from ranks import Raised

SHAPES = [(), (0,), (1,), (3, 5), (2, 0, 4), (70_001,)]


def tensor_of(rank, shape, dtype):
    """Any bits, and others on each rank."""
    return random_bits(shape, dtype, seed=rank + 1)


def bits(tensor):
    return tensor.reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0)


def gather(shapes, dtype):
    own = tensor_of(dist.get_rank(), shapes[dist.get_rank()], dtype)
    found = cfck.distributed.all_gather(own)
    assert len(found) == len(shapes)
    for rank, (tensor, shape) in enumerate(zip(found, shapes, strict=True)):
        expected = tensor_of(rank, shape, dtype)
        assert tensor.shape == expected.shape and tensor.dtype == dtype
        assert torch.equal(bits(tensor), bits(expected))


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_all_gather_of_every_dtype(two, dtype):
    assert two(gather, [(3, 5), (1001,)], dtype) == [None, None]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_gather_of_every_shape(two, shape):
    assert two(gather, [shape, (4, 2)], torch.bfloat16) == [None, None]
    assert two(gather, [shape, shape], torch.float32) == [None, None]


def gather_large():
    """Several pieces, and views that are not contiguous."""
    own = weights(1500, 1000, seed=dist.get_rank()).t()
    found = cfck.distributed.all_gather(own)
    for rank, tensor in enumerate(found):
        assert torch.equal(tensor, weights(1500, 1000, seed=rank).t())


def test_all_gather_of_several_pieces(two):
    assert two(gather_large) == [None, None]


def send(shape, dtype, src):
    tensor = tensor_of(dist.get_rank(), shape, dtype)
    cfck.distributed.broadcast(tensor, src)
    assert torch.equal(bits(tensor), bits(tensor_of(src, shape, dtype)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("src", [0, 1])
def test_broadcast(two, dtype, src):
    assert two(send, (17, 60), dtype, src) == [None, None]
    assert two(send, (), dtype, src) == [None, None]
    assert two(send, (3, 0), dtype, src) == [None, None]


def send_to_parameter():
    layer = torch.nn.Linear(30, 40)
    cfck.distributed.broadcast(layer.weight, src=1)
    return layer.weight.detach()


def test_broadcast_to_a_parameter_and_a_view(two):
    first, second = two(send_to_parameter)
    assert torch.equal(first, second)


def in_a_group_of_one():
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    own = weights(100)
    (found,) = cfck.distributed.all_gather(own, group=groups[dist.get_rank()])
    cfck.distributed.broadcast(own, dist.get_rank(), group=groups[dist.get_rank()])
    return torch.equal(found, own)


def test_a_group_that_is_not_the_default(two):
    assert two(in_a_group_of_one) == [True, True]


def mistaken(kind):
    rank = dist.get_rank()
    tensor = weights(100)
    if kind == "dtype":
        cfck.distributed.all_gather(tensor if rank else tensor.half())
    elif kind == "size":
        cfck.distributed.broadcast(tensor if rank else weights(99))
    elif kind == "call":
        if rank:
            cfck.distributed.broadcast(tensor)
        else:
            cfck.distributed.all_gather(tensor)
    elif kind == "src":
        cfck.distributed.broadcast(tensor, src=rank)
    elif kind == "encode":
        cfck.distributed.all_gather(tensor if rank else tensor.view([1] * 64 + [100]))
    elif kind == "kind":
        cfck.distributed.all_gather(tensor if rank else tensor.to_sparse())


@pytest.mark.parametrize(
    "kind, text",
    [
        ("dtype", "of another dtype"),
        ("size", "has 99"),
        ("call", "do not make the same call"),
        ("src", "do not make the same call"),
        ("encode", "could not encode"),
        ("kind", "could not encode"),
    ],
)
def test_ranks_that_differ_all_raise(two, kind, text):
    found = two(mistaken, kind)
    assert all(isinstance(one, Raised) for one in found), found
    assert any(text in one.text for one in found), found
    assert two(gather, [(3,), (4,)], torch.float32) == [None, None]  # nobody waits for anybody


def damaged():
    """Rank 1 sends what is not a message."""
    honest = collectives.encode_frame
    if dist.get_rank() == 1:
        collectives.encode_frame = lambda *args: honest(*args) ^ 0x55
    try:
        return cfck.distributed.all_gather(weights(100))
    finally:
        collectives.encode_frame = honest


def test_damage_is_raised(two):
    found = two(damaged)
    assert all(one.kind in ("CorruptError", "ChecksumError") for one in found), found
