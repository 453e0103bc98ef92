"""Deep gradient compression: nothing is lost, ranks stay equal, and they fail together."""

import copy
import math
import warnings

import cfck
import pytest
import torch
import torch.distributed as dist
from cfck.distributed import GradientCompression, MomentumWarning
from conftest import weights
from ranks import Raised
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def make(seed=3, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 30), nn.Linear(30, 4)).to(
        dtype
    )


def batch(step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return torch.randn(8, 20, generator=generator).to(dtype)


def train(model, state, optimizer, steps=STEPS, ddp_options=None, no_sync=False):
    """Weights after each step."""
    ddp = DistributedDataParallel(model, **(ddp_options or {}))
    if state is not None:
        ddp.register_comm_hook(state, GradientCompression.hook)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        if no_sync:
            with ddp.no_sync():
                ddp(batch(50 + step)).float().square().mean().backward()
        ddp(batch(step, next(model.parameters()).dtype)).float().square().mean().backward()
        optimizer.step()
        found.append([p.detach().clone() for p in model.parameters()])
    return found


def compressed(ratio, options, ddp_options=None, steps=STEPS, dtype=torch.float32):
    model = make(dtype=dtype)
    state = GradientCompression(model, ratio, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    return train(model, state, optimizer, steps, ddp_options), state.state_dict(), state.traffic


def same_on_all_ranks(found):
    first, *others = [weights_of_steps for weights_of_steps, *_ in found]
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


OPTIONS = {
    "default": {},
    "nesterov": {"nesterov": True},
    "without momentum": {"momentum": 0.0},
    "f16 vectors": {"vectors": "f16"},
    "dense vectors": {"vectors": "dense"},
    "lossless": {"value_error": 0.0},
    "unmasked": {"masks_momentum": False},
    "clip value": {"clip_value": 1e-3},
    "clip norm": {"clip_norm": 1e-2},
    "clip global norm": {"clip_global_norm": 1e-2},
    "decay": {"weight_decay": 0.01},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("ratio", [0.01, 0.3])
def test_ranks_stay_equal(two, ratio, options):
    found = two(compressed, ratio, options)
    same_on_all_ranks(found)
    first, _, traffic = found[0]
    assert not torch.equal(first[0][0], first[-1][0])
    assert traffic.n_calls == STEPS and traffic.sent_bytes > 0


def test_four_ranks_stay_equal(four):
    same_on_all_ranks(four(compressed, 0.1, {}, {"bucket_cap_mb": 0.002}))


DDP = {
    "views": {"gradient_as_bucket_view": True},
    "static graph": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
    "many buckets": {"bucket_cap_mb": 0.002},
}


@pytest.mark.parametrize("ddp_options", DDP.values(), ids=DDP)
def test_options_of_ddp(two, ddp_options):
    same_on_all_ranks(two(compressed, 0.1, {}, ddp_options))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats(two, dtype):
    same_on_all_ranks(two(compressed, 0.1, {}, None, 3, dtype))


def with_another_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        return compressed(0.1, {"vectors": "dense"}, None, 2)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_default_dtype_does_not_count(two):
    same_on_all_ranks(two(with_another_default_dtype))


def dense_and_ratio_one(nesterov, decay):
    model, other = make(), make()
    sgd = torch.optim.SGD(
        model.parameters(), 0.05, momentum=0.9, nesterov=nesterov, weight_decay=decay
    )
    expected = train(model, None, sgd)
    state = GradientCompression(other, 1.0, nesterov=nesterov, weight_decay=decay)
    found = train(other, state, torch.optim.SGD(other.parameters(), 0.05))
    return [
        max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))
        for a, b in zip(expected, found, strict=True)
    ]


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_ratio_one_is_sgd(two, nesterov, decay):
    for errors in two(dense_and_ratio_one, nesterov, decay):
        assert max(errors) < 1e-6


def conserved(value_error, ratio):
    """What was sent and what is left, against the sum of all gradients."""
    model = make()
    state = GradientCompression(model, ratio, momentum=0.0, value_error=value_error)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    sent = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    local = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    plain = copy.deepcopy(model)
    for step in range(STEPS):
        ddp.zero_grad()
        ddp(batch(step)).square().mean().backward()
        plain.zero_grad()
        plain(batch(step)).square().mean().backward()
        for total, p in zip(sent, model.parameters(), strict=True):
            total += p.grad
        for total, p in zip(local, plain.parameters(), strict=True):
            total += p.grad
    return sent, local, state.state_dict()["velocity"]


@pytest.mark.parametrize("value_error", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("ratio", [0.02, 0.5])
def test_nothing_is_lost(two, value_error, ratio):
    found = two(conserved, value_error, ratio)
    for i, name in enumerate(found[0][2]):
        sent = found[0][0][i].flatten()
        given = sum(local[i].flatten() for _, local, _ in found) / 2
        left = sum(velocity[name].double() for _, _, velocity in found) / 2
        assert (sent + left - given).abs().max() <= 1e-6 * given.abs().max()


def large(value):
    """What arrives of a gradient of a bias that F16 cannot have, or whose sum it cannot."""
    model = nn.Linear(20, 4)
    state = GradientCompression(model, 0.5, momentum=0.0, vectors="f16")
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    model.bias.register_hook(lambda g: torch.full_like(g, value))
    ddp(batch(0)).sum().backward()
    return float(model.bias.grad[0]), float(state.state_dict()["velocity"]["bias"][0])


@pytest.mark.parametrize("value", [5e4, -1e6])
def test_f16_keeps_what_is_too_large_for_it(two, value):
    for sent, left in two(large, value):
        assert math.isfinite(sent) and sent + left == value
    assert two(large, math.inf) == [(math.inf, 0.0)] * 2


def warm_up():
    model = make()
    state = GradientCompression(model, 0.001, warmup_epochs=4)
    ratios = []
    for epoch in range(6):
        state.set_epoch(epoch)
        ratios.append(state.ratio)
    listed = GradientCompression(model, 0.001, warmup_epochs=[0.25, 0.0625])
    listed.set_epoch(1)
    return ratios, listed.ratio, state.describe()


def test_warm_up(two):
    ratios, listed, text = two(warm_up)[0]
    factor = 0.001**0.2
    assert ratios == pytest.approx([factor, factor**2, factor**3, factor**4, 0.001, 0.001])
    assert listed == 0.0625 and "epoch 5, ratio 0.001" in text


def resumed(how):
    model = make()
    state = GradientCompression(model, 0.05)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)

    def steps(ddp, optimizer, first, last):
        for step in range(first, last):
            optimizer.zero_grad()
            ddp(batch(step)).square().mean().backward()
            optimizer.step()

    steps(ddp, optimizer, 0, 3)
    saved, kept = copy.deepcopy(model.state_dict()), state.state_dict()
    steps(ddp, optimizer, 3, 6)
    other = make(seed=4)
    other.load_state_dict(saved)
    again = GradientCompression(other, 0.05)
    if how == "file":
        kept = cfck.torch.load_checkpoint(cfck.torch.save_checkpoint(kept))
    again.load_state_dict(kept)
    ddp = DistributedDataParallel(other)
    ddp.register_comm_hook(again, GradientCompression.hook)
    steps(ddp, torch.optim.SGD(other.parameters(), 0.05), 3, 6)
    return all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )


