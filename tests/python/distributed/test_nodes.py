"""Gradient compression between nodes: each is as a rank with the mean of its gradients."""

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

device_mesh = pytest.importorskip("torch.distributed.device_mesh", reason="DeviceMesh")

STEPS = 4
# Rows are nodes. In the second one neither rows nor columns have the order of the ranks.
MESHES = [[[0, 1], [2, 3]], [[0, 2], [3, 1]]]


def make():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 30), nn.Linear(30, 4))


def batch(step, part):
    return torch.randn(8, 20, generator=torch.Generator().manual_seed(100 * step + part))


def loss_of(ddp, step, part):
    return ddp(batch(step, part)).square().mean()


def prepare(options, rows, ddp_options=None):
    model = make()
    mesh = None if rows is None else device_mesh.DeviceMesh("cpu", rows)
    state = GradientCompression(model, options.pop("ratio", 0.05), mesh=mesh, **options)
    ddp = DistributedDataParallel(model, **(ddp_options or {}))
    ddp.register_comm_hook(state, GradientCompression.hook)
    return model, state, ddp, torch.optim.SGD(model.parameters(), 0.05)


def train(ddp, optimizer, rows, first=0, last=STEPS):
    """A rank of a node has one part of the data. Without nodes it has those of a whole node."""
    rank = dist.get_rank()
    for step in range(first, last):
        optimizer.zero_grad()
        if rows is None:
            with ddp.no_sync():
                (loss_of(ddp, step, 2 * rank) / 2).backward()
            (loss_of(ddp, step, 2 * rank + 1) / 2).backward()
        else:
            (part,) = [2 * i + row.index(rank) for i, row in enumerate(rows) if rank in row]
            loss_of(ddp, step, part).backward()
        optimizer.step()


def weights_of(model):
    return [p.detach().clone() for p in model.parameters()]


def run(options, rows, ddp_options=None):
    model, state, ddp, optimizer = prepare(dict(options), rows, ddp_options)
    train(ddp, optimizer, rows)
    return weights_of(model), state.state_dict(), state.traffic, state.traffic_within


def all_equal(found):
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


