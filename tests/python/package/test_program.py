"""python -m cfck COMMAND is the program `cfck`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from cfck.numpy import save_file


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs python -m cfck."""
    command = [sys.executable, "-m", "cfck", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_command_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "model.cfck")
    save_file({"w": np.arange(12, dtype="f4").reshape(3, 4)}, path)
    shown = run("inspect", "--json", path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["n_records"] == 1
    assert run("verify", path).returncode == 0
    missing = run("verify", str(tmp_path / "none.cfck"))
    assert missing.returncode == 3
    assert missing.stderr.startswith("cfck verify: error:")


def test_wrong_commands_are_those_of_the_program() -> None:
    refused = run("compress", "x")
    assert refused.returncode == 2
    assert "did you mean 'convert'" in refused.stderr
    assert run("--version").stdout.startswith("cfck ")