def test_resuming_is_exact(two):
    assert two(resumed, "memory") == [True, True]


def test_states_of_ranks_are_merged():
    model = make()
    states = []
    for seed in range(4):
        state = GradientCompression(model, 0.05).state_dict()
        for part in ("velocity", "momentum"):
            state[part] = {n: weights(t.numel(), seed=seed) for n, t in state[part].items()}
        states.append(state)
    merged = GradientCompression.merge_states(states)
    for name, tensor in merged["velocity"].items():
        mean = sum(state["velocity"][name].double() for state in states) / 4
        assert torch.allclose(tensor.double(), mean, atol=1e-7)
    GradientCompression(model).load_state_dict(merged)
    with pytest.raises(cfck.InvalidArgumentError, match="no states"):
        GradientCompression.merge_states([])


def overflow(rank_with_inf, ddp_options):
    """A step with an infinite gradient in the last bucket, on one rank, between others."""
    model = make()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    state = GradientCompression(model, 0.05, scaler=scaler)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    ddp = DistributedDataParallel(model, **ddp_options)
    ddp.register_comm_hook(state, GradientCompression.hook)
    scales, kept = [], []
    for step in range(7):
        optimizer.zero_grad()
        loss = ddp(batch(step)).square().mean()
        if step == 3 and dist.get_rank() == rank_with_inf:
            handle = model[0].weight.register_hook(lambda g: torch.full_like(g, math.inf))
        before = copy.deepcopy((model.state_dict(), state.state_dict()))
        scaler.scale(loss).backward()
        if step == 3 and dist.get_rank() == rank_with_inf:
            handle.remove()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        after = model.state_dict(), state.state_dict()
        same = all(torch.equal(before[0][n], after[0][n]) for n in before[0]) and all(
            torch.equal(before[1][part][n], after[1][part][n])
            for part in ("velocity", "momentum") for n in before[1][part]
        )  # fmt: skip
        kept.append(same)
    return scales, kept, [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("ddp_options", [{}, {"bucket_cap_mb": 0.002}], ids=["one", "many"])
def test_all_ranks_take_back_a_step_that_overflows(two, rank, ddp_options):
    first, second = two(overflow, rank, ddp_options)
    assert first[0] == second[0] and first[0][3] == first[0][2] / 2
    assert first[1] == second[1] == [False, False, False, True, False, False, False]
    for a, b in zip(first[2], second[2], strict=True):
        assert torch.equal(a, b) and a.isfinite().all()


def test_four_ranks_take_back_a_step_that_overflows(four):
    found = four(overflow, 2, {"bucket_cap_mb": 0.002})
    for scales, kept, weights_of_rank in found:
        assert scales == found[0][0] and scales[3] == scales[2] / 2
        assert kept == [False, False, False, True, False, False, False]
        assert all(map(torch.equal, weights_of_rank, found[0][2]))


def not_finite(how):
    model = make()
    state = GradientCompression(model, 0.05, not_finite=how)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    x = batch(0)
    if dist.get_rank() == 1:
        x[0, 0] = math.nan
    ddp(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters()], state.state_dict()


def test_values_that_are_not_finite_are_sent(two):
    (first, _), (second, _) = two(not_finite, "send")
    assert any(g.isnan().any() for g in first)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.isnan(), b.isnan())


