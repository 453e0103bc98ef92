"""Training jobs that libtorch wrote in C++, resumed in Python, and the other way round."""

import os
import pathlib
import subprocess

import pytest
import torch
from cfck.torch import load_checkpoint, load_file, save_checkpoint
from conftest import assert_same
from torch import nn

PROGRAM = pathlib.Path(
    os.environ.get(
        "CFCK_LIBTORCH_JOB",
        pathlib.Path(__file__).parents[3] / "build/tests/libtorch/libtorch_job",
    )
)
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
    "LBFGS": lambda p: torch.optim.LBFGS(p, 0.1, max_iter=3),
}

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="cfck was built without libtorch")


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def train_in_cpp(optimizer, steps, out, source=None):
    done = run(optimizer, steps, out, *([source] if source else []))
    assert done.returncode == 0, done.stderr


class Job:
    """The job of libtorch_job, in Python."""

    def __init__(self, optimizer):
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Dropout(0.3), nn.Linear(10, 2))
        self.optimizer = OPTIMIZERS[optimizer](self.net.parameters())
        self.step = 0

    def load(self, path):
        saved = load_checkpoint(path)
        self.net.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step = saved["step"]
        torch.set_rng_state(saved["rng"])
        return self

    def parts(self):
        return {
            "model": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "rng": torch.get_rng_state(),
        }

    def train(self, steps):
        for _ in range(steps):
            x = torch.randn(16, 6)

            def closure(x=x):
                self.optimizer.zero_grad()
                loss = self.net(x).square().mean()
                loss.backward()
                return loss

            self.optimizer.step(closure)
            self.step += 1
        return self


def assert_same_files(one, other):
    expected, actual = load_file(one), load_file(other)
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        assert_same(actual[name], tensor)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_from_cpp_to_python_and_back(tmp_path, optimizer):
    train_in_cpp(optimizer, 6, tmp_path / "whole.cfck")
    train_in_cpp(optimizer, 3, tmp_path / "first.cfck")
    save_checkpoint(Job(optimizer).load(tmp_path / "first.cfck").parts(), tmp_path / "python.cfck")
    train_in_cpp(optimizer, 3, tmp_path / "second.cfck", tmp_path / "python.cfck")
    assert_same_files(tmp_path / "whole.cfck", tmp_path / "second.cfck")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("save", [save_checkpoint, torch.save])
def test_from_python_to_cpp_and_back(tmp_path, optimizer, save):
    whole = Job(optimizer).train(6).parts()
    save(Job(optimizer).train(3).parts(), tmp_path / "first.pt")
    train_in_cpp(optimizer, 0, tmp_path / "cpp.cfck", tmp_path / "first.pt")
    second = Job(optimizer).load(tmp_path / "cpp.cfck").train(3).parts()
    save_checkpoint(whole, tmp_path / "whole.cfck")
    save_checkpoint(second, tmp_path / "second.cfck")
    assert_same_files(tmp_path / "whole.cfck", tmp_path / "second.cfck")
    assert second["step"] == 6
    expected, actual = (parts["optimizer"]["param_groups"] for parts in (whole, second))
    assert [dict(group) for group in actual] == [dict(group) for group in expected]


def test_sgd_computes_the_same_in_both(tmp_path):
    train_in_cpp("SGD", 6, tmp_path / "whole.cfck")
    train_in_cpp("SGD", 3, tmp_path / "first.cfck")
    job = Job("SGD").load(tmp_path / "first.cfck").train(3)
    for name, tensor in job.net.state_dict().items():
        assert_same(tensor, load_file(tmp_path / "whole.cfck")["model." + name])


def test_what_libtorch_does_not_have_is_refused(tmp_path):
    job = Job("Adam")
    job.optimizer = torch.optim.Adam(job.net.parameters(), 0.01, maximize=True)
    save_checkpoint(job.parts(), tmp_path / "a.cfck")
    refused = run("Adam", 0, tmp_path / "b.cfck", tmp_path / "a.cfck")
    assert refused.returncode == 1 and "maximize" in refused.stderr
    save_checkpoint(Job("AdamW").parts(), tmp_path / "a.cfck")
    refused = run("Adam", 0, tmp_path / "b.cfck", tmp_path / "a.cfck")
    assert refused.returncode == 1 and "decoupled_weight_decay" in refused.stderr
    assert not (tmp_path / "b.cfck").exists()
