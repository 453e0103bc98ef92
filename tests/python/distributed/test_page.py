"""docs/distributed.md: the program of the page runs with the command of the page."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import torch
from cfck.torch import load_checkpoint

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "distributed.md").read_text(encoding="utf-8")


def test_the_first_program_runs_on_two_ranks(tmp_path):
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    name, *arguments = shlex.split(re.search(r"^    (torchrun .*)$", PAGE, re.M)[1])
    assert (name, arguments[-1]) == ("torchrun", "train.py")
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    # A port of its own, so that several runs on one machine do not meet.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^losses: \[[\d.]+, [\d.]+\]$", done.stdout, re.M), done.stdout
    first, second = (load_checkpoint(tmp_path / f"run-{rank}.cfck") for rank in range(2))
    for key, tensor in first["model"].items():
        assert torch.equal(tensor, second["model"][key])
