"""FSDP2 with compressed collectives: the same weights and losses as without."""

import cfck
import cfck.distributed
import pytest
import torch
import torch.distributed as dist
from cfck._distributed import fsdp
from conftest import weights
from ranks import Raised
from torch import nn

pytest.importorskip("torch.distributed.fsdp", reason="FSDP2")
fully_shard = getattr(torch.distributed.fsdp, "fully_shard", None)
if fully_shard is None or not hasattr(torch.distributed.fsdp.FSDPModule, "set_custom_all_gather"):
    pytest.skip(
        "this torch has no FSDP2 whose collectives can be replaced", allow_module_level=True
    )


def make(mixed):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(64, 193), nn.ReLU(), nn.Linear(193, 257), nn.Linear(257, 8))
    return model.bfloat16() if mixed is None else model


def shard(model, mixed, mesh=None):
    policy = torch.distributed.fsdp.MixedPrecisionPolicy(**(mixed or {}))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def train(model, steps=4):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    dtype = next(model.parameters()).dtype
    generator = torch.Generator().manual_seed(10 + dist.get_rank())
    losses = []
    for _ in range(steps):
        x = torch.randn(16, 64, generator=generator).to(dtype)
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses, [p.full_tensor().detach().clone() for p in model.parameters()]


def compare(mixed, max_error, shape=None):
    """Training with and without compression; with ``shape``, replicas of sharded models."""
    names = ("replicate", "shard")
    mesh = shape and torch.distributed.init_device_mesh("cpu", shape, mesh_dim_names=names)
    plain = train(shard(make(mixed), mixed, mesh))
    model = shard(make(mixed), mixed, mesh)
    compression = cfck.distributed.compress_fsdp(model, max_error)
    losses, found = train(model)
    text = compression.describe()
    assert "weights:" in text and "gradients:" in text
    return plain, (losses, found), compression.weights, compression.gradients


MIXED = {
    "bf16": None,
    "f32": {},
    "bf16 of f32": {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32},
}


@pytest.mark.parametrize("mixed", MIXED.values(), ids=MIXED)
def test_two_ranks_train_to_the_same_bits(two, mixed):
    """With two ranks there is one order in which two values are added."""
    for plain, ours, weights_sent, gradients_sent in two(compare, mixed, 0.0):
        assert plain[0] == ours[0]
        assert all(torch.equal(a, b) for a, b in zip(plain[1], ours[1], strict=True))
        assert weights_sent.n_calls > 0 and weights_sent.share < 0.95
        assert gradients_sent.n_calls > 0 and gradients_sent.sent_bytes > 0


def test_hybrid_sharding_trains_to_the_same_bits(four):
    """Each shard has two ranks, and torch averages gradients over the two replicas."""
    found = four(compare, {}, 0.0, (2, 2))
    for plain, ours, weights_sent, gradients_sent in found:
        assert plain[0] == ours[0]
        assert all(torch.equal(a, b) for a, b in zip(plain[1], ours[1], strict=True))
        assert all(torch.equal(a, b) for a, b in zip(ours[1], found[0][1][1], strict=True))
        assert weights_sent.n_calls > 0 and weights_sent.share < 0.95
        assert gradients_sent.n_calls > 0 and gradients_sent.sent_bytes > 0


def test_four_ranks_gather_the_same_bits(four):
    """Sums of four gradients depend on their order, and so do the weights of later steps."""
    found = four(compare, None, 0.0)
    for plain, ours, weights_sent, _ in found:
        assert plain[0] == pytest.approx(ours[0], rel=0.02) and plain[0][0] == ours[0][0]
        assert ours[1][0].equal(found[0][1][1][0]) and weights_sent.share < 0.95


def test_gradients_with_an_error_train_as_well(two):
    for plain, ours, _, gradients in two(compare, {}, 0.01):
        assert ours[0] == pytest.approx(plain[0], rel=0.02)
        assert gradients.share < 0.5


