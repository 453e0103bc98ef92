"""States that are damaged or of something else: an error says so, and nothing was changed."""

import cfck
import pytest
import torch
from cfck.distributed import GradientCompression, LocalSteps
from torch import nn


def damage(state, part, count, how):
    last = list(state[part])[-1]
    tensor = state[part][last]
    changed = {
        "no part": {part: None},
        "no count": {count: None},
        "list": {part: list(state[part].values())},
        "shape": {part: {**state[part], last: tensor.view(1, -1)}},
        "no tensor": {part: {**state[part], last: tensor.tolist()}},
        "complex": {part: {**state[part], last: tensor.to(torch.complex64)}},
        "sparse": {part: {**state[part], last: tensor.to_sparse()}},
        "meta": {part: {**state[part], last: tensor.to("meta")}},
        "word": {count: "x"},
        "negative": {count: -3},
    }[how]
    found = {**state, **changed}
    if how.startswith("no ") and how != "no tensor":
        del found[next(iter(changed))]
    return found


DAMAGE = {
    "no part": "has no ",
    "no count": "has no ",
    "list": "has a tensor for each parameter",
    "shape": "dense tensor of one dimension",
    "no tensor": "is a tensor, not list",
    "complex": "dense tensor of one dimension",
    "sparse": "dense tensor of one dimension",
    "meta": "dense tensor of one dimension",
    "word": "is an integer",
    "negative": "is an integer",
}


def refused(kind, how):
    model = nn.Linear(20, 50)
    if kind == "gradients":
        state, part, count = GradientCompression(model), "velocity", "epoch"
    else:
        state, part, count = LocalSteps(model), "residual", "n_steps"
    given = state.state_dict()
    for tensor in given[part].values():
        tensor.fill_(7.0)
    with pytest.raises(cfck.InvalidArgumentError, match=DAMAGE[how]):
        state.load_state_dict(damage(given, part, count, how))
    return all(not tensor.any() for tensor in state.state_dict()[part].values())


@pytest.mark.parametrize("kind", ["gradients", "local steps"])
@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_states(two, kind, how):
    assert two(refused, kind, how) == [True, True]


def test_what_is_no_state():
    for given in (None, [], 3):
        with pytest.raises(cfck.InvalidArgumentError, match="a state is what state_dict"):
            GradientCompression(nn.Linear(2, 2)).load_state_dict(given)


def test_states_that_do_not_belong_together():
    one = GradientCompression(nn.Linear(20, 50)).state_dict()
    other = GradientCompression(nn.Linear(20, 51)).state_dict()
    with pytest.raises(cfck.InvalidArgumentError, match="weight in velocity has 1000 values in"):
        GradientCompression.merge_states([one, other])
    with pytest.raises(cfck.InvalidArgumentError, match="epoch is 0 in one state and 3"):
        GradientCompression.merge_states([one, {**one, "epoch": 3}])
    with pytest.raises(cfck.InvalidArgumentError, match="has no momentum"):
        GradientCompression.merge_states([one, {"epoch": 0, "velocity": one["velocity"]}])
