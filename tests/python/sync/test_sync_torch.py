"""cfck.sync with tensors and modules of torch, and without torch."""

import subprocess
import sys

import cfck
import numpy as np
import pytest
import torch
from cfck.sync import Follower, Publisher
from conftest import TORCH_DTYPES, assert_same, random_bits
from torch import nn


class Net(nn.Module):
    """With a buffer, tied weights, a scalar and memory that is not contiguous."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 30)
        self.second = nn.Linear(30, 20, bias=False)
        self.tied = nn.Linear(20, 30, bias=False)
        self.tied.weight = self.first.weight
        self.norm = nn.BatchNorm1d(20)
        self.turned = nn.Parameter(torch.randn(7, 9).t())

    def forward(self, x):
        return self.norm(self.second(self.first(x).relu() + self.tied(x)))


def step(model, optimizer):
    loss = model(torch.randn(16, 20)).square().mean() + model.turned.square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def assert_equal_states(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert_same(tensor, other[name])


@pytest.mark.parametrize("keep_vars", [False, True])
def test_modules(tmp_path, keep_vars):
    torch.manual_seed(0)
    trained, sampled, other = Net(), Net(), Net()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    parameter, version_before = sampled.turned, sampled.turned._version
    followers = [Follower(tmp_path), Follower(tmp_path)]
    with Publisher(tmp_path, keyframe_every=3) as publisher:
        for _ in range(8):
            step(trained, optimizer)
            version = publisher.publish(trained.state_dict(keep_vars=keep_vars))
            assert followers[0].poll(sampled) == version
            assert followers[0].poll(sampled) is None
            assert followers[1].poll(other.state_dict()) == version  # fills what it refers to
            assert followers[1].poll(other.state_dict()) is None
            assert_equal_states(trained.state_dict(), sampled.state_dict())
            assert_equal_states(trained.state_dict(), other.state_dict())
    assert sampled.turned is parameter and parameter._version > version_before
    assert sampled.tied.weight is sampled.first.weight and parameter.requires_grad


def test_every_dtype(tmp_path):
    model, follower = {}, Follower(tmp_path)
    with Publisher(tmp_path) as publisher:
        for seed in range(3):
            state = {
                str(dtype): random_bits((33, 8), dtype, seed // 2) for dtype in TORCH_DTYPES
            } | {"none": torch.empty(0, 5), "one": torch.tensor(seed)}
            publisher.publish(state)
            follower.poll(model)
            assert_equal_states(model, state)


def test_models_of_inference_mode(tmp_path):
    with torch.inference_mode():
        model = Net()
    follower = Follower(tmp_path)
    with Publisher(tmp_path) as publisher:
        for version in (1, 2):
            state = Net().state_dict()
            publisher.publish(state)
            assert follower.poll(model) == version
            assert_equal_states(model.state_dict(), state)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (nn.Linear(20, 30), r"does not fit the model: the model lacks 'more'; strict=False"),
        (nn.Sequential(nn.Linear(20, 30)), r"the version lacks '0.bias', '0.weight', and the mod"),
        (nn.Linear(20, 31), r"`bias` of the model .* filled: it is F32 \[31\], and F32 \[30\] in"),
        (
            nn.Linear(20, 30).bfloat16(),
            r"`bias` of the model .* filled: it is BF16 \[30\], and F32",
        ),
        (nn.Linear(20, 30, device="meta"), "`bias` of the model .* filled: it has no memory"),
    ],
)
def test_models_that_do_not_fit_are_not_changed(tmp_path, other, said):
    state = nn.Linear(20, 30).state_dict()
    with Publisher(tmp_path) as publisher:
        publisher.publish({**state, "more": torch.ones(3)} if "more" in said else state)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    follower = Follower(tmp_path)
    with pytest.raises(cfck.InvalidArgumentError, match=said):
        follower.poll(other)
    for name, tensor in other.state_dict().items():
        assert tensor.is_meta or torch.equal(tensor, before[name])
    assert follower.status().version is None
    fitting = nn.Linear(20, 30)
    assert Follower(tmp_path, strict=False).poll(fitting) == 1
    assert torch.equal(fitting.weight, state["weight"])


class Wrapped(nn.Module):
    """As DistributedDataParallel and others wrap a model."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def wrapped():
    return Wrapped(nn.Linear(20, 30))


def compiled():
    return torch.compile(nn.Linear(20, 30))


def compiled_inside():
    return nn.ModuleDict({"a": compiled(), "b": Wrapped(compiled())})


def plain_inside():
    return nn.ModuleDict({"a": nn.Linear(20, 30), "b": wrapped()})


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("published", "followed", "said"),
    [
        (nn.Linear(20, 30), wrapped(), "the model begin with `module.`.*give poll.. model.module;"),
        (nn.Linear(20, 30), compiled(), "begin with `_orig_mod.`.*give poll.. model._orig_mod;"),
        (nn.Linear(20, 30), Wrapped(compiled()), "give poll.. model.module._orig_mod;"),
        (wrapped(), nn.Linear(20, 30), "version begin with `module.`.*publish model.module.state_"),
        (wrapped(), compiled(), "version begin with `module.`, and those of the model with `_orig"),
        (plain_inside(), compiled_inside(), "by the `_orig_mod.` of torch.compile: publish and"),
        (nn.Linear(20, 30), nn.ReLU(), "model lacks 'bias', 'weight', and no name is in both"),
    ],
)
def test_models_without_a_name_of_the_version_are_refused(
    tmp_path, published, followed, said, strict
):
    with Publisher(tmp_path) as publisher:
        publisher.publish(published.state_dict())
    follower = Follower(tmp_path, strict=strict)
    with pytest.raises(cfck.InvalidArgumentError, match=said):
        follower.poll(followed)
    assert follower.status().version is None