def gather(dtype, n, async_op):
    comm = cfck.distributed.CompressedAllGather()
    rank = dist.get_rank()
    own = weights(n, seed=rank).to(dtype)
    out = comm.allocate((2 * n,), dtype=dtype, device=torch.device("cpu"))
    group = dist.group.WORLD
    work = comm(output_tensor=out, input_tensor=own, group=group, async_op=async_op)
    if async_op:
        assert isinstance(work, dist.Work)
        work.wait()
    expected = torch.cat([weights(n, seed=r).to(dtype) for r in range(2)])
    assert torch.equal(out, expected)
    assert comm.traffic.dense_bytes == own.numel() * own.element_size()
    return comm.traffic.share


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("n", [1, 100, 100_000])
def test_all_gather_into_one_tensor(two, n, async_op):
    shares = two(gather, torch.bfloat16, n, async_op)
    assert all(share <= (0.75 if n > 10_000 else 1.0) for share in shares), shares


def damaged(async_op):
    """What arrives is not what was sent."""
    honest = fsdp.encode_frame
    fsdp.encode_frame = lambda *args: honest(*args) ^ 0x55
    try:
        comm = cfck.distributed.CompressedAllGather()
        out = torch.zeros(200_000, dtype=torch.bfloat16)
        own = weights(100_000).bfloat16()
        work = comm(output_tensor=out, input_tensor=own, group=dist.group.WORLD, async_op=async_op)
        if work is not None:
            work.wait()
    finally:
        fsdp.encode_frame = honest


@pytest.mark.parametrize("async_op", [False, True])
def test_damage_is_raised_by_who_waits(two, async_op):
    found = two(damaged, async_op)
    assert all(one.kind in ("CorruptError", "ChecksumError") for one in found), found


def incompressible():
    comm = cfck.distributed.CompressedAllGather()
    own = torch.randint(256, (100_000,), dtype=torch.uint8)
    out = torch.empty(200_000, dtype=torch.uint8)
    comm(output_tensor=out, input_tensor=own, group=dist.group.WORLD)
    assert torch.equal(out.chunk(2)[dist.get_rank()], own)
    return comm.traffic.share


def test_what_cannot_be_compressed_is_sent_as_it_is(two):
    assert all(1 < share < 1.001 for share in two(incompressible))


def gradient_of(rank, step, n, dtype):
    return weights(n, seed=100 * step + rank).to(dtype)


