"""Models that somebody else writes to between two versions."""

import warnings

import numpy as np
import pytest
import torch
from cfck.sync import Follower, Publisher, SyncWarning


def weights(step):
    """A tensor that changes with each step, and two that never do."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((200, 300)).astype(np.float32)
    matrix[step] += 1
    frozen = rng.standard_normal((50, 30)).astype(np.float32)
    frozen[3, 4] = np.nan  # which is not equal to itself
    return {"matrix": matrix, "frozen": frozen, "norm": np.ones(40, np.float32)}


def tensors(step):
    return {name: torch.from_numpy(array) for name, array in weights(step).items()}


def module():
    made = torch.nn.Module()
    for name, tensor in tensors(0).items():
        made.register_parameter(name, torch.nn.Parameter(torch.zeros_like(tensor)))
    # Not contiguous.
    made.frozen = torch.nn.Parameter(torch.zeros(30, 50).t())
    return made


def bytes_of(tensor):
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.detach().contiguous().numpy()
    return tensor.astype(tensor.dtype.newbyteorder("=")).tobytes()


def assert_is(model, step):
    found = dict(model.named_parameters()) if isinstance(model, torch.nn.Module) else model
    assert found.keys() == weights(step).keys()
    for name, array in weights(step).items():
        assert bytes_of(found[name]) == array.tobytes(), name


def numpy_dict():
    return {"frozen": np.zeros((50, 30), ">f4"), "norm": np.zeros(40, np.float32)}


@pytest.mark.parametrize("keyframe", [False, True])
@pytest.mark.parametrize("make", [module, dict, numpy_dict], ids=["module", "pt", "np"])
def test_tensors_that_a_version_keeps_are_made_right_and_named(tmp_path, make, keyframe):
    model = make()
    follower = Follower(tmp_path, framework="np" if make is numpy_dict else "pt")
    with Publisher(tmp_path) as publisher:
        publisher.publish(weights(0))
        follower.poll(model)
        assert_is(model, 0)
        found = dict(model.named_parameters()) if make is module else model
        with torch.no_grad():
            found["norm"][5] = 7
            found["frozen"][1, 2] = -1
            found["matrix"][1, 2] = 9
        assert follower.poll(model) is None  # it does not show before there is a version
        publisher.publish(weights(1), keyframe=keyframe)
        with pytest.warns(SyncWarning, match="wrote to 'frozen', 'norm' of the model.* version 2"):
            assert follower.poll(model) == 2
        assert_is(model, 1)
        publisher.publish(weights(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert follower.poll(model) == 3
        assert_is(model, 2)


def test_a_state_that_was_loaded_into_the_model_does_not_stay(tmp_path):
    model, follower = module(), Follower(tmp_path)
    older = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with Publisher(tmp_path) as publisher:
        publisher.publish(tensors(0))
        follower.poll(model)
        model.load_state_dict(older)
        assert follower.poll(model) is None
        publisher.publish(tensors(1))
        with pytest.warns(SyncWarning, match="'frozen', 'norm' of the model"):
            assert follower.poll(model) == 2
    assert_is(model, 1)


def test_what_a_receiver_writes_to_is_read_again(tmp_path):
    """Also where it is a tensor that the patch does not change."""
    got = []

    def take(version, received):
        got.append({name: array.copy() for name, array in received.items()})
        if version == 1:
            received["frozen"][0] = 5

    follower = Follower(tmp_path, on_tensors=take, framework="np")
    with Publisher(tmp_path) as publisher:
        publisher.publish(weights(0))
        follower.poll()
        publisher.publish(weights(1))
        with pytest.warns(SyncWarning, match=r"weights-2\.cfck: .*other values.*frozen"):
            assert follower.poll() == 2
    assert list(got[1]) == ["matrix"]
    assert got[1]["matrix"].tobytes() == weights(1)["matrix"].tobytes()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_of_a_device_are_made_right(tmp_path):
    model, follower = module().cuda(), Follower(tmp_path)
    with Publisher(tmp_path) as publisher:
        publisher.publish(tensors(0))
        follower.poll(model)
        with torch.no_grad():
            model.norm[5] = 7
        publisher.publish(tensors(1))
        with pytest.warns(SyncWarning, match="'norm' of the model"):
            assert follower.poll(model) == 2
    assert_is(model.cpu(), 1)