def test_tied_parameters_of_other_values_are_refused(tmp_path):
    state = {name: tensor.clone() for name, tensor in Net().state_dict().items()}
    state["tied.weight"] += 1
    with Publisher(tmp_path) as publisher:
        publisher.publish(state)
    model = Net()
    before = model.first.weight.clone()
    with pytest.raises(cfck.InvalidArgumentError, match="the model ties `tied.weight` and `first"):
        Follower(tmp_path).poll(model)
    assert torch.equal(model.first.weight, before)


def test_parameters_that_overlap_are_refused_where_they_differ(tmp_path):
    def model_of(matrix):
        model = torch.nn.Module()
        model.left = torch.nn.Parameter(matrix[:, :30])
        model.right = torch.nn.Parameter(matrix[:, 10:])
        return model

    trained, followed = model_of(torch.ones(20, 40)), model_of(torch.zeros(20, 40))
    with Publisher(tmp_path) as publisher:
        publisher.publish(trained.state_dict())
        assert Follower(tmp_path).poll(followed) == 1
        assert all(parameter.all() for parameter in followed.parameters())
        publisher.publish({name: torch.rand(20, 30) for name in ("left", "right")})
        with pytest.raises(cfck.InvalidArgumentError, match="`left`|`right`"):
            Follower(tmp_path).poll(followed)
        assert all(bool((parameter == 1).all()) for parameter in followed.parameters())


def test_expanded_buffers_are_refused_before_anything_is_filled(tmp_path):
    model = torch.nn.Linear(4, 3)
    model.register_buffer("scale", torch.zeros(1).expand(50))
    before = model.weight.detach().clone()
    with Publisher(tmp_path) as publisher:
        publisher.publish({n: torch.ones_like(t) for n, t in model.state_dict().items()})
    with pytest.raises(cfck.UnsupportedError, match="`scale`.*elements that share memory"):
        Follower(tmp_path).poll(model)
    assert torch.equal(model.weight, before)


def test_numpy_and_torch_follow_each_other(tmp_path):
    """What is published by one can be followed with the other, by one follower too."""
    follower = Follower(tmp_path)
    for version, module in enumerate((torch, np, torch), 1):
        with Publisher(tmp_path, resume=True) as publisher:
            publisher.publish({"w": module.ones((30, 30)) * version, "b": module.arange(5)})
        for model in ({"w": torch.zeros(1)}, {"w": np.zeros(1)}):
            assert follower.poll(model) == version
            assert type(model["w"]) is type(model["b"])
            assert float(model["w"].sum()) == 900 * version


def test_numpy_alone_does_not_import_torch(tmp_path):
    program = f"""
import sys, numpy as np
from cfck.sync import Publisher, Follower
weights, model = {{"w": np.arange(9)}}, {{}}
with Publisher({str(tmp_path)!r}, resume=True) as publisher:
    for _ in range(3):
        publisher.publish(weights)
assert Follower({str(tmp_path)!r}).poll(model) == 3 and (model["w"] == weights["w"]).all()
assert Follower({str(tmp_path)!r}, on_tensors=print).poll() == 3
print([name for name in sys.modules if name == "torch" or name.startswith("torch.")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]" and done.stderr == ""


def test_a_module_is_no_state_dict(tmp_path):
    with Publisher(tmp_path) as publisher:
        with pytest.raises(ValueError, match=r"not Net; pass its state_dict\(\)"):
            publisher.publish(Net())


def test_keyframes_are_files_for_load_model(tmp_path):
    from cfck.torch import load_model

    model, loaded = Net(), Net()
    with Publisher(tmp_path) as publisher:
        publisher.publish(model.state_dict())
    load_model(loaded, tmp_path / "weights-1.cfck")
    assert_equal_states(model.state_dict(), loaded.state_dict())


def test_what_is_on_a_device_is_copied_once(tmp_path, monkeypatch):
    """With tensors that only say that they are elsewhere; some are, and some are not."""
    from cfck._frameworks.torch_tensors import TorchFramework

    torch.manual_seed(0)
    trained, model, follower = Net(), {}, Follower(tmp_path)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    with Publisher(tmp_path, keyframe_every=4) as publisher:
        for _ in range(6):
            step(trained, optimizer)
            state = trained.state_dict()
            away = {state[name].data_ptr() for name in ("first.weight", "turned", "norm.bias")}
            with monkeypatch.context() as patched:
                patched.setattr(
                    TorchFramework,
                    "device_of",
                    lambda self, tensor, away=away: (
                        torch.device("cuda") if tensor.data_ptr() in away else None
                    ),
                )
                version = publisher.publish(state)
            assert follower.poll(model) == version
            assert_equal_states(model, state)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_weights_of_a_device(tmp_path):
    torch.manual_seed(0)
    trained, sampled = Net().cuda(), Net().cuda()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    follower, model = Follower(tmp_path), {}
    with Publisher(tmp_path, keyframe_every=3) as publisher:
        for version in range(1, 8):
            loss = trained(torch.randn(16, 20, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            publisher.publish(trained.state_dict())
            assert follower.poll(sampled) == version
            for name, tensor in trained.state_dict().items():
                assert_same(tensor.cpu(), sampled.state_dict()[name].cpu())
            assert sampled.first.weight.is_cuda
    Follower(tmp_path).poll(model)
    assert not model["first.weight"].is_cuda