def reduce(dtype, op, max_error, n, steps):
    """The results on this rank, and what is left of each rank."""
    comm = cfck.distributed.CompressedReduceScatter(max_error)
    rank = dist.get_rank()
    results = []
    for step in range(steps):
        out = torch.empty(n // dist.get_world_size(), dtype=dtype)
        given = gradient_of(rank, step, n, dtype)
        comm(output_tensor=out, input_tensor=given, group=dist.group.WORLD, op=op)
        results.append(out)
    return results, comm.state_dict()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_sums_in_the_order_of_the_ranks(two, dtype, op):
    n = 40_000
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    total = gradient_of(0, 0, n, dtype).to(exact) + gradient_of(1, 0, n, dtype).to(exact)
    expected = (total / (2 if op == "AVG" else 1)).to(dtype).chunk(2)
    found = two(reduce, dtype, getattr(dist.ReduceOp, op), 0.0, n, 1)
    for rank, (results, state) in enumerate(found):
        assert torch.equal(results[0], expected[rank]) and state == {}


def test_sums_of_four_in_the_order_of_the_ranks(four):
    """Floats that are added up in another order have another sum."""
    n = 4000
    a, b, c, d = (gradient_of(rank, 0, n, torch.float32) for rank in range(4))
    assert not torch.equal(((a + b) + c) + d, ((d + c) + b) + a)
    found = four(reduce, torch.float32, dist.ReduceOp.SUM, 0.0, n, 1)
    assert torch.equal(torch.cat([results[0] for results, _ in found]), ((a + b) + c) + d)


def test_what_is_lost_is_sent_later(two):
    n, steps = 40_000, 5
    found = two(reduce, torch.float32, dist.ReduceOp.SUM, 0.05, n, steps)
    for rank, (results, _) in enumerate(found):
        part = slice(rank * n // 2, (rank + 1) * n // 2)
        wanted = sum(
            gradient_of(r, step, n, torch.float32)[part].double()
            for r in range(2) for step in range(steps)
        )  # fmt: skip
        left = sum(state["residual"][part].double() for _, state in found)
        sent = sum(result.double() for result in results)
        assert (sent + left - wanted).abs().max() < 1e-6
        assert 0 < left.abs().max() < 0.01
        lossless = (
            gradient_of(0, 0, n, torch.float32)[part] + gradient_of(1, 0, n, torch.float32)[part]
        )
        assert 0 < (results[0] - lossless).abs().max() <= 0.05 * 0.0505


def not_finite(max_error):
    comm = cfck.distributed.CompressedReduceScatter(max_error)
    given = weights(20_000, seed=dist.get_rank())
    if dist.get_rank() == 1:
        given[5], given[6], given[15_000] = float("nan"), float("inf"), float("-inf")
    out = torch.empty(10_000)
    for _ in range(2):
        comm(output_tensor=out, input_tensor=given, group=dist.group.WORLD, op=dist.ReduceOp.SUM)
    assert all(t.isfinite().all() for t in comm.state_dict().values())
    return out


@pytest.mark.parametrize("max_error", [0.0, 0.01])
def test_values_that_are_not_finite_arrive(two, max_error):
    first, second = two(not_finite, max_error)
    assert first[5].isnan() and first[6] == float("inf") and second[5000] == float("-inf")
    assert first.isfinite().sum() == 9998 and second.isfinite().sum() == 9999


def resume(steps):
    """Losses and weights after some steps, and after these and others of a second object."""
    results = []
    for first in (steps, 1):
        comm = cfck.distributed.CompressedReduceScatter(0.05)
        for step in range(steps):
            if step == first:
                state = comm.state_dict()
                comm = cfck.distributed.CompressedReduceScatter(0.05)
                comm.load_state_dict(state)
            out = torch.empty(5000)
            given = gradient_of(dist.get_rank(), step, 10_000, torch.float32)
            comm(
                output_tensor=out, input_tensor=given, group=dist.group.WORLD, op=dist.ReduceOp.AVG
            )
        results.append(out)
    return torch.equal(*results)


def test_state_is_resumed_bit_for_bit(two):
    assert two(resume, 4) == [True, True]


def mistaken(kind):
    comm = cfck.distributed.CompressedReduceScatter(0.1 if kind == "state" else 0.0)
    group, rank = dist.group.WORLD, dist.get_rank()
    given, out, op = weights(20_000), torch.empty(10_000), dist.ReduceOp.SUM
    if kind == "op":
        op = dist.ReduceOp.MAX
    elif kind == "dtype":
        given = given.to(torch.int32)
    elif kind == "size" and rank:
        given, out = weights(20_002), torch.empty(10_001)
    elif kind == "error" and rank:
        comm = cfck.distributed.CompressedReduceScatter(0.1)
    elif kind == "state":
        comm.load_state_dict({"residual": torch.zeros(20_002)})
    comm(output_tensor=out, input_tensor=given, group=group, op=op)


@pytest.mark.parametrize(
    "kind, text",
    [
        ("op", "not combined by"),
        ("dtype", "cannot be summed"),
        ("size", "values, and rank"),
        ("error", "do not make the same call"),
        ("state", "a reduce-scatter of its own"),
    ],
)
def test_all_ranks_raise(two, kind, text):
    found = two(mistaken, kind)
    assert all(isinstance(one, Raised) and text in one.text for one in found), found


def test_arguments():
    for max_error in (-0.1, float("nan"), float("inf")):
        with pytest.raises(cfck.InvalidArgumentError, match="max_error"):
            cfck.distributed.CompressedReduceScatter(max_error)
    with pytest.raises(cfck.InvalidArgumentError, match="no module of the model"):
        cfck.distributed.compress_fsdp(nn.Linear(2, 2))
    with pytest.raises(cfck.InvalidArgumentError, match="no state"):
        cfck.distributed.CompressedReduceScatter().load_state_dict({"residual": torch.zeros(3)})
    assert fsdp.CompressedReduceScatter(0.1).state_dict() == {}