def test_values_that_are_not_finite_raise(two):
    found = two(not_finite, "raise")
    assert all(isinstance(one, Raised) for one in found)
    assert any("not finite" in one.text for one in found)
    assert any("could not encode" in one.text for one in found)


def accumulated(steps):
    model = make()
    state = GradientCompression(model, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    return train(model, state, optimizer, steps, no_sync=True), None


def test_gradients_accumulated_without_sync(two):
    same_on_all_ranks(two(accumulated, 3))


def uneven():
    """Rank 1 has two batches more."""
    model = make()
    state = GradientCompression(model, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    with ddp.join():
        for step in range(3 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            ddp(batch(step)).square().mean().backward()
            optimizer.step()
    return [[p.detach().clone() for p in model.parameters()]], None


def test_join_with_uneven_inputs(two):
    same_on_all_ranks(two(uneven))


def compiled():
    torch._dynamo.reset()
    model = make()
    state = GradientCompression(model, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    forward = torch.compile(ddp, backend="aot_eager")
    for step in range(3):
        optimizer.zero_grad()
        forward(batch(step)).square().mean().backward()
        optimizer.step()
    return [[p.detach().clone() for p in model.parameters()]], None


def test_a_compiled_model(two):
    same_on_all_ranks(two(compiled))


def registered_twice():
    ddp = DistributedDataParallel(make())
    state = GradientCompression(ddp.module, 0.1)
    ddp.register_comm_hook(state, GradientCompression.hook)
    ddp.register_comm_hook(state, GradientCompression.hook)


def test_a_hook_that_is_registered_twice(two):
    assert all(isinstance(one, Raised) and "register" in one.text for one in two(registered_twice))


def another_model():
    ddp = DistributedDataParallel(make())
    ddp.register_comm_hook(GradientCompression(make(), 0.1), GradientCompression.hook)
    ddp(batch(0)).square().mean().backward()


def test_a_state_of_another_model(two):
    found = two(another_model)
    assert all(isinstance(one, Raised) and "another model" in one.text for one in found), found


def damaged():
    """Rank 1 sends packets that are not what it says."""
    model = make()
    state = GradientCompression(model, 0.1)
    if dist.get_rank() == 1:
        honest = state._replica.codec.encode

        def encode(tensors):
            packet, decoded = honest(tensors)
            return packet ^ 0x55, decoded

        state._replica.codec.encode = encode
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    ddp(batch(0)).square().mean().backward()


def test_damaged_packets(two):
    found = two(damaged)
    assert all(isinstance(one, Raised) and "packet" in one.text for one in found), found


def mistaken(kind):
    rank = dist.get_rank()
    model = make()
    state = GradientCompression(model, 0.1 if kind != "ratio" or rank else 0.2)
    if kind == "epoch":
        state = GradientCompression(model, 0.1, warmup_epochs=3)
        state.set_epoch(rank)
    elif kind == "options":
        state = GradientCompression(model, 0.1, nesterov=bool(rank))
    elif kind == "clipping" and rank:
        state = GradientCompression(model, 0.1, clip_global_norm=1.0)
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, GradientCompression.hook)
    ddp(batch(0)).square().mean().backward()


@pytest.mark.parametrize("kind", ["ratio", "epoch", "options", "clipping"])
def test_ranks_that_differ_all_raise(two, kind):
    found = two(mistaken, kind)
    assert all(isinstance(one, Raised) and "other arguments" in one.text for one in found), found


def test_wrong_arguments():
    model = make()
    for ratio in (0, -0.1, 1.1, float("nan")):
        with pytest.raises(cfck.InvalidArgumentError, match="ratio"):
            GradientCompression(model, ratio)
    for options in (
        {"momentum": 1.0}, {"momentum": -0.1}, {"vectors": "none"}, {"not_finite": "drop"},
        {"warmup_epochs": -1}, {"warmup_epochs": [0.5, 2]}, {"clip_norm": 0.0},
        {"clip_norm": 1.0, "clip_value": 1.0}, {"value_error": -1},
    ):  # fmt: skip
        with pytest.raises(cfck.InvalidArgumentError):
            GradientCompression(model, **options)
    with pytest.raises(cfck.UnsupportedError, match="complex64"):
        GradientCompression(nn.Linear(2, 2, dtype=torch.complex64))
    state = GradientCompression(model)
    with pytest.raises(cfck.InvalidArgumentError, match="other parameters"):
        state.load_state_dict(GradientCompression(nn.Linear(2, 2)).state_dict())
    with pytest.raises(cfck.InvalidArgumentError, match="other parameters in momentum"):
        state.load_state_dict(GradientCompression(model, momentum=0).state_dict())
    with pytest.raises(cfck.InvalidArgumentError, match="epoch"):
        state.set_epoch(-1)


def test_momentum_twice_is_a_warning():
    model = make()
    for optimizer in (
        torch.optim.AdamW(model.parameters()),
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
    ):
        with pytest.warns(MomentumWarning, match="momentum of its own"):
            GradientCompression(model, optimizer=optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            GradientCompression(model, momentum=0, optimizer=optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GradientCompression(model, optimizer=torch.optim.SGD(model.parameters(), 0.1))
