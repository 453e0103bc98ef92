"""The example of a trainer and a sampler, and the code on the page about them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from cfck.sync import Follower, Publisher
from cfck.torch import load_file

ROOT = Path(__file__).parents[3]


def run(*arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "sync_weights.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_processes(tmp_path):
    """Twice into one folder: the second run goes on behind the first."""
    for _ in range(2):
        lines = run("--steps", 23, "--folder", tmp_path)
        assert len(lines) == 23
        for step, line in enumerate(lines, 1):
            assert line.startswith(f"step {step}: loss ")
            assert "the sampler has the same bits: True" in line
        losses = [float(line.split()[3].rstrip(",")) for line in lines]
        assert losses[-1] < losses[0] - 1
    model: dict[str, torch.Tensor] = {}
    assert Follower(tmp_path).poll(model) == 46
    keyframe = load_file(tmp_path / "weights-44.cfck")  # the 21st of the second run
    assert keyframe["head.weight"].dtype == model["head.weight"].dtype == torch.bfloat16
    assert not torch.equal(keyframe["head.weight"], model["head.weight"])


def blocks() -> list[str]:
    page = (ROOT / "docs" / "sync.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def test_code_of_the_page(tmp_path, monkeypatch):
    """Blocks that are no sketches run as they are printed, one after another."""
    monkeypatch.chdir(tmp_path)
    model, sampler = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)
    names = {"model": model, "sampler": sampler, "steps": range(3)}
    names["train_step"] = lambda model: torch.nn.init.normal_(model.weight)
    ran = 0
    for block in blocks():
        if "sketch" not in block.splitlines()[0]:
            exec(block, names)
            ran += 1
    assert ran >= 2
    assert torch.equal(model.weight, sampler.weight)


class Engine:
    """Stands for sglang's and vLLM's engines, with the calls that the sketches make."""

    def __init__(self, *arguments, **named):
        self.got: dict[str, torch.Tensor] = {}

    def update_weights_from_tensor(self, named_tensors, load_format=None, flush_cache=True):
        self.got.update((name, tensor.clone()) for name, tensor in named_tensors)

    def load_weights(self, weights):
        self.got.update((name, tensor.clone()) for name, tensor in weights)


@pytest.mark.parametrize("kind", ["sglang", "vllm"])
def test_sketches_follow(tmp_path, monkeypatch, kind):
    """The sketches are no more than sketches, but what they ask of cfck is real."""
    monkeypatch.chdir(tmp_path)
    (sketch,) = [block for block in blocks() if "sketch" in block and kind in block]
    state = torch.nn.Linear(3, 4).state_dict()
    with Publisher(tmp_path / "run") as publisher:
        publisher.publish(state)
    engine = Engine()
    scope: dict = {"__name__": "sketch", "FOLDER": tmp_path / "run"}
    fake = ModuleType(kind)
    fake.Engine = lambda **named: engine
    fake.LLM = lambda **named: SimpleNamespace(
        collective_rpc=lambda method, args=(): [getattr(worker, method)(*args)],
        reset_prefix_cache=lambda: None,
    )
    monkeypatch.setitem(sys.modules, kind, fake)
    worker = None
    if kind == "vllm":
        head, _, tail = sketch.partition("llm = ")
        exec(head, scope)
        worker = scope["FollowingWorker"]()
        worker.model_runner = SimpleNamespace(model=engine)
        exec("llm = " + tail, scope)
    else:
        exec(sketch, scope)
    assert engine.got.keys() == state.keys()
    assert all(torch.equal(engine.got[name], tensor) for name, tensor in state.items())