OPTIONS = {
    "lossless": {"value_error": 0.0},
    "dense vectors, nesterov, decay": {
        "value_error": 0.0, "vectors": "dense", "nesterov": True, "weight_decay": 0.01,
    },
    "f16 vectors": {"value_error": 0.0, "vectors": "f16", "clip_norm": 0.1},
    "clip global norm": {"value_error": 0.0, "clip_global_norm": 0.1},
    "all values": {"ratio": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_node_is_a_rank_with_the_mean_of_its_gradients(two, four, options):
    expected = two(run, options, None)
    rows = MESHES[list(OPTIONS.values()).index(options) % 2]
    found = four(run, options, rows, {"bucket_cap_mb": 0.002})
    all_equal([weights for weights, *_ in expected + found])
    for node, row in enumerate(rows):
        for part in ("velocity", "momentum"):
            # Each parameter is on one rank of the node, and has what the other run has.
            parts = [found[rank][1][part] for rank in row]
            assert sum(map(len, parts)) == len({**parts[0], **parts[1]}) == 6
            assert all(0 < len(one) < 6 for one in parts)
            for name, tensor in {**parts[0], **parts[1]}.items():
                assert torch.equal(tensor, expected[node][1][part][name])


def test_quantised_values_and_traffic(two, four):
    options = {"ratio": 0.5}
    whole = two(run, options, None)[0][2]
    found = four(run, options, MESHES[0])
    all_equal([weights for weights, *_ in found])
    for *_, traffic, within in found:
        assert traffic.n_calls == within.n_calls == STEPS
        # Half of the values, beside what each packet and each agreement takes.
        assert traffic.sent_bytes < 0.75 * whole.sent_bytes
        assert within.dense_bytes < within.sent_bytes < 1.5 * within.dense_bytes


def overflow(rows):
    model = make()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=100)
    mesh = device_mesh.DeviceMesh("cpu", rows)
    state = GradientCompression(model, 0.05, scaler=scaler, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.002)
    ddp.register_comm_hook(state, GradientCompression.hook)
    kept = []
    for step in range(3):
        optimizer.zero_grad()
        before = copy.deepcopy((weights_of(model), state.state_dict()))
        loss = loss_of(ddp, step, dist.get_rank())
        if step == 1 and dist.get_rank() == 3:
            handle = model[0].weight.register_hook(lambda g: torch.full_like(g, math.inf))
        scaler.scale(loss).backward()
        if step == 1 and dist.get_rank() == 3:
            handle.remove()
        scaler.step(optimizer)
        scaler.update()
        velocity = state.state_dict()["velocity"]
        kept.append(
            all(torch.equal(a, b) for a, b in zip(before[0], weights_of(model), strict=True))
            and all(torch.equal(before[1]["velocity"][n], velocity[n]) for n in velocity)
        )
    return kept, scaler.get_scale(), weights_of(model)


def test_all_nodes_take_back_a_step_that_overflows_on_one_rank(four):
    found = four(overflow, MESHES[0])
    assert all(kept == [False, True, False] and scale == 2.0**9 for kept, scale, _ in found)
    all_equal([weights for *_, weights in found])


def uneven(rows):
    """Rank 3 has two batches more."""
    model, _, ddp, optimizer = prepare({}, rows)
    with ddp.join():
        train(ddp, optimizer, rows, 0, 4 if dist.get_rank() == 3 else 2)
    return weights_of(model)


def test_join_with_uneven_inputs(four):
    all_equal(four(uneven, MESHES[0]))


def resumed(rows):
    model, state, ddp, optimizer = prepare({}, rows)
    train(ddp, optimizer, rows, 0, 2)
    saved, kept = copy.deepcopy(model.state_dict()), state.state_dict()
    train(ddp, optimizer, rows, 2, 4)
    other, again, ddp, optimizer = prepare({}, rows)
    other.load_state_dict(saved)
    again.load_state_dict(kept)
    train(ddp, optimizer, rows, 2, 4)
    same = all(map(torch.equal, weights_of(model), weights_of(other)))
    states = [None] * 4
    dist.all_gather_object(states, kept)
    merged = GradientCompression.merge_states(states)
    again.load_state_dict(merged)
    wrong = states[rows[0][1] if dist.get_rank() == rows[0][0] else rows[0][0]]
    with pytest.raises(cfck.InvalidArgumentError, match="other parameters in velocity: .* merge"):
        again.load_state_dict(wrong if dist.get_rank() in rows[0] else {**kept, "velocity": {}})
    return same, states, merged


def test_states(four):
    found = four(resumed, MESHES[1])
    assert all(same for same, *_ in found)
    _, states, merged = found[0]
    for name, tensor in merged["velocity"].items():
        of_nodes = [state["velocity"][name] for state in states if name in state["velocity"]]
        assert len(of_nodes) == 2
        assert torch.equal(tensor, (of_nodes[0].double() + of_nodes[1].double()).div(2).float())
    GradientCompression(make(), 0.05).load_state_dict(merged)
    with pytest.raises(cfck.InvalidArgumentError, match="is in 2 states, and .* in 1: give"):
        GradientCompression.merge_states(states[:3])


def mistaken(kind):
    rank = dist.get_rank()
    rows = MESHES[0]
    if kind == "none" and rank == 3:
        device_mesh.DeviceMesh("cpu", rows)  # which all ranks make together
        rows = None
    _, state, ddp, optimizer = prepare({"ratio": 0.2 if kind == "ratio" and rank else 0.1}, rows)
    if kind == "damage" and rank == 1:
        honest = state._replica.codec.encode
        state._replica.codec.encode = lambda tensors: [
            honest(tensors)[0] ^ 0x55,
            honest(tensors)[1],
        ]
    train(ddp, optimizer, MESHES[0], 0, 1)


@pytest.mark.parametrize(
    "kind, text",
    [("ratio", "other arguments"), ("damage", "packet"), ("none", "other arguments")],
)
def test_all_ranks_raise(four, kind, text):
    found = four(mistaken, kind)
    assert all(isinstance(one, Raised) and text in one.text for one in found), found


def wrong():
    mesh_of = device_mesh.DeviceMesh
    group = dist.new_group([0])
    for mesh, kind, text in (
        (mesh_of("cpu", [0, 1]), cfck.InvalidArgumentError, "two dimensions, .* not 1"),
        (((0, 1),), TypeError, "mesh is a DeviceMesh of torch.distributed, not tuple"),
    ):
        with pytest.raises(kind, match=text):
            GradientCompression(make(), mesh=mesh)
    mesh = mesh_of("cpu", [[0, 1]])
    if dist.get_rank() == 0:
        with pytest.raises(cfck.InvalidArgumentError, match="the mesh has the ranks"):
            GradientCompression(make(), mesh=mesh, process_group=group)
    state = GradientCompression(make(), mesh=mesh)
    return state.describe()


def test_wrong_meshes(two):
    assert all("within the node: 0 bytes" in text for text in two(wrong))
